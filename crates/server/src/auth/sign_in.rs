//! Signing in with a password, by invitation, and changing the password.
//!
//! Whoever is not known, not active, in another workspace or without a password gets the same answer after the same work as
//! somebody who mistyped.

use http::HeaderMap;
use ring::hmac;
use rlinks_core::access::api_key;
use rlinks_core::hex;
use rlinks_core::{Email, FieldError, Id, Password, Timestamp, User, UserStatus, Workspace};
use rlinks_store::{AuthMethod, LockoutPolicy, PendingInvitation, SignInAttempt, StoreError};

use super::Auth;
use super::session::{CurrentSession, StartedSession};
use crate::auth::connection_info::ConnectionInfo;
use rlinks_ops::OpsError;
use rlinks_ops::passwords::{HashingBusyError, NewPasswordError, PasswordOwner};

/// How often sign-ins may fail: ten times an account, a hundred times a network, in a quarter of an hour.
pub const SIGN_IN_LIMITS: LockoutPolicy =
    LockoutPolicy { max_account_failures: 10, max_network_failures: 100, window_ms: 15 * 60_000 };

/// Why nobody was signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Address, password or workspace: which of them is not said.
    #[error("E-mail address or password is wrong, or the account cannot be used")]
    InvalidCredentials,
    /// Too many failures, of this account or from this network.
    #[error("Too many sign-ins have failed. Wait 15 minutes and try again")]
    LockedOut(Timestamp),
    /// The workspace does not let people in by password.
    #[error("This workspace does not accept passwords: its members sign in through their identity provider")]
    PasswordsDisabled,
    /// An invitation or a set-up that is over, taken, or never was.
    #[error("This link has been used, or its time is over")]
    LinkExpired,
    /// A field breaks a rule.
    #[error("{0}")]
    Field(FieldError),
    /// Too many at once.
    #[error("Too many people are signing in at this moment. Try again in a few seconds")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FieldError> for SignInError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<HashingBusyError> for SignInError {
    fn from(_: HashingBusyError) -> Self {
        Self::Busy
    }
}

impl From<NewPasswordError> for SignInError {
    fn from(error: NewPasswordError) -> Self {
        match error {
            NewPasswordError::Weak(error) => error.into(),
            NewPasswordError::Busy(error) => error.into(),
        }
    }
}

/// The id of no workspace.
const NO_WORKSPACE: Id = Id::from_i64(0);

/// What was typed into the sign-in form.
pub struct Credentials<'a> {
    pub email: &'a str,
    pub password: &'a str,
}

impl Auth {
    /// Signs somebody in by their password. `workspace` is the one they named, be there one or not.
    pub async fn sign_in(
        &self,
        (name, workspace): (&str, Option<&Workspace>),
        given: Credentials<'_>,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, SignInError> {
        let workspace = workspace.filter(|workspace| workspace.deleted_at.is_none());
        if workspace.is_some_and(|workspace| !workspace.policy.allows_passwords()) {
            return Err(SignInError::PasswordsDisabled);
        }
        // What cannot be a password or an address is tried all the same, with nothing.
        let (email, password) = (Email::parse(given.email).ok(), Password::parse(given.password).ok());
        let permit = self.passwords.acquire().await?;
        // Asked of no workspace too, so that it takes as long.
        let id = workspace.map_or(NO_WORKSPACE, |workspace| workspace.id);
        let known = match &email {
            Some(email) => self.store.user_with_password_hash(id, email).await?,
            None => None,
        };
        let account = email.as_ref().map_or("", Email::as_str);
        let attempt = SignInAttempt {
            account: self.attempt_hash(&["account", name, account]),
            network: self.attempt_hash(&["network", &connection.network]),
            workspace: workspace.map(|workspace| workspace.id),
            user: known.as_ref().map(|(user, _)| user.id),
        };
        if let Some(until) = self.ops.begin_sign_in(&attempt, &SIGN_IN_LIMITS).await? {
            return Err(SignInError::LockedOut(until));
        }
        let kept = known.as_ref().and_then(|(_, kept)| kept.clone());
        let matches = permit.verify(password, kept.clone()).await?;
        let found = known.filter(|(user, _)| matches && user.status == UserStatus::Active).zip(kept);
        let ((user, _), kept) = found.ok_or(SignInError::InvalidCredentials)?;
        let (started, new) = self.sessions.draft(AuthMethod::Password, connection, headers);
        match self.ops.sign_in(&user, &kept, &new, &attempt).await {
            Ok(()) => Ok(started),
            Err(StoreError::Conflict | StoreError::NotFound(_)) => Err(SignInError::InvalidCredentials),
            Err(error) => Err(error.into()),
        }
    }

    /// Whom an invitation is for, while it is good.
    pub async fn invitation(&self, token: &str) -> Result<PendingInvitation, SignInError> {
        let invited = self.store.invitation(&api_key::hash_secret(token), self.clock.now()).await?;
        invited.ok_or(SignInError::LinkExpired)
    }

    /// Takes an invitation: gives a member their name and password, and signs them in.
    pub async fn accept_invitation(
        &self,
        token: &str,
        full_name: &str,
        password: &str,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, SignInError> {
        let invited = self.invitation(token).await?;
        if !invited.workspace.policy.allows_passwords() {
            return Err(SignInError::PasswordsDisabled);
        }
        let full_name = User::parse_name(full_name)?;
        let password = Password::parse(password)?;
        let owner = PasswordOwner::new(&full_name, &invited.user.email);
        let kept = self.passwords.acquire().await?.hash_new(password, owner, self.ops.random.bytes()).await?;
        let (started, new) = self.sessions.draft(AuthMethod::Password, connection, headers);
        let hash = api_key::hash_secret(token);
        match self.ops.accept_invitation(&hash, &invited.user, &full_name, &kept, &new).await {
            Ok(()) => Ok(started),
            Err(StoreError::NotFound(_)) => Err(SignInError::LinkExpired),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes somebody's own password. All their sessions end; they go on in a new one.
    pub async fn change_password(
        &self,
        current: &CurrentSession,
        old: &str,
        new: &str,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, SignInError> {
        if !current.workspace.policy.allows_passwords() {
            return Err(SignInError::PasswordsDisabled);
        }
        let new = Password::parse(new)?;
        // The old one first: whoever has only the session learns nothing by trying new ones, and a weak new one is no failed attempt.
        let kept = self.verify_own_password(&current.user, &current.workspace, old, connection).await?;
        let owner = PasswordOwner::new(&current.user.full_name, &current.user.email);
        let hash = self.passwords.acquire().await?.hash_new(new, owner, self.ops.random.bytes()).await?;
        let (started, next) = self.sessions.draft(current.session.how, connection, headers);
        match self.ops.change_own_password(&current.caller(), &hash, Some(&kept), &next).await {
            Ok(()) => Ok(started),
            Err(StoreError::Conflict) => Err(SignInError::InvalidCredentials),
            Err(error) => Err(error.into()),
        }
    }

    /// Verifies the password of a member who is signed in, and gives the hash it was verified against. A failure counts like a failed
    /// sign-in.
    pub async fn verify_own_password(
        &self,
        user: &User,
        workspace: &Workspace,
        password: &str,
        connection: &ConnectionInfo,
    ) -> Result<String, SignInError> {
        let (attempt, hash) = self.verify_password(user, workspace, password, connection).await?;
        self.ops.clear_sign_in_failures(&attempt).await?;
        Ok(hash)
    }

    async fn verify_password(
        &self,
        user: &User,
        workspace: &Workspace,
        password: &str,
        connection: &ConnectionInfo,
    ) -> Result<(SignInAttempt, String), SignInError> {
        let attempt = SignInAttempt {
            account: self.attempt_hash(&["account", workspace.slug.as_str(), user.email.as_str()]),
            network: self.attempt_hash(&["network", &connection.network]),
            workspace: Some(user.workspace),
            user: Some(user.id),
        };
        let permit = self.passwords.acquire().await?;
        if let Some(until) = self.ops.begin_sign_in(&attempt, &SIGN_IN_LIMITS).await? {
            return Err(SignInError::LockedOut(until));
        }
        let kept =
            self.store.user_with_password_hash(user.workspace, &user.email).await?.and_then(|(_, kept)| kept);
        let matches = permit.verify(Password::parse(password).ok(), kept.clone()).await?;
        kept.filter(|_| matches).map(|hash| (attempt, hash)).ok_or(SignInError::InvalidCredentials)
    }

    /// Ends every session somebody has.
    pub async fn sign_out_everywhere(&self, current: &CurrentSession) -> Result<u64, OpsError> {
        self.ops.sign_out(&current.caller(), &current.user).await
    }

    /// Of what was tried only this is kept. Each part goes in with its length before it.
    fn attempt_hash(&self, parts: &[&str]) -> String {
        let mut hash = hmac::Context::with_key(&self.attempt_key);
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex::encode(&hash.sign().as_ref()[..16])
    }
}
