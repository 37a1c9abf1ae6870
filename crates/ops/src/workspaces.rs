//! Workspaces: made, changed, deleted and brought back.

use rlinks_core::{Actor, Policy, Scope, Slug, Workspace};
use rlinks_store::StoreError;

use crate::{Caller, Ops, OpsError};

/// What to change about a workspace; `None` leaves it.
#[derive(Clone, Debug, Default)]
pub struct WorkspacePatch {
    pub name: Option<String>,
    pub policy: Option<Policy>,
}

/// Why only the operator makes, deletes and restores workspaces.
const OPERATOR_ONLY: &str = "workspaces are made and deleted where the store is";

impl Ops {
    /// Makes a workspace; only the operator can. A slug is never reused.
    pub async fn create_workspace(
        &self,
        operator: &Actor,
        slug: Slug,
        name: String,
        policy: Policy,
    ) -> Result<Workspace, OpsError> {
        if operator.user().is_some() || operator.key().is_some() {
            return Err(OpsError::Forbidden(OPERATOR_ONLY));
        }
        let made = self.writer.create_workspace(slug, name, policy, operator, self.clock.now()).await?;
        self.publish_hosts().await?;
        Ok(made)
    }

    /// Changes name or policy of the caller's workspace, if it is still as the caller read it. A policy binds new writes; links that are
    /// there keep answering.
    pub async fn update_workspace(
        &self,
        caller: &Caller,
        patch: WorkspacePatch,
    ) -> Result<Workspace, OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        let seen = &caller.workspace;
        let action = match &patch.policy {
            Some(policy) if *policy != seen.policy => "workspace.policy",
            _ => "workspace.update",
        };
        let next = Workspace {
            name: patch.name.unwrap_or_else(|| seen.name.clone()),
            policy: patch.policy.unwrap_or_else(|| seen.policy.clone()),
            ..seen.clone()
        };
        Ok(self.replace_workspace(caller, next, action).await?)
    }

    /// Deletes the caller's workspace: its links answer 404, and nothing is erased.
    pub async fn delete_workspace(&self, caller: &Caller) -> Result<Workspace, OpsError> {
        caller.require_operator(OPERATOR_ONLY)?;
        let next = Workspace { deleted_at: Some(self.clock.now()), ..caller.workspace.clone() };
        Ok(self.replace_workspace(caller, next, "workspace.delete").await?)
    }

    /// Brings the caller's workspace back.
    pub async fn restore_workspace(&self, caller: &Caller) -> Result<Workspace, OpsError> {
        caller.require_operator(OPERATOR_ONLY)?;
        let next = Workspace { deleted_at: None, ..caller.workspace.clone() };
        Ok(self.replace_workspace(caller, next, "workspace.restore").await?)
    }

    async fn replace_workspace(
        &self,
        caller: &Caller,
        next: Workspace,
        action: &str,
    ) -> Result<Workspace, StoreError> {
        let (seen, now) = (&caller.workspace, self.clock.now());
        let changed = self.writer.update_workspace(seen, next, action, &caller.actor, now).await?;
        self.publish_hosts().await?;
        Ok(changed)
    }
}
