-- What links had counted elsewhere before they were imported. Totals hold it too; nothing that counts anew touches it.
create table imported (
    link_id bigint primary key,
    workspace_id bigint not null,
    clicks bigint not null,
    bots bigint not null,
    last_click bigint,
    last_hit bigint
);
