//! Migrations: those this program knows, those the store has, and why some cannot be run.

use sqlx::migrate::{MigrateError, Migrator};

use crate::database::pool::{Pool, read};
use crate::{Store, StoreError};

pub(super) static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
pub(super) static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// The schema versions this program knows and those the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Known to this program.
    pub known: Vec<i64>,
    /// Applied to the store.
    pub applied: Vec<i64>,
}

impl Store {
    /// The schema versions: for `rmax doctor` and `rmax migrate status`.
    pub async fn schema(&self) -> Result<Schema, StoreError> {
        let rows: Vec<(i64,)> =
            read!(&self.pool, fetch_all, "select version from _sqlx_migrations order by version")?;
        Ok(Schema {
            known: known_migrations(&self.pool),
            applied: rows.into_iter().map(|(version,)| version).collect(),
        })
    }
}

fn known_migrations(pool: &Pool) -> Vec<i64> {
    let migrator = match pool {
        Pool::Sqlite { .. } => &SQLITE,
        Pool::Postgres(_) => &POSTGRES,
    };
    migrator.iter().map(|migration| migration.version).collect()
}

/// Why migrations could not be run, for whoever opened the store.
pub(super) fn refusal(error: &MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(version) | MigrateError::VersionNotPresent(version) => {
            StoreError::Refused(format!(
                "this store was written by a newer rmax (schema {version}); install that version or a later one. Nothing was changed"
            ))
        }
        MigrateError::VersionMismatch(version) => StoreError::Refused(format!(
            "the schema of this store (migration {version}) is not the one this program knows. Nothing was changed"
        )),
        MigrateError::Execute(error) => match error {
            sqlx::Error::Database(database) if matches!(database.code().as_deref(), Some("26" | "11")) => {
                StoreError::Refused(format!(
                    "the database is damaged ({}); restore a backup",
                    database.message()
                ))
            }
            _ => StoreError::Unavailable(error.to_string()),
        },
        other => StoreError::Unavailable(other.to_string()),
    }
}
