//! New links: one, once however often it is asked for, or many; always within the limits of their maker.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{FieldCode, FieldError};
use rlinks_store::write::IdempotencyKey;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::extract::{BulkJsonObject, JsonObject};
use crate::api::link_shapes::{CreatedLink, LinkView, NewLink, etag, view};
use crate::auth::authorize::{Authorized, LinksWrite};
use rlinks_ops::Caller;
use rlinks_ops::{LinkResult, OnDeletedCode, WriteMode, WriteOutcome};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const MAX_IDEMPOTENCY_KEY_CHARS: usize = 255;
const MAX_BULK_LINKS: usize = 1000;

/// Makes a link, under a chosen or a generated code.
#[utoipa::path(post, path = "/api/v1/links", tag = "links", request_body = NewLink,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeat a request with the same key and it is done once; 24 hours")),
    extensions(("x-scope" = json!("links:write"))),
    responses((status = 201, body = CreatedLink, headers(("Location" = String), ("ETag" = String))),
        (status = 200, body = CreatedLink, description = "There already: handed back, or revived")))]
pub(crate) async fn create(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksWrite>,
    headers: HeaderMap,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let idempotency = idempotency_key(&caller, &headers, &body)?;
    let input = Input::from_json(&without_nulls(&body))?;
    let on_deleted = OnDeletedCode::from_input(&input);
    let done = api.ops.create(&caller, &input, on_deleted, idempotency, WriteMode::Apply).await?;
    let mut response = created_response(&api, &caller, &done).await?;
    if let Some(rate_limit) = done.rate_limit {
        response.extensions_mut().insert(rate_limit);
    }
    Ok(response)
}

/// For a new link, null says as little as nothing.
fn without_nulls(body: &Map<String, Value>) -> Map<String, Value> {
    const OPTIONAL: [&str; 6] = ["redirect_status", "tags", "https_only", "no_loop", "metadata", "recreate"];
    let mut body = body.clone();
    body.retain(|name, value| !(value.is_null() && OPTIONAL.contains(&name.as_str())));
    body
}

async fn created_response(api: &Api, caller: &Caller, done: &LinkResult) -> Result<Response, ApiError> {
    let link = &done.link;
    // Nobody has clicked what was just made.
    let shown = if done.outcome == WriteOutcome::Created {
        LinkView::new(api, &caller.workspace, &api.directory(), link, None)
    } else {
        view(api, &caller.workspace, link).await?
    };
    let body = Json(CreatedLink {
        // It was not when it was made or handed back, and a repeated answer says what the first one said.
        link: shown.at_creation(),
        reused: matches!(done.outcome, WriteOutcome::Reused | WriteOutcome::Revived),
        revived: done.outcome == WriteOutcome::Revived,
        not_applied: done.not_applied.clone(),
    });
    let status = if done.outcome == WriteOutcome::Created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, [(ETAG, etag(link))], body).into_response();
    if status == StatusCode::CREATED {
        let location = format!("/api/v1/links/{}", link.code);
        let location = HeaderValue::from_str(&location).expect("a code is a header value");
        response.headers_mut().insert(LOCATION, location);
    }
    if done.replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// What makes a repeated request the same request.
fn idempotency_key(
    caller: &Caller,
    headers: &HeaderMap,
    body: &Map<String, Value>,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_CHARS {
        let message = "must have 1 to 255 characters of ASCII";
        return Err(FieldError::new("Idempotency-Key", FieldCode::BadCharacters, message).into());
    }
    // Objects are sorted by their keys, so the order in which fields are sent makes no difference.
    let text = serde_json::to_string(body).expect("what was JSON is JSON");
    let request = rlinks_core::hex::encode(&Sha256::digest(text.as_bytes()));
    Ok(Some(IdempotencyKey { owner: caller.owner.clone(), key: key.to_owned(), request }))
}

/// Many links.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes")]
pub struct Bulk {
    #[schema(max_items = 1000)]
    links: Vec<NewLink>,
}

/// What became of many links, in their order.
#[derive(Serialize, ToSchema)]
pub struct BulkResults {
    results: Vec<BulkResult>,
}

/// What became of one of them.
#[derive(Serialize, ToSchema)]
pub struct BulkResult {
    index: usize,
    /// 201, 200 for one that was there, or the status of its error.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<CreatedLink>,
    /// Code, status, message and details.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// Makes up to 1,000 links; each stands alone.
#[utoipa::path(post, path = "/api/v1/links/bulk", tag = "links", request_body = Bulk,
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = BulkResults)))]
pub(crate) async fn bulk(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksWrite>,
    BulkJsonObject(mut body): BulkJsonObject,
) -> Result<Json<BulkResults>, ApiError> {
    let refuse = |code, message: &str| ApiError::from(FieldError::new("links", code, message));
    let items = match body.remove("links") {
        Some(Value::Array(items)) => items,
        Some(_) => return Err(refuse(FieldCode::BadCharacters, "must be a list of links")),
        None => return Err(refuse(FieldCode::Required, "is missing")),
    };
    if let Some(name) = body.keys().next() {
        return Err(FieldError::new(name, FieldCode::UnknownField, "is no field of this").into());
    }
    if items.len() > MAX_BULK_LINKS {
        return Err(refuse(FieldCode::TooLong, "has more than 1000 links"));
    }
    let results = create_items(&api, &caller, &items).await;
    let directory = api.directory();
    let mut shown = Vec::with_capacity(results.len());
    for (index, made) in results.into_iter().enumerate() {
        shown.push(match made {
            Ok(done) => {
                let made = done.outcome == WriteOutcome::Created;
                let link = if made {
                    LinkView::new(&api, &caller.workspace, &directory, &done.link, None)
                } else {
                    view(&api, &caller.workspace, &done.link).await?
                };
                let link = CreatedLink {
                    link,
                    reused: !made,
                    revived: done.outcome == WriteOutcome::Revived,
                    not_applied: done.not_applied,
                };
                BulkResult { index, status: if made { 201 } else { 200 }, link: Some(link), error: None }
            }
            Err(error) => BulkResult { index, status: error.status(), link: None, error: Some(error.item()) },
        });
    }
    Ok(Json(BulkResults { results: shown }))
}

/// Creates the items that can be read, in their order.
async fn create_items(api: &Api, caller: &Caller, items: &[Value]) -> Vec<Result<LinkResult, ApiError>> {
    let read: Vec<Result<Input, ApiError>> = items.iter().map(parse_item).collect();
    let inputs: Vec<Input> = read.iter().filter_map(|input| input.as_ref().ok().cloned()).collect();
    let mut made = api.ops.create_many(caller, &inputs).await.into_iter();
    let lost = || Err(ApiError::new(ErrorCode::Internal));
    let result = |input: Result<Input, ApiError>| {
        input.and_then(|_| made.next().map_or_else(lost, |made| made.map_err(ApiError::from)))
    };
    read.into_iter().map(result).collect()
}

fn parse_item(item: &Value) -> Result<Input, ApiError> {
    let Value::Object(body) = item else {
        return Err(FieldError::new("links", FieldCode::BadCharacters, "must be a list of objects").into());
    };
    Ok(Input::from_json(&without_nulls(body))?)
}
