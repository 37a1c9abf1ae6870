//! A whole store, replaced by a backup.

use std::path::Path;

use rlinks_store::StoreError;
use rlinks_store::backup::{BackupCounts, RestoreTrust};

use crate::Ops;

impl Ops {
    /// Replaces everything there is by what a backup holds. No server may have the store open.
    pub async fn restore_backup(
        &self,
        file: &Path,
        trust: &RestoreTrust,
    ) -> Result<BackupCounts, StoreError> {
        self.writer.restore(file, trust).await
    }
}
