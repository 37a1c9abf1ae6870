//! How many keys, invitations and hosts there may be: of one member, and, ten times as many, of their workspace.
//!
//! What is there is counted under the lock of the workspace's head, in the transaction that adds to it, so that many requests at
//! once get no more than one after the other.

use crate::StoreError;
use crate::error::{QuotaHolder, QuotaKind};

/// How much more a workspace may have than one member.
pub const WORKSPACE_FACTOR: u32 = 10;

/// The most one member may have of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub per_member: u32,
}

/// How many there are already.
pub(crate) struct Held {
    /// Of the member; `None` where it counts for no member, but for the workspace alone.
    pub(crate) by_member: Option<i64>,
    pub(crate) by_workspace: i64,
}

impl Quota {
    /// Twice as much: while a key is replaced, the old one works for another day.
    #[must_use]
    pub(crate) const fn doubled(self) -> Self {
        Self { per_member: self.per_member.saturating_mul(2) }
    }

    /// Fails unless one more fits.
    pub(crate) fn check(self, kind: QuotaKind, held: &Held) -> Result<(), StoreError> {
        let member = (held.by_member.unwrap_or_default(), self.per_member, QuotaHolder::Member);
        let per_workspace = self.per_member.saturating_mul(WORKSPACE_FACTOR);
        for (there, limit, holder) in [member, (held.by_workspace, per_workspace, QuotaHolder::Workspace)] {
            if there >= i64::from(limit) {
                return Err(StoreError::ResourceQuota { kind, holder, limit });
            }
        }
        Ok(())
    }
}
