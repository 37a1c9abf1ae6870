//! Ids: which id maker this process is, and the last id each has given out.

use std::collections::BTreeMap;

use rlinks_core::id::{MAX_WORKERS, WorkerId};
use rlinks_core::{Id, Timestamp};

use crate::database::json::json;
use crate::database::pool::{Dialect, Pool, Tx, read, read_in, run_in};
use crate::{StoreError, StoreWriter};

/// How long a worker id is ours without a word from us.
pub(crate) const LEASE_MS: i64 = 60_000;

/// Says how far a worker's ids go, and that it lives.
macro_rules! update_worker {
    ($worker:literal, $last:literal, $until:literal) => {
        concat!(
            "update workers set last_id = ",
            $last,
            ", leased_until = ",
            $until,
            " where worker = ",
            $worker
        )
    };
}
pub(crate) use update_worker;

/// The id maker this process is. On SQLite all processes share one row and take turns in the write transaction; on PostgreSQL
/// each leases a row of its own, so that they do not wait for each other. Either way the row's `last_id` makes ids unique.
pub(crate) async fn lease_worker_id(
    pool: &Pool,
    wanted: Option<WorkerId>,
    holder: &str,
    now: Timestamp,
) -> Result<WorkerId, StoreError> {
    let until = now.plus_ms(LEASE_MS).ms();
    let fixed = match (pool, wanted) {
        (_, Some(worker)) => Some(worker),
        (Pool::Sqlite { .. }, None) => WorkerId::new(0),
        (Pool::Postgres(_), None) => None,
    };
    if let Some(worker) = fixed {
        let number = i64::from(worker.number());
        let there: Option<(i64,)> =
            read!(pool, fetch_optional, "select worker from workers where worker = $1", number)?;
        if there.is_none() {
            let mut tx = pool.begin().await?;
            run_in!(
                &mut tx,
                "insert into workers (worker, last_id, holder, leased_until) values ($1, 0, $2, $3) on conflict do nothing",
                number,
                holder,
                until
            )?;
            tx.commit().await?;
        }
        return Ok(worker);
    }
    for _ in 0..16 {
        let mut tx = pool.begin().await?;
        let freed: Option<(i64,)> = read_in!(
            &mut tx,
            fetch_optional,
            "update workers set holder = $1, leased_until = $2
             where worker = (select worker from workers where leased_until < $3 order by worker limit 1 for update skip locked)
             returning worker",
            holder,
            until,
            now.ms()
        )?;
        let row = match freed {
            Some(row) => Some(row),
            None => read_in!(
                &mut tx,
                fetch_optional,
                "insert into workers (worker, last_id, holder, leased_until)
                 select coalesce(max(worker), -1) + 1, 0, $1, $2 from workers
                 having coalesce(max(worker), -1) + 1 < $3
                 on conflict do nothing returning worker",
                holder,
                until,
                i64::from(MAX_WORKERS)
            )?,
        };
        tx.commit().await?;
        if let Some(worker) =
            row.and_then(|(worker,): (i64,)| u16::try_from(worker).ok()).and_then(WorkerId::new)
        {
            return Ok(worker);
        }
    }
    Err(StoreError::Unavailable("all 1,024 worker ids are in use; set worker_id".to_owned()))
}

pub(crate) async fn last_id(tx: &mut Tx, worker: WorkerId) -> Result<Id, StoreError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => "select last_id from workers where worker = $1",
        Dialect::Postgres => "select last_id from workers where worker = $1 for update",
    };
    let row: Option<(i64,)> = read_in!(tx, fetch_optional, sql, i64::from(worker.number()))?;
    if let Some((id,)) = row {
        return Ok(Id::from_i64(id));
    }
    // A restored backup replaces the list of workers. One it does not know made none of its ids, so it begins anew.
    run_in!(
        tx,
        "insert into workers (worker, last_id, holder, leased_until) values ($1, 0, '', 0) on conflict do nothing",
        i64::from(worker.number())
    )?;
    let (id,): (i64,) = read_in!(tx, fetch_one, sql, i64::from(worker.number()))?;
    Ok(Id::from_i64(id))
}

/// An id for something other than a link, in a transaction of its own that holds its workspace's head.
pub(crate) async fn next_id(tx: &mut Tx, worker: WorkerId, now: Timestamp) -> Result<Id, StoreError> {
    let id = Id::next(last_id(tx, worker).await?, now, worker);
    set_last_id(tx, worker, id, now).await?;
    Ok(id)
}

/// Remembers the last id given out.
async fn set_last_id(tx: &mut Tx, worker: WorkerId, id: Id, now: Timestamp) -> Result<(), StoreError> {
    run_in!(
        tx,
        update_worker!("$1", "$2", "$3"),
        i64::from(worker.number()),
        id.as_i64(),
        now.plus_ms(LEASE_MS).ms()
    )?;
    Ok(())
}

impl StoreWriter {
    /// Reserves ids.
    pub async fn reserve_ids(&self, count: usize, now: Timestamp) -> Result<Vec<Id>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let mut last = last_id(&mut tx, self.worker).await?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            last = Id::next(last, now, self.worker);
            ids.push(last);
        }
        set_last_id(&mut tx, self.worker, last, now).await?;
        tx.commit().await?;
        Ok(ids)
    }

    /// Makes sure that no id maker ever gives out one of these, which are about to be given to links.
    pub async fn claim_ids(&self, ids: &[Id]) -> Result<(), StoreError> {
        let mut last = BTreeMap::<u16, i64>::new();
        for id in ids {
            let known = last.entry(WorkerId::from_id(*id).number()).or_default();
            *known = (*known).max(id.as_i64());
        }
        let rows: Vec<_> = last.into_iter().collect();
        let behind: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select cast(value ->> 0 as bigint) from json_each($1) as claimed
             where not exists (select 1 from workers where worker = cast(claimed.value ->> 0 as bigint)
                               and last_id >= cast(claimed.value ->> 1 as bigint)) limit 1",
            json(&rows)
        )?;
        if behind.is_none() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into workers (worker, last_id, holder, leased_until)
             select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), '', 0 from json_each($1) where true
             order by cast(value ->> 0 as bigint)
             on conflict (worker) do update
             set last_id = case when excluded.last_id > workers.last_id then excluded.last_id else workers.last_id end",
            json(&rows)
        )?;
        tx.commit().await
    }
}
