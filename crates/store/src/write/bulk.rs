//! Links that were made elsewhere: written as they were, with an entry in the log for each, many in one transaction.
//!
//! Ids are set aside before the links are written, so that whatever is kept beside a link can be there before it: its clicks, and on
//! PostgreSQL, where several connections write at once, its words and tags. These are half of the work, and nobody else can want them;
//! done before the head is locked, they are done while other links are being written.

use rlinks_core::Link;

use crate::database::pool::Dialect;
use crate::write::group::PreparedTx;
use crate::write::insert;
use crate::write::link_write::{LinkOp, LinkWrite, Written};
use crate::write::queue::commit_many;
use crate::{StoreError, StoreWriter};

/// Changes about to be made together, and what of them is written already where nobody sees it.
pub struct PreparedBatch {
    writes: Vec<LinkWrite>,
    prepared_tx: Option<PreparedTx>,
}

impl From<Vec<LinkWrite>> for PreparedBatch {
    /// With nothing done yet.
    fn from(writes: Vec<LinkWrite>) -> Self {
        Self { writes, prepared_tx: None }
    }
}

impl StoreWriter {
    /// Does what can be done of many changes while others are being made. Dropped, none of it ever was. The ids of imported links must
    /// have been set aside: who brings an id along may not be alone with it, and would be waited for by whoever has the head.
    pub async fn prepare(&self, writes: Vec<LinkWrite>) -> Result<PreparedBatch, StoreError> {
        let imported: Vec<&Link> = writes
            .iter()
            .filter_map(|write| match &write.op {
                LinkOp::Import { link, .. } => Some(&**link),
                _ => None,
            })
            .collect();
        // One connection writes to SQLite, and it is busy.
        let prepared_tx = if self.pool.dialect() == Dialect::Sqlite || imported.is_empty() {
            None
        } else {
            let mut tx = self.pool.begin().await?;
            insert::tags_and_words(&mut tx, &imported).await?;
            Some(PreparedTx { tx, indexed_links: imported.iter().map(|link| link.id.as_i64()).collect() })
        };
        Ok(PreparedBatch { writes, prepared_tx })
    }

    /// Makes prepared changes in one transaction, as far as each can be made. A few hundred at a time: others wait meanwhile.
    pub async fn write_prepared(&self, prepared: PreparedBatch) -> Vec<Result<Written, StoreError>> {
        let PreparedBatch { writes, prepared_tx } = prepared;
        if writes.is_empty() {
            return Vec::new();
        }
        let results = commit_many(&self.pool, self.worker, &writes, prepared_tx).await;
        self.committed.send_modify(|count| *count += 1);
        results
    }

    /// After many links at once: makes sure that the database looks for them the quick way.
    pub async fn analyze(&self) {
        self.pool.analyze("analyze links, link_tags, link_search, audit").await;
    }
}
