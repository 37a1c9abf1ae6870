//! The audit log: appended under a lock, read, verified, and signed at checkpoints.

pub(crate) mod chain;
pub(crate) mod change;
pub mod checkpoints;
pub mod key_statements;
pub mod log;
pub mod signing_key;
pub(crate) mod stops;
