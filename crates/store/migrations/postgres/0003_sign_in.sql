-- Signing in: who is signed in where, how many sign-ins failed, and for how long one has to wait after too many.

-- A session is known by the hash of its token. The token itself is in the browser's cookie and nowhere else.
create table sessions (
    hash text collate "C" primary key,
    user_id bigint not null references users (id),
    workspace_id bigint not null references workspaces (id),
    how text collate "C" not null,
    created_at bigint not null,
    seen_at bigint not null,
    expires_at bigint not null,
    agent text collate "C" not null,
    network text collate "C" not null
);
create index sessions_by_user on sessions (user_id, created_at);
create index sessions_by_end on sessions (expires_at);

-- Sign-ins that have not succeeded, by a keyed hash of the account or the network: what was typed is nobody's business.
create table attempts (
    subject text collate "C" primary key,
    failures bigint not null,
    since bigint not null,
    locked_until bigint not null
);
create index attempts_oldest on attempts (since);
