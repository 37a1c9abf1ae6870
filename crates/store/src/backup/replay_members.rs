//! Members and keys as the log tells them: what its entries about them add up to.

use std::collections::BTreeMap;

use rlinks_core::access::user::AuditedUser;
use rlinks_core::{Actor, ApiKey, Email, Id, Timestamp, User};
use serde::de::DeserializeOwned;

use crate::StoreError;
use crate::access::api_keys::{AuditedKey, KeyRow, key_subject};
use crate::access::credentials::{self, Credential, StoredCredential};
use crate::access::user_rows::{UserCredentialsRow, user_subject};
use crate::database::pool::{Tx, read_in};

/// What a log says of members and keys, by workspace and id.
#[derive(Default)]
pub(crate) struct LoggedMembers {
    pub(crate) users: BTreeMap<(i64, i64), AuditedUser>,
    pub(crate) keys: BTreeMap<(i64, i64), AuditedKey>,
    /// The digest of how a member signs in, where the log has it.
    credentials: BTreeMap<(i64, i64), Credential>,
    /// Of whom the last entry can't be read, by workspace and subject, and why.
    unreadable: BTreeMap<(i64, String), String>,
}

impl LoggedMembers {
    /// The next entry of a workspace's chain. Entries about other things change nothing.
    pub(crate) fn push(&mut self, workspace: i64, action: &str, subject: &str, after: Option<&str>) {
        if let Some(id) = subject.strip_prefix("user:").and_then(|id| id.parse().ok()) {
            match credentials::recorded(action, after) {
                Some(Some(credential)) => {
                    self.credentials.insert((workspace, id), credential);
                }
                Some(None) => {
                    self.credentials.remove(&(workspace, id));
                }
                None => {}
            }
            let read = self.read::<AuditedUser>(workspace, subject, after);
            match read.filter(|user| user_subject(user.id) == subject) {
                Some(user) => self.users.insert((workspace, id), user),
                None => self.users.remove(&(workspace, id)),
            };
        } else if let Some(id) = subject.strip_prefix("key:").and_then(|id| id.parse().ok()) {
            let read = self.read::<AuditedKey>(workspace, subject, after);
            match read.filter(|key| key_subject(key.id) == subject) {
                Some(key) => self.keys.insert((workspace, id), key),
                None => self.keys.remove(&(workspace, id)),
            };
        }
    }

    /// Whether this would allow a member to sign in though the log says otherwise.
    pub(crate) fn contradicts(&self, place: (i64, i64), stored: &StoredCredential) -> bool {
        stored.contradicts(self.credentials.get(&place))
    }

    /// What an entry says, if it can be read; remembered where it can't.
    fn read<T: DeserializeOwned>(&mut self, workspace: i64, subject: &str, after: Option<&str>) -> Option<T> {
        let place = (workspace, subject.to_owned());
        match after.map(serde_json::from_str).transpose() {
            Ok(read) => {
                self.unreadable.remove(&place);
                read
            }
            Err(error) => {
                self.unreadable.insert(place, error.to_string());
                None
            }
        }
    }

    /// Fails if what the log says last about a subject can't be read: leaving a member or key out would lose it.
    pub(crate) fn ensure_readable(&self, workspace: Id, subject: &str) -> Result<(), StoreError> {
        match self.unreadable.get(&(workspace.as_i64(), subject.to_owned())) {
            None => Ok(()),
            Some(error) => Err(StoreError::Unreadable(format!(
                "the last audit entry about {subject} ({error}); `rmax audit verify` shows whether the log was changed"
            ))),
        }
    }
}

/// The log's people as of the moment of `view`.
pub(crate) async fn from_log(view: &mut Tx) -> Result<LoggedMembers, StoreError> {
    let rows: Vec<(i64, String, String, Option<String>)> = read_in!(
        view,
        fetch_all,
        "select workspace_id, action, subject, after from audit
         where subject >= 'key:' and subject < 'key;' or subject >= 'user:' and subject < 'user;'
         order by workspace_id, seq"
    )?;
    let mut people = LoggedMembers::default();
    for (workspace, action, subject, after) in rows {
        people.push(workspace, &action, &subject, after.as_deref());
    }
    Ok(people)
}

pub(crate) async fn user_rows(view: &mut Tx) -> Result<Vec<UserCredentialsRow>, StoreError> {
    Ok(read_in!(
        view,
        fetch_all,
        "select id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at,
                password_hash, oidc_issuer, oidc_subject, credential_salt, principal
         from users order by id"
    )?)
}

pub(crate) async fn key_rows(view: &mut Tx) -> Result<Vec<KeyRow>, StoreError> {
    Ok(read_in!(
        view,
        fetch_all,
        "select id, workspace_id, user_id, name, prefix, hash, scopes, created_by, created_with, rotated_from, created_at,
                expires_at, revoked_at, last_used_at, usage_count
         from api_keys order by id"
    )?)
}

/// A member whose row is gone. Who they were is not in the log.
pub(crate) fn user_without_row(workspace: i64, said: AuditedUser, now: Timestamp) -> User {
    User {
        id: said.id,
        workspace: Id::from_i64(workspace),
        email: Email::from_stored(format!("lost-{}", said.id)),
        full_name: String::new(),
        role: said.role,
        status: said.status,
        created_at: now,
        updated_at: now,
        last_login_at: None,
        last_sync_at: None,
    }
}

/// A key whose row is gone. What it was for is not in the log.
pub(crate) fn key_without_row(workspace: i64, said: &AuditedKey, now: Timestamp) -> ApiKey {
    ApiKey {
        id: said.id,
        workspace: Id::from_i64(workspace),
        user: said.user,
        name: "lost".to_owned(),
        prefix: said.prefix.clone(),
        scopes: said.scopes,
        created_by: Actor::system(),
        created_with: None,
        rotated_from: None,
        created_at: now,
        expires_at: said.expires_at,
        revoked_at: said.revoked_at,
        last_used_at: None,
        usage_count: 0,
    }
}

impl AuditedKey {
    /// A key as its row has it, but for what the log says otherwise.
    pub(crate) fn correct(&self, key: ApiKey) -> ApiKey {
        ApiKey {
            user: self.user,
            prefix: self.prefix.clone(),
            scopes: self.scopes,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            ..key
        }
    }
}
