//! `rmax domains verify` and `check`: what DNS and registries say of hosts.

use rlinks_core::{DomainStatus, Host, Workspace};
use rlinks_ops::WriteMode;
use rlinks_ops::domain_checks::run::{CheckRun, DomainCheckReport, RegistryChecks};

use super::{DomainDetails, domain_details};
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;

/// Looks for the proof of a host at once.
pub(super) async fn verify(backend: &Backend, host: &str) -> Result<(), CliError> {
    let host = Host::parse(host)?;
    let hosted = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let look = async { Ok(local.ops.verify_domain(&caller, &host).await?) };
            DomainDetails::from_record(local.change(look).await?, &workspace, local.now())
        }
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            DomainDetails { domain: client.verify_domain(&host).await?, workspace }
        }
    };
    hosted.show(backend.output(), "looked at")
}

/// The operator's word for a host that is there: whether it waits for its proof or lost it, it answers.
pub(super) async fn trust(local: &LocalStore, workspace: &Workspace, host: &Host) -> Result<(), CliError> {
    let held = local.ops.domain_record(workspace, host).await?;
    if held.verification.status() == DomainStatus::Active {
        return DomainDetails::from_record(held, workspace, local.now()).show(local.output, "unchanged");
    }
    let caller = local.caller_in(workspace);
    local.change(async { Ok(local.ops.trust_domain(&caller, &held).await?) }).await?;
    domain_details(local, workspace, host).await?.show(local.output, "trusted")
}

/// What the daily job does about hosts, at once, registries included.
pub(super) async fn check(backend: &Backend, host: Option<&str>) -> Result<(), CliError> {
    let Backend::Store(local) = backend else { return Err(CliError::needs_store()) };
    let only = host.map(Host::parse).transpose()?;
    if !local.ops.domain_checker.is_enabled() {
        return Err(CliError::usage("nobody is asked about hosts: `domain_checks.enabled` is not set")
            .hint("set `domain_checks.enabled = true` in rmax.toml, or RMAX_DOMAIN_CHECKS_ENABLED=true"));
    }
    let workspaces = local.store().workspaces().await?;
    let round = CheckRun {
        ops: &local.ops,
        workspaces: &workspaces,
        only: only.as_ref(),
        registry_checks: RegistryChecks::Now,
        mode: WriteMode::Apply,
    };
    let found = local.change(async { Ok(round.run(local.now()).await?) }).await?;
    if let Some(only) = only.filter(|_| found.domains.is_empty()) {
        return Err(CliError::from(rlinks_ops::OpsError::NotFound(rlinks_ops::Resource::Domain(
            only.to_string(),
        ))));
    }
    report(local, &found)
}

fn report(local: &LocalStore, found: &DomainCheckReport) -> Result<(), CliError> {
    let output = local.output;
    found.failures().iter().for_each(|why| output.warning(why));
    if output.json {
        return output.object(&serde_json::json!(found));
    }
    for looked in &found.domains {
        let (host, workspace) = (&looked.host, &looked.workspace);
        let state = looked.state.map_or_else(|| "free".to_owned(), |state| state.to_string());
        let mut words = looked.changes.clone();
        words.extend(looked.warning.clone().filter(|warning| !looked.changes.contains(warning)));
        let words = if words.is_empty() { "nothing to say".to_owned() } else { words.join("; ") };
        output.line(&format!("{host} (workspace {workspace}): {state}, {words}"))?;
    }
    if found.domains.is_empty() {
        output.note("no domains");
    }
    Ok(())
}
