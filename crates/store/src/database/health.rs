//! Whether the truth is sound: for `rmax doctor` and for the start of a server.

use sqlx::sqlite::{SqliteConnection, SqlitePool};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::database::open::known_migrations;
use crate::database::pool::{Pool, read, read_in};
use crate::links::recover;
use crate::links::rows::{LinkRow, fills, link_columns};
use crate::{Store, StoreError};

/// The schema versions this program knows and those the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Known to this program.
    pub known: Vec<i64>,
    /// Applied to the store.
    pub applied: Vec<i64>,
}

/// Files up to this size are checked whole when a server starts; larger ones only by `rmax doctor`.
const QUICK_BYTES: u64 = 256 * 1024 * 1024;

impl Store {
    /// The schema versions.
    pub async fn schema(&self) -> Result<Schema, StoreError> {
        let rows: Vec<(i64,)> =
            read!(&self.pool, fetch_all, "select version from _sqlx_migrations order by version")?;
        Ok(Schema {
            known: known_migrations(&self.pool),
            applied: rows.into_iter().map(|(version,)| version).collect(),
        })
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let _: (i64,) = read!(&self.pool, fetch_one, "select count(*) from heads")?;
        Ok(())
    }

    /// The database's own check of every page and index. Gives what is wrong, in its words. PostgreSQL checks itself as it
    /// reads; there is nothing to run.
    pub async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let Pool::Sqlite { readers, .. } = &self.pool else { return Ok(Vec::new()) };
        self.pool.check()?;
        let mut fresh = connect_anew(readers).await?;
        let rows: Vec<(String,)> = sqlx::query_as("pragma integrity_check(20)").fetch_all(&mut fresh).await?;
        fresh.close().await?;
        Ok(rows.into_iter().map(|(line,)| line).filter(|line| line != "ok").collect())
    }

    /// The same in short for a server's start, where the file is small enough not to delay it.
    pub async fn quick_check(&self) -> Result<(), StoreError> {
        let Pool::Sqlite { readers, file, .. } = &self.pool else { return Ok(()) };
        if std::fs::metadata(file.path()).map_or(0, |file| file.len()) > QUICK_BYTES {
            return Ok(());
        }
        let mut fresh = connect_anew(readers).await?;
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

    /// Links whose row is not what their last audit entry says, or is gone: somebody changed the table past the log. At most
    /// twenty codes.
    pub async fn links_beside_the_log(&self) -> Result<Vec<String>, StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where id > $1 order by id limit $2");
        let mut view = self.pool.snapshot().await?;
        let gone: Vec<(i64, String)> = read_in!(&mut view, fetch_all, LINKS_GONE, i64::from(MOST_STRANGERS))?;
        let mut strangers: Vec<_> = gone.into_iter().map(|(_, code)| code).collect();
        let mut after = i64::MIN;
        loop {
            let rows: Vec<LinkRow> = read_in!(&mut view, fetch_all, SQL, after, PAGE)?;
            let full = fills(PAGE, rows.len());
            let places: Vec<_> = rows.iter().map(|row| (row.workspace_id, row.code.clone())).collect();
            let mut logged = recover::logged_in(&mut view, &places).await?;
            for (row, place) in rows.into_iter().zip(places) {
                after = row.id;
                let entry = logged.remove(&place);
                // A row nobody can read was not written by us either.
                if entry.is_none() || entry != row.link().ok() {
                    strangers.push(place.1);
                }
            }
            strangers.truncate(usize::from(MOST_STRANGERS));
            if !full {
                return Ok(strangers);
            }
        }
    }
}

/// Workspaces and codes the log speaks of and the table does not have, at most `$1`. No link is ever removed from it.
pub(crate) const LINKS_GONE: &str = "select distinct a.workspace_id, substr(a.subject, 6) from audit a
     where a.subject >= 'link:' and a.subject < 'link;'
       and not exists (select 1 from links l where l.workspace_id = a.workspace_id and l.code = substr(a.subject, 6))
     order by 1, 2 limit $1";

/// A connection that has read nothing yet. SQLite's full-text search remembers its structure and, when checked, does not ask
/// whether others have changed it since: a connection that searched before would report damage that is not there.
async fn connect_anew(pool: &SqlitePool) -> Result<SqliteConnection, StoreError> {
    Ok(pool.connect_options().connect().await?)
}

const PAGE: i64 = 1000;
const MOST_STRANGERS: u8 = 20;
