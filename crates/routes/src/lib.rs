//! What the redirect path knows: the directory, the route table, and how fresh both are. Read by every serving thread; written
//! by the follower of the change feed and by loads after a miss.

pub mod feed_follower;
pub mod host_directory;
mod negative_cache;
pub mod route_table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rlinks_core::{Host, Id};
use rlinks_store::{RouteRecord, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::host_directory::Directory;
use crate::negative_cache::Absent;
use crate::route_table::Table;
use rlinks_store::clock::monotonic_ms;

/// How long the feed's last word counts.
const FRESH_MS: u64 = 2_000;
/// How long a request waits for the store.
const LOAD: Duration = Duration::from_secs(2);
/// How many different codes may be asked of the store at once; more are turned away.
const MOST_LOADS: usize = 1024;

/// What a load after a miss gave.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// It is there.
    Found(Arc<RouteRecord>),
    /// There is no such link.
    Absent,
    /// Somebody wrote what nobody can read: not served.
    Unreadable,
    /// The store could not be asked. Never means "absent".
    Unavailable,
}

type Waiters = Vec<oneshot::Sender<Loaded>>;

/// What the redirect path knows.
pub struct Routes {
    /// Hosts and policies.
    pub directory: ArcSwap<Directory>,
    /// Whoever reads the directory puts it in its place before the next one reads: else an older one could replace a newer.
    reading: tokio::sync::Mutex<()>,
    /// The links.
    pub table: ArcSwap<Table>,
    absent: Absent,
    /// The table was filled with everything there is.
    filled: AtomicBool,
    /// When the feed last said that we are up to date; 0 is never.
    confirmed_ms: AtomicU64,
    /// How often the feed has told of members, keys or workspaces.
    people_changed: AtomicU64,
    flights: Mutex<HashMap<(Id, String), Waiters>>,
    store: Store,
    control: Handle,
    cache_bytes: usize,
}

impl Routes {
    /// Nothing known yet: every code is asked of the store. `control` is the runtime the store's connections belong to.
    pub fn new(store: Store, control: Handle, cache_bytes: usize) -> Self {
        Self {
            directory: ArcSwap::from_pointee(Directory::empty()),
            reading: tokio::sync::Mutex::default(),
            table: ArcSwap::from_pointee(Table::new(cache_bytes)),
            absent: Absent::new(),
            filled: AtomicBool::new(false),
            confirmed_ms: AtomicU64::new(0),
            people_changed: AtomicU64::new(0),
            flights: Mutex::new(HashMap::new()),
            store,
            control,
            cache_bytes,
        }
    }

    /// Reads hosts and policies from the store.
    pub async fn learn_directory(&self, base: Option<&Host>) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await;
        self.directory.store(Arc::new(Directory::read(&self.store, base).await?));
        Ok(())
    }

    /// An empty table of the configured size.
    pub fn fresh_table(&self) -> Table {
        Table::new(self.cache_bytes)
    }

    /// A table that was filled with every link takes the old one's place.
    pub fn replace_table(&self, table: Table) {
        self.table.store(Arc::new(table));
        self.filled.store(true, Ordering::Release);
    }

    /// The follower has seen that nothing was newer than what we know, at this moment.
    pub fn confirm(&self, at_ms: u64) {
        self.confirmed_ms.store(at_ms.max(1), Ordering::Release);
    }

    /// The follower has seen that members, keys or workspaces changed.
    pub fn people_changed(&self) {
        self.people_changed.fetch_add(1, Ordering::AcqRel);
    }

    /// How often they did, as far as the feed has told.
    pub fn people_changes(&self) -> u64 {
        self.people_changed.load(Ordering::Acquire)
    }

    /// The follower cannot see: from now on an unknown code is asked of the store.
    pub fn distrust(&self) {
        self.confirmed_ms.store(0, Ordering::Release);
    }

    /// Whether the feed's last word still counts.
    pub fn is_fresh(&self) -> bool {
        self.confirmed_within(FRESH_MS)
    }

    /// Whether the feed's last word is no older than this.
    pub fn confirmed_within(&self, ms: u64) -> bool {
        let confirmed = self.confirmed_ms.load(Ordering::Acquire);
        // `confirm` never writes 0, so in the first millisecond it is ahead of the clock.
        confirmed > 0 && monotonic_ms().saturating_sub(confirmed) < ms
    }

    /// Whether the directory was ever loaded.
    pub fn knows_hosts(&self) -> bool {
        self.directory.load().is_loaded()
    }

    /// Whether a code the table does not have is known not to exist.
    pub fn is_complete(&self) -> bool {
        self.filled.load(Ordering::Acquire) && self.table.load().holds_all() && self.is_fresh()
    }

    /// Learns one link.
    pub fn learn(&self, record: &RouteRecord) {
        self.table.load().put(record);
        self.absent.remove(record.workspace, record.code.as_str());
    }

    /// Forgets one link.
    pub fn forget(&self, workspace: Id, code: &str) {
        self.table.load().remove(workspace, code);
    }

    /// Asks the store, once for everybody who waits for the same code.
    pub async fn load(self: &Arc<Self>, workspace: Id, code: &str) -> Loaded {
        if self.is_fresh() && self.absent.contains(workspace, code, monotonic_ms()) {
            return Loaded::Absent;
        }
        let (answer, waiting) = oneshot::channel();
        {
            let mut flights = self.flights.lock();
            let key = (workspace, code.to_owned());
            if let Some(waiters) = flights.get_mut(&key) {
                waiters.push(answer);
            } else if flights.len() >= MOST_LOADS {
                return Loaded::Unavailable;
            } else {
                flights.insert(key.clone(), vec![answer]);
                self.control.spawn(Arc::clone(self).fly(key));
            }
        }
        waiting.await.unwrap_or(Loaded::Unavailable)
    }

    async fn fly(self: Arc<Self>, key: (Id, String)) {
        // On a task of its own: a panic in there must not leave everybody waiting for ever.
        let loaded = tokio::spawn(Arc::clone(&self).ask(key.clone())).await;
        let loaded = loaded.unwrap_or(Loaded::Unavailable);
        for waiter in self.flights.lock().remove(&key).unwrap_or_default() {
            // A visitor who left does not need the answer.
            let _ = waiter.send(loaded.clone());
        }
    }

    async fn ask(self: Arc<Self>, key: (Id, String)) -> Loaded {
        match tokio::time::timeout(LOAD, self.store.route(key.0, &key.1)).await {
            Ok(Ok(Some(record))) => {
                self.learn(&record);
                Loaded::Found(Arc::new(record))
            }
            Ok(Ok(None)) => {
                self.absent.insert(key.0, &key.1, monotonic_ms());
                Loaded::Absent
            }
            Ok(Err(error @ StoreError::Unreadable(_))) => {
                tracing::warn!(%error, "a link is not served");
                Loaded::Unreadable
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a link could not be looked up");
                Loaded::Unavailable
            }
            Err(_) => Loaded::Unavailable,
        }
    }
}
