//! Who calls, and what they may do. Every route of the API says in its signature which scope it needs.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rlinks_core::envelope::ErrorCode;
use rlinks_core::key::{KeyStatus, Secret};
use rlinks_core::policy::{SignIn, Visibility};
use rlinks_core::{Actor, ApiKey, Id, Role, Scope, Scopes, Source, Timestamp, User, UserStatus, Workspace};
use rlinks_store::KeyHolder;

use super::Api;
use super::error::ApiError;
use super::limits::{Standing, Subject};
use crate::auth::oidc::provision::Refused;
use crate::auth::oidc::{Bearer, BearerError, Oidc};
use crate::clock::monotonic_ms;
use crate::ops::{By, Sees};

/// The longest key that is looked at.
const LONGEST: usize = 256;
/// In which workspace somebody with a token acts, where they have several.
const WORKSPACE: HeaderName = HeaderName::from_static("x-workspace");
/// What an unknown key is compared with, so that it takes as long as a known one.
const NOBODY: &str = "blake2b256:0000000000000000000000000000000000000000000000000000000000000000";

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// In which workspace: the credential's, whatever the Host.
    pub workspace: Workspace,
    /// Who acts, and what they see.
    pub by: By,
    /// What they may do: their key's scopes, as far as their role goes.
    pub scopes: Scopes,
    /// The member, where it is one.
    pub user: Option<User>,
    /// The key, where it is one.
    pub key: Option<ApiKey>,
    /// How long the access token is good, where it is one.
    pub token_until: Option<Timestamp>,
}

impl Caller {
    /// Whether they may do this.
    pub fn need(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(ApiError::saying(ErrorCode::Forbidden, format!("This credential does not allow {scope}")))
    }

    /// The member whose role they have; nobody for a key the operator made.
    pub fn member(&self) -> Option<Id> {
        self.user.as_ref().map(|user| user.id)
    }

    /// As whom creations are counted: the member, or the key that is nobody's.
    pub fn counted_as(&self) -> Id {
        let key = self.key.as_ref().map(|key| key.id);
        self.member().or(key).unwrap_or(self.workspace.id)
    }

    /// As whom requests are counted: a key, or a member with a token.
    fn metered_as(&self) -> Option<Id> {
        let member = self.member().filter(|_| self.token_until.is_some());
        self.key.as_ref().map(|key| key.id).or(member)
    }

    fn of_key(holder: KeyHolder) -> Self {
        let KeyHolder { key, user, workspace, .. } = holder;
        let role = user.as_ref().map(|user| user.role);
        let scopes = role.map_or(key.scopes, |role| key.scopes.and(role.scopes()));
        let actor = Actor::of_key(key.id);
        let owner = user.as_ref().map_or_else(|| actor.clone(), |user| Actor::of_user(user.id));
        let by = By { actor, owner, source: Source::Api, sees: sees(&workspace, role) };
        Self { by, workspace, scopes, user, key: Some(key), token_until: None }
    }

    /// A member with a token: whatever their role allows.
    fn of_bearer(bearer: Bearer) -> Self {
        let Bearer { user, workspace, until } = bearer;
        let actor = Actor::of_user(user.id);
        let sees = sees(&workspace, Some(user.role));
        let by = By { owner: actor.clone(), actor, source: Source::Api, sees };
        let scopes = user.role.scopes();
        Self { by, workspace, scopes, user: Some(user), key: None, token_until: Some(until) }
    }
}

/// Which links are there for a member, or for whoever has no role.
fn sees(workspace: &Workspace, role: Option<Role>) -> Sees {
    let own = workspace.policy.visibility == Visibility::Owner && role.is_some_and(|role| role < Role::Admin);
    if own { Sees::Own } else { Sees::All }
}

/// Who calls, if anybody we know.
pub async fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let unknown = || ApiError::new(ErrorCode::Unauthenticated);
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(unknown()) };
    let text = value.to_str().map_err(|_| unknown())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unknown());
    }
    // No key has a dot, and every token has two.
    if let Some(oidc) = api.oidc.as_deref().filter(|_| token.contains('.')) {
        return by_token(api, oidc, token.trim(), headers).await;
    }
    if text.len() > LONGEST {
        return Err(unknown());
    }
    let secret = Secret::parse(token.trim()).ok_or_else(unknown)?;
    let holder = api.ops.store.key_holder(secret.prefix()).await?;
    let matches = secret.matches(holder.as_ref().map_or(NOBODY, |holder| &holder.hash));
    let holder = holder.filter(|_| matches).ok_or_else(unknown)?;
    if !is_good(&holder, api.ops.clock.now()) {
        return Err(unknown());
    }
    Ok(Caller::of_key(holder))
}

/// Who has this access token.
async fn by_token(api: &Api, oidc: &Oidc, token: &str, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let named = match headers.get(WORKSPACE) {
        None => None,
        Some(slug) => Some(slug.to_str().map_err(|_| ApiError::new(ErrorCode::BadRequest))?),
    };
    oidc.bearer(&api.ops, token, named).await.map(Caller::of_bearer).map_err(|error| match error {
        BearerError::Token(refusal) => {
            tracing::debug!(%refusal, "an access token was not believed");
            ApiError::new(ErrorCode::Unauthenticated)
        }
        BearerError::Away => ApiError::saying(ErrorCode::KvUnavailable, error.to_string()),
        BearerError::Refused(Refused::Store(error)) => error.into(),
        // Whose token it is, is certain: they may know why it opens nothing.
        BearerError::Refused(_) => ApiError::saying(ErrorCode::Unauthenticated, error.to_string()),
        BearerError::Whose(_) => ApiError::saying(ErrorCode::BadRequest, error.to_string()),
    })
}

/// Whether a key still opens anything.
fn is_good(holder: &KeyHolder, now: Timestamp) -> bool {
    let locked_out = holder.user.as_ref().is_some_and(|user| user.status != UserStatus::Active);
    holder.key.status(now) == KeyStatus::Active
        && !locked_out
        && holder.workspace.deleted_at.is_none()
        && holder.workspace.policy.sign_in.contains(&SignIn::Keys)
}

/// Whether somebody who stays for longer may still do this. While the store cannot be asked, they may.
pub async fn may_stay(api: &Api, caller: &Caller, scope: Scope) -> bool {
    let now = api.ops.clock.now();
    if caller.token_until.is_some_and(|until| until <= now) {
        return false;
    }
    let Some(key) = &caller.key else {
        let Some(user) = &caller.user else { return true };
        return match api.ops.store.user(user.workspace, user.id).await {
            Ok(user) => {
                user.is_some_and(|user| user.status == UserStatus::Active && user.role.scopes().has(scope))
            }
            Err(_) => true,
        };
    };
    match api.ops.store.key_holder(&key.prefix).await {
        Ok(Some(holder)) => is_good(&holder, now) && Caller::of_key(holder).scopes.has(scope),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Before every route: who calls, and whether they may call so often. After it: what is left to them.
pub async fn door(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let caller = match authenticate(&api, request.headers()).await {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    let limit = caller.workspace.policy.limits.requests_per_hour;
    let mut standing = None;
    if let Some(key) = &caller.key {
        api.usage.count(key.id, api.ops.clock.now());
    }
    if let (Some(who), Some(limit)) = (caller.metered_as(), limit) {
        match api.limits.take(Subject::Requests(who), limit, 1, monotonic_ms()) {
            Ok(left) => standing = Some(left),
            Err(left) => {
                let whose = if caller.key.is_some() { "This key" } else { "This account" };
                let message = format!("{whose} has made its requests of this hour");
                let mut response = ApiError::slow_down(left.reset_seconds, &message).into_response();
                say(&mut response, left);
                return response;
            }
        }
    }
    request.extensions_mut().insert(Arc::new(caller));
    let mut response = next.run(request).await;
    // A creation has a limit of its own, and says so itself.
    if let Some(standing) = response.extensions().get::<Standing>().copied().or(standing) {
        say(&mut response, standing);
    }
    response
}

/// What is left of a limit.
fn say(response: &mut Response, standing: Standing) {
    let values: [(&'static str, u64); 3] = [
        ("x-ratelimit-limit", standing.limit.into()),
        ("x-ratelimit-remaining", standing.remaining.into()),
        ("x-ratelimit-reset", standing.reset_seconds.into()),
    ];
    for (name, value) in values {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}

/// A scope as a type, so that a route's signature names what it needs.
pub trait Needs: Send + Sync {
    /// Which.
    const SCOPE: Option<Scope>;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $name:ident => $scope:expr;)*) => {
        $($(#[$doc])* pub struct $name;
        impl Needs for $name {
            const SCOPE: Option<Scope> = $scope;
        })*
    };
}

needs! {
    /// `links:read`
    LinksRead => Some(Scope::LinksRead);
    /// `links:write`
    LinksWrite => Some(Scope::LinksWrite);
    /// `links:delete`
    LinksDelete => Some(Scope::LinksDelete);
    /// `analytics:read`
    AnalyticsRead => Some(Scope::AnalyticsRead);
    /// `workspace:admin`
    WorkspaceAdmin => Some(Scope::WorkspaceAdmin);
    /// Any credential will do.
    Anybody => None;
}

/// A caller who may do what the type says.
pub struct Allowed<N>(pub Arc<Caller>, PhantomData<N>);

impl<N> std::ops::Deref for Allowed<N> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl<N: Needs, S: Sync> FromRequestParts<S> for Allowed<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        let caller = caller.ok_or_else(|| ApiError::new(ErrorCode::Unauthenticated))?;
        if let Some(scope) = N::SCOPE {
            caller.need(scope)?;
        }
        Ok(Self(caller, PhantomData))
    }
}
