//! How often keys are used: counted in memory and written every few seconds, because a row that changed with every request would be the busiest
//! of all.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rlinks_core::{Id, Timestamp};
use rlinks_ops::Ops;

const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Keys counted while the store cannot be written; uses of others are lost.
const MAX_KEYS: usize = 100_000;

/// Uses that are not in the store yet.
#[derive(Default)]
pub struct KeyUsage(Mutex<HashMap<Id, (i64, Timestamp)>>);

impl KeyUsage {
    pub fn count(&self, key: Id, now: Timestamp) {
        let mut waiting = self.0.lock();
        if waiting.len() >= MAX_KEYS && !waiting.contains_key(&key) {
            return;
        }
        let uses = waiting.entry(key).or_insert((0, now));
        *uses = (uses.0 + 1, uses.1.max(now));
    }

    /// Writes the uses counted so far. What cannot be written now is kept for the next time.
    pub async fn write(&self, ops: &Ops) {
        let waiting = std::mem::take(&mut *self.0.lock());
        if waiting.is_empty() {
            return;
        }
        let uses: Vec<_> = waiting.iter().map(|(key, (uses, last))| (*key, *uses, *last)).collect();
        if let Err(error) = ops.count_key_use(&uses).await {
            tracing::debug!(%error, "the use of keys could not be written and waits");
            let mut now_waiting = self.0.lock();
            for (key, uses, last) in uses {
                let sum = now_waiting.entry(key).or_insert((0, last));
                *sum = (sum.0 + uses, sum.1.max(last));
            }
        }
    }

    /// Writes every few seconds until the task is dropped.
    pub async fn run(&self, ops: &Ops) {
        loop {
            tokio::time::sleep(WRITE_INTERVAL).await;
            self.write(ops).await;
        }
    }
}
