//! The database underneath: opening it, its migrations, and one SQL text for SQLite and PostgreSQL.

pub mod bulk;
pub(crate) mod file;
pub(crate) mod health;
pub mod open;
pub mod pool;
#[cfg(test)]
pub(crate) mod query_plan;
