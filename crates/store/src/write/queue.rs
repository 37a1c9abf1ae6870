//! Changing links: one queue, and groups that share a commit.
//!
//! A commit waits for the disk; writers that wait at the same time wait together. A small task takes whatever is queued, runs
//! it as one transaction with a fixed number of statements, and answers everybody after the one commit. No timer: an idle
//! store commits a single change at once.
//!
//! Every change of a workspace holds its head row's lock. Between loading and writing nobody else can change anything, so
//! a group is worked out in memory (`write/apply.rs` is pure), and uniqueness is still the database's word.

use std::collections::HashMap;
use std::sync::Arc;

use rlinks_core::Id;
use rlinks_core::id::WorkerId;
use tokio::sync::{mpsc, oneshot, watch};

use crate::database::pool::Pool;
use crate::write::group::{self, CommitError, PreparedTx};
use crate::write::link_write::{LinkWrite, Written};
use crate::{StoreError, StoreWriter};

/// How many changes may wait. More wait outside, in their callers.
const QUEUE_CAPACITY: usize = 4096;
/// The most changes in one commit: bounds how long a transaction lasts.
const MAX_GROUP_WRITES: usize = 256;

struct QueuedWrite {
    write: LinkWrite,
    answer: oneshot::Sender<Result<Written, StoreError>>,
}

/// The end of the queue everybody writes to.
#[derive(Clone)]
pub(crate) struct WriteQueue(mpsc::Sender<QueuedWrite>);

impl WriteQueue {
    pub(crate) fn start(pool: Pool, worker: WorkerId, committed: Arc<watch::Sender<u64>>) -> Self {
        let (send, mut queue) = mpsc::channel::<QueuedWrite>(QUEUE_CAPACITY);
        tokio::spawn(async move {
            let mut jobs = Vec::with_capacity(MAX_GROUP_WRITES);
            while queue.recv_many(&mut jobs, MAX_GROUP_WRITES).await > 0 {
                commit_all(&pool, worker, std::mem::take(&mut jobs)).await;
                committed.send_modify(|count| *count += 1);
            }
        });
        Self(send)
    }
}

/// One commit for all; where that fails, each by itself, so that one member's trouble is not the others'.
async fn commit_all(pool: &Pool, worker: WorkerId, jobs: Vec<QueuedWrite>) {
    let (writes, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.write, job.answer)).unzip();
    let results = commit_many(pool, worker, &writes, None).await;
    for (answer, result) in answers.into_iter().zip(results) {
        // A caller that no longer waits has its change all the same; there is nobody to tell.
        let _ = answer.send(result);
    }
}

pub(crate) async fn commit_many(
    pool: &Pool,
    worker: WorkerId,
    writes: &[LinkWrite],
    prepared_tx: Option<PreparedTx>,
) -> Vec<Result<Written, StoreError>> {
    match group::commit(pool, worker, writes, prepared_tx).await {
        Ok(results) => results,
        Err(CommitError::Database(error)) => writes.iter().map(|_| Err(clone_error(&error))).collect(),
        Err(CommitError::Workspace(error) | CommitError::Write(error)) if writes.len() == 1 => {
            vec![Err(error)]
        }
        Err(CommitError::Workspace(error) | CommitError::Write(error)) => {
            tracing::debug!(%error, members = writes.len(), "a group of changes is repeated one by one");
            commit_one_by_one(pool, worker, writes).await
        }
    }
}

async fn commit_one_by_one(
    pool: &Pool,
    worker: WorkerId,
    writes: &[LinkWrite],
) -> Vec<Result<Written, StoreError>> {
    let mut results = Vec::with_capacity(writes.len());
    let mut stuck: HashMap<Id, StoreError> = HashMap::new();
    for (at, write) in writes.iter().enumerate() {
        if let Some(error) = stuck.get(&write.workspace) {
            results.push(Err(clone_error(error)));
            continue;
        }
        match group::commit(pool, worker, std::slice::from_ref(write), None).await {
            Ok(mut one) => results.push(one.pop().unwrap_or(Err(StoreError::Conflict))),
            Err(CommitError::Database(error)) => {
                results.extend(writes[at..].iter().map(|_| Err(clone_error(&error))));
                break;
            }
            Err(CommitError::Workspace(error)) => {
                results.push(Err(clone_error(&error)));
                stuck.insert(write.workspace, error);
            }
            Err(CommitError::Write(error)) => results.push(Err(error)),
        }
    }
    results
}

/// The same trouble, told to one more.
fn clone_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Refused(what) => StoreError::Refused(what.clone()),
        StoreError::Unreadable(what) => StoreError::Unreadable(what.clone()),
        StoreError::Unavailable(what) => StoreError::Unavailable(what.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

impl StoreWriter {
    /// Makes several changes, each as if those before it were made already, and together with whoever else waits. What became of each,
    /// in their order.
    pub async fn write_in_order(&self, writes: Vec<LinkWrite>) -> Vec<Result<Written, StoreError>> {
        let stopped = || StoreError::Unavailable("the writer has stopped".to_owned());
        let mut waiting = Vec::with_capacity(writes.len());
        for write in writes {
            let (answer, result) = oneshot::channel();
            // One that cannot be queued drops its answer, which says so below.
            let _ = self.queue.0.send(QueuedWrite { write, answer }).await;
            waiting.push(result);
        }
        let mut results = Vec::with_capacity(waiting.len());
        for result in waiting {
            results.push(result.await.unwrap_or_else(|_| Err(stopped())));
        }
        results
    }

    /// Makes one change and returns once it is on the disk, together with its audit entry.
    pub async fn write(&self, write: LinkWrite) -> Result<Written, StoreError> {
        let (answer, result) = oneshot::channel();
        let stopped = || StoreError::Unavailable("the writer has stopped".to_owned());
        self.queue.0.send(QueuedWrite { write, answer }).await.map_err(|_| stopped())?;
        result.await.map_err(|_| stopped())?
    }
}
