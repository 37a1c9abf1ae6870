//! `rmax domains`: the hosts a workspace answers on.

pub(crate) mod checks;

use std::collections::HashMap;

use rlinks_core::{Domain, DomainStatus, Host, Id, Workspace};
use rlinks_store::DomainRecord;
use rlinks_wire::domain::{self as wire, DomainProof};
use serde_json::json;

use crate::args::Domains;
use crate::backend::Backend;
use crate::backend::domains::DomainDetails;
use crate::backend::local_store::{LocalStore, unreachable_workspaces};
use crate::error::CliError;
use crate::output::Output;

/// The most links a warning names.
const MAX_NAMED_LINKS: i64 = 10;

pub(crate) async fn run(backend: &Backend, command: Domains) -> Result<(), CliError> {
    match command {
        Domains::Add { host } => add(backend, &host).await,
        Domains::List { all } => list(backend, all).await,
        Domains::Remove { host } => remove(backend, &host).await,
        Domains::Primary { host } => primary(backend, &host).await,
        Domains::Verify { host } => crate::commands::domains::checks::verify(backend, &host).await,
        Domains::Check { host } => crate::commands::domains::checks::check(backend, host.as_deref()).await,
    }
}

impl DomainDetails {
    fn show(&self, output: Output, done: &str) -> Result<(), CliError> {
        if output.json {
            return output.object(&json!(self));
        }
        let Self { domain: wire::Domain { host, primary, state, .. }, workspace } = self;
        let primary = if *primary { ", its primary domain" } else { "" };
        if *state == DomainStatus::Active {
            return output.line(&format!("{done} {host}: answered by workspace {workspace}{primary}"));
        }
        output.line(&format!(
            "{done} {host}: of workspace {workspace}{primary}, {state}: it does not answer"
        ))?;
        if let Some(DomainProof { name, value }) = &self.domain.proof {
            output.hint(&format!("set the TXT record {name} to {value}, then `rmax domains verify {host}`"));
        }
        Ok(())
    }
}

async fn add(backend: &Backend, host: &str) -> Result<(), CliError> {
    let host = Host::parse(host)?;
    match backend {
        Backend::Cloudflare(_) => Err(CliError::needs_store()),
        Backend::Store(local) => add_stored(local, host).await,
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            let known = client.domains().await?.into_iter().find(|known| known.host == host);
            let (domain, done) = match known {
                Some(domain) => (domain, "unchanged"),
                None => (client.add_domain(&host).await?, "added"),
            };
            DomainDetails { domain, workspace }.show(backend.output(), done)
        }
    }
}

async fn add_stored(local: &LocalStore, host: Host) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    let known = local.store().domains().await?;
    let no_domain = known.is_empty();
    let mine = |domain: &Domain| domain.host == host && domain.workspace == workspace.id;
    if known.iter().any(mine) {
        return crate::commands::domains::checks::trust(local, &workspace, &host).await;
    }
    let change = async {
        let taken = |failure: CliError| {
            if failure.code() == rlinks_core::error_code::ErrorCode::Conflict {
                return failure
                    .hint("a host belongs to one workspace; `rmax domains list --all` shows whose it is");
            }
            failure
        };
        let added = local.ops.add_domain(&local.caller_in(&workspace), host.clone()).await;
        added.map_err(CliError::from).map_err(taken)
    };
    local.change(change).await?;
    domain_details(local, &workspace, &host).await?.show(local.output, "added")?;
    if no_domain && local.config.domain.is_none() {
        warn_first_domain(local, &host).await?;
    }
    warn_of_loops(local, &host).await
}

/// A host of a workspace as it is now.
async fn domain_details(
    local: &LocalStore,
    workspace: &Workspace,
    host: &Host,
) -> Result<DomainDetails, CliError> {
    let held = local.ops.domain_record(workspace, host).await?;
    Ok(DomainDetails::from_record(held, workspace, local.now()))
}

/// A link that led out of here leads back in once its host is ours.
async fn warn_of_loops(local: &LocalStore, host: &Host) -> Result<(), CliError> {
    let found = local.store().links_leading_to(host, MAX_NAMED_LINKS + 1).await?;
    if found.is_empty() {
        return Ok(());
    }
    let slugs = slugs(local).await?;
    let named = usize::try_from(MAX_NAMED_LINKS).unwrap_or_default();
    let mut codes: Vec<String> = found
        .iter()
        .take(named)
        .map(|(workspace, code)| match slugs.get(workspace) {
            Some(slug) if *slug != local.config.workspace => format!("{code} (workspace {slug})"),
            _ => code.to_string(),
        })
        .collect();
    if found.len() > named {
        codes.push("and more".to_owned());
    }
    local.output.warning(&format!(
        "links lead to {host} already: {}; those with no_loop answer 500 from now on, the others may go in circles",
        codes.join(", ")
    ));
    Ok(())
}

/// With the first domain, every host but the configured ones stops answering.
async fn warn_first_domain(local: &LocalStore, host: &Host) -> Result<(), CliError> {
    local.output.warning(&format!(
        "{host} is the first domain: until now workspace main answered on every host, and from now on hosts nobody configured get 404"
    ));
    for slug in unreachable_workspaces(local.store(), &local.config).await? {
        local.output.warning(&format!(
            "workspace {slug} has links and no domain, so no host reaches them; `rmax domains add <host> --workspace {slug}` adds one"
        ));
    }
    Ok(())
}

/// The name of every workspace.
async fn slugs(local: &LocalStore) -> Result<HashMap<Id, String>, CliError> {
    let workspaces = local.store().workspaces().await?;
    Ok(workspaces.into_iter().map(|known| (known.id, known.slug.to_string())).collect())
}

async fn list(backend: &Backend, all: bool) -> Result<(), CliError> {
    let output = backend.output();
    let domains = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => list_stored(local, all).await?,
        Backend::Server(_) if all => {
            return Err(CliError::usage("--all needs the store itself: a key is of one workspace"));
        }
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            let named = |domain| DomainDetails { domain, workspace: workspace.clone() };
            client.domains().await?.into_iter().map(named).collect()
        }
    };
    if output.json {
        return output.object(&json!(domains));
    }
    if domains.is_empty() {
        output.note("no domains: workspace main answers on every host until it, or the operator, names one");
        return Ok(());
    }
    let row = |DomainDetails { domain, workspace }: &DomainDetails| {
        let primary = if domain.primary { "primary" } else { "" };
        let expires_on = domain.expires_on.clone().unwrap_or_default();
        let warning = domain.warning.clone().unwrap_or_default();
        let (host, state) = (domain.host.to_string(), domain.state.to_string());
        vec![host, workspace.clone(), primary.to_owned(), state, expires_on, warning]
    };
    let rows: Vec<Vec<String>> = domains.iter().map(row).collect();
    output.table(&["HOST", "WORKSPACE", "PRIMARY", "STATE", "EXPIRES", "CONCERN"], &rows)
}

async fn list_stored(local: &LocalStore, all: bool) -> Result<Vec<DomainDetails>, CliError> {
    let workspace = local.workspace().await?;
    let (workspaces, now) = (local.store().workspaces().await?, local.now());
    let domains = local.store().domain_records().await?.into_iter();
    let domains = domains.filter(|held| all || held.domain.workspace == workspace.id);
    let named = |held: DomainRecord| {
        let whose = workspaces.iter().find(|known| known.id == held.domain.workspace)?;
        Some(DomainDetails::from_record(held, whose, now))
    };
    Ok(domains.filter_map(named).collect())
}

async fn remove(backend: &Backend, host: &str) -> Result<(), CliError> {
    let host = Host::parse(host)?;
    let workspace = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            // Not through `change`: that would first enter the very domain this may be about.
            local.ops.remove_domain(&local.caller_in(&workspace), &host).await?;
            local.write_checkpoint().await;
            if local.config.domain.as_ref() == Some(&host) {
                local.output.hint(&format!(
                    "{host} is the configured `domain`: the next change enters it again unless you remove it there too"
                ));
            }
            workspace.slug.to_string()
        }
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            client.remove_domain(&host).await?;
            workspace
        }
    };
    if backend.output().json {
        return backend.output().object(&json!({ "host": host, "workspace": workspace, "removed": true }));
    }
    backend.output().line(&format!("removed {host} from workspace {workspace}"))
}

async fn primary(backend: &Backend, host: &str) -> Result<(), CliError> {
    let host = Host::parse(host)?;
    let domain = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async { Ok(local.ops.set_primary_domain(&caller, &host).await?) };
            local.change(change).await?;
            domain_details(local, &workspace, &host).await?
        }
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            DomainDetails { domain: client.set_primary_domain(&host).await?, workspace }
        }
    };
    domain.show(backend.output(), "primary")
}
