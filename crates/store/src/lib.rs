//! The truth: workspaces, domains, links and the audit chain, in SQLite or PostgreSQL behind one concrete [`Store`] that reads and one
//! [`StoreWriter`] that changes it.
//!
//! | to find | look in |
//! |---|---|
//! | opening, migrations, ids, one SQL text for two databases | [`database`] |
//! | the audit log: its chains, and their signed checkpoints | [`audit`] |
//! | reading links, lists and history | `links` |
//! | workspaces, domains and their verification | `workspace` |
//! | members, API keys, sessions, sign-in | `access` |
//! | changing links | [`mod@write`]: one queue, groups that share a commit |
//! | how many links somebody may change in a minute | `change_limits` |
//! | backup and restore, and rows that are not what the log says | [`backup`] |
//! | what changed, for caches | [`feed`] |
//! | keys that several nodes share, and keys that sign | `installation` |
//! | where jobs go on that are done in parts | `jobs` |
//! | how many there may be of something; what counts towards hourly limits | `quota`, `limit_uses` |
//! | the time and random bytes | [`clock`] |
//!
//! A module uses only modules above it: `access` knows `workspace` and `audit`, `write` knows `links` and `audit`, and everything
//! knows `database`.
//!
//! No query filters by state or expiry: what a link answers is `decide`'s business. No expected outcome is a database error.

mod access;
pub mod audit;
pub mod backup;
mod change_limits;
pub mod clock;
pub mod database;
mod error;
pub mod feed;
mod installation;
mod jobs;
mod limit_uses;
mod links;
mod quota;
mod workspace;
pub mod write;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Timestamp;
use rlinks_core::id::WorkerId;
use tokio::sync::watch;

pub use access::api_keys::{KeyWithOwner, NewKey};
pub use access::grants::{CreatedWithKeys, OpenInvitation, RevocationReach, RevokedKey};
pub use access::members::{NewInvite, NewUser};
pub use access::oidc_identities::{OidcIdentity, OidcProfile};
pub use access::sessions::{
    AuthMethod, NewSession, Session, SessionWithUser, SignInReset, session_public_id,
};
pub use access::sign_in::PendingInvitation;
pub use access::sign_in_attempts::{
    AttemptSource, LockoutPolicy, RefusedAttempt, SignInAttempt, UnknownSource,
};
pub use access::sign_in_reset::EndedSignIn;
pub use audit::log::AuditFilter;
pub use audit::stops::LimitStop;
pub use change_limits::{ChangeLimits, Enforcement};
pub use database::migrations::Schema;
pub use database::open::{Location, MissingStore, StoreOptions};
pub use database::pool::Dialect;
pub use error::{LimitScope, LimitedChange, QuotaHolder, QuotaKind, StoreError};
pub use installation::audit_keys::AuditKeyRecord;
pub use installation::shared_keys::{SecretKey, SharedKeyPair};
pub use limit_uses::LimitUse;
#[doc(hidden)]
pub use links::list_filter::SmallResult;
pub use links::list_filter::{ExpiryFilter, LinkFilter, ListPosition, Order, SortBy};
pub use links::read::LinkName;
pub use links::routes::RouteRecord;
pub use links::time_travel::RollbackRecord;
pub use quota::{Quota, WORKSPACE_FACTOR};
pub use workspace::domains::{DomainQuota, DomainRecord};

use crate::database::pool::Pool;
use crate::write::queue::WriteQueue;

/// Reads the truth. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    committed: Arc<watch::Sender<u64>>,
    /// How often this process changed anything but links.
    rights_version: Arc<AtomicU64>,
    location: Arc<Location>,
}

/// Changes the truth, and reads it too. Opening a store gives one; nothing can be changed without it. Cheap to clone; all
/// clones share one queue of changes.
#[derive(Clone)]
pub struct StoreWriter {
    store: Store,
    queue: WriteQueue,
    worker: WorkerId,
}

impl StoreWriter {
    /// The same store, to read.
    pub fn reader(&self) -> Store {
        self.store.clone()
    }
}

impl Deref for StoreWriter {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Store {
    async fn start(
        pool: Pool,
        location: Location,
        worker: Option<WorkerId>,
        holder: &str,
        now: Timestamp,
    ) -> Result<(Self, StoreWriter), StoreError> {
        crate::workspace::workspaces::ensure_main(&pool, now).await?;
        let worker = crate::database::ids::lease_worker_id(&pool, worker, holder, now).await?;
        let committed = Arc::new(watch::Sender::new(0));
        let queue = WriteQueue::start(pool.clone(), worker, Arc::clone(&committed));
        let store = Self { pool, committed, rights_version: Arc::default(), location: Arc::new(location) };
        Ok((store.clone(), StoreWriter { store, queue, worker }))
    }

    /// How often this process has changed anything but links. What was read at one count is still so while the count is the same and
    /// the feed has told of nothing.
    pub fn rights_version(&self) -> u64 {
        self.rights_version.load(Ordering::Acquire)
    }

    /// Where it is. On PostgreSQL this holds the password.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        self.pool.dialect()
    }

    /// Waits until every connection is closed.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl StoreWriter {
    /// Something other than links was changed: followers look now, and remembered rights are looked up again.
    pub(crate) fn notify_changed(&self) {
        self.rights_version.fetch_add(1, Ordering::AcqRel);
        self.committed.send_modify(|count| *count += 1);
    }
}
