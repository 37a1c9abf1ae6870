-- A batch is parsed once. As json every `value ->> name` parses its row again, and a link has twenty names.
drop function json_each(text);
create function json_each(batch text) returns table (value jsonb)
    language sql immutable strict parallel safe
    as $$ select jsonb_array_elements(batch::jsonb) $$;
