//! API keys: an admin's business, and everybody's own.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rlinks_core::access::api_key::ApiKeySecret;
use rlinks_core::draft::{TimeInput, parse_expiry};
use rlinks_core::{ApiKey, FieldCode, FieldError, Id, Scopes};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Fields, JsonObject, NoParams, Params, PathName};
use crate::auth::authorize::{AnyScope, Authorized};
use rlinks_ops::api_keys::{KeyAccess, KeyRequest, OnCreated};
use rlinks_store::{CreatedWithKeys, OpenInvitation};
use rlinks_wire::Page;
use rlinks_wire::key::{CreatedKey, CreatedWithKey, Key, ScopeName};

/// The routes of keys.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
        .routes(routes!(created))
        .routes(routes!(rotate))
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

/// Lists keys, newest first: all of them to an admin, to others their own.
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 200, body = Page<Key>)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    mut params: Params,
) -> Result<Json<Page<Key>>, ApiError> {
    let access = KeyAccess::for_caller(&caller)?;
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
    KeyAccess::for_caller(&caller)?;
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
    let request = KeyRequest { name: name.unwrap_or_default(), scopes, user, expires_at };
    let (key, secret) = api.ops.create_key(&caller, request).await?;
    Ok(created_response(&api, &key, &secret))
}

fn created_response(api: &Api, key: &ApiKey, secret: &ApiKeySecret) -> Response {
    (StatusCode::CREATED, Json(CreatedKey::from_key(key, secret, api.ops.clock.now()))).into_response()
}

/// Lists what was made with a key, newest first, as far as the caller may end it: keys that are still good and invitations nobody has
/// accepted, those made with such keys too. A revocation ends it all.
#[utoipa::path(get, path = "/api/v1/keys/{id}/created", tag = "keys",
    params(("id" = String, Path), ("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 200, body = Page<CreatedWithKey>)))]
async fn created(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    mut params: Params,
) -> Result<Json<Page<CreatedWithKey>>, ApiError> {
    let limit = params.number("limit", 1..=100).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let (key, created) = api.ops.created_with_key(&caller, &id).await?;
    let context = format!("created with key {}", key.id);
    let before = cursor.map(|text| api.open_cursor::<i64>(&context, &text)).transpose()?;
    let mut rows = list_created(&created);
    // Keys and members have ids of one series.
    rows.retain(|row| before.is_none_or(|before| row.id.as_i64() < before));
    rows.sort_by_key(|row| Reverse(row.id));
    Ok(Json(api.page(&context, rows, limit, |row| row.id.as_i64())))
}

fn list_created(created: &CreatedWithKeys) -> Vec<CreatedWithKey> {
    let invitation =
        |one: &OpenInvitation| CreatedWithKey::from_invitation(&one.user, one.created_at, one.expires_at);
    let keys = created.keys.iter().map(CreatedWithKey::from_key);
    keys.chain(created.invitations.iter().map(invitation)).collect()
}

/// Revokes a key, from the next request on, and what was made with it (`GET /keys/{id}/created`), unless `keep_created` is true.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path), ("keep_created" = Option<bool>, Query)),
    extensions(("x-scope" = json!("workspace:admin or own"))), responses((status = 204)))]
async fn revoke(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    mut params: Params,
) -> Result<StatusCode, ApiError> {
    let keep = params.boolean("keep_created").unwrap_or(false);
    params.finish()?;
    let created = if keep { OnCreated::Keep } else { OnCreated::Revoke };
    api.ops.revoke_key(&caller, &id, created).await?;
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
    let (_, key, secret) = api.ops.rotate_key(&caller, &id).await?;
    Ok(created_response(&api, &key, &secret))
}
