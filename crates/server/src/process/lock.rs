//! One server for a data folder: the lock it holds.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use super::error::ServeError;

/// The lock of the one server on a data folder.
pub const LOCK_FILE: &str = "serve.lock";

/// How often the lock is tried, and how far apart, before another server is reported.
const LOCK_ATTEMPTS: u32 = 10;

const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Takes the data folder for one server. The lock goes with the process, however it ends.
pub fn lock(data: &Path) -> Result<File, ServeError> {
    let cannot = |error: std::io::Error| {
        let message = format!("{}: {error}; choose a folder you may write with --data", data.display());
        ServeError::System(std::io::Error::new(error.kind(), message))
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(cannot)?;
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(data.join(LOCK_FILE))
        .map_err(cannot)?;
    // A command that stores what a dead server left has it for a moment.
    let mut locked = file.try_lock();
    for _ in 0..LOCK_ATTEMPTS {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
        locked = file.try_lock();
    }
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServeError::AlreadyRunning(format!(
            "another rmax serve is using {}; stop it, or choose another folder with --data",
            data.display()
        ))),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}
