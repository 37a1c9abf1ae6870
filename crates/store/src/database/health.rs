//! Whether the truth is sound: for `rmax doctor` and for the start of a server.

use sqlx::sqlite::{SqliteConnection, SqlitePool};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::database::pool::{Pool, read};
use crate::{Store, StoreError};

/// Files up to this size are checked whole when a server starts; larger ones only by `rmax doctor`.
const MAX_QUICK_CHECK_BYTES: u64 = 256 * 1024 * 1024;

impl Store {
    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let _: (i64,) = read!(&self.pool, fetch_one, "select count(*) from heads")?;
        Ok(())
    }

    /// The database's own check of every page and index. Gives what is wrong, in its words. PostgreSQL checks itself as it
    /// reads; there is nothing to run.
    pub async fn integrity_check(&self) -> Result<Vec<String>, StoreError> {
        let Pool::Sqlite { readers, .. } = &self.pool else { return Ok(Vec::new()) };
        self.pool.check()?;
        let mut fresh = open_fresh_connection(readers).await?;
        let rows: Vec<(String,)> = sqlx::query_as("pragma integrity_check(20)").fetch_all(&mut fresh).await?;
        fresh.close().await?;
        Ok(rows.into_iter().map(|(line,)| line).filter(|line| line != "ok").collect())
    }

    /// The same in short for a server's start, where the file is small enough not to delay it.
    pub async fn quick_check(&self) -> Result<(), StoreError> {
        let Pool::Sqlite { readers, file, .. } = &self.pool else { return Ok(()) };
        if std::fs::metadata(file.path()).map_or(0, |file| file.len()) > MAX_QUICK_CHECK_BYTES {
            return Ok(());
        }
        let mut fresh = open_fresh_connection(readers).await?;
        let row: (String,) = sqlx::query_as("pragma quick_check(1)").fetch_one(&mut fresh).await?;
        fresh.close().await?;
        if row.0 == "ok" {
            return Ok(());
        }
        Err(StoreError::Refused(format!(
            "{} is damaged ({}); restore a backup with `rmax restore`, or look closer with `rmax doctor`",
            file.path().display(),
            row.0
        )))
    }
}

/// A connection that has read nothing yet. SQLite's full-text search remembers its structure and, when checked, does not ask
/// whether others have changed it since: a connection that searched before would report damage that is not there.
async fn open_fresh_connection(pool: &SqlitePool) -> Result<SqliteConnection, StoreError> {
    Ok(pool.connect_options().connect().await?)
}
