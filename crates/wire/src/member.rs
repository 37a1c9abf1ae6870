//! Members of a workspace.

use rlinks_core::{Email, Id, Role, Timestamp, User, UserStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A member.
#[derive(PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = User)]
pub struct Member {
    #[schema(value_type = String)]
    pub id: Id,
    #[schema(value_type = String)]
    pub email: Email,
    pub full_name: String,
    #[schema(value_type = RoleName)]
    pub role: Role,
    #[schema(value_type = UserStatusName)]
    pub status: UserStatus,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    pub last_login_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    pub last_sync_at: Option<Timestamp>,
}

/// What a member may do.
#[derive(ToSchema)]
#[schema(as = Role, rename_all = "lowercase")]
pub enum RoleName {
    Viewer,
    Member,
    Admin,
}

/// Whether a member gets in.
#[derive(ToSchema)]
#[schema(as = UserStatus, rename_all = "lowercase")]
pub enum UserStatusName {
    Active,
    Suspended,
}

/// A new member, and how they get in.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    #[serde(flatten)]
    pub user: Member,
    /// Works once, for seven days.
    pub invite_url: String,
    #[schema(value_type = String, format = DateTime)]
    pub invite_expires_at: Timestamp,
}

impl From<&User> for Member {
    fn from(user: &User) -> Self {
        Self {
            id: user.id,
            email: user.email.clone(),
            full_name: user.full_name.clone(),
            role: user.role,
            status: user.status,
            created_at: user.created_at,
            updated_at: user.updated_at,
            last_login_at: user.last_login_at,
            last_sync_at: user.last_sync_at,
        }
    }
}
