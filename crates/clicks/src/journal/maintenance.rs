//! The keeper: syncs, rotates and counts, so that serving threads never do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::frame::SEGMENT_HEAD_BYTES;
use super::{
    Journal, MAX_SEGMENT_AGE, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, SegmentWriter, SyncPolicy, folder_bytes,
};
use crate::journal::drop_counter::DropCounter;

const TICK_INTERVAL: Duration = Duration::from_millis(100);
const TICKS_PER_SYNC: u32 = 10;
/// How long after the last dropped click it is said that clicks are dropped.
const DROPPING_TICKS: u32 = 50;

/// A thread that keeps a journal until it is dropped.
pub struct JournalMaintenance {
    journal: Arc<Journal>,
    thread: Option<JoinHandle<()>>,
}

/// What the keeper remembers of a lane.
#[derive(Clone, Copy, Default)]
struct SegmentProgress {
    number: u64,
    ticks: u32,
    synced: u64,
}

impl JournalMaintenance {
    pub fn start(journal: &Arc<Journal>) -> std::io::Result<Self> {
        let kept = Arc::clone(journal);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || run(&kept))?;
        Ok(Self { journal: Arc::clone(journal), thread: Some(thread) })
    }
}

impl Drop for JournalMaintenance {
    /// Syncs a last time and ends.
    fn drop(&mut self) {
        self.journal.closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn run(journal: &Journal) {
    let (mut seen, mut tick, mut dropped) =
        (Vec::<SegmentProgress>::new(), 0_u32, DropReportState::default());
    let mut counter = DropCounter::open(&journal.folder, journal.options.boot);
    loop {
        let closing = journal.closed.load(Ordering::Acquire);
        tick = tick.wrapping_add(1);
        let sync =
            journal.options.sync != SyncPolicy::Never && (closing || tick.is_multiple_of(TICKS_PER_SYNC));
        let writers = journal.writers.lock().clone();
        seen.resize(writers.len(), SegmentProgress::default());
        for (lane, seen) in writers.iter().zip(&mut seen) {
            maintain_segment(lane, seen, sync);
        }
        journal.measure();
        report_drops(journal, &mut dropped);
        if closing || tick.is_multiple_of(TICKS_PER_SYNC) {
            let stored = journal.drops_stored.load(Ordering::Relaxed);
            counter.write(if dropped.known > stored { dropped.known } else { 0 });
        }
        if closing {
            counter.close();
            return;
        }
        std::thread::park_timeout(TICK_INTERVAL);
    }
}

fn maintain_segment(writer: &SegmentWriter, progress: &mut SegmentProgress, sync: bool) {
    // The connection that staged a click may have ended before flushing it.
    writer.flush();
    let (file, number, length, failed) = {
        let open = writer.open.lock();
        (open.file.clone(), open.number, open.length, open.failed)
    };
    if progress.number != number {
        *progress = SegmentProgress { number, ticks: 0, synced: 0 };
    }
    progress.ticks += 1;
    let age = TICK_INTERVAL * progress.ticks;
    let used = length > SEGMENT_HEAD_BYTES as u64;
    if file.is_none()
        || failed
        || length >= writer.journal.max_segment_bytes()
        || (used && age >= MAX_SEGMENT_AGE)
    {
        if let Some(left) = writer.rotate()
            && writer.journal.options.sync != SyncPolicy::Never
            && let Err(error) = left.sync_data()
        {
            tracing::error!(%error, "a segment of the click journal could not be synced");
        }
        return;
    }
    if let Some(file) = file.filter(|_| sync && progress.synced != length) {
        match file.sync_data() {
            Ok(()) => progress.synced = length,
            Err(error) => {
                // What the system still holds of this file is unknown from here on; the next clicks go into another.
                tracing::error!(%error, "the click journal could not be synced; it goes on in a new segment");
                writer.rotate();
            }
        }
    }
}

/// What the keeper remembers of dropped clicks.
#[derive(Default)]
struct DropReportState {
    known: u64,
    /// For so many ticks it is still said.
    ticks_left: u32,
}

/// Says so when clicks are being dropped, and how many in all.
fn report_drops(journal: &Journal, state: &mut DropReportState) {
    let dropped = journal.dropped();
    let full = journal.full.load(Ordering::Relaxed);
    state.ticks_left =
        if dropped > state.known { DROPPING_TICKS } else { state.ticks_left.saturating_sub(1) };
    journal.dropping.store(full || state.ticks_left > 0, Ordering::Relaxed);
    if dropped > state.known {
        let why = if full { "the journal has used up journal_mb" } else { "the journal cannot be written" };
        tracing::error!(dropped, why, "clicks are not recorded; redirects go on");
        state.known = dropped;
    }
}

impl Journal {
    /// Small enough that what is stored of a small budget can be freed.
    fn max_segment_bytes(&self) -> u64 {
        let share = self.options.budget_bytes / (4 * self.writers.lock().len().max(1) as u64);
        share.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)
    }

    /// Counts what all segments take, and whether there is room for more.
    fn measure(&self) {
        let bytes = folder_bytes(&self.folder);
        self.pending_bytes.store(bytes, Ordering::Relaxed);
        self.full.store(bytes >= self.options.budget_bytes, Ordering::Relaxed);
    }
}
