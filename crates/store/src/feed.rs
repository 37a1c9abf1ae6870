//! The change feed: the heads of the audit chains themselves.
//!
//! A follower remembers how far it has seen each workspace. SQLite's `data_version` and PostgreSQL's NOTIFY are only hints to
//! look now; looking is what counts. A chain that goes back or has another past was restored from a backup, and then
//! everything is loaded anew.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rlinks_core::Id;
use sqlx::postgres::PgListener;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::watch;

use crate::database::pool::{Pool, read};
use crate::{Store, StoreError};

/// What changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The past is another one: load everything anew.
    pub everything: bool,
    /// Workspaces or domains changed.
    pub directory: bool,
    /// Members, keys or workspaces changed: who may do what.
    pub rights: bool,
    /// Links that changed, by workspace and code.
    pub links: Vec<(Id, Vec<String>)>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        !self.everything && !self.directory && !self.rights && self.links.is_empty()
    }
}

/// More entries than this at once are not worth following one by one.
const MAX_CATCH_UP_ENTRIES: i64 = 50_000;

/// What changed in one workspace.
#[derive(Default)]
struct WorkspaceChanges {
    codes: BTreeSet<String>,
    directory: bool,
    rights: bool,
}

/// Follows a store's changes.
pub struct Feed {
    store: Store,
    last_heads: HashMap<i64, (i64, String)>,
    committed: watch::Receiver<u64>,
    hint: Hint,
}

enum Hint {
    /// A connection of its own: `data_version` tells of other connections' commits, and only to one that stays.
    Sqlite {
        connection: Option<Box<SqliteConnection>>,
        version: Option<i64>,
    },
    Postgres {
        listener: Option<Box<PgListener>>,
    },
}

impl Feed {
    /// A follower that has seen nothing: its first look says `everything`.
    pub fn new(store: &Store) -> Self {
        let hint = match &store.pool {
            Pool::Sqlite { .. } => Hint::Sqlite { connection: None, version: None },
            Pool::Postgres(_) => Hint::Postgres { listener: None },
        };
        Self {
            store: store.clone(),
            last_heads: HashMap::new(),
            committed: store.committed.subscribe(),
            hint,
        }
    }

    /// Looks. An `Ok` says that the follower is up to date as of this call.
    pub async fn poll(&mut self) -> Result<Changes, StoreError> {
        self.store.pool.check()?;
        self.committed.mark_unchanged();
        let changes = self.poll_heads().await;
        if changes.is_err() {
            // The next look must not trust a hint that spoke of a time before the trouble.
            if let Hint::Sqlite { connection, version } = &mut self.hint {
                (*connection, *version) = (None, None);
            }
        }
        changes
    }

    async fn poll_heads(&mut self) -> Result<Changes, StoreError> {
        if !self.last_heads.is_empty() && self.is_unchanged().await? {
            return Ok(Changes::default());
        }
        let heads = self.store.heads().await?;
        if self.last_heads.is_empty() {
            self.remember(&heads);
            return Ok(Changes { everything: true, ..Changes::default() });
        }
        let mut changes = Changes::default();
        for (id, head) in &heads {
            let (seq, hash) = self
                .last_heads
                .get(&id.as_i64())
                .cloned()
                .unwrap_or((0, rlinks_core::audit::GENESIS_HASH.to_owned()));
            if (seq, &hash) == (head.seq, &head.hash) {
                continue;
            }
            match self.changes_since(*id, seq, &hash, head.seq).await? {
                Some(found) => {
                    changes.directory |= found.directory;
                    changes.rights |= found.rights;
                    if !found.codes.is_empty() {
                        changes.links.push((*id, found.codes.into_iter().collect()));
                    }
                }
                None => changes.everything = true,
            }
        }
        if self.last_heads.keys().any(|id| heads.iter().all(|(there, _)| there.as_i64() != *id)) {
            changes.everything = true;
        }
        self.remember(&heads);
        Ok(changes)
    }

    fn remember(&mut self, heads: &[(Id, rlinks_core::audit::Head)]) {
        self.last_heads =
            heads.iter().map(|(id, head)| (id.as_i64(), (head.seq, head.hash.clone()))).collect();
    }

    /// What changed in a workspace after `seq`. Nothing when the past is not the one we knew, or too much happened.
    async fn changes_since(
        &self,
        workspace: Id,
        seq: i64,
        hash: &str,
        until: i64,
    ) -> Result<Option<WorkspaceChanges>, StoreError> {
        if until < seq || until - seq > MAX_CATCH_UP_ENTRIES {
            return Ok(None);
        }
        let rows: Vec<(i64, String, String)> = read!(
            &self.store.pool,
            fetch_all,
            "select seq, hash, subject from audit where workspace_id = $1 and seq >= $2 and seq <= $3 order by seq",
            workspace.as_i64(),
            seq,
            until
        )?;
        let mut rows = rows.into_iter().peekable();
        if seq > 0 && rows.next_if(|(at, known, _)| *at == seq && known == hash).is_none() {
            return Ok(None);
        }
        let mut changes = WorkspaceChanges::default();
        for (_, _, subject) in rows {
            if let Some(code) = subject.strip_prefix("link:") {
                changes.codes.insert(code.to_owned());
                continue;
            }
            let (workspace, domain) = (subject.starts_with("workspace:"), subject.starts_with("domain:"));
            changes.directory |= workspace || domain;
            changes.rights |= !domain;
        }
        Ok(Some(changes))
    }

    /// On SQLite, whether no other connection has committed since the last look: one cheap question instead of a query.
    async fn is_unchanged(&mut self) -> Result<bool, StoreError> {
        let Hint::Sqlite { connection, version } = &mut self.hint else { return Ok(false) };
        let Pool::Sqlite { readers, .. } = &self.store.pool else { return Ok(false) };
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(Box::new(readers.acquire().await?.detach())),
        };
        let (now,): (i64,) = sqlx::query_as("pragma data_version").fetch_one(&mut **connection).await?;
        Ok(version.replace(now) == Some(now))
    }

    /// Waits until a look may be worth it, at most this long.
    pub async fn wait(&mut self, at_most: Duration) {
        let Hint::Postgres { listener } = &mut self.hint else {
            let _ = tokio::time::timeout(at_most, self.committed.changed()).await;
            return;
        };
        if listener.is_none()
            && let Pool::Postgres(pool) = &self.store.pool
            && let Ok(Ok(mut fresh)) = tokio::time::timeout(at_most, PgListener::connect_with(pool)).await
            && fresh.listen("rlinks").await.is_ok()
        {
            *listener = Some(Box::new(fresh));
        }
        let Some(active) = listener else {
            let _ = tokio::time::timeout(at_most, self.committed.changed()).await;
            return;
        };
        tokio::select! {
            _ = self.committed.changed() => {}
            heard = active.recv() => {
                if heard.is_err() {
                    *listener = None;
                    tokio::time::sleep(at_most.min(Duration::from_millis(200))).await;
                }
            }
            () = tokio::time::sleep(at_most) => {}
        }
    }
}
