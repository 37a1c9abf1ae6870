//! The tests of the command line and of the repository itself, in one binary: one link instead of many.
//!
//! Every test runs the real `rmax` in a folder of its own with an environment of its own ([`place`]) and looks at exit code,
//! stdout and stderr. `postgres` needs a server: `scripts/with-postgres cargo test -p rmax -- postgres`; `outside_cloudflare` needs
//! miniflare in the folder `RLINKS_TEST_MINIFLARE`, which `scripts/stage/35-outside` installs.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod audit;
mod backup;
mod clicks;
mod clicks_crash;
mod clicks_kept;
mod clicks_private;
#[path = "../../../server/tests/it/client.rs"]
mod client;
mod config;
mod crash;
mod custody;
mod directory;
mod doctor;
mod golden;
mod links;
mod oidc;
mod outputs;
mod outside_cloudflare;
mod place;
mod postgres;
mod race;
mod reach;
mod refusals;
mod reload;
mod remote;
mod rollback;
mod safety;
mod seed;
mod seeds;
mod serve;
mod shorten;
mod sign_in;
mod stats;
mod sweep;
mod tidy;
mod transfer;
mod usage;
