//! Ingest: from the journal into the database, each click exactly once.
//!
//! A batch is one transaction of a fixed number of statements: it stores the events, adds to rollups and counters, and moves
//! how far each journal was read. That offset alone makes it exactly once: whatever happens, the batch is there with its offset
//! or not at all, and records up to the offset are not taken again.

pub(crate) mod write;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::Dialect;
use rlinks_store::{Store, StoreError};
use tokio::runtime::Handle;

use crate::database::ClickStore;
use crate::enrich::enrich;
use crate::enrich::geo::Geo;
use crate::enrich::user_agent::UserAgentCache;
use crate::journal::entry::JournalEntry;
use crate::journal::{Batch, Journal, Producer, Reader};
use crate::misses::MissCounter;

/// Records in one transaction: it must not hold the write lock for long, and what they add up to is held in memory.
pub const MAX_BATCH_ENTRIES: usize = 8192;
/// On a server a larger one pays: what it costs is the way there, and rows of links that come again.
const MAX_POSTGRES_BATCH_ENTRIES: usize = 4 * MAX_BATCH_ENTRIES;

/// Records in one transaction of this database at most.
pub const fn max_batch_entries(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Sqlite => MAX_BATCH_ENTRIES,
        Dialect::Postgres => MAX_POSTGRES_BATCH_ENTRIES,
    }
}

/// Owners of links remembered; they never change.
const MAX_CACHED_OWNERS: usize = 100_000;

/// Takes clicks from journals to the database.
pub struct Ingest {
    store: Store,
    /// The runtime the store was opened on.
    control: Handle,
    reader: Reader,
    geo: Option<Geo>,
    user_agents: UserAgentCache,
    owners: HashMap<Id, Option<Id>>,
    misses: Arc<MissCounter>,
    /// The journal whose drops are counted, and how many of them are.
    dropped: Option<(Arc<Journal>, u64)>,
    /// What processes that are gone have dropped is stored.
    abandoned_drops_stored: bool,
    /// Read and not stored yet: the database was away.
    pending_batch: Option<Batch>,
}

impl Ingest {
    /// Ingest of what a reader finds. `control` is the runtime `store` was opened on.
    pub fn new(
        store: Store,
        control: Handle,
        reader: Reader,
        geoip: Option<PathBuf>,
        misses: Arc<MissCounter>,
    ) -> Self {
        Self {
            store,
            control,
            reader,
            geo: geoip.map(Geo::open),
            user_agents: UserAgentCache::default(),
            owners: HashMap::new(),
            misses,
            dropped: None,
            abandoned_drops_stored: false,
            pending_batch: None,
        }
    }

    /// Also stores how many clicks this journal had to drop.
    #[must_use]
    pub fn with_drop_counting(mut self, journal: &Arc<Journal>) -> Self {
        self.dropped = Some((Arc::clone(journal), 0));
        self
    }

    /// Takes the next batch. Gives the number of records it held: 0 when nothing waits. After an error the same batch is tried
    /// again by the next call.
    pub async fn ingest_next_batch(
        &mut self,
        clicks: &ClickStore,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let most = max_batch_entries(clicks.pool.dialect());
        let batch = match self.pending_batch.take() {
            Some(batch) => batch,
            None => self.reader.read(most).map_err(|error| journal_error(&error))?,
        };
        if batch.is_empty() {
            self.reader.commit();
            return Ok(0);
        }
        let records = batch.entries.len();
        if let Err(error) = self.ingest_batch(clicks, &batch, now).await {
            self.pending_batch = Some(batch);
            return Err(error);
        }
        self.reader.commit();
        Ok(records)
    }

    /// What does not come with a batch: codes nobody has, and a replaced table of places.
    pub async fn maintain(&mut self, clicks: &ClickStore, now: Timestamp) -> Result<(), StoreError> {
        if let Some(geo) = &mut self.geo {
            geo.refresh();
        }
        self.store_drops(clicks).await?;
        clicks.add_misses(&self.misses, now).await
    }

    /// Counts what was dropped, here and by processes that are gone, each click once.
    pub async fn store_drops(&mut self, clicks: &ClickStore) -> Result<(), StoreError> {
        if !self.abandoned_drops_stored {
            let left = self.reader.abandoned_drops().map_err(|error| journal_error(&error))?;
            if !left.is_empty() {
                write::add_drops(&clicks.pool, &left).await?;
                self.reader.remove_drop_counters(&left);
            }
            self.abandoned_drops_stored = true;
        }
        if let Some((journal, known)) = &mut self.dropped {
            let drops = journal.drops();
            if drops.clicks > *known {
                write::add_drops(&clicks.pool, &[drops]).await?;
                *known = drops.clicks;
                journal.mark_drops_stored(*known);
            }
        }
        Ok(())
    }

    /// Stores records that come from elsewhere than the reader, as one transaction.
    pub async fn ingest_batch(
        &mut self,
        clicks: &ClickStore,
        batch: &Batch,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut unreadable = 0;
        let mut records = Vec::with_capacity(batch.entries.len());
        for at in &batch.entries {
            match JournalEntry::decode(&batch.bytes[at.bytes.clone()]) {
                Ok(record) => records.push((at.producer, at.sequence, record)),
                Err(_) => unreadable += 1,
            }
        }
        self.load_owners(records.iter().map(|(_, _, record)| record.link)).await?;
        let enriched = enrich(&records, self.geo.as_ref(), &mut self.user_agents, &self.owners, now);
        let ends = last_sequences(batch);
        let losses = [("torn", batch.torn), ("damaged", batch.damaged), ("unreadable", unreadable)];
        write::write(&clicks.pool, &enriched, &ends, &losses).await.map_err(StoreError::for_clicks)
    }

    async fn load_owners(&mut self, links: impl Iterator<Item = Id>) -> Result<(), StoreError> {
        // Before it is asked what is unknown: what is forgotten later would have no owner.
        if self.owners.len() > MAX_CACHED_OWNERS {
            self.owners.clear();
        }
        let mut unknown: Vec<Id> = links.filter(|link| !self.owners.contains_key(link)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.sort_unstable();
        unknown.dedup();
        let (store, asked) = (self.store.clone(), unknown.clone());
        let ended = |error: tokio::task::JoinError| StoreError::Unavailable(error.to_string());
        let found =
            self.control.spawn(async move { store.link_names(&asked).await }).await.map_err(ended)??;
        // A link the store does not know, restored from an older backup, has no owner.
        self.owners.extend(unknown.into_iter().map(|link| (link, None)));
        self.owners.extend(found.into_iter().map(|name| (name.id, name.owner)));
        Ok(())
    }
}

fn journal_error(error: &std::io::Error) -> StoreError {
    StoreError::ClicksUnavailable(format!("the journal: {error}"))
}

/// The last sequence of each producer in a batch.
fn last_sequences(batch: &Batch) -> Vec<(Producer, u64)> {
    let mut ends: Vec<(Producer, u64)> = Vec::new();
    for record in &batch.entries {
        match ends.iter_mut().find(|(producer, _)| *producer == record.producer) {
            Some((_, end)) => *end = (*end).max(record.sequence),
            None => ends.push((record.producer, record.sequence)),
        }
    }
    ends
}
