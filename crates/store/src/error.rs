//! What can go wrong with the truth, by what the caller can do about it.

use std::fmt;

/// Absence is an `Option`; everything here is something a caller acts on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Cannot be reached, is busy, full or read-only: try again later. Never means "not there".
    #[error("the link store cannot be reached: {0}")]
    Unavailable(String),
    /// The same of the clicks, which are kept apart from the links.
    #[error("the clicks cannot be reached: {0}")]
    ClicksUnavailable(String),
    /// What was opened is not ours to use: corrupt, newer than this program, or another program's.
    #[error("{0}")]
    Refused(String),
    /// A stored object nobody can read. It is not served.
    #[error("a stored object cannot be read: {0}")]
    Unreadable(String),
    /// The code is another link's.
    #[error("the code `{code}` is taken{}", if *.deleted { " by a deleted link" } else { "" })]
    CodeTaken {
        code: String,
        /// It is a deleted link's: it can be restored or recreated.
        deleted: bool,
    },
    /// A name that is unique for ever is taken.
    #[error("`{0}` is taken")]
    NameTaken(String),
    /// Somebody else was faster.
    #[error("somebody else changed this at the same time; look again and repeat")]
    Conflict,
    /// Where one target has one link, another link has it.
    #[error("the link `{0}` has this target already, and this workspace has one link for one target")]
    TargetTaken(String),
    /// The policy's limit of live links is reached.
    #[error("this workspace may have {0} links that are neither deleted nor expired, and has them")]
    QuotaExceeded(u32),
    /// A member or a workspace has as many of something as they may.
    #[error("{holder} has {limit} {kind}, the most there may be (`{}`); {}, or ask the operator to raise the limit", .kind.setting(), .kind.remedy())]
    ResourceQuota { kind: QuotaKind, holder: QuotaHolder, limit: u32 },
    /// Too many links were changed within a minute.
    #[error(
        "rate limit reached: {scope} may {change} {per_minute} links a minute; try again in {seconds} seconds"
    )]
    RateLimited {
        change: LimitedChange,
        scope: LimitScope,
        per_minute: u32,
        /// For how long they are stopped.
        seconds: u32,
    },
    /// An `Idempotency-Key` that belongs to another request.
    #[error("this Idempotency-Key was used for another request; use a new one for each request")]
    IdempotencyKeyReused,
    /// A workspace needs somebody who can let others in.
    #[error("the last admin of a workspace cannot leave; make somebody else admin first")]
    LastAdmin,
    /// What should be changed is not there.
    #[error("there is no {0}")]
    NotFound(String),
}

/// What a quota is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    Keys,
    Invitations,
    Domains,
}

impl QuotaKind {
    /// The key of the configuration.
    const fn setting(self) -> &'static str {
        match self {
            Self::Keys => "limits.keys",
            Self::Invitations => "limits.invitations",
            Self::Domains => "limits.domains",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Keys => "revoke a key that is no longer needed",
            Self::Invitations => "wait until one is accepted or expires",
            Self::Domains => "remove a host that is no longer needed",
        }
    }
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Keys => "active API keys",
            Self::Invitations => "pending invitations",
            Self::Domains => "hosts",
        })
    }
}

/// Whose quota it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaHolder {
    Member,
    Workspace,
}

impl fmt::Display for QuotaHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Member => "this member",
            Self::Workspace => "this workspace",
        })
    }
}

/// A change of a link that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedChange {
    /// It leads elsewhere.
    Target,
    /// It was disabled or deleted.
    Removal,
}

impl fmt::Display for LimitedChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Target => "change the targets of",
            Self::Removal => "disable or delete",
        })
    }
}

/// Whom a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// Somebody together with whoever made them.
    Principal,
    Workspace,
}

impl fmt::Display for LimitScope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Principal => "you",
            Self::Workspace => "everybody in this workspace together",
        })
    }
}

impl StoreError {
    /// The workspace is not there, or deleted.
    pub(crate) fn no_workspace() -> Self {
        Self::NotFound("such workspace".to_owned())
    }

    /// The same error where it was the clicks that were asked for: they and the links are reached in one way.
    #[must_use]
    pub fn for_clicks(self) -> Self {
        match self {
            Self::Unavailable(why) => Self::ClicksUnavailable(why),
            other => other,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => match (database.code().as_deref(), database.message()) {
                // SQLite: corrupt (11), not a database (26).
                (Some("11" | "26" | "267" | "523" | "779"), message) => Self::Refused(format!(
                    "the database file is damaged ({message}); restore a backup, or ask `rmax doctor`"
                )),
                (_, message) => Self::Unavailable(message.to_owned()),
            },
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Unreadable(error.to_string()),
            sqlx::Error::PoolTimedOut => Self::Unavailable("no free connection in time".to_owned()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
