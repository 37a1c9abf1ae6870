//! `rmax domains`: the hosts a workspace answers on.

pub(crate) mod checks;

use std::collections::HashMap;

use rlinks_core::workspace::domain_verification::VerificationRecord;
use rlinks_core::{Domain, DomainStatus, Host, Id, Workspace};
use rlinks_store::DomainRecord;
use serde_json::json;

use crate::args::Domains;
use crate::backend::Place;
use crate::backend::domains::Hosted;
use crate::backend::local_store::{Session, unreached};
use crate::error::Failure;
use crate::output::Output;

/// The most links a warning names.
const NAMED: i64 = 10;

pub(crate) async fn run(place: &Place, command: Domains) -> Result<(), Failure> {
    match command {
        Domains::Add { host } => add(place, &host).await,
        Domains::List { all } => list(place, all).await,
        Domains::Remove { host } => remove(place, &host).await,
        Domains::Primary { host } => primary(place, &host).await,
        Domains::Verify { host } => crate::commands::domains::checks::verify(place, &host).await,
        Domains::Check { host } => crate::commands::domains::checks::check(place, host.as_deref()).await,
    }
}

impl Hosted {
    fn show(&self, output: Output, done: &str) -> Result<(), Failure> {
        if output.json {
            return output.object(&json!(self));
        }
        let Self { host, workspace, primary, state, .. } = self;
        let primary = if *primary { ", its primary domain" } else { "" };
        if *state == DomainStatus::Active {
            return output.line(&format!("{done} {host}: answered by workspace {workspace}{primary}"));
        }
        output.line(&format!(
            "{done} {host}: of workspace {workspace}{primary}, {state}: it does not answer"
        ))?;
        if let Some(VerificationRecord { name, value }) = &self.proof {
            output.hint(&format!("set the TXT record {name} to {value}, then `rmax domains verify {host}`"));
        }
        Ok(())
    }
}

async fn add(place: &Place, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    match place {
        Place::Cloudflare(_) => Err(Failure::needs_store()),
        Place::Store(session) => add_stored(session, host).await,
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            let known = remote.domains().await?.into_iter().find(|known| known.host == host);
            let (domain, done) = match known {
                Some(domain) => (domain, "unchanged"),
                None => (remote.add_domain(&host).await?, "added"),
            };
            Hosted { workspace, ..domain }.show(place.output(), done)
        }
    }
}

async fn add_stored(session: &Session, host: Host) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let known = session.store().domains().await?;
    let no_domain = known.is_empty();
    let mine = |domain: &Domain| domain.host == host && domain.workspace == workspace.id;
    if known.iter().any(mine) {
        return crate::commands::domains::checks::trust(session, &workspace, &host).await;
    }
    let change = async {
        let taken = |failure: Failure| {
            if failure.code() == rlinks_core::error_code::ErrorCode::Conflict {
                return failure
                    .hint("a host belongs to one workspace; `rmax domains list --all` shows whose it is");
            }
            failure
        };
        let added =
            session.store().add_domain(workspace.id, host.clone(), &session.actor(), session.now()).await;
        added.map_err(Failure::from).map_err(taken)
    };
    session.change(change).await?;
    shown(session, &workspace, &host).await?.show(session.output, "added")?;
    if no_domain && session.config.domain.is_none() {
        warn_of_the_first(session, &host).await?;
    }
    warn_of_loops(session, &host).await
}

/// A host of a workspace as it is now.
async fn shown(session: &Session, workspace: &Workspace, host: &Host) -> Result<Hosted, Failure> {
    let held = session.ops.held(workspace, host).await?;
    Ok(Hosted::of(held, workspace, session.now()))
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

async fn list(place: &Place, all: bool) -> Result<(), Failure> {
    let output = place.output();
    let domains = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => list_stored(session, all).await?,
        Place::Server(_) if all => {
            return Err(Failure::usage("--all needs the store itself: a key is of one workspace"));
        }
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            let named = |domain| Hosted { workspace: workspace.clone(), ..domain };
            remote.domains().await?.into_iter().map(named).collect()
        }
    };
    if output.json {
        return output.object(&json!(domains));
    }
    if domains.is_empty() {
        output.note("no domains: workspace main answers on every host until it, or the operator, names one");
        return Ok(());
    }
    let row = |domain: &Hosted| {
        let primary = if domain.primary { "primary" } else { "" };
        let expires_on = domain.expires_on.clone().unwrap_or_default();
        let concern = domain.concern.clone().unwrap_or_default();
        let (host, state) = (domain.host.to_string(), domain.state.to_string());
        vec![host, domain.workspace.clone(), primary.to_owned(), state, expires_on, concern]
    };
    let rows: Vec<Vec<String>> = domains.iter().map(row).collect();
    output.table(&["HOST", "WORKSPACE", "PRIMARY", "STATE", "EXPIRES", "CONCERN"], &rows)
}

async fn list_stored(session: &Session, all: bool) -> Result<Vec<Hosted>, Failure> {
    let workspace = session.workspace().await?;
    let (workspaces, now) = (session.store().workspaces().await?, session.now());
    let domains = session.store().domain_records().await?.into_iter();
    let domains = domains.filter(|held| all || held.domain.workspace == workspace.id);
    let named = |held: DomainRecord| {
        let whose = workspaces.iter().find(|known| known.id == held.domain.workspace)?;
        Some(Hosted::of(held, whose, now))
    };
    Ok(domains.filter_map(named).collect())
}

async fn remove(place: &Place, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let workspace = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            // Not through `change`: that would first enter the very domain this may be about.
            session.store().remove_domain(workspace.id, &host, &session.actor(), session.now()).await?;
            session.sign_heads().await;
            if session.config.domain.as_ref() == Some(&host) {
                session.output.hint(&format!(
                    "{host} is the configured `domain`: the next change enters it again unless you remove it there too"
                ));
            }
            workspace.slug.to_string()
        }
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            remote.remove_domain(&host).await?;
            workspace
        }
    };
    if place.output().json {
        return place.output().object(&json!({ "host": host, "workspace": workspace, "removed": true }));
    }
    place.output().line(&format!("removed {host} from workspace {workspace}"))
}

async fn primary(place: &Place, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let domain = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let (actor, now) = (session.actor(), session.now());
            let change =
                async { Ok(session.store().set_primary_domain(workspace.id, &host, &actor, now).await?) };
            session.change(change).await?;
            shown(session, &workspace, &host).await?
        }
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            Hosted { workspace, ..remote.set_primary_domain(&host).await? }
        }
    };
    domain.show(place.output(), "primary")
}
