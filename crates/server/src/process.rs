//! The life of a server process: what it is told, how it starts and stops, and what it does once a day.

pub mod config;
pub(crate) mod scheduler;
pub mod server;
pub mod signals;
