//! Who calls: an API key, an access token of the OpenID provider, or the dashboard's session.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rlinks_core::access::api_key::{ApiKeySecret, KeyStatus};
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Scope, Timestamp, User, UserStatus, Workspace};
use rlinks_store::{KeyWithOwner, StoreError};

use super::Auth;
use super::authorize::require_scope;
use super::connection_info::ConnectionInfo;
use super::csrf::is_cross_site;
use super::error::AuthError;
use super::oidc::provision::{ProvisionError, allows_oidc};
use super::oidc::{Bearer, BearerError, Oidc};
use rlinks_ops::{Caller, Credential};

/// Longer keys are refused unread.
const MAX_KEY_BYTES: usize = 256;
/// Names the workspace a token's owner acts in, if they have several.
const X_WORKSPACE: HeaderName = HeaderName::from_static("x-workspace");
/// Where a program shows the token of its session.
const X_CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");
/// What an unknown key is compared with, so that it takes as long as a known one.
const DUMMY_KEY_HASH: &str = "blake2b256:0000000000000000000000000000000000000000000000000000000000000000";

impl Auth {
    /// Who calls. If a request has an `Authorization` header, that counts and its cookies don't.
    pub async fn authenticate(&self, request: &Parts) -> Result<Caller, AuthError> {
        if request.headers.contains_key(AUTHORIZATION) {
            return self.authenticate_credential(&request.headers).await;
        }
        self.authenticate_session(request).await
    }

    /// Whether the key or token of a request allows something, for what is not below `/api`.
    pub async fn credential_allows(&self, headers: &HeaderMap, scope: Scope) -> Result<(), AuthError> {
        require_scope(&self.authenticate_credential(headers).await?, scope)
    }

    /// A session of the dashboard. A change must show that it was meant.
    async fn authenticate_session(&self, request: &Parts) -> Result<Caller, AuthError> {
        let connection = request.extensions.get::<Arc<ConnectionInfo>>().ok_or(AuthError::Unauthenticated)?;
        let headers = &request.headers;
        let current = self.sessions.current(headers, connection).await?.ok_or(AuthError::Unauthenticated)?;
        if !request.method.is_safe() {
            let shown = headers.get(X_CSRF_TOKEN).and_then(|token| token.to_str().ok());
            if is_cross_site(headers, connection) || !shown.is_some_and(|token| current.csrf_matches(token)) {
                return Err(AuthError::CrossSite);
            }
        }
        Ok(current.caller())
    }

    /// A key, or an access token of the OpenID provider.
    async fn authenticate_credential(&self, headers: &HeaderMap) -> Result<Caller, AuthError> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(AuthError::Unauthenticated);
        };
        let text = value.to_str().map_err(|_| AuthError::Unauthenticated)?;
        let (scheme, token) = text.split_once(' ').ok_or(AuthError::Unauthenticated)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(AuthError::Unauthenticated);
        }
        // No key has a dot, and every token has two.
        if let Some(oidc) = self.oidc.as_ref().filter(|_| token.contains('.')) {
            return authenticate_token(oidc, token.trim(), headers).await;
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(AuthError::Unauthenticated);
        }
        let secret = ApiKeySecret::parse(token.trim()).ok_or(AuthError::Unauthenticated)?;
        let right = |holder: Option<Arc<KeyWithOwner>>| {
            let matches = secret.matches(holder.as_ref().map_or(DUMMY_KEY_HASH, |holder| &holder.hash));
            holder.filter(|_| matches)
        };
        // A wrong secret takes the same work whether its prefix is cached, known or unknown: two hashes and a row of the store. Only the
        // owner of the secret can tell, by the time it takes, that there is more to read.
        let holder = match right(self.cached_key(secret.prefix())) {
            Some(holder) => holder,
            None if secret.matches(&self.store.key_hash(secret.prefix(), DUMMY_KEY_HASH).await?) => {
                right(self.load_key(secret.prefix()).await?).ok_or(AuthError::Unauthenticated)?
            }
            None => return Err(AuthError::Unauthenticated),
        };
        if !is_usable(&holder, self.clock.now()) {
            return Err(AuthError::Unauthenticated);
        }
        Ok(Caller::from_key(&holder))
    }

    /// Looks a long request's caller up again; `None` once they lost access. While the store can't be read, they keep it.
    pub async fn revalidate(&self, caller: &Caller, scope: Scope) -> Option<Caller> {
        let now = match self.reload(caller).await {
            Ok(now) => now,
            Err(_) => Some(caller.clone()),
        };
        now.filter(|now| now.scopes.contains(scope))
    }

    /// The same credential, looked up again.
    async fn reload(&self, caller: &Caller) -> Result<Option<Caller>, StoreError> {
        match (&caller.credential, &caller.user) {
            (Credential::Key(key), _) => {
                let holder = self.key_holder(&key.prefix).await?;
                let holder = holder.filter(|holder| is_usable(holder, self.clock.now()));
                Ok(holder.map(|holder| Caller::from_key(&holder)))
            }
            (Credential::Session(session), _) => {
                let user = self.sessions.reload(session).await?;
                let active = self.with_workspace(caller, user).await?;
                Ok(active.map(|(user, workspace)| Caller::from_session(user, workspace, session.clone())))
            }
            (Credential::Token { until }, Some(user)) => {
                if *until <= self.clock.now() {
                    return Ok(None);
                }
                let user = self.store.user(user.workspace, user.id).await?;
                let active = self.with_workspace(caller, user).await?;
                let open = active.filter(|(_, workspace)| allows_oidc(workspace));
                Ok(open.map(|(user, workspace)| Caller::from_token(user, workspace, *until)))
            }
            _ => Ok(Some(caller.clone())),
        }
    }

    /// A member who is still active, and their workspace as it is now.
    async fn with_workspace(
        &self,
        caller: &Caller,
        user: Option<User>,
    ) -> Result<Option<(User, Workspace)>, StoreError> {
        let user = user.filter(|user| user.status == UserStatus::Active);
        Ok(user.zip(self.store.workspace(&caller.workspace.slug).await?))
    }
}

async fn authenticate_token(oidc: &Oidc, token: &str, headers: &HeaderMap) -> Result<Caller, AuthError> {
    let named = headers.get(X_WORKSPACE).map(HeaderValue::to_str).transpose();
    let named = named.map_err(|_| AuthError::BadRequest)?;
    oidc.authenticate(token, named)
        .await
        .map(|Bearer { user, workspace, until }| Caller::from_token(user, workspace, until))
        .map_err(|error| match error {
            BearerError::Token(refusal) => {
                tracing::debug!(%refusal, "an access token was refused");
                AuthError::Unauthenticated
            }
            BearerError::ProviderUnavailable => AuthError::ProviderUnavailable(error.to_string()),
            BearerError::Provision(ProvisionError::Store(error)) => error.into(),
            // It is certain whose token this is, so they may know why it opens nothing.
            BearerError::Provision(_) => AuthError::NoAccount(error.to_string()),
            BearerError::AccountAmbiguous(_) => AuthError::AmbiguousWorkspace(error.to_string()),
        })
}

/// Whether a key still opens anything.
fn is_usable(holder: &KeyWithOwner, now: Timestamp) -> bool {
    let locked_out = holder.user.as_ref().is_some_and(|user| user.status != UserStatus::Active);
    holder.key.status(now) == KeyStatus::Active
        && !locked_out
        && holder.workspace.deleted_at.is_none()
        && holder.workspace.policy.sign_in.contains(&SignInMethod::Keys)
}
