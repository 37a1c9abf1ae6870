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
