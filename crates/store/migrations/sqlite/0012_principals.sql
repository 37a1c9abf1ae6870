-- Limits on changes count a member together with whoever made them, so that making more members evades nothing. `principal` is the first
-- of those who made one another (`user:1`, `key:2`), and null for members who count for themselves. What the log says of earlier members
-- is filled in. `dismissed_stop` is the last audit entry about a reached limit that a member no longer wants to be shown.

alter table users add column principal text;
alter table users add column dismissed_stop bigint;
create index audit_stops on audit (workspace_id, seq) where action = 'auth.brake';

with recursive
    made (id, maker) as (
        select u.id,
               case when k.user_id is not null then 'user:' || k.user_id
                    when k.created_by like 'user:%' or k.created_by like 'key:%' then k.created_by
                    else a.actor end
        from users u
        join audit a on a.workspace_id = u.workspace_id and a.subject = 'user:' || u.id and a.action = 'user.create'
        left join api_keys k on a.actor = 'key:' || k.id
        where a.actor like 'user:%' or a.actor like 'key:%'
    ),
    roots (id, principal, depth) as (
        select id, maker, 1 from made
        union all
        select r.id, m.maker, r.depth + 1 from roots r join made m on r.principal = 'user:' || m.id where r.depth < 1000
    )
update users set principal = (select r.principal from roots r where r.id = users.id order by r.depth desc limit 1)
where id in (select id from made);
