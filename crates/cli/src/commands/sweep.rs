//! `rmax sweep`: the daily job by hand. `rmax clicks prune` is its second half, and reports alike.

use rlinks_clicks::export::OpenDestination;
use rlinks_core::Workspace;
use rlinks_ops::sweep::{self, SweepReport};
use rlinks_ops::{OpsError, WriteMode};
use serde::Serialize;

use super::WorkspaceSelection;
use crate::args::Sweep;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::pluralize;

/// What was done, as programs see it.
#[derive(Serialize)]
struct SweepOutput<'a> {
    dry_run: bool,
    #[serde(flatten)]
    swept: &'a SweepReport,
}

pub(crate) async fn run(local: &LocalStore, args: &Sweep, scope: WorkspaceSelection) -> Result<(), CliError> {
    let (workspaces, archive, mode) = prepare(local, scope, args.dry_run).await?;
    let job = job(local, &workspaces, archive.as_ref(), mode).await?;
    let work = async { Ok(job.run(local.now()).await?) };
    let swept = match mode {
        WriteMode::Apply => local.change(work).await?,
        WriteMode::DryRun => work.await?,
    };
    report(local, &swept, mode)
}

pub(super) async fn prune(
    local: &LocalStore,
    dry_run: bool,
    scope: WorkspaceSelection,
) -> Result<(), CliError> {
    let (workspaces, archive, mode) = prepare(local, scope, dry_run).await?;
    let job = job(local, &workspaces, archive.as_ref(), mode).await?;
    let progress = local.output.counter("archiving clicks", None);
    let swept = job.prune(local.now(), |clicks| progress.add(clicks)).await?;
    drop(progress);
    report(local, &swept, mode)
}

/// The workspaces a job is about: every one, deleted ones too, or the one that was named.
pub(super) async fn workspaces(
    local: &LocalStore,
    scope: WorkspaceSelection,
) -> Result<Vec<Workspace>, CliError> {
    match scope {
        WorkspaceSelection::All => Ok(local.store().workspaces().await?),
        WorkspaceSelection::Named => Ok(vec![local.workspace().await?]),
    }
}

async fn prepare(
    local: &LocalStore,
    scope: WorkspaceSelection,
    dry_run: bool,
) -> Result<(Vec<Workspace>, Option<OpenDestination>, WriteMode), CliError> {
    let archive = local.config.archive.as_deref();
    let archive = archive.map(|text| sweep::open_archive(text, &local.object_store_options())).transpose()?;
    let mode = if dry_run { WriteMode::DryRun } else { WriteMode::Apply };
    Ok((workspaces(local, scope).await?, archive, mode))
}

async fn job<'a>(
    local: &'a LocalStore,
    workspaces: &'a [Workspace],
    archive: Option<&'a OpenDestination>,
    mode: WriteMode,
) -> Result<sweep::Sweep<'a>, CliError> {
    Ok(sweep::Sweep { ops: &local.ops, clicks: local.clicks().await?, workspaces, archive, mode })
}

fn report(local: &LocalStore, swept: &SweepReport, mode: WriteMode) -> Result<(), CliError> {
    let output = local.output;
    swept.domain_check_errors.iter().for_each(|why| output.warning(why));
    if output.json {
        output.object(&SweepOutput { dry_run: mode == WriteMode::DryRun, swept })?;
    } else {
        lines(swept, mode).iter().try_for_each(|line| output.done(line))?;
    }
    if let Some(why) = &swept.safety_error {
        return Err(CliError::from(OpsError::SafetyUnavailable(why.clone()))
            .hint("the rest was done; mend it and repeat"));
    }
    if !swept.is_incomplete() {
        return Ok(());
    }
    let kept = swept.workspaces.iter().filter_map(|workspace| {
        let why = workspace.kept_because.as_deref()?;
        Some(format!("{}: {why}", workspace.workspace))
    });
    let kept = kept.collect::<Vec<_>>().join("; ");
    Err(CliError::failed(format!("clicks that could not be archived were not deleted: {kept}"))
        .hint("see what `retention.archive` names, and repeat"))
}

fn lines(swept: &SweepReport, mode: WriteMode) -> Vec<String> {
    let would = if mode == WriteMode::DryRun { "would be " } else { "" };
    let mut lines = Vec::new();
    for workspace in &swept.workspaces {
        let name = &workspace.workspace;
        if workspace.purged_links > 0 {
            lines
                .push(format!("{name}: {} {would}purged", pluralize(workspace.purged_links, "expired link")));
        }
        if workspace.left_links > 0 {
            let left = pluralize(workspace.left_links, "link");
            lines.push(format!("{name}: {left} of deleted accounts {would}deleted"));
        }
        if workspace.purged_keys > 0 {
            lines.push(format!("{name}: {} {would}purged", pluralize(workspace.purged_keys, "key")));
        }
        if workspace.disabled_links > 0 {
            let disabled = pluralize(workspace.disabled_links, "unsafe link");
            lines.push(format!("{name}: {disabled} {would}disabled"));
            lines.extend(
                workspace.unsafe_links.iter().map(|link| format!("    {}: {}", link.code, link.reason)),
            );
        }
        if workspace.pruned_clicks > 0 {
            lines.push(format!("{name}: {} {would}pruned", pluralize(workspace.pruned_clicks, "click")));
        }
        lines.extend(workspace.archived.iter().map(|part| format!("{name}: archived as {part}")));
    }
    let dropped = swept.pruned;
    for (what, rows) in
        [("daily count", dropped.days), ("hourly count", dropped.hours), ("visitor key", dropped.visitors)]
    {
        if rows > 0 {
            lines.push(format!("{} {would}dropped", pluralize(rows, what)));
        }
    }
    for looked in &swept.domains {
        let (name, host) = (&looked.workspace, &looked.host);
        lines.extend(looked.changes.iter().map(|change| format!("{name}: {host}: {change}")));
    }
    if lines.is_empty() && !swept.is_incomplete() {
        lines.push("nothing to do".to_owned());
    }
    lines
}
