//! Rows of members, and how a new one is written.

use rlinks_core::{Email, Id, Timestamp, User};

use crate::StoreError;
use crate::database::pool::{Tx, read_in, run_in};
use crate::database::row::from_row;

/// The subject of entries about a user.
pub fn user_subject(id: Id) -> String {
    format!("user:{id}")
}

macro_rules! user_columns {
    () => {
        "id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at"
    };
}
pub(super) use user_columns;

pub(crate) struct UserRow {
    pub(crate) id: i64,
    pub(crate) workspace_id: i64,
    pub(crate) email: String,
    pub(crate) full_name: String,
    pub(crate) role: String,
    pub(crate) status: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) last_login_at: Option<i64>,
    pub(crate) last_sync_at: Option<i64>,
}

from_row!(UserRow {
    id,
    workspace_id,
    email,
    full_name,
    role,
    status,
    created_at,
    updated_at,
    last_login_at,
    last_sync_at
});

impl UserRow {
    pub(crate) fn user(self) -> Result<User, StoreError> {
        let broken = |error| StoreError::Unreadable(format!("the row of user {}: {error}", self.id));
        Ok(User {
            id: Id::from_i64(self.id),
            workspace: Id::from_i64(self.workspace_id),
            email: Email::from_stored(self.email),
            full_name: self.full_name,
            role: self.role.parse().map_err(broken)?,
            status: self.status.parse().map_err(broken)?,
            created_at: Timestamp::from_ms(self.created_at),
            updated_at: Timestamp::from_ms(self.updated_at),
            last_login_at: self.last_login_at.map(Timestamp::from_ms),
            last_sync_at: self.last_sync_at.map(Timestamp::from_ms),
        })
    }
}

/// A member and how they sign in.
pub(crate) struct UserCredentialsRow {
    pub(crate) user: UserRow,
    pub(crate) password_hash: Option<String>,
    pub(crate) oidc_issuer: Option<String>,
    pub(crate) oidc_subject: Option<String>,
    pub(crate) credential_salt: Option<String>,
    /// Whom they count for in limits on changes, where that isn't themselves.
    pub(crate) principal: Option<String>,
}

from_row!(UserCredentialsRow { password_hash, oidc_issuer, oidc_subject, credential_salt, principal; user });

pub(crate) async fn insert(tx: &mut Tx, user: &User) -> Result<u64, StoreError> {
    Ok(run_in!(
        tx,
        "insert into users (id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict do nothing",
        user.id.as_i64(),
        user.workspace.as_i64(),
        user.email.as_str(),
        &user.full_name,
        user.role.name(),
        user.status.name(),
        user.created_at.ms(),
        user.updated_at.ms(),
        user.last_login_at.map(Timestamp::ms),
        user.last_sync_at.map(Timestamp::ms)
    )?)
}

/// Keeps whom a member counts for in limits on changes, where that isn't themselves.
pub(crate) async fn set_principal(tx: &mut Tx, user: Id, principal: Option<&str>) -> Result<(), StoreError> {
    if principal.is_some() {
        run_in!(tx, "update users set principal = $2 where id = $1", user.as_i64(), principal)?;
    }
    Ok(())
}

/// A member as they are now, whatever became of them.
pub(crate) async fn member(tx: &mut Tx, workspace: Id, id: Id) -> Result<User, StoreError> {
    let row: Option<UserRow> = read_in!(
        tx,
        fetch_optional,
        "select id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at
         from users where workspace_id = $1 and id = $2",
        workspace.as_i64(),
        id.as_i64()
    )?;
    let there = row.map(UserRow::user).transpose()?;
    there.ok_or_else(|| StoreError::NotFound(format!("user {id}")))
}
