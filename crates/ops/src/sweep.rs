//! The daily job: expired links are purged where the policy says so, keys go 30 days after their end, and clicks when the policy keeps
//! them no longer; links that lead somewhere unsafe are switched off; deletions of accounts that were cut off are finished; hosts are looked
//! at.
//!
//! What is purged or pruned is decided here once, for the command line and for the server's own clock. Nothing of a workspace is
//! pruned before what is about to go is in the archive, where there is one.

use rlinks_clicks::ClickStore;
use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::export::{Destination, ExportError, ExportRequest, Format, OpenDestination};
use rlinks_clicks::retention::{Kept, Prunable, PruneMode, Pruned};
use rlinks_core::time::DAY_MS;
use rlinks_core::workspace::policy::{ExpiredLinks, Visibility};
use rlinks_core::{Actor, Id, Link, LinkState, Policy, Preset, Slug, Timestamp, Workspace};
use rlinks_store::database::atomic_file::Overwrite;
use rlinks_store::write::{Action, LinkOp, LinkWrite, Written};
use rlinks_store::{LinkFilter, ListPosition, SortBy, StoreError};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::domain_checks::run::{CheckRun, CheckedDomain, RegistryChecks};
use crate::safety::UnsafeReason;
use crate::safety::recheck::{Recheck, UnsafeLink};
use crate::{Ops, OpsError, WriteMode};

/// Links purged by one commit or so.
const PAGE_SIZE: i64 = 256;
/// How long a key that is over stays in the list.
const EXPIRED_KEY_RETENTION_MS: i64 = 30 * DAY_MS;
/// Links switched off that are named.
const MAX_NAMED_LINKS: usize = 20;
/// Days for which `platform` keeps what clicks add up to by day.
const PLATFORM_DAILY_DAYS: u32 = 365;

/// A job about to be done.
pub struct Sweep<'a> {
    pub ops: &'a Ops,
    /// The store's clicks, opened on the same runtime.
    pub clicks: &'a ClickStore,
    /// About these, deleted ones too: what a policy promises to forget is forgotten all the same.
    pub workspaces: &'a [Workspace],
    /// Where raw clicks go before they are pruned; made by [`open_archive`].
    pub archive: Option<&'a OpenDestination>,
    /// Do it, or only say what would be done.
    pub mode: WriteMode,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// By workspace; those of which nothing went are left out.
    pub workspaces: Vec<SweptWorkspace>,
    /// Of all workspaces together.
    pub pruned: PrunedRows,
    /// Hosts of which something is new.
    pub domains: Vec<CheckedDomain>,
    /// What could not be asked about hosts.
    #[serde(rename = "unasked")]
    pub domain_check_errors: Vec<String>,
    /// Why targets were not checked, where they were not.
    #[serde(rename = "unchecked")]
    pub safety_error: Option<String>,
}

/// What went of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweptWorkspace {
    pub workspace: Slug,
    /// Links that were over.
    pub purged_links: u64,
    /// Links that accounts left behind whose deletion was cut off, where links are their owner's alone.
    pub left_links: u64,
    /// Keys that were over for 30 days.
    pub purged_keys: u64,
    /// Links that led somewhere unsafe and are switched off.
    pub disabled_links: u64,
    /// The first of them.
    pub unsafe_links: Vec<DisabledLink>,
    pub pruned_clicks: u64,
    /// The files they are in now.
    pub archived: Vec<String>,
    /// Why its clicks stayed, where they should have gone.
    pub kept_because: Option<String>,
}

/// A link that led somewhere unsafe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DisabledLink {
    pub code: String,
    #[serde(flatten)]
    pub reason: UnsafeReason,
}

/// What went beside raw clicks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrunedRows {
    pub clicks: u64,
    pub days: u64,
    pub hours: u64,
    /// Keys of visitors of days that are over.
    pub visitors: u64,
}

impl From<Pruned> for PrunedRows {
    fn from(pruned: Pruned) -> Self {
        Self { clicks: pruned.clicks, days: pruned.days, hours: pruned.hours, visitors: pruned.seen }
    }
}

/// How long a policy keeps clicks.
pub const fn click_retention(policy: &Policy) -> Kept {
    Kept {
        raw_days: policy.retention_days,
        daily_days: match policy.preset {
            Preset::Platform => Some(PLATFORM_DAILY_DAYS),
            Preset::Fabric | Preset::Edge | Preset::Team => None,
        },
    }
}

/// The archive somebody configured: a folder, be it written with a slash at its end or not. `options` are the usual `AWS_`
/// variables.
pub fn open_archive(text: &str, options: &[(String, String)]) -> Result<OpenDestination, ExportError> {
    let folder = if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
    match Destination::parse(text)? {
        Destination::Stdout => Err(ExportError::InvalidDestination(
            "an archive is a folder or s3://bucket/prefix/, and not stdout".to_owned(),
        )),
        Destination::Path(_) | Destination::Bucket { .. } => Destination::parse(&folder)?.open(options),
    }
}

impl Sweep<'_> {
    /// Everything the job does.
    pub async fn run(&self, now: Timestamp) -> Result<SweepReport, OpsError> {
        let purged = self.purge(now).await?;
        let keys = self.purge_keys(now).await?;
        let left = self.ops.finish_deletions(self.workspaces, self.mode, now).await?;
        let mut report = self.prune(now, |_| ()).await?;
        for (slug, links) in left {
            report.entry(&slug).left_links = links;
        }
        for (slug, links) in purged.into_iter().filter(|(_, links)| *links > 0) {
            report.entry(&slug).purged_links = links;
        }
        for (slug, keys) in keys.into_iter().filter(|(_, keys)| *keys > 0) {
            report.entry(&slug).purged_keys = keys;
        }
        let unsafe_links = match self.recheck(now).await {
            // Who cannot be asked is asked tomorrow, and the rest of the job is done.
            Err(OpsError::SafetyUnavailable(why)) => {
                report.safety_error = Some(why);
                Vec::new()
            }
            found => found?,
        };
        for link in unsafe_links {
            if let Some(workspace) = self.workspaces.iter().find(|workspace| workspace.id == link.workspace) {
                report.entry(&workspace.slug).push_unsafe_link(link);
            }
        }
        let Self { ops, workspaces, mode, .. } = *self;
        let checks = CheckRun { ops, workspaces, only: None, registry_checks: RegistryChecks::WhenDue, mode };
        let found = checks.run(now).await?;
        (report.domains, report.domain_check_errors) = (found.changed().cloned().collect(), found.failures());
        if self.mode == WriteMode::Apply {
            self.ops.writer.purge_change_counts(now).await?;
            self.ops.purge_limit_uses().await?;
            while self.ops.writer.purge_idempotency_keys(now, PAGE_SIZE).await? > 0 {}
            self.ops.writer.purge_invites(now).await?;
            self.ops.writer.purge_sessions(now).await?;
        }
        Ok(report)
    }

    /// Switches off links that lead somewhere unsafe.
    async fn recheck(&self, now: Timestamp) -> Result<Vec<UnsafeLink>, OpsError> {
        let Self { ops, workspaces, mode, .. } = *self;
        Recheck { ops, workspaces, mode }.run(now).await
    }

    /// Drops keys that have been over for a while.
    async fn purge_keys(&self, now: Timestamp) -> Result<Vec<(Slug, u64)>, OpsError> {
        let before = now.plus_ms(-EXPIRED_KEY_RETENTION_MS);
        let mut purged = Vec::new();
        for workspace in self.workspaces {
            let keys = match self.mode {
                WriteMode::DryRun => self.ops.store.count_purgeable_keys(workspace.id, before).await?,
                WriteMode::Apply => {
                    let mut keys = 0;
                    loop {
                        let some = self
                            .ops
                            .writer
                            .purge_keys(workspace.id, before, PAGE_SIZE, &Actor::system(), now)
                            .await?;
                        keys += some;
                        if some < PAGE_SIZE.unsigned_abs() {
                            break keys;
                        }
                    }
                }
            };
            purged.push((workspace.slug.clone(), keys));
        }
        Ok(purged)
    }

    /// Deletes links that are over, where the policy says so. Their codes stay taken.
    pub async fn purge(&self, now: Timestamp) -> Result<Vec<(Slug, u64)>, OpsError> {
        let mut purged = Vec::new();
        for workspace in self.workspaces {
            if workspace.deleted_at.is_some() {
                continue;
            }
            if workspace.policy.sweep == ExpiredLinks::PurgeDaily {
                purged.push((workspace.slug.clone(), self.purge_expired(workspace, now).await?));
            }
        }
        Ok(purged)
    }

    async fn purge_expired(&self, workspace: &Workspace, now: Timestamp) -> Result<u64, OpsError> {
        let (mut links, mut after) = (0, None);
        loop {
            let (over, next) = self.ops.store.expired_links(workspace.id, now, after, PAGE_SIZE).await?;
            links += match self.mode {
                WriteMode::DryRun => over.len() as u64,
                WriteMode::Apply => self.ops.delete_together(over, &Actor::system(), now).await?.len() as u64,
            };
            after = next;
            if after.is_none() {
                return Ok(links);
            }
        }
    }

    /// Applies retention: to the archive first, then away.
    pub async fn prune(
        &self,
        now: Timestamp,
        mut progress: impl FnMut(u64),
    ) -> Result<SweepReport, OpsError> {
        // Taken first: a click that turns up after it was looked for stays until the next time.
        let upto = self.clicks.last_event().await.map_err(StoreError::for_clicks)?;
        let mut report = SweepReport::default();
        let mut due = Vec::new();
        for workspace in self.workspaces {
            let kept = click_retention(&workspace.policy);
            if let Some(prunable) =
                self.clicks.prunable(workspace.id, kept, upto, now).await.map_err(StoreError::for_clicks)?
            {
                let archived = match (self.archive, self.mode) {
                    (Some(target), WriteMode::Apply) => {
                        self.archive_clicks(workspace, target, &prunable, now, &mut progress).await
                    }
                    _ => Ok(Vec::new()),
                };
                let entry = report.entry(&workspace.slug);
                match archived {
                    Ok(parts) => (entry.pruned_clicks, entry.archived) = (prunable.clicks, parts),
                    Err(error) => {
                        entry.kept_because = Some(error.to_string());
                        continue;
                    }
                }
            }
            due.push((workspace.id, kept));
        }
        let mode = match self.mode {
            WriteMode::Apply => PruneMode::Delete,
            WriteMode::DryRun => PruneMode::DryRun,
        };
        report.pruned =
            self.clicks.prune(&due, upto, now, mode).await.map_err(StoreError::for_clicks)?.into();
        Ok(report)
    }

    /// Copies what is about to go.
    ///
    /// The name of the copy tells what is in it: before which day, up to which number, and how many. A job that was cut off
    /// between copying and deleting finds the same and writes the same file; one that was cut off while deleting finds less and writes
    /// another.
    async fn archive_clicks(
        &self,
        workspace: &Workspace,
        destination: &OpenDestination,
        prunable: &Prunable,
        now: Timestamp,
        progress: &mut impl FnMut(u64),
    ) -> Result<Vec<String>, ExportError> {
        let (before, upto, clicks) = (prunable.during.end.day(), prunable.upto, prunable.clicks);
        let stem = format!("archive-{}-{before}-{upto}-{clicks}", workspace.slug);
        let request = ExportRequest {
            filter: EventFilter { workspace: workspace.id, link: None, during: prunable.during.clone() },
            format: Format::Parquet,
            overwrite: Overwrite::Replace,
            watermark: None,
            stem: &stem,
            upto: Some(upto),
        };
        let mut codes = Codes::new(self.ops.store.clone());
        let exported = self.clicks.export(&mut codes, destination, &request, now, progress).await?;
        if exported.clicks != clicks {
            return Err(ExportError::Failed(format!(
                "{clicks} clicks are due and {} were archived; they stay until the next time",
                exported.clicks
            )));
        }
        Ok(exported.parts)
    }
}

impl Ops {
    /// Deletes the links of accounts that were deleted, where that was cut off half-way: of workspaces in which links are their owner's
    /// alone. A link that somebody changed after the account was gone is theirs to keep. Gives the workspaces in which something was left.
    pub async fn finish_deletions(
        &self,
        workspaces: &[Workspace],
        mode: WriteMode,
        now: Timestamp,
    ) -> Result<Vec<(Slug, u64)>, OpsError> {
        let mut finished = Vec::new();
        for workspace in workspaces {
            if workspace.deleted_at.is_some() || workspace.policy.visibility != Visibility::Owner {
                continue;
            }
            let (mut links, mut after) = (0, None);
            loop {
                let users = self.store.deleted_users(workspace.id, after, PAGE_SIZE).await?;
                for (user, gone) in &users {
                    links += self.finish_deletion(workspace, *user, *gone, mode, now).await?;
                }
                after = users.last().map(|(user, _)| *user);
                if users.len() < usize::try_from(PAGE_SIZE).unwrap_or_default() {
                    break;
                }
            }
            if links > 0 {
                finished.push((workspace.slug.clone(), links));
            }
        }
        Ok(finished)
    }

    async fn finish_deletion(
        &self,
        workspace: &Workspace,
        user: Id,
        gone: Timestamp,
        mode: WriteMode,
        now: Timestamp,
    ) -> Result<u64, OpsError> {
        let mut filter = LinkFilter {
            states: vec![LinkState::Active, LinkState::Disabled],
            created_by: Some(Actor::from_user(user)),
            ..LinkFilter::default()
        };
        let mut links = 0;
        loop {
            let mut left = self.store.list(workspace.id, &filter, PAGE_SIZE).await?;
            let Some(last) = left.last() else { return Ok(links) };
            filter.after = Some(ListPosition::from_link(last, SortBy::CreatedAt));
            left.retain(|link| link.updated_at <= gone);
            links += match mode {
                WriteMode::DryRun => left.len() as u64,
                WriteMode::Apply => self.delete_together(left, &Actor::system(), now).await?.len() as u64,
            };
        }
    }

    /// Deletes some links together, so that they share a commit. Gives those that are deleted now.
    pub(crate) async fn delete_together(
        &self,
        links: Vec<Link>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Vec<Link>, StoreError> {
        let mut writing = JoinSet::new();
        for link in links {
            let workspace = link.workspace;
            let next = Box::new(Link { state: LinkState::Deleted, ..link });
            let op = LinkOp::Replace { next, action: Action::Delete };
            let write = LinkWrite::new(workspace, actor.clone(), now, op);
            let writer = self.writer.clone();
            writing.spawn(async move { writer.write(write).await });
        }
        let mut deleted = Vec::new();
        while let Some(written) = writing.join_next().await {
            match written.map_err(|error| StoreError::Unavailable(error.to_string()))? {
                Ok(Written::Changed(link)) => {
                    self.publish(&link);
                    deleted.push(link);
                }
                // Somebody was faster: extended, it is not over any more; deleted, it is what we wanted.
                Ok(_) | Err(StoreError::Conflict | StoreError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }
}

impl SweepReport {
    /// Whether something was not done: clicks stayed that should have gone, or targets were not checked.
    pub fn is_incomplete(&self) -> bool {
        self.safety_error.is_some()
            || self.workspaces.iter().any(|workspace| workspace.kept_because.is_some())
    }

    fn entry(&mut self, slug: &Slug) -> &mut SweptWorkspace {
        let at = self.workspaces.iter().position(|known| known.workspace == *slug).unwrap_or_else(|| {
            self.workspaces.push(SweptWorkspace {
                workspace: slug.clone(),
                purged_links: 0,
                left_links: 0,
                purged_keys: 0,
                disabled_links: 0,
                unsafe_links: Vec::new(),
                pruned_clicks: 0,
                archived: Vec::new(),
                kept_because: None,
            });
            self.workspaces.len() - 1
        });
        &mut self.workspaces[at]
    }
}

impl SweptWorkspace {
    fn push_unsafe_link(&mut self, link: UnsafeLink) {
        self.disabled_links += 1;
        if self.unsafe_links.len() < MAX_NAMED_LINKS {
            self.unsafe_links.push(DisabledLink { code: link.code.to_string(), reason: link.reason });
        }
    }
}
