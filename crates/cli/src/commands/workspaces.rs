//! `rmax workspaces`: who owns links, and under which policy.

mod rollback;

use rlinks_core::{Domain, FieldErrors, Policy, Preset, Slug, Workspace};
use rlinks_ops::workspaces::WorkspacePatch;
use rlinks_ops::{Resource, WriteMode};
use serde_json::Value;

use crate::args::Workspaces;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{Confirmation, confirm, is_interactive};

pub(crate) async fn run(local: &LocalStore, command: Workspaces) -> Result<(), CliError> {
    match command {
        Workspaces::Create { slug, preset, name } => create(local, &slug, &preset, name.as_deref()).await,
        Workspaces::List { show_deleted } => list(local, show_deleted).await,
        Workspaces::Show { slug } => show(local, slug.as_deref()).await,
        Workspaces::Policy { slug, preset, set } => {
            policy(local, slug.as_deref(), preset.as_deref(), &set).await
        }
        Workspaces::Delete { slug, yes } => delete(local, &slug, yes).await,
        Workspaces::Restore { slug } => restore(local, &slug).await,
        Workspaces::Rollback { slug, to, dry_run, yes } => {
            let mode = if dry_run { WriteMode::DryRun } else { WriteMode::Apply };
            rollback::run(local, slug.as_deref(), &to, mode, yes).await
        }
    }
}

async fn create(local: &LocalStore, slug: &str, preset: &str, name: Option<&str>) -> Result<(), CliError> {
    let mut errors = FieldErrors::default();
    let parsed_slug = errors.ok_or_push(Slug::parse(slug));
    let preset = errors.ok_or_push(preset.parse::<Preset>());
    let name = errors.ok_or_push(Workspace::parse_name(name.unwrap_or(slug)));
    let (Some(slug), Some(preset), Some(name)) = (parsed_slug, preset, name) else {
        return Err(errors.into());
    };
    let change = async {
        let made = local.ops.create_workspace(&local.actor(), slug, name, Policy::preset(preset)).await;
        made.map_err(|error| {
            CliError::from(error)
                .hint("a slug is never given out twice, a deleted workspace's neither; choose another")
        })
    };
    let workspace = local.change(change).await?;
    report(local, &workspace, "created")
}

fn report(local: &LocalStore, workspace: &Workspace, done: &str) -> Result<(), CliError> {
    if local.output.json {
        return local.output.object(workspace);
    }
    local.output.line(&format!("{done} workspace {} (preset {})", workspace.slug, workspace.policy.preset))
}

async fn list(local: &LocalStore, show_deleted: bool) -> Result<(), CliError> {
    let mut workspaces = local.store().workspaces().await?;
    workspaces.retain(|workspace| show_deleted || workspace.deleted_at.is_none());
    if local.output.json {
        return local.output.object(&workspaces);
    }
    let mut rows = Vec::new();
    for workspace in &workspaces {
        let deleted = workspace.deleted_at.map(|at| format!("deleted {at}"));
        rows.push(vec![
            workspace.slug.to_string(),
            workspace.name.clone(),
            workspace.policy.preset.to_string(),
            local.store().count_links(workspace.id).await?.to_string(),
            deleted.unwrap_or_default(),
        ]);
    }
    local.output.table(&["SLUG", "NAME", "PRESET", "LINKS", "STATE"], &rows)
}

async fn show(local: &LocalStore, slug: Option<&str>) -> Result<(), CliError> {
    let slug = Slug::from_stored(slug.unwrap_or(&local.config.workspace).to_owned());
    // A deleted one can be looked at too.
    let Some(workspace) = local.store().workspace(&slug).await? else {
        return Err(CliError::not_found(Resource::Workspace(slug.to_string())));
    };
    let domains = local.store().domains().await?;
    let mine: Vec<&Domain> = domains.iter().filter(|domain| domain.workspace == workspace.id).collect();
    let links = local.store().count_links(workspace.id).await?;
    let hosts: Vec<String> = mine.iter().map(|domain| domain.host.to_string()).collect();
    if local.output.json {
        let mut body = serde_json::to_value(&workspace).expect("a workspace is JSON");
        body["links"] = links.into();
        body["domains"] = hosts.into();
        return local.output.object(&body);
    }
    let mut shown = vec![
        format!("slug        {}", workspace.slug),
        format!("name        {}", workspace.name),
        format!("links       {links}"),
        format!("domains     {}", if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }),
        format!("created_at  {}", workspace.created_at),
    ];
    shown.extend(workspace.deleted_at.map(|at| format!("deleted_at  {at}")));
    shown.push("policy".to_owned());
    shown.extend(policy_lines(&workspace.policy).into_iter().map(|line| format!("  {line}")));
    shown.iter().try_for_each(|line| local.output.line(line))
}

/// Every field as `--set` takes it.
fn policy_lines(policy: &Policy) -> Vec<String> {
    fn walk(path: &str, value: &Value, lines: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    walk(
                        &if path.is_empty() { name.clone() } else { format!("{path}.{name}") },
                        value,
                        lines,
                    );
                }
            }
            Value::String(text) => lines.push(format!("{path}={text}")),
            other => lines.push(format!("{path}={other}")),
        }
    }
    let mut lines = Vec::new();
    walk("", &serde_json::to_value(policy).expect("a policy is JSON"), &mut lines);
    lines
}

async fn policy(
    local: &LocalStore,
    slug: Option<&str>,
    preset: Option<&str>,
    set: &[String],
) -> Result<(), CliError> {
    let seen = local.workspace_named(slug.unwrap_or(&local.config.workspace)).await?;
    if preset.is_none() && set.is_empty() {
        return print_policy(local, &seen.policy);
    }
    let begin = match preset {
        Some(name) => Policy::preset(name.parse()?),
        None => seen.policy.clone(),
    };
    let patch = WorkspacePatch { policy: Some(with_fields(&begin, set)?), name: None };
    let caller = local.caller_in(&seen);
    let workspace = local.change(async { Ok(local.ops.update_workspace(&caller, patch).await?) }).await?;
    print_policy(local, &workspace.policy)
}

fn print_policy(local: &LocalStore, policy: &Policy) -> Result<(), CliError> {
    if local.output.json {
        return local.output.object(policy);
    }
    policy_lines(policy).iter().try_for_each(|line| local.output.line(line))
}

/// Sets fields as `--set` names them.
fn with_fields(policy: &Policy, set: &[String]) -> Result<Policy, CliError> {
    let mut waiting = Vec::new();
    for pair in set {
        let Some(pair) = pair.split_once('=') else {
            return Err(CliError::usage(format!("`--set {pair}` names no value"))
                .hint("write it like `--set cache.max_age=60`"));
        };
        waiting.push((pair.0.to_owned(), pair.1.to_owned()));
    }
    Ok(policy.set_fields(&waiting)?)
}

async fn delete(local: &LocalStore, slug: &str, yes: bool) -> Result<(), CliError> {
    let seen = local.workspace_named(slug).await?;
    if slug == Slug::MAIN {
        local.output.warning(
            "main is the default workspace: without it, commands need --workspace, the configured `domain` is entered nowhere, and hosts that were main's answer 404; `rmax workspaces restore main` brings it back",
        );
    }
    if !yes && !is_interactive() {
        return Err(CliError::usage("deleting a workspace needs --yes where nobody can be asked"));
    }
    if !yes {
        let links = local.store().count_links(seen.id).await?;
        let question =
            format!("Delete workspace {slug}? Its {links} links will answer 404; nothing is erased.");
        if confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was deleted"));
        }
    }
    let caller = local.caller_in(&seen);
    let workspace = local.change(async { Ok(local.ops.delete_workspace(&caller).await?) }).await?;
    report(local, &workspace, "deleted")
}

async fn restore(local: &LocalStore, slug: &str) -> Result<(), CliError> {
    let found = local.store().workspace(&Slug::from_stored(slug.to_owned())).await?;
    let Some(seen) = found else {
        return Err(CliError::not_found(Resource::Workspace(slug.to_string())));
    };
    if seen.deleted_at.is_none() {
        return report(local, &seen, "unchanged");
    }
    let caller = local.caller_in(&seen);
    let workspace = local.change(async { Ok(local.ops.restore_workspace(&caller).await?) }).await?;
    report(local, &workspace, "restored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interdependent_policy_fields_can_be_set_in_any_order() {
        let fabric = Policy::preset(Preset::Fabric);
        let set = ["reuse=true", "generator=hash", "code.fold_case=false"].map(str::to_owned);
        let policy = with_fields(&fabric, &set).unwrap();
        assert!(policy.reuse && !policy.code.fold_case);
        assert!(with_fields(&fabric, &["reuse=true".to_owned()]).is_err());
        assert!(with_fields(&fabric, &["reuse".to_owned()]).is_err());
    }
}
