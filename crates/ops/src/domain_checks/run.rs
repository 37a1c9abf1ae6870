//! A look at every host: once a day, and whenever the operator wants one.

use std::collections::HashMap;
use std::sync::Arc;

use rlinks_core::workspace::domain_verification::{DomainEvent, VerificationRecord};
use rlinks_core::{Actor, DomainStatus, Host, Id, Slug, Timestamp, Workspace};
use rlinks_store::{DomainRecord, StoreError};
use serde::Serialize;
use tokio::task::JoinSet;

use super::{CheckErrors, DomainCheck};
use crate::domain_checks::rdap::RegistrationCache;
use crate::{Ops, OpsError, WriteMode};

/// Hosts looked at at the same time.
const MAX_CONCURRENT_CHECKS: usize = 8;
/// After so many refusals no registry is asked any more: it is away, or has had enough of us.
const MAX_REGISTRY_FAILURES: usize = 3;

/// A round about to be made.
pub struct CheckRun<'a> {
    pub ops: &'a Ops,
    /// At the hosts of these.
    pub workspaces: &'a [Workspace],
    /// At this one alone.
    pub only: Option<&'a Host>,
    /// When registries are asked.
    pub registry_checks: RegistryChecks,
    /// Do it, or only say what would be done.
    pub mode: WriteMode,
}

/// When registries are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryChecks {
    /// Where that is due: they count how often they are asked.
    WhenDue,
    Now,
}

/// What a round found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DomainCheckReport {
    /// Every host that was looked at.
    pub domains: Vec<CheckedDomain>,
    /// Why DNS could not be asked, where it could not.
    #[serde(rename = "dns_trouble")]
    pub dns_error: Option<String>,
    /// Why a registry could not be asked, where it could not.
    #[serde(rename = "registry_trouble")]
    pub registry_error: Option<String>,
}

/// What was found of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedDomain {
    pub host: Host,
    pub workspace: Slug,
    /// Whether it answers now; nothing where its claim is over.
    pub state: Option<DomainStatus>,
    /// What changed, in words.
    pub changes: Vec<String>,
    /// One of these changes is for somebody to do something about.
    pub alarm: bool,
    /// What somebody should do something about, new or not.
    pub warning: Option<String>,
}

impl CheckRun<'_> {
    pub async fn run(&self, now: Timestamp) -> Result<DomainCheckReport, OpsError> {
        let mut found = DomainCheckReport::default();
        if !self.ops.domain_checker.is_enabled() {
            return Ok(found);
        }
        let workspaces: HashMap<Id, &Workspace> =
            self.workspaces.iter().map(|workspace| (workspace.id, workspace)).collect();
        let mut hosts = self.ops.store.domain_records().await?;
        hosts.retain(|held| {
            let is_wanted = self.only.is_none_or(|only| held.domain.host == *only);
            is_wanted && workspaces.get(&held.domain.workspace).is_some_and(|it| it.deleted_at.is_none())
        });
        // Whoever waited longest is first, so that nobody is always the one who comes too late.
        hosts.sort_by_key(|held| held.verification.checked_at);
        let (known, mut refusals) = (Arc::<RegistrationCache>::default(), 0);
        for some in hosts.chunks(MAX_CONCURRENT_CHECKS) {
            let mut looking = JoinSet::new();
            for held in some {
                let Some(workspace) = workspaces.get(&held.domain.workspace) else { continue };
                let proof = VerificationRecord::new(workspace, &held.domain.host);
                let is_due =
                    self.registry_checks == RegistryChecks::Now || held.verification.is_registry_due(now);
                let known = (is_due && refusals < MAX_REGISTRY_FAILURES).then(|| Arc::clone(&known));
                let (checker, held) = (Arc::clone(&self.ops.domain_checker), held.clone());
                looking.spawn(async move {
                    let looked = checker.probe(&held, &proof, known.as_deref()).await;
                    (held, looked)
                });
            }
            while let Some(looked) = looking.join_next().await {
                let (held, (seen, errors)) =
                    looked.map_err(|error| StoreError::Unavailable(error.to_string()))?;
                refusals += usize::from(errors.registry.is_some());
                found.add_errors(errors);
                let Some(workspace) = workspaces.get(&held.domain.workspace) else { continue };
                found.domains.extend(self.record_check(workspace, held, &seen, now).await?);
            }
        }
        found.domains.sort_by(|one, other| one.host.cmp(&other.host));
        if self.mode == WriteMode::Apply && found.changed().next().is_some() {
            self.ops.publish_hosts().await?;
        }
        Ok(found)
    }

    /// Writes down what was seen. Nothing where somebody changed the host meanwhile: the next look sees more.
    async fn record_check(
        &self,
        workspace: &Workspace,
        record: DomainRecord,
        seen: &DomainCheck,
        now: Timestamp,
    ) -> Result<Option<CheckedDomain>, OpsError> {
        let host = record.domain.host.clone();
        let actor = Actor::system();
        if record.verification.claim_expired(seen, record.domain.created_at, now) {
            let lapsed = match self.mode {
                WriteMode::Apply => self.ops.writer.release_domain(&record, &actor, now).await,
                WriteMode::DryRun => Ok(()),
            };
            let why = "was not proven in 72 hours: it is free again".to_owned();
            let looked = CheckedDomain {
                host,
                workspace: workspace.slug.clone(),
                state: None,
                changes: vec![why],
                alarm: true,
                warning: None,
            };
            return if_recorded(lapsed, looked);
        }
        let (next, events) = record.verification.observe(seen, now);
        let written = match self.mode {
            WriteMode::Apply => {
                self.ops.writer.record_domain_check(&record, &next, &events, &actor, now).await
            }
            WriteMode::DryRun => Ok(()),
        };
        let looked = CheckedDomain {
            host,
            workspace: workspace.slug.clone(),
            state: Some(next.status()),
            changes: events.iter().map(ToString::to_string).collect(),
            alarm: events.iter().any(DomainEvent::is_warning),
            warning: next.warning(now),
        };
        if_recorded(written, looked)
    }
}

fn if_recorded(
    written: Result<(), StoreError>,
    looked: CheckedDomain,
) -> Result<Option<CheckedDomain>, OpsError> {
    match written {
        Ok(()) => Ok(Some(looked)),
        Err(StoreError::Conflict | StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl DomainCheckReport {
    /// The first trouble of each kind stands for all.
    fn add_errors(&mut self, errors: CheckErrors) {
        self.dns_error = self.dns_error.take().or(errors.dns);
        self.registry_error = self.registry_error.take().or(errors.registry);
    }

    /// What could not be asked, in words.
    pub fn failures(&self) -> Vec<String> {
        let words = |about: &str, why: &String| {
            format!("{about} could not be asked about every host, and what is known of those stays: {why}")
        };
        let errors = [("DNS", &self.dns_error), ("a registry", &self.registry_error)];
        errors.into_iter().filter_map(|(about, why)| Some(words(about, why.as_ref()?))).collect()
    }

    /// Those of which there is something new to say.
    pub fn changed(&self) -> impl Iterator<Item = &CheckedDomain> {
        self.domains.iter().filter(|looked| !looked.changes.is_empty())
    }
}
