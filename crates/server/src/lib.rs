//! The server: redirects, and the operations everything else is a face of.
//!
//! | to find | look in |
//! |---|---|
//! | the hot path: look up, decide, record, respond | `redirect`; `plain` is its tight loop |
//! | what it knows, and how it learns | `routes`, [`table`], [`directory`], `absent`, `follow` |
//! | sockets, threads, limits | `listen`, `io`, `tls`, `client`, `misses` |
//! | what is no redirect | `control`, `metrics`; [`api`], `web` |
//! | who somebody is | [`auth`] |
//! | what can be done to links | [`ops`]; `daily` does some of it by itself |
//! | the life of a server | [`run`](mod@run), [`stop`] |
//!
//! Serving threads touch memory only. Everything that may block runs on the control runtime, which owns the store.

mod absent;
pub mod api;
pub mod auth;
mod body;
mod client;
pub mod clock;
pub mod config;
mod control;
mod daily;
pub mod directory;
mod follow;
mod io;
mod listen;
mod metrics;
mod misses;
pub mod ops;
mod plain;
mod redirect;
mod routes;
pub mod run;
mod shared;
pub mod stop;
pub mod table;
pub mod tls;
mod web;

pub use clock::Clock;
pub use config::{Archive, Config, Reload, Reloadable, TlsFiles};
pub use ops::Ops;
pub use run::{ServeError, Server, run};
