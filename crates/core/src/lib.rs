//! The domain of rlinks: what a link is, what a workspace lets it be, and what a request gets.
//!
//! Pure: no I/O, no clock, no randomness, no async. Time and random bytes are arguments, so the native server, the command
//! line and the Cloudflare Worker give the same answers from the same functions, and tests hold literal values.
//!
//! | to find | look in |
//! |---|---|
//! | what a request gets | [`mod@decide`], [`answer`], [`request`] |
//! | what a link may be | [`code`], [`target`], [`policy`], [`draft`] |
//! | what is stored and shown | [`link`], [`route_object`], [`audit`] |
//! | what a click may keep of a request | [`source`], [`network`] |
//! | whose a host is, and whether that is proven | [`workspace`], [`custody`] |
//! | people and keys | [`user`], [`password`], [`key`], [`actor`] |
//! | bodies, read strictly | [`strict`] |
//! | ids and codes | [`id`], [`base62`], [`generate`] |

pub mod accept;
pub mod actor;
pub mod answer;
pub mod audit;
pub mod base62;
pub mod code;
pub mod custody;
pub mod decide;
pub mod draft;
pub mod envelope;
pub mod field;
pub mod generate;
pub mod host;
pub mod id;
pub mod key;
pub mod link;
pub mod network;
pub mod page;
pub mod password;
pub mod policy;
pub mod request;
pub mod route_object;
pub mod search;
pub mod source;
pub mod strict;
pub mod target;
pub mod time;
pub mod user;
pub mod workspace;

pub use actor::Actor;
pub use code::Code;
pub use custody::{Custody, Standing};
pub use decide::{Decision, Route, Visitor, decide};
pub use draft::{LinkDraft, LinkPatch};
pub use field::{FieldCode, FieldError, FieldErrors};
pub use host::{Domains, Host};
pub use id::Id;
pub use key::{ApiKey, Scope, Scopes};
pub use link::{Link, LinkState, RedirectStatus, Source};
pub use password::Password;
pub use policy::{Policy, Preset};
pub use target::Target;
pub use time::Timestamp;
pub use user::{Email, Role, User, UserStatus};
pub use workspace::{Domain, Slug, Workspace};
