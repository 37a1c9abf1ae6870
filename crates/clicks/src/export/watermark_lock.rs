//! Who goes by a watermark: one export at a time, or two would write the same clicks.
//!
//! Beside a file it is a lock on a file of its own, on a server a lock of a session. Either goes with whoever had it, however that
//! ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rlinks_store::StoreError;
use rlinks_store::database::pool::Pool;
use sqlx::{Connection as _, PgConnection};

use super::ExportError;
use crate::database::ClickStore;

/// A watermark that is ours.
pub(super) enum WatermarkLock {
    /// By a lock on a file.
    File(FileLock),
    /// By a lock of this session, which is in no pool: there it would be kept for whoever comes next.
    Session(Box<PgConnection>),
}

/// A locked file. It has a name only while it is held.
pub(super) struct FileLock {
    _file: File,
    path: PathBuf,
}

impl ClickStore {
    /// Takes a watermark, or says that somebody has it.
    pub(super) async fn lock_watermark(&self, name: &str) -> Result<WatermarkLock, ExportError> {
        match &self.pool {
            Pool::Sqlite { file, .. } => lock_file(file.path(), name).map(WatermarkLock::File),
            Pool::Postgres(pool) => {
                let mut session = pool.acquire().await.map_err(session_error)?.detach();
                let sql = "select pg_try_advisory_lock(hashtextextended($1, 0))";
                let (held,): (bool,) = sqlx::query_as(sql)
                    .bind(format!("rlinks:{name}"))
                    .fetch_one(&mut session)
                    .await
                    .map_err(session_error)?;
                if held { Ok(WatermarkLock::Session(Box::new(session))) } else { Err(ExportError::Busy) }
            }
        }
    }
}

impl WatermarkLock {
    /// Lets go. Dropping does the same, some time later on a server.
    pub(super) async fn release(self) {
        match self {
            Self::File(file) => drop(file),
            // With the session goes its lock; one that is broken is gone already.
            Self::Session(session) => drop(session.close().await),
        }
    }
}

fn session_error(error: sqlx::Error) -> StoreError {
    StoreError::from(error).for_clicks()
}

fn lock_file(database: &Path, name: &str) -> Result<FileLock, ExportError> {
    let mut named = database.file_name().unwrap_or_default().to_owned();
    named.push(format!(".{}.lock", name.replace(':', "-")));
    let path = database.with_file_name(named);
    let cannot = |error: std::io::Error| ExportError::Failed(format!("{}: {error}", path.display()));
    loop {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ExportError::Busy),
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let ours = file.metadata().map_err(cannot)?.ino();
        // Whoever had it may have taken its name away between our opening and our locking.
        if std::fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
            return Ok(FileLock { _file: file, path });
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Before the lock goes: whoever gets the lock of a file without a name looks again.
        let _ = std::fs::remove_file(&self.path);
    }
}
