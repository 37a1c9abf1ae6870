//! `rmax workspaces rollback`: every link of a workspace as it was at a moment.

use rlinks_core::{Link, Timestamp, Workspace};
use rlinks_ops::Mode;
use rlinks_ops::links::rollback::{Difference, RolledBack};
use serde::Serialize;

use super::super::links::diff::{Change, changes};
use super::super::no_time;
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm, counted};

/// What was put back, as programs see it.
#[derive(Serialize)]
struct Shown {
    dry_run: bool,
    workspace: String,
    to: Timestamp,
    changed: u64,
    restored: u64,
    deleted: u64,
    /// Of these, switched off because their old target is not safe.
    disabled: u64,
    /// The moment that undoes it.
    undo: Option<Timestamp>,
    /// The first of them.
    differences: Vec<ShownDifference>,
}

#[derive(Serialize)]
struct ShownDifference {
    code: String,
    changes: Vec<Change>,
}

impl From<&Difference> for ShownDifference {
    fn from(difference: &Difference) -> Self {
        let value = |link: &Link| serde_json::to_value(link).unwrap_or_default();
        Self {
            code: difference.now.code.to_string(),
            changes: changes(&value(&difference.now), &value(&difference.then)),
        }
    }
}

pub(super) async fn run(
    session: &Session,
    slug: Option<&str>,
    to: &str,
    mode: Mode,
    yes: bool,
) -> Result<(), Failure> {
    let to = Timestamp::parse(to).map_err(|error| no_time("to", error))?;
    let workspace = session.workspace_named(slug.unwrap_or(&session.config.workspace)).await?;
    if mode == Mode::DryRun {
        let done = roll_back(session, &workspace, to, mode).await?;
        return report(session, &workspace, to, mode, &done);
    }
    if !yes && !can_ask() {
        return Err(Failure::usage("a rollback needs --yes where nobody can be asked")
            .hint("--dry-run shows what it would do"));
    }
    if !yes {
        let links = roll_back(session, &workspace, to, Mode::DryRun).await?.links();
        let question =
            format!("Put {} of workspace {} back as of {to}?", counted(links, "link"), workspace.slug);
        if links > 0 && confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was changed"));
        }
    }
    let done = session.change(roll_back(session, &workspace, to, mode)).await?;
    report(session, &workspace, to, mode, &done)
}

async fn roll_back(
    session: &Session,
    workspace: &Workspace,
    to: Timestamp,
    mode: Mode,
) -> Result<RolledBack, Failure> {
    let progress = session.output.counter("links that differ", None);
    let mut shown = 0;
    let step = |links: u64| {
        progress.add(links - shown);
        shown = links;
    };
    Ok(session.ops.roll_back(&session.by(), workspace, to, mode, step).await?)
}

fn report(
    session: &Session,
    workspace: &Workspace,
    to: Timestamp,
    mode: Mode,
    done: &RolledBack,
) -> Result<(), Failure> {
    let output = session.output;
    let differences: Vec<ShownDifference> = done.differences.iter().map(ShownDifference::from).collect();
    if output.json {
        return output.object(&Shown {
            dry_run: mode == Mode::DryRun,
            workspace: workspace.slug.to_string(),
            to,
            changed: done.changed,
            restored: done.restored,
            deleted: done.deleted,
            disabled: done.disabled,
            undo: done.undo,
            differences,
        });
    }
    if done.links() == 0 {
        return output.line(&format!("workspace {} is as it was at {to}", workspace.slug));
    }
    let would = if mode == Mode::DryRun { "would be " } else { "" };
    let line = format!(
        "workspace {} {would}put back to {to}: {} changed, {} restored, {} deleted",
        workspace.slug,
        counted(done.changed, "link"),
        done.restored,
        done.deleted
    );
    output.line(&line)?;
    if done.disabled > 0 {
        let links = counted(done.disabled, "link");
        output.line(&format!("{links} {would}switched off: the old target is not safe any more"))?;
    }
    if mode == Mode::DryRun {
        for difference in &differences {
            output.line(&format!("  {}", difference.code))?;
            for change in &difference.changes {
                output.line(&format!("    {change}"))?;
            }
        }
        let rest = done.links().saturating_sub(differences.len() as u64);
        if rest > 0 {
            output.line(&format!("  and {} more", counted(rest, "link")))?;
        }
    }
    if let Some(undo) = done.undo {
        let slug = &workspace.slug;
        output.hint(&format!("`rmax workspaces rollback {slug} --to {undo}` undoes this"));
    }
    Ok(())
}
