//! Clicks: recorded before the redirect is answered, stored exactly once, added up, and read.
//!
//! | to find | look in |
//! |---|---|
//! | what a serving thread does | [`recorder`], into [`journal`] |
//! | the secrets behind visitors' keys | [`secrets`] |
//! | from the journal to the database | [`ingest`]; what clicks add up to is [`roll`] |
//! | from elsewhere to the database | [`import`] |
//! | what can be known of a click | [`agent`], [`geo`], [`source`], [`country`] |
//! | what is answered of them | [`stats`]; links in the order of their clicks are `by_clicks` |
//! | counting anew, and what is kept how long | [`recompute`], [`retention`] |
//! | codes nobody has | [`misses`] |
//! | clicks that were counted elsewhere | `imported` |
//! | where it is kept | [`open`] |

pub mod agent;
mod by_clicks;
pub mod click;
pub mod country;
pub mod events;
pub mod export;
pub mod geo;
pub mod import;
mod imported;
pub mod ingest;
pub mod journal;
mod look_up;
pub mod misses;
#[cfg(test)]
mod mmdb;
pub mod open;
pub mod recompute;
pub mod record;
pub mod recorder;
pub mod recording;
pub mod retention;
pub mod roll;
pub mod secrets;
pub mod stats;
pub mod time;

pub use agent::Device;
pub use click::{Click, Prefix};
pub use ingest::Ingest;
pub use open::Clicks;
pub use recorder::{Facts, Recorder};
pub use recording::Recording;
pub use rlinks_core::source;
