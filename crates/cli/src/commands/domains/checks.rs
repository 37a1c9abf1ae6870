//! `rmax domains verify` and `check`: what DNS and registries say of hosts.

use rlinks_core::{DomainStatus, Host, Workspace};
use rlinks_ops::domain_checks::run::{Found, Registries, Round};
use rlinks_ops::{By, Mode};

use super::{Hosted, shown};
use crate::backend::Place;
use crate::backend::local_store::Session;
use crate::error::Failure;

/// Looks for the proof of a host at once.
pub(super) async fn verify(place: &Place, host: &str) -> Result<(), Failure> {
    let host = Host::parse(host)?;
    let hosted = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let by = By::operator(session.actor());
            let look = async { Ok(session.ops.verify_domain(&by, &workspace, &host).await?) };
            Hosted::of(session.change(look).await?, &workspace, session.now())
        }
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            Hosted { workspace, ..remote.verify_domain(&host).await? }
        }
    };
    hosted.show(place.output(), "looked at")
}

/// The operator's word for a host that is there: whether it waits for its proof or lost it, it answers.
pub(super) async fn trust(session: &Session, workspace: &Workspace, host: &Host) -> Result<(), Failure> {
    let held = session.ops.held(workspace, host).await?;
    if held.verification.status() == DomainStatus::Active {
        return Hosted::of(held, workspace, session.now()).show(session.output, "unchanged");
    }
    let (actor, now) = (session.actor(), session.now());
    session.change(async { Ok(session.store().trust_domain(&held, &actor, now).await?) }).await?;
    shown(session, workspace, host).await?.show(session.output, "trusted")
}

/// What the daily job does about hosts, at once, registries included.
pub(super) async fn check(place: &Place, host: Option<&str>) -> Result<(), Failure> {
    let Place::Store(session) = place else { return Err(Failure::needs_store()) };
    let only = host.map(Host::parse).transpose()?;
    if !session.ops.custodian.is_on() {
        return Err(Failure::usage("nobody is asked about hosts: `domain_checks.enabled` is not set")
            .hint("set `domain_checks.enabled = true` in rmax.toml, or RMAX_DOMAIN_CHECKS_ENABLED=true"));
    }
    let workspaces = session.store().workspaces().await?;
    let round = Round {
        store: session.store(),
        custodian: &session.ops.custodian,
        workspaces: &workspaces,
        only: only.as_ref(),
        registries: Registries::Now,
        mode: Mode::Write,
    };
    let found = session.change(async { Ok(round.run(session.now()).await?) }).await?;
    if let Some(only) = only.filter(|_| found.domains.is_empty()) {
        return Err(Failure::from(rlinks_ops::OpsError::NotFound(rlinks_ops::Thing::Domain(
            only.to_string(),
        ))));
    }
    report(session, &found)
}

fn report(session: &Session, found: &Found) -> Result<(), Failure> {
    let output = session.output;
    found.unasked().iter().for_each(|why| output.warning(why));
    if output.json {
        return output.object(&serde_json::json!(found));
    }
    for looked in &found.domains {
        let (host, workspace) = (&looked.host, &looked.workspace);
        let state = looked.state.map_or_else(|| "free".to_owned(), |state| state.to_string());
        let mut words = looked.changes.clone();
        words.extend(looked.concern.clone().filter(|concern| !looked.changes.contains(concern)));
        let words = if words.is_empty() { "nothing to say".to_owned() } else { words.join("; ") };
        output.line(&format!("{host} (workspace {workspace}): {state}, {words}"))?;
    }
    if found.domains.is_empty() {
        output.note("no domains");
    }
    Ok(())
}
