//! The tests of the store from outside, in one binary.
//!
//! A contract test takes a [`database::Place`] and runs on both databases: the macro `contract!` makes a module `sqlite` and a
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
//! | `write`, `write_in_order`, `link`, `links`, `links_by_id`, `route`, `routes`, `routes_after`, `count_links`, `link_at`, `links_leading_to` | `links`, `reuse`, `crowd` |
//! | `prepare`, `write_prepared`, `reserve_ids`, `take_stock` | `import` |
//! | `list` | `list` |
//! | `workspaces`, `workspace`, `create_workspace`, `update_workspace`, `domains`, `served`, `vouched_hosts`, `add_domain`, `remove_domain`, `set_primary_domain` | `directory` |
//! | `claim_domain`, `held_domain`, `held_domains`, `silent_hosts`, `keep_custody`, `trust_domain`, `lapse_domain` | `custody` |
//! | `history`, `last_entry`, `audit_after`, `audit_before`, `audit_filtered`, `heads`, `last_change`, `verify`, `links_beside_the_log`, `directory_beside_the_log` | `audit` |
//! | `Feed::new`, `look`, `wait` | `feed` |
//! | `backup`, `is_empty`, `restore`, `backup::verify` | `backup` |
//! | `accounts_of`, `create_subject`, `sync_subject`, `link_subject` | `subjects` |
//!
//! And with them every statement: the texts in `src` were compared with those PostgreSQL logged (`log_statement = 'all'`) during
//! the `postgres` tests, and none was missing but SQLite's own. A new statement comes with a contract test.
//!
//! `model` compares random sequences of changes with a model in memory. `file` and `sign` are about files, so SQLite only.
#![expect(clippy::unwrap_used, reason = "in a test whatever is not there is a failure")]

mod audit;
mod backup;
mod crash;
mod crowd;
mod custody;
mod database;
mod directory;
mod feed;
mod file;
mod health;
mod import;
mod links;
mod list;
mod model;
mod people;
mod place;
mod reuse;
mod sign;
mod subjects;
