//! Everything that can be done, once: the command line, the API and the dashboard call these functions.
//!
//! | to find | look in |
//! |---|---|
//! | links: create, change, list, roll back, explain | [`links`] |
//! | members, invitations and API keys | [`members`] |
//! | which workspace a host belongs to, and whether DNS and its registration agree | `domains`, [`domain_checks`] |
//! | whether a target is safe | [`safety`] |
//! | links from files, and links as files | [`import`], [`export`], `csv` |
//! | the daily job | [`sweep`] |
//! | rate limits, password hashing, outgoing requests | [`limits`], [`passwords`], [`outbound`] |
//! | how a link is shown | `short_url` |
//!
//! An operation parses its input against the workspace's policy, checks, and lets the store write the change together with its audit entry. Errors are
//! values; each front end maps them in one place.

mod csv;
pub mod domain_checks;
mod domains;
pub mod export;
pub mod import;
pub mod limits;
pub mod links;
pub mod members;
pub mod outbound;
pub mod passwords;
pub mod safety;
mod short_url;
pub mod sweep;

use std::sync::Arc;

use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Actor, Code, FieldErrors, Host, Link, LinkSource, LinkState, Slug, Timestamp, Workspace};
use rlinks_store::write::{TargetChangeLimit, Written};
use rlinks_store::{Store, StoreError};

use self::safety::Safety;
use crate::domain_checks::DomainChecker;
pub use crate::links::explain::Explanation;
pub use crate::short_url::ShortUrls;
use rlinks_routes::RouteCache;
use rlinks_store::clock::Clock;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// Fields that break a rule.
    #[error("{0}")]
    Invalid(#[from] FieldErrors),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(Resource),
    /// There was one, and it was deleted.
    #[error("the {0} was deleted")]
    Deleted(Resource),
    /// The version that was named is not the one there is.
    #[error("this has changed since you read it: it is at version {0}")]
    VersionMismatch(i64),
    /// Something this actor may not do.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A host that is not for whoever asks first.
    #[error("`{host}` {why}")]
    HostReserved {
        host: Host,
        /// What it is kept for.
        why: &'static str,
    },
    /// A host that another workspace has claimed and not proven.
    #[error("`{host}` is claimed by another workspace, which has not proven it: set the TXT record {} to `{}` and add it again", .proof.name, .proof.value)]
    HostClaimed {
        host: Host,
        /// What proves it for whoever asks.
        proof: rlinks_core::workspace::domain_verification::VerificationRecord,
    },
    /// DNS could not be asked, and why.
    #[error("DNS cannot be asked now: {0}; try again later")]
    DnsUnavailable(String),
    /// A target that harms whoever follows it.
    #[error("the target is not safe: {0}")]
    Unsafe(safety::UnsafeReason),
    /// Whether a target is safe could not be found out, and that is needed.
    #[error("whether the target is safe cannot be found out now: {0}; try again later")]
    SafetyUnavailable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpsError {
    /// The error as programs know it.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::ValidationFailed,
            Self::VersionMismatch(_) => ErrorCode::PreconditionFailed,
            Self::Forbidden(_) => ErrorCode::Forbidden,
            Self::NotFound(_) | Self::Deleted(_) | Self::Store(StoreError::NotFound(_)) => {
                ErrorCode::NotFound
            }
            Self::Unsafe(_) => ErrorCode::UnsafeTarget,
            Self::SafetyUnavailable(_)
            | Self::DnsUnavailable(_)
            | Self::Store(StoreError::Unavailable(_) | StoreError::ClicksUnavailable(_)) => {
                ErrorCode::KvUnavailable
            }
            Self::Store(StoreError::RateLimited { .. }) => ErrorCode::RateLimited,
            Self::Store(StoreError::CodeTaken { .. }) => ErrorCode::CodeTaken,
            Self::HostReserved { .. }
            | Self::HostClaimed { .. }
            | Self::Store(
                StoreError::Conflict
                | StoreError::TargetTaken(_)
                | StoreError::NameTaken(_)
                | StoreError::IdempotencyKeyReused
                | StoreError::LastAdmin,
            ) => ErrorCode::Conflict,
            Self::Store(StoreError::QuotaExceeded(_)) => ErrorCode::QuotaExceeded,
            Self::Store(StoreError::Refused(_) | StoreError::Unreadable(_)) => ErrorCode::Internal,
        }
    }
}

/// What was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
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

impl std::fmt::Display for Resource {
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

/// Who asks for an operation, and what they may see.
#[derive(Clone, Debug)]
pub struct Requester {
    pub actor: Actor,
    /// Whose a new link becomes: the actor's, or, where a member's key acts, the member's.
    pub owner: Actor,
    /// As whom they are counted: the owner, or, where a key is nobody's, whoever answers for it.
    pub principal: Actor,
    pub source: LinkSource,
    /// Which links are there for them.
    pub visibility: LinkVisibility,
}

/// Which links a requester can see. Others are reported as not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkVisibility {
    /// All of the workspace.
    All,
    Own,
}

impl Requester {
    /// The operator at the command line.
    pub fn operator(actor: Actor) -> Self {
        let (owner, principal) = (actor.clone(), actor.clone());
        Self { actor, owner, principal, source: LinkSource::Cli, visibility: LinkVisibility::All }
    }

    /// Whether a link is there for them.
    pub fn can_see(&self, link: &Link) -> bool {
        self.visibility == LinkVisibility::All || link.created_by == self.owner
    }

    /// How many targets they may change in a minute, of `changes_per_minute` for everybody: members and keys are limited, the operator
    /// and the system are not.
    pub fn target_change_limit(&self, changes_per_minute: u32) -> Option<TargetChangeLimit> {
        let principal = &self.principal;
        let is_limited = principal.user().is_some() || principal.key().is_some();
        (is_limited && changes_per_minute > 0)
            .then(|| TargetChangeLimit { principal: principal.clone(), changes_per_minute })
    }
}

/// What to do about a code that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDeletedCode {
    /// Refuse, and say the way out.
    Refuse,
    /// Make the link anew.
    Recreate,
}

impl OnDeletedCode {
    /// What was sent about it.
    pub fn from_input(input: &Input) -> Self {
        if input.recreate == Some(true) { Self::Recreate } else { Self::Refuse }
    }
}

/// Write, or only say what would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    Apply,
    DryRun,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkResult {
    /// The link as it is now, or would be.
    pub link: Link,
    /// What was, or would be, done.
    pub outcome: WriteOutcome,
    /// What was asked for and a link that was handed back does not have.
    pub not_applied: Vec<&'static str>,
    /// The same request was answered before, and this is that answer.
    pub replayed: bool,
}

impl LinkResult {
    fn new(link: Link, outcome: WriteOutcome) -> Self {
        Self { link, outcome, not_applied: Vec::new(), replayed: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Created,
    Changed,
    /// Nothing needed to change.
    Unchanged,
    /// An equal link was there.
    Reused,
    /// An equal link was there and was brought back.
    Revived,
}

impl From<Written> for LinkResult {
    fn from(written: Written) -> Self {
        match written {
            Written::Created(link) => Self::new(link, WriteOutcome::Created),
            Written::Changed(link) => Self::new(link, WriteOutcome::Changed),
            Written::Unchanged(link) => Self::new(link, WriteOutcome::Unchanged),
            Written::Reused(link) => Self::new(link, WriteOutcome::Reused),
            Written::Revived(link) => Self::new(link, WriteOutcome::Revived),
            Written::Replayed(first) => Self { replayed: true, ..Self::from(*first) },
        }
    }
}

/// The operations, on one store.
#[derive(Clone)]
pub struct Ops {
    pub store: Store,
    /// How links are shown.
    pub short_urls: ShortUrls,
    /// The host short URLs are written with while no domain is configured: it is ours too.
    pub own_host: Option<Host>,
    /// What time it is.
    pub clock: Clock,
    /// What the serving threads know, in a server: hosts are read from there while it is fresh.
    pub routes: Option<Arc<RouteCache>>,
    /// Which targets are safe.
    pub safety: Arc<Safety>,
    /// Who looks after hosts.
    pub domain_checker: Arc<DomainChecker>,
    /// How many targets of existing links one member or key may change in a minute; 0 is as many as they like.
    pub target_changes_per_minute: u32,
}

impl Ops {
    /// A living workspace by its slug.
    pub async fn workspace(&self, slug: &Slug) -> Result<Workspace, OpsError> {
        match self.store.workspace(slug).await? {
            Some(workspace) if workspace.deleted_at.is_none() => Ok(workspace),
            Some(_) => Err(OpsError::Deleted(Resource::Workspace(slug.to_string()))),
            None => Err(OpsError::NotFound(Resource::Workspace(slug.to_string()))),
        }
    }

    /// A link that is not deleted. Where the policy folds case, so does this.
    pub async fn link(&self, by: &Requester, workspace: &Workspace, code: &str) -> Result<Link, OpsError> {
        match self.any_link(by, workspace, code).await? {
            link if link.state == LinkState::Deleted => {
                Err(OpsError::Deleted(Resource::Link(link.code.to_string())))
            }
            link => Ok(link),
        }
    }

    /// A link, deleted or not.
    pub async fn any_link(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
    ) -> Result<Link, OpsError> {
        let found = self.find_link(workspace, code).await?.filter(|link| by.can_see(link));
        found.ok_or_else(|| OpsError::NotFound(Resource::Link(code.to_owned())))
    }

    /// A link as it was at a moment, if it was there then.
    pub async fn link_at(
        &self,
        by: &Requester,
        workspace: &Workspace,
        code: &str,
        at: Timestamp,
    ) -> Result<Link, OpsError> {
        let now = self.any_link(by, workspace, code).await?;
        let then = self.store.link_at(workspace.id, &now.code, at).await?;
        then.filter(|link| link.state != LinkState::Deleted && by.can_see(link))
            .ok_or_else(|| OpsError::NotFound(Resource::LinkAt(now.code.to_string(), at)))
    }

    async fn find_link(&self, workspace: &Workspace, code: &str) -> Result<Option<Link>, OpsError> {
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
}
