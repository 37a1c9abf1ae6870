//! The tests of the command line and of the repository itself, in one binary: one link instead of many.
//!
//! Every test runs the real `rmax` in a folder of its own with an environment of its own ([`support::sandbox`]) and looks at exit code,
//! stdout and stderr. `postgres` needs a server: `scripts/with-postgres cargo test -p rmax -- postgres`; `outside_cloudflare` needs
//! miniflare in the folder `RLINKS_TEST_MINIFLARE`, which `scripts/stage/35-outside` installs.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod audit;
mod backup;
mod click_durability;
mod click_privacy;
mod clicks;
mod clicks_crash;
mod concurrency;
mod config;
mod crash;
mod damaged_store;
mod dev_seed;
mod doctor;
mod domain_checks;
mod golden;
mod help_and_version;
mod integrity;
mod links;
mod oidc;
mod outputs;
mod outside_cloudflare;
mod postgres;
mod reachability;
mod reload;
mod remote;
mod rollback;
mod safety;
mod serve;
mod shorten;
mod sign_in;
mod source_documents;
mod stats;
mod support;
mod sweep;
mod tidy;
mod transfer;
mod workspaces;
