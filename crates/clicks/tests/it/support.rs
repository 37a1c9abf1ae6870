//! Fixtures: clicks and the stores that count them.

pub(crate) mod clicks;
#[path = "../../../store/tests/it/support/database.rs"]
pub(crate) mod database;
pub(crate) mod rollups;
pub(crate) mod sample_clicks;
