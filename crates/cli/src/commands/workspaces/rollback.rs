//! `rmax workspaces rollback`: every link of a workspace as it was at a moment.

use rlinks_core::{Link, Timestamp, Workspace};
use rlinks_ops::WriteMode;
use rlinks_ops::links::rollback::{LinkDiff, RollbackReport};
use serde::Serialize;

use super::super::links::diff::{FieldDiff, diff};
use super::super::time_error;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{Confirmation, Output, confirm, is_interactive, pluralize};

/// What was put back, as programs see it.
#[derive(Serialize)]
struct RollbackOutput {
    dry_run: bool,
    workspace: String,
    to: Timestamp,
    changed: u64,
    restored: u64,
    deleted: u64,
    /// Of these, switched off because their old target is not safe.
    disabled: u64,
    /// An earlier run was cut off, and this was the rest of it.
    resumed: bool,
    /// The moment that undoes it.
    undo: Option<Timestamp>,
    /// The first of them.
    differences: Vec<LinkDiffOutput>,
}

#[derive(Serialize)]
struct LinkDiffOutput {
    code: String,
    changes: Vec<FieldDiff>,
}

impl From<&LinkDiff> for LinkDiffOutput {
    fn from(difference: &LinkDiff) -> Self {
        let value = |link: &Link| serde_json::to_value(link).unwrap_or_default();
        Self {
            code: difference.now.code.to_string(),
            changes: diff(&value(&difference.now), &value(&difference.then)),
        }
    }
}

pub(super) async fn run(
    local: &LocalStore,
    slug: Option<&str>,
    to: &str,
    mode: WriteMode,
    yes: bool,
) -> Result<(), CliError> {
    let to = Timestamp::parse(to).map_err(|error| time_error("to", error))?;
    let workspace = local.workspace_named(slug.unwrap_or(&local.config.workspace)).await?;
    if mode == WriteMode::DryRun {
        let done = roll_back(local, &workspace, to, mode).await?;
        return report(local, &workspace, to, mode, &done);
    }
    if !yes && !is_interactive() {
        return Err(CliError::usage("a rollback needs --yes where nobody can be asked")
            .hint("--dry-run shows what it would do"));
    }
    if !yes {
        let links = roll_back(local, &workspace, to, WriteMode::DryRun).await?.links();
        let question =
            format!("Put {} of workspace {} back as of {to}?", pluralize(links, "link"), workspace.slug);
        if links > 0 && confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was changed"));
        }
    }
    let again = "run the same command again: it goes on where this one stopped";
    let done =
        local.change(roll_back(local, &workspace, to, mode)).await.map_err(|error| error.hint(again))?;
    report(local, &workspace, to, mode, &done)
}

async fn roll_back(
    local: &LocalStore,
    workspace: &Workspace,
    to: Timestamp,
    mode: WriteMode,
) -> Result<RollbackReport, CliError> {
    let progress = local.output.counter("links that differ", None);
    let mut shown = 0;
    let step = |links: u64| {
        progress.add(links - shown);
        shown = links;
    };
    Ok(local.ops.roll_back(&local.caller_in(workspace), to, mode, step).await?)
}

fn report(
    local: &LocalStore,
    workspace: &Workspace,
    to: Timestamp,
    mode: WriteMode,
    done: &RollbackReport,
) -> Result<(), CliError> {
    let output = local.output;
    let differences: Vec<LinkDiffOutput> = done.differences.iter().map(LinkDiffOutput::from).collect();
    if output.json {
        return output.object(&RollbackOutput {
            dry_run: mode == WriteMode::DryRun,
            workspace: workspace.slug.to_string(),
            to,
            changed: done.changed,
            restored: done.restored,
            deleted: done.deleted,
            disabled: done.disabled,
            resumed: done.resumed,
            undo: done.undo,
            differences,
        });
    }
    if done.links() == 0 {
        output.line(&format!("workspace {} is as it was at {to}", workspace.slug))?;
        hint_undo(output, workspace, done);
        return Ok(());
    }
    let would = if mode == WriteMode::DryRun { "would be " } else { "" };
    let rest = if done.resumed { " (the rest of a rollback that was cut off)" } else { "" };
    let line = format!(
        "workspace {} {would}put back to {to}{rest}: {} changed, {} restored, {} deleted",
        workspace.slug,
        pluralize(done.changed, "link"),
        done.restored,
        done.deleted
    );
    output.line(&line)?;
    if done.disabled > 0 {
        let links = pluralize(done.disabled, "link");
        output.line(&format!("{links} {would}switched off: the old target is not safe any more"))?;
    }
    if mode == WriteMode::DryRun {
        for difference in &differences {
            output.line(&format!("  {}", difference.code))?;
            for change in &difference.changes {
                output.line(&format!("    {change}"))?;
            }
        }
        let rest = done.links().saturating_sub(differences.len() as u64);
        if rest > 0 {
            output.line(&format!("  and {} more", pluralize(rest, "link")))?;
        }
    }
    hint_undo(output, workspace, done);
    Ok(())
}

fn hint_undo(output: Output, workspace: &Workspace, done: &RollbackReport) {
    if let Some(undo) = done.undo {
        let (slug, all) = (&workspace.slug, if done.resumed { "all of " } else { "" });
        output.hint(&format!("`rmax workspaces rollback {slug} --to {undo}` undoes {all}this"));
    }
}
