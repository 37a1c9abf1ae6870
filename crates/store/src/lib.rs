//! The truth: workspaces, domains, links and the audit chain, in SQLite or PostgreSQL behind one concrete [`Store`].
//!
//! | to find | look in |
//! |---|---|
//! | opening, migrations, ids, one SQL text for two databases | [`database`] |
//! | the audit log: its chains, and their signed checkpoints | [`audit`] |
//! | reading links, lists and history | `links` |
//! | workspaces, domains and their verification | `workspace` |
//! | members, API keys, sessions, sign-in | `access` |
//! | changing links | [`mod@write`]: one queue, groups that share a commit |
//! | backup and restore, and rows that are not what the log says | [`backup`] |
//! | what changed, for caches | [`feed`] |
//! | leases and keys that several nodes share | `jobs` |
//! | the time and random bytes | [`clock`] |
//!
//! A module uses only modules above it: `access` knows `workspace` and `audit`, `write` knows `links` and `audit`, and everything
//! knows `database`.
//!
//! No query filters by state or expiry: what a link answers is `decide`'s business. No expected outcome is a database error.

mod access;
pub mod audit;
pub mod backup;
pub mod clock;
pub mod database;
mod error;
pub mod feed;
mod jobs;
mod links;
mod workspace;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Timestamp;
use rlinks_core::id::WorkerId;
use tokio::sync::watch;

pub use access::api_keys::{KeyWithOwner, NewKey};
pub use access::members::NewUser;
pub use access::oidc_identities::{OidcIdentity, OidcProfile};
pub use access::sessions::{AuthMethod, NewSession, Session, SessionWithUser};
pub use access::sign_in::{LockoutPolicy, PendingInvitation, SignInAttempt};
pub use audit::log::AuditFilter;
pub use database::migrations::Schema;
pub use database::open::{Location, MissingStore, StoreOptions};
pub use database::pool::Dialect;
pub use error::StoreError;
#[doc(hidden)]
pub use links::list_filter::SmallResult;
pub use links::list_filter::{ExpiryFilter, LinkFilter, ListPosition, Order, SortBy};
pub use links::read::LinkName;
pub use links::routes::RouteRecord;
pub use workspace::domains::DomainRecord;

use crate::database::pool::Pool;
use crate::write::queue::Writer;

/// The truth. Cheap to clone; all clones share one writer.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    writer: Writer,
    worker: WorkerId,
    committed: Arc<watch::Sender<u64>>,
    /// How often this process changed anything but links.
    rights_version: Arc<AtomicU64>,
    location: Arc<Location>,
}

impl Store {
    async fn start(
        pool: Pool,
        location: Location,
        worker: Option<WorkerId>,
        holder: &str,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        crate::workspace::workspaces::ensure_main(&pool, now).await?;
        let worker = crate::database::ids::lease_worker_id(&pool, worker, holder, now).await?;
        let committed = Arc::new(watch::Sender::new(0));
        let writer = Writer::start(pool.clone(), worker, Arc::clone(&committed));
        let rights_version = Arc::default();
        Ok(Self { pool, writer, worker, committed, rights_version, location: Arc::new(location) })
    }

    /// Something but links was changed: followers look, and whoever remembers who may do what asks again.
    pub(crate) fn notify_changed(&self) {
        self.rights_version.fetch_add(1, Ordering::AcqRel);
        self.committed.send_modify(|count| *count += 1);
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
