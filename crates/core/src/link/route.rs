//! The part of a link that a decision needs.

use super::state::{LinkState, RedirectStatus};
use crate::Timestamp;

/// The part of a link a request depends on, borrowed from wherever it is kept: the route table, a [`crate::Link`], or a
/// route object in KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// What its owner made of it.
    pub state: LinkState,
    pub redirect_status: RedirectStatus,
    /// Leads to https only.
    pub https_only: bool,
    /// Never leads back to a domain we serve.
    pub no_loop: bool,
    /// Served up to and including this moment.
    pub expires_at: Option<Timestamp>,
    pub target: &'a str,
    /// The target's host, found when the link was loaded.
    pub target_host: &'a str,
}
