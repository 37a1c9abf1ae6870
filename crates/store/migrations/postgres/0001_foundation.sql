-- The truth of an installation: workspaces, domains, links, and the audit chain that records every change of them.
-- Times are milliseconds since 1970, JSON is text, every code ever given out stays under one unique index.
-- Compared text is collate "C", so that both databases sort and compare alike.

-- SQLite reads a batch of rows from one JSON text by json_each; this gives PostgreSQL the same word for it, so that a
-- batch statement is written once.
create function json_each(batch text) returns table (value json)
    language sql immutable strict parallel safe
    as $$ select json_array_elements(batch::json) $$;

-- An index needs a function that never changes its mind; convert_to does not promise that for every encoding, for UTF-8 it is so.
create function target_hash(target text) returns bytea
    language sql immutable strict parallel safe
    as $$ select sha256(convert_to(target, 'UTF8')) $$;

create table workers (
    worker bigint primary key,
    last_id bigint not null,
    holder text not null,
    leased_until bigint not null
);

create table workspaces (
    id bigint primary key,
    slug text collate "C" not null unique,
    name text not null,
    policy text not null,
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint
);

-- One row a workspace: the end of its audit chain, locked by whoever changes anything in it, and its count of links.
create table heads (
    workspace_id bigint primary key references workspaces (id),
    seq bigint not null,
    hash text not null,
    ts bigint not null,
    links bigint not null
) with (fillfactor = 50);

create table domains (
    host text collate "C" primary key,
    workspace_id bigint not null references workspaces (id),
    is_primary boolean not null,
    created_at bigint not null
);
create index domains_by_workspace on domains (workspace_id);

create table links (
    id bigint primary key,
    workspace_id bigint not null references workspaces (id),
    code text collate "C" not null,
    code_folded text collate "C" not null,
    generated boolean not null,
    target text not null,
    target_normalized text collate "C",
    redirect_status bigint not null,
    state text collate "C" not null,
    https_only boolean not null,
    no_loop boolean not null,
    expires_at bigint,
    title text,
    notes text,
    tags text not null,
    metadata text not null,
    source text not null,
    created_by text not null,
    created_at bigint not null,
    updated_at bigint not null,
    version bigint not null
);
create unique index links_by_code on links (workspace_id, code);
create index links_by_folded_code on links (workspace_id, code_folded) where not generated;
-- A btree entry holds at most 2,700 bytes and a target up to 65,536, so uniqueness is that of the target's hash.
create unique index links_by_target on links (workspace_id, target_hash(target_normalized)) where target_normalized is not null;
create index links_newest on links (workspace_id, created_at desc, id desc);
create index links_by_expiry on links (workspace_id, expires_at) where expires_at is not null;

create table link_tags (
    workspace_id bigint not null,
    tag text collate "C" not null,
    link_id bigint not null,
    primary key (workspace_id, tag, link_id)
);
create index link_tags_by_link on link_tags (link_id);

-- Words come split and plain from core, so no dictionary has anything to decide.
create table link_search (
    rowid bigint primary key,
    words tsvector not null
);
create index link_search_words on link_search using gin (words);

create table audit (
    workspace_id bigint not null references workspaces (id),
    seq bigint not null,
    ts bigint not null,
    actor text not null,
    action text collate "C" not null,
    subject text collate "C" not null,
    before text,
    after text,
    prev_hash text not null,
    hash text not null,
    primary key (workspace_id, seq)
);
create index audit_by_subject on audit (workspace_id, subject, seq);
