//! The Cloudflare Worker: the same core, where the truth is KV (profile `fabric`) or D1 (profile `edge`).
//!
//! Two halves. The pure one builds everywhere and is tested natively; the other talks to Cloudflare and builds for WebAssembly
//! only. Crossing between WebAssembly and JavaScript is what costs here, so a request is read in one call and answered in one.
//!
//! | to find | look in |
//! |---|---|
//! | what a request is and what it asks for | [`facts`], [`door`] |
//! | what the operator set | [`settings`] |
//! | what KV holds | [`hit`] for `fabric`, [`entry`] for `edge` |
//! | the edge's own API, its tables and its statistics | [`admin`], [`sql`], [`visits`] |
//! | the calls to Cloudflare, and who makes them | `events`, `platform`, `fabric`, `edge`, `api`, `cron` (WebAssembly) |

pub mod admin;
pub mod door;
pub mod entry;
pub mod facts;
pub mod hit;
pub mod settings;
pub mod sql;
pub mod visits;

#[cfg(target_arch = "wasm32")]
mod api;
#[cfg(target_arch = "wasm32")]
mod cron;
#[cfg(target_arch = "wasm32")]
mod edge;
#[cfg(target_arch = "wasm32")]
mod events;
#[cfg(target_arch = "wasm32")]
mod fabric;
#[cfg(target_arch = "wasm32")]
mod platform;
