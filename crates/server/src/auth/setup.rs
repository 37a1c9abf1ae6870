//! The first admin. A server that finds none prints one address with a token in it; the token works once, until an admin exists or
//! another server starts.

use http::HeaderMap;
use rlinks_core::access::api_key;
use rlinks_core::{Email, Password, User};
use rlinks_ops::passwords::PasswordOwner;
use rlinks_ops::sessions;
use rlinks_store::{AuthMethod, StoreError};

use super::Auth;
use super::session::StartedSession;
use super::sign_in::SignInError;
use crate::auth::connection_info::ConnectionInfo;

/// What was typed into the set-up form.
pub struct FirstAdmin<'a> {
    pub email: &'a str,
    pub full_name: &'a str,
    pub password: &'a str,
}

impl Auth {
    /// Whether this token works.
    pub async fn setup_token_valid(&self, token: &str) -> Result<bool, StoreError> {
        self.store.setup_token_valid(&api_key::hash_secret(token)).await
    }

    /// Makes the first admin and signs them in. Of two at once one does.
    pub async fn complete_setup(
        &self,
        token: &str,
        given: FirstAdmin<'_>,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, SignInError> {
        if !self.setup_token_valid(token).await? {
            return Err(SignInError::LinkExpired);
        }
        let email = Email::parse(given.email)?;
        email.check_for_new_account()?;
        let full_name = User::parse_name(given.full_name)?;
        let password = Password::parse(given.password)?;
        let owner = PasswordOwner::new(&full_name, &email);
        let kept = self.passwords.acquire().await?.hash_new(password, owner, self.ops.random.bytes()).await?;
        let (started, new) = self.sessions.draft(AuthMethod::Password, connection, headers);
        let admin = sessions::FirstAdmin { email, full_name, password_hash: &kept };
        match self.ops.complete_setup(&api_key::hash_secret(token), admin, &new).await {
            Ok(user) => Ok(self.remember(started, user.id, Some(&kept), connection, headers)),
            Err(StoreError::NotFound(_)) => Err(SignInError::LinkExpired),
            Err(error) => Err(error.into()),
        }
    }
}
