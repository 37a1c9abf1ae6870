//! Files that are there whole or not at all, and the lock that says a server is running.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rlinks_server::process::lock::LOCK_FILE;

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

/// Where output goes, decided once from the name somebody typed.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// `-`, or whatever else leads to our own stdout.
    Stdout,
    /// A device or a pipe: written into as it is. There is nothing in it to keep, and replacing it would break it for everybody.
    Stream(PathBuf),
    /// A file, or the place of one, behind all links: a link stays a link.
    File(PathBuf),
}

impl Place {
    fn of(named: &Path) -> Result<Self, Failure> {
        if named == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match std::fs::metadata(named) {
            Ok(there) if there.is_dir() => {
                Err(Failure::failed(format!("{} is a folder; nothing was written", named.display()))
                    .hint("name a file in it"))
            }
            Ok(there) if is_stdout(&there) => Ok(Self::Stdout),
            Ok(there) if !there.is_file() => Ok(Self::Stream(named.to_owned())),
            Ok(_) => named.canonicalize().map(Self::File).map_err(|error| cannot_write(named, &error)),
            Err(_) if named.symlink_metadata().is_ok() => Err(Failure::failed(format!(
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
pub(crate) fn refuse_same(first: &Path, second: &Path) -> Result<(), Failure> {
    let place = |named: &Path| -> Result<Place, Failure> {
        Ok(match Place::of(named)? {
            // A file that is not there yet is where its folder is.
            Place::File(path) => {
                let folder = path
                    .parent()
                    .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
                let folder = folder.and_then(|folder| folder.canonicalize().ok());
                Place::File(match (folder, path.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => path,
                })
            }
            place => place,
        })
    };
    if place(first)? == place(second)? {
        return Err(Failure::usage(format!(
            "{} and {} are the same place; each output needs a name of its own",
            first.display(),
            second.display()
        )));
    }
    Ok(())
}

/// Output in the making. A file is written beside its place and moved there when it is complete and on the disk.
pub(crate) struct NewFile {
    to: Box<dyn Write + Send>,
    named: PathBuf,
    whole: Option<Whole>,
    is_stdout: bool,
    trouble: Option<std::io::ErrorKind>,
}

/// A file that is moved to its place when it is whole.
struct Whole {
    file: File,
    making: PathBuf,
    place: PathBuf,
    overwrite: Overwrite,
}

impl NewFile {
    pub(crate) fn create(named: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| cannot_write(named, &error);
        let of = |to, whole, is_stdout| Self { to, named: named.to_owned(), whole, is_stdout, trouble: None };
        match Place::of(named)? {
            Place::Stdout => Ok(of(Box::new(std::io::stdout()), None, true)),
            Place::Stream(path) => {
                let stream = OpenOptions::new().write(true).open(path).map_err(cannot)?;
                Ok(of(Box::new(stream), None, false))
            }
            Place::File(place) => {
                refuse_existing(&place, named, overwrite)?;
                let Some(name) = place.file_name() else {
                    return Err(Failure::usage(format!("{} is no name for a file", named.display())));
                };
                let mut hidden = std::ffi::OsString::from(".");
                hidden.push(name);
                hidden.push(format!(".{}.part", std::process::id()));
                let making = place.with_file_name(hidden);
                let mut options = OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&making).map_err(cannot)?;
                let to = Box::new(file.try_clone().map_err(cannot)?);
                Ok(of(to, Some(Whole { file, making, place, overwrite }), false))
            }
        }
    }

    /// Whether it is stdout, where nothing else may go then.
    pub(crate) const fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    /// What went wrong with the output itself, where that is why something ended: no trouble of whatever was read.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        self.trouble.map(|kind| cannot_write(&self.named, &kind.into()))
    }

    /// Writes some of it.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write_all(bytes).map_err(|error| match self.trouble() {
            // Who stops reading, as in `rmax links export | head`, has what they wanted.
            Some(trouble) if error.kind() != std::io::ErrorKind::BrokenPipe => trouble,
            _ => error.into(),
        })
    }

    /// Puts it in its place.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| cannot_write(&self.named, &error);
        self.to.flush().map_err(cannot)?;
        let Some(whole) = &self.whole else { return Ok(()) };
        whole.file.sync_all().map_err(cannot)?;
        refuse_existing(&whole.place, &self.named, whole.overwrite)?;
        std::fs::rename(&whole.making, &whole.place).map_err(cannot)?;
        let folder = whole.place.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The name is only safe once its folder is on the disk; where a folder cannot be synced there is nothing more to do.
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.to.write(bytes).inspect_err(|error| self.trouble = Some(error.kind()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name any more.
        let _ = std::fs::remove_file(&self.making);
    }
}

/// What is there is kept unless somebody says otherwise; what is no file is never replaced.
fn refuse_existing(place: &Path, named: &Path, overwrite: Overwrite) -> Result<(), Failure> {
    match place.symlink_metadata() {
        Ok(_) if overwrite == Overwrite::Refuse => {
            Err(Failure::conflict(format!("{} exists already; nothing was written", named.display()))
                .hint("choose another name, or replace it with --force"))
        }
        Ok(there) if !there.is_file() => {
            Err(Failure::failed(format!("{} is no file; nothing was written", named.display())))
        }
        _ => Ok(()),
    }
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
