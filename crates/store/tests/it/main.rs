//! The tests of the store from outside, in one binary.
//!
//! A contract test takes a [`support::database::TestStore`] and runs on both databases: the macro `contract!` makes a module `sqlite` and a
//! module `postgres` of the same tests. The latter need a server:
//!
//! ```text
//! cargo test -p rlinks-store -- --skip postgres
//! scripts/with-postgres cargo test -p rlinks-store -- postgres
//! ```
//!
//! Every public method runs on both databases:
//!
//! | method | in |
//! |---|---|
//! | `open`, `dialect`, `close`, `ping`, `schema`, `integrity`, `quick_check` | `health` |
//! | `write`, `write_in_order`, `link`, `links`, `links_by_id`, `route`, `routes`, `routes_after`, `count_links`, `link_at`, `links_leading_to` | `links`, `reuse`, `concurrency` |
//! | `prepare`, `write_prepared`, `reserve_ids`, `take_stock` | `import` |
//! | `list` | `list` |
//! | `workspaces`, `workspace`, `create_workspace`, `update_workspace`, `domains`, `served`, `vouched_hosts`, `add_domain`, `remove_domain`, `set_primary_domain` | `workspaces` |
//! | `claim_domain`, `held_domain`, `held_domains`, `silent_hosts`, `keep_custody`, `trust_domain`, `lapse_domain` | `domain_verification` |
//! | `history`, `last_entry`, `audit_after`, `audit_before`, `audit_filtered`, `heads`, `last_change`, `verify`, `links_beside_the_log`, `directory_beside_the_log` | `audit` |
//! | `Feed::new`, `look`, `wait` | `feed` |
//! | `backup`, `is_empty`, `restore`, `backup::verify` | `backup` |
//! | `add_limit_uses`, `limit_uses_since`, `purge_limit_uses`, `keys_older_than` | `members` |
//! | `accounts_of`, `create_subject`, `sync_subject`, `link_subject` | `oidc_identities` |
//!
//! And with them every statement: the texts in `src` were compared with those PostgreSQL logged (`log_statement = 'all'`) during
//! the `postgres` tests, and none was missing but SQLite's own. A new statement comes with a contract test.
//!
//! `model` compares random sequences of changes with a model in memory. `sqlite_file`, `checkpoints` and `atomic_file` are about files, so SQLite only.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod atomic_file;
mod audit;
mod backup;
mod checkpoints;
mod concurrency;
mod crash;
mod domain_verification;
mod feed;
mod health;
mod import;
mod links;
mod list;
mod members;
mod model;
mod oidc_identities;
mod reuse;
mod sqlite_file;
mod support;
mod workspaces;
