//! `rmax sweep`: the daily job by hand. `rmax clicks prune` is its second half, and reports alike.

use rlinks_clicks::export::Target;
use rlinks_core::Workspace;
use rlinks_ops::sweep::{self, Swept};
use rlinks_ops::{Mode, OpsError};
use serde::Serialize;

use super::Scope;
use crate::args::Sweep;
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::counted;

/// What was done, as programs see it.
#[derive(Serialize)]
struct Shown<'a> {
    dry_run: bool,
    #[serde(flatten)]
    swept: &'a Swept,
}

pub(crate) async fn run(session: &Session, args: &Sweep, scope: Scope) -> Result<(), Failure> {
    let (workspaces, archive, mode) = prepared(session, scope, args.dry_run).await?;
    let job = job(session, &workspaces, archive.as_ref(), mode).await?;
    let work = async { Ok(job.run(session.now()).await?) };
    let swept = match mode {
        Mode::Write => session.change(work).await?,
        Mode::DryRun => work.await?,
    };
    report(session, &swept, mode)
}

/// Retention alone.
pub(super) async fn prune(session: &Session, dry_run: bool, scope: Scope) -> Result<(), Failure> {
    let (workspaces, archive, mode) = prepared(session, scope, dry_run).await?;
    let job = job(session, &workspaces, archive.as_ref(), mode).await?;
    let progress = session.output.counter("archiving clicks", None);
    let swept = job.prune(session.now(), |clicks| progress.add(clicks)).await?;
    drop(progress);
    report(session, &swept, mode)
}

/// The workspaces a job is about: every one, deleted ones too, or the one that was named.
pub(super) async fn workspaces(session: &Session, scope: Scope) -> Result<Vec<Workspace>, Failure> {
    match scope {
        Scope::All => Ok(session.store().workspaces().await?),
        Scope::Named => Ok(vec![session.workspace().await?]),
    }
}

async fn prepared(
    session: &Session,
    scope: Scope,
    dry_run: bool,
) -> Result<(Vec<Workspace>, Option<Target>, Mode), Failure> {
    let archive = session.config.archive.as_deref();
    let archive = archive.map(|text| sweep::archive(text, &session.cloud_options())).transpose()?;
    let mode = if dry_run { Mode::DryRun } else { Mode::Write };
    Ok((workspaces(session, scope).await?, archive, mode))
}

async fn job<'a>(
    session: &'a Session,
    workspaces: &'a [Workspace],
    archive: Option<&'a Target>,
    mode: Mode,
) -> Result<sweep::Sweep<'a>, Failure> {
    Ok(sweep::Sweep {
        store: session.store(),
        clicks: session.clicks().await?,
        workspaces,
        archive,
        safety: &session.ops.safety,
        custodian: &session.ops.custodian,
        mode,
    })
}

fn report(session: &Session, swept: &Swept, mode: Mode) -> Result<(), Failure> {
    let output = session.output;
    swept.unasked.iter().for_each(|why| output.warning(why));
    if output.json {
        output.object(&Shown { dry_run: mode == Mode::DryRun, swept })?;
    } else {
        lines(swept, mode).iter().try_for_each(|line| output.done(line))?;
    }
    if let Some(why) = &swept.unchecked {
        return Err(
            Failure::from(OpsError::Unchecked(why.clone())).hint("the rest was done; mend it and repeat")
        );
    }
    if !swept.is_incomplete() {
        return Ok(());
    }
    let kept = swept.workspaces.iter().filter_map(|workspace| {
        let why = workspace.kept_because.as_deref()?;
        Some(format!("{}: {why}", workspace.workspace))
    });
    let kept = kept.collect::<Vec<_>>().join("; ");
    Err(Failure::failed(format!("clicks that could not be archived were not deleted: {kept}"))
        .hint("see what `retention.archive` names, and repeat"))
}

fn lines(swept: &Swept, mode: Mode) -> Vec<String> {
    let would = if mode == Mode::DryRun { "would be " } else { "" };
    let mut lines = Vec::new();
    for workspace in &swept.workspaces {
        let name = &workspace.workspace;
        if workspace.purged_links > 0 {
            lines.push(format!("{name}: {} {would}purged", counted(workspace.purged_links, "expired link")));
        }
        if workspace.left_links > 0 {
            let left = counted(workspace.left_links, "link");
            lines.push(format!("{name}: {left} of deleted accounts {would}deleted"));
        }
        if workspace.purged_keys > 0 {
            lines.push(format!("{name}: {} {would}purged", counted(workspace.purged_keys, "key")));
        }
        if workspace.disabled_links > 0 {
            let disabled = counted(workspace.disabled_links, "unsafe link");
            lines.push(format!("{name}: {disabled} {would}disabled"));
            lines.extend(
                workspace.unsafe_links.iter().map(|link| format!("    {}: {}", link.code, link.reason)),
            );
        }
        if workspace.pruned_clicks > 0 {
            lines.push(format!("{name}: {} {would}pruned", counted(workspace.pruned_clicks, "click")));
        }
        lines.extend(workspace.archived.iter().map(|part| format!("{name}: archived as {part}")));
    }
    let dropped = swept.pruned;
    for (what, rows) in
        [("daily count", dropped.days), ("hourly count", dropped.hours), ("visitor key", dropped.visitors)]
    {
        if rows > 0 {
            lines.push(format!("{} {would}dropped", counted(rows, what)));
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
