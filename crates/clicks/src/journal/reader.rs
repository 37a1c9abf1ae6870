//! Reading journals: this process's own as they grow, and those that earlier processes left behind.
//!
//! Nothing is deleted before what it held is stored. The end of a segment that was being written when its process died may be
//! torn: it was never answered, so it is dropped and counted. Damage in the middle is passed over, and the segment is kept aside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{
    FrameScan, MAX_FRAME_BYTES, SEGMENT_HEAD_BYTES, find_next_frame, read_segment_head, scan,
};
use super::{DroppedClicks, Journal, QUARANTINE_FOLDER, read_drop_counters, remove_counter};

/// At most so much of a segment is looked at in one go.
const WINDOW_BYTES: usize = 1 << 20;

/// Who wrote a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    /// The start of the process.
    pub boot: u64,
    pub thread: u16,
}

/// A record's place in a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRef {
    pub producer: Producer,
    pub sequence: u64,
    /// Where its bytes lie in the batch.
    pub bytes: std::ops::Range<usize>,
}

/// Records that are stored together.
#[derive(Debug, Default)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub entries: Vec<EntryRef>,
    /// Frames that were torn off at the end of a segment.
    pub torn: u64,
    /// Records lost to damage.
    pub damaged: u64,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.torn == 0 && self.damaged == 0
    }
}

pub struct Reader {
    folder: PathBuf,
    live: Option<Arc<Journal>>,
    segments: BTreeMap<(Producer, u64), Segment>,
    last: BTreeMap<Producer, Option<u64>>,
    done: Vec<(Producer, u64)>,
}

struct Segment {
    path: PathBuf,
    /// Opened when its turn comes: after days without a database there are more segments than a process may have open.
    file: Option<File>,
    /// Its head was read.
    begun: bool,
    offset: u64,
    damaged: bool,
    /// It could not be removed, and that was said.
    stuck: bool,
}

impl Reader {
    /// Reads a live journal and everything left beside it.
    pub fn live(journal: &Arc<Journal>) -> Self {
        Self { live: Some(Arc::clone(journal)), ..Self::abandoned(&journal.folder) }
    }

    /// Reads what processes that are gone left in a journal folder.
    pub fn abandoned(folder: &Path) -> Self {
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
        self.find_segments()?;
        let mut batch = Batch::default();
        let mut failed = None;
        // Of this producer nothing more is read now: what follows goes on after something that is not read yet.
        let mut held = None;
        let keys: Vec<_> = self.segments.keys().copied().collect();
        for key in keys {
            if batch.entries.len() >= most {
                break;
            }
            if held == Some(key.0) || self.done.contains(&key) {
                continue;
            }
            match self.read_segment(key, &mut batch, most) {
                Ok(true) => self.done.push(key),
                Ok(false) => held = Some(key.0),
                Err(error) => (held, failed) = (Some(key.0), Some(error)),
            }
        }
        match failed {
            // What was read from others is not read again, so it must not be lost over this.
            Some(error) if batch.is_empty() => Err(error),
            _ => Ok(batch),
        }
    }

    /// What processes that are gone have dropped and nobody has stored.
    pub(crate) fn abandoned_drops(&self) -> std::io::Result<Vec<DroppedClicks>> {
        let ours = self.live.as_ref().map(|journal| journal.options.boot);
        Ok(read_drop_counters(&self.folder)?.into_iter().filter(|drops| Some(drops.boot) != ours).collect())
    }

    pub(crate) fn remove_drop_counters(&self, stored: &[DroppedClicks]) {
        for drops in stored {
            remove_counter(&self.folder, drops.boot);
        }
    }

    /// What was read is stored: segments that were read to their end can go.
    pub fn commit(&mut self) {
        for key in std::mem::take(&mut self.done) {
            let Some(segment) = self.segments.get_mut(&key) else { continue };
            let gone = if segment.damaged {
                quarantine(&self.folder, &segment.path)
            } else {
                std::fs::remove_file(&segment.path)
            };
            match gone {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    if !std::mem::replace(&mut segment.stuck, true) {
                        tracing::warn!(%error, "a segment of the click journal that is stored could not be removed");
                    }
                    // Forgotten, it would be found and read again.
                    self.done.push(key);
                }
                Ok(()) | Err(_) => {
                    self.segments.remove(&key);
                }
            }
        }
    }

    /// Reads from a segment; whether it is at its end for good.
    fn read_segment(
        &mut self,
        (producer, number): (Producer, u64),
        batch: &mut Batch,
        most: usize,
    ) -> std::io::Result<bool> {
        let growing = self.growing_end(producer, number);
        let is_last = !self.segments.contains_key(&(producer, number + 1));
        let Some(segment) = self.segments.get_mut(&(producer, number)) else { return Ok(true) };
        let file = match segment.file.take() {
            Some(file) => file,
            None => match File::open(&segment.path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.segments.remove(&(producer, number));
                    return Ok(true);
                }
                Err(error) => return Err(error),
            },
        };
        let limit = match growing {
            Some(end) => Limit::Growing(end),
            None => Limit::Ended { end: file.metadata()?.len(), is_last },
        };
        let last = self.last.entry(producer).or_default();
        let ended = segment.read_into(&file, batch, most, producer, last, limit)?;
        if !ended {
            segment.file = Some(file);
        }
        Ok(ended)
    }

    /// How far a segment that is being written, or is about to be, can be read. Nothing when no more will come.
    fn growing_end(&self, producer: Producer, number: u64) -> Option<u64> {
        let journal = self.live.as_ref().filter(|journal| journal.options.boot == producer.boot)?;
        let writers = journal.writers.lock();
        let open = writers.get(usize::from(producer.thread))?.open.lock();
        match number.cmp(&open.number) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(open.length),
            // The keeper has made it and nobody writes to it yet.
            std::cmp::Ordering::Greater => Some(0),
        }
    }

    fn find_segments(&mut self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Some(key) = path.file_name().and_then(|name| parse_segment_name(name.to_str()?)) else {
                continue;
            };
            self.segments.entry(key).or_insert(Segment {
                path,
                file: None,
                begun: false,
                offset: 0,
                damaged: false,
                stuck: false,
            });
        }
        Ok(())
    }
}

/// How far a segment can be read.
#[derive(Clone, Copy)]
enum Limit {
    Growing(u64),
    /// This is all there is.
    Ended {
        end: u64,
        is_last: bool,
    },
}

impl Segment {
    /// Reads frames; whether the segment is at its end for good. Records that are lost are counted where the next one says how
    /// many there were.
    fn read_into(
        &mut self,
        file: &File,
        batch: &mut Batch,
        most: usize,
        producer: Producer,
        last: &mut Option<u64>,
        limit: Limit,
    ) -> std::io::Result<bool> {
        let (end, ended, is_last) = match limit {
            Limit::Growing(end) => (end, false, false),
            Limit::Ended { end, is_last } => (end, true, is_last),
        };
        if !self.begun {
            if end < SEGMENT_HEAD_BYTES as u64 {
                return Ok(ended);
            }
            self.read_head(file, batch, last)?;
        }
        let mut window = Vec::new();
        while batch.entries.len() < most {
            let left = usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(ended);
            }
            window.resize(left.min(WINDOW_BYTES), 0);
            file.read_exact_at(&mut window, self.offset)?;
            let whole = left <= WINDOW_BYTES;
            let mut at = 0;
            while batch.entries.len() < most {
                match scan(&window[at..], *last) {
                    FrameScan::Frame(sequence, payload, length) => {
                        let start = batch.bytes.len();
                        batch.bytes.extend_from_slice(payload);
                        let bytes = start..batch.bytes.len();
                        batch.entries.push(EntryRef { producer, sequence, bytes });
                        batch.damaged += last.map_or(0, |last| sequence - last - 1);
                        *last = Some(sequence);
                        at += length;
                    }
                    // Half a frame at the end of what can be seen: the rest is in the next window, or comes.
                    FrameScan::Incomplete if at == window.len() || !whole || !ended => break,
                    FrameScan::Incomplete | FrameScan::Damaged => match find_next_frame(&window[at..], *last)
                    {
                        Some(skip) => {
                            self.damaged = true;
                            // Where nobody knows how many there were; a damaged head is none.
                            batch.damaged += u64::from(last.is_none() && skip > SEGMENT_HEAD_BYTES);
                            at += skip;
                        }
                        None if whole => {
                            // At the very end it is what its process could not finish.
                            if ended && is_last {
                                batch.torn += 1;
                            } else {
                                self.damaged = true;
                            }
                            at = window.len();
                        }
                        None => {
                            self.damaged = true;
                            // A frame may begin in this window and end in the next.
                            at = (at + 1).max(window.len() - MAX_FRAME_BYTES);
                            break;
                        }
                    },
                }
            }
            if at == 0 && batch.entries.len() < most {
                return Ok(false);
            }
            self.offset += at as u64;
        }
        Ok(ended && self.offset >= end)
    }

    fn read_head(&mut self, file: &File, batch: &mut Batch, last: &mut Option<u64>) -> std::io::Result<()> {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        file.read_exact_at(&mut head, 0)?;
        self.begun = true;
        match read_segment_head(head) {
            Some(after) => {
                self.offset = SEGMENT_HEAD_BYTES as u64;
                // What the segment before should have held and did not, or a whole segment that is gone.
                batch.damaged += last.map_or(0, |last| after.saturating_sub(last));
                *last = Some(last.map_or(after, |last| last.max(after)));
            }
            None => self.damaged = true,
        }
        Ok(())
    }
}

fn quarantine(folder: &Path, path: &Path) -> std::io::Result<()> {
    let aside = folder.join(QUARANTINE_FOLDER);
    std::fs::create_dir_all(&aside)?;
    let to = aside.join(path.file_name().unwrap_or_default());
    tracing::warn!(segment = %to.display(), "a damaged segment of the click journal was kept aside");
    std::fs::rename(path, to)
}

// `j-<boot>-<thread>-<number>`.
fn parse_segment_name(name: &str) -> Option<(Producer, u64)> {
    let mut parts = name.strip_prefix("j-")?.split('-');
    let boot = u64::from_str_radix(parts.next()?, 16).ok()?;
    let thread = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((Producer { boot, thread }, number))
}
