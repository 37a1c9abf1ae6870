-- What is known of a host beyond whose it is: whether its workspace must prove it by DNS, and what was last seen of it there and at
-- its registry. No row is a host on the operator's word that nobody has looked at. It goes with its host, so that a host that comes
-- back begins anew. What decides whether a host answers (needed, proven, suspended) is in the log too.

create table custody (
    host text collate "C" primary key references domains (host) on delete cascade,
    needs_proof boolean not null,
    proven_at bigint,
    missing_since bigint,
    suspended_at bigint,
    points_away_since bigint,
    expires_at bigint,
    registry_checked_at bigint,
    alarmed_days bigint,
    checked_at bigint,
    note text collate "C"
);
