//! A whole workspace as it was: what one command does after a stolen key or a bad import has changed many links.
//!
//! The log says what every link was. Only links that were changed since are looked at, page by page, and only those that differ are
//! written, each with an entry of its own and in commits that other writers fit between. Nothing is lost by it: going back to the moment
//! before undoes it. One that was cut off is continued by asking for it again, and the same moment still undoes all of it.

use std::collections::{HashMap, HashSet};

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Actor, FieldCode, FieldError, Link, LinkState, Scope, Target, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite, Written};
use tokio::task::JoinSet;

use super::change::MAX_CHANGE_ATTEMPTS;
use crate::safety::Verdict;
use crate::{Caller, Ops, OpsError, WriteMode};

/// Links put back by one commit or so.
const PAGE_SIZE: i64 = 256;
/// Differences that are kept to be shown.
const MAX_SHOWN_DIFFERENCES: usize = 20;

/// What was put back, or would be.
#[derive(Clone, Debug, Default)]
pub struct RollbackReport {
    /// Links that are what they were, their fields or state.
    pub changed: u64,
    /// Links that had been deleted since.
    pub restored: u64,
    /// Links that were not there then, and are deleted now.
    pub deleted: u64,
    /// Of these, links that led somewhere unsafe, and came back switched off.
    pub disabled: u64,
    /// The first differences, now and then.
    pub differences: Vec<LinkDiff>,
    /// Going back to this moment undoes it; nothing where there was nothing to do.
    pub undo: Option<Timestamp>,
    /// It was begun before and cut off: the counts are those of the rest.
    pub resumed: bool,
}

/// How a link is, and how it was.
#[derive(Clone, Debug)]
pub struct LinkDiff {
    pub now: Link,
    /// As it was; deleted where it was not there.
    pub then: Link,
}

impl RollbackReport {
    /// How many links differ.
    pub const fn links(&self) -> u64 {
        self.changed + self.restored + self.deleted
    }

    fn count(&mut self, step: &LinkRestore) {
        match step.action {
            Action::Delete => self.deleted += 1,
            Action::Restore => self.restored += 1,
            _ => self.changed += 1,
        }
        self.disabled += u64::from(step.unsafe_reason.is_some());
        if self.differences.len() < MAX_SHOWN_DIFFERENCES {
            self.differences.push(LinkDiff { now: step.now.clone(), then: step.next.clone() });
        }
    }
}

/// What is to be reached.
struct RollbackPoint {
    to: Timestamp,
    /// The last entry of the log by then.
    entry: i64,
    /// Whose links stay deleted, because they went with their accounts.
    deleted_accounts: HashSet<String>,
}

/// One link to be put back.
struct LinkRestore {
    now: Link,
    next: Link,
    action: Action,
    unsafe_reason: Option<String>,
}

impl Ops {
    /// Makes every link of a workspace what it was at a moment.
    pub async fn roll_back(
        &self,
        caller: &Caller,
        to: Timestamp,
        mode: WriteMode,
        mut progress: impl FnMut(u64),
    ) -> Result<RollbackReport, OpsError> {
        let workspace = &caller.workspace;
        caller.require(Scope::WorkspaceAdmin)?;
        let refuse = |code, message: &str| Err(FieldError::new("to", code, message).into());
        if to > self.clock.now() {
            return refuse(FieldCode::NotATime, "is still to come");
        }
        if to < workspace.created_at {
            return refuse(FieldCode::Past, "is before this workspace was made");
        }
        if let Some(list) = self.safety.blocklist() {
            // Better before the first change than half-way.
            list.get().await.map_err(OpsError::SafetyUnavailable)?;
        }
        let point = RollbackPoint {
            to,
            entry: self.store.entry_at(workspace.id, to).await?,
            deleted_accounts: self.deleted_accounts(workspace).await?,
        };
        let unfinished = self.store.unfinished_rollback(workspace.id).await?;
        let begun = unfinished.filter(|begun| begun.entry == point.entry);
        let mut report = RollbackReport {
            undo: begun.and_then(|begun| begun.undo).filter(|_| mode == WriteMode::Apply),
            resumed: begun.is_some(),
            ..RollbackReport::default()
        };
        let mut after = String::new();
        loop {
            let codes = self.store.codes_changed_since(workspace.id, point.entry, &after, PAGE_SIZE).await?;
            let Some(last) = codes.last().cloned() else { break };
            after = last;
            self.restore_page(caller, &point, codes, mode, &mut report).await?;
            progress(report.links());
        }
        if mode == WriteMode::Apply && report.undo.is_some() {
            let (actor, now) = (&caller.actor, self.clock.now());
            self.writer.record_rollback_end(workspace.id, point.entry, actor, now).await?;
        }
        Ok(report)
    }

    /// Where links are their owner's alone, they were deleted with the account, and no rollback brings back what somebody wanted gone.
    async fn deleted_accounts(&self, workspace: &Workspace) -> Result<HashSet<String>, OpsError> {
        let mut accounts = HashSet::new();
        if workspace.policy.visibility != Visibility::Owner {
            return Ok(accounts);
        }
        let mut after = None;
        loop {
            let users = self.store.deleted_users(workspace.id, after, PAGE_SIZE).await?;
            accounts.extend(users.iter().map(|(user, _)| Actor::from_user(*user).as_str().to_owned()));
            after = users.last().map(|(user, _)| *user);
            if after.is_none() {
                return Ok(accounts);
            }
        }
    }

    /// Puts some links back; those that somebody changes meanwhile again.
    async fn restore_page(
        &self,
        caller: &Caller,
        point: &RollbackPoint,
        mut codes: Vec<String>,
        mode: WriteMode,
        report: &mut RollbackReport,
    ) -> Result<(), OpsError> {
        let workspace = &caller.workspace;
        let mut then = self.store.links_at_entry(workspace.id, point.entry, &codes).await?;
        for link in then.values_mut().filter(|link| point.deleted_accounts.contains(link.created_by.as_str()))
        {
            link.state = LinkState::Deleted;
        }
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let steps = self.plan_restores(workspace, &then, &codes).await?;
            if steps.is_empty() {
                return Ok(());
            }
            if mode == WriteMode::DryRun {
                for step in &steps {
                    report.count(step);
                }
                return Ok(());
            }
            if report.undo.is_none() {
                let noted = self
                    .writer
                    .record_rollback(workspace.id, point.to, point.entry, &caller.actor, self.clock.now())
                    .await?;
                report.undo = Some(noted);
            }
            codes = self.write_restores(caller, point.to, steps, report).await?;
        }
        Err(StoreError::Conflict.into())
    }

    async fn plan_restores(
        &self,
        workspace: &Workspace,
        then: &HashMap<String, Link>,
        codes: &[String],
    ) -> Result<Vec<LinkRestore>, OpsError> {
        let mut steps = Vec::new();
        for (code, now) in self.store.links(workspace.id, codes).await? {
            steps.extend(plan_restore(now?, then.get(&code)));
        }
        let begins = |step: &&mut LinkRestore| {
            step.next.state == LinkState::Active
                && (step.now.state != LinkState::Active || step.now.target != step.next.target)
        };
        let mut leading: Vec<&mut LinkRestore> = steps.iter_mut().filter(begins).collect();
        let targets: Vec<Target> = leading.iter().map(|step| step.next.target.clone()).collect();
        let verdicts = self.safety.check_all(&targets.iter().collect::<Vec<_>>()).await;
        for (step, verdict) in leading.iter_mut().zip(verdicts) {
            // What nobody could be asked about was asked about when it was set.
            if let Verdict::Unsafe(reason) = verdict {
                step.next.state = LinkState::Disabled;
                step.unsafe_reason = Some(reason.to_string());
            }
        }
        steps.retain(|step| step.next != step.now);
        Ok(steps)
    }

    /// Writes some steps together. Gives the codes of those that have to be looked at again.
    async fn write_restores(
        &self,
        caller: &Caller,
        to: Timestamp,
        steps: Vec<LinkRestore>,
        report: &mut RollbackReport,
    ) -> Result<Vec<String>, OpsError> {
        let mut writing = JoinSet::new();
        for step in steps {
            let op = LinkOp::RollBack { next: Box::new(step.next.clone()), action: step.action };
            let reason = match &step.unsafe_reason {
                None => format!("rollback to {to}"),
                Some(why) => format!("rollback to {to}; unsafe target: {why}"),
            };
            let write = LinkWrite {
                reason: Some(reason),
                ..LinkWrite::new(step.now.workspace, caller.actor.clone(), self.clock.now(), op)
            };
            let writer = self.writer.clone();
            writing.spawn(async move { (writer.write(write).await, step) });
        }
        let mut again = Vec::new();
        while let Some(written) = writing.join_next().await {
            match written.map_err(|error| StoreError::Unavailable(error.to_string()))? {
                (Ok(Written::Changed(link)), step) => {
                    self.publish(&link);
                    report.count(&step);
                }
                (Ok(_), _) => {}
                (Err(StoreError::Conflict), step) => again.push(step.now.code.to_string()),
                (Err(error), _) => return Err(error.into()),
            }
        }
        Ok(again)
    }
}

/// What has to be done to a link, if anything.
fn plan_restore(now: Link, then: Option<&Link>) -> Option<LinkRestore> {
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
    Some(LinkRestore { now, next, action, unsafe_reason: None })
}
