//! First answers to requests that may come again. They are read and written in the transaction of the links themselves, so a
//! request that is repeated, at the same moment or after a crash, makes one link.

use std::collections::HashMap;

use rlinks_core::{Id, Link, Timestamp};

use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::write::link_write::{IDEMPOTENCY_TTL_MS, IdempotencyKey, LinkWrite, Written};
use crate::{Store, StoreError, StoreWriter};

struct StoredResult {
    request: String,
    written: Written,
    created_at: i64,
    /// Not in the table yet.
    fresh: bool,
}

fn parse_outcome(outcome: &str, link: &str) -> Result<Written, StoreError> {
    let link: Link = serde_json::from_str(link)
        .map_err(|error| StoreError::Unreadable(format!("a first answer: {error}")))?;
    Ok(match outcome {
        "created" => Written::Created(link),
        "revived" => Written::Revived(link),
        _ => Written::Reused(link),
    })
}

/// Workspace, who chose the key, and the key.
type IdempotencyScope = (i64, String, String);

/// The first answers a group needs or makes.
#[derive(Default)]
pub(super) struct StoredResults(HashMap<IdempotencyScope, StoredResult>);

fn scope(workspace: i64, key: &IdempotencyKey) -> IdempotencyScope {
    (workspace, key.owner.as_str().to_owned(), key.key.clone())
}

impl StoredResults {
    pub(super) async fn load(tx: &mut Tx, writes: &[LinkWrite]) -> Result<Self, StoreError> {
        type Row = (i64, String, String, String, String, String, i64);
        let wanted: Vec<IdempotencyScope> = writes
            .iter()
            .filter_map(|write| Some(scope(write.workspace.as_i64(), write.idempotency_key.as_ref()?)))
            .collect();
        let Some(now) = writes.iter().map(|write| write.now).max().filter(|_| !wanted.is_empty()) else {
            return Ok(Self::default());
        };
        let rows: Vec<Row> = read_in!(
            tx,
            fetch_all,
            "select workspace_id, owner, key, request, outcome, link, created_at from idempotency
             where created_at > $2 and (workspace_id, owner, key) in
                   (select cast(value ->> 0 as bigint), value ->> 1, value ->> 2 from json_each($1))",
            json(&wanted),
            now.plus_ms(-IDEMPOTENCY_TTL_MS).ms()
        )?;
        let mut results = HashMap::new();
        for (workspace, owner, key, request, outcome, link, created_at) in rows {
            let written = parse_outcome(&outcome, &link)?;
            results
                .insert((workspace, owner, key), StoredResult { request, written, created_at, fresh: false });
        }
        Ok(Self(results))
    }

    /// The first answer to this request, or that the key was another's.
    pub(super) fn get(&self, workspace: i64, key: &IdempotencyKey) -> Option<Result<Written, StoreError>> {
        let first = self.0.get(&scope(workspace, key))?;
        Some(if first.request == key.request {
            Ok(Written::Replayed(Box::new(first.written.clone())))
        } else {
            Err(StoreError::IdempotencyKeyReused)
        })
    }

    pub(super) fn put(&mut self, workspace: i64, key: &IdempotencyKey, written: &Written, now: Timestamp) {
        let first = StoredResult {
            request: key.request.clone(),
            written: written.clone(),
            created_at: now.ms(),
            fresh: true,
        };
        self.0.insert(scope(workspace, key), first);
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        !self.0.values().any(|first| first.fresh)
    }

    pub(super) async fn write(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let row = |((workspace, owner, key), first): (&IdempotencyScope, &StoredResult)| {
            let outcome = match first.written {
                Written::Created(_) => "created",
                Written::Revived(_) => "revived",
                _ => "reused",
            };
            serde_json::json!([
                workspace,
                owner,
                key,
                first.request,
                outcome,
                json(first.written.link()),
                first.created_at
            ])
        };
        let rows: Vec<_> = self.0.iter().filter(|(_, first)| first.fresh).map(row).collect();
        // What is there is over its time.
        run_in!(
            tx,
            "insert into idempotency (workspace_id, owner, key, request, outcome, link, created_at)
             select cast(value ->> 0 as bigint), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                    cast(value ->> 6 as bigint)
             from json_each($1) where true
             on conflict (workspace_id, owner, key) do update
             set request = excluded.request, outcome = excluded.outcome, link = excluded.link, created_at = excluded.created_at",
            json(&rows)
        )?;
        Ok(())
    }
}

impl Store {
    /// The first answer to a request that came before, if it did; an error where its key was another request's.
    pub async fn replay(
        &self,
        workspace: Id,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Option<Written>, StoreError> {
        let row: Option<(String, String, String)> = read!(
            &self.pool,
            fetch_optional,
            "select request, outcome, link from idempotency
             where workspace_id = $1 and owner = $2 and key = $3 and created_at > $4",
            workspace.as_i64(),
            key.owner.as_str(),
            &key.key,
            now.plus_ms(-IDEMPOTENCY_TTL_MS).ms()
        )?;
        match row {
            Some((request, _, _)) if request != key.request => Err(StoreError::IdempotencyKeyReused),
            Some((_, outcome, link)) => {
                Ok(Some(Written::Replayed(Box::new(parse_outcome(&outcome, &link)?))))
            }
            None => Ok(None),
        }
    }
}

impl StoreWriter {
    /// Forgets first answers whose time is over: at most `limit`. Gives how many.
    pub async fn purge_idempotency_keys(&self, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(
            &mut tx,
            "delete from idempotency where (workspace_id, owner, key) in
             (select workspace_id, owner, key from idempotency where created_at <= $1 order by created_at limit $2)",
            now.plus_ms(-IDEMPOTENCY_TTL_MS).ms(),
            limit
        )?;
        tx.commit().await?;
        Ok(purged)
    }
}
