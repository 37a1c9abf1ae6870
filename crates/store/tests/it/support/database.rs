//! Where a test's store lives: a folder of its own, and on PostgreSQL a database of its own. Both are gone after the test.
//!
//! Shared by the crates that keep tables, each of which includes this file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rlinks_core::Timestamp;
use rlinks_store::{Location, MissingStore, Store, StoreOptions, StoreWriter};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Runs each test on SQLite and on PostgreSQL.
macro_rules! contract {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                let test_store = $crate::support::database::TestStore::sqlite();
                super::$test(test_store).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                $crate::support::database::on_postgres(super::$test).await;
            })*
        }
    };
}
pub(crate) use contract;

/// A moment; tests count milliseconds from a frozen clock.
pub(crate) const fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000 + ms)
}

/// Where a store lives.
#[derive(Clone)]
pub(crate) struct TestStore {
    folder: Arc<TempDir>,
    pub(crate) location: Location,
}

impl TestStore {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("data/rlinks.db"));
        Self { folder: Arc::new(folder), location }
    }

    /// The same folder with a store elsewhere.
    #[allow(dead_code, reason = "not every crate that includes this file moves a store")]
    pub(crate) fn at(&self, location: Location) -> Self {
        Self { folder: Arc::clone(&self.folder), location }
    }

    /// A folder for files beside the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            location: self.location.clone(),
            worker: None,
            holder: "test".to_owned(),
            now: at(0),
            if_missing: MissingStore::Refuse,
        }
    }

    /// A store of its own connections and writer; a second one is another process in spirit.
    pub(crate) async fn open(&self) -> StoreWriter {
        Store::open(self.options()).await.unwrap().1
    }
}

/// So many tests at once have room among the server's connections.
static CONNECTION_PERMITS: Semaphore = Semaphore::const_new(8);

/// A database of one test.
pub(crate) struct Database {
    server: PgConnectOptions,
    name: String,
    pub(crate) test_store: TestStore,
    _permit: SemaphorePermit<'static>,
}

impl Database {
    pub(crate) async fn create() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let permit = CONNECTION_PERMITS.acquire().await.unwrap();
        let server: PgConnectOptions = server_url().parse().unwrap();
        let name = format!("rlinks_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut connection = server.connect().await.unwrap();
        // A killed run with the same process id may have left one.
        let drop = format!("drop database if exists {name} with (force)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await.unwrap();
        let create = format!("create database {name}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let url = server.clone().database(&name).to_url_lossy().to_string();
        let test_store =
            TestStore { folder: Arc::new(tempfile::tempdir().unwrap()), location: Location::Postgres(url) };
        Self { server, name, test_store, _permit: permit }
    }

    pub(crate) async fn remove(self) {
        let mut connection = self.server.connect().await.unwrap();
        let drop = format!("drop database if exists {} with (force)", self.name);
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

/// Runs a test on a database of its own, which is gone afterwards, also when the test fails.
pub(crate) async fn on_postgres<T: Future<Output = ()> + Send + 'static>(test: impl FnOnce(TestStore) -> T) {
    let database = Database::create().await;
    let outcome = tokio::spawn(test(database.test_store.clone())).await;
    database.remove().await;
    if let Err(failed) = outcome {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// The one place where tests ask for the server.
#[expect(clippy::disallowed_methods, reason = "the server is started outside of cargo")]
fn server_url() -> String {
    std::env::var("RLINKS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("RLINKS_TEST_POSTGRES names no server; run `scripts/with-postgres cargo test -- postgres`, or leave these tests out with `--skip postgres`")
    })
}
