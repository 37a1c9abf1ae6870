//! The audit chain under its head row's lock.

use std::collections::BTreeMap;

use rlinks_core::audit::AuditEntry;
use rlinks_core::id::WorkerId;
use rlinks_core::{Actor, Id, Policy, Timestamp};
use serde_json::value::RawValue;

use crate::StoreError;
use crate::database::bulk::insert_rows;
use crate::database::json::json;
use crate::database::pool::{Dialect, Tx, read_in, run_in};
use crate::database::row::from_row;

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

/// Heads and their workspaces, and one more column.
macro_rules! read_heads {
    ($id:literal $(, $join:literal)?) => {
        concat!(
            "select h.workspace_id, w.slug, w.policy, w.deleted_at, h.seq, h.hash, h.ts, h.links, ",
            $id,
            " as last_id from heads h join workspaces w on w.id = h.workspace_id",
            $($join,)?
            " where h.workspace_id in (select cast(value ->> 'id' as bigint) from json_each($1))"
        )
    };
}

struct HeadRow {
    workspace_id: i64,
    slug: String,
    policy: String,
    deleted_at: Option<i64>,
    seq: i64,
    hash: String,
    ts: i64,
    links: i64,
    last_id: Option<i64>,
}

from_row!(HeadRow { workspace_id, slug, policy, deleted_at, seq, hash, ts, links, last_id });

impl HeadRow {
    fn head(self) -> Result<(i64, LockedHead), StoreError> {
        let policy = serde_json::from_str(&self.policy).map_err(|error| {
            StoreError::Unreadable(format!("the policy of workspace {}: {error}", self.slug))
        })?;
        let head = LockedHead {
            slug: self.slug,
            policy,
            deleted: self.deleted_at.is_some(),
            links: self.links,
            seq: self.seq,
            hash: self.hash,
            ts: Timestamp::from_ms(self.ts),
        };
        Ok((self.workspace_id, head))
    }
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
    pub(crate) fn next_timestamp(&self, now: Timestamp) -> Timestamp {
        now.max(self.ts)
    }

    pub(crate) fn push(&mut self, entry: NewEntry<'_>, now: Timestamp) -> AuditEntry {
        let raw = |side: Option<String>| {
            side.map(|text| RawValue::from_string(text).expect("our own values are JSON"))
        };
        let mut sealed = AuditEntry {
            seq: self.seq + 1,
            ts: self.next_timestamp(now),
            workspace: self.slug.clone(),
            actor: entry.actor.to_string(),
            action: entry.action.to_owned(),
            subject: entry.subject,
            before: raw(entry.before),
            after: raw(entry.after),
            prev_hash: self.hash.clone(),
            hash: String::new(),
        };
        sealed.hash = sealed.compute_hash();
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
    const SQL: &str = concat!(read_heads!("null"), " order by h.workspace_id");
    let ids = lock_head_rows(tx, workspaces).await?;
    let rows: Vec<HeadRow> = read_in!(tx, fetch_all, SQL, &ids)?;
    rows.into_iter().map(HeadRow::head).collect()
}

/// Locks heads, and with them the last id this worker made. No id where its row, or every workspace, is not there.
pub(crate) async fn lock_heads_and_id(
    tx: &mut Tx,
    workspaces: impl IntoIterator<Item = i64>,
    worker: WorkerId,
) -> Result<(BTreeMap<i64, LockedHead>, Option<Id>), StoreError> {
    macro_rules! with_id {
        ($lock:literal) => {
            concat!(
                read_heads!("k.last_id", " join workers k on k.worker = $2"),
                " order by h.workspace_id",
                $lock
            )
        };
    }
    let ids = lock_head_rows(tx, workspaces).await?;
    let sql = match tx.dialect() {
        Dialect::Sqlite => with_id!(""),
        Dialect::Postgres => with_id!(" for update of k"),
    };
    let rows: Vec<HeadRow> = read_in!(tx, fetch_all, sql, &ids, i64::from(worker.number()))?;
    let last = rows.first().and_then(|row| row.last_id).map(Id::from_i64);
    Ok((rows.into_iter().map(HeadRow::head).collect::<Result<_, _>>()?, last))
}

/// SQLite knows no row locks and needs none: the transaction holds the one write lock. On PostgreSQL the lock is a statement of its
/// own: one that had to wait for it gives the head as it is now, but whatever it is joined with as it was before.
async fn lock_head_rows(
    tx: &mut Tx,
    workspaces: impl IntoIterator<Item = i64>,
) -> Result<String, StoreError> {
    const LOCK: &str = "select workspace_id from heads
        where workspace_id in (select cast(value ->> 'id' as bigint) from json_each($1)) order by workspace_id for update";
    let ids = json(&workspaces.into_iter().map(|id| serde_json::json!({ "id": id })).collect::<Vec<_>>());
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, LOCK, &ids)?;
    }
    Ok(ids)
}

/// Where the chains end: the rows for [`update_heads`].
pub(crate) fn head_updates(heads: &BTreeMap<i64, LockedHead>) -> String {
    let row = |(workspace, head): (&i64, &LockedHead)| serde_json::json!({ "id": workspace, "seq": head.seq, "hash": head.hash, "ts": head.ts.ms(), "links": head.links });
    json(&heads.iter().map(row).collect::<Vec<_>>())
}

/// Moves heads to where their chains end.
macro_rules! update_heads {
    ($rows:literal) => {
        concat!(
            "update heads set seq = n.seq, hash = n.hash, ts = n.ts, links = n.links
             from (select cast(value ->> 'id' as bigint) as id, cast(value ->> 'seq' as bigint) as seq, value ->> 'hash' as hash,
                          cast(value ->> 'ts' as bigint) as ts, cast(value ->> 'links' as bigint) as links
                   from json_each(",
            $rows,
            ")) as n
             where heads.workspace_id = n.id"
        )
    };
}
pub(crate) use update_heads;

/// Writes chained entries and the heads they end in, and tells followers to look.
pub(crate) async fn append(
    tx: &mut Tx,
    heads: &BTreeMap<i64, LockedHead>,
    entries: &[(i64, AuditEntry)],
) -> Result<(), StoreError> {
    let sealed: Vec<_> = entries.iter().map(|(workspace, entry)| (*workspace, entry)).collect();
    insert(tx, &sealed).await?;
    run_in!(tx, update_heads!("$1"), head_updates(heads))?;
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, "select pg_notify('rlinks', '')")?;
    }
    Ok(())
}

/// Chains entries of a workspace whose head is locked, and writes them.
pub(crate) async fn record_locked<'a>(
    tx: &mut Tx,
    mut heads: BTreeMap<i64, LockedHead>,
    workspace: Id,
    entries: impl IntoIterator<Item = NewEntry<'a>>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let head = heads.get_mut(&workspace.as_i64()).ok_or_else(StoreError::no_workspace)?;
    let entries: Vec<_> =
        entries.into_iter().map(|entry| (workspace.as_i64(), head.push(entry, now))).collect();
    append(tx, &heads, &entries).await
}

pub(crate) async fn insert(tx: &mut Tx, entries: &[(i64, &AuditEntry)]) -> Result<(), StoreError> {
    insert_rows!(
        tx,
        "insert into audit (workspace_id, seq, ts, actor, action, subject, before, after, prev_hash, hash)",
        10,
        "",
        entries,
        |(workspace, entry)| [
            *workspace,
            entry.seq,
            entry.ts.ms(),
            entry.actor.as_str(),
            entry.action.as_str(),
            entry.subject.as_str(),
            entry.before.as_ref().map(|side| side.get()),
            entry.after.as_ref().map(|side| side.get()),
            entry.prev_hash.as_str(),
            entry.hash.as_str(),
        ]
    );
    Ok(())
}
