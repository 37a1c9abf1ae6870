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

use self::frame::{FRAME_BYTES, HEAD_BYTES, head, seal};
pub(crate) use crate::journal::drop_counter::remove as remove_tally;
pub use crate::journal::drop_counter::{Drops, drops_in};
use crate::journal::entry::Record;
pub use crate::journal::maintenance::Keeper;
pub use crate::journal::reader::{Batch, Batched, Producer, Reader};

/// The journal's folder inside the data folder.
pub const FOLDER: &str = "journal";
/// Segments with unreadable parts are kept here for whoever wants to look.
pub const QUARANTINE: &str = "quarantine";
/// A segment that has grown to this is followed by a new one.
const SEGMENT_BYTES: u64 = 8 << 20;
/// With a small budget it may be as small as this.
const LEAST_SEGMENT_BYTES: u64 = 64 << 10;
/// And so is one this old.
const SEGMENT_AGE: Duration = Duration::from_secs(10);

/// When what was written reaches the disk itself, for power cuts; the process may be killed at any time in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncing {
    /// Before each answer: slow, and for those who must.
    Always,
    /// Every second.
    #[default]
    Interval,
    /// When the system sees fit.
    Off,
}

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder.
    pub data: PathBuf,
    /// What all segments together may take; beyond it clicks are dropped and counted.
    pub budget_bytes: u64,
    /// When to sync.
    pub sync: Syncing,
    /// A random number no other start has.
    pub boot: u64,
}

/// The journal of one process.
pub struct Journal {
    folder: PathBuf,
    options: Options,
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// No room: the budget is used up.
    full: AtomicBool,
    /// Bytes in segments that are not consumed, as last counted.
    waiting_bytes: AtomicU64,
    dropped: AtomicU64,
    /// How many of the dropped are counted in the database.
    drops_stored: AtomicU64,
    /// Clicks that come now are dropped, or were a moment ago.
    dropping: AtomicBool,
    closed: AtomicBool,
}

/// What one serving thread appends to.
pub struct Lane {
    journal: Arc<Journal>,
    thread: u16,
    open: Mutex<Open>,
}

/// So much is written at once at most.
const BATCH_BYTES: usize = 64 << 10;

/// The segment being written.
struct Open {
    /// Nothing while the disk refuses to make one.
    file: Option<Arc<File>>,
    number: u64,
    /// What is whole: a write that failed half-way is written over.
    length: u64,
    /// The last sequence written.
    sequence: u64,
    /// Frames that are noted and not yet written, and how many.
    batch: Vec<u8>,
    noted: u64,
    /// A write failed: the keeper opens another segment.
    failed: bool,
}

impl Journal {
    /// Begins a journal beside those that earlier processes left.
    pub fn open(options: Options) -> std::io::Result<Arc<Self>> {
        let folder = options.data.join(FOLDER);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Arc::new(Self {
            folder,
            options,
            lanes: Mutex::default(),
            full: AtomicBool::new(false),
            waiting_bytes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            drops_stored: AtomicU64::new(0),
            dropping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }))
    }

    /// The lane of another serving thread. A disk that refuses its first segment is the keeper's to deal with.
    pub fn lane(self: &Arc<Self>) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let thread = u16::try_from(lanes.len()).unwrap_or(u16::MAX);
        let open = Open {
            file: None,
            number: 0,
            length: 0,
            sequence: 0,
            batch: Vec::new(),
            noted: 0,
            failed: false,
        };
        let lane = Arc::new(Lane { journal: Arc::clone(self), thread, open: Mutex::new(open) });
        // Before the keeper and the reader know of it: the keeper would make the same segment at the same time.
        lane.follow_up();
        lanes.push(Arc::clone(&lane));
        drop(lanes);
        lane
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
        self.lanes.lock().iter().map(|lane| lane.open.lock().sequence).sum()
    }

    /// What was dropped so far and by whom, for whoever stores it.
    pub(crate) fn drops(&self) -> Drops {
        Drops { boot: self.options.boot, clicks: self.dropped() }
    }

    /// So many of the dropped are counted in the database.
    pub(crate) fn drops_are_stored(&self, clicks: u64) {
        self.drops_stored.store(clicks, Ordering::Relaxed);
    }

    /// The bytes that wait to be stored, as last counted.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// What all segments together may take.
    pub fn budget_bytes(&self) -> u64 {
        self.options.budget_bytes
    }

    fn segment(&self, thread: u16, number: u64) -> PathBuf {
        self.folder.join(format!("j-{:016x}-{thread}-{number}", self.options.boot))
    }
}

impl Lane {
    /// Appends one click. Whether it is in the journal; if not, it was counted as dropped.
    pub fn append(&self, record: &Record<'_>) -> bool {
        self.note(record) && self.write()
    }

    /// Notes one click, to be written with others. Whether there is room for it; if not, it was counted as dropped.
    pub fn note(&self, record: &Record<'_>) -> bool {
        let mut open = self.open.lock();
        if self.journal.full.load(Ordering::Relaxed) || !open.note(record) {
            self.journal.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if open.batch.len() >= BATCH_BYTES {
            self.write_noted(&mut open);
        }
        true
    }

    /// Whether clicks are noted and not yet written.
    pub fn has_noted(&self) -> bool {
        self.open.lock().noted > 0
    }

    /// Writes what is noted. Whether all of it is in the journal; what is not was counted as dropped.
    pub fn write(&self) -> bool {
        self.write_noted(&mut self.open.lock())
    }

    fn write_noted(&self, open: &mut Open) -> bool {
        let noted = open.noted;
        let written = noted == 0 || open.write(self.journal.options.sync);
        if !written {
            self.journal.dropped.fetch_add(noted, Ordering::Relaxed);
        }
        written
    }

    /// Opens the next segment and goes on in it. Runs on the keeper's thread; the serving thread only ever waits for the moment
    /// in which one file takes the place of another. Gives the file that was left.
    fn follow_up(&self) -> Option<Arc<File>> {
        let next = self.open.lock().number + 1;
        match create(&self.journal.folder, &self.journal.segment(self.thread, next)) {
            Ok(file) => {
                let mut open = self.open.lock();
                self.write_noted(&mut open);
                // Written under the lock: until it is known where the last segment ends, nobody can say where this one begins.
                if (&file).write_all(&head(open.sequence)).is_err() {
                    open.failed = true;
                    return None;
                }
                open.number = next;
                open.length = HEAD_BYTES as u64;
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

impl Open {
    fn note(&mut self, record: &Record<'_>) -> bool {
        let start = self.batch.len();
        self.batch.extend_from_slice(&[0; FRAME_BYTES]);
        record.encode(&mut self.batch);
        if self.file.is_none() || !seal(&mut self.batch[start..], self.sequence + self.noted + 1) {
            self.batch.truncate(start);
            return false;
        }
        self.noted += 1;
        true
    }

    fn write(&mut self, sync: Syncing) -> bool {
        let Some(file) = &self.file else { return false };
        let written = match (&**file).write(&self.batch) {
            Ok(length) if length == self.batch.len() => sync != Syncing::Always || file.sync_data().is_ok(),
            Ok(_) | Err(_) => false,
        };
        if written {
            self.sequence += self.noted;
            self.length += self.batch.len() as u64;
        } else {
            // What is there of it goes; if even that fails, the reader finds its way past it.
            let _ = file.set_len(self.length);
            let _ = (&**file).seek(SeekFrom::Start(self.length));
            self.failed = true;
        }
        self.batch.clear();
        self.noted = 0;
        written
    }
}

/// What all files of a journal take; what cannot be looked at takes nothing.
pub fn bytes_in(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files
        .filter_map(|file| file.ok()?.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

fn create(folder: &Path, path: &Path) -> std::io::Result<File> {
    // One that is there is what a failed attempt left: nothing was written to it.
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    // A folder that is not synced may forget the file in a power cut, and with it everything synced into it.
    File::open(folder)?.sync_all()?;
    Ok(file)
}
