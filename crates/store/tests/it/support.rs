//! Fixtures: stores on either database, and short ways to write links into them.

pub(crate) mod database;
pub(crate) mod store;
