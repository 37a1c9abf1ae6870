//! Cycles among our own links, in the store.

use std::collections::HashSet;

use rlinks_core::redirect::cycles::{CycleWalk, HostTrust, LinkHost};
use rlinks_core::{Code, Host, ServedHosts, Target, Workspace};

use crate::{Ops, OpsError};

impl Ops {
    /// Refuses a target that leads, through links of ours, back to where it started, or through too many of them.
    pub(crate) async fn check_cycle(
        &self,
        workspace: &Workspace,
        code: &Code,
        target: &Target,
        domains: &ServedHosts,
    ) -> Result<(), OpsError> {
        if !domains.contains(target.host()) && !self.is_claimed(target.host()).await? {
            return Ok(());
        }
        let (workspaces, directory) = self.host_directory().await?;
        let host_of = |host: &str| {
            if domains.contains(host) {
                let workspace = directory.workspace_of(host)?.id;
                return Some(LinkHost { workspace, trust: HostTrust::Ours });
            }
            // While no domain is configured `main` answers on every host; such a host isn't claimed.
            let workspace = directory.dedicated_workspace(host)?.id;
            Some(LinkHost { workspace, trust: HostTrust::Claimed })
        };
        let mut walk = CycleWalk::new(workspace.id, code, &workspace.policy.code, target);
        while let Some(next) = walk.next_link(host_of) {
            let found = match workspaces.iter().find(|workspace| workspace.id == next.workspace) {
                Some(workspace) => self.find_link(workspace, &next.code).await?,
                None => None,
            };
            walk.follow(&next, found.as_ref().map(|link| (&link.code, &link.target)))?;
        }
        Ok(())
    }

    /// Hosts that other workspaces merely claim: all but those in `domains`.
    pub(crate) async fn claimed_hosts(&self, domains: &ServedHosts) -> Result<HashSet<String>, OpsError> {
        let hosts = self.store.domains().await?.into_iter().map(|domain| domain.host.to_string());
        Ok(hosts.filter(|host| !domains.contains(host)).collect())
    }

    /// Whether some workspace has this host.
    async fn is_claimed(&self, host: &str) -> Result<bool, OpsError> {
        if let Some(routes) = &self.routes {
            return Ok(routes.directory.load().dedicated_workspace(host).is_some());
        }
        let Ok(host) = Host::parse(host) else { return Ok(false) };
        Ok(self.store.domain_record(&host).await?.is_some())
    }
}
