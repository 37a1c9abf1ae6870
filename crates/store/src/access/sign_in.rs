//! Ways in: passwords, invitations, the set-up of the first admin. Each is one transaction with its entry in the log. Passwords come
//! hashed; who hashes them, and what is hashed where nobody is known, is the caller's business.

use rlinks_core::{Actor, Email, Id, Role, Timestamp, User, UserStatus, Workspace};

use crate::access::credentials::{self, Credential, credential_entry};
use crate::access::members::NewUser;
use crate::access::sessions::{
    AuthMethod, NewSession, begin_session, delete_user_sessions, ensure_may_sign_in, insert_session,
};
use crate::access::sign_in_attempts::{SignInAttempt, clear_failures};
use crate::access::user_rows::{self, UserCredentialsRow, member};
use crate::database::ids::next_id;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::workspace::workspaces::{MAIN_WORKSPACE_ID, WorkspaceRow};
use crate::{Store, StoreError, StoreWriter};

/// Where the hash of the set-up token is kept.
const SETUP_TOKEN_SETTING: &str = "setup_token";

/// A workspace's invitation, before it is taken.
#[derive(Clone, Debug)]
pub struct PendingInvitation {
    pub user: User,
    pub workspace: Workspace,
}

impl Store {
    /// A living member by their address, and the hash of their password.
    pub async fn user_with_password_hash(
        &self,
        workspace: Id,
        email: &Email,
    ) -> Result<Option<(User, Option<String>)>, StoreError> {
        let row: Option<UserCredentialsRow> = read!(
            &self.pool,
            fetch_optional,
            "select id, workspace_id, email, full_name, role, status, created_at, updated_at, last_login_at, last_sync_at,
                    password_hash, oidc_issuer, oidc_subject, credential_salt, principal
             from users where workspace_id = $1 and email = $2 and status <> 'deleted'",
            workspace.as_i64(),
            email.as_str()
        )?;
        row.map(|row| Ok((row.user.user()?, row.password_hash))).transpose()
    }

    /// Whom an invitation is for, while it is good.
    pub async fn invitation(
        &self,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<PendingInvitation>, StoreError> {
        let row: Option<(i64, i64)> = read!(
            &self.pool,
            fetch_optional,
            "select u.workspace_id, u.id from invites i join users u on u.id = i.user_id
             where i.hash = $1 and i.expires_at >= $2 and u.status = 'active'",
            hash,
            now.ms()
        )?;
        let Some((workspace, user)) = row else { return Ok(None) };
        let user = self.user(Id::from_i64(workspace), Id::from_i64(user)).await?;
        let workspace: Option<WorkspaceRow> = read!(
            &self.pool,
            fetch_optional,
            "select id, slug, name, policy, created_at, updated_at, deleted_at from workspaces where id = $1",
            workspace
        )?;
        let workspace = workspace.map(WorkspaceRow::workspace).transpose()?;
        let workspace = workspace.filter(|workspace| workspace.deleted_at.is_none());
        Ok(user.zip(workspace).map(|(user, workspace)| PendingInvitation { user, workspace }))
    }

    /// Whether this is the hash of the set-up token, and there is still no admin.
    pub async fn setup_token_valid(&self, hash: &str) -> Result<bool, StoreError> {
        let mut view = self.pool.snapshot().await?;
        Ok(setup_token_hash(&mut view).await?.as_deref() == Some(hash) && !has_admin(&mut view).await?)
    }

    /// Whether a set-up token was given out and nobody has used it: there is no admin yet.
    pub async fn setup_pending(&self) -> Result<bool, StoreError> {
        let mut view = self.pool.snapshot().await?;
        Ok(setup_token_hash(&mut view).await?.is_some() && !has_admin(&mut view).await?)
    }
}

impl StoreWriter {
    /// Lets a member in who gave the password of this hash: begins their session, ends the one their browser had, and takes their
    /// attempt back. A password that was changed meanwhile is a conflict.
    pub async fn sign_in(
        &self,
        user: &User,
        verified: &str,
        new: &NewSession,
        attempt: &SignInAttempt,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        // Before the head: `begin_attempt` takes them in this order too.
        clear_failures(&mut tx, attempt, now).await?;
        let mut change = self.change_in(tx, user.workspace).await?;
        let there = ensure_may_sign_in(&mut change, user, AuthMethod::Password).await?;
        if password_hash(&mut change.tx, there.id).await?.as_deref() != Some(verified) {
            return Err(StoreError::Conflict);
        }
        let actor = Actor::from_user(there.id);
        let entry = begin_session(&mut change.tx, &there, new, &actor, now).await?;
        change.commit([entry], now).await
    }

    /// Gives a member a password. Every session of theirs ends, and so does an invitation; `next` is the one they go on with. Where
    /// they had to give the old password first, `verified` is its hash, and another one is a conflict.
    pub async fn set_password(
        &self,
        user: &User,
        hash: &str,
        verified: Option<&str>,
        next: Option<&NewSession>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        let there = member(&mut change.tx, user.workspace, user.id).await?;
        if there.status == UserStatus::Deleted {
            return Err(StoreError::NotFound(format!("user {}", user.id)));
        }
        if verified.is_some() && password_hash(&mut change.tx, there.id).await?.as_deref() != verified {
            return Err(StoreError::Conflict);
        }
        let credential = write_password(&mut change.tx, there.id, hash).await?;
        if let Some(next) = next {
            insert_session(&mut change.tx, &there, next, now).await?;
        }
        change.commit([credential_entry(&there, credential, actor, "user.password")], now).await
    }

    /// Takes an invitation: the member has a name and a password from now on, and is signed in. It works once.
    pub async fn accept_invitation(
        &self,
        hash: &str,
        invited: &User,
        full_name: &str,
        password: &str,
        new: &NewSession,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(invited.workspace).await?;
        let taken = run_in!(
            &mut change.tx,
            "delete from invites where hash = $1 and user_id = $2 and expires_at >= $3",
            hash,
            invited.id.as_i64(),
            now.ms()
        )?;
        if taken == 0 {
            return Err(StoreError::NotFound("such invitation".to_owned()));
        }
        let there = ensure_may_sign_in(&mut change, invited, AuthMethod::Password).await?;
        let credential = write_password(&mut change.tx, there.id, password).await?;
        run_in!(
            &mut change.tx,
            "update users set full_name = $2, updated_at = $3 where id = $1",
            there.id.as_i64(),
            full_name,
            now.ms()
        )?;
        let actor = Actor::from_user(there.id);
        let signed_in = begin_session(&mut change.tx, &there, new, &actor, now).await?;
        let accepted = credential_entry(&there, credential, &actor, "auth.invitation_accepted");
        let entries = [accepted, signed_in];
        change.commit(entries, now).await
    }

    /// Keeps the hash of a new set-up token, if the workspace `main` has no admin; an earlier one no longer works. Where there is an
    /// admin none is kept, and none works.
    pub async fn create_setup_token(&self, hash: &str) -> Result<bool, StoreError> {
        let mut change = self.begin_change(Id::from_i64(MAIN_WORKSPACE_ID)).await?;
        run_in!(&mut change.tx, "delete from installation where name = $1", SETUP_TOKEN_SETTING)?;
        let offered = !has_admin(&mut change.tx).await?;
        if offered {
            run_in!(
                &mut change.tx,
                "insert into installation (name, value) values ($1, $2)",
                SETUP_TOKEN_SETTING,
                hash
            )?;
        }
        change.commit_unlogged().await?;
        Ok(offered)
    }

    /// Makes the first admin of the workspace `main` and signs them in. The token works once, and never where there is an admin: then
    /// it is not found.
    pub async fn complete_setup(
        &self,
        hash: &str,
        email: Email,
        full_name: String,
        password: &str,
        new: &NewSession,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(Id::from_i64(MAIN_WORKSPACE_ID)).await?;
        change.living_head()?;
        if setup_token_hash(&mut change.tx).await?.as_deref() != Some(hash)
            || has_admin(&mut change.tx).await?
        {
            return Err(StoreError::NotFound("such set-up".to_owned()));
        }
        run_in!(&mut change.tx, "delete from installation where name = $1", SETUP_TOKEN_SETTING)?;
        let id = next_id(&mut change.tx, self.worker, now).await?;
        let first =
            NewUser { workspace: Id::from_i64(MAIN_WORKSPACE_ID), email, full_name, role: Role::Admin };
        let user = first.into_user(id, now);
        if user_rows::insert(&mut change.tx, &user).await? == 0 {
            return Err(StoreError::NameTaken(user.email.to_string()));
        }
        let credential = write_password(&mut change.tx, user.id, password).await?;
        let actor = Actor::from_user(user.id);
        let made = credential_entry(&user, credential, &actor, "auth.setup");
        let signed_in = begin_session(&mut change.tx, &user, new, &actor, now).await?;
        change.commit([made, signed_in], now).await?;
        Ok(user)
    }
}

async fn password_hash(tx: &mut Tx, user: Id) -> Result<Option<String>, StoreError> {
    let row: Option<(Option<String>,)> =
        read_in!(tx, fetch_optional, "select password_hash from users where id = $1", user.as_i64())?;
    Ok(row.and_then(|(hash,)| hash))
}

/// A new password ends everything that was begun with another.
async fn write_password(tx: &mut Tx, user: Id, hash: &str) -> Result<Credential, StoreError> {
    run_in!(tx, "delete from invites where user_id = $1", user.as_i64())?;
    delete_user_sessions(tx, user).await?;
    credentials::write_password(tx, user, Some(hash)).await
}

async fn setup_token_hash(tx: &mut Tx) -> Result<Option<String>, StoreError> {
    let row: Option<(String,)> =
        read_in!(tx, fetch_optional, "select value from installation where name = $1", SETUP_TOKEN_SETTING)?;
    Ok(row.map(|(hash,)| hash))
}

async fn has_admin(tx: &mut Tx) -> Result<bool, StoreError> {
    let row: Option<(i64,)> = read_in!(
        tx,
        fetch_optional,
        "select id from users where workspace_id = $1 and role = 'admin' and status <> 'deleted' limit 1",
        MAIN_WORKSPACE_ID
    )?;
    Ok(row.is_some())
}
