//! Whose a host may become, and which hosts a link must not lead back to.
//!
//! Nobody proves that a host is theirs, so a workspace's own word counts for that workspace alone: its links answer there, and for the
//! others nothing changes. What the operator says (command line, configuration, workspace `main`) counts for everybody.

use rlinks_core::{Domain, Domains, Host, Slug, Workspace};

use super::{By, Ops, OpsError};

impl Ops {
    /// Gives a workspace a host, at the word of somebody of that workspace. True says that it had it before.
    pub async fn claim_domain(
        &self,
        by: &By,
        workspace: &Workspace,
        host: Host,
    ) -> Result<(Domain, bool), OpsError> {
        let there = self.store.domains().await?;
        let had = there.iter().any(|known| known.host == host && known.workspace == workspace.id);
        if !had && let Some(why) = self.kept_from(workspace, &host) {
            return Err(OpsError::HostKept { host, why });
        }
        let added = self.store.add_domain(workspace.id, host, &by.actor, self.clock.now()).await?;
        Ok((added, had))
    }

    /// Why a workspace cannot give itself a host. The operator can, at the command line.
    fn kept_from(&self, workspace: &Workspace, host: &Host) -> Option<&'static str> {
        let is_main = workspace.slug.as_str() == Slug::MAIN;
        if let Some(base) = &self.naming.base_domain {
            let slug = host.below(base);
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
        let ours = [&self.own_host, &self.naming.domain];
        if host.is_local() || ours.into_iter().flatten().any(|ours| ours == host) {
            return Some("is how this server itself is reached; only its operator gives it away");
        }
        None
    }

    /// The hosts that links of a workspace must not lead back to.
    pub async fn served_to(&self, workspace: &Workspace) -> Result<Domains, OpsError> {
        let known = self.routes.as_ref().filter(|routes| routes.is_fresh() && routes.knows_hosts());
        if let Some(routes) = known {
            let directory = routes.directory.load();
            if let Some(served) = directory.served_to(&workspace.slug) {
                let own = self.own_host.clone().filter(|_| directory.is_open());
                return Ok(own.map_or_else(|| served.clone(), |host| served.with_own([host])));
            }
        }
        let domains = self.store.domains().await?;
        let common = self.served().await?;
        let own = domains.into_iter().filter(|domain| domain.workspace == workspace.id);
        Ok(common.with_own(own.map(|domain| domain.host)))
    }

    /// Those no link must lead back to, whosever it is.
    pub async fn served(&self) -> Result<Domains, OpsError> {
        let mut hosts = self.store.vouched_hosts().await?;
        if hosts.is_empty() {
            hosts.extend(self.own_host.clone());
        }
        Ok(Domains::new(hosts, self.naming.base_domain.as_ref()))
    }
}
