//! The server through its front door: real sockets, a real store.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod clicks;
mod client;
mod conformance;
mod freshness;
mod hostile;
mod support;
#[path = "../../../../conformance/table.rs"]
mod table;
mod tls;
