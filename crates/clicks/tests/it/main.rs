//! The tests of clicks from outside, in one binary. A contract test runs on both databases; the PostgreSQL half needs a server:
//!
//! ```text
//! cargo test -p rlinks-clicks -- --skip postgres
//! scripts/with-postgres cargo test -p rlinks-clicks -- postgres
//! ```
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

#[path = "../../../store/tests/it/database.rs"]
mod database;
mod desk;
mod ingest;
mod journal;
mod recompute;
mod retention;
mod stats;
