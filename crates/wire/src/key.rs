//! API keys.

use rlinks_core::access::api_key::{ApiKeySecret, KeyStatus};
use rlinks_core::{ApiKey, Id, Scopes, Timestamp};
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
