//! What all nodes of an installation must agree on.

use crate::pool::{read_in, run_in};
use crate::{Store, StoreError};

impl Store {
    /// The installation's value of this name; `fresh` becomes it where there is none. Nothing here opens anything: whoever reads
    /// the database has what these values guard.
    pub async fn agree_on(&self, name: &str, fresh: &str) -> Result<String, StoreError> {
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
