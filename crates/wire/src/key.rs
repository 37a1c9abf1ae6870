//! API keys.

use rlinks_core::access::api_key::{ApiKeySecret, KeyStatus};
use rlinks_core::{ApiKey, Id, Scopes, Timestamp, User};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A key, without its secret.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct Key {
    #[schema(value_type = String)]
    pub id: Id,
    pub name: String,
    /// How it begins.
    #[schema(example = "rmx_07elszGN")]
    pub prefix: String,
    #[schema(value_type = Vec<ScopeName>)]
    pub scopes: Scopes,
    /// The id of the member it belongs to.
    #[schema(value_type = Option<String>, required)]
    pub user: Option<Id>,
    #[schema(value_type = KeyStatusName)]
    pub status: KeyStatus,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    pub expires_at: Option<Timestamp>,
    /// To within some seconds.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    pub last_used_at: Option<Timestamp>,
    /// To within some seconds.
    pub usage_count: i64,
}

/// What was made with a key and is still good: another key, or an invitation nobody has accepted.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedWithKey {
    #[serde(rename = "type")]
    pub kind: CreatedKind,
    /// The id of the key, or of the invited member.
    #[schema(value_type = String)]
    pub id: Id,
    /// The name of the key, or the invited address.
    pub name: String,
    /// The scopes of the key, or of the role.
    #[schema(value_type = Vec<ScopeName>)]
    pub scopes: Scopes,
    /// The id of the member it is for.
    #[schema(value_type = Option<String>, required)]
    pub user: Option<Id>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CreatedKind {
    Key,
    Invitation,
}

impl CreatedWithKey {
    pub fn from_key(key: &ApiKey) -> Self {
        Self {
            kind: CreatedKind::Key,
            id: key.id,
            name: key.name.clone(),
            scopes: key.scopes,
            user: key.user,
            created_at: key.created_at,
            expires_at: key.expires_at,
        }
    }

    pub fn from_invitation(invited: &User, created_at: Timestamp, expires_at: Timestamp) -> Self {
        Self {
            kind: CreatedKind::Invitation,
            id: invited.id,
            name: invited.email.to_string(),
            scopes: invited.role.scopes(),
            user: Some(invited.id),
            created_at,
            expires_at: Some(expires_at),
        }
    }
}

/// What a credential may do.
#[derive(ToSchema)]
#[schema(as = Scope)]
pub enum ScopeName {
    #[schema(rename = "links:read")]
    LinksRead,
    #[schema(rename = "links:write")]
    LinksWrite,
    #[schema(rename = "links:delete")]
    LinksDelete,
    #[schema(rename = "analytics:read")]
    AnalyticsRead,
    #[schema(rename = "workspace:admin")]
    WorkspaceAdmin,
}

/// Whether a key is good.
#[derive(ToSchema)]
#[schema(as = KeyStatus, rename_all = "lowercase")]
pub enum KeyStatusName {
    Active,
    Expired,
    Revoked,
}

/// A key with its secret, shown this once.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = NewKeyView)]
pub struct CreatedKey {
    #[serde(flatten)]
    pub details: Key,
    /// The whole key. It is kept nowhere.
    pub key: String,
}

impl Key {
    pub fn from_key(key: &ApiKey, now: Timestamp) -> Self {
        Self {
            id: key.id,
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes,
            user: key.user,
            status: key.status(now),
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            usage_count: key.usage_count,
        }
    }
}

impl CreatedKey {
    pub fn from_key(key: &ApiKey, secret: &ApiKeySecret, now: Timestamp) -> Self {
        Self { details: Key::from_key(key, now), key: secret.reveal().to_owned() }
    }
}
