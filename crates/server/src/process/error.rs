//! Why a server did not start.

use rlinks_store::StoreError;

/// Why a server did not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another server uses the data folder.
    #[error("{0}")]
    AlreadyRunning(String),
    /// The address cannot be listened on.
    #[error("{0}")]
    Listen(String),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The OpenID provider cannot be used as it is configured.
    #[error("the OpenID provider: {0}")]
    Oidc(String),
    /// Targets cannot be checked as configured.
    #[error("{0}")]
    Safety(String),
    /// Hosts cannot be looked after as configured.
    #[error("{0}")]
    DomainChecks(String),
    /// Audit heads can't be sent where they should go.
    #[error("`audit.push`: {0}")]
    AuditPush(String),
    /// The store did not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused something.
    #[error("{0}")]
    System(#[from] std::io::Error),
}
