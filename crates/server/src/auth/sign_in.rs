//! Signing in with a password, by invitation, and changing the password.
//!
//! Whoever is not known, not active, in another workspace or without a password gets the same answer after the same work as
//! somebody who mistyped.

use http::HeaderMap;
use rlinks_core::access::api_key;
use rlinks_core::{Email, FieldError, Id, Password, Timestamp, User, UserStatus, Workspace};
use rlinks_store::{
    AttemptSource, AuthMethod, LockoutPolicy, PendingInvitation, RefusedAttempt, Session, SignInAttempt,
    StoreError, UnknownSource,
};

use super::Auth;
use super::known_browsers::keyed_hash;
use super::session::{CurrentSession, StartedSession};
use crate::auth::connection_info::ConnectionInfo;
use rlinks_ops::OpsError;
use rlinks_ops::passwords::{HashingBusyError, NewPasswordError, PasswordOwner};
use rlinks_ops::sessions::SessionsToEnd;

/// How often sign-ins may fail: ten times an account from one network, a hundred times a network, in a quarter of an hour. Failures
/// elsewhere delay an account for half a minute at most.
pub const SIGN_IN_LIMITS: LockoutPolicy = LockoutPolicy {
    max_account_failures: 10,
    max_network_failures: 100,
    window_ms: 15 * 60_000,
    max_delay_ms: 30_000,
    max_waited_tries: 10,
};

/// Why nobody was signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Address, password or workspace: which of them is not said.
    #[error("E-mail address or password is wrong, or the account cannot be used")]
    InvalidCredentials,
    /// Too many failures from here, for so many seconds.
    #[error("Too many sign-ins have failed. Wait {} and try again", wait_text(*.0))]
    LockedOut(u32),
    /// Too many failures elsewhere, for so many seconds.
    #[error("Sign-ins to this account have failed elsewhere, so the next one has to wait. Try again in {}", wait_text(*.0))]
    Delayed(u32),
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

/// The id of no workspace, and of no member.
const NOBODY: Id = Id::from_i64(0);

fn wait_text(seconds: u32) -> String {
    let (count, unit) = if seconds > 60 { (seconds.div_ceil(60), "minute") } else { (seconds, "second") };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

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
        let id = workspace.map_or(NOBODY, |workspace| workspace.id);
        let known = match &email {
            Some(email) => self.store.user_with_password_hash(id, email).await?,
            None => None,
        };
        let account = email.as_ref().map_or("", Email::as_str);
        let user = known.as_ref().map(|(user, _)| user.id);
        let kept = known.as_ref().and_then(|(_, kept)| kept.clone());
        let here = (headers, connection);
        let browser = self.known_browsers.recognize(user.unwrap_or(NOBODY), kept.as_deref(), here);
        let account = self.attempt_hash(&["account", name, account]);
        let source = match browser {
            Some(browser) => AttemptSource::Known(self.attempt_hash(&["browser", &account, browser])),
            None => AttemptSource::Unknown(UnknownSource {
                pair: self.attempt_hash(&["pair", &account, &connection.network]),
                network: self.attempt_hash(&["network", &connection.network]),
                account,
            }),
        };
        let attempt = SignInAttempt { source, workspace: workspace.map(|workspace| workspace.id), user };
        self.begin_attempt(&attempt).await?;
        let matches = permit.verify(password, kept.clone()).await?;
        let found = known.filter(|(user, _)| matches && user.status == UserStatus::Active).zip(kept);
        let ((user, _), kept) = found.ok_or(SignInError::InvalidCredentials)?;
        let (started, new) = self.sessions.draft(AuthMethod::Password, connection, headers);
        match self.ops.sign_in(&user, &kept, &new, &attempt).await {
            Ok(()) => Ok(self.remember(started, user.id, Some(&kept), connection, headers)),
            Err(StoreError::Conflict | StoreError::NotFound(_)) => Err(SignInError::InvalidCredentials),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a session of a member whom the OpenID provider vouches for.
    pub async fn sign_in_by_provider(
        &self,
        user: &User,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, StoreError> {
        let started = self.sessions.start(user, AuthMethod::Oidc, connection, headers).await?;
        let known = self.store.user_with_password_hash(user.workspace, &user.email).await?;
        let kept = known.and_then(|(_, kept)| kept);
        Ok(self.remember(started, user.id, kept.as_deref(), connection, headers))
    }

    /// Lets the browser in which a session begins be known from now on.
    pub(super) fn remember(
        &self,
        started: StartedSession,
        user: Id,
        password_hash: Option<&str>,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> StartedSession {
        started.remembered_as(self.known_browsers.remember(user, password_hash, (headers, connection)))
    }

    async fn begin_attempt(&self, attempt: &SignInAttempt) -> Result<(), SignInError> {
        let seconds_until = |until: Timestamp| {
            let left_ms = until.ms().saturating_sub(self.clock.now().ms()).max(1);
            u32::try_from(left_ms.cast_unsigned().div_ceil(1000)).unwrap_or(u32::MAX)
        };
        match self.ops.begin_sign_in(attempt, &SIGN_IN_LIMITS).await? {
            None => Ok(()),
            Some(RefusedAttempt::Locked(until)) => Err(SignInError::LockedOut(seconds_until(until))),
            Some(RefusedAttempt::Delayed(until)) => Err(SignInError::Delayed(seconds_until(until))),
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
            Ok(()) => Ok(self.remember(started, invited.user.id, Some(&kept), connection, headers)),
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
        // The old one first: a stolen session learns nothing by trying new ones, and a weak new one is no failed attempt.
        let kept = self.verify_own_password(&current.user, &current.session, old).await?;
        let owner = PasswordOwner::new(&current.user.full_name, &current.user.email);
        let hash = self.passwords.acquire().await?.hash_new(new, owner, self.ops.random.bytes()).await?;
        let (started, next) = self.sessions.draft(current.session.how, connection, headers);
        match self.ops.change_own_password(&current.caller(), &hash, Some(&kept), &next).await {
            Ok(()) => Ok(self.remember(started, current.user.id, Some(&hash), connection, headers)),
            Err(StoreError::Conflict) => Err(SignInError::InvalidCredentials),
            Err(error) => Err(error.into()),
        }
    }

    /// Verifies the password of a member who is signed in, and gives the hash it was verified against. Failures count for their session
    /// alone: too many lock it as they would lock a known browser.
    pub async fn verify_own_password(
        &self,
        user: &User,
        session: &Session,
        password: &str,
    ) -> Result<String, SignInError> {
        let permit = self.passwords.acquire().await?;
        let attempt = SignInAttempt {
            source: AttemptSource::Known(self.attempt_hash(&["session", &session.hash])),
            workspace: Some(user.workspace),
            user: Some(user.id),
        };
        self.begin_attempt(&attempt).await?;
        let kept =
            self.store.user_with_password_hash(user.workspace, &user.email).await?.and_then(|(_, kept)| kept);
        let matches = permit.verify(Password::parse(password).ok(), kept.clone()).await?;
        let hash = kept.filter(|_| matches).ok_or(SignInError::InvalidCredentials)?;
        self.ops.clear_sign_in_failures(&attempt).await?;
        Ok(hash)
    }

    /// Ends every session somebody has.
    pub async fn sign_out_everywhere(&self, current: &CurrentSession) -> Result<u64, OpsError> {
        self.ops.end_sessions(&current.caller(), &current.user, SessionsToEnd::All).await
    }

    /// Of what was tried only this is kept.
    fn attempt_hash(&self, parts: &[&str]) -> String {
        keyed_hash(&self.attempt_key(), parts)
    }
}
