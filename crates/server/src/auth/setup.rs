//! The first admin. A server that finds none prints one address with a token in it; the token works once, until an admin exists or
//! another server starts.

use http::HeaderMap;
use rlinks_core::access::api_key;
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Email, Password, Slug, User};
use rlinks_store::{AuthMethod, StoreError};

use super::Auth;
use super::session::{StartedSession, random_token};
use super::sign_in::SignInError;
use crate::auth::connection_info::ConnectionInfo;

/// What was typed into the set-up form.
pub struct FirstAdmin<'a> {
    pub email: &'a str,
    pub full_name: &'a str,
    pub password: &'a str,
}

impl Auth {
    /// A token for the first admin, where there is none and passwords are taken. Earlier ones no longer work.
    pub async fn create_setup_token(&self) -> Result<Option<String>, StoreError> {
        let main = self.store.workspace(&Slug::main()).await?;
        if !main.is_some_and(|main| main.policy.sign_in.contains(&SignInMethod::Password)) {
            return Ok(None);
        }
        let token = random_token();
        Ok(self.store.create_setup_token(&api_key::hash_secret(&token)).await?.then_some(token))
    }

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
        let full_name = User::parse_name(given.full_name)?;
        let password = Password::parse(given.password)?;
        let kept = self.passwords.acquire().await?.hash(password).await?;
        let (started, new) = self.sessions.draft(AuthMethod::Password, connection, headers);
        let now = self.clock.now();
        match self
            .store
            .complete_setup(&api_key::hash_secret(token), email, full_name, &kept, &new, now)
            .await
        {
            Ok(_) => Ok(started),
            Err(StoreError::NotFound(_)) => Err(SignInError::LinkExpired),
            Err(error) => Err(error.into()),
        }
    }
}
