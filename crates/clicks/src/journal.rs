//! The journal: every click is written here before its redirect is answered. So `kill -9` loses none.
//!
//! Clicks of requests that came together are written together, with one `write(2)`, and then answered: a serving thread notes those of
//! all connections that have something to read, and whoever comes back first writes them all.
//!
//! Each serving thread appends to a segment of its own. A keeper thread does everything slow: syncing, rotating, deleting. A
//! disk that is full or broken drops clicks and counts them; it never stops a redirect.
//!
//! A segment begins with `rlinksj1 | the sequence before its first record u64 | crc32c u32`. Frames follow, each
//! `length u16 | crc32c u32 | sequence u64 | payload`; all is little-endian, and a checksum covers all but itself. Sequences count
//! up by one within a boot and thread, across its segments.

pub(crate) mod drop_counter;
pub mod entry;
mod frame;
pub(crate) mod maintenance;
pub(crate) mod reader;

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use self::frame::{FRAME_HEAD_BYTES, SEGMENT_HEAD_BYTES, segment_head, write_frame_head};
pub(crate) use crate::journal::drop_counter::remove_counter;
pub use crate::journal::drop_counter::{DroppedClicks, read_drop_counters};
use crate::journal::entry::JournalEntry;
pub use crate::journal::maintenance::JournalMaintenance;
pub use crate::journal::reader::{Batch, EntryRef, Producer, Reader};

/// The journal's folder inside the data folder.
pub const JOURNAL_FOLDER: &str = "journal";
/// Segments with unreadable parts are kept here for whoever wants to look.
pub const QUARANTINE_FOLDER: &str = "quarantine";
/// A segment that has grown to this is followed by a new one.
const MAX_SEGMENT_BYTES: u64 = 8 << 20;
/// With a small budget it may be as small as this.
const MIN_SEGMENT_BYTES: u64 = 64 << 10;
/// And so is one this old.
const MAX_SEGMENT_AGE: Duration = Duration::from_secs(10);

/// When what was written reaches the disk itself, for power cuts; the process may be killed at any time in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before each answer: slow, and for those who must.
    EveryWrite,
    #[default]
    EverySecond,
    /// When the system sees fit.
    Never,
}

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub data: PathBuf,
    /// What all segments together may take; beyond it clicks are dropped and counted.
    pub budget_bytes: u64,
    pub sync: SyncPolicy,
    /// A random number no other start has.
    pub boot: u64,
}

/// The journal of one process.
pub struct Journal {
    folder: PathBuf,
    options: JournalOptions,
    writers: Mutex<Vec<Arc<SegmentWriter>>>,
    /// No room: the budget is used up.
    full: AtomicBool,
    /// Bytes in segments that are not consumed, as last counted.
    pending_bytes: AtomicU64,
    dropped: AtomicU64,
    /// How many of the dropped are counted in the database.
    drops_stored: AtomicU64,
    /// Clicks that come now are dropped, or were a moment ago.
    dropping: AtomicBool,
    closed: AtomicBool,
}

/// What one serving thread appends to.
pub struct SegmentWriter {
    journal: Arc<Journal>,
    thread: u16,
    open: Mutex<OpenSegment>,
}

/// So much is written at once at most.
const MAX_BATCH_BYTES: usize = 64 << 10;

/// The segment being written.
struct OpenSegment {
    /// Nothing while the disk refuses to make one.
    file: Option<Arc<File>>,
    number: u64,
    /// What is whole: a write that failed half-way is written over.
    length: u64,
    /// The last sequence written.
    sequence: u64,
    /// Frames that are noted and not yet written, and how many.
    batch: Vec<u8>,
    staged: u64,
    /// A write failed: the keeper opens another segment.
    failed: bool,
}

impl Journal {
    /// Begins a journal beside those that earlier processes left.
    pub fn open(options: JournalOptions) -> std::io::Result<Arc<Self>> {
        let folder = options.data.join(JOURNAL_FOLDER);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Arc::new(Self {
            folder,
            options,
            writers: Mutex::default(),
            full: AtomicBool::new(false),
            pending_bytes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            drops_stored: AtomicU64::new(0),
            dropping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }))
    }

    /// The lane of another serving thread. A disk that refuses its first segment is the keeper's to deal with.
    pub fn new_writer(self: &Arc<Self>) -> Arc<SegmentWriter> {
        let mut writers = self.writers.lock();
        let thread = u16::try_from(writers.len()).unwrap_or(u16::MAX);
        let open = OpenSegment {
            file: None,
            number: 0,
            length: 0,
            sequence: 0,
            batch: Vec::new(),
            staged: 0,
            failed: false,
        };
        let writer = Arc::new(SegmentWriter { journal: Arc::clone(self), thread, open: Mutex::new(open) });
        // Before the keeper and the reader know of it: the keeper would make the same segment at the same time.
        writer.rotate();
        writers.push(Arc::clone(&writer));
        drop(writers);
        writer
    }

    /// The clicks dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether clicks are being dropped: there is no room, or one was dropped a moment ago.
    pub fn is_dropping(&self) -> bool {
        self.dropping.load(Ordering::Relaxed)
    }

    /// The clicks written so far.
    pub fn written(&self) -> u64 {
        self.writers.lock().iter().map(|lane| lane.open.lock().sequence).sum()
    }

    /// What was dropped so far and by whom, for whoever stores it.
    pub(crate) fn drops(&self) -> DroppedClicks {
        DroppedClicks { boot: self.options.boot, clicks: self.dropped() }
    }

    /// So many of the dropped are counted in the database.
    pub(crate) fn mark_drops_stored(&self, clicks: u64) {
        self.drops_stored.store(clicks, Ordering::Relaxed);
    }

    /// The bytes that wait to be stored, as last counted.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// What all segments together may take.
    pub fn budget_bytes(&self) -> u64 {
        self.options.budget_bytes
    }

    fn segment(&self, thread: u16, number: u64) -> PathBuf {
        self.folder.join(format!("j-{:016x}-{thread}-{number}", self.options.boot))
    }
}

impl SegmentWriter {
    /// Appends one click. Whether it is in the journal; if not, it was counted as dropped.
    pub fn append(&self, record: &JournalEntry<'_>) -> bool {
        self.stage(record) && self.flush()
    }

    /// Notes one click, to be written with others. Whether there is room for it; if not, it was counted as dropped.
    pub fn stage(&self, record: &JournalEntry<'_>) -> bool {
        let mut open = self.open.lock();
        if self.journal.full.load(Ordering::Relaxed) || !open.stage(record) {
            self.journal.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if open.batch.len() >= MAX_BATCH_BYTES {
            self.flush_staged(&mut open);
        }
        true
    }

    /// Whether clicks are noted and not yet written.
    pub fn has_staged(&self) -> bool {
        self.open.lock().staged > 0
    }

    /// Writes what is noted. Whether all of it is in the journal; what is not was counted as dropped.
    pub fn flush(&self) -> bool {
        self.flush_staged(&mut self.open.lock())
    }

    fn flush_staged(&self, open: &mut OpenSegment) -> bool {
        let noted = open.staged;
        let written = noted == 0 || open.flush(self.journal.options.sync);
        if !written {
            self.journal.dropped.fetch_add(noted, Ordering::Relaxed);
        }
        written
    }

    /// Opens the next segment and goes on in it. Runs on the keeper's thread; the serving thread only ever waits for the moment
    /// in which one file takes the place of another. Gives the file that was left.
    fn rotate(&self) -> Option<Arc<File>> {
        let next = self.open.lock().number + 1;
        match create_segment(&self.journal.folder, &self.journal.segment(self.thread, next)) {
            Ok(file) => {
                let mut open = self.open.lock();
                self.flush_staged(&mut open);
                // Written under the lock: until it is known where the last segment ends, nobody can say where this one begins.
                if (&file).write_all(&segment_head(open.sequence)).is_err() {
                    open.failed = true;
                    return None;
                }
                open.number = next;
                open.length = SEGMENT_HEAD_BYTES as u64;
                open.failed = false;
                open.file.replace(Arc::new(file))
            }
            Err(error) => {
                tracing::error!(%error, "the click journal cannot begin a new segment");
                None
            }
        }
    }
}

impl OpenSegment {
    fn stage(&mut self, record: &JournalEntry<'_>) -> bool {
        let start = self.batch.len();
        self.batch.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        record.encode(&mut self.batch);
        if self.file.is_none() || !write_frame_head(&mut self.batch[start..], self.sequence + self.staged + 1)
        {
            self.batch.truncate(start);
            return false;
        }
        self.staged += 1;
        true
    }

    fn flush(&mut self, sync: SyncPolicy) -> bool {
        let Some(file) = &self.file else { return false };
        let written = match (&**file).write(&self.batch) {
            Ok(length) if length == self.batch.len() => {
                sync != SyncPolicy::EveryWrite || file.sync_data().is_ok()
            }
            Ok(_) | Err(_) => false,
        };
        if written {
            self.sequence += self.staged;
            self.length += self.batch.len() as u64;
        } else {
            // What is there of it goes; if even that fails, the reader finds its way past it.
            let _ = file.set_len(self.length);
            let _ = (&**file).seek(SeekFrom::Start(self.length));
            self.failed = true;
        }
        self.batch.clear();
        self.staged = 0;
        written
    }
}

/// What all files of a journal take; what cannot be looked at takes nothing.
pub fn folder_bytes(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files
        .filter_map(|file| file.ok()?.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

fn create_segment(folder: &Path, path: &Path) -> std::io::Result<File> {
    // One that is there is what a failed attempt left: nothing was written to it.
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    // A folder that is not synced may forget the file in a power cut, and with it everything synced into it.
    File::open(folder)?.sync_all()?;
    Ok(file)
}
