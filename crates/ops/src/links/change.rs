//! A link that is there: changed, switched off and on, deleted, and brought back.

use rlinks_core::draft::Input;
use rlinks_core::{Code, Link, LinkPatch, LinkState, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite};

use crate::{LinkResult, OnDeletedCode, Ops, OpsError, Requester, WriteMode, WriteOutcome};

/// How often a change that names no version is tried again when somebody else was faster.
pub(crate) const MAX_CHANGE_ATTEMPTS: usize = 64;

impl Ops {
    /// Creates or updates: keeps what is not named, re-activates a disabled link, writes nothing when nothing would change.
    pub async fn set(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        input: &Input,
        on_deleted: OnDeletedCode,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let there = match Code::from_path(code) {
            Some(code) => self.store.link(workspace.id, &code).await?,
            None => None,
        };
        match there {
            Some(link) if link.state != LinkState::Deleted => {
                self.update(by, workspace, &link, input, mode).await
            }
            Some(link) if on_deleted == OnDeletedCode::Refuse => {
                Err(StoreError::CodeTaken { code: link.code.to_string(), deleted: true }.into())
            }
            _ => {
                let input = Input { code: Some(code.to_owned()), ..input.clone() };
                self.create(by, workspace, &input, on_deleted, None, mode).await
            }
        }
    }

    async fn update(
        &self,
        by: &Requester,
        workspace: &Workspace,
        link: &Link,
        input: &Input,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let now = self.clock.now();
        let domains = self.served_hosts_for(workspace).await?;
        let mut patch = LinkPatch::parse(input, &workspace.policy, now)?;
        patch.state = Some(patch.state.unwrap_or(LinkState::Active));
        let next = patch.apply(link, &domains)?;
        self.check_cycle(workspace, &link.code, &next.target, &domains).await?;
        let only_enabled = next.state != link.state && Link { state: link.state, ..next.clone() } == *link;
        let action = if only_enabled { Action::Enable } else { Action::Update };
        self.replace(by, next, link, action, mode).await
    }

    /// Changes what is named and nothing else. With versions, only if one of them is the one there is; without, again when somebody else
    /// was faster.
    pub async fn patch(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        input: &Input,
        versions: Option<&[i64]>,
    ) -> Result<LinkResult, OpsError> {
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let link = self.link(by, workspace, code).await?;
            check_version(&link, versions)?;
            let domains = self.served_hosts_for(workspace).await?;
            let next =
                LinkPatch::parse(input, &workspace.policy, self.clock.now())?.apply(&link, &domains)?;
            if next.target != link.target {
                self.check_cycle(workspace, &link.code, &next.target, &domains).await?;
            }
            let only_state = next.state != link.state && Link { state: link.state, ..next.clone() } == link;
            let action = match next.state {
                LinkState::Active if only_state => Action::Enable,
                LinkState::Disabled if only_state => Action::Disable,
                _ => Action::Update,
            };
            match self.replace(by, next, &link, action, WriteMode::Apply).await {
                Err(OpsError::Store(StoreError::Conflict))
                    if self.has_changed_since(workspace, &link).await? => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Whether somebody else has changed a link since it was read.
    async fn has_changed_since(&self, workspace: &Workspace, seen: &Link) -> Result<bool, OpsError> {
        let now = self.store.link(workspace.id, &seen.code).await?;
        Ok(now.is_none_or(|now| now.version != seen.version))
    }

    /// Deletes a link; the code stays taken. The versions are as in [`Self::patch`].
    pub async fn delete(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        versions: Option<&[i64]>,
    ) -> Result<LinkResult, OpsError> {
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let link = self.link(by, workspace, code).await?;
            check_version(&link, versions)?;
            let next = Link { state: LinkState::Deleted, ..link.clone() };
            match self.replace(by, next, &link, Action::Delete, WriteMode::Apply).await {
                Err(OpsError::Store(StoreError::Conflict)) => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Switches a link off or on again, or deletes it: then the code stays taken.
    pub async fn change_state(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        state: LinkState,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let action = match state {
            LinkState::Active => Action::Enable,
            LinkState::Disabled => Action::Disable,
            LinkState::Deleted => Action::Delete,
        };
        let link = self.link(by, workspace, code).await?;
        let next = Link { state, ..link.clone() };
        self.replace(by, next, &link, action, mode).await
    }

    /// Brings a deleted link back as it was before it was deleted.
    pub async fn restore(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let link = self.any_link(by, workspace, code).await?;
        if link.state != LinkState::Deleted {
            return Ok(LinkResult::new(link, WriteOutcome::Unchanged));
        }
        let deletion = self.store.last_entry(workspace.id, &link.code, "link.delete").await?;
        let before = deletion.and_then(|entry| entry.before);
        let before = before.and_then(|json| serde_json::from_str::<Link>(json.get()).ok());
        let state = before.map_or(LinkState::Active, |before| before.state);
        let next = Link { state, ..link.clone() };
        self.replace(by, next, &link, Action::Restore, mode).await
    }

    async fn replace(
        &self,
        by: &Requester,
        next: Link,
        seen: &Link,
        action: Action,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let unchanged = next == *seen;
        self.check_change(seen, &next).await?;
        if unchanged || mode == WriteMode::DryRun {
            return Ok(LinkResult::new(
                next,
                if unchanged { WriteOutcome::Unchanged } else { WriteOutcome::Changed },
            ));
        }
        let op = LinkOp::Replace { next: Box::new(next), action };
        let write = LinkWrite {
            target_change_limit: by.target_change_limit(self.target_changes_per_minute),
            ..LinkWrite::new(seen.workspace, by.actor.clone(), self.clock.now(), op)
        };
        Ok(self.store.write(write).await?.into())
    }
}

fn check_version(link: &Link, versions: Option<&[i64]>) -> Result<(), OpsError> {
    match versions {
        Some(versions) if !versions.contains(&link.version) => Err(OpsError::VersionMismatch(link.version)),
        _ => Ok(()),
    }
}
