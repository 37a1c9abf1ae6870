//! A look at every host: once a day, and whenever the operator wants one.

use std::collections::HashMap;
use std::sync::Arc;

use rlinks_core::workspace::domain_verification::{DomainEvent, VerificationRecord};
use rlinks_core::{Actor, DomainStatus, Host, Id, Slug, Timestamp, Workspace};
use rlinks_store::{DomainRecord, Store, StoreError};
use serde::Serialize;
use tokio::task::JoinSet;

use super::{Custodian, DomainCheck, Troubles};
use crate::domain_checks::rdap::Known;
use crate::{Mode, OpsError};

/// Hosts looked at at the same time.
const AT_ONCE: usize = 8;
/// After so many refusals no registry is asked any more: it is away, or has had enough of us.
const MOST_REFUSALS: usize = 3;

/// A round about to be made.
pub struct Round<'a> {
    /// The truth.
    pub store: &'a Store,
    /// Who looks.
    pub custodian: &'a Arc<Custodian>,
    /// At the hosts of these.
    pub workspaces: &'a [Workspace],
    /// At this one alone.
    pub only: Option<&'a Host>,
    /// When registries are asked.
    pub registries: Registries,
    /// Do it, or only say what would be done.
    pub mode: Mode,
}

/// When registries are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registries {
    /// Where that is due: they count how often they are asked.
    WhenDue,
    /// At once.
    Now,
}

/// What a round found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Every host that was looked at.
    pub domains: Vec<Looked>,
    /// Why DNS could not be asked, where it could not.
    #[serde(rename = "dns_trouble")]
    pub dns_trouble: Option<String>,
    /// Why a registry could not be asked, where it could not.
    #[serde(rename = "registry_trouble")]
    pub registry_trouble: Option<String>,
}

/// What was found of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// Which.
    pub host: Host,
    /// Whose.
    pub workspace: Slug,
    /// Whether it answers now; nothing where its claim is over.
    pub state: Option<DomainStatus>,
    /// What changed, in words.
    pub changes: Vec<String>,
    /// One of these changes is for somebody to do something about.
    pub alarm: bool,
    /// What somebody should do something about, new or not.
    pub concern: Option<String>,
}

impl Round<'_> {
    /// Looks.
    pub async fn run(&self, now: Timestamp) -> Result<Found, OpsError> {
        let mut found = Found::default();
        if !self.custodian.is_on() {
            return Ok(found);
        }
        let workspaces: HashMap<Id, &Workspace> =
            self.workspaces.iter().map(|workspace| (workspace.id, workspace)).collect();
        let mut hosts = self.store.domain_records().await?;
        hosts.retain(|held| {
            let is_wanted = self.only.is_none_or(|only| held.domain.host == *only);
            is_wanted && workspaces.get(&held.domain.workspace).is_some_and(|it| it.deleted_at.is_none())
        });
        // Whoever waited longest is first, so that nobody is always the one who comes too late.
        hosts.sort_by_key(|held| held.verification.checked_at);
        let (known, mut refusals) = (Arc::<Known>::default(), 0);
        for some in hosts.chunks(AT_ONCE) {
            let mut looking = JoinSet::new();
            for held in some {
                let Some(workspace) = workspaces.get(&held.domain.workspace) else { continue };
                let proof = VerificationRecord::new(workspace, &held.domain.host);
                let is_due = self.registries == Registries::Now || held.verification.is_registry_due(now);
                let known = (is_due && refusals < MOST_REFUSALS).then(|| Arc::clone(&known));
                let (custodian, held) = (Arc::clone(self.custodian), held.clone());
                looking.spawn(async move {
                    let looked = custodian.look(&held, &proof, known.as_deref()).await;
                    (held, looked)
                });
            }
            while let Some(looked) = looking.join_next().await {
                let (held, (seen, troubles)) =
                    looked.map_err(|error| StoreError::Unavailable(error.to_string()))?;
                refusals += usize::from(troubles.registry.is_some());
                found.note(troubles);
                let Some(workspace) = workspaces.get(&held.domain.workspace) else { continue };
                found.domains.extend(self.keep(workspace, held, &seen, now).await?);
            }
        }
        found.domains.sort_by(|one, other| one.host.cmp(&other.host));
        Ok(found)
    }

    /// Writes down what was seen. Nothing where somebody changed the host meanwhile: the next look sees more.
    async fn keep(
        &self,
        workspace: &Workspace,
        held: DomainRecord,
        seen: &DomainCheck,
        now: Timestamp,
    ) -> Result<Option<Looked>, OpsError> {
        let host = held.domain.host.clone();
        let actor = Actor::system();
        if held.verification.claim_expired(seen, held.domain.created_at, now) {
            let lapsed = match self.mode {
                Mode::Write => self.store.release_domain(&held, &actor, now).await,
                Mode::DryRun => Ok(()),
            };
            let why = "was not proven in 72 hours: it is free again".to_owned();
            let looked = Looked {
                host,
                workspace: workspace.slug.clone(),
                state: None,
                changes: vec![why],
                alarm: true,
                concern: None,
            };
            return kept(lapsed, looked);
        }
        let (next, events) = held.verification.observe(seen, now);
        let written = match self.mode {
            Mode::Write => self.store.record_domain_check(&held, &next, &events, &actor, now).await,
            Mode::DryRun => Ok(()),
        };
        let looked = Looked {
            host,
            workspace: workspace.slug.clone(),
            state: Some(next.status()),
            changes: events.iter().map(ToString::to_string).collect(),
            alarm: events.iter().any(DomainEvent::is_warning),
            concern: next.warning(now),
        };
        kept(written, looked)
    }
}

fn kept(written: Result<(), StoreError>, looked: Looked) -> Result<Option<Looked>, OpsError> {
    match written {
        Ok(()) => Ok(Some(looked)),
        Err(StoreError::Conflict | StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Found {
    /// The first trouble of each kind stands for all.
    fn note(&mut self, troubles: Troubles) {
        self.dns_trouble = self.dns_trouble.take().or(troubles.dns);
        self.registry_trouble = self.registry_trouble.take().or(troubles.registry);
    }

    /// What could not be asked, in words.
    pub fn unasked(&self) -> Vec<String> {
        let words = |about: &str, why: &String| {
            format!("{about} could not be asked about every host, and what is known of those stays: {why}")
        };
        let troubles = [("DNS", &self.dns_trouble), ("a registry", &self.registry_trouble)];
        troubles.into_iter().filter_map(|(about, why)| Some(words(about, why.as_ref()?))).collect()
    }

    /// Those of which there is something new to say.
    pub fn told(&self) -> impl Iterator<Item = &Looked> {
        self.domains.iter().filter(|looked| !looked.changes.is_empty())
    }
}
