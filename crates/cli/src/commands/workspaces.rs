//! `rmax workspaces`: who owns links, and under which policy.

mod rollback;

use rlinks_core::{Domain, FieldErrors, Policy, Preset, Slug, Workspace};
use rlinks_ops::{Mode, Thing};
use serde_json::Value;

use crate::args::Workspaces;
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm};

pub(crate) async fn run(session: &Session, command: Workspaces) -> Result<(), Failure> {
    match command {
        Workspaces::Create { slug, preset, name } => create(session, &slug, &preset, name.as_deref()).await,
        Workspaces::List { show_deleted } => list(session, show_deleted).await,
        Workspaces::Show { slug } => show(session, slug.as_deref()).await,
        Workspaces::Policy { slug, preset, set } => {
            policy(session, slug.as_deref(), preset.as_deref(), &set).await
        }
        Workspaces::Delete { slug, yes } => delete(session, &slug, yes).await,
        Workspaces::Restore { slug } => restore(session, &slug).await,
        Workspaces::Rollback { slug, to, dry_run, yes } => {
            let mode = if dry_run { Mode::DryRun } else { Mode::Write };
            rollback::run(session, slug.as_deref(), &to, mode, yes).await
        }
    }
}

async fn create(session: &Session, slug: &str, preset: &str, name: Option<&str>) -> Result<(), Failure> {
    let mut errors = FieldErrors::default();
    let parsed_slug = errors.ok_or_push(Slug::parse(slug));
    let preset = errors.ok_or_push(preset.parse::<Preset>());
    let name = errors.ok_or_push(Workspace::parse_name(name.unwrap_or(slug)));
    let (Some(slug), Some(preset), Some(name)) = (parsed_slug, preset, name) else {
        return Err(errors.into());
    };
    let change = async {
        let made = session
            .store()
            .create_workspace(slug, name, Policy::preset(preset), &session.actor(), session.now())
            .await;
        made.map_err(|error| {
            Failure::from(error)
                .hint("a slug is never given out twice, a deleted workspace's neither; choose another")
        })
    };
    let workspace = session.change(change).await?;
    report(session, &workspace, "created")
}

fn report(session: &Session, workspace: &Workspace, done: &str) -> Result<(), Failure> {
    if session.output.json {
        return session.output.object(workspace);
    }
    session.output.line(&format!("{done} workspace {} (preset {})", workspace.slug, workspace.policy.preset))
}

async fn list(session: &Session, show_deleted: bool) -> Result<(), Failure> {
    let mut workspaces = session.store().workspaces().await?;
    workspaces.retain(|workspace| show_deleted || workspace.deleted_at.is_none());
    if session.output.json {
        return session.output.object(&workspaces);
    }
    let mut rows = Vec::new();
    for workspace in &workspaces {
        let deleted = workspace.deleted_at.map(|at| format!("deleted {at}"));
        rows.push(vec![
            workspace.slug.to_string(),
            workspace.name.clone(),
            workspace.policy.preset.to_string(),
            session.store().count_links(workspace.id).await?.to_string(),
            deleted.unwrap_or_default(),
        ]);
    }
    session.output.table(&["SLUG", "NAME", "PRESET", "LINKS", "STATE"], &rows)
}

async fn show(session: &Session, slug: Option<&str>) -> Result<(), Failure> {
    let slug = Slug::from_stored(slug.unwrap_or(&session.config.workspace).to_owned());
    // A deleted one can be looked at too.
    let Some(workspace) = session.store().workspace(&slug).await? else {
        return Err(Failure::not_found(Thing::Workspace(slug.to_string())));
    };
    let domains = session.store().domains().await?;
    let mine: Vec<&Domain> = domains.iter().filter(|domain| domain.workspace == workspace.id).collect();
    let links = session.store().count_links(workspace.id).await?;
    let hosts: Vec<String> = mine.iter().map(|domain| domain.host.to_string()).collect();
    if session.output.json {
        let mut body = serde_json::to_value(&workspace).expect("a workspace is JSON");
        body["links"] = links.into();
        body["domains"] = hosts.into();
        return session.output.object(&body);
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
    shown.iter().try_for_each(|line| session.output.line(line))
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
    session: &Session,
    slug: Option<&str>,
    preset: Option<&str>,
    set: &[String],
) -> Result<(), Failure> {
    let seen = session.workspace_named(slug.unwrap_or(&session.config.workspace)).await?;
    if preset.is_none() && set.is_empty() {
        return print_policy(session, &seen.policy);
    }
    let begin = match preset {
        Some(name) => Policy::preset(name.parse()?),
        None => seen.policy.clone(),
    };
    let next = Workspace { policy: with_fields(&begin, set)?, ..seen.clone() };
    let workspace = update(session, &seen, next, "workspace.policy").await?;
    print_policy(session, &workspace.policy)
}

fn print_policy(session: &Session, policy: &Policy) -> Result<(), Failure> {
    if session.output.json {
        return session.output.object(policy);
    }
    policy_lines(policy).iter().try_for_each(|line| session.output.line(line))
}

/// Sets fields as `--set` names them.
fn with_fields(policy: &Policy, set: &[String]) -> Result<Policy, Failure> {
    let mut waiting = Vec::new();
    for pair in set {
        let Some(pair) = pair.split_once('=') else {
            return Err(Failure::usage(format!("`--set {pair}` names no value"))
                .hint("write it like `--set cache.max_age=60`"));
        };
        waiting.push((pair.0.to_owned(), pair.1.to_owned()));
    }
    Ok(policy.set_fields(&waiting)?)
}

async fn update(
    session: &Session,
    seen: &Workspace,
    next: Workspace,
    action: &str,
) -> Result<Workspace, Failure> {
    let change = async {
        Ok(session.store().update_workspace(seen, next, action, &session.actor(), session.now()).await?)
    };
    session.change(change).await
}

async fn delete(session: &Session, slug: &str, yes: bool) -> Result<(), Failure> {
    let seen = session.workspace_named(slug).await?;
    if slug == Slug::MAIN {
        session.output.warning(
            "main is the default workspace: without it, commands need --workspace, the configured `domain` is entered nowhere, and hosts that were main's answer 404; `rmax workspaces restore main` brings it back",
        );
    }
    if !yes && !can_ask() {
        return Err(Failure::usage("deleting a workspace needs --yes where nobody can be asked"));
    }
    if !yes {
        let links = session.store().count_links(seen.id).await?;
        let question =
            format!("Delete workspace {slug}? Its {links} links will answer 404; nothing is erased.");
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was deleted"));
        }
    }
    let next = Workspace { deleted_at: Some(session.now()), ..seen.clone() };
    let workspace = update(session, &seen, next, "workspace.delete").await?;
    report(session, &workspace, "deleted")
}

async fn restore(session: &Session, slug: &str) -> Result<(), Failure> {
    let found = session.store().workspace(&Slug::from_stored(slug.to_owned())).await?;
    let Some(seen) = found else {
        return Err(Failure::not_found(Thing::Workspace(slug.to_string())));
    };
    if seen.deleted_at.is_none() {
        return report(session, &seen, "unchanged");
    }
    let next = Workspace { deleted_at: None, ..seen.clone() };
    let workspace = update(session, &seen, next, "workspace.restore").await?;
    report(session, &workspace, "restored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_in_whatever_order_makes_sense() {
        let fabric = Policy::preset(Preset::Fabric);
        let set = ["reuse=true", "generator=hash", "code.fold_case=false"].map(str::to_owned);
        let policy = with_fields(&fabric, &set).unwrap();
        assert!(policy.reuse && !policy.code.fold_case);
        assert!(with_fields(&fabric, &["reuse=true".to_owned()]).is_err());
        assert!(with_fields(&fabric, &["reuse".to_owned()]).is_err());
    }
}
