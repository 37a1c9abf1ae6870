//! The truth: workspaces, domains, links and the audit chain, in SQLite or PostgreSQL behind one concrete [`Store`].
//!
//! | to find | look in |
//! |---|---|
//! | opening, migrations, what is refused | [`open`] |
//! | how one text runs on two databases | [`pool`] |
//! | reading links, lists, history | `links`, `list`; `routes` for the redirect path; `mend` for broken rows |
//! | workspaces and domains | `workspaces`; `directory` for what the log says of them, `custody` for whether a host is proven |
//! | people and their keys | `users`, `keys`; `sessions` for who is signed in, `sign_in` for how they get in, `subjects` for whom an OpenID provider knows |
//! | changing anything | [`mod@write`]: one queue, groups that share a commit |
//! | learning of changes | [`feed`] |
//! | audit, signed heads | [`audit`], [`sign`]; `past` for links as they were |
//! | backup and restore | [`backup`] |
//!
//! No query filters by state or expiry: what a link answers is `decide`'s business. No expected outcome is a database error.

pub mod audit;
pub mod backup;
mod custody;
mod directory;
mod error;
pub mod feed;
mod file;
mod health;
mod installation;
mod keys;
mod links;
mod list;
mod mend;
pub mod open;
mod past;
mod people;
#[cfg(test)]
mod plan;
pub mod pool;
mod routes;
mod rows;
mod sessions;
pub mod sign;
mod sign_in;
mod subjects;
mod users;
mod workspaces;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Timestamp;
use rlinks_core::id::Worker;
use tokio::sync::watch;

pub use audit::AuditFilter;
pub use custody::Held;
pub use error::StoreError;
pub use health::Schema;
pub use keys::{KeyHolder, NewKey};
pub use links::LinkName;
#[doc(hidden)]
pub use list::Few;
pub use list::{Expiry, LinkFilter, Order, Position, SortBy};
pub use open::{Location, Lost, Options};
pub use pool::Dialect;
pub use routes::RouteRecord;
pub use sessions::{How, NewSession, Session, SessionHolder};
pub use sign_in::{Attempt, Invited, Patience};
pub use subjects::{Profile, Subject};
pub use users::NewUser;

use crate::pool::Pool;
use crate::write::Writer;

/// The truth. Cheap to clone; all clones share one writer.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    writer: Writer,
    worker: Worker,
    committed: Arc<watch::Sender<u64>>,
    /// How often this process changed anything but links.
    others: Arc<AtomicU64>,
    location: Arc<Location>,
}

impl Store {
    async fn start(
        pool: Pool,
        location: Location,
        worker: Option<Worker>,
        holder: &str,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        workspaces::ensure_main(&pool, now).await?;
        let worker = write::lease(&pool, worker, holder, now).await?;
        let committed = Arc::new(watch::Sender::new(0));
        let writer = Writer::start(pool.clone(), worker, Arc::clone(&committed));
        let others = Arc::default();
        Ok(Self { pool, writer, worker, committed, others, location: Arc::new(location) })
    }

    /// Something but links was changed: followers look, and whoever remembers who may do what asks again.
    pub(crate) fn announce(&self) {
        self.others.fetch_add(1, Ordering::AcqRel);
        self.committed.send_modify(|count| *count += 1);
    }

    /// How often this process has changed anything but links. What was read at one count is still so while the count is the same and
    /// the feed has told of nothing.
    pub fn others_changed(&self) -> u64 {
        self.others.load(Ordering::Acquire)
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
