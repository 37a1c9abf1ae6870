//! When somebody first came.

use rlinks_core::Timestamp;
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Tx, read_in};

use super::{StatsQuery, days_of, moment};
use crate::database::ClickStore;
use crate::rollup::RollupSubject;
use crate::time::{DAY_MS, first_day_of, month_of};

impl ClickStore {
    /// The beginning of the first UTC day on which the subject of a question was counted; of the first month, where its days are no
    /// longer kept. It may be before the subject was made: clicks can be imported.
    pub async fn first_click_day(&self, query: &StatsQuery) -> Result<Option<Timestamp>, StoreError> {
        let mut tx = self.pool.snapshot().await?;
        let Some(first) = first_day(&mut tx, query.subject).await? else { return Ok(None) };
        let all_are_kept = query.days_kept_from.is_none_or(|kept_from| kept_from <= first);
        let days = if all_are_kept {
            days_of(&mut tx, query.subject, first..first_day_of(month_of(first) + 1)).await?
        } else {
            Vec::new()
        };
        tx.commit().await?;
        let day = days.iter().map(|(day, _)| *day).min().unwrap_or(first);
        Ok(Some(moment(day, DAY_MS)))
    }
}

/// The first day of the month in which a subject was first clicked.
pub(super) async fn first_day(tx: &mut Tx, subject: RollupSubject) -> Result<Option<i64>, StoreError> {
    let (month,): (Option<i64>,) = read_in!(
        tx,
        fetch_one,
        "select min(month) from months where kind = $1 and subject = $2",
        subject.kind as i64,
        subject.id.as_i64()
    )?;
    Ok(month.map(first_day_of))
}
