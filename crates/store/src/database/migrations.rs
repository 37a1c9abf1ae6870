//! Migrations: those this program knows, those the store has, and why some cannot be run.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::SqlStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::database::pool::{Pool, read};
use crate::{Store, StoreError};

pub(super) static SQLITE_MIGRATIONS: LazyLock<Migrator> =
    LazyLock::new(|| migrator(files!("../../migrations/sqlite/")));
pub(super) static POSTGRES_MIGRATIONS: LazyLock<Migrator> =
    LazyLock::new(|| migrator(files!("../../migrations/postgres/")));

/// The migrations of this crate, in order. A new one is added at the end; those that are here never change, because a store keeps a checksum
/// of each.
macro_rules! files {
    ($folder:literal) => {
        crate::migration_files!(
            $folder,
            "0001_foundation",
            "0002_people",
            "0003_sign_in",
            "0004_oidc",
            "0005_safety",
            "0006_batches",
            "0007_few_rows",
            "0008_custody",
            "0009_no_look_up_a_row",
            "0010_newest_last",
            "0011_limits",
            "0012_principals",
            "0013_grants",
            "0014_integrity"
        )
    };
}
use files;

/// Names and texts of migrations in a folder.
#[macro_export]
macro_rules! migration_files {
    ($folder:literal, $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!($folder, $name, ".sql")))),*]
    };
}

/// Migrations as sqlx runs them, recorded in `_sqlx_migrations` by the number before the first `_` and the words after it.
pub fn migrator(files: &[(&'static str, &'static str)]) -> Migrator {
    let migrations = files.iter().map(|(name, sql)| {
        let (version, description) = name.split_once('_').expect("a migration is called NUMBER_WORDS");
        let version = version.parse().expect("a migration begins with its number");
        let description = Cow::Owned(description.replace('_', " "));
        Migration::new(version, description, MigrationType::Simple, SqlStr::from_static(sql), false)
    });
    Migrator::with_migrations(migrations.collect())
}

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
        Pool::Sqlite { .. } => &SQLITE_MIGRATIONS,
        Pool::Postgres(_) => &POSTGRES_MIGRATIONS,
    };
    migrator.iter().map(|migration| migration.version).collect()
}

/// Why migrations could not be run, as a store error.
pub(super) fn migration_error(error: &MigrateError) -> StoreError {
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
