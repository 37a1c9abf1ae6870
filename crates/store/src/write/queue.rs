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

use rlinks_core::id::Worker;
use rlinks_core::{Actor, Code, Id, Link, LinkDraft, LinkPatch, Source, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use crate::audit::chain::{LockedHead, NewEntry, append, lock_heads};
use crate::database::pool::Pool;
pub use crate::write::bulk::Prepared;
pub(crate) use crate::write::group::{Begun, Trouble, lease, next_id};
pub use crate::write::target_change_limit::Brake;
use crate::{Store, StoreError};

/// How many changes may wait. More wait outside, in their callers.
const QUEUE: usize = 4096;
/// The most changes in one commit: bounds how long a transaction lasts.
const GROUP: usize = 256;

/// One change of one link.
#[derive(Clone, Debug)]
pub struct LinkWrite {
    /// In which workspace.
    pub workspace: Id,
    /// By whom.
    pub actor: Actor,
    /// Whose a new link becomes: the actor's, or, where a member's key acts, the member's.
    pub owner: Actor,
    /// When.
    pub now: Timestamp,
    /// What.
    pub op: LinkOp,
    /// Once only, however often it is asked for.
    pub once: Option<Once>,
    /// How many targets they may change, where that is limited.
    pub brake: Option<Brake>,
    /// Why, in words for the audit entry: `reason` beside the fields of the link as it became.
    pub reason: Option<String>,
}

impl LinkWrite {
    /// A change by somebody whose a new link becomes, as often as it is asked for.
    pub fn new(workspace: Id, actor: Actor, now: Timestamp, op: LinkOp) -> Self {
        Self { workspace, owner: actor.clone(), actor, now, op, once: None, brake: None, reason: None }
    }
}

/// A request that may come again: the first answer is kept with the link, and given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Who chose the key: two programs may choose the same one.
    pub by: Actor,
    /// The key they chose.
    pub key: String,
    /// What was asked for, as a hash. The same key with another request is refused.
    pub request: String,
}

/// For how long a first answer is kept.
pub const ONCE_MS: i64 = 24 * 3_600_000;

/// What to do.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most changes are creations, and a group holds 256 at most")]
pub enum LinkOp {
    /// Make a link.
    Create {
        /// What it is to be.
        draft: LinkDraft,
        /// Under which code.
        code: CodeChoice,
        /// How it came.
        source: Source,
        /// What to do about what is there.
        existing: Existing,
    },
    /// Make a link what `next` says. `next.version` is the version the caller saw; another one is a conflict.
    Replace {
        /// The link as it should become.
        next: Box<Link>,
        /// What to call it in the audit log.
        action: Action,
    },
    /// Write a link that was made elsewhere, under its code and the id set aside for it. A taken code is refused.
    Import {
        /// The link as it was.
        link: Box<Link>,
        /// When it last changed, where that is kept; else it is now.
        updated: Option<Timestamp>,
    },
    /// Make a link what it was at some moment, who made it and when included: under its code there may be another one now.
    /// `next.version` is the version the caller saw; another one is a conflict. No quota stands in the way.
    RollBack {
        /// The link as it was.
        next: Box<Link>,
        /// What to call it in the audit log.
        action: Action,
    },
}

/// Which code a new link gets.
#[derive(Clone, Debug)]
pub enum CodeChoice {
    /// This one.
    Chosen(Code),
    /// The first of these that is free.
    Candidates(Vec<Code>),
    /// The link's id in base62.
    FromId,
}

/// What to do when what is asked for is there already.
#[derive(Clone, Debug)]
pub enum Existing {
    /// A taken code is refused.
    Refuse,
    /// A deleted link under this code makes room for a new one.
    Recreate,
    /// A generated link to the same page is handed back; one that no longer answers is revived with what was sent.
    Reuse {
        /// The form by which two targets are the same page.
        normalized: String,
        /// What was sent, for a link to be revived.
        sent: Box<LinkPatch>,
    },
}

/// What a change of a link is called in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `link.update`
    Update,
    /// `link.disable`
    Disable,
    /// `link.enable`
    Enable,
    /// `link.delete`
    Delete,
    /// `link.restore`
    Restore,
}

impl Action {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Update => "link.update",
            Self::Disable => "link.disable",
            Self::Enable => "link.enable",
            Self::Delete => "link.delete",
            Self::Restore => "link.restore",
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A new link.
    Created(Link),
    /// A changed one.
    Changed(Link),
    /// Nothing to change; nothing was written.
    Unchanged(Link),
    /// There already, and handed back as it is.
    Reused(Link),
    /// There already, and brought back to life.
    Revived(Link),
    /// Asked for before: what became of it then. Nothing was written.
    Again(Box<Written>),
}

impl Written {
    /// The link as it is now.
    pub fn link(&self) -> &Link {
        match self {
            Self::Created(link)
            | Self::Changed(link)
            | Self::Unchanged(link)
            | Self::Reused(link)
            | Self::Revived(link) => link,
            Self::Again(first) => first.link(),
        }
    }
}

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
    match crate::write::group::commit(pool, worker, writes, begun).await {
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
        match crate::write::group::commit(pool, worker, std::slice::from_ref(write), None).await {
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
