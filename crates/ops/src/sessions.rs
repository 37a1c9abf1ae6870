//! Signing in, as the store keeps it: attempts, sessions, invitations, the first admin, accounts of an OpenID provider.
//!
//! Who somebody is, and whether their password is right, was found out before; what is decided here is decided in the transaction that
//! writes it. Until somebody is signed in, the server itself is the caller.

use rlinks_core::access::api_key;
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Email, Role, Scope, Slug, Timestamp, User};
use rlinks_store::{
    LockoutPolicy, NewSession, NewUser, OidcIdentity, OidcProfile, RefusedAttempt, Session, SignInAttempt,
    StoreError,
};

use crate::{Caller, Ops, OpsError, Resource};

/// Which sessions of a member are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionsToEnd {
    All,
    /// All but the one the caller came with.
    Others,
}

/// The first admin, as they were entered into the set-up form.
pub struct FirstAdmin<'a> {
    pub email: Email,
    pub full_name: String,
    pub password_hash: &'a str,
}

/// A new member, as an OpenID provider describes them.
pub struct OidcAccount {
    pub email: Email,
    pub full_name: String,
    pub role: Role,
}

impl Ops {
    // ---- passwords ----

    /// Counts an attempt before anything is tried, or says why it must not be made.
    pub async fn begin_sign_in(
        &self,
        attempt: &SignInAttempt,
        policy: &LockoutPolicy,
    ) -> Result<Option<RefusedAttempt>, StoreError> {
        self.writer.begin_attempt(attempt, policy, self.clock.now()).await
    }

    /// Takes an attempt back: it was the owner of the account after all.
    pub async fn clear_sign_in_failures(&self, attempt: &SignInAttempt) -> Result<(), StoreError> {
        self.writer.clear_failures(attempt, self.clock.now()).await
    }

    /// Lets a member in who gave the password of this hash. One that was changed meanwhile is a conflict.
    pub async fn sign_in(
        &self,
        user: &User,
        verified_hash: &str,
        session: &NewSession,
        attempt: &SignInAttempt,
    ) -> Result<(), StoreError> {
        self.writer.sign_in(user, verified_hash, session, attempt, self.clock.now()).await
    }

    /// Gives the caller another password: every session of theirs ends, and they go on in `session`. `verified_hash` is of the password
    /// they had to give first; another one is a conflict.
    pub async fn change_own_password(
        &self,
        caller: &Caller,
        hash: &str,
        verified_hash: Option<&str>,
        session: &NewSession,
    ) -> Result<(), StoreError> {
        let user = caller.user.as_ref().ok_or_else(no_account)?;
        let now = self.clock.now();
        self.writer.set_password(user, hash, verified_hash, Some(session), &caller.actor, now).await
    }

    // ---- sessions ----

    /// Begins a session of a member who has shown who they are, and ends the one their browser had.
    pub async fn start_session(&self, user: &User, session: &NewSession) -> Result<(), StoreError> {
        self.writer.start_session(user, session, self.clock.now()).await
    }

    /// Notes that a session is used.
    pub async fn touch_session(
        &self,
        hash: &str,
        seen_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.writer.touch_session(hash, seen_at, expires_at).await
    }

    /// The sessions of a member that are not over, newest first: everybody sees their own, admins those of others too.
    pub async fn sessions_of(&self, caller: &Caller, user: &User) -> Result<Vec<Session>, OpsError> {
        if caller.member() != Some(user.id) {
            caller.require(Scope::WorkspaceAdmin)?;
        }
        Ok(self.store.sessions_of(user.id, self.clock.now()).await?)
    }

    /// A session of a member by its public id.
    pub async fn session_of(&self, caller: &Caller, user: &User, id: &str) -> Result<Session, OpsError> {
        let sessions = self.sessions_of(caller, user).await?;
        let found = sessions.into_iter().find(|session| session.public_id() == id);
        found.ok_or_else(|| OpsError::NotFound(Resource::Session(id.to_owned())))
    }

    /// Ends one session of a member, from the next request on. One that has ended already is not found.
    pub async fn end_session(&self, caller: &Caller, user: &User, id: &str) -> Result<Session, OpsError> {
        require_may_end_sessions(caller, user)?;
        let session = self.session_of(caller, user, id).await?;
        if self.writer.end_session(user, &session.hash, &caller.actor, self.clock.now()).await? {
            return Ok(session);
        }
        Err(OpsError::NotFound(Resource::Session(id.to_owned())))
    }

    /// Ends the session the caller came with.
    pub async fn sign_out(&self, caller: &Caller) -> Result<(), StoreError> {
        if let (Some(user), Some(session)) = (&caller.user, caller.session()) {
            self.writer.end_session(user, &session.hash, &caller.actor, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Ends every session of a member, and gives how many there were.
    pub async fn end_sessions(
        &self,
        caller: &Caller,
        user: &User,
        which: SessionsToEnd,
    ) -> Result<u64, OpsError> {
        require_may_end_sessions(caller, user)?;
        let kept = caller.session().filter(|_| which == SessionsToEnd::Others);
        let kept = kept.map(|session| session.hash.as_str());
        Ok(self.writer.end_sessions_of(user, kept, &caller.actor, self.clock.now()).await?)
    }

    /// Purges sessions that are over and attempts that no longer count.
    pub async fn purge_sign_ins(&self, policy: &LockoutPolicy) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.writer.purge_attempts(policy, now).await?;
        self.writer.purge_sessions(now).await?;
        Ok(())
    }

    // ---- invitations and the first admin ----

    /// Takes an invitation: the member has a name and a password from now on, and is signed in. It works once.
    pub async fn accept_invitation(
        &self,
        invitation_hash: &str,
        invited: &User,
        full_name: &str,
        password_hash: &str,
        session: &NewSession,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.writer.accept_invitation(invitation_hash, invited, full_name, password_hash, session, now).await
    }

    /// A token for the first admin, where there is none and passwords are taken. Earlier ones no longer work.
    pub async fn create_setup_token(&self) -> Result<Option<String>, StoreError> {
        let main = self.store.workspace(&Slug::main()).await?;
        if !main.is_some_and(|main| main.policy.sign_in.contains(&SignInMethod::Password)) {
            return Ok(None);
        }
        let token = self.random.draw(api_key::random_token);
        Ok(self.writer.create_setup_token(&api_key::hash_secret(&token)).await?.then_some(token))
    }

    /// Makes the first admin and signs them in. Of two at once one does.
    pub async fn complete_setup(
        &self,
        token_hash: &str,
        admin: FirstAdmin<'_>,
        session: &NewSession,
    ) -> Result<User, StoreError> {
        let FirstAdmin { email, full_name, password_hash } = admin;
        let now = self.clock.now();
        self.writer.complete_setup(token_hash, email, full_name, password_hash, session, now).await
    }

    // ---- accounts of an OpenID provider ----

    /// Makes somebody a member whom a rule of the configuration lets in.
    pub async fn create_oidc_account(
        &self,
        caller: &Caller,
        account: OidcAccount,
        identity: &OidcIdentity,
    ) -> Result<User, StoreError> {
        let OidcAccount { email, full_name, role } = account;
        let new = NewUser { workspace: caller.workspace.id, email, full_name, role };
        self.writer.create_oidc_user(new, identity, &caller.actor, self.clock.now()).await
    }

    /// Takes an invitation: from now on the member it is for is this person to the provider.
    pub async fn link_oidc_identity(
        &self,
        caller: &Caller,
        invitation_hash: &str,
        identity: &OidcIdentity,
    ) -> Result<User, StoreError> {
        let (workspace, now) = (caller.workspace.id, self.clock.now());
        self.writer.link_oidc_identity(workspace, invitation_hash, identity, now).await
    }

    /// What the provider says of somebody who comes in replaces what we knew.
    pub async fn sync_oidc_profile(
        &self,
        caller: &Caller,
        identity: &OidcIdentity,
        profile: &OidcProfile,
    ) -> Result<User, StoreError> {
        self.writer.sync_oidc_profile(caller.workspace.id, identity, profile, self.clock.now()).await
    }
}

/// Everybody ends their own sessions, admins those of others. A key needs an admin's rights for either: otherwise a stolen one could
/// keep its owner from signing in and revoking it.
fn require_may_end_sessions(caller: &Caller, user: &User) -> Result<(), OpsError> {
    if caller.member() == Some(user.id) && caller.key().is_none() {
        return Ok(());
    }
    caller.require(Scope::WorkspaceAdmin)
}

fn no_account() -> StoreError {
    StoreError::NotFound("such account".to_owned())
}
