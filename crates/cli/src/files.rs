//! Files that are there whole or not at all, and the lock that says a server is running.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rlinks_server::run::LOCK_FILE;

use crate::error::Failure;

/// What to do about a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    Refuse,
    Replace,
}

impl Overwrite {
    pub(crate) const fn forced(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// A file in the making: written beside its place and moved there when it is complete and on the disk.
pub(crate) struct NewFile {
    file: File,
    making: PathBuf,
    place: PathBuf,
    overwrite: Overwrite,
}

impl NewFile {
    pub(crate) fn create(place: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        refuse_existing(place, overwrite)?;
        let Some(name) = place.file_name() else {
            return Err(Failure::usage(format!("{} is no name for a file", place.display())));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let making = place.with_file_name(hidden);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&making);
        let file = file.map_err(|error| cannot_write(place, &error))?;
        Ok(Self { file, making, place: place.to_owned(), overwrite })
    }

    /// Puts it in its place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| cannot_write(&self.place, &error);
        self.file.sync_all().map_err(cannot)?;
        refuse_existing(&self.place, self.overwrite)?;
        std::fs::rename(&self.making, &self.place).map_err(cannot)?;
        let folder = self.place.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The name is only safe once its folder is on the disk; where a folder cannot be synced there is nothing more to do.
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name any more.
        let _ = std::fs::remove_file(&self.making);
    }
}

fn refuse_existing(place: &Path, overwrite: Overwrite) -> Result<(), Failure> {
    if overwrite == Overwrite::Refuse && place.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!("{} exists already; nothing was written", place.display()))
            .hint("choose another name, or replace it with --force"));
    }
    Ok(())
}

pub(crate) fn cannot_write(place: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", place.display()))
}

pub(crate) fn cannot_read(place: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be read: {error}", place.display()))
}

/// Whether a server holds the data folder.
#[derive(Debug)]
pub(crate) enum Served {
    /// One does.
    Running,
    /// None does, and none can start while this is kept.
    Free(Option<File>),
}

/// Looks at the lock without making one.
pub(crate) fn served(data: &Path) -> std::io::Result<Served> {
    match OpenOptions::new().append(true).open(data.join(LOCK_FILE)) {
        Ok(file) => lock(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Served::Free(None)),
        Err(error) => Err(error),
    }
}

/// Keeps servers away from a data folder while the lock is held.
pub(crate) fn keep_servers_away(data: &Path) -> std::io::Result<Served> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let mut options = OpenOptions::new();
    lock(options.create(true).append(true).mode(0o600).open(data.join(LOCK_FILE))?)
}

fn lock(file: File) -> std::io::Result<Served> {
    match file.try_lock() {
        Ok(()) => Ok(Served::Free(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(Served::Running),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
