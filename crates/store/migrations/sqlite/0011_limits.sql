-- What counts towards hourly limits, so that a restart forgets none of it. Every server writes what it has counted once a second and adds
-- to what others wrote. Beside it stands whom hosts and invitations count for: limits hold for each member, with however many keys. It is a
-- row of its own for hosts, which goes with its host. Those from before count for their workspace alone.
create table limit_uses (
    kind text not null,
    subject bigint not null,
    at_ms bigint not null,
    uses bigint not null,
    primary key (kind, subject, at_ms)
) without rowid;
create index limit_uses_by_time on limit_uses (at_ms);

create table counted_domains (
    host text primary key references domains (host) on delete cascade,
    counted_for text not null
) without rowid;

alter table invites add column counted_for text;
