//! What the rows of an import are checked against.

use std::collections::HashSet;

use rlinks_core::{Actor, Id, Policy, ServedHosts};

/// What rows are held against.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What a link may be.
    pub policy: Policy,
    pub workspace: Id,
    pub owner: Actor,
    /// Every domain that is ours.
    pub domains: ServedHosts,
    /// Hosts that other workspaces merely claim.
    pub claimed: HashSet<String>,
    /// What to do where another link is there.
    pub on_existing: OnExisting,
    /// What a link keeps of what it was.
    pub identity: ImportIdentity,
    /// Let links that lead to http do so, where the file does not say otherwise.
    pub allow_http: bool,
}

impl Rules {
    /// Whether links of ours may answer on a host, so that a link to it may close a circle.
    pub fn may_answer_on(&self, host: &str) -> bool {
        self.domains.contains(host) || self.claimed.contains(host)
    }
}

/// What to do where another link has the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// Leave it, and say so.
    Skip,
    /// Change it to what the file says.
    Overwrite,
}

/// What a link keeps of what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportIdentity {
    /// What it says. Its id, maker and version are new, and the rules for new links hold.
    New,
    /// All of it: the operator brings back what was exported. What could be stored before can be stored again.
    Preserve,
}
