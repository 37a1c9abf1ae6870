//! Everything that can be done, once: the command line, the API and the dashboard call these functions.
//!
//! | to find | look in |
//! |---|---|
//! | who is calling, and what they may do | `caller` |
//! | links: create, change, list, roll back, explain | [`links`] |
//! | members and invitations; API keys; sessions and signing in | [`members`], [`api_keys`], [`sessions`] |
//! | who was stopped by a limit on changes | `limit_notices` |
//! | workspaces and their policies | [`workspaces`] |
//! | which workspace a host belongs to, and whether DNS and its registration agree | [`domains`], [`domain_checks`] |
//! | whether a target is safe | [`safety`] |
//! | links from files, and links as files | [`import`], [`export`], [`csv`] |
//! | statistics of a workspace | [`statistics`] |
//! | the daily job; a backup put back | [`sweep`], `backup` |
//! | signed audit heads and the key that signs them; heads sent elsewhere; keys that servers share | [`audit_heads`], [`audit_push`], [`shared_keys`] |
//! | hourly limits and quotas, how they are counted, password hashing, outgoing requests | `quotas`, [`limits`], [`passwords`], [`outbound`] |
//! | how a link is shown | `short_url` |
//!
//! An operation takes the [`Caller`] and a typed input. It authorizes, applies limits, parses against the workspace's policy, lets the store write the
//! change together with its audit entry, and publishes it to the serving threads. Front ends parse, call and render. Errors are values; each front end
//! maps them in one place. Only this crate is given a store to change.

pub mod api_keys;
pub mod audit_heads;
pub mod audit_push;
mod backup;
mod caller;
pub mod csv;
pub mod domain_checks;
pub mod domains;
pub mod export;
pub mod import;
mod limit_notices;
pub mod limits;
pub mod links;
pub mod members;
pub mod outbound;
pub mod passwords;
mod quotas;
pub mod safety;
pub mod sessions;
pub mod shared_keys;
mod short_url;
pub mod statistics;
pub mod sweep;
pub mod workspaces;

use std::sync::Arc;

use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Code, FieldError, FieldErrors, Host, Link, LinkState, Scope, Slug, Timestamp, Workspace};
use rlinks_store::write::Written;
use rlinks_store::{ChangeLimits, Enforcement, RouteRecord, Store, StoreError, StoreOptions, StoreWriter};

pub use self::caller::{Caller, Credential, LinkVisibility};
use self::limits::{HourlyLimits, RateLimitStatus};
use self::quotas::LimitHolder;
pub use self::quotas::{
    DEFAULT_DNS_CHECKS_PER_HOUR, DEFAULT_DOMAINS, DEFAULT_LIVE_STREAMS, ResourceLimits, StreamQuota,
};
use self::safety::Safety;
use self::shared_keys::LoadedKeys;
use crate::domain_checks::DomainChecker;
pub use crate::links::explain::Explanation;
pub use crate::short_url::ShortUrls;
use rlinks_routes::RouteCache;
use rlinks_store::clock::{Clock, Random};

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
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A scope the caller does not have.
    #[error("This credential does not allow {0}")]
    MissingScope(Scope),
    /// The caller has made all the links of this hour.
    #[error("You have made {} links within an hour, the most you may; try again {}", .0.limit, in_minutes(.0.reset_seconds))]
    CreationLimit(RateLimitStatus),
    /// The caller has made all the requests of this hour.
    #[error("Rate limit reached {holder}; try again {}", in_minutes(.status.reset_seconds))]
    RequestLimit { status: RateLimitStatus, holder: LimitHolder },
    /// The caller, or their workspace, has asked DNS as often as they may within an hour.
    #[error(
        "Limit of {} DNS checks an hour reached {holder} (`limits.dns_checks_per_hour`); try again {}",
        .status.limit, in_minutes(.status.reset_seconds)
    )]
    DnsCheckLimit { status: RateLimitStatus, holder: LimitHolder },
    /// An account with more links than a key or token may remove now.
    #[error(
        "Deleting this account would delete more links than {removals_per_minute} a minute, which is the most that keys and tokens may; delete it from a session, in the dashboard"
    )]
    RemovalNeedsSession {
        removals_per_minute: u32,
        /// Until there may be room for it.
        seconds: u32,
    },
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
    /// The audit log has no readable word of what is to be restored.
    #[error(
        "{0} can't be read from the audit log, so it can't be restored; `rmax audit verify` tells whether the log was changed"
    )]
    Unrestorable(String),
    /// A target that harms whoever follows it.
    #[error("the target is not safe: {0}")]
    Unsafe(safety::UnsafeReason),
    /// Whether a target is safe could not be found out, and that is needed.
    #[error("whether the target is safe cannot be found out now: {0}; try again later")]
    SafetyUnavailable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FieldError> for OpsError {
    fn from(error: FieldError) -> Self {
        Self::Invalid(error.into())
    }
}

/// How long to wait, in words.
fn in_minutes(seconds: u32) -> String {
    match seconds {
        0..=1 => "in a second".to_owned(),
        2..=59 => format!("in {seconds} seconds"),
        60 => "in a minute".to_owned(),
        _ => format!("in {} minutes", seconds.div_ceil(60)),
    }
}

impl OpsError {
    /// The limit that was reached, and how the caller stands with it.
    pub const fn rate_limit(&self) -> Option<RateLimitStatus> {
        match self {
            Self::CreationLimit(status)
            | Self::RequestLimit { status, .. }
            | Self::DnsCheckLimit { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The error as programs know it.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::ValidationFailed,
            Self::VersionMismatch(_) => ErrorCode::PreconditionFailed,
            Self::Forbidden(_) | Self::MissingScope(_) => ErrorCode::Forbidden,
            Self::NotFound(_) | Self::Deleted(_) | Self::Store(StoreError::NotFound(_)) => {
                ErrorCode::NotFound
            }
            Self::Unsafe(_) => ErrorCode::UnsafeTarget,
            Self::SafetyUnavailable(_)
            | Self::DnsUnavailable(_)
            | Self::Store(StoreError::Unavailable(_) | StoreError::ClicksUnavailable(_)) => {
                ErrorCode::KvUnavailable
            }
            Self::CreationLimit(_)
            | Self::RequestLimit { .. }
            | Self::DnsCheckLimit { .. }
            | Self::RemovalNeedsSession { .. }
            | Self::Store(StoreError::RateLimited { .. }) => ErrorCode::RateLimited,
            Self::Store(StoreError::CodeTaken { .. }) => ErrorCode::CodeTaken,
            Self::HostReserved { .. }
            | Self::HostClaimed { .. }
            | Self::Unrestorable(_)
            | Self::Store(
                StoreError::Conflict
                | StoreError::TargetTaken(_)
                | StoreError::NameTaken(_)
                | StoreError::IdempotencyKeyReused
                | StoreError::LastAdmin,
            ) => ErrorCode::Conflict,
            Self::Store(StoreError::QuotaExceeded(_) | StoreError::ResourceQuota { .. }) => {
                ErrorCode::QuotaExceeded
            }
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
    /// A version of a link, by the number of its audit entry.
    LinkVersion(String, i64),
    /// A member by id or address.
    User(String),
    /// A key by id.
    Key(String),
    /// A session by its public id.
    Session(String),
    /// A domain by its host.
    Domain(String),
}

impl std::fmt::Display for Resource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workspace(slug) => write!(out, "workspace `{slug}`"),
            Self::Link(code) => write!(out, "link `{code}`"),
            Self::LinkAt(code, at) => write!(out, "link `{code}` at {at}"),
            Self::LinkVersion(code, seq) => write!(out, "version {seq} of link `{code}`"),
            Self::User(who) => write!(out, "user `{who}`"),
            Self::Key(id) => write!(out, "key `{id}`"),
            Self::Session(id) => write!(out, "session `{id}`"),
            Self::Domain(host) => write!(out, "domain `{host}`"),
        }
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
    /// How the creator stands with their limit, where one was counted.
    pub rate_limit: Option<RateLimitStatus>,
}

impl LinkResult {
    fn new(link: Link, outcome: WriteOutcome) -> Self {
        Self { link, outcome, not_applied: Vec::new(), replayed: false, rate_limit: None }
    }

    /// Whether this request has made a link.
    fn is_creation(&self) -> bool {
        self.outcome == WriteOutcome::Created && !self.replayed
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

/// The operations, on one store. Nothing else changes it.
#[derive(Clone)]
pub struct Ops {
    /// For reading. Changes go through operations.
    pub store: Store,
    writer: StoreWriter,
    /// How links are shown.
    pub short_urls: ShortUrls,
    /// The host short URLs are written with while no domain is configured: it is ours too.
    pub own_host: Option<Host>,
    pub clock: Clock,
    pub random: Random,
    routes: Option<Arc<RouteCache>>,
    pub safety: Arc<Safety>,
    pub domain_checker: Arc<DomainChecker>,
    target_changes_per_minute: u32,
    removals_per_minute: u32,
    resource_limits: ResourceLimits,
    hourly_limits: Arc<HourlyLimits>,
    shared_keys: LoadedKeys,
}

/// A store that was opened for operations: anything may read it, only [`Ops`] changes it.
pub struct OpenedStore {
    pub store: Store,
    writer: StoreWriter,
}

impl OpenedStore {
    /// Opens a store, creating it where there has never been one.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let (store, writer) = Store::open(options).await?;
        Ok(Self { store, writer })
    }
}

impl From<StoreWriter> for OpenedStore {
    fn from(writer: StoreWriter) -> Self {
        Self { store: writer.reader(), writer }
    }
}

/// What operations need beside a store.
pub struct OpsSettings {
    /// How links are shown.
    pub short_urls: ShortUrls,
    /// The host short URLs are written with while no domain is configured: it is ours too.
    pub own_host: Option<Host>,
    pub clock: Clock,
    pub random: Random,
    /// What the serving threads know, in a server: every change is published there, and hosts are read from there while it is fresh.
    pub routes: Option<Arc<RouteCache>>,
    /// Which targets are safe.
    pub safety: Arc<Safety>,
    /// Whether hosts are their workspaces', by DNS.
    pub domain_checker: Arc<DomainChecker>,
    /// How many existing links one principal may point elsewhere in a minute, and a workspace ten times as many; 0 is no limit.
    pub target_changes_per_minute: u32,
    /// How many they may disable or delete.
    pub removals_per_minute: u32,
    /// How many keys, hosts and the like there may be.
    pub resource_limits: ResourceLimits,
}

impl Ops {
    pub fn new(OpenedStore { store, writer }: OpenedStore, settings: OpsSettings) -> Self {
        let OpsSettings {
            short_urls,
            own_host,
            clock,
            random,
            routes,
            safety,
            domain_checker,
            target_changes_per_minute,
            removals_per_minute,
            resource_limits,
        } = settings;
        let hourly_limits = Arc::new(HourlyLimits::new(clock.clone()));
        Self {
            store,
            writer,
            short_urls,
            own_host,
            clock,
            random,
            routes,
            safety,
            domain_checker,
            target_changes_per_minute,
            removals_per_minute,
            resource_limits,
            hourly_limits,
            shared_keys: LoadedKeys::default(),
        }
    }

    /// How many links a caller may change in a minute. The operator and the server itself are not limited.
    fn change_limits(&self, caller: &Caller) -> Option<ChangeLimits> {
        (!caller.is_trusted()).then(|| ChangeLimits {
            identities: caller.identities(),
            target_changes_per_minute: self.target_changes_per_minute,
            removals_per_minute: self.removals_per_minute,
            enforcement: Enforcement::Refuse,
        })
    }

    /// The serving threads of this process know a change before its answer leaves; other processes learn of it from the feed.
    fn publish(&self, link: &Link) {
        if let Some(routes) = &self.routes {
            routes.insert(&RouteRecord::from_link(link));
        }
    }

    /// The same for hosts and policies.
    async fn publish_hosts(&self) -> Result<(), StoreError> {
        match &self.routes {
            Some(routes) => routes.reload_directory(self.short_urls.base_domain.as_ref()).await,
            None => Ok(()),
        }
    }
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
    pub async fn link(&self, caller: &Caller, code: &str) -> Result<Link, OpsError> {
        match self.any_link(caller, code).await? {
            link if link.state == LinkState::Deleted => {
                Err(OpsError::Deleted(Resource::Link(link.code.to_string())))
            }
            link => Ok(link),
        }
    }

    /// A link, deleted or not.
    pub async fn any_link(&self, caller: &Caller, code: &str) -> Result<Link, OpsError> {
        let workspace = &caller.workspace;
        let found = self.find_link(workspace, code).await?.filter(|link| caller.can_see(link));
        found.ok_or_else(|| OpsError::NotFound(Resource::Link(code.to_owned())))
    }

    /// A link as it was at a moment, if it was there then.
    pub async fn link_at(&self, caller: &Caller, code: &str, at: Timestamp) -> Result<Link, OpsError> {
        let workspace = &caller.workspace;
        let now = self.any_link(caller, code).await?;
        let then = self.store.link_at(workspace.id, &now.code, at).await?;
        then.filter(|link| link.state != LinkState::Deleted && caller.can_see(link))
            .ok_or_else(|| OpsError::NotFound(Resource::LinkAt(now.code.to_string(), at)))
    }

    async fn find_link(&self, workspace: &Workspace, code: &str) -> Result<Option<Link>, OpsError> {
        for code in lookup_codes(workspace, code) {
            if let Some(link) = self.store.link(workspace.id, &code).await? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// The same as it was at a moment.
    async fn find_link_at(
        &self,
        workspace: &Workspace,
        code: &str,
        at: Timestamp,
    ) -> Result<Option<Link>, OpsError> {
        for code in lookup_codes(workspace, code) {
            if let Some(link) = self.store.link_at(workspace.id, &code, at).await? {
                return Ok(Some(link));
            }
        }
        Ok(None)
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

/// The codes to look up, in this order, for one that was sent.
fn lookup_codes(workspace: &Workspace, code: &str) -> impl Iterator<Item = Code> {
    let folded = workspace.policy.code.folded(code);
    Code::from_path(code).into_iter().chain(folded.and_then(|folded| Code::from_path(&folded)))
}
