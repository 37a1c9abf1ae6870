//! What all nodes of an installation must agree on.

use rlinks_core::Id;

use crate::database::pool::{read, run_in};
use crate::{Store, StoreError, StoreWriter};

impl Store {
    /// Where a job that is done in parts goes on; nothing where it begins.
    pub async fn job_cursor(&self, name: &str) -> Result<Option<Id>, StoreError> {
        let row: Option<(String,)> =
            read!(&self.pool, fetch_optional, "select value from installation where name = $1", name)?;
        Ok(row.and_then(|(value,)| value.parse().ok()).map(Id::from_i64))
    }
}

impl StoreWriter {
    /// Remembers where a job that is done in parts goes on.
    pub async fn set_job_cursor(&self, name: &str, at: Id) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into installation (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
            name,
            at.to_string()
        )?;
        tx.commit().await?;
        Ok(())
    }
}
