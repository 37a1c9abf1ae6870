//! The server through its front door: real sockets, a real store.

mod conformance;
mod freshness;
mod support;
#[path = "../../../../conformance/table.rs"]
mod table;
