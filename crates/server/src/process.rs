//! The life of a server process: what it is told, how it starts and stops, and what it does once a day.

pub mod config;
pub mod error;
pub mod lock;
pub(crate) mod scheduler;
pub mod server;
pub mod signals;
