//! How often keys are used: counted in memory and written now and then, for a row that changes with every request would be the
//! busiest of all.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rlinks_core::{Id, Timestamp};
use rlinks_store::Store;

/// Between two writings.
const PAUSE: Duration = Duration::from_secs(5);
/// Keys remembered while the store cannot be written.
const MOST: usize = 100_000;

/// Uses that are not written yet.
#[derive(Default)]
pub struct Usage(Mutex<HashMap<Id, (i64, Timestamp)>>);

impl Usage {
    /// One more.
    pub fn count(&self, key: Id, now: Timestamp) {
        let mut waiting = self.0.lock();
        if waiting.len() >= MOST && !waiting.contains_key(&key) {
            return;
        }
        let uses = waiting.entry(key).or_insert((0, now));
        *uses = (uses.0 + 1, uses.1.max(now));
    }

    /// Writes what is not written yet. What cannot be written waits.
    pub async fn write(&self, store: &Store) {
        let waiting = std::mem::take(&mut *self.0.lock());
        if waiting.is_empty() {
            return;
        }
        let uses: Vec<_> = waiting.iter().map(|(key, (uses, last))| (*key, *uses, *last)).collect();
        if let Err(error) = store.count_key_use(&uses).await {
            tracing::debug!(%error, "the use of keys could not be written and waits");
            let mut now_waiting = self.0.lock();
            for (key, uses, last) in uses {
                let sum = now_waiting.entry(key).or_insert((0, last));
                *sum = (sum.0 + uses, sum.1.max(last));
            }
        }
    }

    /// Writes now and then, until the task is dropped.
    pub async fn keep_writing(&self, store: &Store) {
        loop {
            tokio::time::sleep(PAUSE).await;
            self.write(store).await;
        }
    }
}
