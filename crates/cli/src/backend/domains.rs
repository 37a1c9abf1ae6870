//! A host of a workspace, as a store has it and a server tells of it.

use rlinks_core::workspace::domain_verification::{VerificationRecord, utc_date};
use rlinks_core::{Domain, DomainStatus, Host, Timestamp, Workspace};
use rlinks_store::DomainRecord;
use serde::{Deserialize, Serialize};

/// A host as it is shown.
#[derive(Serialize, Deserialize)]
pub(crate) struct DomainDetails {
    pub(crate) host: Host,
    /// A server does not repeat whose it is.
    #[serde(default)]
    pub(crate) workspace: String,
    pub(crate) primary: bool,
    pub(crate) created_at: Timestamp,
    /// A server of an earlier version knows of no proof.
    #[serde(default)]
    pub(crate) state: DomainStatus,
    pub(crate) proof: Option<VerificationRecord>,
    pub(crate) expires_on: Option<String>,
    pub(crate) checked_at: Option<Timestamp>,
    pub(crate) warning: Option<String>,
}

impl DomainDetails {
    pub(crate) fn from_record(record: DomainRecord, workspace: &Workspace, now: Timestamp) -> Self {
        let DomainRecord { domain, verification } = record;
        let proof = verification.needs_proof.then(|| VerificationRecord::new(workspace, &domain.host));
        let Domain { host, primary, created_at, .. } = domain;
        Self {
            host,
            workspace: workspace.slug.to_string(),
            primary,
            created_at,
            state: verification.status(),
            proof,
            expires_on: verification.expires_at.map(utc_date),
            checked_at: verification.checked_at,
            warning: verification.warning(now),
        }
    }
}
