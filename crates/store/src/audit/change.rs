//! One change of a workspace: the lock of its head, what is written, its entries in the log, one commit, and the news of it.
//!
//! Changes of links have a way of their own ([`write`](mod@crate::write)), where many share a commit.

use std::collections::BTreeMap;

use rlinks_core::{Id, Timestamp};

use crate::audit::chain::{LockedHead, NewEntry, lock_heads, record_locked};
use crate::database::pool::Tx;
use crate::{StoreError, StoreWriter};

/// A change under way: the workspace is locked until it ends. Dropped, it never happened.
pub(crate) struct Change<'a> {
    pub(crate) tx: Tx,
    pub(crate) workspace: Id,
    heads: BTreeMap<i64, LockedHead>,
    writer: &'a StoreWriter,
}

impl StoreWriter {
    /// Begins a change of a workspace, deleted or not.
    pub(crate) async fn begin_change(&self, workspace: Id) -> Result<Change<'_>, StoreError> {
        let tx = self.pool.begin().await?;
        self.change_in(tx, workspace).await
    }

    /// The same in a transaction that has begun: for what must be locked before the head.
    pub(crate) async fn change_in(&self, mut tx: Tx, workspace: Id) -> Result<Change<'_>, StoreError> {
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        Ok(Change { tx, workspace, heads, writer: self })
    }
}

impl Change<'_> {
    /// The head of the workspace.
    pub(crate) fn head(&self) -> Result<&LockedHead, StoreError> {
        self.heads.get(&self.workspace.as_i64()).ok_or_else(StoreError::no_workspace)
    }

    /// The same, unless the workspace is deleted.
    pub(crate) fn living_head(&self) -> Result<&LockedHead, StoreError> {
        let head = self.head()?;
        if head.deleted { Err(StoreError::no_workspace()) } else { Ok(head) }
    }

    /// Commits with these entries in the log, and tells followers.
    pub(crate) async fn commit<'e>(
        mut self,
        entries: impl IntoIterator<Item = NewEntry<'e>>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        record_locked(&mut self.tx, self.heads, self.workspace, entries, now).await?;
        self.tx.commit().await?;
        self.writer.notify_changed();
        Ok(())
    }

    /// Commits what the log doesn't tell of.
    pub(crate) async fn commit_unlogged(self) -> Result<(), StoreError> {
        self.tx.commit().await
    }
}
