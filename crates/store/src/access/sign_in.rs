//! Ways in: passwords, invitations, the set-up of the first admin, and how often one may fail. Each is one transaction with its
//! entry in the log. Passwords come hashed; who hashes them, and what is hashed where nobody is known, is the caller's business.

use rlinks_core::access::user::AuditedUser;
use rlinks_core::{Actor, Email, Id, Role, Timestamp, User, UserStatus, Workspace};
use serde::Serialize;

use crate::access::members::NewUser;
use crate::access::sessions::{
    AuthMethod, NewSession, begin_session, delete_user_sessions, ensure_may_sign_in, insert_session,
    user_entry,
};
use crate::access::user_rows::{self, UserCredentialsRow, member, user_subject};
use crate::audit::chain::{NewEntry, lock_heads, record_locked};
use crate::database::ids::next_id;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::workspace::workspaces::{MAIN_WORKSPACE_ID, WorkspaceRow};
use crate::{Store, StoreError, StoreWriter};

/// Where the hash of the set-up token is kept.
const SETUP_TOKEN_SETTING: &str = "setup_token";

/// How often sign-ins may fail before one has to wait.
#[derive(Clone, Copy, Debug)]
pub struct LockoutPolicy {
    /// Failures of one account.
    pub max_account_failures: i64,
    /// Failures of one network.
    pub max_network_failures: i64,
    /// Within this time; and for how long one waits then.
    pub window_ms: i64,
}

/// An attempt to sign in, by keyed hashes of what was tried and from where.
#[derive(Clone, Debug)]
pub struct SignInAttempt {
    /// The account, be there one or not.
    pub account: String,
    pub network: String,
    /// In which workspace, where there is such a one.
    pub workspace: Option<Id>,
    /// Whose account it is, where it is somebody's.
    pub user: Option<Id>,
}

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
                    password_hash, oidc_issuer, oidc_subject
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
    /// Counts an attempt before anything is tried, so that many at once are no more than many after each other. Gives until when one
    /// has to wait, where that is so. Whoever gets in takes their attempt back.
    pub async fn begin_attempt(
        &self,
        attempt: &SignInAttempt,
        policy: &LockoutPolicy,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        // Who has to wait already is told so without a write.
        let (until,): (Option<i64>,) = read!(
            &self.pool,
            fetch_one,
            "select max(locked_until) from attempts where subject in ($1, $2) and locked_until >= $3",
            &attempt.account,
            &attempt.network,
            now.ms()
        )?;
        if let Some(until) = until {
            return Ok(Some(Timestamp::from_ms(until)));
        }
        let mut tx = self.pool.begin().await?;
        let account =
            count_failure(&mut tx, &attempt.account, policy.max_account_failures, policy, now).await?;
        let network =
            count_failure(&mut tx, &attempt.network, policy.max_network_failures, policy, now).await?;
        // Only what happened to somebody, or to many, is an entry: whoever guesses at names must not be able to fill the log.
        let until = account.until.max(network.until);
        let locked = match attempt.user {
            Some(user) if account.is_new => Some(Lockout { user: Some(user), until }),
            _ if network.is_new => Some(Lockout { user: None, until }),
            _ => None,
        };
        if let Some(locked) = locked {
            let workspace = attempt.workspace.unwrap_or(Id::from_i64(MAIN_WORKSPACE_ID));
            locked.record(&mut tx, workspace, now).await?;
        }
        tx.commit().await?;
        Ok(until)
    }

    /// Takes an attempt back: it was the owner of the account after all.
    pub async fn clear_failures(&self, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        delete_failures(&mut tx, attempt, now).await?;
        tx.commit().await
    }

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
        delete_failures(&mut tx, attempt, now).await?;
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
        write_password(&mut change.tx, there.id, hash).await?;
        if let Some(next) = next {
            insert_session(&mut change.tx, &there, next, now).await?;
        }
        change.commit([user_entry(&there, actor, "user.password")], now).await
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
        write_password(&mut change.tx, there.id, password).await?;
        run_in!(
            &mut change.tx,
            "update users set full_name = $2, updated_at = $3 where id = $1",
            there.id.as_i64(),
            full_name,
            now.ms()
        )?;
        let actor = Actor::from_user(there.id);
        let signed_in = begin_session(&mut change.tx, &there, new, &actor, now).await?;
        let entries = [user_entry(&there, &actor, "auth.invitation_accepted"), signed_in];
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
        write_password(&mut change.tx, user.id, password).await?;
        let actor = Actor::from_user(user.id);
        let made = user_entry(&user, &actor, "auth.setup");
        let signed_in = begin_session(&mut change.tx, &user, new, &actor, now).await?;
        change.commit([made, signed_in], now).await?;
        Ok(user)
    }

    /// Forgets attempts that count no longer.
    pub async fn purge_attempts(&self, policy: &LockoutPolicy, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(
            &mut tx,
            "delete from attempts where since < $1 and locked_until < $2",
            now.plus_ms(-policy.window_ms).ms(),
            now.ms()
        )?;
        tx.commit().await?;
        Ok(purged)
    }
}

/// Whether one has to wait, and whether that begins with this attempt.
struct FailureCount {
    until: Option<Timestamp>,
    is_new: bool,
}

/// Somebody has to wait: whoever tries this account, or, where it is nobody's, whoever comes from this network.
struct Lockout {
    user: Option<Id>,
    until: Option<Timestamp>,
}

/// What the log says of it: what it says of a member anyway, and until when.
#[derive(Serialize)]
struct AuditedLockout {
    #[serde(flatten)]
    user: Option<AuditedUser>,
    locked: &'static str,
    until: Option<Timestamp>,
}

impl Lockout {
    async fn record(self, tx: &mut Tx, workspace: Id, now: Timestamp) -> Result<(), StoreError> {
        let heads = lock_heads(tx, [workspace.as_i64()]).await?;
        let (subject, user, locked) = match self.user {
            Some(id) => (user_subject(id), Some(member(tx, workspace, id).await?.audited()), "account"),
            None => ("sign_in".to_owned(), None, "network"),
        };
        let after = Some(json(&AuditedLockout { user, locked, until: self.until }));
        let actor = Actor::system();
        let entry = NewEntry { actor: &actor, action: "auth.locked", subject, before: None, after };
        record_locked(tx, heads, workspace, [entry], now).await
    }
}

async fn count_failure(
    tx: &mut Tx,
    subject: &str,
    max_failures: i64,
    policy: &LockoutPolicy,
    now: Timestamp,
) -> Result<FailureCount, StoreError> {
    // Failures are counted on while one waits, so that the attempt that locked is the one that made it `max_failures + 1`.
    const SQL: &str = "insert into attempts (subject, failures, since, locked_until) values ($1, 1, $2, 0)
         on conflict (subject) do update set
             failures = case when attempts.locked_until < $2 and (attempts.since <= $3 or attempts.locked_until > 0) then 1
                             else attempts.failures + 1 end,
             since = case when attempts.locked_until < $2 and (attempts.since <= $3 or attempts.locked_until > 0) then $2
                          else attempts.since end,
             locked_until = case when attempts.locked_until >= $2 then attempts.locked_until
                                 when attempts.since <= $3 or attempts.locked_until > 0 then 0
                                 when attempts.failures >= $4 then $5
                                 else 0 end
         returning failures, locked_until";
    let (failures, until): (i64, i64) = read_in!(
        tx,
        fetch_one,
        SQL,
        subject,
        now.ms(),
        now.plus_ms(-policy.window_ms).ms(),
        max_failures,
        now.plus_ms(policy.window_ms).ms()
    )?;
    let until = (until >= now.ms()).then(|| Timestamp::from_ms(until));
    Ok(FailureCount { is_new: until.is_some() && failures == max_failures + 1, until })
}

/// Takes back what [`Store::begin_attempt`] counted: all of the account's, for it was its owner after all, and one of the network's.
async fn delete_failures(tx: &mut Tx, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError> {
    run_in!(tx, "delete from attempts where subject = $1", &attempt.account)?;
    run_in!(
        tx,
        "update attempts set failures = failures - 1 where subject = $1 and failures > 0 and locked_until < $2",
        &attempt.network,
        now.ms()
    )?;
    Ok(())
}

async fn password_hash(tx: &mut Tx, user: Id) -> Result<Option<String>, StoreError> {
    let row: Option<(Option<String>,)> =
        read_in!(tx, fetch_optional, "select password_hash from users where id = $1", user.as_i64())?;
    Ok(row.and_then(|(hash,)| hash))
}

/// A new password ends everything that was begun with another.
async fn write_password(tx: &mut Tx, user: Id, hash: &str) -> Result<(), StoreError> {
    run_in!(tx, "update users set password_hash = $2 where id = $1", user.as_i64(), hash)?;
    run_in!(tx, "delete from invites where user_id = $1", user.as_i64())?;
    delete_user_sessions(tx, user).await?;
    Ok(())
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
