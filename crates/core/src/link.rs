//! Links: a short address and where it leads.

pub mod code;
pub mod route;
pub mod route_object;
pub mod search;
pub mod state;
pub mod target;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::route::Route;
pub use self::state::{LinkSource, LinkState, RedirectStatus};
use crate::{Actor, Code, Id, Target, Timestamp};

/// A link. `code`, `id`, `created_at` and `created_by` never change. Its JSON is what audit entries hold, so every field
/// added later needs a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub id: Id,
    pub workspace: Id,
    pub code: Code,
    /// Made by the generator rather than chosen.
    #[serde(default)]
    pub generated: bool,
    pub target: Target,
    pub redirect_status: RedirectStatus,
    /// What its owner made of it.
    pub state: LinkState,
    /// Leads to https only.
    pub https_only: bool,
    /// Never leads back to a domain we serve.
    pub no_loop: bool,
    /// Served up to and including this moment.
    pub expires_at: Option<Timestamp>,
    /// A name for people.
    pub title: Option<String>,
    pub notes: Option<String>,
    pub tags: Vec<String>,
    /// Free fields of programs.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// How it came to be.
    pub source: LinkSource,
    pub created_by: Actor,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed. A click is no change.
    pub updated_at: Timestamp,
    /// Counts its changes; a change names the version it saw.
    pub version: i64,
}

impl Link {
    /// The part of it a request depends on.
    pub fn route(&self) -> Route<'_> {
        Route {
            state: self.state,
            redirect_status: self.redirect_status,
            https_only: self.https_only,
            no_loop: self.no_loop,
            expires_at: self.expires_at,
            target: self.target.as_str(),
            target_host: self.target.host(),
        }
    }

    /// Past its expiry at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| now > at)
    }
}
