//! What is to be done about a row: create a link or update one.

use rlinks_clicks::rollup::Total;
use rlinks_core::{Id, Link};
use rlinks_store::StoreError;

use super::candidate::Candidate;
use crate::import::report::{RowOutcome, RowResult};

/// What is to be done about a row.
pub enum ImportAction {
    Create(Box<Candidate>),
    /// Another one than is there.
    Update {
        row: u64,
        before: Box<Link>,
        after: Box<Link>,
    },
}

impl ImportAction {
    pub fn row(&self) -> u64 {
        match self {
            Self::Create(candidate) => candidate.row,
            Self::Update { row, .. } => *row,
        }
    }

    /// The link as it becomes.
    pub fn link(&self) -> &Link {
        match self {
            Self::Create(candidate) => &candidate.link,
            Self::Update { after, .. } => after,
        }
    }

    /// Whether it makes a link whose id was not set aside for it.
    pub(crate) fn brings_id(&self) -> bool {
        matches!(self, Self::Create(candidate) if candidate.id.is_some())
    }

    /// What becomes of the row when it is done.
    pub fn outcome(&self) -> RowOutcome {
        match self {
            Self::Create(_) => RowOutcome::Created,
            Self::Update { .. } => RowOutcome::Updated,
        }
    }

    /// What became of the row.
    pub fn verdict(&self, outcome: RowOutcome, reason: impl Into<String>) -> RowResult {
        RowResult {
            row: self.row(),
            code: Some(self.link().code.to_string()),
            outcome,
            reason: reason.into(),
            may_overwrite: false,
        }
    }

    pub(crate) fn total(&self) -> Option<(Id, Total)> {
        match self {
            Self::Create(candidate) => Some((candidate.link.id, candidate.total?)),
            Self::Update { .. } => None,
        }
    }
}

/// What stands in a row's way, where it is no trouble of the store.
pub(crate) fn conflict_of(error: &StoreError) -> Option<String> {
    match error {
        StoreError::CodeTaken { deleted: true, .. } => Some("the code is a deleted link's".to_owned()),
        StoreError::CodeTaken { .. } => Some("the code was taken meanwhile".to_owned()),
        StoreError::QuotaExceeded(limit) => Some(quota_reached_message(i64::from(*limit))),
        StoreError::TargetTaken(_) => Some(error.to_string()),
        StoreError::Conflict => Some("somebody else changed the link meanwhile".to_owned()),
        _ => None,
    }
}

pub(crate) fn quota_reached_message(limit: i64) -> String {
    format!("the workspace has its {limit} live links")
}

/// The names of what two links differ in.
pub(crate) fn differing_fields(one: &Link, other: &Link) -> String {
    let named = [
        ("target", one.target != other.target),
        ("state", one.state != other.state),
        ("redirect_status", one.redirect_status != other.redirect_status),
        ("expires_at", one.expires_at != other.expires_at),
        ("title", one.title != other.title),
        ("notes", one.notes != other.notes),
        ("tags", one.tags != other.tags),
        ("https_only", one.https_only != other.https_only),
        ("no_loop", one.no_loop != other.no_loop),
        ("metadata", one.metadata != other.metadata),
        ("id", one.id != other.id),
        ("created_by", one.created_by != other.created_by),
        ("created_at", one.created_at != other.created_at),
        ("updated_at", one.updated_at != other.updated_at),
        ("version", one.version != other.version),
        ("source", one.source != other.source),
        ("generated", one.generated != other.generated),
    ];
    named.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}
