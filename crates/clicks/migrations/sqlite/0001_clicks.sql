-- Clicks: raw events in the order they were stored, what they add up to, and how far each journal was read. Times are
-- milliseconds since 1970; a day, an hour and a month are counted from 1970 in UTC. There is no index on raw events but their
-- number: rollups remember in which range of numbers a link's clicks lie.

pragma application_id = 0x726c6e63; -- "rlnc"

-- One row, locked by whoever stores clicks: numbers are given in the order of commits, so that "everything after n" misses none.
create table ingest (
    id integer primary key,
    next_event bigint not null
);
insert into ingest (id, next_event) values (1, 1);

-- How far the journal of each thread of each process was read. It moves in the transaction that stores the clicks.
create table producers (
    id integer primary key,
    boot bigint not null,
    thread bigint not null,
    upto bigint not null,
    unique (boot, thread)
);

-- User agents and places repeat, so events name them by number.
create table agents (
    id integer primary key,
    ua_hash bigint not null,
    user_agent text not null,
    device text not null,
    browser text,
    browser_version text,
    system text,
    system_version text,
    last_day bigint not null,
    unique (ua_hash, user_agent)
);
create table places (
    id integer primary key,
    place text not null unique,
    country text,
    city text,
    latitude double precision,
    longitude double precision
);

create table events (
    n integer primary key,
    ts bigint not null,
    link_id bigint not null,
    workspace_id bigint not null,
    producer bigint not null,
    seq bigint not null,
    agent bigint not null,
    place bigint not null,
    prefix bigint,
    visitor bigint,
    bot boolean not null,
    referrer text,
    utm_source text,
    utm_medium text,
    utm_campaign text,
    event_id text
);
-- Clicks of our own are told apart by producer and sequence; only imported ones bring an id.
create unique index events_imported on events (event_id) where event_id is not null;

-- In which numbers a day's events lie.
create table event_days (
    day integer primary key,
    first_event bigint not null,
    last_event bigint not null
);

-- What clicks add up to. A subject is a link (kind 0), a workspace (1) or a user (2). `visitors` of an hour are those who came in
-- it, `arrivals` those whose first click of the UTC day lies in it.
create table hours (
    kind bigint not null,
    subject bigint not null,
    hour bigint not null,
    clicks bigint not null,
    bots bigint not null,
    visitors bigint not null,
    arrivals bigint not null,
    first_event bigint not null,
    last_event bigint not null,
    primary key (kind, subject, hour)
) without rowid;

-- By workspace and day first: the busiest links of a workspace are one range, a link's days are found one by one.
create table days (
    kind bigint not null,
    workspace_id bigint not null,
    day bigint not null,
    subject bigint not null,
    clicks bigint not null,
    bots bigint not null,
    visitors bigint not null,
    first_event bigint not null,
    last_event bigint not null,
    primary key (kind, workspace_id, day, subject)
) without rowid;

-- Apart, because they are long: for each dimension the clicks of people and of bots by value.
create table day_values (
    kind bigint not null,
    workspace_id bigint not null,
    day bigint not null,
    subject bigint not null,
    dimensions text not null,
    primary key (kind, workspace_id, day, subject)
);

create table months (
    kind bigint not null,
    subject bigint not null,
    month bigint not null,
    clicks bigint not null,
    bots bigint not null,
    visitors bigint not null,
    primary key (kind, subject, month)
) without rowid;

create table totals (
    kind bigint not null,
    subject bigint not null,
    workspace_id bigint not null,
    clicks bigint not null,
    bots bigint not null,
    last_click bigint,
    last_hit bigint,
    primary key (kind, subject)
) without rowid;

-- Who was seen on a day, and in which of its hours (a bit each). `fresh` is what the last batch added. Forgotten after two days.
create table seen (
    day bigint not null,
    kind bigint not null,
    subject bigint not null,
    visitor bigint not null,
    hours bigint not null,
    fresh bigint not null,
    primary key (day, kind, subject, visitor)
) without rowid;

-- Requests for codes nobody has: the most frequent of each day by name, the rest together.
create table misses (
    workspace_id bigint not null,
    day bigint not null,
    code text not null,
    misses bigint not null,
    primary key (workspace_id, day, code)
) without rowid;

-- Raw clicks before this day are not all kept any more.
create table frozen (
    workspace_id integer primary key,
    before_day bigint not null
);

-- How far exports have come.
create table exports (
    name text primary key,
    upto bigint not null,
    updated_at bigint not null
) without rowid;

-- Clicks that were not kept, by reason.
create table losses (
    reason text primary key,
    clicks bigint not null
) without rowid;
