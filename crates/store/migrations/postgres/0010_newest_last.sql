-- Links come in the order of time. In an index that begins with the newest each goes in at the front, where pages are split in the
-- middle and stay half empty; at the end they are filled. Lists of the newest read it backwards, which costs nothing.
drop index links_newest;
create index links_newest on links (workspace_id, created_at, id);
drop index links_last_changed;
create index links_last_changed on links (workspace_id, updated_at, id);
drop index links_by_maker;
create index links_by_maker on links (workspace_id, created_by, created_at, id);
drop index links_set_aside;
create index links_set_aside on links (workspace_id, state, created_at, id) where state <> 'active';
