//! Whose a host may become, and which hosts a link must not lead back to.
//!
//! A workspace's own word counts for that workspace alone, and where [`crate::domain_checks`] asks for a proof only once there is one: its
//! links answer there, and for the others nothing changes. What the operator says (command line, configuration, workspace `main`)
//! counts for everybody.

use rlinks_core::link::search;
use rlinks_core::{Code, Domain, Host, LinkState, ServedHosts, Slug, Workspace};
use rlinks_store::LinkFilter;

use super::{Ops, OpsError, Requester};

/// So many links are looked at for those that lead to a host.
const MAX_LINKS_CHECKED: i64 = 1000;

impl Ops {
    /// Gives a workspace a host, at the word of somebody of that workspace. True says that it had it before.
    pub async fn claim_domain(
        &self,
        by: &Requester,
        workspace: &Workspace,
        host: Host,
    ) -> Result<(Domain, bool), OpsError> {
        let there = self.store.domains().await?;
        let had = there.iter().any(|known| known.host == host && known.workspace == workspace.id);
        if !had && let Some(why) = self.reserved_reason(workspace, &host) {
            return Err(OpsError::HostReserved { host, why });
        }
        let added = self.add_claimed(by, workspace, host).await?;
        Ok((added, had))
    }

    /// Why a workspace cannot give itself a host. The operator can, at the command line.
    fn reserved_reason(&self, workspace: &Workspace, host: &Host) -> Option<&'static str> {
        let is_main = workspace.slug.as_str() == Slug::MAIN;
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
        Ok(workspace.slug.as_str() == Slug::MAIN && self.store.operator_hosts().await?.is_empty())
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
        Ok(ServedHosts::new(hosts, self.short_urls.base_domain.as_ref()))
    }
}
