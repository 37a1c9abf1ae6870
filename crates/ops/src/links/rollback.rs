//! A whole workspace as it was: what one command does after a stolen key or a bad import has changed many links.
//!
//! The log says what every link was. Only links that were changed since are looked at, page by page, and only those that differ are
//! written, each with an entry of its own and in commits that other writers fit between. Nothing is lost by it: going back to the moment
//! before undoes it.

use std::collections::{HashMap, HashSet};

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Actor, FieldCode, FieldError, Link, LinkState, Target, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite, Written};
use tokio::task::JoinSet;

use super::change::CHANGE_TRIES;
use crate::safety::Verdict;
use crate::{By, Mode, Ops, OpsError};

/// Links put back by one commit or so.
const PAGE: i64 = 256;
/// Differences that are kept to be shown.
const SHOWN: usize = 20;

/// What was put back, or would be.
#[derive(Clone, Debug, Default)]
pub struct RolledBack {
    /// Links that are what they were, their fields or state.
    pub changed: u64,
    /// Links that had been deleted since.
    pub restored: u64,
    /// Links that were not there then, and are deleted now.
    pub deleted: u64,
    /// Of these, links that led somewhere unsafe, and came back switched off.
    pub disabled: u64,
    /// The first differences, now and then.
    pub differences: Vec<Difference>,
    /// Going back to this moment undoes it; nothing where there was nothing to do.
    pub undo: Option<Timestamp>,
}

/// How a link is, and how it was.
#[derive(Clone, Debug)]
pub struct Difference {
    /// As it is.
    pub now: Link,
    /// As it was; deleted where it was not there.
    pub then: Link,
}

impl RolledBack {
    /// How many links differ.
    pub const fn links(&self) -> u64 {
        self.changed + self.restored + self.deleted
    }

    fn count(&mut self, step: &Step) {
        match step.action {
            Action::Delete => self.deleted += 1,
            Action::Restore => self.restored += 1,
            _ => self.changed += 1,
        }
        self.disabled += u64::from(step.unsafe_because.is_some());
        if self.differences.len() < SHOWN {
            self.differences.push(Difference { now: step.now.clone(), then: step.next.clone() });
        }
    }
}

/// What is to be reached.
struct Goal {
    to: Timestamp,
    /// The last entry of the log by then.
    entry: i64,
    /// Whose links stay deleted, because they went with their accounts.
    forgotten: HashSet<String>,
}

/// One link to be put back.
struct Step {
    now: Link,
    next: Link,
    action: Action,
    unsafe_because: Option<String>,
}

impl Ops {
    /// Makes every link of a workspace what it was at a moment.
    pub async fn roll_back(
        &self,
        by: &By,
        workspace: &Workspace,
        to: Timestamp,
        mode: Mode,
        mut progress: impl FnMut(u64),
    ) -> Result<RolledBack, OpsError> {
        let refuse = |code, message: &str| Err(FieldError::new("to", code, message).into());
        if to > self.clock.now() {
            return refuse(FieldCode::NotATime, "is still to come");
        }
        if to < workspace.created_at {
            return refuse(FieldCode::Past, "is before this workspace was made");
        }
        if let Some(list) = self.safety.list() {
            // Better before the first change than half-way.
            list.get().await.map_err(OpsError::Unchecked)?;
        }
        let goal = Goal {
            to,
            entry: self.store.entry_at(workspace.id, to).await?,
            forgotten: self.forgotten(workspace).await?,
        };
        let mut done = RolledBack::default();
        let mut after = String::new();
        loop {
            let codes = self.store.codes_changed_since(workspace.id, goal.entry, &after, PAGE).await?;
            let Some(last) = codes.last().cloned() else { return Ok(done) };
            after = last;
            self.put_back(by, workspace, &goal, codes, mode, &mut done).await?;
            progress(done.links());
        }
    }

    /// Where links are their owner's alone, they were deleted with the account, and no rollback brings back what somebody wanted gone.
    async fn forgotten(&self, workspace: &Workspace) -> Result<HashSet<String>, OpsError> {
        let mut forgotten = HashSet::new();
        if workspace.policy.visibility != Visibility::Owner {
            return Ok(forgotten);
        }
        let mut after = None;
        loop {
            let users = self.store.deleted_users(workspace.id, after, PAGE).await?;
            forgotten.extend(users.iter().map(|(user, _)| Actor::from_user(*user).as_str().to_owned()));
            after = users.last().map(|(user, _)| *user);
            if after.is_none() {
                return Ok(forgotten);
            }
        }
    }

    /// Puts some links back; those that somebody changes meanwhile again.
    async fn put_back(
        &self,
        by: &By,
        workspace: &Workspace,
        goal: &Goal,
        mut codes: Vec<String>,
        mode: Mode,
        done: &mut RolledBack,
    ) -> Result<(), OpsError> {
        let mut then = self.store.links_at_entry(workspace.id, goal.entry, &codes).await?;
        for link in then.values_mut().filter(|link| goal.forgotten.contains(link.created_by.as_str())) {
            link.state = LinkState::Deleted;
        }
        for _ in 0..CHANGE_TRIES {
            let steps = self.steps(workspace, &then, &codes).await?;
            if steps.is_empty() {
                return Ok(());
            }
            if mode == Mode::DryRun {
                for step in &steps {
                    done.count(step);
                }
                return Ok(());
            }
            if done.undo.is_none() {
                let noted = self
                    .store
                    .record_rollback(workspace.id, goal.to, goal.entry, &by.actor, self.clock.now())
                    .await?;
                done.undo = Some(noted);
            }
            codes = self.write_steps(by, goal.to, steps, done).await?;
        }
        Err(StoreError::Conflict.into())
    }

    async fn steps(
        &self,
        workspace: &Workspace,
        then: &HashMap<String, Link>,
        codes: &[String],
    ) -> Result<Vec<Step>, OpsError> {
        let mut steps = Vec::new();
        for (code, now) in self.store.links(workspace.id, codes).await? {
            steps.extend(step(now?, then.get(&code)));
        }
        let begins = |step: &&mut Step| {
            step.next.state == LinkState::Active
                && (step.now.state != LinkState::Active || step.now.target != step.next.target)
        };
        let mut leading: Vec<&mut Step> = steps.iter_mut().filter(begins).collect();
        let targets: Vec<Target> = leading.iter().map(|step| step.next.target.clone()).collect();
        let verdicts = self.safety.check_all(&targets.iter().collect::<Vec<_>>()).await;
        for (step, verdict) in leading.iter_mut().zip(verdicts) {
            // What nobody could be asked about was asked about when it was set.
            if let Verdict::Unsafe(reason) = verdict {
                step.next.state = LinkState::Disabled;
                step.unsafe_because = Some(reason.to_string());
            }
        }
        steps.retain(|step| step.next != step.now);
        Ok(steps)
    }

    /// Writes some steps together. Gives the codes of those that have to be looked at again.
    async fn write_steps(
        &self,
        by: &By,
        to: Timestamp,
        steps: Vec<Step>,
        done: &mut RolledBack,
    ) -> Result<Vec<String>, OpsError> {
        let mut writing = JoinSet::new();
        for step in steps {
            let op = LinkOp::RollBack { next: Box::new(step.next.clone()), action: step.action };
            let reason = match &step.unsafe_because {
                None => format!("rollback to {to}"),
                Some(why) => format!("rollback to {to}; unsafe target: {why}"),
            };
            let write = LinkWrite {
                reason: Some(reason),
                ..LinkWrite::new(step.now.workspace, by.actor.clone(), self.clock.now(), op)
            };
            let store = self.store.clone();
            writing.spawn(async move { (store.write(write).await, step) });
        }
        let mut again = Vec::new();
        while let Some(written) = writing.join_next().await {
            match written.map_err(|error| StoreError::Unavailable(error.to_string()))? {
                (Ok(Written::Changed(_)), step) => done.count(&step),
                (Ok(_), _) => {}
                (Err(StoreError::Conflict), step) => again.push(step.now.code.to_string()),
                (Err(error), _) => return Err(error.into()),
            }
        }
        Ok(again)
    }
}

/// What has to be done to a link, if anything.
fn step(now: Link, then: Option<&Link>) -> Option<Step> {
    let next = match then {
        Some(then) => Link { version: now.version, updated_at: now.updated_at, ..then.clone() },
        // A code once given out stays taken, so what was not there is deleted and not erased.
        None => Link { state: LinkState::Deleted, ..now.clone() },
    };
    if next == now {
        return None;
    }
    let only_state = Link { state: now.state, ..next.clone() } == now;
    let action = match (now.state, next.state) {
        (LinkState::Active | LinkState::Disabled, LinkState::Deleted) => Action::Delete,
        (LinkState::Deleted, LinkState::Active | LinkState::Disabled) => Action::Restore,
        (_, LinkState::Active) if only_state => Action::Enable,
        (_, LinkState::Disabled) if only_state => Action::Disable,
        _ => Action::Update,
    };
    Some(Step { now, next, action, unsafe_because: None })
}
