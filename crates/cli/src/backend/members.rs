//! Members of a workspace, as a store has them and a server tells of them.

use rlinks_core::{Email, Id, Role, Timestamp, User, UserStatus};
use serde::{Deserialize, Serialize};

/// A member as they are shown.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) id: Id,
    pub(crate) email: Email,
    pub(crate) full_name: String,
    pub(crate) role: Role,
    pub(crate) status: UserStatus,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) last_login_at: Option<Timestamp>,
    pub(crate) last_sync_at: Option<Timestamp>,
}

/// A new member, and how they get in.
#[derive(Serialize, Deserialize)]
pub(crate) struct Invitation {
    #[serde(flatten)]
    pub(crate) user: Member,
    pub(crate) invite_url: String,
    pub(crate) invite_expires_at: Timestamp,
}

impl From<User> for Member {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            email: user.email,
            full_name: user.full_name,
            role: user.role,
            status: user.status,
            created_at: user.created_at,
            updated_at: user.updated_at,
            last_login_at: user.last_login_at,
            last_sync_at: user.last_sync_at,
        }
    }
}
