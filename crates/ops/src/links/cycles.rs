//! Cycles among our own links, in the store.

use rlinks_core::redirect::cycles::CycleWalk;
use rlinks_core::{Code, ServedHosts, Target, Workspace};

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
        if !domains.contains(target.host()) {
            return Ok(());
        }
        let (workspaces, directory) = self.host_directory().await?;
        let workspace_of = |host: &str| {
            // While no domain is configured `main` answers on every host, and only our own is ours.
            directory.workspace_of(host).filter(|_| domains.contains(host)).map(|view| view.id)
        };
        let mut walk = CycleWalk::new(workspace.id, code, &workspace.policy.code, target);
        while let Some(next) = walk.next_link(workspace_of) {
            let found = match workspaces.iter().find(|workspace| workspace.id == next.workspace) {
                Some(workspace) => self.find_link(workspace, &next.code).await?,
                None => None,
            };
            walk.follow(&next, found.as_ref().map(|link| (&link.code, &link.target)))?;
        }
        Ok(())
    }
}
