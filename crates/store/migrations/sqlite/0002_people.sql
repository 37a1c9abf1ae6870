-- People, keys and what the API needs: members of workspaces, API keys by their hashes, one-time invitations, answers that are
-- given again to a repeated request, and indexes for lists in other orders.

create table users (
    id integer primary key,
    workspace_id bigint not null references workspaces (id),
    email text not null,
    full_name text not null,
    role text not null,
    status text not null,
    password_hash text,
    oidc_issuer text,
    oidc_subject text,
    created_at bigint not null,
    updated_at bigint not null,
    last_login_at bigint,
    last_sync_at bigint
);
-- E-mail addresses come folded. A deleted account has a placeholder, so the same person can be invited again.
create unique index users_by_email on users (workspace_id, email) where status <> 'deleted';
create unique index users_by_subject on users (workspace_id, oidc_issuer, oidc_subject) where oidc_subject is not null;
create index users_oldest on users (workspace_id, id);

-- The key itself is nowhere: only its hash.
create table api_keys (
    id integer primary key,
    workspace_id bigint not null references workspaces (id),
    user_id bigint references users (id),
    name text not null,
    prefix text not null unique,
    hash text not null,
    scopes text not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    usage_count bigint not null
);
create index api_keys_newest on api_keys (workspace_id, id desc);
create index api_keys_by_user on api_keys (user_id) where user_id is not null;

-- One-time secrets by their hashes.
create table invites (
    hash text primary key,
    user_id bigint not null references users (id),
    created_at bigint not null,
    expires_at bigint not null
);
create index invites_by_user on invites (user_id);

-- The first answer to a creation that named an Idempotency-Key, written in the transaction of the link itself.
create table idempotency (
    workspace_id bigint not null references workspaces (id),
    owner text not null,
    key text not null,
    request text not null,
    outcome text not null,
    link text not null,
    created_at bigint not null,
    primary key (workspace_id, owner, key)
) without rowid;
create index idempotency_oldest on idempotency (created_at);

-- What all nodes of an installation must agree on.
create table installation (
    name text primary key,
    value text not null
);

create index links_last_changed on links (workspace_id, updated_at desc, id desc);
create index links_by_maker on links (workspace_id, created_by, created_at desc, id desc);
-- Links that are disabled or deleted, for lists of them: mostly few among many, and without this found by reading all.
create index links_set_aside on links (workspace_id, state, created_at desc, id desc) where state <> 'active';
