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
use crate::database::Clicks;

/// A watermark that is ours.
pub(super) enum Held {
    /// By a lock on a file.
    File(HeldFile),
    /// By a lock of this session, which is in no pool: there it would be kept for whoever comes next.
    Session(Box<PgConnection>),
}

/// A locked file. It has a name only while it is held.
pub(super) struct HeldFile {
    _file: File,
    path: PathBuf,
}

impl Clicks {
    /// Takes a watermark, or says that somebody has it.
    pub(super) async fn hold_watermark(&self, name: &str) -> Result<Held, ExportError> {
        match &self.pool {
            Pool::Sqlite { file, .. } => hold_file(file.path(), name).map(Held::File),
            Pool::Postgres(pool) => {
                let mut session = pool.acquire().await.map_err(trouble)?.detach();
                let sql = "select pg_try_advisory_lock(hashtextextended($1, 0))";
                let (held,): (bool,) = sqlx::query_as(sql)
                    .bind(format!("rlinks:{name}"))
                    .fetch_one(&mut session)
                    .await
                    .map_err(trouble)?;
                if held { Ok(Held::Session(Box::new(session))) } else { Err(ExportError::Busy) }
            }
        }
    }
}

impl Held {
    /// Lets go. Dropping does the same, some time later on a server.
    pub(super) async fn release(self) {
        match self {
            Self::File(file) => drop(file),
            // With the session goes its lock; one that is broken is gone already.
            Self::Session(session) => drop(session.close().await),
        }
    }
}

fn trouble(error: sqlx::Error) -> StoreError {
    StoreError::from(error).for_clicks()
}

fn hold_file(database: &Path, name: &str) -> Result<HeldFile, ExportError> {
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
            return Ok(HeldFile { _file: file, path });
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // Before the lock goes: whoever gets the lock of a file without a name looks again.
        let _ = std::fs::remove_file(&self.path);
    }
}
