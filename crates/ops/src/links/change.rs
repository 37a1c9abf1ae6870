//! A link that is there: changed, switched off and on, deleted, and brought back.

use rlinks_core::draft::Input;
use rlinks_core::{Code, Link, LinkPatch, LinkState, Scope, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite};

use crate::{Caller, LinkResult, OnDeletedCode, Ops, OpsError, Resource, WriteMode, WriteOutcome};

/// How often a change that names no version is tried again when somebody else was faster.
pub(crate) const MAX_CHANGE_ATTEMPTS: usize = 64;

impl Ops {
    /// Creates or updates: keeps what is not named, re-activates a disabled link, writes nothing when nothing would change.
    pub async fn set(
        &self,
        caller: &Caller,
        code: &str,
        input: &Input,
        on_deleted: OnDeletedCode,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        caller.require(Scope::LinksWrite)?;
        let workspace = &caller.workspace;
        let there = match Code::from_path(code) {
            Some(code) => self.store.link(workspace.id, &code).await?,
            None => None,
        };
        match there {
            Some(link) if link.state != LinkState::Deleted => self.update(caller, &link, input, mode).await,
            Some(link) if on_deleted == OnDeletedCode::Refuse => {
                Err(StoreError::CodeTaken { code: link.code.to_string(), deleted: true }.into())
            }
            _ => {
                let input = Input { code: Some(code.to_owned()), ..input.clone() };
                self.create(caller, &input, on_deleted, None, mode).await
            }
        }
    }

    async fn update(
        &self,
        caller: &Caller,
        link: &Link,
        input: &Input,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let workspace = &caller.workspace;
        let now = self.clock.now();
        let domains = self.served_hosts_for(workspace).await?;
        let mut patch = LinkPatch::parse(input, &workspace.policy, now)?;
        patch.state = Some(patch.state.unwrap_or(LinkState::Active));
        let next = patch.apply(link, &domains)?;
        self.check_cycle(workspace, &link.code, &next.target, &domains).await?;
        let only_enabled = next.state != link.state && Link { state: link.state, ..next.clone() } == *link;
        let action = if only_enabled { Action::Enable } else { Action::Update };
        self.replace(caller, next, link, action, mode).await
    }

    /// Changes what is named and nothing else. With versions, only if one of them is the one there is; without, again when somebody else
    /// was faster.
    pub async fn patch(
        &self,
        caller: &Caller,
        code: &str,
        input: &Input,
        versions: Option<&[i64]>,
    ) -> Result<LinkResult, OpsError> {
        caller.require(Scope::LinksWrite)?;
        let workspace = &caller.workspace;
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let link = self.link(caller, code).await?;
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
            match self.replace(caller, next, &link, action, WriteMode::Apply).await {
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

    /// Switches a link off or on again, or deletes it: then the code stays taken. The versions are as in [`Self::patch`].
    pub async fn change_state(
        &self,
        caller: &Caller,
        code: &str,
        state: LinkState,
        versions: Option<&[i64]>,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        let (scope, action) = match state {
            LinkState::Active => (Scope::LinksWrite, Action::Enable),
            LinkState::Disabled => (Scope::LinksWrite, Action::Disable),
            LinkState::Deleted => (Scope::LinksDelete, Action::Delete),
        };
        caller.require(scope)?;
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let link = self.link(caller, code).await?;
            check_version(&link, versions)?;
            let next = Link { state, ..link.clone() };
            match self.replace(caller, next, &link, action, mode).await {
                Err(OpsError::Store(StoreError::Conflict)) => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Brings a deleted link back as it was before it was deleted.
    pub async fn restore(
        &self,
        caller: &Caller,
        code: &str,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        caller.require(Scope::LinksWrite)?;
        let link = self.any_link(caller, code).await?;
        if link.state != LinkState::Deleted {
            return Ok(LinkResult::new(link, WriteOutcome::Unchanged));
        }
        let deletion = self.store.last_entry(caller.workspace.id, &link.code, "link.delete").await?;
        let state = match deletion.and_then(|entry| entry.before) {
            // A tombstone that was imported: nothing is known of the time before.
            None => LinkState::Active,
            // Guessing could switch a disabled link on.
            Some(before) => {
                let before = serde_json::from_str::<Link>(before.get()).map_err(|error| {
                    tracing::warn!(code = %link.code, %error, "an audit entry cannot be read");
                    OpsError::Unrestorable(format!("what link {} was before it was deleted", link.code))
                })?;
                before.state
            }
        };
        let next = Link { state, ..link.clone() };
        self.replace(caller, next, &link, Action::Restore, mode).await
    }

    /// Makes a link again what an entry of its history left it.
    pub async fn restore_version(
        &self,
        caller: &Caller,
        code: &str,
        seq: i64,
    ) -> Result<LinkResult, OpsError> {
        let now = self.link(caller, code).await?;
        let unknown = || OpsError::NotFound(Resource::LinkVersion(now.code.to_string(), seq));
        let before = seq.checked_add(1).ok_or_else(unknown)?;
        let entries = self.store.history_before(caller.workspace.id, &now.code, before, 1).await?;
        let entry = entries.into_iter().find(|entry| entry.seq == seq).ok_or_else(unknown)?;
        let after = entry.after.ok_or_else(unknown)?;
        let then: Link = serde_json::from_str(after.get()).map_err(|error| {
            tracing::warn!(code = %now.code, seq, %error, "an audit entry cannot be read");
            OpsError::Unrestorable(format!("version {seq} of link {}", now.code))
        })?;
        self.patch(caller, code, &Input::to_restore(then, &now), None).await
    }

    async fn replace(
        &self,
        caller: &Caller,
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
            change_limits: self.change_limits(caller),
            ..LinkWrite::new(seen.workspace, caller.actor.clone(), self.clock.now(), op)
        };
        let done = LinkResult::from(self.writer.write(write).await?);
        self.publish(&done.link);
        Ok(done)
    }
}

fn check_version(link: &Link, versions: Option<&[i64]>) -> Result<(), OpsError> {
    match versions {
        Some(versions) if !versions.contains(&link.version) => Err(OpsError::VersionMismatch(link.version)),
        _ => Ok(()),
    }
}
