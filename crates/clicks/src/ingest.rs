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

use crate::database::Clicks;
use crate::enrich::enrich;
use crate::enrich::geo::Geo;
use crate::enrich::user_agent::Memo;
use crate::journal::entry::Record;
use crate::journal::{Batch, Journal, Producer, Reader};
use crate::misses::Misses;

/// Records in one transaction: it must not hold the write lock for long, and what they add up to is held in memory.
pub const BATCH: usize = 8192;
/// On a server a larger one pays: what it costs is the way there, and rows of links that come again.
const BATCH_OF_SERVER: usize = 4 * BATCH;

/// Records in one transaction of this database at most.
pub const fn most_records(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Sqlite => BATCH,
        Dialect::Postgres => BATCH_OF_SERVER,
    }
}

/// Owners of links remembered; they never change.
const MOST_OWNERS: usize = 100_000;

/// Takes clicks from journals to the database.
pub struct Ingest {
    store: Store,
    /// The runtime the store was opened on.
    control: Handle,
    reader: Reader,
    geo: Option<Geo>,
    memo: Memo,
    owners: HashMap<Id, Option<Id>>,
    misses: Arc<Misses>,
    /// The journal whose drops are counted, and how many of them are.
    dropped: Option<(Arc<Journal>, u64)>,
    /// What processes that are gone have dropped is stored.
    left_is_stored: bool,
    /// Read and not stored yet: the database was away.
    waiting: Option<Batch>,
}

impl Ingest {
    /// Ingest of what a reader finds. `control` is the runtime `store` was opened on.
    pub fn new(
        store: Store,
        control: Handle,
        reader: Reader,
        geoip: Option<PathBuf>,
        misses: Arc<Misses>,
    ) -> Self {
        Self {
            store,
            control,
            reader,
            geo: geoip.map(Geo::open),
            memo: Memo::default(),
            owners: HashMap::new(),
            misses,
            dropped: None,
            left_is_stored: false,
            waiting: None,
        }
    }

    /// Also stores how many clicks this journal had to drop.
    #[must_use]
    pub fn counting_drops(mut self, journal: &Arc<Journal>) -> Self {
        self.dropped = Some((Arc::clone(journal), 0));
        self
    }

    /// Takes the next batch. Gives the number of records it held: 0 when nothing waits. After an error the same batch is tried
    /// again by the next call.
    pub async fn step(&mut self, clicks: &Clicks, now: Timestamp) -> Result<usize, StoreError> {
        let most = most_records(clicks.pool.dialect());
        let batch = match self.waiting.take() {
            Some(batch) => batch,
            None => self.reader.read(most).map_err(|error| journal_trouble(&error))?,
        };
        if batch.is_empty() {
            self.reader.stored();
            return Ok(0);
        }
        let records = batch.records.len();
        if let Err(error) = self.take(clicks, &batch, now).await {
            self.waiting = Some(batch);
            return Err(error);
        }
        self.reader.stored();
        Ok(records)
    }

    /// What does not come with a batch: codes nobody has, and a replaced table of places.
    pub async fn tend(&mut self, clicks: &Clicks, now: Timestamp) -> Result<(), StoreError> {
        if let Some(geo) = &mut self.geo {
            geo.refresh();
        }
        self.store_drops(clicks).await?;
        clicks.add_misses(&self.misses, now).await
    }

    /// Counts what was dropped, here and by processes that are gone, each click once.
    pub async fn store_drops(&mut self, clicks: &Clicks) -> Result<(), StoreError> {
        if !self.left_is_stored {
            let left = self.reader.drops_left().map_err(|error| journal_trouble(&error))?;
            if !left.is_empty() {
                write::add_drops(&clicks.pool, &left).await?;
                self.reader.drops_stored(&left);
            }
            self.left_is_stored = true;
        }
        if let Some((journal, known)) = &mut self.dropped {
            let drops = journal.drops();
            if drops.clicks > *known {
                write::add_drops(&clicks.pool, &[drops]).await?;
                *known = drops.clicks;
                journal.drops_are_stored(*known);
            }
        }
        Ok(())
    }

    /// Stores records that come from elsewhere than the reader, as one transaction.
    pub async fn take(&mut self, clicks: &Clicks, batch: &Batch, now: Timestamp) -> Result<(), StoreError> {
        let mut unreadable = 0;
        let mut records = Vec::with_capacity(batch.records.len());
        for at in &batch.records {
            match Record::decode(&batch.bytes[at.bytes.clone()]) {
                Ok(record) => records.push((at.producer, at.sequence, record)),
                Err(_) => unreadable += 1,
            }
        }
        self.learn_owners(records.iter().map(|(_, _, record)| record.link)).await?;
        let enriched = enrich(&records, self.geo.as_ref(), &mut self.memo, &self.owners, now);
        let ends = ends(batch);
        let losses = [("torn", batch.torn), ("damaged", batch.damaged), ("unreadable", unreadable)];
        write::write(&clicks.pool, &enriched, &ends, &losses).await.map_err(StoreError::for_clicks)
    }

    async fn learn_owners(&mut self, links: impl Iterator<Item = Id>) -> Result<(), StoreError> {
        // Before it is asked what is unknown: what is forgotten later would have no owner.
        if self.owners.len() > MOST_OWNERS {
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

fn journal_trouble(error: &std::io::Error) -> StoreError {
    StoreError::ClicksUnavailable(format!("the journal: {error}"))
}

/// The last sequence of each producer in a batch.
fn ends(batch: &Batch) -> Vec<(Producer, u64)> {
    let mut ends: Vec<(Producer, u64)> = Vec::new();
    for record in &batch.records {
        match ends.iter_mut().find(|(producer, _)| *producer == record.producer) {
            Some((_, end)) => *end = (*end).max(record.sequence),
            None => ends.push((record.producer, record.sequence)),
        }
    }
    ends
}
