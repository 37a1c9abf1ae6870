//! The keeper: syncs, rotates and counts, so that serving threads never do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::frame::HEAD_BYTES;
use super::{Journal, LEAST_SEGMENT_BYTES, Lane, SEGMENT_AGE, SEGMENT_BYTES, Syncing, bytes_in};
use crate::journal::drop_counter::Tally;

const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SYNC: u32 = 10;
/// How long after the last dropped click it is said that clicks are dropped.
const TICKS_DROPPING: u32 = 50;

/// A thread that keeps a journal until it is dropped.
pub struct Keeper {
    journal: Arc<Journal>,
    thread: Option<JoinHandle<()>>,
}

/// What the keeper remembers of a lane.
#[derive(Clone, Copy, Default)]
struct Seen {
    number: u64,
    ticks: u32,
    synced: u64,
}

impl Keeper {
    /// Starts keeping.
    pub fn start(journal: &Arc<Journal>) -> std::io::Result<Self> {
        let kept = Arc::clone(journal);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || keep(&kept))?;
        Ok(Self { journal: Arc::clone(journal), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    /// Syncs a last time and ends.
    fn drop(&mut self) {
        self.journal.closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn keep(journal: &Journal) {
    let (mut seen, mut tick, mut dropped) = (Vec::<Seen>::new(), 0_u32, Dropped::default());
    let mut tally = Tally::begin(&journal.folder, journal.options.boot);
    loop {
        let closing = journal.closed.load(Ordering::Acquire);
        tick = tick.wrapping_add(1);
        let sync = journal.options.sync != Syncing::Off && (closing || tick.is_multiple_of(TICKS_A_SYNC));
        let lanes = journal.lanes.lock().clone();
        seen.resize(lanes.len(), Seen::default());
        for (lane, seen) in lanes.iter().zip(&mut seen) {
            tend(lane, seen, sync);
        }
        journal.count();
        report(journal, &mut dropped);
        if closing || tick.is_multiple_of(TICKS_A_SYNC) {
            let stored = journal.drops_stored.load(Ordering::Relaxed);
            tally.write(if dropped.known > stored { dropped.known } else { 0 });
        }
        if closing {
            tally.end();
            return;
        }
        std::thread::park_timeout(TICK);
    }
}

fn tend(lane: &Lane, seen: &mut Seen, sync: bool) {
    // Whoever noted a click may have gone before writing it.
    lane.write();
    let (file, number, length, failed) = {
        let open = lane.open.lock();
        (open.file.clone(), open.number, open.length, open.failed)
    };
    if seen.number != number {
        *seen = Seen { number, ticks: 0, synced: 0 };
    }
    seen.ticks += 1;
    let age = TICK * seen.ticks;
    let used = length > HEAD_BYTES as u64;
    if file.is_none() || failed || length >= lane.journal.segment_bytes() || (used && age >= SEGMENT_AGE) {
        if let Some(left) = lane.follow_up()
            && lane.journal.options.sync != Syncing::Off
            && let Err(error) = left.sync_data()
        {
            tracing::error!(%error, "a segment of the click journal could not be synced");
        }
        return;
    }
    if let Some(file) = file.filter(|_| sync && seen.synced != length) {
        match file.sync_data() {
            Ok(()) => seen.synced = length,
            Err(error) => {
                // What the system still holds of this file is unknown from here on; the next clicks go into another.
                tracing::error!(%error, "the click journal could not be synced; it goes on in a new segment");
                lane.follow_up();
            }
        }
    }
}

/// What the keeper remembers of dropped clicks.
#[derive(Default)]
struct Dropped {
    known: u64,
    /// For so many ticks it is still said.
    ticks_left: u32,
}

/// Says so when clicks are being dropped, and how many in all.
fn report(journal: &Journal, seen: &mut Dropped) {
    let dropped = journal.dropped();
    let full = journal.full.load(Ordering::Relaxed);
    seen.ticks_left = if dropped > seen.known { TICKS_DROPPING } else { seen.ticks_left.saturating_sub(1) };
    journal.dropping.store(full || seen.ticks_left > 0, Ordering::Relaxed);
    if dropped > seen.known {
        let why = if full { "the journal has used up journal_mb" } else { "the journal cannot be written" };
        tracing::error!(dropped, why, "clicks are not recorded; redirects go on");
        seen.known = dropped;
    }
}

impl Journal {
    /// Small enough that what is stored of a small budget can be freed.
    fn segment_bytes(&self) -> u64 {
        let share = self.options.budget_bytes / (4 * self.lanes.lock().len().max(1) as u64);
        share.clamp(LEAST_SEGMENT_BYTES, SEGMENT_BYTES)
    }

    /// Counts what all segments take, and whether there is room for more.
    fn count(&self) {
        let bytes = bytes_in(&self.folder);
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
        self.full.store(bytes >= self.options.budget_bytes, Ordering::Relaxed);
    }
}
