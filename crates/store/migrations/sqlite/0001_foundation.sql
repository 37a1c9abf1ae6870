-- The truth of an installation: workspaces, domains, links, and the audit chain that records every change of them.
-- Times are milliseconds since 1970, JSON is text, every code ever given out stays under one unique index. `integer primary key`
-- is the row's own number, so that walking by id is walking the table.

pragma application_id = 0x726c6e6b; -- "rlnk": another program's database is recognised before anything is written

create table workers (
    worker integer primary key,
    last_id bigint not null,
    holder text not null,
    leased_until bigint not null
);

create table workspaces (
    id integer primary key,
    slug text not null unique,
    name text not null,
    policy text not null,
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint
);

-- One row a workspace: the end of its audit chain, locked by whoever changes anything in it, and its count of links.
create table heads (
    workspace_id integer primary key references workspaces (id),
    seq bigint not null,
    hash text not null,
    ts bigint not null,
    links bigint not null
);

create table domains (
    host text primary key,
    workspace_id bigint not null references workspaces (id),
    is_primary boolean not null,
    created_at bigint not null
);
create index domains_by_workspace on domains (workspace_id);

create table links (
    id integer primary key,
    workspace_id bigint not null references workspaces (id),
    code text not null,
    code_folded text not null,
    generated boolean not null,
    target text not null,
    target_normalized text,
    redirect_status bigint not null,
    state text not null,
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
create unique index links_by_target on links (workspace_id, target_normalized) where target_normalized is not null;
create index links_newest on links (workspace_id, created_at desc, id desc);
create index links_by_expiry on links (workspace_id, expires_at) where expires_at is not null;

create table link_tags (
    workspace_id bigint not null,
    tag text not null,
    link_id bigint not null,
    primary key (workspace_id, tag, link_id)
) without rowid;
create index link_tags_by_link on link_tags (link_id);

-- Words come split and plain from core, so the tokenizer has nothing to decide.
create virtual table link_search using fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

create table audit (
    workspace_id bigint not null references workspaces (id),
    seq bigint not null,
    ts bigint not null,
    actor text not null,
    action text not null,
    subject text not null,
    before text,
    after text,
    prev_hash text not null,
    hash text not null,
    primary key (workspace_id, seq)
);
create index audit_by_subject on audit (workspace_id, subject, seq);
