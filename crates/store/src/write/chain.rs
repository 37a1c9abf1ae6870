//! The audit chain under its head row's lock.

use std::collections::BTreeMap;

use rlinks_core::audit::AuditEntry;
use rlinks_core::{Actor, Policy, Timestamp};
use serde_json::value::RawValue;

use crate::StoreError;
use crate::pool::{Dialect, Tx, read_in, run_in};
use crate::rows::json;
use crate::write::insert_batches;

/// A workspace whose head row this transaction holds.
pub(crate) struct LockedHead {
    pub(crate) slug: String,
    pub(crate) policy: Policy,
    pub(crate) deleted: bool,
    pub(crate) links: i64,
    seq: i64,
    hash: String,
    ts: Timestamp,
}

/// An entry about to be chained.
pub(crate) struct NewEntry<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) action: &'a str,
    pub(crate) subject: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

impl LockedHead {
    /// The moment of the next entry. Time in a chain never goes back, whatever the clock does.
    pub(crate) fn moment(&self, now: Timestamp) -> Timestamp {
        now.max(self.ts)
    }

    /// Chains an entry.
    pub(crate) fn push(&mut self, entry: NewEntry<'_>, now: Timestamp) -> AuditEntry {
        let raw = |side: Option<String>| {
            side.map(|text| RawValue::from_string(text).expect("our own values are JSON"))
        };
        let mut sealed = AuditEntry {
            seq: self.seq + 1,
            ts: self.moment(now),
            workspace: self.slug.clone(),
            actor: entry.actor.to_string(),
            action: entry.action.to_owned(),
            subject: entry.subject,
            before: raw(entry.before),
            after: raw(entry.after),
            prev_hash: self.hash.clone(),
            hash: String::new(),
        };
        sealed.hash = sealed.seal();
        self.seq = sealed.seq;
        self.ts = sealed.ts;
        self.hash.clone_from(&sealed.hash);
        sealed
    }
}

/// Locks the heads of these workspaces, in order of their ids, so that two groups never wait for each other in a circle.
pub(crate) async fn lock_heads(
    tx: &mut Tx,
    workspaces: impl IntoIterator<Item = i64>,
) -> Result<BTreeMap<i64, LockedHead>, StoreError> {
    // SQLite knows no row locks and needs none: the transaction holds the one write lock. On PostgreSQL the lock is a statement
    // of its own: one that had to wait for it gives the head as it is now, but whatever it is joined with as it was before.
    const LOCK: &str = "select workspace_id from heads
        where workspace_id in (select cast(value ->> 'id' as bigint) from json_each($1)) order by workspace_id for update";
    const READ: &str = "select h.workspace_id, w.slug, w.policy, w.deleted_at, h.seq, h.hash, h.ts, h.links
        from heads h join workspaces w on w.id = h.workspace_id
        where h.workspace_id in (select cast(value ->> 'id' as bigint) from json_each($1)) order by h.workspace_id";
    type Row = (i64, String, String, Option<i64>, i64, String, i64, i64);
    let ids = json(&workspaces.into_iter().map(|id| serde_json::json!({ "id": id })).collect::<Vec<_>>());
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, LOCK, &ids)?;
    }
    let rows: Vec<Row> = read_in!(tx, fetch_all, READ, &ids)?;
    rows.into_iter()
        .map(|(id, slug, policy, deleted_at, seq, hash, ts, links)| {
            let policy = serde_json::from_str(&policy).map_err(|error| {
                StoreError::Unreadable(format!("the policy of workspace {slug}: {error}"))
            })?;
            let head = LockedHead {
                slug,
                policy,
                deleted: deleted_at.is_some(),
                links,
                seq,
                hash,
                ts: Timestamp::from_ms(ts),
            };
            Ok((id, head))
        })
        .collect()
}

/// Writes chained entries and the heads they end in, and tells followers to look.
pub(crate) async fn append(
    tx: &mut Tx,
    heads: &BTreeMap<i64, LockedHead>,
    entries: &[(i64, AuditEntry)],
) -> Result<(), StoreError> {
    let sealed: Vec<_> = entries.iter().map(|(workspace, entry)| (*workspace, entry)).collect();
    insert_batches::audit(tx, &sealed).await?;
    let rows: Vec<_> = heads
        .iter()
        .map(|(workspace, head)| {
            serde_json::json!({ "id": workspace, "seq": head.seq, "hash": head.hash, "ts": head.ts.ms(), "links": head.links })
        })
        .collect();
    run_in!(
        tx,
        "update heads set seq = n.seq, hash = n.hash, ts = n.ts, links = n.links
         from (select cast(value ->> 'id' as bigint) as id, cast(value ->> 'seq' as bigint) as seq, value ->> 'hash' as hash,
                      cast(value ->> 'ts' as bigint) as ts, cast(value ->> 'links' as bigint) as links
               from json_each($1)) as n
         where heads.workspace_id = n.id",
        json(&rows)
    )?;
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, "select pg_notify('rlinks', '')")?;
    }
    Ok(())
}
