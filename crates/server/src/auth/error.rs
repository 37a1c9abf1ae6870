//! Why a caller is not let in.

use rlinks_core::Scope;
use rlinks_store::StoreError;

/// Why a request is refused before its handler runs.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No credential, or one that is not valid; the response does not say which.
    #[error("A valid credential is needed")]
    Unauthenticated,
    /// The token is genuine, but its holder has no account that lets them in.
    #[error("{0}")]
    NoAccount(String),
    #[error("This credential does not allow {0}")]
    MissingScope(Scope),
    #[error(
        "With a session, a change needs the session's token in X-CSRF-Token, and must come from our own pages"
    )]
    CrossSite,
    #[error("The request could not be read")]
    BadRequest,
    /// The account exists in several workspaces, and the request has to name one.
    #[error("{0}")]
    AmbiguousWorkspace(String),
    #[error("{0}")]
    ProviderUnavailable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
