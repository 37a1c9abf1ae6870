//! `rmax domains`: the hosts a workspace answers on.

use std::collections::HashMap;

use rlinks_core::{Domain, Host};
use serde_json::{Value, json};

use crate::args::Domains;
use crate::error::Failure;
use crate::session::Session;

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
    show(session, &domain, workspace.slug.as_str(), "added")
}

async fn list(session: &Session, all: bool) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let slugs: HashMap<_, _> = session
        .store()
        .workspaces()
        .await?
        .into_iter()
        .map(|known| (known.id, known.slug.to_string()))
        .collect();
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
