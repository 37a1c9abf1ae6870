//! Workspaces and domains as the log tells them: what its entries about them add up to.

use std::collections::{BTreeMap, BTreeSet};

use rlinks_core::{Domain, DomainStatus, DomainVerification, Workspace};

use crate::access::api_keys::AuditedKey;
use crate::access::credentials::StoredCredential;
use crate::audit::log::{domain_subject, workspace_subject};
use crate::backup::replay_members;
use crate::database::pool::{Tx, read_in};
use crate::workspace::domains;
use crate::workspace::domains::DomainRow;
use crate::workspace::workspaces::WorkspaceRow;
use crate::{Store, StoreError};

/// What is known of hosts, by workspace and host.
type Verifications = BTreeMap<(i64, String), DomainVerification>;

/// What a log says of workspaces and domains.
#[derive(Default)]
pub(crate) struct LoggedDirectory {
    /// By id. One whose last entry cannot be read is not here.
    pub(crate) workspaces: BTreeMap<i64, Workspace>,
    /// By workspace and host.
    pub(crate) domains: BTreeMap<(i64, String), Domain>,
}

impl LoggedDirectory {
    /// The next entry of a workspace's chain. Entries about other things change nothing.
    pub(crate) fn push(&mut self, workspace: i64, subject: &str, after: Option<&str>) {
        if subject.starts_with("workspace:") {
            let read = after.and_then(|after| serde_json::from_str::<Workspace>(after).ok());
            let read =
                read.filter(|it| it.id.as_i64() == workspace && workspace_subject(&it.slug) == subject);
            match read {
                Some(read) => self.workspaces.insert(workspace, read),
                None => self.workspaces.remove(&workspace),
            };
        } else if let Some(host) = subject.strip_prefix("domain:") {
            let read = after.and_then(|after| serde_json::from_str::<Domain>(after).ok());
            let read =
                read.filter(|it| it.workspace.as_i64() == workspace && domain_subject(&it.host) == subject);
            let place = (workspace, host.to_owned());
            let Some(read) = read else {
                self.domains.remove(&place);
                return;
            };
            // A workspace has one primary domain: the entry that makes another one primary says so of the old one too.
            if read.primary {
                let mine = self.domains.iter_mut().filter(|((owner, _), _)| *owner == workspace);
                mine.for_each(|(_, domain)| domain.primary = false);
            }
            self.domains.insert(place, read);
        }
    }
}

/// The log's directory as of the moment of `view`.
pub(crate) async fn from_log(view: &mut Tx) -> Result<LoggedDirectory, StoreError> {
    let rows: Vec<(i64, String, Option<String>)> = read_in!(
        view,
        fetch_all,
        "select workspace_id, subject, after from audit
         where subject >= 'workspace:' and subject < 'workspace;' or subject >= 'domain:' and subject < 'domain;'
         order by workspace_id, seq"
    )?;
    let mut directory = LoggedDirectory::default();
    for (workspace, subject, after) in rows {
        directory.push(workspace, &subject, after.as_deref());
    }
    Ok(directory)
}

pub(crate) async fn workspace_rows(view: &mut Tx) -> Result<Vec<WorkspaceRow>, StoreError> {
    Ok(read_in!(
        view,
        fetch_all,
        "select id, slug, name, policy, created_at, updated_at, deleted_at from workspaces order by id"
    )?)
}

pub(crate) async fn domain_rows(view: &mut Tx) -> Result<Vec<DomainRow>, StoreError> {
    Ok(read_in!(
        view,
        fetch_all,
        "select host, workspace_id, is_primary, created_at from domains order by host"
    )?)
}

/// Hosts that answer, or do not, though the log says otherwise.
fn hosts_differing_from_log(logged: &Verifications, there: &Verifications) -> Vec<String> {
    let status = |known: &Verifications, place: &(i64, String)| {
        known.get(place).map_or(DomainStatus::Active, DomainVerification::status)
    };
    let places: BTreeSet<_> = logged.keys().chain(there.keys()).collect();
    let others = places.into_iter().filter(|place| status(logged, place) != status(there, place));
    others.map(|(_, host)| format!("domain {host}")).collect()
}

impl Store {
    /// Workspaces, domains, members and keys that are not what the audit log says, as `workspace main` and `domain evil.example`:
    /// somebody changed, added or removed them past it.
    pub async fn records_differing_from_log(&self) -> Result<Vec<String>, StoreError> {
        let mut view = self.pool.snapshot().await?;
        let mut logged = from_log(&mut view).await?;
        let mut differing = BTreeSet::new();
        for row in workspace_rows(&mut view).await? {
            let (id, slug) = (row.id, row.slug.clone());
            // A row nobody can read was not written by us either.
            let said = logged.workspaces.remove(&id);
            if said.is_none() || said != row.workspace().ok() {
                differing.insert(format!("workspace {slug}"));
            }
        }
        for row in domain_rows(&mut view).await? {
            let domain = row.domain();
            let place = (domain.workspace.as_i64(), domain.host.to_string());
            if logged.domains.remove(&place).as_ref() != Some(&domain) {
                differing.insert(format!("domain {}", domain.host));
            }
        }
        let verifications = (domains::from_log(&mut view).await?, domains::verifications(&mut view).await?);
        differing.extend(hosts_differing_from_log(&verifications.0, &verifications.1));
        let mut people = replay_members::from_log(&mut view).await?;
        for row in replay_members::user_rows(&mut view).await? {
            let credential = StoredCredential::from_row(&row);
            let Ok(user) = row.user.user() else { continue };
            let place = (user.workspace.as_i64(), user.id.as_i64());
            if people.contradicts(place, &credential) {
                differing.insert(format!("credentials of user {}", user.id));
            }
            if people.users.remove(&place) != Some(user.audited()) {
                differing.insert(format!("user {}", user.id));
            }
        }
        for row in replay_members::key_rows(&mut view).await? {
            let hash = row.hash.clone();
            let key = row.key();
            let place = (key.workspace.as_i64(), key.id.as_i64());
            if people.keys.remove(&place) != Some(AuditedKey::from_key(&key, &hash)) {
                differing.insert(format!("key {}", key.id));
            }
        }
        differing.extend(people.users.keys().map(|(_, id)| format!("user {id}")));
        differing.extend(people.keys.keys().map(|(_, id)| format!("key {id}")));
        // What is left has no row.
        differing.extend(logged.workspaces.values().map(|gone| format!("workspace {}", gone.slug)));
        differing.extend(logged.domains.values().map(|gone| format!("domain {}", gone.host)));
        Ok(differing.into_iter().collect())
    }
}
