-- Links in the order of their clicks, for lists.
create index totals_by_clicks on totals (kind, workspace_id, clicks desc, subject desc);
