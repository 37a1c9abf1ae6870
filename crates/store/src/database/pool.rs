//! The only file that knows how two databases are spoken to.
//!
//! Every query is written once, as text both SQLite and PostgreSQL accept: `$1` placeholders, `returning`,
//! `on conflict`, and `json_each($1)` for a batch of keys or rows ([`bulk`](super::bulk) where rows are many). The macros run it on whichever
//! database is open. A statement that must differ says so on the spot with [`Dialect`]. Crates that keep tables of their own beside
//! the truth use the same macros.

use sqlx::{PgPool, Postgres, Sqlite, SqlitePool};

use crate::StoreError;
use crate::database::file::FileGuard;

/// Which database is open, where a statement must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One file on this machine.
    Sqlite,
    Postgres,
}

#[derive(Clone)]
pub enum Pool {
    /// One connection that writes, several that read: SQLite has one writer at a time, and readers never wait for it.
    Sqlite {
        /// The one that writes.
        writer: SqlitePool,
        readers: SqlitePool,
        /// Which file it is.
        file: FileGuard,
    },
    Postgres(PgPool),
}

/// A connection on which several statements run: a transaction, or a consistent view for reading.
pub enum Tx {
    Sqlite(sqlx::Transaction<'static, Sqlite>, FileGuard),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

impl Pool {
    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite { .. } => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Fails when the file behind an open SQLite database is no longer the one at its path: reads would come from, and
    /// acknowledged writes would go into, a file nobody finds again.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite { file, .. } => file.check(),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// A transaction that writes. On SQLite it takes the write lock at once: an upgrade later would fail without waiting.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.check()?;
        Ok(match self {
            Self::Sqlite { writer, file, .. } => {
                Tx::Sqlite(writer.begin_with("begin immediate").await?, file.clone())
            }
            Self::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    /// A transaction that reads one consistent state.
    pub async fn snapshot(&self) -> Result<Tx, StoreError> {
        self.check()?;
        Ok(match self {
            Self::Sqlite { readers, file, .. } => {
                Tx::Sqlite(readers.begin_with("begin").await?, file.clone())
            }
            Self::Postgres(pool) => {
                Tx::Postgres(pool.begin_with("begin isolation level repeatable read read only").await?)
            }
        })
    }
}

impl Pool {
    /// After many rows at once: lets PostgreSQL count tables by `analyze ...`. Until it has, which by itself may take it a minute, it
    /// rather reads and sorts a whole table than look into an index. Only speed depends on it, so trouble is not the caller's.
    pub async fn analyze(&self, statement: &'static str) {
        if let Self::Postgres(pool) = self
            && let Err(error) = sqlx::query(statement).execute(pool).await
        {
            tracing::debug!(%error, "tables that grew were not counted");
        }
    }

    /// Waits until every connection is closed.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers, .. } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(..) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(tx, file) => {
                file.check()?;
                tx.commit().await?;
            }
            Self::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

/// Runs a query on the readers: `read!(pool, fetch_all, SQL, arguments...)`.
#[macro_export]
macro_rules! read {
    ($pool:expr, $method:ident, $sql:expr $(, $arg:expr)* $(,)?) => {{
        $pool.check()?;
        match $pool {
            $crate::database::pool::Pool::Sqlite { readers, .. } => sqlx::query_as($sql)$(.bind($arg))*.$method(readers).await,
            $crate::database::pool::Pool::Postgres(pool) => sqlx::query_as($sql)$(.bind($arg))*.$method(pool).await,
        }
    }};
}

/// Runs a query that gives rows inside a transaction.
#[macro_export]
macro_rules! read_in {
    ($tx:expr, $method:ident, $sql:expr $(, $arg:expr)* $(,)?) => {
        match &mut *$tx {
            $crate::database::pool::Tx::Sqlite(tx, _) => sqlx::query_as($sql)$(.bind($arg))*.$method(&mut **tx).await,
            $crate::database::pool::Tx::Postgres(tx) => sqlx::query_as($sql)$(.bind($arg))*.$method(&mut **tx).await,
        }
    };
}

/// Runs a statement inside a transaction and gives the number of rows it touched.
#[macro_export]
macro_rules! run_in {
    ($tx:expr, $sql:expr $(, $arg:expr)* $(,)?) => {
        match &mut *$tx {
            $crate::database::pool::Tx::Sqlite(tx, _) => sqlx::query($sql)$(.bind($arg))*.execute(&mut **tx).await.map(|done| done.rows_affected()),
            $crate::database::pool::Tx::Postgres(tx) => sqlx::query($sql)$(.bind($arg))*.execute(&mut **tx).await.map(|done| done.rows_affected()),
        }
    };
}

pub use crate::{read, read_in, run_in};
