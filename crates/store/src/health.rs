//! Whether the truth is sound: for `rmax doctor` and for the start of a server.

use std::collections::HashMap;

use rlinks_core::{Id, Link};

use crate::audit::link_subject;
use crate::open::known_migrations;
use crate::pool::{Pool, read};
use crate::rows::json;
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
        let rows: Vec<(String,)> = sqlx::query_as("pragma integrity_check(20)").fetch_all(readers).await?;
        Ok(rows.into_iter().map(|(line,)| line).filter(|line| line != "ok").collect())
    }

    /// The same in short for a server's start, where the file is small enough not to delay it.
    pub async fn quick_check(&self) -> Result<(), StoreError> {
        let Pool::Sqlite { readers, file, .. } = &self.pool else { return Ok(()) };
        if std::fs::metadata(file.path()).map_or(0, |file| file.len()) > QUICK_BYTES {
            return Ok(());
        }
        let row: (String,) = sqlx::query_as("pragma quick_check(1)").fetch_one(readers).await?;
        if row.0 == "ok" {
            return Ok(());
        }
        Err(StoreError::Refused(format!(
            "{} is damaged ({}); restore a backup with `rmax restore`, or look closer with `rmax doctor`",
            file.path().display(),
            row.0
        )))
    }

    /// Links whose row is not what their last audit entry says: somebody changed the table past the log. At most twenty codes.
    pub async fn links_beside_the_log(&self) -> Result<Vec<String>, StoreError> {
        let (mut strangers, mut after) = (Vec::new(), Some(Id::from_i64(i64::MIN)));
        while let Some(from) = after {
            let (links, next) = self.links_by_id(from, PAGE).await?;
            after = next;
            let places: Vec<_> = links
                .iter()
                .map(|link| serde_json::json!({ "id": link.workspace.as_i64(), "subject": link_subject(&link.code) }))
                .collect();
            let rows: Vec<(i64, String, Option<String>)> = read!(
                &self.pool,
                fetch_all,
                "select a.workspace_id, a.subject, a.after
                 from (select b.workspace_id, b.subject, max(b.seq) as seq from audit b
                       where (b.workspace_id, b.subject) in (select cast(value ->> 'id' as bigint), value ->> 'subject' from json_each($1))
                       group by b.workspace_id, b.subject) as newest
                 join audit a on a.workspace_id = newest.workspace_id and a.seq = newest.seq",
                json(&places)
            )?;
            let logged: HashMap<_, _> =
                rows.into_iter().map(|(id, subject, after)| ((id, subject), after)).collect();
            for link in links {
                let entry =
                    logged.get(&(link.workspace.as_i64(), link_subject(&link.code))).cloned().flatten();
                let same = entry
                    .and_then(|after| serde_json::from_str::<Link>(&after).ok())
                    .is_some_and(|logged| logged == link);
                if !same && strangers.len() < 20 {
                    strangers.push(link.code.to_string());
                }
            }
        }
        Ok(strangers)
    }
}

const PAGE: i64 = 1000;
