//! The SQLite file as the operating system sees it.
//!
//! An open database goes on working when its file is moved, replaced or overwritten: reads come from a cache or a file
//! without a name, and an acknowledged write would be lost. So the path is looked at before every use. It costs three system
//! calls and never happens on the redirect path.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Remembers which file was opened.
#[derive(Clone, Debug)]
pub(crate) struct FileGuard(Arc<Seen>);

#[derive(Debug)]
struct Seen {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileGuard {
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let seen = std::fs::metadata(path).map_err(|error| gone(path, &error))?;
        Ok(Self(Arc::new(Seen { path: path.to_owned(), device: seen.dev(), inode: seen.ino() })))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let path = &self.0.path;
        let mut file = File::open(path).map_err(|error| gone(path, &error))?;
        let now = file.metadata().map_err(|error| gone(path, &error))?;
        if (now.dev(), now.ino()) != (self.0.device, self.0.inode) {
            return Err(StoreError::Unavailable(format!(
                "{} was replaced by another file while open; restart to use it",
                path.display()
            )));
        }
        let mut magic = [0; 16];
        match file.read_exact(&mut magic) {
            Ok(()) if &magic == MAGIC => Ok(()),
            _ => Err(StoreError::Unavailable(format!("{} was overwritten while open", path.display()))),
        }
    }
}

fn gone(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be read: {error}", path.display()))
}
