//! Files that appear whole or not at all: written beside their place under a hidden name, readable by their owner alone, and moved there
//! once they are on the disk.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

/// How the names of files in the making end.
const PARTIAL_FILE_SUFFIX: &str = ".part";
const RANDOM_CHARS: usize = 6;

/// What to do about a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it alone and fail.
    Refuse,
    /// Put the new one in its place once that is complete.
    Replace,
}

impl Overwrite {
    /// As `--force` says.
    pub const fn from_flag(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// Why there is no new file.
#[derive(Debug, thiserror::Error)]
pub enum AtomicFileError {
    #[error("it exists already")]
    Exists,
    /// A device, a pipe, a link or a folder: none of them is replaced.
    #[error("what is there is no file")]
    NotAFile,
    #[error("it is no name for a file")]
    NoName,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file in the making. Dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicFile {
    file: NamedTempFile,
    path: PathBuf,
    overwrite: Overwrite,
}

impl AtomicFile {
    /// Its folder must be there.
    pub fn create(path: &Path, overwrite: Overwrite) -> Result<Self, AtomicFileError> {
        let name = path.file_name().ok_or(AtomicFileError::NoName)?;
        refuse_existing(path, overwrite)?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        // Unlike `tempfile_in`, this gives errors as they are: without the hidden name, which nobody asked for.
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(RANDOM_CHARS)
            .suffix(PARTIAL_FILE_SUFFIX)
            .make_in(folder_of(path), |hidden| {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(hidden)
            })?;
        Ok(Self { file, path: path.to_owned(), overwrite })
    }

    /// When it was written to last, by the clock of its file system.
    pub fn modified(&self) -> io::Result<SystemTime> {
        self.file.as_file().metadata()?.modified()
    }

    /// Moves it to its place. After this it is there, and on the disk.
    pub fn finish(self) -> Result<(), AtomicFileError> {
        self.file.as_file().sync_all()?;
        refuse_existing(&self.path, self.overwrite)?;
        let moved = match self.overwrite {
            Overwrite::Refuse => self.file.persist_noclobber(&self.path),
            Overwrite::Replace => self.file.persist(&self.path),
        };
        moved.map_err(|refused| match refused.error.kind() {
            ErrorKind::AlreadyExists => AtomicFileError::Exists,
            _ => refused.error.into(),
        })?;
        // The name is only safe once its folder is on the disk; where a folder cannot be synced there is nothing more to do.
        let _ = File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a small file where there is none. If another process was first, its file stays.
pub fn write_if_absent(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = || {
        let mut file = AtomicFile::create(path, Overwrite::Refuse)?;
        file.write_all(bytes)?;
        file.finish()
    };
    match write() {
        Ok(()) | Err(AtomicFileError::Exists) => Ok(()),
        Err(AtomicFileError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The name that a hidden file was going to have: of `.name.xxxxxx.part` it is `name`.
pub fn final_name(hidden: &OsStr) -> Option<&str> {
    let (name, random) =
        hidden.to_str()?.strip_prefix('.')?.strip_suffix(PARTIAL_FILE_SUFFIX)?.rsplit_once('.')?;
    (random.len() == RANDOM_CHARS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(name)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refuse_existing(path: &Path, overwrite: Overwrite) -> Result<(), AtomicFileError> {
    match path.symlink_metadata() {
        Ok(_) if overwrite == Overwrite::Refuse => Err(AtomicFileError::Exists),
        Ok(there) if !there.is_file() => Err(AtomicFileError::NotAFile),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
