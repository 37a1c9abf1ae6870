//! Members as an OpenID provider knows them: by issuer and subject, never by their address. A deleted account has neither, so the
//! same person comes back as somebody new.

use rlinks_core::{Actor, Email, Id, Timestamp, User, UserStatus, Workspace};

use crate::access::credentials::{self, credential_entry};
use crate::access::sessions::{delete_user_sessions, user_entry};
use crate::access::user_rows::{UserRow, insert, member};
use crate::database::ids::next_id;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::database::row::from_row;
use crate::workspace::workspaces::WorkspaceRow;
use crate::{NewUser, Store, StoreError, StoreWriter};

/// The most accounts of one person that are looked at.
const MAX_ACCOUNTS: i64 = 100;

/// Who somebody is to an OpenID provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OidcIdentity {
    pub issuer: String,
    /// What it calls them; never given to anybody else.
    pub subject: String,
}

/// What a provider says of somebody, where it says it.
#[derive(Clone, Debug, Default)]
pub struct OidcProfile {
    /// Their address, if the provider knows it to be theirs.
    pub email: Option<Email>,
    pub full_name: Option<String>,
}

struct AccountRow {
    user: UserRow,
    w_slug: String,
    w_name: String,
    w_policy: String,
    w_created_at: i64,
    w_updated_at: i64,
    w_deleted_at: Option<i64>,
}

from_row!(AccountRow { w_slug, w_name, w_policy, w_created_at, w_updated_at, w_deleted_at; user });

impl AccountRow {
    fn account(self) -> Result<(User, Workspace), StoreError> {
        let workspace = WorkspaceRow {
            id: self.user.workspace_id,
            slug: self.w_slug,
            name: self.w_name,
            policy: self.w_policy,
            created_at: self.w_created_at,
            updated_at: self.w_updated_at,
            deleted_at: self.w_deleted_at,
        };
        Ok((self.user.user()?, workspace.workspace()?))
    }
}

impl Store {
    /// Every account somebody has, with its workspace, the suspended and those of deleted workspaces too; oldest first.
    pub async fn accounts_of(&self, identity: &OidcIdentity) -> Result<Vec<(User, Workspace)>, StoreError> {
        let rows: Vec<AccountRow> = read!(
            &self.pool,
            fetch_all,
            "select u.id, u.workspace_id, u.email, u.full_name, u.role, u.status, u.created_at, u.updated_at, u.last_login_at,
                    u.last_sync_at, w.slug as w_slug, w.name as w_name, w.policy as w_policy, w.created_at as w_created_at,
                    w.updated_at as w_updated_at, w.deleted_at as w_deleted_at
             from users u join workspaces w on w.id = u.workspace_id
             where u.oidc_issuer = $1 and u.oidc_subject = $2 order by u.id limit $3",
            &identity.issuer,
            &identity.subject,
            MAX_ACCOUNTS
        )?;
        rows.into_iter().map(AccountRow::account).collect()
    }
}

impl StoreWriter {
    /// Makes somebody a member who comes from a provider. An address that a living member has is taken: nobody becomes that
    /// member by having their address. Somebody who is there already, perhaps since a moment ago, stays as they are.
    pub async fn create_oidc_user(
        &self,
        new: NewUser,
        identity: &OidcIdentity,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(new.workspace).await?;
        change.living_head()?;
        if let Some(there) = find_user(&mut change.tx, new.workspace, identity).await? {
            return Ok(there);
        }
        let user = User {
            id: next_id(&mut change.tx, self.worker, now).await?,
            workspace: new.workspace,
            email: new.email,
            full_name: new.full_name,
            role: new.role,
            status: UserStatus::Active,
            created_at: now,
            updated_at: now,
            last_login_at: None,
            last_sync_at: Some(now),
        };
        if insert(&mut change.tx, &user).await? == 0 {
            return Err(StoreError::NameTaken(user.email.to_string()));
        }
        let credential =
            credentials::write_identity(&mut change.tx, user.id, (&identity.issuer, &identity.subject))
                .await?;
        let entry = credential_entry(&user, credential, actor, "user.create");
        change.commit([entry], now).await?;
        Ok(user)
    }

    /// Takes an invitation: from now on the member it is for is this person to the provider. It works once. Somebody who is another
    /// member already is a conflict.
    pub async fn link_oidc_identity(
        &self,
        workspace: Id,
        hash: &str,
        identity: &OidcIdentity,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let row: Option<(i64,)> = read_in!(
            &mut change.tx,
            fetch_optional,
            "select u.id from invites i join users u on u.id = i.user_id
             where i.hash = $1 and i.expires_at >= $2 and u.workspace_id = $3 and u.status = 'active'",
            hash,
            now.ms(),
            workspace.as_i64()
        )?;
        let (id,) = row.ok_or_else(|| StoreError::NotFound("such invitation".to_owned()))?;
        let user = member(&mut change.tx, workspace, Id::from_i64(id)).await?;
        if find_user(&mut change.tx, workspace, identity).await?.is_some_and(|there| there.id != user.id) {
            return Err(StoreError::Conflict);
        }
        run_in!(&mut change.tx, "delete from invites where user_id = $1", user.id.as_i64())?;
        // Whoever they were before, to this provider or another, is signed out.
        delete_user_sessions(&mut change.tx, user.id).await?;
        let credential =
            credentials::write_identity(&mut change.tx, user.id, (&identity.issuer, &identity.subject))
                .await?;
        let actor = Actor::from_user(user.id);
        let entry = credential_entry(&user, credential, &actor, "auth.invitation_accepted");
        change.commit([entry], now).await?;
        Ok(user)
    }

    /// What the provider says of somebody who comes in replaces what we knew. An address that another member has stays with that
    /// member. Only a change is an entry in the log; that they came is the session's.
    pub async fn sync_oidc_profile(
        &self,
        workspace: Id,
        identity: &OidcIdentity,
        profile: &OidcProfile,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let there = find_user(&mut change.tx, workspace, identity).await?;
        let there = there.ok_or_else(|| StoreError::NotFound("such account".to_owned()))?;
        let email = match &profile.email {
            Some(email)
                if *email != there.email && is_email_free(&mut change.tx, workspace, email).await? =>
            {
                email.clone()
            }
            _ => there.email.clone(),
        };
        let full_name = profile.full_name.clone().unwrap_or_else(|| there.full_name.clone());
        let is_same = email == there.email && full_name == there.full_name;
        let updated_at = if is_same { there.updated_at } else { now };
        let user = User { email, full_name, updated_at, last_sync_at: Some(now), ..there };
        run_in!(
            &mut change.tx,
            "update users set email = $2, full_name = $3, updated_at = $4, last_sync_at = $5 where id = $1",
            user.id.as_i64(),
            user.email.as_str(),
            &user.full_name,
            user.updated_at.ms(),
            now.ms()
        )?;
        if is_same {
            change.commit_unlogged().await?;
        } else {
            let actor = Actor::from_user(user.id);
            change.commit([user_entry(&user, &actor, "user.update")], now).await?;
        }
        Ok(user)
    }
}

/// A member by who they are to a provider, under the lock of their workspace's head.
async fn find_user(tx: &mut Tx, workspace: Id, identity: &OidcIdentity) -> Result<Option<User>, StoreError> {
    let row: Option<UserRow> = read_in!(
        tx,
        fetch_optional,
        "select id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at
         from users where workspace_id = $1 and oidc_issuer = $2 and oidc_subject = $3",
        workspace.as_i64(),
        &identity.issuer,
        &identity.subject
    )?;
    row.map(UserRow::user).transpose()
}

async fn is_email_free(tx: &mut Tx, workspace: Id, email: &Email) -> Result<bool, StoreError> {
    let taken: Option<(i64,)> = read_in!(
        tx,
        fetch_optional,
        "select id from users where workspace_id = $1 and email = $2 and status <> 'deleted'",
        workspace.as_i64(),
        email.as_str()
    )?;
    Ok(taken.is_none())
}
