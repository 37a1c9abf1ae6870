-- Integrity data that is not kept beside what it protects: a digest of every credential goes into the audit log, salted so that
-- nobody can tell from the log who signs in how; and the keys that sign audit heads are remembered, so that a key that vanished
-- is noticed and a key that was rotated out still verifies what it signed.

alter table users add column credential_salt text;

create table audit_keys (
    public_key text primary key,
    first_used_at bigint not null,
    retired_at bigint,
    -- By which a later key vouches for this one, as JSON.
    statement text
);
