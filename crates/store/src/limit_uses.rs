//! What counts towards hourly limits. Servers count in memory; here is what a restart needs of it, written in batches.
//!
//! A row is how often one subject used something up to one moment. Servers on one store add to each other's rows, so none loses
//! what another counted.

use rlinks_core::{Id, Timestamp};

use crate::database::json::json;
use crate::database::pool::{read, run_in};
use crate::{Store, StoreError, StoreWriter};

/// Rows in one statement.
const BATCH_ROWS: usize = 4096;

/// How often a subject used something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// What is limited.
    pub kind: String,
    pub subject: Id,
    /// Counted as if all of them were made at this moment, the last one's.
    pub at: Timestamp,
    /// Below zero where more was given back than used since the last batch.
    pub uses: i64,
}

impl Store {
    /// The next uses since a moment, by subject and time: those after `after`, as many as fit into a batch.
    pub async fn limit_uses_since(
        &self,
        since: Timestamp,
        after: Option<&LimitUse>,
    ) -> Result<Vec<LimitUse>, StoreError> {
        let (kind, subject, at) =
            after.map_or(("", i64::MIN, i64::MIN), |last| (&*last.kind, last.subject.as_i64(), last.at.ms()));
        let rows: Vec<(String, i64, i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select kind, subject, at_ms, uses from limit_uses
             where (kind, subject, at_ms) > ($1, $2, $3) and at_ms > $4 order by kind, subject, at_ms limit $5",
            kind,
            subject,
            at,
            since.ms(),
            i64::try_from(BATCH_ROWS).unwrap_or(i64::MAX)
        )?;
        let limit_use = |(kind, subject, at, uses)| LimitUse {
            kind,
            subject: Id::from_i64(subject),
            at: Timestamp::from_ms(at),
            uses,
        };
        Ok(rows.into_iter().map(limit_use).collect())
    }
}

impl StoreWriter {
    /// Adds uses to those that are there, all or none.
    pub async fn add_limit_uses(&self, uses: &[LimitUse]) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        for batch in uses.chunks(BATCH_ROWS) {
            let rows: Vec<_> = batch
                .iter()
                .map(|used| (&used.kind, used.subject.as_i64(), used.at.ms(), used.uses))
                .collect();
            run_in!(
                &mut tx,
                "insert into limit_uses (kind, subject, at_ms, uses)
                 select value ->> 0, cast(value ->> 1 as bigint), cast(value ->> 2 as bigint), cast(value ->> 3 as bigint)
                 from json_each($1) where true order by 1, 2, 3
                 on conflict (kind, subject, at_ms) do update set uses = limit_uses.uses + excluded.uses",
                json(&rows)
            )?;
        }
        tx.commit().await
    }

    /// Forgets uses up to and including a moment: they count no longer.
    pub async fn purge_limit_uses(&self, upto: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(&mut tx, "delete from limit_uses where at_ms <= $1", upto.ms())?;
        tx.commit().await?;
        Ok(purged)
    }
}
