//! Links that lead somewhere that has become unsafe since: found once a day and after the block list was replaced, and switched off.
//!
//! A link is disabled, never deleted: its owner can have it back once the target is safe again, or with another target. The audit entry
//! is the system's and says why.

use std::collections::HashSet;
use std::time::Duration;

use rlinks_core::{Actor, Code, Id, Link, LinkState, Target, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite, Written};
use tokio::task::JoinSet;

use super::{UnsafeReason, Verdict};
use crate::{Ops, OpsError, WriteMode};

/// Links looked at together.
const PAGE_SIZE: i64 = 256;
/// Questions to Google in one run. A large installation is gone through in several days rather than through its quota.
const MAX_QUERIES: u64 = 2000;
/// Where the next run goes on with asking Google.
const JOB_CURSOR_NAME: &str = "safety.recheck";
/// How often the file of the list is looked at.
const BLOCKLIST_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A link that leads somewhere unsafe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeLink {
    pub workspace: Id,
    pub code: Code,
    pub reason: UnsafeReason,
}

/// A run about to be done.
pub struct Recheck<'a> {
    pub ops: &'a Ops,
    /// About these; deleted ones are left alone.
    pub workspaces: &'a [Workspace],
    /// Switch off, or only say what would be.
    pub mode: WriteMode,
}

/// Who is asked about a page of links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckScope {
    /// The block list: it costs nothing, so every link is looked at in every run.
    BlocklistOnly,
    /// Both, within a bound of questions.
    AllSources,
}

impl Recheck<'_> {
    /// Everything a run does. Gives what was, or would be, switched off.
    pub async fn run(&self, now: Timestamp) -> Result<Vec<UnsafeLink>, OpsError> {
        let mut found = self.run_blocklist(now).await?;
        let Some(google) = &self.ops.safety.safe_browsing else { return Ok(found) };
        let began = google.requests_sent();
        let mut after = self.ops.store.job_cursor(JOB_CURSOR_NAME).await?.unwrap_or(FIRST_ID);
        loop {
            let (page, next) = self.ops.store.links_by_id(after, PAGE_SIZE).await?;
            let left = MAX_QUERIES.saturating_sub(google.requests_sent() - began);
            let links = self.redirecting_links(page, now);
            let (some, all_known) = self.check_page(links, CheckScope::AllSources, left, now).await?;
            found.extend(some);
            // What could not be asked is where the next run begins.
            if all_known {
                after = next.unwrap_or(FIRST_ID);
            }
            if self.mode == WriteMode::Apply {
                self.ops.writer.set_job_cursor(JOB_CURSOR_NAME, after).await?;
            }
            if next.is_none() || !all_known {
                break;
            }
        }
        let mut seen = HashSet::new();
        found.retain(|link| seen.insert((link.workspace.as_i64(), link.code.as_str().to_owned())));
        Ok(found)
    }

    /// The part that asks the block list alone.
    pub async fn run_blocklist(&self, now: Timestamp) -> Result<Vec<UnsafeLink>, OpsError> {
        let mut found = Vec::new();
        if self.ops.safety.blocklist.is_none() {
            return Ok(found);
        }
        let mut after = Some(FIRST_ID);
        while let Some(from) = after {
            let (page, next) = self.ops.store.links_by_id(from, PAGE_SIZE).await?;
            after = next;
            found.extend(
                self.check_page(self.redirecting_links(page, now), CheckScope::BlocklistOnly, 0, now)
                    .await?
                    .0,
            );
        }
        Ok(found)
    }

    /// The links of a page that lead anywhere.
    fn redirecting_links(&self, page: Vec<Link>, now: Timestamp) -> Vec<Link> {
        let ours = |link: &Link| {
            self.workspaces.iter().any(|space| space.id == link.workspace && space.deleted_at.is_none())
        };
        let leads = |link: &Link| link.state == LinkState::Active && !link.is_expired(now);
        page.into_iter().filter(|link| leads(link) && ours(link)).collect()
    }

    /// Asks about some links and switches off what is unsafe. Gives those, and whether something is known of all.
    async fn check_page(
        &self,
        links: Vec<Link>,
        scope: CheckScope,
        questions: u64,
        now: Timestamp,
    ) -> Result<(Vec<UnsafeLink>, bool), OpsError> {
        let targets: Vec<&Target> = links.iter().map(|link| &link.target).collect();
        let verdicts = match scope {
            CheckScope::BlocklistOnly => self.ops.safety.check_blocklist(&targets).await,
            CheckScope::AllSources => {
                let most = usize::try_from(questions).unwrap_or(usize::MAX);
                self.ops.safety.check_limited(&targets, most).await
            }
        };
        let all_known = !verdicts.iter().any(|verdict| matches!(verdict, Verdict::Unknown(_)));
        let mut bad = Vec::new();
        for (link, verdict) in links.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Unsafe(reason) => bad.push((link, reason)),
                Verdict::BlocklistUnreadable(why) => return Err(OpsError::SafetyUnavailable(why)),
                Verdict::Safe | Verdict::Unknown(_) => {}
            }
        }
        let found = match self.mode {
            WriteMode::DryRun => bad.into_iter().map(|(link, reason)| unsafe_link(&link, reason)).collect(),
            WriteMode::Apply => self.ops.disable_unsafe(bad, now).await?,
        };
        Ok((found, all_known))
    }
}

const FIRST_ID: Id = Id::from_i64(0);

fn unsafe_link(link: &Link, reason: UnsafeReason) -> UnsafeLink {
    UnsafeLink { workspace: link.workspace, code: link.code.clone(), reason }
}

impl Ops {
    /// Switches links off together, so that they share a commit. Gives those that are off now.
    async fn disable_unsafe(
        &self,
        links: Vec<(Link, UnsafeReason)>,
        now: Timestamp,
    ) -> Result<Vec<UnsafeLink>, StoreError> {
        let mut writing = JoinSet::new();
        for (link, reason) in links {
            let found = unsafe_link(&link, reason);
            let workspace = link.workspace;
            let next = Box::new(Link { state: LinkState::Disabled, ..link });
            let op = LinkOp::Replace { next, action: Action::Disable };
            let why = format!("unsafe target: {}", found.reason);
            let write =
                LinkWrite { reason: Some(why), ..LinkWrite::new(workspace, Actor::system(), now, op) };
            let writer = self.writer.clone();
            writing.spawn(async move { (writer.write(write).await, found) });
        }
        let mut disabled = Vec::new();
        while let Some(written) = writing.join_next().await {
            match written.map_err(|error| StoreError::Unavailable(error.to_string()))? {
                (Ok(Written::Changed(link)), found) => {
                    self.publish(&link);
                    let source = found.reason.source;
                    tracing::info!(workspace = %found.workspace, code = %found.code, ?source, "a link that leads somewhere unsafe was switched off");
                    disabled.push(found);
                }
                // Somebody was faster. The next run looks at what they made of it.
                (Ok(_) | Err(StoreError::Conflict | StoreError::NotFound(_)), _) => {}
                (Err(error), _) => return Err(error),
            }
        }
        Ok(disabled)
    }
}

impl Ops {
    /// Looks after the block list until the task is dropped: reads the file again when it was replaced, and switches off links that are
    /// on it then. Also at the beginning, for what was added to it while no server ran.
    pub async fn poll_blocklist(self) {
        let Some(list) = self.safety.blocklist() else { return };
        self.apply_blocklist().await;
        loop {
            tokio::time::sleep(BLOCKLIST_POLL_INTERVAL).await;
            if list.has_changed() {
                self.reload_blocklist().await;
            }
        }
    }

    /// Reads the block list again. What cannot be read leaves the old one in force.
    pub async fn reload_blocklist(&self) {
        let Some(list) = self.safety.blocklist() else { return };
        match list.read().await {
            Ok(fresh) => {
                list.report(&fresh);
                self.apply_blocklist().await;
            }
            Err(error) => tracing::error!(error, "the old block list stays in force"),
        }
    }

    async fn apply_blocklist(&self) {
        let work = async {
            let workspaces = self.store.workspaces().await?;
            let recheck = Recheck { ops: self, workspaces: &workspaces, mode: WriteMode::Apply };
            recheck.run_blocklist(self.clock.now()).await
        };
        if let Err(error) = work.await {
            tracing::warn!(%error, "links on the block list are looked for again by the daily job");
        }
    }
}
