//! The tests of clicks from outside, in one binary. A contract test runs on both databases; the PostgreSQL half needs a server:
//!
//! ```text
//! cargo test -p rlinks-clicks -- --skip postgres
//! scripts/with-postgres cargo test -p rlinks-clicks -- postgres
//! ```
//!
//! Modules named `outside_` need programs of others: an S3 server (`scripts/with-s3`), `DuckDB` and pandas.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod by_clicks;
#[path = "../../../store/tests/it/database.rs"]
mod database;
mod desk;
mod export_lines;
mod export_parquet;
mod export_place;
mod export_run;
mod import;
mod ingest;
mod journal;
mod outside_readers;
mod outside_s3;
mod recompute;
mod retention;
mod samples;
mod stats;
