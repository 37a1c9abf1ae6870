//! API keys: an admin's business, and everybody's own.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rlinks_core::access::api_key::ApiKeySecret;
use rlinks_core::draft::{TimeInput, parse_expiry};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{ApiKey, Email, FieldCode, FieldError, Id, Role, Scope, Scopes, Timestamp};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Fields, JsonObject, NoParams, Params, PathName};
use crate::auth::authorize::{AnyScope, Authorized};
use crate::auth::caller::Caller;
use rlinks_ops::members::KeyDraft;
use rlinks_ops::{OpsError, Resource};
use rlinks_wire::Page;
use rlinks_wire::key::{CreatedKey, Key, ScopeName};

/// The routes of keys.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke)).routes(routes!(rotate))
}

/// What a new key is to be.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `create` reads")]
pub struct NewKey {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Else `links:read` and `links:write`.
    #[schema(value_type = Option<Vec<ScopeName>>, min_items = 1)]
    scopes: Option<Vec<String>>,
    /// The member it belongs to, by id or e-mail address; only an admin may name another.
    user: Option<String>,
    /// Good up to and including this moment.
    #[schema(value_type = Option<super::links::TimeInput>)]
    expires_at: Option<String>,
}

/// Whose keys somebody may look after.
pub(crate) enum KeyAccess {
    All,
    Own(Id),
}

impl KeyAccess {
    /// The member whose keys these are, where not everybody's.
    pub(crate) const fn owner(&self) -> Option<Id> {
        match self {
            Self::All => None,
            Self::Own(user) => Some(*user),
        }
    }
}

/// Whose keys a caller may look after.
pub(crate) fn key_access(caller: &Caller) -> Result<KeyAccess, ApiError> {
    if caller.scopes.contains(Scope::WorkspaceAdmin) {
        return Ok(KeyAccess::All);
    }
    match &caller.user {
        Some(user) if user.role >= Role::Member && caller.scopes.contains(Scope::LinksWrite) => {
            Ok(KeyAccess::Own(user.id))
        }
        _ => Err(ApiError::with_message(
            ErrorCode::Forbidden,
            "Keys are kept by admins, and by members their own, with a credential that may write",
        )),
    }
}

/// A key the caller may look after; another's is not there.
pub(crate) async fn accessible_key(api: &Api, caller: &Caller, id: &str) -> Result<ApiKey, ApiError> {
    let access = key_access(caller)?;
    let key = api.ops.key(&caller.workspace, id).await?;
    match access {
        KeyAccess::Own(user) if key.user != Some(user) => {
            Err(OpsError::NotFound(Resource::Key(id.to_owned())).into())
        }
        _ => Ok(key),
    }
}

/// Lists keys, newest first: all of them to an admin, to others their own.
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 200, body = Page<Key>)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    mut params: Params,
) -> Result<Json<Page<Key>>, ApiError> {
    let access = key_access(&caller)?;
    let limit = params.number("limit", 1..=100).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let user = access.owner();
    let context = format!("keys {} {user:?}", caller.workspace.id);
    let before = cursor.map(|text| api.open_cursor::<i64>(&context, &text)).transpose()?.map(Id::from_i64);
    let keys = api.ops.store.keys(caller.workspace.id, user, before, limit + 1).await?;
    let now = api.ops.clock.now();
    let page = api.page(&context, keys, limit, |key| key.id.as_i64());
    Ok(Json(page.map(|key| Key::from_key(&key, now))))
}

/// Makes a key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/keys", tag = "keys", request_body = NewKey,
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 201, body = CreatedKey)))]
async fn create(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let access = key_access(&caller)?;
    let mut fields = Fields::new(body);
    let name = fields.required("name", ApiKey::parse_name);
    let scopes = fields.texts("scopes");
    let scopes = scopes.and_then(|names| fields.take(Scopes::parse(&names)));
    let user = fields.parsed("user", |text| Ok(text.to_owned()));
    let expires_at = match fields.value("expires_at") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => fields.take(parse_expiry(&TimeInput::Text(text), api.ops.clock.now())),
        Some(Value::Number(number)) => {
            fields.take(parse_expiry(&TimeInput::Number(number), api.ops.clock.now()))
        }
        Some(_) => fields.take(Err(FieldError::new("expires_at", FieldCode::NotATime, "is not a time"))),
    };
    fields.finish()?;
    let user = match (&access, user) {
        (KeyAccess::All, Some(who)) => Some(api.ops.member(&caller.workspace, &who).await?.id),
        (KeyAccess::Own(own), Some(who)) if is_self(&caller, &who) => Some(*own),
        (KeyAccess::Own(_), Some(_)) => {
            return Err(ApiError::with_message(ErrorCode::Forbidden, "Only an admin makes keys for others"));
        }
        (_, None) => caller.member(),
    };
    let draft = KeyDraft {
        name: name.unwrap_or_default(),
        scopes: scopes.unwrap_or_else(|| Scopes::DEFAULT.intersection(caller.scopes)),
        user,
        expires_at: cap_expiry(&caller, expires_at)?,
    };
    if draft.scopes == Scopes::NONE {
        let message =
            "is missing; name what the key may do, for you have nothing of what keys may do by default";
        return Err(FieldError::new("scopes", FieldCode::Required, message).into());
    }
    // A key makes no key that may do more, or lives longer, than itself.
    if !draft.scopes.is_subset(caller.scopes) {
        return Err(ApiError::with_message(
            ErrorCode::Forbidden,
            "A key can be given no scope its maker does not have",
        ));
    }
    let (key, secret) = api.ops.create_key(&caller.by, &caller.workspace, &draft).await?;
    Ok(created_response(&api, &key, &secret))
}

/// Whether a caller names themselves.
fn is_self(caller: &Caller, who: &str) -> bool {
    caller.user.as_ref().is_some_and(|user| {
        who == user.id.to_string() || Email::parse(who).is_ok_and(|address| address == user.email)
    })
}

/// The end of a key made by this caller: no later than that of the key they call with.
fn cap_expiry(caller: &Caller, wanted: Option<Timestamp>) -> Result<Option<Timestamp>, ApiError> {
    let own = caller.key.as_ref().and_then(|key| key.expires_at);
    match (own, wanted) {
        (Some(own), Some(wanted)) if wanted > own => {
            let message = format!("is after the end of the key you call with ({own})");
            Err(FieldError::new("expires_at", FieldCode::TooLong, message).into())
        }
        (own, wanted) => Ok(wanted.or(own)),
    }
}

fn created_response(api: &Api, key: &ApiKey, secret: &ApiKeySecret) -> Response {
    (StatusCode::CREATED, Json(CreatedKey::from_key(key, secret, api.ops.clock.now()))).into_response()
}

/// Revokes a key, from the next request on.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "keys", params(("id" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 204)))]
async fn revoke(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    let key = accessible_key(&api, &caller, &id).await?;
    api.ops.revoke_key(&caller.by, &caller.workspace, key.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a successor of a key; the old one lives 24 hours more.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", tag = "keys", params(("id" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 201, body = CreatedKey)))]
async fn rotate(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    _: NoParams,
) -> Result<Response, ApiError> {
    let key = accessible_key(&api, &caller, &id).await?;
    // One's own key is bound by one's role as the key one calls with is.
    let own = caller.key.as_ref().filter(|own| own.user.is_some() && own.user == key.user);
    if !key.scopes.is_subset(own.map_or(caller.scopes, |own| own.scopes)) {
        return Err(ApiError::with_message(ErrorCode::Forbidden, "This key may do more than you"));
    }
    let until = caller.key.as_ref().and_then(|key| key.expires_at);
    if until.is_some_and(|until| key.expires_at.is_none_or(|end| end > until)) {
        return Err(ApiError::with_message(
            ErrorCode::Forbidden,
            "This key lives longer than the one you call with",
        ));
    }
    let (key, secret) = api.ops.rotate_key(&caller.by, &key).await?;
    Ok(created_response(&api, &key, &secret))
}
