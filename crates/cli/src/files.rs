//! Files that are there whole or not at all, and the lock that says a server is running.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Stdout, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rlinks_server::process::lock::LOCK_FILE;
use rlinks_store::database::atomic_file::{AtomicFile, AtomicFileError, Overwrite};

use crate::error::CliError;

/// Where output goes, decided once from the name somebody typed.
#[derive(Debug, PartialEq, Eq)]
enum OutputPlace {
    /// `-`, or whatever else leads to our own stdout.
    Stdout,
    /// A device or a pipe: written into as it is. There is nothing in it to keep, and replacing it would break it for everybody.
    Stream(PathBuf),
    /// A file, or the place of one, behind all links: a link stays a link.
    File(PathBuf),
}

impl OutputPlace {
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
    let resolve = |named: &Path| -> Result<OutputPlace, CliError> {
        Ok(match OutputPlace::from_path(named)? {
            // A file that is not there yet is where its folder is.
            OutputPlace::File(path) => {
                let folder = path
                    .parent()
                    .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
                let folder = folder.and_then(|folder| folder.canonicalize().ok());
                OutputPlace::File(match (folder, path.file_name()) {
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

/// Output in the making. What goes to a file is in its place once it is complete and on the disk.
pub(crate) struct OutputFile {
    sink: OutputSink,
    named: PathBuf,
    write_error: Option<std::io::ErrorKind>,
}

enum OutputSink {
    Stdout(Stdout),
    Stream(File),
    File(AtomicFile),
}

impl OutputFile {
    pub(crate) fn create(named: &Path, overwrite: Overwrite) -> Result<Self, CliError> {
        let sink = match OutputPlace::from_path(named)? {
            OutputPlace::Stdout => OutputSink::Stdout(std::io::stdout()),
            OutputPlace::Stream(path) => {
                let stream = OpenOptions::new().write(true).open(path);
                OutputSink::Stream(stream.map_err(|error| cannot_write(named, &error))?)
            }
            OutputPlace::File(path) => {
                let file = AtomicFile::create(&path, overwrite);
                OutputSink::File(file.map_err(|error| refused(named, error))?)
            }
        };
        Ok(Self { sink, named: named.to_owned(), write_error: None })
    }

    /// Whether it is stdout, where nothing else may go then.
    pub(crate) const fn is_stdout(&self) -> bool {
        matches!(self.sink, OutputSink::Stdout(_))
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
        self.flush().map_err(|error| cannot_write(&self.named, &error))?;
        match self.sink {
            OutputSink::File(file) => file.finish().map_err(|error| refused(&self.named, error)),
            OutputSink::Stdout(_) | OutputSink::Stream(_) => Ok(()),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.sink {
            OutputSink::Stdout(stdout) => stdout,
            OutputSink::Stream(stream) => stream,
            OutputSink::File(file) => file,
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.writer().write(bytes);
        written.inspect_err(|error| self.write_error = Some(error.kind()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer().flush()
    }
}

/// What is there is kept unless somebody says otherwise; what is no file is never replaced.
fn refused(named: &Path, error: AtomicFileError) -> CliError {
    let named_as = named.display();
    match error {
        AtomicFileError::Exists => {
            CliError::conflict(format!("{named_as} exists already; nothing was written"))
                .hint("choose another name, or replace it with --force")
        }
        AtomicFileError::NotAFile => CliError::failed(format!("{named_as} is no file; nothing was written")),
        AtomicFileError::NoName => CliError::usage(format!("{named_as} is no name for a file")),
        AtomicFileError::Io(error) => cannot_write(named, &error),
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
