//! New links: one, once however often it is asked for, or many; always within the limits of their maker.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Target};
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
use crate::auth::caller::Caller;
use rlinks_ops::limits::{LimitKey, RateLimitStatus};
use rlinks_ops::{LinkResult, OnDeletedCode, OpsError, WriteMode, WriteOutcome};
use rlinks_store::clock::monotonic_ms;

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
    if let Some(idempotency) = &idempotency
        && let Some(done) = api.ops.replay(&caller.workspace, &without_nulls(&body), idempotency).await?
    {
        return created_response(&api, &caller, &done).await;
    }
    let (made, rate_limit) = create_within_limit(&api, &caller, &body, idempotency).await;
    let mut response = match made {
        Ok(done) => created_response(&api, &caller, &done).await?,
        Err(error) => error.into_response(),
    };
    if let Some(rate_limit) = rate_limit {
        response.extensions_mut().insert(rate_limit);
    }
    Ok(response)
}

/// Creates one link within the limits of its maker.
async fn create_within_limit(
    api: &Api,
    caller: &Caller,
    body: &Map<String, Value>,
    idempotency: Option<IdempotencyKey>,
) -> (Result<LinkResult, ApiError>, Option<RateLimitStatus>) {
    let (made, rate_limit) =
        create_link(api, caller, Input::from_json(&without_nulls(body)), idempotency).await;
    let made = made.map_err(|refused| match refused {
        CreateLinkError::RateLimited { seconds } => ApiError::rate_limited(seconds, CREATION_LIMIT_MESSAGE),
        CreateLinkError::Ops(error) => error.into(),
    });
    (made, rate_limit)
}

/// What somebody is told who has made their links of this hour.
pub const CREATION_LIMIT_MESSAGE: &str = "You have made your links of this hour";

/// Why there is no new link.
pub enum CreateLinkError {
    /// Their maker has made enough for now.
    RateLimited {
        /// In so many seconds there may be another.
        seconds: u32,
    },
    /// The word of [`ops`](rlinks_ops).
    Ops(OpsError),
}

/// The same for every face: the limit holds for a person, wherever they come in.
pub async fn create_link(
    api: &Api,
    caller: &Caller,
    input: Result<Input, FieldErrors>,
    idempotency: Option<IdempotencyKey>,
) -> (Result<LinkResult, CreateLinkError>, Option<RateLimitStatus>) {
    let subject = LimitKey::Creations(caller.principal_id());
    let limit = caller.workspace.policy.limits.creations_per_hour;
    let taken = limit.map(|limit| api.auth.rate_limiter.take(subject, limit, 1, monotonic_ms())).transpose();
    let rate_limit = match taken {
        Ok(rate_limit) => rate_limit,
        Err(left) => return (Err(CreateLinkError::RateLimited { seconds: left.reset_seconds }), Some(left)),
    };
    let made = async {
        let input = input?;
        let deleted = OnDeletedCode::from_input(&input);
        api.ops.create(&caller.by, &caller.workspace, &input, deleted, idempotency, WriteMode::Apply).await
    };
    let made: Result<LinkResult, OpsError> = made.await;
    let counts = made.as_ref().is_ok_and(|done| done.outcome == WriteOutcome::Created && !done.replayed);
    if let (Some(_), false) = (limit, counts) {
        api.auth.rate_limiter.refund(subject, 1);
    }
    if let Ok(done) = &made {
        api.update_route(&done.link);
    }
    (made.map_err(CreateLinkError::Ops), rate_limit.filter(|_| counts))
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
    Ok(Some(IdempotencyKey { owner: caller.by.owner.clone(), key: key.to_owned(), request }))
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
    // Asked about together, their targets are known when each is made.
    let targets: Vec<Target> = items
        .iter()
        .filter_map(|item| item.get("target")?.as_str())
        .filter_map(|text| Target::parse(text, rlinks_core::link::target::MAX_TARGET_BYTES).ok())
        .collect();
    api.ops.safety.check_all(&targets.iter().collect::<Vec<_>>()).await;
    let results = create_all(&api, &caller, &items).await;
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

/// Creates links in their order within the limits of their maker. What does not count in the end makes room for those after it.
async fn create_all(api: &Api, caller: &Caller, items: &[Value]) -> Vec<Result<LinkResult, ApiError>> {
    let subject = LimitKey::Creations(caller.principal_id());
    let limit = caller.workspace.policy.limits.creations_per_hour;
    let read = items.iter().map(parse_item).collect::<Vec<_>>();
    let inputs: Vec<Input> = read.iter().filter_map(|input| input.as_ref().ok().cloned()).collect();
    let mut made: Vec<Result<LinkResult, ApiError>> = Vec::with_capacity(inputs.len());
    while made.len() < inputs.len() {
        let left = &inputs[made.len()..];
        let mut permitted = left.len();
        if let Some(limit) = limit {
            let mut refused = 0;
            let mut take = || match api.auth.rate_limiter.take(subject, limit, 1, monotonic_ms()) {
                Ok(_) => true,
                Err(rate_limit) => {
                    refused = rate_limit.reset_seconds;
                    false
                }
            };
            permitted = left.iter().take_while(|_| take()).count();
            if permitted == 0 {
                made.extend(
                    left.iter().map(|_| Err(ApiError::rate_limited(refused, CREATION_LIMIT_MESSAGE))),
                );
                break;
            }
        }
        for done in api.ops.create_in_order(&caller.by, &caller.workspace, &left[..permitted]).await {
            if limit.is_some() && !done.as_ref().is_ok_and(|done| done.outcome == WriteOutcome::Created) {
                api.auth.rate_limiter.refund(subject, 1);
            }
            if let Ok(done) = &done {
                api.update_route(&done.link);
            }
            made.push(done.map_err(ApiError::from));
        }
    }
    let mut made = made.into_iter();
    let lost = || Err(ApiError::new(ErrorCode::Internal));
    read.into_iter().map(|input| input.and_then(|_| made.next().unwrap_or_else(lost))).collect()
}

fn parse_item(item: &Value) -> Result<Input, ApiError> {
    let Value::Object(body) = item else {
        return Err(FieldError::new("links", FieldCode::BadCharacters, "must be a list of objects").into());
    };
    Ok(Input::from_json(&without_nulls(body))?)
}
