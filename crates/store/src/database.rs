//! The database underneath: opening it, its migrations, the ids it gives out, and one SQL text for SQLite and PostgreSQL.

pub mod atomic_file;
pub mod bulk;
pub(crate) mod file;
pub(crate) mod health;
pub(crate) mod ids;
pub(crate) mod json;
pub mod migrations;
pub mod open;
pub(crate) mod paging;
pub mod pool;
#[cfg(test)]
pub(crate) mod query_plan;
pub mod row;
