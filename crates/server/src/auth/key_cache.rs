//! Keys that were just looked up. A key is remembered for as long as nobody's rights have changed: this process counts its own
//! changes, the feed tells of everybody else's. Without a fresh word of the feed every request asks the store. So a key that is
//! revoked here is refused from the next request on, and one revoked elsewhere within a second.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_store::{KeyHolder, StoreError};

use crate::api::Api;

/// How old the feed's last word may be.
const TRUSTED_MS: u64 = 700;
/// How many keys are remembered; then all are forgotten.
const MOST: usize = 4096;

/// How often rights have changed: as this process counts, and as the feed does.
type Moment = (u64, u64);

/// The keys.
#[derive(Default)]
pub struct Keyring(Mutex<HashMap<String, (Moment, Arc<KeyHolder>)>>);

impl Keyring {
    fn get(&self, prefix: &str, moment: Moment) -> Option<Arc<KeyHolder>> {
        let known = self.0.lock();
        known.get(prefix).filter(|(then, _)| *then == moment).map(|(_, holder)| Arc::clone(holder))
    }

    fn put(&self, prefix: &str, moment: Moment, holder: &Arc<KeyHolder>) {
        let mut known = self.0.lock();
        if known.len() >= MOST && !known.contains_key(prefix) {
            known.clear();
        }
        known.insert(prefix.to_owned(), (moment, Arc::clone(holder)));
    }
}

impl Api {
    /// A key by its prefix, with everything that decides what it may do.
    pub(crate) async fn key_holder(&self, prefix: &str) -> Result<Option<Arc<KeyHolder>>, StoreError> {
        match self.remembered_key(prefix) {
            Some(holder) => Ok(Some(holder)),
            None => self.find_key(prefix).await,
        }
    }

    /// The same, if it is remembered.
    pub(crate) fn remembered_key(&self, prefix: &str) -> Option<Arc<KeyHolder>> {
        let known = self.keyring.get(prefix, self.rights_changed())?;
        self.routes.confirmed_within(TRUSTED_MS).then_some(known)
    }

    /// The same, as the store has it.
    pub(crate) async fn find_key(&self, prefix: &str) -> Result<Option<Arc<KeyHolder>>, StoreError> {
        // Before the store is asked: what changes meanwhile makes the answer old.
        let moment = self.rights_changed();
        let holder = self.ops.store.key_holder(prefix).await?.map(Arc::new);
        if let Some(holder) = &holder {
            self.keyring.put(prefix, moment, holder);
        }
        Ok(holder)
    }

    fn rights_changed(&self) -> Moment {
        (self.ops.store.others_changed(), self.routes.people_changes())
    }
}
