//! One change of one link: what is asked for, and what becomes of it.

use rlinks_core::time::DAY_MS;
use rlinks_core::{Actor, Code, Id, Link, LinkDraft, LinkPatch, LinkSource, Timestamp};

use crate::change_limits::ChangeLimits;

/// One change of one link.
#[derive(Clone, Debug)]
pub struct LinkWrite {
    pub workspace: Id,
    pub actor: Actor,
    /// Whose a new link becomes: the actor's, or, where a member's key acts, the member's.
    pub owner: Actor,
    pub now: Timestamp,
    pub op: LinkOp,
    /// Once only, however often it is asked for.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How many links they may change, where that is limited.
    pub change_limits: Option<ChangeLimits>,
    /// Why, in words for the audit entry: `reason` beside the fields of the link as it became.
    pub reason: Option<String>,
}

impl LinkWrite {
    /// A change by somebody whose a new link becomes, as often as it is asked for.
    pub fn new(workspace: Id, actor: Actor, now: Timestamp, op: LinkOp) -> Self {
        Self {
            workspace,
            owner: actor.clone(),
            actor,
            now,
            op,
            idempotency_key: None,
            change_limits: None,
            reason: None,
        }
    }
}

/// A request that may come again: the first answer is kept with the link, and given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Who chose the key: two programs may choose the same one.
    pub owner: Actor,
    /// The key they chose.
    pub key: String,
    /// What was asked for, as a hash. The same key with another request is refused.
    pub request: String,
}

/// For how long a first answer is kept.
pub const IDEMPOTENCY_TTL_MS: i64 = DAY_MS;

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most changes are creations, and a group holds 256 at most")]
pub enum LinkOp {
    Create {
        /// What it is to be.
        draft: LinkDraft,
        code: CodeChoice,
        source: LinkSource,
        /// What to do about what is there.
        on_conflict: OnConflict,
    },
    /// Make a link what `next` says. `next.version` is the version the caller saw; another one is a conflict.
    Replace {
        /// The link as it should become.
        next: Box<Link>,
        /// What to call it in the audit log.
        action: Action,
    },
    /// Write a link that was made elsewhere, under its code and the id set aside for it. A taken code is refused.
    Import {
        /// The link as it was.
        link: Box<Link>,
        /// When it last changed, where that is kept; else it is now.
        updated: Option<Timestamp>,
    },
    /// Make a link what it was at some moment, who made it and when included: under its code there may be another one now.
    /// `next.version` is the version the caller saw; another one is a conflict. No quota stands in the way.
    RollBack {
        /// The link as it was.
        next: Box<Link>,
        /// What to call it in the audit log.
        action: Action,
    },
}

/// Which code a new link gets.
#[derive(Clone, Debug)]
pub enum CodeChoice {
    Chosen(Code),
    /// The first of these that is free.
    Candidates(Vec<Code>),
    /// The link's id in base62.
    FromId,
}

/// What to do when what is asked for is there already.
#[derive(Clone, Debug)]
pub enum OnConflict {
    /// A taken code is refused.
    Refuse,
    /// A deleted link under this code makes room for a new one.
    Recreate,
    /// A generated link to the same page is handed back; one that no longer answers is revived with what was sent.
    Reuse {
        /// The form by which two targets are the same page.
        normalized: String,
        /// What was sent, for a link to be revived.
        sent: Box<LinkPatch>,
    },
}

/// What a change of a link is called in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    // `link.update`
    Update,
    // `link.disable`
    Disable,
    // `link.enable`
    Enable,
    // `link.delete`
    Delete,
    // `link.restore`
    Restore,
}

impl Action {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Update => "link.update",
            Self::Disable => "link.disable",
            Self::Enable => "link.enable",
            Self::Delete => "link.delete",
            Self::Restore => "link.restore",
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Created(Link),
    Changed(Link),
    /// Nothing to change; nothing was written.
    Unchanged(Link),
    /// There already, and handed back as it is.
    Reused(Link),
    /// There already, and brought back to life.
    Revived(Link),
    /// Asked for before: what became of it then. Nothing was written.
    Replayed(Box<Written>),
}

impl Written {
    /// The link as it is now.
    pub fn link(&self) -> &Link {
        match self {
            Self::Created(link)
            | Self::Changed(link)
            | Self::Unchanged(link)
            | Self::Reused(link)
            | Self::Revived(link) => link,
            Self::Replayed(first) => first.link(),
        }
    }
}
