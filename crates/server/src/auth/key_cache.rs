//! Keys that were just looked up. A key stays in the cache until any access rights change: this process counts its own changes, and the
//! feed reports those of other processes. While the feed is not fresh, every request asks the store. So a key that is revoked here is refused
//! from the next request on, and one that is revoked elsewhere within a second.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_store::{KeyWithOwner, StoreError};

use super::Auth;

/// How old the feed's last news may be.
const MAX_FEED_AGE_MS: u64 = 700;
/// With more keys than this the cache is emptied.
const MAX_KEYS: usize = 4096;

/// How often rights have changed: as this process counts, and as the feed does.
type RightsVersion = (u64, u64);

/// Keys by their prefix.
#[derive(Default)]
pub struct KeyCache(Mutex<HashMap<String, (RightsVersion, Arc<KeyWithOwner>)>>);

impl KeyCache {
    fn get(&self, prefix: &str, version: RightsVersion) -> Option<Arc<KeyWithOwner>> {
        let known = self.0.lock();
        known.get(prefix).filter(|(then, _)| *then == version).map(|(_, holder)| Arc::clone(holder))
    }

    fn put(&self, prefix: &str, version: RightsVersion, holder: &Arc<KeyWithOwner>) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KEYS && !known.contains_key(prefix) {
            known.clear();
        }
        known.insert(prefix.to_owned(), (version, Arc::clone(holder)));
    }
}

impl Auth {
    /// A key by its prefix, with everything that decides what it may do.
    pub async fn key_holder(&self, prefix: &str) -> Result<Option<Arc<KeyWithOwner>>, StoreError> {
        match self.cached_key(prefix) {
            Some(holder) => Ok(Some(holder)),
            None => self.load_key(prefix).await,
        }
    }

    /// The same, if it is in the cache.
    pub(super) fn cached_key(&self, prefix: &str) -> Option<Arc<KeyWithOwner>> {
        let known = self.key_cache.get(prefix, self.rights_version())?;
        self.routes.confirmed_within(MAX_FEED_AGE_MS).then_some(known)
    }

    /// The same, from the store.
    pub(super) async fn load_key(&self, prefix: &str) -> Result<Option<Arc<KeyWithOwner>>, StoreError> {
        // Taken before the store is asked: what changes meanwhile makes the answer old.
        let version = self.rights_version();
        let holder = self.store.key_with_owner(prefix).await?.map(Arc::new);
        if let Some(holder) = &holder {
            self.key_cache.put(prefix, version, holder);
        }
        Ok(holder)
    }

    fn rights_version(&self) -> RightsVersion {
        (self.store.rights_version(), self.routes.rights_version())
    }
}
