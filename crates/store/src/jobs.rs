//! What all nodes of an installation must agree on.

use rlinks_core::{Id, hex};

use crate::database::pool::{read, read_in, run_in};
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
    /// A secret that all nodes share: `fresh` becomes it where there is none. A process that can't read it uses `fresh` alone, and the
    /// others don't accept what it signs.
    pub async fn shared_key(&self, name: &str, fresh: [u8; 32]) -> [u8; 32] {
        match self.get_or_insert_setting(name, &hex::encode(&fresh)).await {
            Ok(text) => hex::decode(&text).and_then(|bytes| bytes.try_into().ok()).unwrap_or(fresh),
            Err(error) => {
                tracing::warn!(%error, name, "a key that servers share could not be read; this process uses its own");
                fresh
            }
        }
    }

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

    /// The installation's value of this name; `fresh` becomes it where there is none. Nothing here opens anything: whoever reads
    /// the database has what these values guard.
    async fn get_or_insert_setting(&self, name: &str, fresh: &str) -> Result<String, StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into installation (name, value) values ($1, $2) on conflict do nothing",
            name,
            fresh
        )?;
        let (value,): (String,) =
            read_in!(&mut tx, fetch_one, "select value from installation where name = $1", name)?;
        tx.commit().await?;
        Ok(value)
    }
}
