//! What a new API key is to be, from any backend.

use rlinks_core::{Scopes, Timestamp};

pub(crate) struct KeyRequest {
    pub(crate) name: String,
    /// Else the usual ones.
    pub(crate) scopes: Option<Scopes>,
    pub(crate) user: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
}
