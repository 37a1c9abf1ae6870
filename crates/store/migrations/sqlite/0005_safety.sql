-- How many targets of existing links somebody changed lately, and until when they are stopped. One row a principal, read and written
-- under the workspace's head, so that all nodes count together.

create table brakes (
    workspace_id bigint not null references workspaces (id),
    principal text not null,
    -- JSON: [[second since 1970, changes], ...] of the last minute
    recent text not null,
    stopped_until bigint not null,
    updated_at bigint not null,
    primary key (workspace_id, principal)
) without rowid;
