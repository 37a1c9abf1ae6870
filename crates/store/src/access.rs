//! Members, their sessions and sign-ins, and API keys.

pub(crate) mod api_keys;
pub(crate) mod credentials;
pub(crate) mod grants;
mod lineage;
pub(crate) mod members;
pub(crate) mod oidc_identities;
pub(crate) mod sessions;
pub(crate) mod sign_in;
pub(crate) mod sign_in_attempts;
pub(crate) mod sign_in_reset;
pub(crate) mod user_rows;
