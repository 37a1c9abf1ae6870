//! Changing links at Cloudflare: read, compute, read again and refuse if it moved, write, tell the log.

use std::collections::HashMap;

use rlinks_core::draft::{Input, LinkIdentity};
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::redirect::path::{RequestPath, parse_path};
use rlinks_core::{
    Code, FieldCode, FieldError, Id, Link, LinkDraft, LinkPatch, LinkSource, LinkState, Target, Timestamp,
};
use rlinks_ops::{Deleted, Mode, Outcome, Thing};
use rlinks_store::StoreError;

use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::Deed;
use crate::backend::cloudflare::objects::{Kept, Seen, Tombstone, route_key, tombstone_key, value};
use crate::backend::links::Made;
use crate::error::Failure;

/// The most links of our own a visitor is led through.
const DEEPEST: usize = 10;

/// What a change does, or would do.
pub(crate) struct Changed {
    /// The link before it, where there was one.
    pub(crate) before: Option<Link>,
    pub(crate) made: Made,
}

impl Cloudflare {
    /// Creates or updates, as a store does: keeps what is not named, switches a disabled link on.
    pub(crate) async fn set(
        &self,
        code: &str,
        input: &Input,
        deleted: Deleted,
        mode: Mode,
    ) -> Result<Changed, Failure> {
        let there = match Code::from_path(code) {
            Some(code) => self.at(&code).await?,
            None => None,
        };
        match there {
            Some(kept) => self.update(kept, input, mode).await,
            None => self.create(code, input, deleted, mode).await,
        }
    }

    async fn update(&self, kept: Kept, input: &Input, mode: Mode) -> Result<Changed, Failure> {
        let now = now();
        let mut patch = LinkPatch::parse(input, &self.policy, now)?;
        patch.state = Some(patch.state.unwrap_or(LinkState::Active));
        let next = patch.apply(&kept.link, &self.domains)?;
        self.refuse_circle(&kept.link.code, &next.target).await?;
        let only_enabled =
            next.state != kept.link.state && Link { state: kept.link.state, ..next.clone() } == kept.link;
        let action = if only_enabled { "link.enable" } else { "link.update" };
        self.replace(kept, next, action, mode).await
    }

    async fn create(
        &self,
        code: &str,
        input: &Input,
        deleted: Deleted,
        mode: Mode,
    ) -> Result<Changed, Failure> {
        let now = now();
        let input = Input { code: Some(code.to_owned()), ..input.clone() };
        let draft = LinkDraft::parse(&input, &self.policy, &self.domains, now)?;
        let code = draft.code.clone().expect("a code was given, and without an error it is there");
        self.refuse_circle(&code, &draft.target).await?;
        let tombstone = self.api.get(&self.routes, &tombstone_key(&code)).await?;
        if tombstone.is_some() && deleted == Deleted::Refuse {
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
        if mode == Mode::Write {
            self.refuse_moved(&code, &Seen::Nothing).await?;
            let tombstone_now = self.api.get(&self.routes, &tombstone_key(&code)).await?;
            if tombstone_now != tombstone {
                return Err(moved(&code));
            }
            self.api.put(&self.routes, &route_key(&code), value(&link, ClickTotals::default())).await?;
            if tombstone.is_some() {
                self.api.delete(&self.routes, &tombstone_key(&code)).await?;
            }
            let action = if tombstone.is_some() { "link.recreate" } else { "link.create" };
            self.note(&Deed { action, before: None, after: &link }, now).await?;
        }
        Ok(self.changed(None, link, ClickTotals::default(), Outcome::Created))
    }

    /// Switches a link off or on again.
    pub(crate) async fn switch(&self, code: &str, state: LinkState) -> Result<Made, Failure> {
        let kept = self.kept(code).await?;
        let next = Link { state, ..kept.link.clone() };
        let action = if state == LinkState::Active { "link.enable" } else { "link.disable" };
        Ok(self.replace(kept, next, action, Mode::Write).await?.made)
    }

    async fn replace(
        &self,
        kept: Kept,
        next: Link,
        action: &'static str,
        mode: Mode,
    ) -> Result<Changed, Failure> {
        if next == kept.link {
            let stats = kept.stats;
            return Ok(self.changed(Some(kept.link), next, stats, Outcome::Unchanged));
        }
        let now = after(now(), &kept.link);
        let next = Link { updated_at: now, ..next };
        let mut stats = kept.stats;
        if mode == Mode::Write {
            // Somebody may have counted meanwhile: that is no change, and is kept.
            let fresh = self.refuse_moved(&next.code, &kept.seen).await?;
            stats = fresh.map_or(stats, |fresh| fresh.stats);
            self.api.put(&self.routes, &route_key(&next.code), kept.with(&next, stats)).await?;
            self.note(&Deed { action, before: Some(&kept.link), after: &next }, now).await?;
        }
        Ok(self.changed(Some(kept.link), next, stats, Outcome::Changed))
    }

    /// Deletes a link and gives what is left of it. The tombstone comes first: cut off in between, the link is there as before and can
    /// be deleted again.
    pub(crate) async fn delete_link(&self, code: &Code) -> Result<Made, Failure> {
        let kept = self.kept(code.as_str()).await?;
        let now = after(now(), &kept.link);
        let tombstone = Tombstone::of(&kept, &self.actor, now);
        let gone = Link { state: LinkState::Deleted, updated_at: now, ..kept.link.clone() };
        self.refuse_moved(code, &kept.seen).await?;
        self.api.put(&self.routes, &tombstone_key(code), tombstone.value()).await?;
        self.api.delete(&self.routes, &route_key(code)).await?;
        self.note(&Deed { action: "link.delete", before: Some(&kept.link), after: &gone }, now).await?;
        Ok(self.changed(Some(kept.link), gone, kept.stats, Outcome::Changed).made)
    }

    /// Brings a deleted link back as it was. The link comes first: cut off in between, it is there and the tombstone has no meaning.
    pub(crate) async fn restore(&self, code: &str) -> Result<Made, Failure> {
        for code in super::links::spellings(code) {
            if let Some(kept) = self.at(&code).await? {
                return Ok(self.changed(None, kept.link, kept.stats, Outcome::Unchanged).made);
            }
            let Some(tombstone) = self.tombstone(&code).await? else { continue };
            let Some(kept) = tombstone.kept() else {
                return Err(Failure::conflict(format!("the tombstone of `{code}` does not hold the link it was"))
                    .hint(format!("a store published the deletion: there, `rmax links restore {code}` and `rmax publish` bring it back"))
                    .hint(format!("`rmax links set {code} <url> --recreate` makes a new link of it here")));
            };
            let now = after(now(), &kept.link);
            let back = Link { updated_at: now, ..kept.link.clone() };
            let gone =
                Link { state: LinkState::Deleted, updated_at: tombstone.deleted_at, ..kept.link.clone() };
            self.refuse_moved(&code, &Seen::Nothing).await?;
            self.api.put(&self.routes, &route_key(&code), kept.with(&back, kept.stats)).await?;
            self.api.delete(&self.routes, &tombstone_key(&code)).await?;
            self.note(&Deed { action: "link.restore", before: Some(&gone), after: &back }, now).await?;
            return Ok(self.changed(Some(gone), back, kept.stats, Outcome::Changed).made);
        }
        Err(Failure::not_found(Thing::Link(code.to_owned())))
    }

    /// Reads once more, right before writing.
    pub(crate) async fn refuse_moved(&self, code: &Code, seen: &Seen) -> Result<Option<Kept>, Failure> {
        let fresh = self.api.get(&self.routes, &route_key(code)).await?;
        if Seen::of(fresh.as_deref()) != *seen {
            return Err(moved(code));
        }
        Ok(fresh.and_then(|value| Kept::read(code, &value).ok()))
    }

    /// Refuses a target that leads, through links of ours, back to where it started, or through too many of them.
    async fn refuse_circle(&self, code: &Code, target: &Target) -> Result<(), Failure> {
        match self.circle(code, target, &HashMap::new()).await? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// What is wrong with a target that leads to links of ours. `planned` are the targets of codes in lower case that are being
    /// written, and what is there may not tell of them yet.
    pub(crate) async fn circle(
        &self,
        code: &Code,
        target: &Target,
        planned: &HashMap<String, Target>,
    ) -> Result<Option<FieldError>, Failure> {
        let mut target = target.clone();
        for _ in 0..DEEPEST {
            if !self.domains.contains(target.host()) {
                return Ok(None);
            }
            let Some(next) = path_code(&target) else { return Ok(None) };
            if next.folded() == code.folded() {
                return Ok(Some(loops(
                    "leads, through links of our own, back to this link: visitors would go in circles",
                )));
            }
            if let Some(planned) = planned.get(&next.folded()) {
                target = planned.clone();
                continue;
            }
            match self.find(next.as_str()).await? {
                Some(kept) => target = kept.link.target,
                None => return Ok(None),
            }
        }
        Ok(Some(loops("leads through more than ten links of our own")))
    }

    fn changed(&self, before: Option<Link>, link: Link, stats: ClickTotals, outcome: Outcome) -> Changed {
        Changed { before, made: Made { seen: self.seen(link, stats), outcome, not_applied: Vec::new() } }
    }
}

/// When a change happens: always later than the one before, so that who looks at `updated_at` sees it.
pub(crate) fn after(now: Timestamp, link: &Link) -> Timestamp {
    if now > link.updated_at { now } else { link.updated_at.plus_ms(1) }
}

fn moved(code: &Code) -> Failure {
    Failure::conflict(format!("link `{code}` was changed by somebody else meanwhile; nothing was written"))
        .hint(format!(
            "`rmax links get {code}` shows it as it is now; repeat the change if it is still wanted"
        ))
}

/// The code a URL of ours asks for.
fn path_code(target: &Target) -> Option<Code> {
    let after_host = &target.as_str()[target.host_range().1..];
    let path = &after_host[after_host.find('/')?..];
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    match parse_path(path) {
        RequestPath::Code(code) => Code::from_path(&code),
        _ => None,
    }
}

fn loops(message: &str) -> FieldError {
    FieldError::new("target", FieldCode::Loop, message)
}
