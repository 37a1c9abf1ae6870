//! A host of a workspace, as a store has it and a server tells of it.

use rlinks_core::{Timestamp, Workspace};
use rlinks_store::DomainRecord;
use rlinks_wire::domain::Domain;
use serde::Serialize;

/// A host as it is shown: a server does not repeat whose it is.
#[derive(Serialize)]
pub(crate) struct DomainDetails {
    #[serde(flatten)]
    pub(crate) domain: Domain,
    pub(crate) workspace: String,
}

impl DomainDetails {
    pub(crate) fn from_record(record: DomainRecord, workspace: &Workspace, now: Timestamp) -> Self {
        let domain = Domain::new(record.domain, &record.verification, workspace, now);
        Self { domain, workspace: workspace.slug.to_string() }
    }
}
