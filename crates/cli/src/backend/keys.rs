//! API keys, as a store has them and a server tells of them.

use rlinks_core::access::api_key::{ApiKeySecret, KeyStatus};
use rlinks_core::{ApiKey, Id, Scopes, Timestamp};
use serde::{Deserialize, Serialize};

/// A key as it is shown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KeyDetails {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) scopes: Scopes,
    pub(crate) user: Option<Id>,
    pub(crate) status: KeyStatus,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) usage_count: i64,
}

/// A key with its secret, this once.
#[derive(Deserialize)]
pub(crate) struct CreatedKey {
    #[serde(flatten)]
    pub(crate) details: KeyDetails,
    pub(crate) key: String,
}

/// What a new key is to be.
pub(crate) struct KeyRequest {
    pub(crate) name: String,
    /// Else the usual ones.
    pub(crate) scopes: Option<Scopes>,
    pub(crate) user: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
}

impl KeyDetails {
    pub(crate) fn from_key(key: &ApiKey, now: Timestamp) -> Self {
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
    pub(crate) fn from_key(key: &ApiKey, secret: &ApiKeySecret, now: Timestamp) -> Self {
        Self { details: KeyDetails::from_key(key, now), key: secret.reveal().to_owned() }
    }
}
