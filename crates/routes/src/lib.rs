//! What the redirect path knows of links and hosts, in memory. Every serving thread reads it; the follower of the change feed and loads after a
//! miss write to it.
//!
//! | to find | look in |
//! |---|---|
//! | freshness, loads after a miss, one load for all that wait | [`RouteCache`] |
//! | links | [`route_table`] |
//! | hosts, with their workspace and policy | [`host_directory`] |
//! | codes that were looked up and not found | `negative_cache` |
//! | what keeps it all up to date | [`feed_follower`] |

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

use crate::host_directory::HostDirectory;
use crate::negative_cache::NegativeCache;
use crate::route_table::RouteTable;
use rlinks_store::clock::Clock;

/// How long the feed's last word counts.
const FRESH_MS: u64 = 2_000;
/// How long a request waits for the store.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How many different codes may be asked of the store at once; more are turned away.
const MAX_CONCURRENT_LOADS: usize = 1024;

/// What a load after a miss gave.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    Found(Arc<RouteRecord>),
    /// There is no such link.
    NotFound,
    /// Somebody wrote what nobody can read: not served.
    Unreadable,
    /// The store could not be asked. Never means "absent".
    Unavailable,
}

type Waiters = Vec<oneshot::Sender<LoadOutcome>>;

/// What the redirect path knows.
pub struct RouteCache {
    pub directory: ArcSwap<HostDirectory>,
    /// Whoever reads the directory puts it in its place before the next one reads: else an older one could replace a newer.
    directory_reload: tokio::sync::Mutex<()>,
    pub table: ArcSwap<RouteTable>,
    negative_cache: NegativeCache,
    /// The table was filled with everything there is.
    filled: AtomicBool,
    /// When the feed last said that we are up to date; 0 is never.
    confirmed_ms: AtomicU64,
    /// How often the feed has told of members, keys or workspaces.
    rights_version: AtomicU64,
    loads: Mutex<HashMap<(Id, String), Waiters>>,
    store: Store,
    control: Handle,
    clock: Clock,
    cache_bytes: usize,
}

impl RouteCache {
    /// Nothing known yet: every code is asked of the store. `control` is the runtime the store's connections belong to.
    pub fn new(store: Store, control: Handle, clock: Clock, cache_bytes: usize) -> Self {
        Self {
            directory: ArcSwap::from_pointee(HostDirectory::empty()),
            directory_reload: tokio::sync::Mutex::default(),
            table: ArcSwap::from_pointee(RouteTable::new(cache_bytes)),
            negative_cache: NegativeCache::new(),
            filled: AtomicBool::new(false),
            confirmed_ms: AtomicU64::new(0),
            rights_version: AtomicU64::new(0),
            loads: Mutex::new(HashMap::new()),
            store,
            control,
            clock,
            cache_bytes,
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Reads hosts and policies from the store.
    pub async fn reload_directory(&self, base: Option<&Host>) -> Result<(), StoreError> {
        let _turn = self.directory_reload.lock().await;
        let directory = HostDirectory::load(&self.store, base).await?;
        if directory.lacks_a_domain() && !self.directory.load().lacks_a_domain() {
            tracing::warn!(
                "workspace main answers on every host, and there are others: configure a domain (`rmax domains add`)"
            );
        }
        self.directory.store(Arc::new(directory));
        Ok(())
    }

    /// An empty table of the configured size.
    pub fn new_table(&self) -> RouteTable {
        RouteTable::new(self.cache_bytes)
    }

    /// A table that was filled with every link takes the old one's place.
    pub fn replace_table(&self, table: RouteTable) {
        self.table.store(Arc::new(table));
        self.filled.store(true, Ordering::Release);
    }

    /// The follower has seen that nothing was newer than what we know, at this moment.
    pub fn mark_fresh(&self, at_ms: u64) {
        self.confirmed_ms.store(at_ms.max(1), Ordering::Release);
    }

    /// The follower has seen that members, keys or workspaces changed.
    pub fn bump_rights_version(&self) {
        self.rights_version.fetch_add(1, Ordering::AcqRel);
    }

    /// How often they did, as far as the feed has told.
    pub fn rights_version(&self) -> u64 {
        self.rights_version.load(Ordering::Acquire)
    }

    /// The follower cannot see: from now on an unknown code is asked of the store.
    pub fn mark_stale(&self) {
        self.confirmed_ms.store(0, Ordering::Release);
    }

    /// Whether the feed's last word still counts.
    pub fn is_fresh(&self) -> bool {
        self.confirmed_within(FRESH_MS)
    }

    /// Whether the feed's last word is no older than this.
    pub fn confirmed_within(&self, ms: u64) -> bool {
        let confirmed = self.confirmed_ms.load(Ordering::Acquire);
        // `mark_fresh` never writes 0, so in the first millisecond it is ahead of the clock.
        confirmed > 0 && self.clock.monotonic_ms().saturating_sub(confirmed) < ms
    }

    /// Whether the directory was ever loaded.
    pub fn is_directory_loaded(&self) -> bool {
        self.directory.load().is_loaded()
    }

    /// Whether a code the table does not have is known not to exist.
    pub fn is_complete(&self) -> bool {
        self.filled.load(Ordering::Acquire) && self.table.load().is_complete() && self.is_fresh()
    }

    pub fn insert(&self, record: &RouteRecord) {
        self.table.load().insert(record);
        self.negative_cache.remove(record.workspace, record.code.as_str());
    }

    pub fn remove(&self, workspace: Id, code: &str) {
        self.table.load().remove(workspace, code);
    }

    /// Asks the store, once for everybody who waits for the same code.
    pub async fn load(self: &Arc<Self>, workspace: Id, code: &str) -> LoadOutcome {
        if self.is_fresh() && self.negative_cache.contains(workspace, code, self.clock.monotonic_ms()) {
            return LoadOutcome::NotFound;
        }
        let (answer, waiting) = oneshot::channel();
        {
            let mut flights = self.loads.lock();
            let key = (workspace, code.to_owned());
            if let Some(waiters) = flights.get_mut(&key) {
                waiters.push(answer);
            } else if flights.len() >= MAX_CONCURRENT_LOADS {
                return LoadOutcome::Unavailable;
            } else {
                flights.insert(key.clone(), vec![answer]);
                self.control.spawn(Arc::clone(self).run_load(key));
            }
        }
        waiting.await.unwrap_or(LoadOutcome::Unavailable)
    }

    async fn run_load(self: Arc<Self>, key: (Id, String)) {
        // On a task of its own: a panic in there must not leave everybody waiting for ever.
        let loaded = tokio::spawn(Arc::clone(&self).load_from_store(key.clone())).await;
        let loaded = loaded.unwrap_or(LoadOutcome::Unavailable);
        for waiter in self.loads.lock().remove(&key).unwrap_or_default() {
            // A visitor who left does not need the answer.
            let _ = waiter.send(loaded.clone());
        }
    }

    async fn load_from_store(self: Arc<Self>, key: (Id, String)) -> LoadOutcome {
        match tokio::time::timeout(LOAD_TIMEOUT, self.store.route(key.0, &key.1)).await {
            Ok(Ok(Some(record))) => {
                self.insert(&record);
                LoadOutcome::Found(Arc::new(record))
            }
            Ok(Ok(None)) => {
                self.negative_cache.insert(key.0, &key.1, self.clock.monotonic_ms());
                LoadOutcome::NotFound
            }
            Ok(Err(error @ StoreError::Unreadable(_))) => {
                tracing::warn!(%error, "a link is not served");
                LoadOutcome::Unreadable
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a link could not be looked up");
                LoadOutcome::Unavailable
            }
            Err(_) => LoadOutcome::Unavailable,
        }
    }
}
