//! The server: redirects, the API, the dashboard, and the process around them.
//!
//! | to find | look in |
//! |---|---|
//! | the hot path: look up, decide, record, respond | `redirect`; `redirect::fast_path` is its tight loop |
//! | what the hot path knows, and how it learns | the crate `rlinks-routes` |
//! | what is not a redirect | `control`; [`api`], `web`; what both share is in `front_end` |
//! | who somebody is | [`auth`] |
//! | what can be done to links | the crate `rlinks-ops`; `process::scheduler` does some of it by itself |
//! | the life of a server | [`process`] |
//!
//! Serving threads touch memory only. Everything that may block runs on the control runtime, which owns the store.

pub mod api;
pub mod auth;
mod control;
mod front_end;
pub mod process;
mod redirect;
mod web;

pub use crate::process::config::{
    Archive, AuditPushSettings, Config, ConnectionSettings, ForwardedHeader, Reload, ReloadableSettings,
    TlsFiles,
};
pub use crate::process::error::ServeError;
pub use crate::process::server::{Server, run};
pub use crate::redirect::tls::Tls;
pub use rlinks_ops::Ops;
pub use rlinks_store::clock::Clock;
