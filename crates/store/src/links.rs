//! Reading links: one, many, in lists, as redirects need them, and as they were.

pub(crate) mod list;
pub(crate) mod list_filter;
pub(crate) mod list_sql;
pub(crate) mod read;
pub(crate) mod recover;
pub(crate) mod routes;
pub(crate) mod rows;
pub(crate) mod time_travel;
