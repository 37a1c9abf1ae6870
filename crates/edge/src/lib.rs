//! The Cloudflare Worker: the same core, where the truth is KV (profile `fabric`) or D1 (profile `edge`).
//!
//! Two halves. The pure one builds everywhere and is tested natively; the other talks to Cloudflare and builds for WebAssembly
//! only. Crossing between WebAssembly and JavaScript is what costs here, so a request is read in one call and answered in one.
//!
//! | to find | look in |
//! |---|---|
//! | what a request is and what it asks for | [`request`], [`routing`] |
//! | what the operator set | [`settings`] |
//! | guessing at the admin token, slowed down | [`failed_tokens`] |
//! | what KV holds | [`kv_objects`] for `fabric`, [`cached_link`] for `edge` |
//! | the edge's own API, its tables and its statistics | [`api_request`], [`d1_sql`], [`analytics`] |
//! | the calls to Cloudflare, and who makes them | `handlers`, `api`, `cron`, `profile`, `context`, `platform` (WebAssembly) |

pub mod analytics;
#[cfg(target_arch = "wasm32")]
mod api;
pub mod api_request;
pub mod cached_link;
#[cfg(target_arch = "wasm32")]
mod context;
#[cfg(target_arch = "wasm32")]
mod cron;
pub mod d1_sql;
pub mod failed_tokens;
#[cfg(target_arch = "wasm32")]
mod handlers;
pub mod kv_objects;
#[cfg(target_arch = "wasm32")]
mod platform;
#[cfg(target_arch = "wasm32")]
mod profile;
pub mod request;
pub mod routing;
pub mod settings;
