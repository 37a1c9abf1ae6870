-- What a key made is ended with it: with which key a key or an invitation was made, and which key a rotated one replaced. And when an
-- admin reset a member's sign-in, and who it was, until the member has seen it.
alter table api_keys add column created_with bigint;
alter table api_keys add column rotated_from bigint;
alter table invites add column created_with bigint;
alter table users add column sign_in_reset_at bigint;
alter table users add column sign_in_reset_by bigint;

create index api_keys_by_creating_key on api_keys (created_with) where created_with is not null;
create index api_keys_by_predecessor on api_keys (rotated_from) where rotated_from is not null;
create index invites_by_creating_key on invites (created_with) where created_with is not null;

-- The log knows it of keys that are there already: whoever made them, and the entry that follows a successor's is its predecessor's.
update api_keys set
    created_with = (select max(cast(substr(a.actor, 5) as bigint)) from audit a
                    where a.workspace_id = api_keys.workspace_id and a.subject = 'key:' || api_keys.id
                      and a.action = 'key.create' and a.actor like 'key:%'),
    rotated_from = (select max(cast(substr(r.subject, 5) as bigint)) from audit a
                    join audit r on r.workspace_id = a.workspace_id and r.seq = a.seq + 1 and r.action = 'key.rotate'
                    where a.workspace_id = api_keys.workspace_id and a.subject = 'key:' || api_keys.id
                      and a.action = 'key.create');
