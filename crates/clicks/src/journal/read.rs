//! Reading journals: this process's own as they grow, and those that earlier processes left behind.
//!
//! Nothing is deleted before what it held is stored. The end of a segment that was being written when its process died may be
//! torn: it was never answered, so it is dropped and counted. Damage in the middle is passed over, and the segment is kept aside.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{Found, HEAD_BYTES, look, next_whole, read_head};
use super::{Journal, QUARANTINE};

/// At most so much of a segment is looked at in one go.
const WINDOW_BYTES: usize = 1 << 20;

/// Who wrote a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    /// The start of the process.
    pub boot: u64,
    /// Its thread.
    pub thread: u16,
}

/// A record's place in a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batched {
    /// Who wrote it.
    pub producer: Producer,
    /// Its sequence.
    pub sequence: u64,
    /// Where its bytes lie in the batch.
    pub bytes: std::ops::Range<usize>,
}

/// Records that are stored together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Which is which.
    pub records: Vec<Batched>,
    /// Frames that were torn off at the end of a segment.
    pub torn: u64,
    /// Records lost to damage.
    pub damaged: u64,
}

impl Batch {
    /// Nothing to store.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.torn == 0 && self.damaged == 0
    }
}

/// Reads what waits.
pub struct Reader {
    folder: PathBuf,
    live: Option<Arc<Journal>>,
    segments: BTreeMap<(Producer, u64), Segment>,
    last: BTreeMap<Producer, u64>,
    done: Vec<(Producer, u64)>,
}

struct Segment {
    path: PathBuf,
    file: File,
    offset: u64,
    damaged: bool,
}

impl Reader {
    /// Reads a live journal and everything left beside it.
    pub fn live(journal: &Arc<Journal>) -> Self {
        Self { live: Some(Arc::clone(journal)), ..Self::left_in(&journal.folder) }
    }

    /// Reads what processes that are gone left in a journal folder.
    pub fn left_in(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            live: None,
            segments: BTreeMap::new(),
            last: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// The next records, at most about `most`, oldest segments first. What was read is not read again.
    pub fn read(&mut self, most: usize) -> std::io::Result<Batch> {
        self.find()?;
        let mut batch = Batch::default();
        let keys: Vec<_> = self.segments.keys().copied().collect();
        for (producer, number) in keys {
            if batch.records.len() >= most {
                break;
            }
            if self.done.contains(&(producer, number)) {
                continue;
            }
            let limit = self.limit(producer, number)?;
            let is_last = !self.segments.contains_key(&(producer, number + 1));
            let Some(segment) = self.segments.get_mut(&(producer, number)) else { continue };
            let last = self.last.entry(producer).or_default();
            let ended = segment.read_into(&mut batch, most, producer, last, limit, is_last)?;
            if ended {
                self.done.push((producer, number));
            }
        }
        Ok(batch)
    }

    /// What was read is stored: segments that were read to their end can go.
    pub fn stored(&mut self) {
        for key in self.done.drain(..) {
            let Some(segment) = self.segments.remove(&key) else { continue };
            let gone = if segment.damaged {
                keep_aside(&self.folder, &segment.path)
            } else {
                std::fs::remove_file(&segment.path)
            };
            if let Err(error) = gone {
                tracing::warn!(%error, "a segment of the click journal that is stored could not be removed");
            }
        }
    }

    /// How far a segment can be read, and whether more may come: nothing when none will.
    fn limit(&self, producer: Producer, number: u64) -> std::io::Result<Limit> {
        if let Some(journal) = &self.live
            && journal.options.boot == producer.boot
        {
            let lanes = journal.lanes.lock();
            if let Some(lane) = lanes.get(usize::from(producer.thread)) {
                let open = lane.open.lock();
                if open.number == number {
                    return Ok(Limit::Growing(open.length));
                }
            }
        }
        let segment = &self.segments[&(producer, number)];
        Ok(Limit::Ended(segment.file.metadata()?.len()))
    }

    fn find(&mut self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Some(key) = path.file_name().and_then(|name| parse(name.to_str()?)) else { continue };
            if let std::collections::btree_map::Entry::Vacant(place) = self.segments.entry(key) {
                match File::open(&path) {
                    Ok(file) => {
                        place.insert(Segment { path, file, offset: 0, damaged: false });
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Limit {
    Growing(u64),
    Ended(u64),
}

impl Segment {
    /// Reads frames; whether the segment is at its end for good.
    fn read_into(
        &mut self,
        batch: &mut Batch,
        most: usize,
        producer: Producer,
        last: &mut u64,
        limit: Limit,
        is_last: bool,
    ) -> std::io::Result<bool> {
        let (end, ended) = match limit {
            Limit::Growing(end) => (end, false),
            Limit::Ended(end) => (end, true),
        };
        if self.offset == 0 {
            let mut head = [0; 16];
            if end < HEAD_BYTES {
                return Ok(ended);
            }
            self.file.read_exact_at(&mut head, 0)?;
            self.offset = HEAD_BYTES;
            match read_head(head) {
                // A segment in between is gone.
                Some(after) if *last != 0 && after > *last => {
                    batch.damaged += after - *last;
                    *last = after;
                }
                Some(after) => *last = (*last).max(after),
                None => self.damaged = true,
            }
        }
        let mut window = Vec::new();
        while batch.records.len() < most {
            let left = usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(ended);
            }
            window.resize(left.min(WINDOW_BYTES), 0);
            self.file.read_exact_at(&mut window, self.offset)?;
            let whole = left <= WINDOW_BYTES;
            let mut at = 0;
            while batch.records.len() < most {
                match look(&window[at..], *last) {
                    Found::Frame(sequence, payload, length) => {
                        let start = batch.bytes.len();
                        batch.bytes.extend_from_slice(payload);
                        let bytes = start..batch.bytes.len();
                        batch.records.push(Batched { producer, sequence, bytes });
                        *last = sequence;
                        at += length;
                    }
                    Found::Short if at == window.len() || !whole => break,
                    Found::Short if !ended => break,
                    Found::Short | Found::Damage => match next_whole(&window[at..], *last) {
                        Some(skip) => {
                            let Found::Frame(sequence, ..) = look(&window[at + skip..], *last) else { break };
                            batch.damaged += sequence - *last - 1;
                            self.damaged = true;
                            at += skip;
                        }
                        // The rest of the window has no frame: of the last segment it is the end its process could not finish.
                        None => {
                            if whole && ended && is_last {
                                batch.torn += 1;
                            } else {
                                batch.damaged += 1;
                                self.damaged = true;
                            }
                            at = window.len();
                        }
                    },
                }
            }
            if at == 0 && batch.records.len() < most {
                // Half a frame at the end of what can be seen: more comes, or it would have been damage.
                return Ok(false);
            }
            self.offset += at as u64;
        }
        Ok(ended && self.offset >= end)
    }
}

fn keep_aside(folder: &Path, path: &Path) -> std::io::Result<()> {
    let aside = folder.join(QUARANTINE);
    std::fs::create_dir_all(&aside)?;
    let to = aside.join(path.file_name().unwrap_or_default());
    tracing::warn!(segment = %to.display(), "a damaged segment of the click journal was kept aside");
    std::fs::rename(path, to)
}

/// `j-<boot>-<thread>-<number>`.
fn parse(name: &str) -> Option<(Producer, u64)> {
    let mut parts = name.strip_prefix("j-")?.split('-');
    let boot = u64::from_str_radix(parts.next()?, 16).ok()?;
    let thread = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((Producer { boot, thread }, number))
}
