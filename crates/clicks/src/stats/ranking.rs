//! Links in the order of their clicks.
//!
//! Only those that were clicked: the others have no row here, or one that counts bots alone, and only the store knows them all.

use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::read;
use rlinks_store::{Order, StoreError};

use crate::database::ClickStore;
use crate::rollup::Total;

/// A row of `totals`: link, clicks, bots, last click, last hit.
type Row = (i64, i64, i64, Option<i64>, Option<i64>);

impl ClickStore {
    /// The next links of a workspace by people's clicks, then by id: at most `limit`, after `after`. Whether they are still
    /// there, or were deleted, is not known here.
    pub async fn links_by_clicks(
        &self,
        workspace: Id,
        order: Order,
        after: Option<(u64, Id)>,
        limit: i64,
    ) -> Result<Vec<(Id, Total)>, StoreError> {
        const DESCENDING: &str = "select subject, clicks, bots, last_click, last_hit from totals
             where kind = 0 and workspace_id = $1 and clicks > 0 and (clicks, subject) < ($2, $3)
             order by clicks desc, subject desc limit $4";
        const ASCENDING: &str = "select subject, clicks, bots, last_click, last_hit from totals
             where kind = 0 and workspace_id = $1 and clicks > 0 and (clicks, subject) > ($2, $3)
             order by clicks, subject limit $4";
        let (sql, begin) = match order {
            Order::Desc => (DESCENDING, (i64::MAX, i64::MAX)),
            Order::Asc => (ASCENDING, (0, i64::MAX)),
        };
        let after = after.map(|(clicks, id)| (i64::try_from(clicks).unwrap_or(i64::MAX), id.as_i64()));
        let (clicks, subject) = after.unwrap_or(begin);
        let rows: Vec<Row> = read!(&self.pool, fetch_all, sql, workspace.as_i64(), clicks, subject, limit)?;
        let total = |(link, clicks, bots, last_click, last_hit): Row| {
            let [last_click, last_hit] = [last_click, last_hit].map(|ms| ms.map(Timestamp::from_ms));
            (Id::from_i64(link), Total { clicks, bots, last_click, last_hit })
        };
        Ok(rows.into_iter().map(total).collect())
    }
}
