//! Where clicks are kept: a file of their own beside a SQLite store, a schema of their own in PostgreSQL.
//!
//! In one file with the links, the two writers would wait for each other.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rlinks_core::Timestamp;
use rlinks_store::database::migrations::migrator;
use rlinks_store::database::open::{TableSet, open_tables};
use rlinks_store::database::pool::Pool;
use rlinks_store::{Location, MissingStore, StoreError};
use sqlx::migrate::Migrator;

use crate::month_cache::Months;
use crate::visitor_secrets::VisitorSecrets;

/// The migrations of this crate, in order. Those that are here never change, because a store keeps a checksum of each.
macro_rules! files {
    ($folder:literal) => {
        rlinks_store::migration_files!(
            $folder,
            "0001_clicks",
            "0002_by_clicks",
            "0003_imported",
            "0004_recomputed"
        )
    };
}

static SQLITE_MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| migrator(files!("../migrations/sqlite/")));
static POSTGRES_MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| migrator(files!("../migrations/postgres/")));

const CLICK_TABLES: TableSet = TableSet {
    sqlite: &SQLITE_MIGRATOR,
    postgres: &POSTGRES_MIGRATOR,
    schema: Some("clicks"),
    application_id: 0x726c_6e63,
    marker_file: None,
    lock_file: "clicks.lock",
    // A batch touches rows all over the day's part of six tables. More pages in memory, and a log that is moved into the
    // file rarely, are worth a third of the speed.
    writer_cache_kib: 8_000,
    checkpoint_pages: 8_000,
    // No person is in them.
    overwrite_deleted: false,
};

/// Clicks at rest. Cheap to clone.
#[derive(Clone)]
pub struct ClickStore {
    pub(crate) pool: Pool,
    pub(crate) months: Months,
}

impl ClickStore {
    /// Opens the clicks that belong to a store, which must have been opened before. Clicks that were here and are gone are not
    /// replaced by none: that would hide the loss.
    pub async fn open(store: &Location) -> Result<Self, StoreError> {
        let location = click_location(store);
        if let Location::Sqlite(path) = &location {
            check_not_lost(path)?;
        }
        let pool = open_tables(&location, &CLICK_TABLES, MissingStore::Refuse)
            .await
            .map_err(StoreError::for_clicks)?;
        if let Location::Sqlite(path) = &location {
            write_marker(path);
        }
        Ok(Self { pool, months: Months::default() })
    }

    /// Prepares the secrets of counting and destroys those that are over.
    pub async fn maintain_secrets(&self, secrets: &VisitorSecrets, now: Timestamp) -> Result<(), StoreError> {
        secrets.maintain(&self.pool, now).await
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
pub fn click_location(store: &Location) -> Location {
    match store {
        Location::Sqlite(path) => Location::Sqlite(click_file(path)),
        Location::Postgres(url) => Location::Postgres(url.clone()),
    }
}

/// Whether clicks were ever kept for a store, as far as that can be known without opening them.
pub fn clicks_exist(store: &Location) -> bool {
    match click_location(store) {
        Location::Sqlite(path) => path.exists() || marker_path(&path).exists(),
        Location::Postgres(_) => true,
    }
}

/// The file that says that there is one with clicks beside it: `clicks.db.made`. It is there from the first time these were opened.
fn marker_path(path: &Path) -> PathBuf {
    with_ending(path, ".made")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut named = path.as_os_str().to_owned();
    named.push(ending);
    PathBuf::from(named)
}

/// A missing file beside its mark, or beside a log of its own, was lost.
fn check_not_lost(path: &Path) -> Result<(), StoreError> {
    // To SQLite a file of one byte is empty too.
    if std::fs::metadata(path).is_ok_and(|file| file.len() > 1) {
        return Ok(());
    }
    let traces = [marker_path(path), with_ending(path, "-wal")];
    let is_used = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    match traces.iter().find(is_used) {
        None => Ok(()),
        Some(trace) => Err(StoreError::Refused(format!(
            "{} is missing or empty, but {} shows that clicks were stored here; put the file back. To begin anew without them, remove {}",
            path.display(),
            trace.display(),
            trace.display()
        ))),
    }
}

/// Without its mark a lost file is not missed, and that is all.
fn write_marker(path: &Path) {
    let mark = marker_path(path);
    if mark.exists() {
        return;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let why =
        format!("Clicks are stored in {name}. While this file is here, a missing {name} is not replaced.\n");
    let mut options = OpenOptions::new();
    let made = options.create(true).write(true).truncate(true).mode(0o600).open(&mark);
    if let Err(error) = made.and_then(|mut file| file.write_all(why.as_bytes())) {
        tracing::warn!(%error, mark = %mark.display(), "a mark could not be left beside the clicks");
    }
}

fn click_file(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem == "rlinks" {
        path.with_file_name("clicks.db")
    } else {
        path.with_file_name(format!("{stem}.clicks.db"))
    }
}
