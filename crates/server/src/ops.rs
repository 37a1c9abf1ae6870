//! What can be done to links, once: the command line, the API and the dashboard are faces of these functions.
//!
//! A new link's walk: parse against the policy, check, pick a code, let the store write link and audit entry together. Errors
//! are values that each face maps in one place.

mod address;
mod bulk;
pub mod custody;
mod domains;
mod explain;
pub mod list;
mod loops;
pub mod people;
pub mod rollback;
pub mod safety;
pub mod sweep;
pub mod transfer;

use std::sync::Arc;

use rlinks_core::draft::{Birth, Input};
use rlinks_core::envelope::ErrorCode;
use rlinks_core::policy::Generator;
use rlinks_core::{
    Actor, Code, Domains, FieldErrors, Host, Link, LinkDraft, LinkPatch, LinkState, Slug, Source, Timestamp,
    Workspace, generate,
};
use rlinks_store::write::{Action, Brake, CodeChoice, Existing, LinkOp, LinkWrite, Once, Written};
use rlinks_store::{Store, StoreError};

pub use self::address::Naming;
use self::custody::Custodian;
pub use self::explain::Explanation;
use self::safety::Safety;
use crate::clock::{Clock, random_bytes};
use crate::routes::Routes;

/// How often a change that names no version is tried again when somebody else was faster.
const CHANGE_TRIES: usize = 64;
/// How often a generated code may meet a taken one before we give up: with fresh candidates each time, practically never.
const TRIES: usize = 8;
/// Candidates offered to the store at once.
const CANDIDATES: usize = 4;
/// Salts of a deterministic code that are tried.
const SALTS: u32 = 16;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// Fields that break a rule.
    #[error("{0}")]
    Invalid(#[from] FieldErrors),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(Thing),
    /// There was one, and it was deleted.
    #[error("the {0} was deleted")]
    Deleted(Thing),
    /// The version that was named is not the one there is.
    #[error("this has changed since you read it: it is at version {0}")]
    Stale(i64),
    /// Something this actor may not do.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A host that is not for whoever asks first.
    #[error("`{host}` {why}")]
    HostKept {
        /// Which.
        host: Host,
        /// What it is kept for.
        why: &'static str,
    },
    /// A host that another workspace has claimed and not proven.
    #[error("`{host}` is claimed by another workspace, which has not proven it: set the TXT record {} to `{}` and add it again", .proof.name, .proof.value)]
    HostHeld {
        /// Which.
        host: Host,
        /// What proves it for whoever asks.
        proof: rlinks_core::custody::Proof,
    },
    /// DNS could not be asked, and why.
    #[error("DNS cannot be asked now: {0}; try again later")]
    NotAsked(String),
    /// A target that harms whoever follows it.
    #[error("the target is not safe: {0}")]
    Unsafe(safety::Reason),
    /// Whether a target is safe could not be found out, and that is needed.
    #[error("whether the target is safe cannot be found out now: {0}; try again later")]
    Unchecked(String),
    /// The store's word.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpsError {
    /// The error as programs know it.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::ValidationFailed,
            Self::Stale(_) => ErrorCode::PreconditionFailed,
            Self::Forbidden(_) => ErrorCode::Forbidden,
            Self::NotFound(_) | Self::Deleted(_) | Self::Store(StoreError::NotFound(_)) => {
                ErrorCode::NotFound
            }
            Self::Unsafe(_) => ErrorCode::UnsafeTarget,
            Self::Unchecked(_)
            | Self::NotAsked(_)
            | Self::Store(StoreError::Unavailable(_) | StoreError::Clicks(_)) => ErrorCode::KvUnavailable,
            Self::Store(StoreError::Braked { .. }) => ErrorCode::RateLimited,
            Self::Store(StoreError::CodeTaken { .. }) => ErrorCode::CodeTaken,
            Self::HostKept { .. }
            | Self::HostHeld { .. }
            | Self::Store(
                StoreError::Conflict
                | StoreError::TargetTaken(_)
                | StoreError::NameTaken(_)
                | StoreError::OtherRequest
                | StoreError::LastAdmin,
            ) => ErrorCode::Conflict,
            Self::Store(StoreError::QuotaExceeded(_)) => ErrorCode::QuotaExceeded,
            Self::Store(StoreError::Refused(_) | StoreError::Unreadable(_)) => ErrorCode::Internal,
        }
    }
}

/// What was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A workspace by its slug.
    Workspace(String),
    /// A link by its code.
    Link(String),
    /// A link by its code as it was at some moment.
    LinkAt(String, Timestamp),
    /// A member by id or address.
    User(String),
    /// A key by id.
    Key(String),
    /// A domain by its host.
    Domain(String),
}

impl std::fmt::Display for Thing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workspace(slug) => write!(out, "workspace `{slug}`"),
            Self::Link(code) => write!(out, "link `{code}`"),
            Self::LinkAt(code, at) => write!(out, "link `{code}` at {at}"),
            Self::User(who) => write!(out, "user `{who}`"),
            Self::Key(id) => write!(out, "key `{id}`"),
            Self::Domain(host) => write!(out, "domain `{host}`"),
        }
    }
}

/// Who does it, and through which face.
#[derive(Clone, Debug)]
pub struct By {
    /// Who.
    pub actor: Actor,
    /// Whose a new link becomes: the actor's, or, where a member's key acts, the member's.
    pub owner: Actor,
    /// As whom they are counted: the owner, or, where a key is nobody's, whoever answers for it.
    pub counted_as: Actor,
    /// Through what.
    pub source: Source,
    /// Which links are there for them.
    pub sees: Sees,
}

/// Which links are there for somebody. The others are not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// All of the workspace.
    All,
    /// Those they own.
    Own,
}

impl By {
    /// The operator at the command line.
    pub fn operator(actor: Actor) -> Self {
        let (owner, counted_as) = (actor.clone(), actor.clone());
        Self { actor, owner, counted_as, source: Source::Cli, sees: Sees::All }
    }

    /// Whether a link is there for them.
    pub fn can_see(&self, link: &Link) -> bool {
        self.sees == Sees::All || link.created_by == self.owner
    }

    /// How many targets they may change in a minute, of `changes_per_minute` for everybody: members and keys are limited, the operator
    /// and the system are not.
    pub fn brake(&self, changes_per_minute: u32) -> Option<Brake> {
        let principal = &self.counted_as;
        let is_limited = principal.user().is_some() || principal.key().is_some();
        (is_limited && changes_per_minute > 0)
            .then(|| Brake { principal: principal.clone(), changes_per_minute })
    }
}

/// What to do about a code that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Refuse, and say the way out.
    Refuse,
    /// Make the link anew.
    Recreate,
}

impl Deleted {
    /// What was sent about it.
    pub fn sent(input: &Input) -> Self {
        if input.recreate == Some(true) { Self::Recreate } else { Self::Refuse }
    }
}

/// Write, or only say what would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Do it.
    Write,
    /// Only look.
    DryRun,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The link as it is now, or would be.
    pub link: Link,
    /// What was, or would be, done.
    pub outcome: Outcome,
    /// What was asked for and a link that was handed back does not have.
    pub not_applied: Vec<&'static str>,
    /// The same request was answered before, and this is that answer.
    pub again: bool,
}

impl Done {
    fn new(link: Link, outcome: Outcome) -> Self {
        Self { link, outcome, not_applied: Vec::new(), again: false }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new link.
    Created,
    /// A changed one.
    Changed,
    /// Nothing needed to change.
    Unchanged,
    /// An equal link was there.
    Reused,
    /// An equal link was there and was brought back.
    Revived,
}

impl From<Written> for Done {
    fn from(written: Written) -> Self {
        match written {
            Written::Created(link) => Self::new(link, Outcome::Created),
            Written::Changed(link) => Self::new(link, Outcome::Changed),
            Written::Unchanged(link) => Self::new(link, Outcome::Unchanged),
            Written::Reused(link) => Self::new(link, Outcome::Reused),
            Written::Revived(link) => Self::new(link, Outcome::Revived),
            Written::Again(first) => Self { again: true, ..Self::from(*first) },
        }
    }
}

/// The operations, on one store.
#[derive(Clone)]
pub struct Ops {
    /// The truth.
    pub store: Store,
    /// How links are shown.
    pub naming: Naming,
    /// The host short URLs are written with while no domain is configured: it is ours too.
    pub own_host: Option<Host>,
    /// What time it is.
    pub clock: Clock,
    /// What the serving threads know, in a server: hosts are read from there while it is fresh.
    pub routes: Option<Arc<Routes>>,
    /// Which targets are safe.
    pub safety: Arc<Safety>,
    /// Who looks after hosts.
    pub custodian: Arc<Custodian>,
    /// How many targets of existing links one member or key may change in a minute; 0 is as many as they like.
    pub target_changes_per_minute: u32,
}

impl Ops {
    /// A living workspace by its slug.
    pub async fn workspace(&self, slug: &Slug) -> Result<Workspace, OpsError> {
        match self.store.workspace(slug).await? {
            Some(workspace) if workspace.deleted_at.is_none() => Ok(workspace),
            Some(_) => Err(OpsError::Deleted(Thing::Workspace(slug.to_string()))),
            None => Err(OpsError::NotFound(Thing::Workspace(slug.to_string()))),
        }
    }

    /// A link that is not deleted. Where the policy folds case, so does this.
    pub async fn link(&self, by: &By, workspace: &Workspace, code: &str) -> Result<Link, OpsError> {
        match self.any_link(by, workspace, code).await? {
            link if link.state == LinkState::Deleted => {
                Err(OpsError::Deleted(Thing::Link(link.code.to_string())))
            }
            link => Ok(link),
        }
    }

    /// A link, deleted or not.
    pub async fn any_link(&self, by: &By, workspace: &Workspace, code: &str) -> Result<Link, OpsError> {
        let found = self.find(workspace, code).await?.filter(|link| by.can_see(link));
        found.ok_or_else(|| OpsError::NotFound(Thing::Link(code.to_owned())))
    }

    /// A link as it was at a moment, if it was there then.
    pub async fn link_at(
        &self,
        by: &By,
        workspace: &Workspace,
        code: &str,
        at: Timestamp,
    ) -> Result<Link, OpsError> {
        let now = self.any_link(by, workspace, code).await?;
        let then = self.store.link_at(workspace.id, &now.code, at).await?;
        then.filter(|link| link.state != LinkState::Deleted && by.can_see(link))
            .ok_or_else(|| OpsError::NotFound(Thing::LinkAt(now.code.to_string(), at)))
    }

    async fn find(&self, workspace: &Workspace, code: &str) -> Result<Option<Link>, OpsError> {
        let Some(exact) = Code::from_path(code) else { return Ok(None) };
        if let Some(link) = self.store.link(workspace.id, &exact).await? {
            return Ok(Some(link));
        }
        match Code::from_path(&exact.folded()) {
            Some(folded) if workspace.policy.code.fold_case && folded != exact => {
                Ok(self.store.link(workspace.id, &folded).await?)
            }
            _ => Ok(None),
        }
    }

    /// The state of whatever has this code, or one that differs by case alone where the policy tells no difference.
    pub async fn code_taken(
        &self,
        workspace: &Workspace,
        code: &Code,
    ) -> Result<Option<LinkState>, OpsError> {
        if let Some(link) = self.store.link(workspace.id, code).await? {
            return Ok(Some(link.state));
        }
        if workspace.policy.code.unique_fold && self.store.folded_code_taken(workspace.id, code).await? {
            return Ok(Some(LinkState::Active));
        }
        Ok(None)
    }

    /// Creates or updates: keeps what is not named, re-activates a disabled link, writes nothing when nothing would change.
    pub async fn set(
        &self,
        by: &By,
        workspace: &Workspace,
        code: &str,
        input: &Input,
        deleted: Deleted,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let there = match Code::from_path(code) {
            Some(code) => self.store.link(workspace.id, &code).await?,
            None => None,
        };
        match there {
            Some(link) if link.state != LinkState::Deleted => {
                self.update(by, workspace, &link, input, mode).await
            }
            Some(link) if deleted == Deleted::Refuse => {
                Err(StoreError::CodeTaken { code: link.code.to_string(), deleted: true }.into())
            }
            _ => {
                let input = Input { code: Some(code.to_owned()), ..input.clone() };
                self.create(by, workspace, &input, deleted, None, mode).await
            }
        }
    }

    async fn update(
        &self,
        by: &By,
        workspace: &Workspace,
        link: &Link,
        input: &Input,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let now = self.clock.now();
        let domains = self.served_to(workspace).await?;
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
        by: &By,
        workspace: &Workspace,
        code: &str,
        input: &Input,
        versions: Option<&[i64]>,
    ) -> Result<Done, OpsError> {
        for _ in 0..CHANGE_TRIES {
            let link = self.link(by, workspace, code).await?;
            check_version(&link, versions)?;
            let domains = self.served_to(workspace).await?;
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
            match self.replace(by, next, &link, action, Mode::Write).await {
                Err(OpsError::Store(StoreError::Conflict)) if self.moved_on(workspace, &link).await? => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Whether somebody else has changed a link since it was read.
    async fn moved_on(&self, workspace: &Workspace, seen: &Link) -> Result<bool, OpsError> {
        let now = self.store.link(workspace.id, &seen.code).await?;
        Ok(now.is_none_or(|now| now.version != seen.version))
    }

    /// Deletes a link; the code stays taken. The versions are as in [`Self::patch`].
    pub async fn delete(
        &self,
        by: &By,
        workspace: &Workspace,
        code: &str,
        versions: Option<&[i64]>,
    ) -> Result<Done, OpsError> {
        for _ in 0..CHANGE_TRIES {
            let link = self.link(by, workspace, code).await?;
            check_version(&link, versions)?;
            let next = Link { state: LinkState::Deleted, ..link.clone() };
            match self.replace(by, next, &link, Action::Delete, Mode::Write).await {
                Err(OpsError::Store(StoreError::Conflict)) => {}
                done => return done,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Makes a link: under the chosen code, or under one the policy's generator gives. With `once`, one link however often it is
    /// asked for.
    pub async fn create(
        &self,
        by: &By,
        workspace: &Workspace,
        input: &Input,
        deleted: Deleted,
        once: Option<Once>,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let domains = self.served_to(workspace).await?;
        for _ in 0..TRIES {
            let prepared = self.prepare(by, workspace, input, deleted, &domains).await?;
            if mode == Mode::DryRun {
                return self.rehearse(by, workspace, prepared).await;
            }
            let write = LinkWrite { once: once.clone(), ..self.creation(by, workspace, prepared) };
            let now = write.now;
            match self.store.write(write).await {
                // Only a generated code can meet this: fresh candidates, another try.
                Err(StoreError::Conflict) if input.code.is_none() => {}
                written => return settle(workspace, input, written?, now),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// A new link as far as it can be told without writing it.
    async fn prepare(
        &self,
        by: &By,
        workspace: &Workspace,
        input: &Input,
        deleted: Deleted,
        domains: &Domains,
    ) -> Result<Prepared, OpsError> {
        let now = self.clock.now();
        let draft = LinkDraft::parse(input, &workspace.policy, domains, now)?;
        if let Some(code) = &draft.code {
            self.check_cycle(workspace, code, &draft.target, domains).await?;
            if deleted == Deleted::Recreate && by.sees == Sees::Own {
                self.check_owner(by, workspace, code).await?;
            }
        }
        self.check_safety(&draft.target).await?;
        let (code, existing) = choose(workspace, &draft, input, deleted, now)?;
        Ok(Prepared { draft, code, existing, now })
    }

    fn creation(&self, by: &By, workspace: &Workspace, prepared: Prepared) -> LinkWrite {
        let Prepared { draft, code, existing, now } = prepared;
        let op = LinkOp::Create { draft, code, source: by.source, existing };
        LinkWrite {
            owner: by.owner.clone(),
            brake: by.brake(self.target_changes_per_minute),
            ..LinkWrite::new(workspace.id, by.actor.clone(), now, op)
        }
    }

    /// Who sees only their own takes no code that was another's: with it they would see what it was.
    async fn check_owner(&self, by: &By, workspace: &Workspace, code: &Code) -> Result<(), OpsError> {
        match self.store.link(workspace.id, code).await? {
            Some(link) if !by.can_see(&link) => {
                let deleted = link.state == LinkState::Deleted;
                Err(StoreError::CodeTaken { code: code.to_string(), deleted }.into())
            }
            _ => Ok(()),
        }
    }

    /// The answer that the same creation got before, where it is known by `once`; an error where the key was another creation's. What
    /// has become impossible since then (an expiry that is over, a limit that is reached) makes no difference.
    pub async fn answered(
        &self,
        workspace: &Workspace,
        body: &serde_json::Map<String, serde_json::Value>,
        once: &Once,
    ) -> Result<Option<Done>, OpsError> {
        let first = self.store.first_answer(workspace.id, once, self.clock.now()).await?;
        let Some(mut done) = first.map(Done::from) else { return Ok(None) };
        if done.outcome == Outcome::Reused {
            let sent = Input { code: None, ..Input::from_json(body)? };
            let sent = LinkPatch::parse(&sent, &workspace.policy, Timestamp::from_ms(0));
            done.not_applied = sent.map(|sent| sent.not_in(&done.link)).unwrap_or_default();
        }
        Ok(Some(done))
    }

    /// What a creation would give. A generated code is only an example: the next one is another.
    async fn rehearse(&self, by: &By, workspace: &Workspace, prepared: Prepared) -> Result<Done, OpsError> {
        let Prepared { draft, code, existing, now } = prepared;
        let code = match code {
            CodeChoice::Chosen(code) => code,
            CodeChoice::Candidates(codes) => codes.into_iter().next().ok_or(StoreError::Conflict)?,
            CodeChoice::FromId => {
                let id = rlinks_core::Id::next(
                    rlinks_core::Id::from_i64(0),
                    now,
                    rlinks_core::id::Worker::new(0).expect("0 is a worker"),
                );
                generate::from_id(id).ok_or(StoreError::Conflict)?
            }
        };
        let there = self.store.link(workspace.id, &code).await?;
        let version = match &there {
            Some(link) if matches!(existing, Existing::Recreate) && link.state == LinkState::Deleted => {
                link.version + 1
            }
            Some(link) if matches!(existing, Existing::Reuse { .. }) => {
                let outcome = if link.state == LinkState::Active && !link.is_expired(now) {
                    Outcome::Reused
                } else {
                    Outcome::Revived
                };
                return Ok(Done::new(link.clone(), outcome));
            }
            Some(link) => {
                return Err(StoreError::CodeTaken {
                    code: code.to_string(),
                    deleted: link.state == LinkState::Deleted,
                }
                .into());
            }
            None => 1,
        };
        let link = draft.born(Birth {
            id: rlinks_core::Id::from_i64(0),
            workspace: workspace.id,
            code,
            generated: draft.code.is_none(),
            source: by.source,
            created_by: by.owner.clone(),
            now,
            version,
        });
        Ok(Done::new(link, Outcome::Created))
    }

    /// Switches a link off or on again, or deletes it: then the code stays taken.
    pub async fn change_state(
        &self,
        by: &By,
        workspace: &Workspace,
        code: &str,
        state: LinkState,
        mode: Mode,
    ) -> Result<Done, OpsError> {
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
        by: &By,
        workspace: &Workspace,
        code: &str,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let link = self.any_link(by, workspace, code).await?;
        if link.state != LinkState::Deleted {
            return Ok(Done::new(link, Outcome::Unchanged));
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
        by: &By,
        next: Link,
        seen: &Link,
        action: Action,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let unchanged = next == *seen;
        self.check_change(seen, &next).await?;
        if unchanged || mode == Mode::DryRun {
            return Ok(Done::new(next, if unchanged { Outcome::Unchanged } else { Outcome::Changed }));
        }
        let op = LinkOp::Replace { next: Box::new(next), action };
        let write = LinkWrite {
            brake: by.brake(self.target_changes_per_minute),
            ..LinkWrite::new(seen.workspace, by.actor.clone(), self.clock.now(), op)
        };
        Ok(self.store.write(write).await?.into())
    }
}

/// A new link that keeps all rules, and when that was seen.
struct Prepared {
    draft: LinkDraft,
    code: CodeChoice,
    existing: Existing,
    now: Timestamp,
}

fn settle(workspace: &Workspace, input: &Input, written: Written, now: Timestamp) -> Result<Done, OpsError> {
    let mut done = Done::from(written);
    if done.outcome == Outcome::Reused {
        let sent = Input { code: None, ..input.clone() };
        done.not_applied = LinkPatch::parse(&sent, &workspace.policy, now)?.not_in(&done.link);
    }
    Ok(done)
}

fn check_version(link: &Link, versions: Option<&[i64]>) -> Result<(), OpsError> {
    match versions {
        Some(versions) if !versions.contains(&link.version) => Err(OpsError::Stale(link.version)),
        _ => Ok(()),
    }
}

fn choose(
    workspace: &Workspace,
    draft: &LinkDraft,
    input: &Input,
    deleted: Deleted,
    now: Timestamp,
) -> Result<(CodeChoice, Existing), OpsError> {
    if let Some(code) = &draft.code {
        let existing = if deleted == Deleted::Recreate { Existing::Recreate } else { Existing::Refuse };
        return Ok((CodeChoice::Chosen(code.clone()), existing));
    }
    let random = |letters, length| {
        let codes = std::iter::repeat_with(|| {
            generate::random(&random_bytes::<{ generate::RANDOM_BYTES }>(), letters, length)
        });
        CodeChoice::Candidates(codes.take(CANDIDATES).flatten().collect())
    };
    let existing = if workspace.policy.reuses() {
        let sent =
            Box::new(LinkPatch::parse(&Input { code: None, ..input.clone() }, &workspace.policy, now)?);
        Existing::Reuse { normalized: draft.target.normalized(), sent }
    } else {
        Existing::Refuse
    };
    let code = match workspace.policy.generator {
        Generator::Random7 => random(36, 7),
        Generator::Random8 => random(62, 8),
        Generator::Snowflake => CodeChoice::FromId,
        Generator::Hash => {
            let normalized = draft.target.normalized();
            CodeChoice::Candidates(
                (0..SALTS)
                    .filter_map(|salt| generate::from_target(&workspace.slug, &normalized, salt))
                    .collect(),
            )
        }
    };
    Ok((code, existing))
}
