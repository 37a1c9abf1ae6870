//! Opening: where the truth is, whether it is ours, and bringing its schema up to date.
//!
//! A store that was there and is gone is never replaced by an empty one.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rlinks_core::Timestamp;
use rlinks_core::host::is_loopback_host;
use rlinks_core::id::WorkerId;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::database::file::FileGuard;
use crate::database::migrations::{self, POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS};
use crate::database::pool::Pool;
use crate::{Store, StoreError, StoreWriter};

/// The log of signed heads, in the data folder.
pub const CHECKPOINT_LOG_FILE: &str = "audit-heads.log";

/// The tables of the truth.
const MAIN_TABLES: TableSet = TableSet {
    sqlite: &SQLITE_MIGRATIONS,
    postgres: &POSTGRES_MIGRATIONS,
    schema: None,
    application_id: 0x726c_6e6b,
    marker_file: Some(CHECKPOINT_LOG_FILE),
    lock_file: "open.lock",
    writer_cache_kib: 8_000,
    checkpoint_pages: 8_000,
    overwrite_deleted: true,
};

/// How long a SQLite writer waits for another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long whoever opens a file waits for another who does, and how often it looks.
const OPEN_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// SQLite readers of one process.
const MAX_READERS: u32 = 4;
/// Rows that wait between a connection and whoever asked it.
const ROW_BUFFER_SIZE: usize = 1024;
/// PostgreSQL connections of one process.
const MAX_CONNECTIONS: u32 = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the truth is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A server, by its URL.
    Postgres(String),
}

impl Location {
    // `sqlite:path/to/rlinks.db` or `postgres://...`.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        match url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            _ => Err(StoreError::Refused(
                "a store is sqlite:<path> or postgres://<user>@<host>/<database>".to_owned(),
            )),
        }
    }
}

/// A set of tables that live together: the truth, or what a crate keeps beside it.
#[derive(Clone, Copy)]
pub struct TableSet {
    /// How they are made in a file.
    pub sqlite: &'static LazyLock<Migrator>,
    /// How they are made on a server.
    pub postgres: &'static LazyLock<Migrator>,
    /// The schema they have to themselves on a server.
    pub schema: Option<&'static str>,
    /// The mark of the file.
    pub application_id: i64,
    /// A file in the folder that is only there when these tables were.
    pub marker_file: Option<&'static str>,
    /// The lock of whoever opens a file of them: one that stands still must not keep others from other tables.
    pub lock_file: &'static str,
    /// What the connection that writes a file may keep of it in memory, in KiB.
    pub writer_cache_kib: u32,
    /// How many pages of a file's log are written before they are moved into the file.
    pub checkpoint_pages: u32,
    /// Whether what is deleted is overwritten in a file: a person who left must not be found in its gaps.
    pub overwrite_deleted: bool,
}

/// Opens a set of tables, creating them where there have never been any.
pub async fn open_tables(
    location: &Location,
    tables: &TableSet,
    if_missing: MissingStore,
) -> Result<Pool, StoreError> {
    match location {
        Location::Sqlite(path) => open_sqlite(path, tables, if_missing).await,
        Location::Postgres(url) => open_postgres(url, tables).await,
    }
}

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where the truth is.
    pub location: Location,
    /// The id maker this process is; leased when not given.
    pub worker: Option<WorkerId>,
    /// Who we are, in the list of leases.
    pub holder: String,
    pub now: Timestamp,
    /// What to do when there was a store and its file is gone.
    pub if_missing: MissingStore,
}

/// What to do when there was a store and its file is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingStore {
    /// Say so. An empty store would hide the loss.
    Refuse,
    /// Begin anew: somebody is about to restore a backup.
    Recreate,
}

impl Store {
    /// Opens the truth, creating it where there has never been one: once to read, and once to change.
    pub async fn open(options: StoreOptions) -> Result<(Self, StoreWriter), StoreError> {
        let pool = open_tables(&options.location, &MAIN_TABLES, options.if_missing).await?;
        Self::start(pool, options.location, options.worker, &options.holder, options.now).await
    }
}

async fn open_sqlite(path: &Path, tables: &TableSet, if_missing: MissingStore) -> Result<Pool, StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", folder.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
    // Two processes opening a new folder at once must not both create the schema; the lock goes with the file handle.
    let lock: File = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(folder.join(tables.lock_file))
        .map_err(cannot)?;
    let _lock = acquire_lock(lock, path).await?;

    // To SQLite a file of one byte is empty too.
    let fresh = std::fs::metadata(path).map_or(true, |file| file.len() <= 1);
    if fresh {
        if if_missing == MissingStore::Refuse {
            refuse_used_folder(path, folder, tables.marker_file)?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(cannot)?;
    } else {
        refuse_foreign(path, tables.application_id).await?;
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("trusted_schema", "off")
        .pragma("cell_size_check", "on")
        .pragma("secure_delete", if tables.overwrite_deleted { "on" } else { "off" })
        .statement_cache_capacity(256)
        // Rows come from a thread of the connection's own: with few on their way, both wake each other for nearly every one.
        .row_buffer_size(ROW_BUFFER_SIZE);
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        // After a commit the disk refused, SQLite has rolled back and sqlx still counts a transaction: it would refuse every
        // other one for ever. Another connection takes its place.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .acquire_timeout(BUSY_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(
            options
                .clone()
                .pragma("cache_size", format!("-{}", tables.writer_cache_kib))
                .pragma("wal_autocheckpoint", tables.checkpoint_pages.to_string()),
        )
        .await
        .map_err(|error| damaged(path, error))?;
    tables.sqlite.run(&writer).await.map_err(|error| migrations::migration_error(&error))?;
    // What a statement would put back if it failed halfway is kept in memory, not in a file: half of what an import writes. Only
    // after the migrations, which may sort more than memory holds.
    sqlx::query("pragma temp_store = memory").execute(&writer).await?;
    let file = FileGuard::open(path)?;
    let readers = SqlitePoolOptions::new()
        .max_connections(MAX_READERS)
        .acquire_timeout(Duration::from_secs(2))
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options.pragma("query_only", "on"))
        .await?;
    Ok(Pool::Sqlite { writer, readers, file })
}

/// Waits for the lock, but not for ever: whoever has it may have been stopped.
async fn acquire_lock(lock: File, path: &Path) -> Result<File, StoreError> {
    let mut waited = Duration::ZERO;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if waited < OPEN_LOCK_TIMEOUT => {
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
                waited += LOCK_RETRY_INTERVAL;
            }
            Err(TryLockError::WouldBlock) => {
                let what = "another process has been opening it for too long; look for one that hangs";
                return Err(StoreError::Unavailable(format!("{}: {what}", path.display())));
            }
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::Unavailable(format!("{}: {error}", path.display())));
            }
        }
    }
}

/// Looks before anything is written: setting the journal mode alone would change another program's file.
async fn refuse_foreign(path: &Path, ours: i64) -> Result<(), StoreError> {
    let damaged = |error| damaged(path, error);
    let options =
        SqliteConnectOptions::new().filename(path).create_if_missing(false).busy_timeout(BUSY_TIMEOUT);
    let mut connection = options.pragma("query_only", "on").connect().await.map_err(damaged)?;
    let (application,): (i64,) =
        sqlx::query_as("pragma application_id").fetch_one(&mut connection).await.map_err(damaged)?;
    // The list of migrations is made before the first of them: a start that was killed in between leaves it alone.
    let (tables,): (i64,) =
        sqlx::query_as("select count(*) from sqlite_schema where tbl_name <> '_sqlx_migrations'")
            .fetch_one(&mut connection)
            .await
            .map_err(damaged)?;
    connection.close().await.map_err(damaged)?;
    if application == ours || tables == 0 {
        return Ok(());
    }
    Err(StoreError::Refused(format!("{} is another program's database; nothing was changed", path.display())))
}

/// A folder with an audit key or a log beside a missing database had one: somebody lost it, and an empty one would hide that.
fn refuse_used_folder(path: &Path, folder: &Path, trace: Option<&str>) -> Result<(), StoreError> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let mut used = trace.map(|trace| folder.join(trace)).into_iter().chain([PathBuf::from(wal)]);
    match used.find(|file| std::fs::metadata(file).is_ok_and(|file| file.len() > 0)) {
        None => Ok(()),
        Some(trace) => Err(StoreError::Refused(format!(
            "{} is missing or empty, but {} shows there was a store here; put the file back or run `rmax restore`. To begin anew, choose another folder with --data",
            path.display(),
            trace.display()
        ))),
    }
}

fn damaged(path: &Path, error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(database) if matches!(database.code().as_deref(), Some("26" | "11")) => {
            StoreError::Refused(format!(
                "{} is not a readable database ({}); nothing was changed. Restore a backup, or choose another folder with --data",
                path.display(),
                database.message()
            ))
        }
        _ => error.into(),
    }
}

async fn open_postgres(url: &str, tables: &TableSet) -> Result<Pool, StoreError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error| StoreError::Refused(format!("the store's URL cannot be read: {error}")))?;
    let options = encrypted_unless_local(url, options);
    let mut options = options.application_name("rlinks").options([
        ("statement_timeout", "10s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "30s"),
    ]);
    test_connection(&options).await?;
    if let Some(schema) = tables.schema {
        create_schema(&options, schema).await?;
        options = options.options([("search_path", format!("{schema},public"))]);
    }
    let pool = PgPoolOptions::new()
        .max_connections(MAX_CONNECTIONS)
        .acquire_timeout(CONNECT_TIMEOUT)
        .connect_with(options)
        .await
        .map_err(|error| StoreError::Unavailable(format!("PostgreSQL: {error}")))?;
    tables.postgres.run(&pool).await.map_err(|error| migrations::migration_error(&error))?;
    Ok(Pool::Postgres(pool))
}

/// Encrypts a connection that leaves this machine, unless the URL says how to connect. A stricter mode from `PGSSLMODE` stays.
fn encrypted_unless_local(url: &str, options: PgConnectOptions) -> PgConnectOptions {
    let says = url.split_once('?').is_some_and(|(_, query)| {
        query.split('&').any(|pair| pair.starts_with("sslmode=") || pair.starts_with("ssl-mode="))
    });
    let host = options.get_host();
    let is_local = options.get_socket().is_some() || host.starts_with('/') || is_loopback_host(host);
    match options.get_ssl_mode() {
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer if !says && !is_local => {
            options.ssl_mode(PgSslMode::Require)
        }
        _ => options,
    }
}

/// Two processes that make it at once do not trip over each other: the loser looks again.
async fn create_schema(options: &PgConnectOptions, schema: &'static str) -> Result<(), StoreError> {
    let mut connection = options.connect().await?;
    let sql = format!("create schema if not exists {schema}");
    let made = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone())).execute(&mut connection).await;
    if made.is_err() {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;
    }
    Ok(connection.close().await?)
}

/// Connects once, so that whatever keeps us out is said at once: a pool tries again until its time is up, and then says only that.
async fn test_connection(options: &PgConnectOptions) -> Result<(), StoreError> {
    let server = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let cannot =
        |what: &dyn std::fmt::Display| StoreError::Unavailable(format!("PostgreSQL at {server}: {what}"));
    match tokio::time::timeout(CONNECT_TIMEOUT, options.connect()).await {
        Ok(Ok(connection)) => connection.close().await.map_err(|error| cannot(&error)),
        Ok(Err(sqlx::Error::Io(error))) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(cannot(&"connection refused"))
        }
        Ok(Err(sqlx::Error::Database(error))) => Err(cannot(&error.message())),
        Ok(Err(error)) => Err(cannot(&error)),
        Err(_) => Err(cannot(&format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::{PgConnectOptions, PgSslMode};

    use super::encrypted_unless_local;

    #[test]
    fn connections_that_leave_this_machine_are_encrypted_unless_the_url_says_otherwise() {
        for (url, expected) in [
            ("postgres://rlinks@db.example/rlinks", true),
            ("postgres://rlinks@192.0.2.1:5433/rlinks?application_name=x", true),
            ("postgres://rlinks@db.example/rlinks?sslmode=disable", false),
            ("postgres://rlinks@db.example/rlinks?sslmode=prefer", false),
            ("postgres://rlinks@localhost/rlinks", false),
            ("postgres://rlinks@127.0.0.1/rlinks", false),
            ("postgres://rlinks@[::1]/rlinks", false),
            ("postgres://rlinks@%2Frun%2Fpostgresql/rlinks", false),
            ("postgres:///rlinks?host=/run/postgresql", false),
        ] {
            let mode = encrypted_unless_local(url, url.parse().unwrap()).get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::Require), expected, "{url}: {mode:?}");
        }
    }

    #[test]
    fn stricter_mode_than_encryption_is_kept() {
        let url = "postgres://rlinks@db.example/rlinks";
        for strict in [PgSslMode::VerifyCa, PgSslMode::VerifyFull] {
            // As `PGSSLMODE` sets it.
            let options = url.parse::<PgConnectOptions>().unwrap().ssl_mode(strict);
            let kept = encrypted_unless_local(url, options).get_ssl_mode();
            assert_eq!(format!("{kept:?}"), format!("{strict:?}"));
        }
    }
}
