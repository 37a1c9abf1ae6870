//! A host of a workspace, as a store has it and a server tells of it.

use rlinks_core::workspace::domain_verification::{Proof, date};
use rlinks_core::{Domain, Host, Standing, Timestamp, Workspace};
use rlinks_store::Held;
use serde::{Deserialize, Serialize};

/// A host as it is shown.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hosted {
    pub(crate) host: Host,
    /// A server does not repeat whose it is.
    #[serde(default)]
    pub(crate) workspace: String,
    pub(crate) primary: bool,
    pub(crate) created_at: Timestamp,
    /// A server of an earlier version knows of no proof.
    #[serde(default)]
    pub(crate) state: Standing,
    pub(crate) proof: Option<Proof>,
    pub(crate) expires_on: Option<String>,
    pub(crate) checked_at: Option<Timestamp>,
    pub(crate) concern: Option<String>,
}

impl Hosted {
    pub(crate) fn of(held: Held, workspace: &Workspace, now: Timestamp) -> Self {
        let Held { domain, custody } = held;
        let proof = custody.needs_proof.then(|| Proof::of(workspace, &domain.host));
        let Domain { host, primary, created_at, .. } = domain;
        Self {
            host,
            workspace: workspace.slug.to_string(),
            primary,
            created_at,
            state: custody.standing(),
            proof,
            expires_on: custody.expires_at.map(date),
            checked_at: custody.checked_at,
            concern: custody.concern(now),
        }
    }
}
