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
use rlinks_core::id::Worker;
use tokio::sync::{mpsc, oneshot, watch};

use crate::database::pool::Pool;
use crate::write::group::{self, Begun, Trouble};
use crate::write::link_write::{LinkWrite, Written};
use crate::{Store, StoreError};

/// How many changes may wait. More wait outside, in their callers.
const QUEUE: usize = 4096;
/// The most changes in one commit: bounds how long a transaction lasts.
const GROUP: usize = 256;

struct Job {
    write: LinkWrite,
    answer: oneshot::Sender<Result<Written, StoreError>>,
}

/// The end of the queue everybody writes to.
#[derive(Clone)]
pub(crate) struct Writer(mpsc::Sender<Job>);

impl Writer {
    pub(crate) fn start(pool: Pool, worker: Worker, committed: Arc<watch::Sender<u64>>) -> Self {
        let (send, mut queue) = mpsc::channel::<Job>(QUEUE);
        tokio::spawn(async move {
            let mut jobs = Vec::with_capacity(GROUP);
            while queue.recv_many(&mut jobs, GROUP).await > 0 {
                commit_all(&pool, worker, std::mem::take(&mut jobs)).await;
                committed.send_modify(|count| *count += 1);
            }
        });
        Self(send)
    }
}

/// One commit for all; where that fails, each by itself, so that one member's trouble is not the others'.
async fn commit_all(pool: &Pool, worker: Worker, jobs: Vec<Job>) {
    let (writes, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.write, job.answer)).unzip();
    let results = commit_many(pool, worker, &writes, None).await;
    for (answer, result) in answers.into_iter().zip(results) {
        // A caller that no longer waits has its change all the same; there is nobody to tell.
        let _ = answer.send(result);
    }
}

pub(crate) async fn commit_many(
    pool: &Pool,
    worker: Worker,
    writes: &[LinkWrite],
    begun: Option<Begun>,
) -> Vec<Result<Written, StoreError>> {
    match group::commit(pool, worker, writes, begun).await {
        Ok(results) => results,
        Err(Trouble::Everybody(error)) => writes.iter().map(|_| Err(again(&error))).collect(),
        Err(Trouble::Workspace(error) | Trouble::Member(error)) if writes.len() == 1 => vec![Err(error)],
        Err(Trouble::Workspace(error) | Trouble::Member(error)) => {
            tracing::debug!(%error, members = writes.len(), "a group of changes is repeated one by one");
            commit_singly(pool, worker, writes).await
        }
    }
}

async fn commit_singly(
    pool: &Pool,
    worker: Worker,
    writes: &[LinkWrite],
) -> Vec<Result<Written, StoreError>> {
    let mut results = Vec::with_capacity(writes.len());
    let mut stuck: HashMap<Id, StoreError> = HashMap::new();
    for (at, write) in writes.iter().enumerate() {
        if let Some(error) = stuck.get(&write.workspace) {
            results.push(Err(again(error)));
            continue;
        }
        match group::commit(pool, worker, std::slice::from_ref(write), None).await {
            Ok(mut one) => results.push(one.pop().unwrap_or(Err(StoreError::Conflict))),
            Err(Trouble::Everybody(error)) => {
                results.extend(writes[at..].iter().map(|_| Err(again(&error))));
                break;
            }
            Err(Trouble::Workspace(error)) => {
                results.push(Err(again(&error)));
                stuck.insert(write.workspace, error);
            }
            Err(Trouble::Member(error)) => results.push(Err(error)),
        }
    }
    results
}

/// The same trouble, told to one more.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Refused(what) => StoreError::Refused(what.clone()),
        StoreError::Unreadable(what) => StoreError::Unreadable(what.clone()),
        StoreError::Unavailable(what) => StoreError::Unavailable(what.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

impl Store {
    /// Makes several changes, each as if those before it were made already, and together with whoever else waits. What became of each,
    /// in their order.
    pub async fn write_in_order(&self, writes: Vec<LinkWrite>) -> Vec<Result<Written, StoreError>> {
        let stopped = || StoreError::Unavailable("the writer has stopped".to_owned());
        let mut waiting = Vec::with_capacity(writes.len());
        for write in writes {
            let (answer, result) = oneshot::channel();
            // One that cannot be queued drops its answer, which says so below.
            let _ = self.writer.0.send(Job { write, answer }).await;
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
        self.writer.0.send(Job { write, answer }).await.map_err(|_| stopped())?;
        result.await.map_err(|_| stopped())?
    }
}
