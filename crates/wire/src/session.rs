//! Sessions of the dashboard.

use rlinks_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a member is signed in.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Tells nothing of the session's token.
    #[schema(example = "1c7a52f0d1a84c0f9d2f6a3b5e8c7d10")]
    pub id: String,
    /// Whether it is the one that asks.
    pub current: bool,
    /// The browser's `User-Agent`, cut short.
    pub agent: String,
    /// From which network they signed in; never an address.
    #[schema(example = "192.0.2.0/24")]
    pub network: String,
    #[schema(value_type = SessionMethod)]
    pub method: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// To within a minute.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// When it ends unless it is used.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// How a member signed in.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum SessionMethod {
    Password,
    Oidc,
}
