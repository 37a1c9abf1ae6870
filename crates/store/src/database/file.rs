//! The SQLite file as the operating system sees it.
//!
//! An open database goes on working when its file is moved, replaced or overwritten: reads come from a cache or a file
//! without a name, and an acknowledged write would be lost. So the path is looked at before every use. It costs two system
//! calls and never happens on the redirect path.
//!
//! Nothing in this process may open and close the file beside SQLite: closing any handle of a file drops every lock the
//! process has on it, and another process that closes the database then takes itself for the last one and deletes the log
//! others still write to. So a handle of ours is opened once for each file and stays open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::StoreError;

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Remembers which file was opened.
#[derive(Clone, Debug)]
pub struct FileGuard(Arc<OpenedFile>);

#[derive(Debug)]
struct OpenedFile {
    path: PathBuf,
    identity: FileIdentity,
    file: Arc<File>,
}

/// Device and inode. An open handle keeps the number from being given to another file.
type FileIdentity = (u64, u64);

/// Every file ever guarded by this process, for as long as it lives.
static OPENED_FILES: Mutex<Option<HashMap<FileIdentity, Arc<File>>>> = Mutex::new(None);

impl FileGuard {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let metadata = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
        let identity = (metadata.dev(), metadata.ino());
        let mut opened = OPENED_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        let file = match opened.entry(identity) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(new) => {
                let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
                Arc::clone(new.insert(Arc::new(file)))
            }
        };
        Ok(Self(Arc::new(OpenedFile { path: path.to_owned(), identity, file })))
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let path = &self.0.path;
        let now = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
        if (now.dev(), now.ino()) != self.0.identity {
            return Err(StoreError::Unavailable(format!(
                "{} was replaced by another file while open; restart to use it",
                path.display()
            )));
        }
        let mut magic = [0; 16];
        match self.0.file.read_exact_at(&mut magic, 0) {
            Ok(()) if &magic == SQLITE_MAGIC => Ok(()),
            _ => Err(StoreError::Unavailable(format!("{} was overwritten while open", path.display()))),
        }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be read: {error}", path.display()))
}
