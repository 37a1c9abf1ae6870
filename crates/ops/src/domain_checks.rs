//! Who looks after hosts: whether their workspaces have proven them by DNS, where their names lead, and when their registrations end.
//!
//! One custodian for every face: the daily job and `rmax domains check` make a [`run`], the API and the dashboard look at one host.
//! Nothing is asked of the network unless the operator said so. What a look means is decided in [`rlinks_core::workspace::domain_verification`].

mod dns;
pub mod rdap;
pub mod run;

use std::net::{IpAddr, SocketAddr};

use rlinks_core::workspace::domain_verification::{DomainCheck, PointsTo, RecordState, VerificationRecord};
use rlinks_core::{Actor, Domain, DomainStatus, Host, Scope, Slug, Timestamp, Workspace};
use rlinks_store::clock::Random;
use rlinks_store::{DomainRecord, StoreError};
use url::Url;

use self::dns::{RecordType, Resolver};
use super::{Caller, Ops, OpsError, Resource};
use crate::domain_checks::rdap::{RdapClient, RegistrationCache};

/// What stands before a host in the name of its proof.
const PROOF_LABEL_BYTES: usize = "_rlinks.".len();
/// How often a check is repeated after losing a race.
const MAX_VERIFY_ATTEMPTS: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct DomainCheckConfig {
    /// Ask DNS and registries at all.
    pub enabled: bool,
    /// A host that a workspace gives itself must be proven.
    pub require_proof: bool,
    /// The resolver; the system's where there is none.
    pub resolver: Option<SocketAddr>,
    /// The RDAP service; [`rdap::RDAP_SERVICE_URL`] where there is none.
    pub rdap: Option<Url>,
    /// Where hosts should lead; anywhere, where there is nothing.
    pub points_to: Vec<ExpectedAddress>,
}

/// Where a host may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedAddress {
    Address(IpAddr),
    /// To this name, or the addresses it has.
    Name(Host),
}

/// Checks hosts. Off by default.
#[derive(Default)]
pub struct DomainChecker(Option<Probes>);

struct Probes {
    resolver: Resolver,
    rdap: RdapClient,
    require_proof: bool,
    points_to: Vec<ExpectedAddress>,
    random: Random,
}

/// What could not be asked, for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckErrors {
    pub(crate) dns: Option<String>,
    pub(crate) registry: Option<String>,
}

impl DomainChecker {
    pub fn new(options: &DomainCheckConfig, random: Random) -> Result<Self, String> {
        if !options.enabled {
            return Ok(Self(None));
        }
        let default = || Url::parse(crate::domain_checks::rdap::RDAP_SERVICE_URL).expect("it is a URL");
        Ok(Self(Some(Probes {
            resolver: options.resolver.map_or(Resolver::System, Resolver::Server),
            rdap: RdapClient::new(&options.rdap.clone().unwrap_or_else(default))?,
            require_proof: options.require_proof,
            points_to: options.points_to.clone(),
            random,
        })))
    }

    /// Whether anybody is asked.
    pub const fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a host that a workspace gives itself must be proven.
    fn requires_proof(&self) -> bool {
        self.0.as_ref().is_some_and(|probes| probes.require_proof)
    }

    /// Looks at a host in DNS, and at its registration where that is wanted. An address has neither.
    async fn probe(
        &self,
        record: &DomainRecord,
        proof: &VerificationRecord,
        registry: Option<&RegistrationCache>,
    ) -> (DomainCheck, CheckErrors) {
        let (mut seen, mut errors) = (DomainCheck::default(), CheckErrors::default());
        let Some(probes) = self.0.as_ref().filter(|_| !record.domain.host.is_local()) else {
            return (seen, errors);
        };
        if record.verification.needs_proof {
            match probes.check_proof(proof).await {
                Ok(found) => seen.record = Some(found),
                Err(why) => errors.dns = Some(why),
            }
        }
        match probes.check_address(&record.domain.host).await {
            Ok(points) => seen.points_to = Some(points),
            Err(why) => errors.dns = Some(why),
        }
        if let Some(known) = registry {
            match probes.rdap.expiry(&record.domain.host, known).await {
                Ok(end) => seen.registry = Some(end),
                Err(why) => errors.registry = Some(why),
            }
        }
        (seen, errors)
    }
}

impl Probes {
    async fn check_proof(&self, proof: &VerificationRecord) -> Result<RecordState, String> {
        let answer = self.resolver.query(&proof.name, RecordType::Txt, &self.random).await?;
        let is_there = answer.texts.iter().any(|text| text.trim() == proof.value);
        Ok(if is_there { RecordState::Present } else { RecordState::Absent })
    }

    async fn check_address(&self, host: &Host) -> Result<PointsTo, String> {
        let (addresses, names) = self.resolve(host.as_str()).await?;
        let Some(first) = addresses.first() else {
            return Ok(PointsTo::Elsewhere(match names.last() {
                Some(name) => format!("its CNAME leads to {name}, which has no address"),
                None => "its name has no address".to_owned(),
            }));
        };
        if self.points_to.is_empty() {
            return Ok(PointsTo::Us);
        }
        for destination in &self.points_to {
            let leads = match destination {
                ExpectedAddress::Address(address) => addresses.contains(address),
                ExpectedAddress::Name(name) if names.iter().any(|through| through == name.as_str()) => true,
                ExpectedAddress::Name(name) => {
                    let (wanted, _) = self.resolve(name.as_str()).await?;
                    wanted.iter().any(|address| addresses.contains(address))
                }
            };
            if leads {
                return Ok(PointsTo::Us);
            }
        }
        Ok(PointsTo::Elsewhere(format!("its name leads to {first}, which is not here")))
    }

    /// The addresses of a name, and the names it leads through.
    async fn resolve(&self, name: &str) -> Result<(Vec<IpAddr>, Vec<String>), String> {
        let (mut addresses, mut names) = (Vec::new(), Vec::new());
        for kind in [RecordType::A, RecordType::Aaaa] {
            let answer = self.resolver.query(name, kind, &self.random).await?;
            addresses.extend(answer.addresses);
            if names.is_empty() {
                names = answer.names;
            }
        }
        Ok((addresses, names))
    }
}

impl Ops {
    /// Whether a workspace must prove a host it gives itself. What is below the base domain is the operator's already.
    fn must_prove(&self, workspace: &Workspace, host: &Host) -> bool {
        let is_below =
            self.short_urls.base_domain.as_ref().is_some_and(|base| host.subdomain_of(base).is_some());
        self.domain_checker.requires_proof() && workspace.slug.as_str() != Slug::MAIN && !is_below
    }

    /// Adds a host at the word of somebody of a workspace: one that must be proven waits for that. Where another workspace has claimed
    /// it and cannot prove it, whoever can has it.
    pub(crate) async fn claim_domain(&self, caller: &Caller, host: Host) -> Result<Domain, OpsError> {
        let workspace = &caller.workspace;
        let now = self.clock.now();
        if !self.must_prove(workspace, &host) {
            return Ok(self.add_counted_domain(caller, host, DomainStatus::Active).await?);
        }
        if host.as_str().len() + PROOF_LABEL_BYTES > rlinks_core::host::MAX_HOST_BYTES {
            let why = "is too long for the name of the record that would prove it";
            return Err(OpsError::HostReserved { host, why });
        }
        match self.add_counted_domain(caller, host.clone(), DomainStatus::Unverified).await {
            Err(StoreError::NameTaken(name)) => {
                let held = self.store.domain_record(&host).await?;
                let idle = held.filter(|held| held.verification.status() != DomainStatus::Active);
                let held = idle.ok_or(StoreError::NameTaken(name))?;
                self.take_over(caller, &held, now).await
            }
            claimed => Ok(claimed?),
        }
    }

    /// A host that somebody else has and that does not answer goes to the workspace its DNS names.
    async fn take_over(
        &self,
        caller: &Caller,
        record: &DomainRecord,
        now: Timestamp,
    ) -> Result<Domain, OpsError> {
        let workspace = &caller.workspace;
        let host = &record.domain.host;
        let proof = VerificationRecord::new(workspace, host);
        let Some(probes) = &self.domain_checker.0 else {
            return Err(OpsError::DnsUnavailable(disabled_message()));
        };
        self.count_dns_check(caller)?;
        if probes.check_proof(&proof).await.map_err(OpsError::DnsUnavailable)? == RecordState::Absent {
            return Err(OpsError::HostClaimed { host: host.clone(), proof });
        }
        self.writer.release_domain(record, &Actor::system(), now).await?;
        tracing::info!(%host, "a host went to the workspace that proved it");
        let domain = self.add_counted_domain(caller, host.clone(), DomainStatus::Unverified).await?;
        self.look_at_domain(caller, host).await?;
        Ok(domain)
    }

    /// A workspace's host and what is known of it.
    pub async fn domain_record(&self, workspace: &Workspace, host: &Host) -> Result<DomainRecord, OpsError> {
        let held = self.store.domain_record(host).await?;
        let mine = held.filter(|held| held.domain.workspace == workspace.id);
        mine.ok_or_else(|| OpsError::NotFound(Resource::Domain(host.to_string())))
    }

    /// Looks at a host in DNS at once, and at nothing else. How often that may be done in an hour is limited.
    pub async fn verify_domain(&self, caller: &Caller, host: &Host) -> Result<DomainRecord, OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        let record = self.domain_record(&caller.workspace, host).await?;
        if self.domain_checker.is_enabled() && !record.domain.host.is_local() {
            self.count_dns_check(caller)?;
        }
        self.look_at_domain(caller, host).await
    }

    async fn look_at_domain(&self, caller: &Caller, host: &Host) -> Result<DomainRecord, OpsError> {
        let workspace = &caller.workspace;
        for _ in 0..MAX_VERIFY_ATTEMPTS {
            let record = self.domain_record(workspace, host).await?;
            if !self.domain_checker.is_enabled() {
                // Who needs no proof has nothing to look for.
                return if record.verification.needs_proof {
                    Err(OpsError::DnsUnavailable(disabled_message()))
                } else {
                    Ok(record)
                };
            }
            let proof = VerificationRecord::new(workspace, host);
            let (seen, errors) = self.domain_checker.probe(&record, &proof, None).await;
            if let (Some(why), true) = (errors.dns, seen.record.is_none()) {
                return Err(OpsError::DnsUnavailable(why));
            }
            let now = self.clock.now();
            let (verification, events) = record.verification.observe(&seen, now);
            match self.writer.record_domain_check(&record, &verification, &events, &caller.actor, now).await {
                Ok(()) => {
                    self.publish_hosts().await?;
                    return Ok(DomainRecord { verification, ..record });
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }
}

fn disabled_message() -> String {
    "this server asks no DNS (domain_checks.enabled)".to_owned()
}
