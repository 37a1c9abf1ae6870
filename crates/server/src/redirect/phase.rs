//! Where a server is in its life, and how long a connection may keep it waiting.

use std::time::Duration;

/// How long a client may take to send the head of a request, and how long a connection may lie idle between two.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// No new connections; the open ones finish what they are doing.
    Draining,
}
