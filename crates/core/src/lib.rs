//! The domain of rlinks: what a link is, what a workspace lets it be, and what a request gets.
//!
//! Pure: no I/O, no clock, no randomness, no async. Time and random bytes are arguments, so the native server, the command
//! line and the Cloudflare Worker give the same answers from the same functions, and tests hold literal values.
//!
//! | to find | look in |
//! |---|---|
//! | what a request gets | [`redirect`]; the decision itself is [`mod@redirect::decide`] |
//! | what a link is, and how KV holds it | [`link`] |
//! | what a workspace allows, and whether its hosts are verified | [`workspace`] |
//! | a new link or a change, checked against the policy | [`draft`] |
//! | users, roles, scopes and API keys | [`access`] |
//! | what a click may keep of a request | [`click`] |
//! | the audit log's hash chain | [`audit`] |
//! | errors, as programs see them | [`error_code`], [`field_error`] |
//! | JSON that cannot mean two things | [`strict_json`] |
//! | ids, times and hosts | [`id`], [`base62`], [`time`], [`host`] |

pub mod access;
pub mod audit;
pub mod base62;
pub mod click;
pub mod draft;
pub mod error_code;
pub mod field_error;
pub mod hex;
pub mod host;
pub mod id;
pub mod link;
pub mod redirect;
pub mod strict_json;
pub mod text;
pub mod time;
pub mod two_generation_cache;
pub mod workspace;

pub use access::actor::Actor;
pub use access::api_key::ApiKey;
pub use access::password::Password;
pub use access::scope::{Scope, Scopes};
pub use access::user::{Email, Role, User, UserStatus};
pub use draft::{LinkDraft, LinkPatch};
pub use field_error::{FieldCode, FieldError, FieldErrors};
pub use host::{Host, ServedHosts};
pub use id::Id;
pub use link::code::Code;
pub use link::target::Target;
pub use link::{Link, LinkSource, LinkState, RedirectStatus, Route};
pub use redirect::decide::{Decision, Visitor, decide};
pub use time::Timestamp;
pub use workspace::domain_verification::{DomainStatus, DomainVerification};
pub use workspace::policy::{Policy, Preset};
pub use workspace::{Domain, Slug, Workspace};
