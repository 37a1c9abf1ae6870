//! Misses: requests for codes nobody has, counted in bounded buckets. A log of them would let anyone fill the disk.

use std::collections::HashMap;

use parking_lot::Mutex;
use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::pool::{read, read_in, run_in};
use serde::Serialize;

use crate::database::ClickStore;
use crate::rollup::OTHER_VALUE;
use crate::time::day_of;

/// Codes counted by name between two moments of storing.
const MAX_PENDING_CODES: usize = 4096;
/// Codes of a workspace and day that keep their names when more than twice as many have come.
const MAX_NAMED_CODES_PER_DAY: i64 = 500;
/// How long they are kept.
const MISS_RETENTION_DAYS: i64 = 90;

/// Misses that are counted and not stored yet.
#[derive(Default)]
pub struct MissCounter(Mutex<HashMap<(Id, String), u64>>);

/// A code nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissedCode {
    /// What was asked for.
    pub code: String,
    pub misses: u64,
}

impl MissCounter {
    /// Counts a request for a code a workspace does not have.
    pub fn count(&self, workspace: Id, code: &str) {
        let mut waiting = self.0.lock();
        let known = waiting.len();
        let code = if known < MAX_PENDING_CODES || waiting.contains_key(&(workspace, code.to_owned())) {
            code
        } else {
            OTHER_VALUE
        };
        *waiting.entry((workspace, code.to_owned())).or_default() += 1;
    }
}

impl ClickStore {
    /// Stores the misses that wait.
    pub async fn add_misses(&self, misses: &MissCounter, now: Timestamp) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut *misses.0.lock());
        if waiting.is_empty() {
            return Ok(());
        }
        let day = day_of(now);
        let stored = self.store_misses(&waiting, day).await;
        if stored.is_err() {
            // They count when the database is back; what came meanwhile counts too.
            let mut now_waiting = misses.0.lock();
            for (key, count) in waiting {
                *now_waiting.entry(key).or_default() += count;
            }
        }
        stored
    }

    async fn store_misses(&self, waiting: &HashMap<(Id, String), u64>, day: i64) -> Result<(), StoreError> {
        const ADD: &str = "insert into misses (workspace_id, day, code, misses)
             select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), value ->> 2, cast(value ->> 3 as bigint)
             from json_each($1) where true
             on conflict (workspace_id, day, code) do update set misses = misses.misses + excluded.misses";
        let mut rows: Vec<_> = waiting
            .iter()
            .map(|((workspace, code), count)| (workspace.as_i64(), day, code.as_str(), *count))
            .collect();
        rows.sort_unstable();
        let mut workspaces: Vec<i64> = rows.iter().map(|row| row.0).collect();
        workspaces.dedup();
        let json =
            |rows: &[(i64, i64, &str, u64)]| serde_json::to_string(rows).expect("rows are numbers and text");
        let mut tx = self.pool.begin().await?;
        run_in!(&mut tx, ADD, json(&rows))?;
        for workspace in workspaces {
            let (codes,): (i64,) = read_in!(
                &mut tx,
                fetch_one,
                "select count(*) from misses where workspace_id = $1 and day = $2",
                workspace,
                day
            )?;
            if codes <= 2 * MAX_NAMED_CODES_PER_DAY {
                continue;
            }
            // The rest loses its name and keeps its number.
            let rare: Vec<(String, i64)> = read_in!(
                &mut tx,
                fetch_all,
                "delete from misses where workspace_id = $1 and day = $2 and code <> '(other)' and code not in (
                     select code from misses where workspace_id = $1 and day = $2 and code <> '(other)'
                     order by misses desc, code limit $3)
                 returning code, misses",
                workspace,
                day,
                MAX_NAMED_CODES_PER_DAY
            )?;
            let sum = rare.iter().map(|(_, misses)| misses.cast_unsigned()).sum();
            run_in!(&mut tx, ADD, json(&[(workspace, day, OTHER_VALUE, sum)]))?;
        }
        run_in!(&mut tx, "delete from misses where day < $1", day - MISS_RETENTION_DAYS)?;
        tx.commit().await
    }

    /// The codes most asked for in vain in a workspace between two UTC days, the last one excluded.
    pub async fn misses(
        &self,
        workspace: Id,
        from_day: i64,
        to_day: i64,
        limit: i64,
    ) -> Result<Vec<MissedCode>, StoreError> {
        let rows: Vec<(String, i64)> = read!(
            &self.pool,
            fetch_all,
            "select code, cast(sum(misses) as bigint) as missed from misses
             where workspace_id = $1 and day >= $2 and day < $3 group by code order by missed desc, code limit $4",
            workspace.as_i64(),
            from_day,
            to_day,
            limit
        )?;
        Ok(rows
            .into_iter()
            .map(|(code, misses)| MissedCode { code, misses: misses.cast_unsigned() })
            .collect())
    }
}
