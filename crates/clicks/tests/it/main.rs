//! The tests of clicks from outside, in one binary. A contract test runs on both databases; the PostgreSQL half needs a server:
//!
//! ```text
//! cargo test -p rlinks-clicks -- --skip postgres
//! scripts/with-postgres cargo test -p rlinks-clicks -- postgres
//! ```
//!
//! Modules named `outside_` need programs of others: an S3 server (`scripts/with-s3`), `DuckDB` and pandas.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod edge_hits;
mod export_destination;
mod export_job;
mod export_lines;
mod export_parquet;
mod ingest;
mod journal;
mod outside_readers;
mod outside_s3;
mod ranking;
mod recompute;
mod retention;
mod stats;
mod support;
