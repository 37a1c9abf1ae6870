//! What a group of changes does, worked out in memory: no I/O, so every outcome is a value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rlinks_core::audit::AuditEntry;
use rlinks_core::draft::{LinkIdentity, code_generator};
use rlinks_core::id::WorkerId;
use rlinks_core::{Code, Id, Link, LinkDraft, LinkPatch, LinkSource, LinkState, ServedHosts, Timestamp};

use crate::StoreError;
use crate::audit::chain::{LockedHead, NewEntry};
use crate::audit::log::{STOP_ACTION, link_subject};
use crate::change_limits::{ChangeCounts, LimitDecision, ReachedLimit, limited_changes};
use crate::database::json::json;
use crate::error::LimitedChange;
use crate::links::recover::LinkKey;
use crate::write::idempotency::StoredResults;
use crate::write::link_write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};

/// Everything a group may depend on, loaded under the locks of its workspaces.
pub(super) struct GroupState {
    pub(super) heads: BTreeMap<i64, LockedHead>,
    pub(super) links: HashMap<LinkKey, Link>,
    /// Links read from the log because their row is broken, with the row's id. Any change of one writes the row anew.
    pub(super) broken_rows: HashMap<LinkKey, i64>,
    /// The one generated link that is found by a normalized target, where the policy reuses them.
    pub(super) by_target: HashMap<LinkKey, String>,
    /// Chosen codes in lower case, where the policy compares without case.
    pub(super) by_folded: HashMap<LinkKey, String>,
    /// Links neither deleted nor expired, where the policy limits them.
    pub(super) live: HashMap<i64, i64>,
    pub(super) last_id: Id,
    pub(super) worker: WorkerId,
    pub(super) changed: BTreeSet<LinkKey>,
    pub(super) entries: Vec<(i64, AuditEntry)>,
    /// First answers to requests that may come again.
    pub(super) stored_results: StoredResults,
    /// How many links were changed lately, by whom.
    pub(super) change_counts: ChangeCounts,
}

impl GroupState {
    /// One change: all of it, or an error and nothing.
    pub(super) fn apply(&mut self, write: &LinkWrite) -> Result<Written, StoreError> {
        let workspace = write.workspace.as_i64();
        if self.heads.get(&workspace).is_none_or(|head| head.deleted) {
            return Err(StoreError::NotFound("such workspace".to_owned()));
        }
        if let Some(key) = &write.idempotency_key
            && let Some(replayed) = self.stored_results.get(workspace, key)
        {
            return replayed;
        }
        let written = match &write.op {
            LinkOp::Create { draft, code, source, on_conflict } => {
                self.create(write, draft, code, *source, on_conflict)?
            }
            LinkOp::Replace { next, action } => self.replace(write, next, *action)?,
            LinkOp::Import { link, updated } => self.import(write, link, *updated)?,
            LinkOp::RollBack { next, action } => self.roll_back(write, next, *action)?,
        };
        if let Some(key) = &write.idempotency_key {
            self.stored_results.put(workspace, key, &written, write.now);
        }
        Ok(written)
    }

    fn create(
        &mut self,
        write: &LinkWrite,
        draft: &LinkDraft,
        choice: &CodeChoice,
        source: LinkSource,
        on_conflict: &OnConflict,
    ) -> Result<Written, StoreError> {
        let workspace = write.workspace.as_i64();
        if let OnConflict::Reuse { normalized, sent } = on_conflict
            && let Some(code) = self.by_target.get(&(workspace, normalized.clone()))
            && let Some(link) = self.links.get(&(workspace, code.clone())).cloned()
        {
            return self.reuse(write, link, sent);
        }
        let now = self.heads[&workspace].next_timestamp(write.now);
        let id = Id::next(self.last_id, write.now, self.worker);
        let (code, id, before) =
            self.choose_code(workspace, choice, id, write.now, matches!(on_conflict, OnConflict::Recreate))?;
        let link = draft.to_link(LinkIdentity {
            id,
            workspace: write.workspace,
            code,
            generated: !matches!(choice, CodeChoice::Chosen(_)),
            source,
            created_by: write.owner.clone(),
            created_at: now,
            version: before.as_ref().map_or(1, |before| before.version + 1),
        });
        self.check_quota(write, before.as_ref(), &link)?;
        self.check_change_limits(write, before.as_ref(), &link)?;
        let action = if before.is_some() { "link.recreate" } else { "link.create" };
        self.last_id = id;
        self.put(write, before.as_ref(), link.clone(), action);
        Ok(Written::Created(link))
    }

    /// The code, the id, and the deleted link that makes room.
    fn choose_code(
        &self,
        workspace: i64,
        choice: &CodeChoice,
        first: Id,
        now: Timestamp,
        recreate: bool,
    ) -> Result<(Code, Id, Option<Link>), StoreError> {
        let at = |code: &Code| self.links.get(&(workspace, code.as_str().to_owned()));
        match choice {
            CodeChoice::Chosen(code) => match at(code) {
                Some(there) if there.state == LinkState::Deleted && recreate => {
                    Ok((code.clone(), first, Some(there.clone())))
                }
                Some(there) => Err(code_taken(code.as_str(), there.state == LinkState::Deleted)),
                None => match self.by_folded.get(&(workspace, code.folded())) {
                    Some(alike) => Err(code_taken(alike, false)),
                    None => Ok((code.clone(), first, None)),
                },
            },
            CodeChoice::Candidates(codes) => codes
                .iter()
                .find(|code| at(code).is_none())
                .map(|code| (code.clone(), first, None))
                .ok_or(StoreError::Conflict),
            CodeChoice::FromId => {
                // A chosen code may spell a Snowflake to come; the next id is free.
                let mut id = first;
                for _ in 0..16 {
                    if let Some(code) = code_generator::from_id(id).filter(|code| at(code).is_none()) {
                        return Ok((code, id, None));
                    }
                    id = Id::next(id, now, self.worker);
                }
                Err(StoreError::Conflict)
            }
        }
    }

    fn reuse(&mut self, write: &LinkWrite, link: Link, sent: &LinkPatch) -> Result<Written, StoreError> {
        if link.state == LinkState::Active && !link.is_expired(write.now) {
            // A broken row is not served, so handing it back needs it written anew.
            let broken =
                self.broken_rows.contains_key(&(write.workspace.as_i64(), link.code.as_str().to_owned()));
            let link = if broken { self.change(write, &link, link.clone(), "link.update") } else { link };
            return Ok(Written::Reused(link));
        }
        // The draft was checked already; what can still fail is too many tags, and then the old ones stay.
        let mut next = sent.apply(&link, &ServedHosts::default()).unwrap_or_else(|_| link.clone());
        next.state = LinkState::Active;
        next.expires_at = sent.expires_at.flatten();
        self.check_quota(write, Some(&link), &next)?;
        let action = if link.state == LinkState::Deleted { "link.restore" } else { "link.update" };
        Ok(Written::Revived(self.change(write, &link, next, action)))
    }

    fn replace(&mut self, write: &LinkWrite, next: &Link, action: Action) -> Result<Written, StoreError> {
        let workspace = write.workspace.as_i64();
        let place = (workspace, next.code.as_str().to_owned());
        let before = self
            .links
            .get(&place)
            .cloned()
            .ok_or_else(|| StoreError::NotFound(format!("link `{}`", next.code)))?;
        if before.version != next.version {
            return Err(StoreError::Conflict);
        }
        let next = Link {
            id: before.id,
            workspace: before.workspace,
            generated: before.generated,
            source: before.source,
            created_by: before.created_by.clone(),
            created_at: before.created_at,
            updated_at: before.updated_at,
            ..next.clone()
        };
        if next == before && !self.broken_rows.contains_key(&place) {
            return Ok(Written::Unchanged(before));
        }
        self.check_quota(write, Some(&before), &next)?;
        let normalized = self.normalized(&next);
        if normalized != self.normalized(&before)
            && let Some(normalized) = normalized
            && let Some(other) =
                self.by_target.get(&(workspace, normalized)).filter(|code| *code != next.code.as_str())
        {
            return Err(StoreError::TargetTaken(other.clone()));
        }
        self.check_change_limits(write, Some(&before), &next)?;
        Ok(Written::Changed(self.change(write, &before, next, action.name())))
    }

    /// Writes a link as it was, where nobody has its code: not even a deleted one.
    fn import(
        &mut self,
        write: &LinkWrite,
        link: &Link,
        updated: Option<Timestamp>,
    ) -> Result<Written, StoreError> {
        let workspace = write.workspace.as_i64();
        if let Some(there) = self.links.get(&(workspace, link.code.as_str().to_owned())) {
            return Err(code_taken(there.code.as_str(), there.state == LinkState::Deleted));
        }
        if !link.generated
            && let Some(alike) = self.by_folded.get(&(workspace, link.code.folded()))
        {
            return Err(code_taken(alike, false));
        }
        let moment = self.heads[&workspace].next_timestamp(write.now);
        let link = Link {
            workspace: write.workspace,
            updated_at: updated.unwrap_or(moment),
            created_at: if updated.is_some() { link.created_at } else { link.created_at.min(moment) },
            ..link.clone()
        };
        self.check_quota(write, None, &link)?;
        self.put(write, None, link.clone(), "link.create");
        Ok(Written::Created(link))
    }

    /// Where another link is found by the page this one led to, this one leads there all the same and is not found by it.
    fn roll_back(&mut self, write: &LinkWrite, next: &Link, action: Action) -> Result<Written, StoreError> {
        let place = (write.workspace.as_i64(), next.code.as_str().to_owned());
        let before = self
            .links
            .get(&place)
            .cloned()
            .ok_or_else(|| StoreError::NotFound(format!("link `{}`", next.code)))?;
        if before.version != next.version || before.workspace != next.workspace {
            return Err(StoreError::Conflict);
        }
        let next = Link { updated_at: before.updated_at, ..next.clone() };
        if next == before && !self.broken_rows.contains_key(&place) {
            return Ok(Written::Unchanged(before));
        }
        Ok(Written::Changed(self.change(write, &before, next, action.name())))
    }

    /// Pointing a link that is there elsewhere counts, and so does removing it, whatever the change is called. A stop goes into the log
    /// once.
    fn check_change_limits(
        &mut self,
        write: &LinkWrite,
        before: Option<&Link>,
        next: &Link,
    ) -> Result<(), StoreError> {
        let (Some(limits), Some(before)) = (&write.change_limits, before) else { return Ok(()) };
        let changes = limited_changes(before, next, write.now);
        if changes.is_empty() {
            return Ok(());
        }
        let reached = match self.change_counts.count(write.workspace, limits, &changes, write.now) {
            LimitDecision::Allowed => return Ok(()),
            LimitDecision::Blocked(reached) => reached,
            LimitDecision::Reached(reached) => {
                let workspace = write.workspace.as_i64();
                let head = self.heads.get_mut(&workspace).expect("the workspace's head is locked");
                let entry = head.push(limit_reached_entry(write, &reached), write.now);
                self.entries.push((workspace, entry));
                reached
            }
        };
        Err(reached.error(write.now))
    }

    fn change(&mut self, write: &LinkWrite, before: &Link, mut next: Link, action: &'static str) -> Link {
        next.version = before.version + 1;
        next.updated_at = self.heads[&write.workspace.as_i64()].next_timestamp(write.now);
        self.put(write, Some(before), next.clone(), action);
        next
    }

    /// The form by which two targets are one page, where the policy reuses generated links.
    pub(super) fn normalized(&self, link: &Link) -> Option<String> {
        let reuse = self.heads.get(&link.workspace.as_i64()).is_some_and(|head| head.policy.reuses_links());
        (reuse && link.generated).then(|| link.target.normalized())
    }

    /// What a link is found by for reuse: one link for a page, and not those that were there before the policy reused targets.
    pub(super) fn reuse_key(&self, link: &Link) -> Option<String> {
        let place = (link.workspace.as_i64(), self.normalized(link)?);
        self.by_target.get(&place).is_some_and(|code| code == link.code.as_str()).then_some(place.1)
    }

    /// Whatever makes one more link live needs room for it: a new one, one that comes back, one that was expired.
    pub(super) fn check_quota(
        &self,
        write: &LinkWrite,
        before: Option<&Link>,
        next: &Link,
    ) -> Result<(), StoreError> {
        let workspace = write.workspace.as_i64();
        let more = live_count(next, write.now) - before.map_or(0, |before| live_count(before, write.now));
        match self.heads[&workspace].policy.limits.live_links {
            Some(limit)
                if more > 0
                    && self.live.get(&workspace).copied().unwrap_or_default() + more > i64::from(limit) =>
            {
                Err(StoreError::QuotaExceeded(limit))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn put(&mut self, write: &LinkWrite, before: Option<&Link>, link: Link, action: &'static str) {
        let workspace = write.workspace.as_i64();
        let place = (workspace, link.code.as_str().to_owned());
        if let Some(normalized) = before.and_then(|before| self.reuse_key(before)) {
            self.by_target.remove(&(workspace, normalized));
        }
        if let Some(normalized) = self.normalized(&link) {
            self.by_target.entry((workspace, normalized)).or_insert_with(|| place.1.clone());
        }
        if !link.generated && self.heads[&workspace].policy.code.unique_fold {
            self.by_folded.insert((workspace, link.code.folded()), place.1.clone());
        }
        let counts = |link: &Link| i64::from(link.state != LinkState::Deleted);
        *self.live.entry(workspace).or_default() +=
            live_count(&link, write.now) - before.map_or(0, |before| live_count(before, write.now));
        let head = self.heads.get_mut(&workspace).expect("the workspace's head is locked");
        head.links += counts(&link) - before.map_or(0, counts);
        let entry = NewEntry {
            actor: &write.actor,
            action,
            subject: link_subject(&link.code),
            before: before.map(json),
            after: Some(with_reason(json(&link), write.reason.as_deref())),
        };
        let entry = head.push(entry, write.now);
        self.entries.push((workspace, entry));
        self.broken_rows.remove(&place);
        self.changed.insert(place.clone());
        self.links.insert(place, link);
    }
}

/// An entry's `after` with the reason of the change beside the fields of the link. Who reads links passes over it.
fn with_reason(mut link: String, reason: Option<&str>) -> String {
    if let Some(reason) = reason
        && link.pop() == Some('}')
    {
        link.push_str(",\"reason\":");
        link.push_str(&json(&reason));
        link.push('}');
    }
    link
}

/// What the log says of a stop. The subject is the brake and not the member or key, whose own entries say what they are.
fn limit_reached_entry<'a>(write: &'a LinkWrite, reached: &ReachedLimit) -> NewEntry<'a> {
    let limit = match reached.change {
        LimitedChange::Target => "target_changes_per_minute",
        LimitedChange::Removal => "removals_per_minute",
    };
    let after = serde_json::json!({
        "principal": reached.principal,
        limit: reached.per_minute,
        "stopped_until": reached.until,
    });
    NewEntry {
        actor: &write.actor,
        action: STOP_ACTION,
        subject: format!("brake:{}", reached.principal),
        before: None,
        after: Some(after.to_string()),
    }
}

/// 1 where a link counts against the limit of live links.
fn live_count(link: &Link, now: Timestamp) -> i64 {
    i64::from(link.state != LinkState::Deleted && !link.is_expired(now))
}

fn code_taken(code: &str, deleted: bool) -> StoreError {
    StoreError::CodeTaken { code: code.to_owned(), deleted }
}
