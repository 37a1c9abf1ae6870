//! Clicks: recorded before the redirect is answered, stored exactly once, added up, and read.
//!
//! | to find | look in |
//! |---|---|
//! | what a serving thread does for a click | [`recorder`], into [`journal`] |
//! | the background threads that take it from there | [`pipeline`] |
//! | from the journal to the database, exactly once | [`ingest`]; what is added to a click is [`enrich`] |
//! | what clicks add up to | [`rollup`], [`recompute`] |
//! | answers: numbers, rankings, latest clicks | [`stats`], [`events`]; what days add up to is `day_values`, remembered by `month_cache` |
//! | codes that no link has | [`misses`] |
//! | clicks counted elsewhere | [`edge_hits`], `external_totals` |
//! | what is kept how long, and the secrets behind visitors' keys | [`retention`], [`visitor_secrets`] |
//! | clicks out of the database | [`export`] |
//! | where it is kept | [`database`] |

mod bulk_lookup;
pub mod click;
pub mod database;
mod day_values;
pub mod edge_hits;
pub mod enrich;
pub mod events;
pub mod export;
mod external_totals;
pub mod ingest;
pub mod journal;
pub mod misses;
mod month_cache;
pub mod pipeline;
pub mod recompute;
pub mod recorder;
pub mod retention;
pub mod rollup;
pub mod stats;
pub mod time;
pub mod visitor_secrets;

pub use click::{Click, Device, IpPrefix};
pub use database::ClickStore;
pub use ingest::Ingest;
pub use pipeline::ClickPipeline;
pub use recorder::{ClickContext, Recorder};
