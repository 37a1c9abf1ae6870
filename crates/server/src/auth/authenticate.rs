//! Who calls, and what they may do. Every route of the API says in its signature which scope it needs.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rlinks_core::access::api_key::{KeyStatus, Secret};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::policy::{SignIn, Visibility};
use rlinks_core::{Actor, ApiKey, Id, Role, Scope, Scopes, Source, Timestamp, User, UserStatus, Workspace};
use rlinks_store::{KeyHolder, Session, StoreError};

use crate::api::Api;
use crate::api::error::ApiError;
use crate::auth::connection_info::Way;
use crate::auth::csrf::is_from_elsewhere;
use crate::auth::oidc::provision::{Refused, is_open};
use crate::auth::oidc::{Bearer, BearerError, Oidc};
use crate::auth::session::Signed;
use rlinks_ops::limits::{Standing, Subject};
use rlinks_ops::{By, Sees};
use rlinks_store::clock::monotonic_ms;

/// The longest key that is looked at.
const LONGEST: usize = 256;
/// In which workspace somebody with a token acts, where they have several.
const X_WORKSPACE: HeaderName = HeaderName::from_static("x-workspace");
/// Where a program shows the token of its session.
const X_CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");
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
    /// The session, where it is somebody at the dashboard.
    pub session: Option<Session>,
    /// Until when the access token is good, where it is one.
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

    /// As whom creations are counted: the member, or whoever answers for the key that is nobody's.
    pub fn counted_as(&self) -> Id {
        let counted = &self.by.counted_as;
        counted.user().or_else(|| counted.key()).unwrap_or(self.workspace.id)
    }

    fn of_key(holder: &KeyHolder) -> Self {
        let KeyHolder { key, user, workspace, .. } = holder.clone();
        let role = user.as_ref().map(|user| user.role);
        let scopes = role.map_or(key.scopes, |role| key.scopes.and(role.scopes()));
        let actor = Actor::of_key(key.id);
        let owner = user.as_ref().map_or_else(|| actor.clone(), |user| Actor::of_user(user.id));
        let by = By {
            actor,
            owner,
            counted_as: key.counted_as(),
            source: Source::Api,
            sees: sees(&workspace, role),
        };
        Self { by, workspace, scopes, user, key: Some(key), session: None, token_until: None }
    }

    /// A member themselves may do what their role may.
    pub fn of_session(signed: Signed) -> Self {
        let Signed { user, workspace, session, .. } = signed;
        Self { session: Some(session), ..Self::of_member(user, workspace, Source::Web) }
    }

    /// The same with an access token.
    fn of_bearer(bearer: Bearer) -> Self {
        let Bearer { user, workspace, until } = bearer;
        Self { token_until: Some(until), ..Self::of_member(user, workspace, Source::Api) }
    }

    fn of_member(user: User, workspace: Workspace, source: Source) -> Self {
        let actor = Actor::of_user(user.id);
        let sees = sees(&workspace, Some(user.role));
        let by = By { owner: actor.clone(), counted_as: actor.clone(), actor, source, sees };
        let scopes = user.role.scopes();
        Self { by, workspace, scopes, user: Some(user), key: None, session: None, token_until: None }
    }
}

/// Where links are their owner's alone, only an admin sees those of others.
fn sees(workspace: &Workspace, role: Option<Role>) -> Sees {
    let own = workspace.policy.visibility == Visibility::Owner && role.is_some_and(|role| role < Role::Admin);
    if own { Sees::Own } else { Sees::All }
}

/// Who calls, if anybody we know. A credential that is named counts, whatever cookie comes along.
async fn authenticate(api: &Api, request: &Parts) -> Result<Caller, ApiError> {
    if request.headers.contains_key(AUTHORIZATION) {
        return by_credential(api, &request.headers).await;
    }
    by_session(api, request).await
}

/// Somebody at the dashboard. What changes something must show that they meant it.
async fn by_session(api: &Api, request: &Parts) -> Result<Caller, ApiError> {
    let unknown = || ApiError::new(ErrorCode::Unauthenticated);
    let way = request.extensions.get::<Arc<Way>>().ok_or_else(unknown)?;
    let headers = &request.headers;
    let signed = api.auth.sessions.of(headers, way).await?.ok_or_else(unknown)?;
    if !request.method.is_safe() {
        let shown = headers.get(X_CSRF_TOKEN).and_then(|token| token.to_str().ok());
        if is_from_elsewhere(headers, way) || !shown.is_some_and(|token| signed.has_shown(token)) {
            return Err(ApiError::saying(
                ErrorCode::Forbidden,
                "With a session, a change needs the session's token in X-CSRF-Token, and must come from our own pages",
            ));
        }
    }
    Ok(Caller::of_session(signed))
}

/// A key, or an access token of the OpenID provider.
async fn by_credential(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let unknown = || ApiError::new(ErrorCode::Unauthenticated);
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(unknown()) };
    let text = value.to_str().map_err(|_| unknown())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unknown());
    }
    // No key has a dot, and every token has two.
    if let Some(oidc) = api.auth.oidc.as_ref().filter(|_| token.contains('.')) {
        return by_token(oidc, token.trim(), headers).await;
    }
    if text.len() > LONGEST {
        return Err(unknown());
    }
    let secret = Secret::parse(token.trim()).ok_or_else(unknown)?;
    let right = |holder: Option<Arc<KeyHolder>>| {
        let matches = secret.matches(holder.as_ref().map_or(NOBODY, |holder| &holder.hash));
        holder.filter(|_| matches)
    };
    // A wrong secret is the same work whether its prefix is remembered, known or nobody's: two hashes and a row of the store. Only who
    // has the secret learns, by the time it takes, that there is more to read.
    let holder = match right(api.remembered_key(secret.prefix())) {
        Some(holder) => holder,
        None if secret.matches(&api.ops.store.key_hash(secret.prefix(), NOBODY).await?) => {
            right(api.find_key(secret.prefix()).await?).ok_or_else(unknown)?
        }
        None => return Err(unknown()),
    };
    if !is_good(&holder, api.ops.clock.now()) {
        return Err(unknown());
    }
    Ok(Caller::of_key(&holder))
}

async fn by_token(oidc: &Oidc, token: &str, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let named = headers.get(X_WORKSPACE).map(HeaderValue::to_str).transpose();
    let named = named.map_err(|_| ApiError::new(ErrorCode::BadRequest))?;
    oidc.bearer(token, named).await.map(Caller::of_bearer).map_err(|error| match error {
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

impl Api {
    /// Whether the key or token of a request allows something, for what is not below `/api`; and what to answer if not.
    pub async fn credential_allows(&self, headers: &HeaderMap, scope: Scope) -> Result<(), ErrorCode> {
        by_credential(self, headers).await.and_then(|caller| caller.need(scope)).map_err(|error| error.code())
    }
}

/// Who somebody is now who stays for longer; nobody once they may no longer do this. While the store cannot be asked, they are who they
/// were.
pub async fn may_stay(api: &Api, caller: &Caller, scope: Scope) -> Option<Caller> {
    let expired = caller.token_until.is_some_and(|until| until <= api.ops.clock.now());
    let now = match as_of_now(api, caller).await {
        _ if expired => None,
        Ok(now) => now,
        Err(_) => Some(caller.clone()),
    };
    now.filter(|now| now.scopes.has(scope))
}

/// The same credential looked at again.
async fn as_of_now(api: &Api, caller: &Caller) -> Result<Option<Caller>, StoreError> {
    if let Some(key) = &caller.key {
        let holder = api.key_holder(&key.prefix).await?;
        let holder = holder.filter(|holder| is_good(holder, api.ops.clock.now()));
        return Ok(holder.map(|holder| Caller::of_key(&holder)));
    }
    let Some(user) = &caller.user else { return Ok(Some(caller.clone())) };
    let store = &api.ops.store;
    let user = match &caller.session {
        Some(session) => api.auth.sessions.still(session).await?,
        None => store.user(user.workspace, user.id).await?,
    };
    let user = user.filter(|user| user.status == UserStatus::Active);
    let workspace = store.workspace(&caller.workspace.slug).await?;
    let is_open = |workspace: &Workspace| caller.session.is_some() || is_open(workspace);
    let (Some(user), Some(workspace)) = (user, workspace.filter(is_open)) else { return Ok(None) };
    let (session, token_until) = (caller.session.clone(), caller.token_until);
    Ok(Some(Caller { session, token_until, ..Caller::of_member(user, workspace, caller.by.source) }))
}

/// Before every route: who calls, and whether they may call so often. After it: what is left to them.
pub async fn door(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match authenticate(&api, &parts).await {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    let limit = caller.workspace.policy.limits.requests_per_hour;
    let mut standing = None;
    if let Some(key) = &caller.key {
        api.usage.count(key.id, api.ops.clock.now());
    }
    // A key by itself; who is signed in, by themselves in however many sessions.
    let (counted, slow_down) = match &caller.key {
        Some(key) => (key.id, "This key has made its requests of this hour"),
        None => (caller.counted_as(), "You have made your requests of this hour"),
    };
    if let Some(limit) = limit {
        match api.limits.take(Subject::Requests(counted), limit, 1, monotonic_ms()) {
            Ok(left) => standing = Some(left),
            Err(left) => {
                let mut response = ApiError::slow_down(left.reset_seconds, slow_down).into_response();
                say(&mut response, left);
                return response;
            }
        }
    }
    parts.extensions.insert(Arc::new(caller));
    let mut response = next.run(Request::from_parts(parts, body)).await;
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
