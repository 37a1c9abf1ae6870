//! How SQLite means to answer, for tests that say it must not read a whole table.

use rlinks_core::Timestamp;
use sqlx::AssertSqlSafe;

use crate::database::pool::read;
use crate::{Location, MissingStore, Store, StoreError, StoreOptions};

pub(crate) async fn empty_store(folder: &tempfile::TempDir) -> Store {
    let location = Location::Sqlite(folder.path().join("rlinks.db"));
    let now = Timestamp::from_ms(1_800_000_000_000);
    let holder = "test".to_owned();
    Store::open(StoreOptions { location, worker: None, holder, now, if_missing: MissingStore::Refuse })
        .await
        .unwrap()
        .0
}

/// What SQLite means to do.
pub(crate) async fn query_plan(store: &Store, sql: &str) -> String {
    let rows = async || -> Result<Vec<(i64, i64, i64, String)>, StoreError> {
        let sql = AssertSqlSafe(format!("explain query plan {sql}"));
        Ok(read!(&store.pool, fetch_all, sql)?)
    };
    rows().await.unwrap().into_iter().map(|(_, _, _, detail)| detail).collect::<Vec<_>>().join("; ")
}
