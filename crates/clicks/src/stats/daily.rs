//! The days of many subjects at once: what a list draws beside each of its links.

use std::collections::HashMap;
use std::ops::Range;

use rlinks_core::Id;
use rlinks_store::StoreError;
use rlinks_store::database::pool::read;

use crate::bulk_lookup::{json, look_up};
use crate::database::ClickStore;

/// Links and days looked up by one question, at most.
const MAX_LOOKUPS: usize = 10_000;

impl ClickStore {
    /// People's clicks of some links of a workspace, UTC day by day, in one question. A link nobody clicked on any of the days is not
    /// among them. What is more than a list shows is left out.
    pub async fn daily(
        &self,
        workspace: Id,
        links: &[Id],
        days: Range<i64>,
    ) -> Result<HashMap<Id, Vec<u64>>, StoreError> {
        let asked: Vec<(i64, i64)> = links
            .iter()
            .flat_map(|link| days.clone().map(|day| (day, link.as_i64())))
            .take(MAX_LOOKUPS)
            .collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = look_up!(
            self.pool.dialect(),
            "d.day, d.subject, d.clicks",
            "days",
            "d.kind = 0 and d.workspace_id = $2 and d.day = cast(asked.value ->> 0 as bigint)
             and d.subject = cast(asked.value ->> 1 as bigint)"
        );
        let rows: Vec<(i64, i64, i64)> = read!(&self.pool, fetch_all, sql, json(&asked), workspace.as_i64())?;
        let width = usize::try_from(days.end - days.start).unwrap_or_default();
        let mut found: HashMap<Id, Vec<u64>> = HashMap::new();
        for (day, link, clicks) in rows {
            let counts = found.entry(Id::from_i64(link)).or_insert_with(|| vec![0; width]);
            let at = usize::try_from(day - days.start).unwrap_or(usize::MAX);
            if let Some(count) = counts.get_mut(at) {
                *count = clicks.cast_unsigned();
            }
        }
        Ok(found)
    }
}
