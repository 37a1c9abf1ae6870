//! `rmax domains`: the hosts a workspace answers on.

use std::collections::HashMap;

use rlinks_core::{Domain, Host, Id};
use serde_json::{Value, json};

use crate::args::Domains;
use crate::error::Failure;
use crate::session::{Session, unreached};

/// The most links a warning names.
const NAMED: i64 = 10;

pub(super) async fn run(session: &Session, command: Domains) -> Result<(), Failure> {
    match command {
        Domains::Add { host } => add(session, &host).await,
        Domains::List { all } => list(session, all).await,
        Domains::Remove { host } => remove(session, &host).await,
        Domains::Primary { host } => primary(session, &host).await,
    }
}

fn object(domain: &Domain, workspace: &str) -> Value {
    json!({
        "host": domain.host,
        "workspace": workspace,
        "primary": domain.primary,
        "created_at": domain.created_at,
    })
}

fn show(session: &Session, domain: &Domain, workspace: &str, done: &str) -> Result<(), Failure> {
    if session.output.json {
        return session.output.object(&object(domain, workspace));
    }
    let primary = if domain.primary { ", its primary domain" } else { "" };
    session.output.line(&format!("{done} {}: answered by workspace {workspace}{primary}", domain.host))
}

async fn add(session: &Session, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let workspace = session.workspace().await?;
    let known = session.store().domains().await?;
    if let Some(domain) = known.iter().find(|domain| domain.host == host && domain.workspace == workspace.id)
    {
        return show(session, domain, workspace.slug.as_str(), "unchanged");
    }
    let change = async {
        let taken = |failure: Failure| {
            if failure.code() == rlinks_core::envelope::ErrorCode::Conflict {
                return failure
                    .hint("a host belongs to one workspace; `rmax domains list --all` shows whose it is");
            }
            failure
        };
        let added = session.store().add_domain(workspace.id, host, &session.actor(), session.now()).await;
        added.map_err(Failure::from).map_err(taken)
    };
    let domain = session.change(change).await?;
    show(session, &domain, workspace.slug.as_str(), "added")?;
    if known.is_empty() && session.config.domain.is_none() {
        warn_of_the_first(session, &domain.host).await?;
    }
    warn_of_loops(session, &domain.host).await
}

/// A link that led out of here leads back in once its host is ours.
async fn warn_of_loops(session: &Session, host: &Host) -> Result<(), Failure> {
    let found = session.store().links_leading_to(host, NAMED + 1).await?;
    if found.is_empty() {
        return Ok(());
    }
    let slugs = slugs(session).await?;
    let named = usize::try_from(NAMED).unwrap_or_default();
    let mut codes: Vec<String> = found
        .iter()
        .take(named)
        .map(|(workspace, code)| match slugs.get(workspace) {
            Some(slug) if *slug != session.config.workspace => format!("{code} (workspace {slug})"),
            _ => code.to_string(),
        })
        .collect();
    if found.len() > named {
        codes.push("and more".to_owned());
    }
    session.output.warning(&format!(
        "links lead to {host} already: {}; those with no_loop answer 500 from now on, the others may go in circles",
        codes.join(", ")
    ));
    Ok(())
}

/// With the first domain, every host but the configured ones stops answering.
async fn warn_of_the_first(session: &Session, host: &Host) -> Result<(), Failure> {
    session.output.warning(&format!(
        "{host} is the first domain: until now workspace main answered on every host, and from now on hosts nobody configured get 404"
    ));
    for slug in unreached(session.store(), &session.config).await? {
        session.output.warning(&format!(
            "workspace {slug} has links and no domain, so no host reaches them; `rmax domains add <host> --workspace {slug}` adds one"
        ));
    }
    Ok(())
}

/// The name of every workspace.
async fn slugs(session: &Session) -> Result<HashMap<Id, String>, Failure> {
    let workspaces = session.store().workspaces().await?;
    Ok(workspaces.into_iter().map(|known| (known.id, known.slug.to_string())).collect())
}

async fn list(session: &Session, all: bool) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let slugs = slugs(session).await?;
    let slug = |domain: &Domain| slugs.get(&domain.workspace).cloned().unwrap_or_default();
    let domains: Vec<Domain> = session.store().domains().await?;
    let domains: Vec<&Domain> =
        domains.iter().filter(|domain| all || domain.workspace == workspace.id).collect();
    if session.output.json {
        let objects: Vec<Value> = domains.iter().map(|domain| object(domain, &slug(domain))).collect();
        return session.output.object(&objects);
    }
    if domains.is_empty() {
        session.output.note("no domains: while no workspace has one, workspace main answers on every host");
        return Ok(());
    }
    let row = |domain: &&Domain| {
        let primary = if domain.primary { "primary" } else { "" };
        vec![domain.host.to_string(), slug(domain), primary.to_owned()]
    };
    let rows: Vec<Vec<String>> = domains.iter().map(row).collect();
    session.output.table(&["HOST", "WORKSPACE", "PRIMARY"], &rows)
}

async fn remove(session: &Session, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let workspace = session.workspace().await?;
    // Not through `change`: that would first enter the very domain this may be about.
    session.store().remove_domain(workspace.id, &host, &session.actor(), session.now()).await?;
    session.sign_heads().await;
    if session.config.domain.as_ref() == Some(&host) {
        session.output.hint(&format!(
            "{host} is the configured `domain`: the next change enters it again unless you remove it there too"
        ));
    }
    if session.output.json {
        return session.output.object(&json!({ "host": host, "workspace": workspace.slug, "removed": true }));
    }
    session.output.line(&format!("removed {host} from workspace {}", workspace.slug))
}

async fn primary(session: &Session, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let workspace = session.workspace().await?;
    let change = async {
        Ok(session.store().set_primary_domain(workspace.id, &host, &session.actor(), session.now()).await?)
    };
    let domain = session.change(change).await?;
    show(session, &domain, workspace.slug.as_str(), "primary")
}
