//! Changing links at Cloudflare: read, compute, read again and refuse if it moved, write, tell the log.

use std::collections::HashMap;

use rlinks_core::draft::{Input, LinkIdentity};
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::redirect::cycles::{CycleWalk, HostTrust, LinkHost};
use rlinks_core::{
    Code, FieldError, Id, Link, LinkDraft, LinkPatch, LinkSource, LinkState, Target, Timestamp,
};
use rlinks_ops::{OnDeletedCode, Resource, WriteMode, WriteOutcome};
use rlinks_store::StoreError;

use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::LinkEvent;
use crate::backend::cloudflare::objects::{
    ObjectSnapshot, StoredObject, Tombstone, new_value, route_key, tombstone_key,
};
use crate::backend::links::LinkResult;
use crate::error::CliError;

/// What a change does, or would do.
pub(crate) struct ChangeResult {
    /// The link before it, where there was one.
    pub(crate) before: Option<Link>,
    pub(crate) result: LinkResult,
}

impl Cloudflare {
    /// Creates or updates, as a store does: keeps what is not named, switches a disabled link on.
    pub(crate) async fn set(
        &self,
        code: &str,
        input: &Input,
        deleted: OnDeletedCode,
        mode: WriteMode,
    ) -> Result<ChangeResult, CliError> {
        let there = match Code::from_path(code) {
            Some(code) => self.object_at(&code).await?,
            None => None,
        };
        match there {
            Some(kept) => self.update(kept, input, mode).await,
            None => self.create(code, input, deleted, mode).await,
        }
    }

    async fn update(
        &self,
        kept: StoredObject,
        input: &Input,
        mode: WriteMode,
    ) -> Result<ChangeResult, CliError> {
        let now = now();
        let mut patch = LinkPatch::parse(input, &self.policy, now)?;
        patch.state = Some(patch.state.unwrap_or(LinkState::Active));
        let next = patch.apply(&kept.link, &self.served_hosts)?;
        self.refuse_cycle(&kept.link.code, &next.target).await?;
        let only_enabled =
            next.state != kept.link.state && Link { state: kept.link.state, ..next.clone() } == kept.link;
        let action = if only_enabled { "link.enable" } else { "link.update" };
        self.replace(kept, next, action, mode).await
    }

    async fn create(
        &self,
        code: &str,
        input: &Input,
        deleted: OnDeletedCode,
        mode: WriteMode,
    ) -> Result<ChangeResult, CliError> {
        let now = now();
        let input = Input { code: Some(code.to_owned()), ..input.clone() };
        let draft = LinkDraft::parse(&input, &self.policy, &self.served_hosts, now)?;
        let code = draft.code.clone().expect("a code was given, and without an error it is there");
        self.refuse_cycle(&code, &draft.target).await?;
        let tombstone = self.api.get(&self.routes, &tombstone_key(&code)).await?;
        if tombstone.is_some() && deleted == OnDeletedCode::Refuse {
            return Err(StoreError::CodeTaken { code: code.to_string(), deleted: true }.into());
        }
        let link = draft.to_link(LinkIdentity {
            id: Id::from_i64(0),
            workspace: Id::from_i64(0),
            code: code.clone(),
            generated: false,
            source: LinkSource::Cli,
            created_by: self.actor.clone(),
            created_at: now,
            version: 0,
        });
        if mode == WriteMode::Apply {
            self.ensure_unchanged(&code, &ObjectSnapshot::Missing).await?;
            let tombstone_now = self.api.get(&self.routes, &tombstone_key(&code)).await?;
            if tombstone_now != tombstone {
                return Err(changed_meanwhile(&code));
            }
            self.api.put(&self.routes, &route_key(&code), new_value(&link, ClickTotals::default())).await?;
            if tombstone.is_some() {
                self.api.delete(&self.routes, &tombstone_key(&code)).await?;
            }
            let action = if tombstone.is_some() { "link.recreate" } else { "link.create" };
            self.record_event(&LinkEvent { action, before: None, after: &link }, now).await?;
        }
        Ok(self.change_result(None, link, ClickTotals::default(), WriteOutcome::Created))
    }

    /// Switches a link off or on again.
    pub(crate) async fn change_state(&self, code: &str, state: LinkState) -> Result<LinkResult, CliError> {
        let kept = self.stored_object(code).await?;
        let next = Link { state, ..kept.link.clone() };
        let action = if state == LinkState::Active { "link.enable" } else { "link.disable" };
        Ok(self.replace(kept, next, action, WriteMode::Apply).await?.result)
    }

    async fn replace(
        &self,
        kept: StoredObject,
        next: Link,
        action: &'static str,
        mode: WriteMode,
    ) -> Result<ChangeResult, CliError> {
        if next == kept.link {
            let stats = kept.stats;
            return Ok(self.change_result(Some(kept.link), next, stats, WriteOutcome::Unchanged));
        }
        let now = update_time(now(), &kept.link);
        let next = Link { updated_at: now, ..next };
        let mut stats = kept.stats;
        if mode == WriteMode::Apply {
            // Somebody may have counted meanwhile: that is no change, and is kept.
            let fresh = self.ensure_unchanged(&next.code, &kept.snapshot).await?;
            stats = fresh.map_or(stats, |fresh| fresh.stats);
            self.api.put(&self.routes, &route_key(&next.code), kept.updated_value(&next, stats)).await?;
            self.record_event(&LinkEvent { action, before: Some(&kept.link), after: &next }, now).await?;
        }
        Ok(self.change_result(Some(kept.link), next, stats, WriteOutcome::Changed))
    }

    /// Deletes a link and gives what is left of it. The tombstone comes first: cut off in between, the link is there as before and can
    /// be deleted again.
    pub(crate) async fn delete_link(&self, code: &Code) -> Result<LinkResult, CliError> {
        let kept = self.stored_object(code.as_str()).await?;
        let now = update_time(now(), &kept.link);
        let tombstone = Tombstone::from_object(&kept, &self.actor, now);
        let gone = Link { state: LinkState::Deleted, updated_at: now, ..kept.link.clone() };
        self.ensure_unchanged(code, &kept.snapshot).await?;
        self.api.put(&self.routes, &tombstone_key(code), tombstone.value()).await?;
        self.api.delete(&self.routes, &route_key(code)).await?;
        self.record_event(&LinkEvent { action: "link.delete", before: Some(&kept.link), after: &gone }, now)
            .await?;
        Ok(self.change_result(Some(kept.link), gone, kept.stats, WriteOutcome::Changed).result)
    }

    /// Brings a deleted link back as it was. The link comes first: cut off in between, it is there and the tombstone has no meaning.
    pub(crate) async fn restore(&self, code: &str) -> Result<LinkResult, CliError> {
        for code in super::links::code_spellings(code) {
            if let Some(kept) = self.object_at(&code).await? {
                return Ok(self.change_result(None, kept.link, kept.stats, WriteOutcome::Unchanged).result);
            }
            let Some(tombstone) = self.tombstone(&code).await? else { continue };
            let Some(kept) = tombstone.object() else {
                return Err(CliError::conflict(format!("the tombstone of `{code}` does not hold the link it was"))
                    .hint(format!("a store published the deletion: there, `rmax links restore {code}` and `rmax publish` bring it back"))
                    .hint(format!("`rmax links set {code} <url> --recreate` makes a new link of it here")));
            };
            let now = update_time(now(), &kept.link);
            let back = Link { updated_at: now, ..kept.link.clone() };
            let gone =
                Link { state: LinkState::Deleted, updated_at: tombstone.deleted_at, ..kept.link.clone() };
            self.ensure_unchanged(&code, &ObjectSnapshot::Missing).await?;
            self.api.put(&self.routes, &route_key(&code), kept.updated_value(&back, kept.stats)).await?;
            self.api.delete(&self.routes, &tombstone_key(&code)).await?;
            self.record_event(&LinkEvent { action: "link.restore", before: Some(&gone), after: &back }, now)
                .await?;
            return Ok(self.change_result(Some(gone), back, kept.stats, WriteOutcome::Changed).result);
        }
        Err(CliError::not_found(Resource::Link(code.to_owned())))
    }

    /// Reads once more, right before writing.
    pub(crate) async fn ensure_unchanged(
        &self,
        code: &Code,
        seen: &ObjectSnapshot,
    ) -> Result<Option<StoredObject>, CliError> {
        let fresh = self.api.get(&self.routes, &route_key(code)).await?;
        if ObjectSnapshot::from_value(fresh.as_deref()) != *seen {
            return Err(changed_meanwhile(code));
        }
        Ok(fresh.and_then(|value| StoredObject::parse(code, &value).ok()))
    }

    /// Refuses a target that leads, through links of ours, back to where it started, or through too many of them.
    async fn refuse_cycle(&self, code: &Code, target: &Target) -> Result<(), CliError> {
        match self.cycle_error(code, target, &HashMap::new()).await? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// What is wrong with a target that leads to links of ours. `planned` are the targets of codes in lower case that are being
    /// written, and what is there may not tell of them yet.
    pub(crate) async fn cycle_error(
        &self,
        code: &Code,
        target: &Target,
        planned: &HashMap<String, Target>,
    ) -> Result<Option<FieldError>, CliError> {
        let ours = LinkHost { workspace: (), trust: HostTrust::Ours };
        let host_of = |host: &str| self.served_hosts.contains(host).then_some(ours);
        let mut walk = CycleWalk::new((), code, &self.policy.code, target);
        while let Some(next) = walk.next_link(host_of) {
            let folded = Code::from_path(&next.code.to_ascii_lowercase());
            let planned = folded.as_ref().and_then(|code| Some((code, planned.get(code.as_str())?)));
            let stored = if planned.is_none() { self.find(&next.code).await? } else { None };
            let stored = stored.as_ref().map(|kept| (&kept.link.code, &kept.link.target));
            if let Err(error) = walk.follow(&next, planned.or(stored)) {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    fn change_result(
        &self,
        before: Option<Link>,
        link: Link,
        stats: ClickTotals,
        outcome: WriteOutcome,
    ) -> ChangeResult {
        ChangeResult {
            before,
            result: LinkResult { details: self.link_details(link, stats), outcome, not_applied: Vec::new() },
        }
    }
}

/// When a change happens: always later than the one before, so that who looks at `updated_at` sees it.
pub(crate) fn update_time(now: Timestamp, link: &Link) -> Timestamp {
    if now > link.updated_at { now } else { link.updated_at.plus_ms(1) }
}

fn changed_meanwhile(code: &Code) -> CliError {
    CliError::conflict(format!("link `{code}` was changed by somebody else meanwhile; nothing was written"))
        .hint(format!(
            "`rmax links get {code}` shows it as it is now; repeat the change if it is still wanted"
        ))
}
