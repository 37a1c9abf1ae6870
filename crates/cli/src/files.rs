//! Files that are there whole or not at all, and the lock that says a server is running.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rlinks_server::process::lock::LOCK_FILE;

use crate::error::CliError;

/// What to do about a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    Refuse,
    Replace,
}

impl Overwrite {
    pub(crate) const fn from_flag(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// Where output goes, decided once from the name somebody typed.
#[derive(Debug, PartialEq, Eq)]
enum OutputFile {
    /// `-`, or whatever else leads to our own stdout.
    Stdout,
    /// A device or a pipe: written into as it is. There is nothing in it to keep, and replacing it would break it for everybody.
    Stream(PathBuf),
    /// A file, or the place of one, behind all links: a link stays a link.
    File(PathBuf),
}

impl OutputFile {
    fn from_path(named: &Path) -> Result<Self, CliError> {
        if named == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match std::fs::metadata(named) {
            Ok(there) if there.is_dir() => {
                Err(CliError::failed(format!("{} is a folder; nothing was written", named.display()))
                    .hint("name a file in it"))
            }
            Ok(there) if is_stdout(&there) => Ok(Self::Stdout),
            Ok(there) if !there.is_file() => Ok(Self::Stream(named.to_owned())),
            Ok(_) => named.canonicalize().map(Self::File).map_err(|error| cannot_write(named, &error)),
            Err(_) if named.symlink_metadata().is_ok() => Err(CliError::failed(format!(
                "{} is a link that leads nowhere; nothing was written",
                named.display()
            ))),
            Err(_) => Ok(Self::File(named.to_owned())),
        }
    }
}

fn is_stdout(there: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    rustix::fs::fstat(std::io::stdout())
        .is_ok_and(|stdout| (stdout.st_dev, stdout.st_ino) == (there.dev(), there.ino()))
}

/// Refuses two outputs that are one: the second would be written over or into the first.
pub(crate) fn refuse_same(first: &Path, second: &Path) -> Result<(), CliError> {
    let resolve = |named: &Path| -> Result<OutputFile, CliError> {
        Ok(match OutputFile::from_path(named)? {
            // A file that is not there yet is where its folder is.
            OutputFile::File(path) => {
                let folder = path
                    .parent()
                    .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
                let folder = folder.and_then(|folder| folder.canonicalize().ok());
                OutputFile::File(match (folder, path.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => path,
                })
            }
            other => other,
        })
    };
    if resolve(first)? == resolve(second)? {
        return Err(CliError::usage(format!(
            "{} and {} are the same place; each output needs a name of its own",
            first.display(),
            second.display()
        )));
    }
    Ok(())
}

/// Output in the making. A file is written beside its place and moved there when it is complete and on the disk.
pub(crate) struct AtomicFile {
    writer: Box<dyn Write + Send>,
    named: PathBuf,
    pending: Option<PendingFile>,
    is_stdout: bool,
    write_error: Option<std::io::ErrorKind>,
}

/// A file that is moved to its place when it is whole.
struct PendingFile {
    file: File,
    temporary_path: PathBuf,
    path: PathBuf,
    overwrite: Overwrite,
}

impl AtomicFile {
    pub(crate) fn create(named: &Path, overwrite: Overwrite) -> Result<Self, CliError> {
        let cannot = |error: std::io::Error| cannot_write(named, &error);
        let of = |writer, pending, is_stdout| Self {
            writer,
            named: named.to_owned(),
            pending,
            is_stdout,
            write_error: None,
        };
        match OutputFile::from_path(named)? {
            OutputFile::Stdout => Ok(of(Box::new(std::io::stdout()), None, true)),
            OutputFile::Stream(path) => {
                let stream = OpenOptions::new().write(true).open(path).map_err(cannot)?;
                Ok(of(Box::new(stream), None, false))
            }
            OutputFile::File(path) => {
                refuse_existing(&path, named, overwrite)?;
                let Some(name) = path.file_name() else {
                    return Err(CliError::usage(format!("{} is no name for a file", named.display())));
                };
                let mut hidden = std::ffi::OsString::from(".");
                hidden.push(name);
                hidden.push(format!(".{}.part", std::process::id()));
                let temporary_path = path.with_file_name(hidden);
                let mut options = OpenOptions::new();
                let file =
                    options.write(true).create_new(true).mode(0o600).open(&temporary_path).map_err(cannot)?;
                let writer = Box::new(file.try_clone().map_err(cannot)?);
                Ok(of(writer, Some(PendingFile { file, temporary_path, path, overwrite }), false))
            }
        }
    }

    /// Whether it is stdout, where nothing else may go then.
    pub(crate) const fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    /// What went wrong with the output itself, where that is why something ended: no trouble of whatever was read.
    pub(crate) fn write_error(&self) -> Option<CliError> {
        self.write_error.map(|kind| cannot_write(&self.named, &kind.into()))
    }

    /// Writes some of it.
    pub(crate) fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.write_all(bytes).map_err(|error| match self.write_error() {
            // Who stops reading, as in `rmax links export | head`, has what they wanted.
            Some(trouble) if error.kind() != std::io::ErrorKind::BrokenPipe => trouble,
            _ => error.into(),
        })
    }

    /// Puts it in its place.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        let cannot = |error: std::io::Error| cannot_write(&self.named, &error);
        self.writer.flush().map_err(cannot)?;
        let Some(pending) = &self.pending else { return Ok(()) };
        pending.file.sync_all().map_err(cannot)?;
        refuse_existing(&pending.path, &self.named, pending.overwrite)?;
        std::fs::rename(&pending.temporary_path, &pending.path).map_err(cannot)?;
        let folder = pending.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The name is only safe once its folder is on the disk; where a folder cannot be synced there is nothing more to do.
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.writer.write(bytes).inspect_err(|error| self.write_error = Some(error.kind()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name any more.
        let _ = std::fs::remove_file(&self.temporary_path);
    }
}

/// What is there is kept unless somebody says otherwise; what is no file is never replaced.
fn refuse_existing(path: &Path, named: &Path, overwrite: Overwrite) -> Result<(), CliError> {
    match path.symlink_metadata() {
        Ok(_) if overwrite == Overwrite::Refuse => {
            Err(CliError::conflict(format!("{} exists already; nothing was written", named.display()))
                .hint("choose another name, or replace it with --force"))
        }
        Ok(there) if !there.is_file() => {
            Err(CliError::failed(format!("{} is no file; nothing was written", named.display())))
        }
        _ => Ok(()),
    }
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("{} cannot be written: {error}", path.display()))
}

pub(crate) fn cannot_read(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("{} cannot be read: {error}", path.display()))
}

/// Whether a server holds the data folder.
#[derive(Debug)]
pub(crate) enum ServerLock {
    Running,
    /// None does, and none can start while this is kept.
    Free(Option<File>),
}

/// Looks at the lock without making one.
pub(crate) fn server_lock(data: &Path) -> std::io::Result<ServerLock> {
    match OpenOptions::new().append(true).open(data.join(LOCK_FILE)) {
        Ok(file) => lock(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ServerLock::Free(None)),
        Err(error) => Err(error),
    }
}

/// Keeps servers away from a data folder while the lock is held.
pub(crate) fn lock_out_servers(data: &Path) -> std::io::Result<ServerLock> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let mut options = OpenOptions::new();
    lock(options.create(true).append(true).mode(0o600).open(data.join(LOCK_FILE))?)
}

fn lock(file: File) -> std::io::Result<ServerLock> {
    match file.try_lock() {
        Ok(()) => Ok(ServerLock::Free(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(ServerLock::Running),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
