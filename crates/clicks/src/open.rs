//! Where clicks are kept: a file of their own beside a SQLite store, a schema of their own in PostgreSQL.
//!
//! In one file with the links, the two writers would wait for each other.

use std::path::{Path, PathBuf};

use rlinks_core::Timestamp;
use rlinks_store::open::{Tables, open_tables};
use rlinks_store::pool::Pool;
use rlinks_store::{Location, Lost, StoreError};
use sqlx::migrate::Migrator;

use crate::secrets::Secrets;

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

const TABLES: Tables = Tables {
    sqlite: &SQLITE,
    postgres: &POSTGRES,
    schema: Some("clicks"),
    application_id: 0x726c_6e63,
    trace: None,
    lock: "clicks.lock",
    // A batch touches rows all over the day's part of six tables. More pages in memory, and a log that is moved into the
    // file rarely, are worth a third of the speed.
    writer_cache_kib: 8_000,
    checkpoint_pages: 8_000,
    // No person is in them.
    overwrite_deleted: false,
};

/// Clicks at rest. Cheap to clone.
#[derive(Clone)]
pub struct Clicks {
    pub(crate) pool: Pool,
}

impl Clicks {
    /// Opens the clicks that belong to a store, which must have been opened before.
    pub async fn open(store: &Location) -> Result<Self, StoreError> {
        let pool = open_tables(&beside(store), &TABLES, Lost::Refuse).await?;
        Ok(Self { pool })
    }

    /// Prepares the secrets of counting and destroys those that are over.
    pub async fn secrets_tended(&self, secrets: &Secrets, now: Timestamp) -> Result<(), StoreError> {
        secrets.tend(&self.pool, now).await
    }

    /// The database, for tests that look past the crate.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until every connection is closed.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Where the clicks of a store are: `clicks.db` beside `rlinks.db`, `x.clicks.db` beside `x.db`.
pub fn beside(store: &Location) -> Location {
    match store {
        Location::Sqlite(path) => Location::Sqlite(file_beside(path)),
        Location::Postgres(url) => Location::Postgres(url.clone()),
    }
}

fn file_beside(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem == "rlinks" {
        path.with_file_name("clicks.db")
    } else {
        path.with_file_name(format!("{stem}.clicks.db"))
    }
}
