//! Domains: the hosts a workspace answers on.

use rlinks_core::workspace::domain_verification::{DomainVerification, VerificationRecord, utc_date};
use rlinks_core::{DomainStatus, Host, Timestamp, Workspace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A host the workspace answers on.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Domain {
    #[schema(value_type = String)]
    pub host: Host,
    /// Short URLs are written with it.
    pub primary: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Whether it answers: `active`, `unproven` while it waits for its proof, `suspended` when that was gone for 72 hours.
    // A server of an earlier version says nothing of it.
    #[serde(default)]
    #[schema(value_type = String, example = "active", required)]
    pub state: DomainStatus,
    /// The TXT record that proves it; nothing where none is asked for.
    pub proof: Option<DomainProof>,
    /// The day its registration ends, where the registry says so.
    #[schema(format = Date)]
    pub expires_on: Option<String>,
    /// When DNS last answered about it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<Timestamp>,
    /// What somebody should do something about, in words.
    pub warning: Option<String>,
}

/// A TXT record.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct DomainProof {
    #[schema(example = "_rlinks.go.example.com")]
    pub name: String,
    #[schema(example = "rlinks=0123456789abcdef0123456789abcdef01234567")]
    pub value: String,
}

impl Domain {
    pub fn new(
        domain: rlinks_core::Domain,
        verification: &DomainVerification,
        workspace: &Workspace,
        now: Timestamp,
    ) -> Self {
        let proof = verification.needs_proof.then(|| VerificationRecord::new(workspace, &domain.host));
        Self {
            state: verification.status(),
            proof: proof.map(|VerificationRecord { name, value }| DomainProof { name, value }),
            expires_on: verification.expires_at.map(utc_date),
            checked_at: verification.checked_at,
            warning: verification.warning(now),
            host: domain.host,
            primary: domain.primary,
            created_at: domain.created_at,
        }
    }
}
