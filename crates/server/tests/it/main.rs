//! The server through its front door: real sockets, a real store. Tests of the API that touch a database in more than one way run on
//! both; the PostgreSQL half needs a server:
//!
//! ```text
//! cargo test -p rlinks-server -- --skip postgres
//! scripts/with-postgres cargo test -p rlinks-server -- postgres
//! ```
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod api;
mod clicks;
mod conformance;
mod freshness;
mod hostile;
mod link_list;
mod metrics;
mod oidc;
mod sign_in;
mod support;
#[path = "../../../../conformance/table.rs"]
mod table;
mod tls;
mod web;
