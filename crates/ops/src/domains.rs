//! Whose a host may become, and which hosts a link must not lead back to.
//!
//! A workspace's own word counts for that workspace alone, and where [`crate::domain_checks`] asks for a proof only once there is one: its
//! links answer there, and for the others nothing changes. What the operator says (command line, configuration, workspace `main`)
//! counts for everybody.

use rlinks_core::link::search;
use rlinks_core::{Code, Domain, DomainStatus, Host, LinkState, Scope, ServedHosts, Workspace};
use rlinks_store::{DomainQuota, DomainRecord, LinkFilter, StoreError};

use crate::{Caller, Ops, OpsError};

/// So many links are looked at for those that lead to a host.
const MAX_LINKS_CHECKED: i64 = 1000;

impl Ops {
    /// Gives the caller's workspace a host. True says that it had it before. The operator's word counts at once and for everybody;
    /// anybody else's only for their own workspace, and not for hosts that are kept.
    pub async fn add_domain(&self, caller: &Caller, host: Host) -> Result<(Domain, bool), OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        let workspace = &caller.workspace;
        let known = self.store.domains().await?;
        let had = known.iter().any(|known| known.host == host && known.workspace == workspace.id);
        let added = if caller.is_trusted() {
            self.add_counted_domain(caller, host, DomainStatus::Active).await?
        } else {
            if !had && let Some(why) = self.reserved_reason(workspace, &host) {
                return Err(OpsError::HostReserved { host, why });
            }
            // Any host may be one that people reach the links of `main` by, and it would be this workspace's from now on.
            if !had && !workspace.is_main() && self.main_answers_any_host().await? {
                let why = "may be one that workspace `main` answers on, as it does on every host until the operator \
                           configures a domain; until then only the operator can add it";
                return Err(OpsError::HostReserved { host, why });
            }
            self.claim_domain(caller, host).await?
        };
        self.publish_hosts().await?;
        Ok((added, had))
    }

    /// Adds a host, if the quota of the caller and of their workspace has room for it. The operator's hosts count for the workspace
    /// alone; the server's own, from its configuration, are added whatever the quota.
    pub(crate) async fn add_counted_domain(
        &self,
        caller: &Caller,
        host: Host,
        status: DomainStatus,
    ) -> Result<Domain, StoreError> {
        let is_configured = caller.is_trusted() && self.short_urls.domain.as_ref() == Some(&host);
        let quota = DomainQuota {
            counted_for: caller.counted_for().cloned(),
            quota: self.domain_quota().filter(|_| !is_configured),
        };
        let (workspace, now) = (caller.workspace.id, self.clock.now());
        self.writer.add_counted_domain(workspace, host, status, quota, &caller.actor, now).await
    }

    /// The operator stands behind a host that waits for its proof, or lost it: it answers, and none is asked for.
    pub async fn trust_domain(&self, caller: &Caller, seen: &DomainRecord) -> Result<(), OpsError> {
        caller.require_operator("only the operator answers for a host without its proof")?;
        self.writer.trust_domain(seen, &caller.actor, self.clock.now()).await?;
        Ok(self.publish_hosts().await?)
    }

    /// Removes a host of the caller's workspace: it no longer answers.
    pub async fn remove_domain(&self, caller: &Caller, host: &Host) -> Result<(), OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        self.writer.remove_domain(caller.workspace.id, host, &caller.actor, self.clock.now()).await?;
        Ok(self.publish_hosts().await?)
    }

    /// Makes a host the one short URLs are written with.
    pub async fn set_primary_domain(&self, caller: &Caller, host: &Host) -> Result<Domain, OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        let (workspace, now) = (caller.workspace.id, self.clock.now());
        let primary = self.writer.set_primary_domain(workspace, host, &caller.actor, now).await?;
        self.publish_hosts().await?;
        Ok(primary)
    }

    /// Why a workspace cannot give itself a host. The operator can, at the command line.
    fn reserved_reason(&self, workspace: &Workspace, host: &Host) -> Option<&'static str> {
        let is_main = workspace.is_main();
        if let Some(base) = &self.short_urls.base_domain {
            let slug = host.subdomain_of(base);
            if slug == Some(workspace.slug.as_str()) {
                return None;
            }
            if slug.is_some() || (host == base && !is_main) {
                return Some("is kept: below the base domain every workspace has the host of its own name");
            }
        }
        if is_main {
            return None;
        }
        let ours = [&self.own_host, &self.short_urls.domain];
        if host.is_local() || ours.into_iter().flatten().any(|ours| ours == host) {
            return Some("is how this server itself is reached; only its operator gives it away");
        }
        None
    }

    /// Whether links of a workspace answer on every host nobody has, for as long as no domain is configured.
    pub async fn answers_any_host(&self, workspace: &Workspace) -> Result<bool, OpsError> {
        Ok(workspace.is_main() && self.main_answers_any_host().await?)
    }

    /// Whether `main` answers on every unclaimed host: no domain is configured.
    pub async fn main_answers_any_host(&self) -> Result<bool, OpsError> {
        Ok(self.short_urls.domain.is_none() && self.store.operator_hosts().await?.is_empty())
    }

    /// Links of a workspace that lead to a host and must not lead back here: once it is the workspace's, they answer no more. There may
    /// be more of them than are looked at.
    pub async fn links_to(&self, workspace: &Workspace, host: &Host) -> Result<Vec<Code>, OpsError> {
        let filter = LinkFilter {
            words: search::parse_query(host.as_str()),
            states: vec![LinkState::Active],
            ..LinkFilter::default()
        };
        let found = self.store.list(workspace.id, &filter, MAX_LINKS_CHECKED).await?;
        let leads = found.into_iter().filter(|link| link.no_loop && link.target.host() == host.as_str());
        Ok(leads.map(|link| link.code).collect())
    }

    /// The hosts that links of a workspace must not lead back to.
    pub async fn served_hosts_for(&self, workspace: &Workspace) -> Result<ServedHosts, OpsError> {
        let known = self.routes.as_ref().filter(|routes| routes.is_fresh() && routes.is_directory_loaded());
        if let Some(routes) = known {
            let directory = routes.directory.load();
            if let Some(served) = directory.served_hosts(&workspace.slug) {
                let own = self.own_host.clone().filter(|_| directory.serves_any_host());
                return Ok(own.map_or_else(|| served.clone(), |host| served.with_workspace_hosts([host])));
            }
        }
        let domains = self.store.domains().await?;
        let common = self.common_served_hosts().await?;
        let silent = self.store.unverified_hosts().await?;
        let own = domains
            .into_iter()
            .filter(|domain| domain.workspace == workspace.id && !silent.contains(&domain.host));
        Ok(common.with_workspace_hosts(own.map(|domain| domain.host)))
    }

    /// Those no link must lead back to, whosever it is.
    pub async fn common_served_hosts(&self) -> Result<ServedHosts, OpsError> {
        let mut hosts = self.store.operator_hosts().await?;
        if hosts.is_empty() {
            hosts.extend(self.own_host.clone());
        }
        hosts.extend(self.store.verified_hosts().await?);
        Ok(ServedHosts::new(hosts, self.short_urls.base_domain.as_ref()))
    }
}
