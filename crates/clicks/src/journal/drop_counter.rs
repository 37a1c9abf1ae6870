//! The tally: how many clicks a process has dropped and not yet counted in the database, where a restart cannot forget it.
//!
//! It is a file beside the segments, `d-<boot>`, made before anything is dropped: a disk without room for clicks has none for a new
//! file. The number is written over the last one with a checksum, as in the head of a segment. Who stores it remembers how many of
//! this boot are stored, so a tally that outlives its storing adds nothing.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::frame::{SEGMENT_HEAD_BYTES, read_segment_head, segment_head};

/// What a process has dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedClicks {
    /// The start of the process.
    pub boot: u64,
    /// All clicks it has dropped, or 0 when they are all stored.
    pub clicks: u64,
}

/// The tally of a process that runs.
pub(super) struct DropCounter {
    path: PathBuf,
    file: Option<File>,
    written: u64,
}

impl DropCounter {
    pub(super) fn open(folder: &Path, boot: u64) -> Self {
        let mut counter = Self { path: counter_path(folder, boot), file: None, written: u64::MAX };
        counter.write(0);
        counter
    }

    /// Keeps a number. What fails is tried again when it is next called.
    pub(super) fn write(&mut self, dropped: u64) {
        if self.written == dropped {
            return;
        }
        let kept = self.try_write(dropped);
        if let Err(error) = &kept {
            tracing::debug!(%error, dropped, "the number of dropped clicks could not be kept");
        } else {
            self.written = dropped;
        }
    }

    fn try_write(&mut self, dropped: u64) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                none.insert(options.create(true).write(true).truncate(false).mode(0o600).open(&self.path)?)
            }
        };
        file.write_all_at(&segment_head(dropped), 0)?;
        file.sync_data()
    }

    /// The process ends. A tally of nothing is of no use to anybody.
    pub(super) fn close(self) {
        if self.written == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The tallies in a journal folder. One that cannot be read was never written whole.
pub fn read_drop_counters(folder: &Path) -> std::io::Result<Vec<DroppedClicks>> {
    let mut drops = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(drops),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let Some(boot) = path.file_name().and_then(|name| parse_boot(name.to_str()?)) else { continue };
        let mut bytes = [0; SEGMENT_HEAD_BYTES];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, 0));
        let clicks = read.ok().and_then(|()| read_segment_head(bytes)).unwrap_or_default();
        drops.push(DroppedClicks { boot, clicks });
    }
    Ok(drops)
}

/// Removes the tally of a process that is gone, once it is stored.
pub(crate) fn remove_counter(folder: &Path, boot: u64) {
    let _ = std::fs::remove_file(counter_path(folder, boot));
}

fn counter_path(folder: &Path, boot: u64) -> PathBuf {
    folder.join(format!("d-{boot:016x}"))
}

fn parse_boot(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("d-")?, 16).ok()
}
