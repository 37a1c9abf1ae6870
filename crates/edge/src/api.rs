//! Profile `edge`: the API. The token first, then what was asked; D1 decides, and the caches are told before the answer leaves.

use std::cell::RefCell;

use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::redirect::response::HttpResponse;
use rlinks_core::time::DAY_MS;
use rlinks_core::{Code, Timestamp, strict_json};
use serde::Serialize;
use serde_json::{Value, json};
use wasm_bindgen::JsValue;

use crate::analytics::{self, ValueCount};
use crate::api_request::{self, ApiCall, ApiError, LinkResponse, MAX_BODY_BYTES, MAX_CODE_ATTEMPTS};
use crate::cached_link::seconds;
use crate::context::RequestContext;
use crate::d1_sql::{self, Row};
use crate::failed_tokens::FailedTokens;
use crate::platform::{self, PlatformError};
use crate::profile::d1::{self, load_row};
use crate::routing;

thread_local! {
    static FAILED_TOKENS: RefCell<FailedTokens> = RefCell::default();
}

/// An outage is one answer, whatever was asked.
impl From<PlatformError> for ApiError {
    fn from(error: PlatformError) -> Self {
        platform::log_error(&format!("the API cannot reach D1: {error}"));
        Self::Code(ErrorCode::KvUnavailable)
    }
}

/// What the API answers.
pub(crate) async fn handle(context: &RequestContext<'_>, request: &JsValue) -> HttpResponse {
    let address = context.request.address.as_str();
    if FAILED_TOKENS.with_borrow_mut(|failed| failed.is_blocked(address, context.now)) {
        let mut refused = context.error(ErrorCode::RateLimited);
        refused.headers.push(("retry-after", "60".to_owned()));
        return refused;
    }
    if !context.settings.admits(&context.request.authorization) {
        // A request without a token guesses nothing: it must not keep the right token of the same network out.
        if !context.request.authorization.is_empty() {
            FAILED_TOKENS.with_borrow_mut(|failed| failed.count(address, context.now));
        }
        let mut refused = context.error(ErrorCode::Unauthenticated);
        refused.headers.push(("www-authenticate", "Bearer".to_owned()));
        return refused;
    }
    let done = match ApiCall::parse(context.request) {
        Ok(call) => run(context, request, call).await,
        Err(error) => Err(error),
    };
    done.unwrap_or_else(|error| error_response(context, error))
}

async fn run(
    context: &RequestContext<'_>,
    request: &JsValue,
    call: ApiCall,
) -> Result<HttpResponse, ApiError> {
    match call {
        ApiCall::Create => create(context, &body(context, request).await?).await,
        ApiCall::List { limit, after } => list(context, limit, after).await,
        ApiCall::Get(code) => {
            let row = existing(context, &code).await?;
            Ok(link_response(context, 200, &row))
        }
        ApiCall::Change(code) => change(context, &code, &body(context, request).await?).await,
        ApiCall::Delete(code) => delete(context, &code).await,
        ApiCall::Stats(code) => stats(context, &code).await,
        ApiCall::Check(text) => check(context, &text).await,
    }
}

async fn body(context: &RequestContext<'_>, request: &JsValue) -> Result<Input, ApiError> {
    let kind = context.request.content_type.split(';').next().unwrap_or_default().trim();
    if !kind.is_empty() && !kind.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::Code(ErrorCode::UnsupportedMediaType));
    }
    let bytes = match platform::body(request, MAX_BODY_BYTES).await {
        Ok(bytes) => bytes.ok_or(ApiError::Code(ErrorCode::PayloadTooLarge))?,
        Err(_) => return Err(ApiError::Code(ErrorCode::BadRequest)),
    };
    let object = strict_json::parse_object(&bytes)
        .map_err(|error| ApiError::Message(ErrorCode::BadRequest, error.to_string()))?;
    Ok(api_request::parse_body(&object)?)
}

async fn create(context: &RequestContext<'_>, input: &Input) -> Result<HttpResponse, ApiError> {
    let (settings, now) = (context.settings, seconds(context.now));
    let draft = api_request::parse_draft(input, settings, context.now)?;
    let limit = settings.policy.limits.live_links;
    for _ in 0..MAX_CODE_ATTEMPTS {
        let code = match &draft.code {
            Some(code) => code.clone(),
            None => match api_request::generate_code(&settings.policy, &platform::random()) {
                Some(code) => code,
                None => continue,
            },
        };
        let expires_at = draft.expires_at.map(seconds);
        let status = draft.redirect_status.code();
        let insert = d1_sql::insert(code.as_str(), draft.target.as_str(), status, expires_at, now, limit);
        let why =
            [insert, d1_sql::link(code.as_str()), d1_sql::tombstone(code.as_str()), d1_sql::count_live(now)];
        let rows = platform::d1(context.env, &why).await?;
        if let Some(row) = d1::first_row(rows.first())? {
            d1::update_caches(context, &row).await;
            let mut made = link_response(context, 201, &row);
            made.headers.push(("location", format!("/api/v1/links/{code}")));
            return Ok(made);
        }
        let there = |index: usize| rows.get(index).is_some_and(|rows| !rows.is_empty());
        match (there(1), there(2)) {
            (taken, deleted) if taken || deleted => {
                if draft.code.is_some() {
                    return Err(ApiError::CodeTaken { deleted: !taken });
                }
            }
            _ => return Err(ApiError::Code(ErrorCode::QuotaExceeded)),
        }
    }
    Err(ApiError::Message(ErrorCode::Conflict, "no free code was found; try again".to_owned()))
}

async fn existing(context: &RequestContext<'_>, code: &Code) -> Result<Row, ApiError> {
    load_row(context.env, code.as_str()).await?.ok_or(ApiError::Code(ErrorCode::NotFound))
}

async fn change(context: &RequestContext<'_>, code: &Code, input: &Input) -> Result<HttpResponse, ApiError> {
    let row = existing(context, code).await?;
    let next = api_request::apply_patch(&row, input, context.settings, context.now)?;
    if next == row {
        return Ok(link_response(context, 200, &row));
    }
    let update = d1_sql::update(&next, row.updated_at, seconds(context.now));
    let rows = platform::d1(context.env, &[update]).await?;
    let written = d1::first_row(rows.first())?.ok_or(ApiError::Code(ErrorCode::Conflict))?;
    d1::update_caches(context, &written).await;
    Ok(link_response(context, 200, &written))
}

async fn delete(context: &RequestContext<'_>, code: &Code) -> Result<HttpResponse, ApiError> {
    let rows = platform::d1(context.env, &d1_sql::delete(code.as_str(), seconds(context.now))).await?;
    if rows.get(1).is_none_or(Vec::is_empty) {
        return Err(ApiError::Code(ErrorCode::NotFound));
    }
    let mut urls = d1::cache_urls(context.settings, code.as_str());
    urls.push(d1::cache_url(context, code.as_str()));
    d1::purge_caches(context.env, code.as_str(), &urls).await;
    Ok(HttpResponse {
        status: 204,
        headers: vec![("cache-control", "no-store".to_owned())],
        body: String::new(),
    })
}

async fn list(
    context: &RequestContext<'_>,
    limit: usize,
    after: Option<(i64, i64)>,
) -> Result<HttpResponse, ApiError> {
    // One more than asked for says whether there is a next page.
    let rows = platform::d1(context.env, &[d1_sql::list(after, limit + 1), d1_sql::count()]).await?;
    let links = rows.first().cloned().unwrap_or_default().into_iter().map(serde_json::from_value);
    let mut links: Vec<Row> = links.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let more = links.len() > limit;
    links.truncate(limit);
    let next_cursor = more.then(|| links.last().map(api_request::next_cursor)).flatten();
    let total = rows.get(1).and_then(|rows| rows.first()?.get("links")?.as_i64());
    let data: Vec<LinkResponse> = links
        .iter()
        .map(|row| LinkResponse::from_row(row, context.settings, context.request, context.now))
        .collect();
    Ok(json_response(200, &json!({ "data": data, "next_cursor": next_cursor, "total": total })))
}

async fn check(context: &RequestContext<'_>, text: &str) -> Result<HttpResponse, ApiError> {
    let reason = match Code::parse(text, &context.settings.policy.code) {
        Err(error) => Some(error.message),
        Ok(code) => {
            let rows =
                platform::d1(context.env, &[d1_sql::link(code.as_str()), d1_sql::tombstone(code.as_str())])
                    .await?;
            let there = |index: usize| rows.get(index).is_some_and(|rows| !rows.is_empty());
            match (there(0), there(1)) {
                (true, _) => Some("is taken".to_owned()),
                (_, true) => Some("was a link's that is deleted; its code is not given out again".to_owned()),
                _ => None,
            }
        }
    };
    Ok(json_response(200, &json!({ "available": reason.is_none(), "reason": reason })))
}

/// All-time clicks from D1, and the last days from Analytics Engine where it can be asked.
async fn stats(context: &RequestContext<'_>, code: &Code) -> Result<HttpResponse, ApiError> {
    let row = existing(context, code).await?;
    let mut last: Vec<Option<Vec<ValueCount>>> = Vec::new();
    for (name, query) in analytics::stats_queries(code, context.now) {
        let Some(api) = &context.settings.analytics else { break };
        match platform::analytics(&api.url, &api.token, &query).await {
            Ok(text) => last.push(analytics::parse_rows(&text, "value", "clicks")),
            Err(error) => {
                platform::log_error(&format!("{name} of {code} cannot be counted: {error}"));
                break;
            }
        }
    }
    let whole = last.len() == 3 && last.iter().all(Option::is_some);
    let mut lists = last.into_iter().map(Option::unwrap_or_default);
    let mut next = || lists.next().unwrap_or_default();
    let (series, referrers, countries) = (next(), next(), next());
    let total: i64 = series.iter().map(|day| day.clicks).sum();
    let series: Vec<Value> =
        series.iter().map(|day| json!({ "start": day_start(&day.value), "clicks": day.clicks })).collect();
    let day = Timestamp::from_ms(context.now.ms().div_euclid(DAY_MS) * DAY_MS);
    Ok(json_response(
        200,
        &json!({
            "code": row.slug, "clicks": row.visit_count, "complete": whole,
            "from": day.plus_ms(-(analytics::STATS_DAYS - 1) * DAY_MS), "to": context.now.whole_seconds(),
            "interval": "day", "tz": "UTC",
            "total": { "clicks": total }, "series": series, "referrers": referrers, "countries": countries,
        }),
    ))
}

/// `2026-01-12 00:00:00`, as the analytics API writes it, as RFC 3339.
fn day_start(text: &str) -> Value {
    Timestamp::parse(&text.replace(' ', "T")).map_or(Value::String(text.to_owned()), |at| json!(at))
}

fn link_response(context: &RequestContext<'_>, status: u16, row: &Row) -> HttpResponse {
    json_response(status, &LinkResponse::from_row(row, context.settings, context.request, context.now))
}

fn json_response(status: u16, body: &impl Serialize) -> HttpResponse {
    HttpResponse {
        status,
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("cache-control", "no-store".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ],
        body: serde_json::to_string(body).expect("what we show is JSON"),
    }
}

fn error_response(context: &RequestContext<'_>, error: ApiError) -> HttpResponse {
    let with_message = |code, message: &str, details: &Value| {
        routing::error_with_message(context.request, code, message, details, context.now)
    };
    match error {
        ApiError::Code(code) => {
            let mut refused = context.error(code);
            if code == ErrorCode::MethodNotAllowed {
                // The list of core's is that of redirects.
                refused.headers.retain(|(name, _)| *name != "allow");
                refused
                    .headers
                    .push(("allow", api_request::allowed_methods(&context.request.path).to_owned()));
            }
            refused
        }
        ApiError::Message(code, message) => with_message(code, &message, &Value::Null),
        ApiError::CodeTaken { deleted } => {
            let message = if deleted {
                "This code was a deleted link's and is not given out again"
            } else {
                ErrorCode::CodeTaken.message()
            };
            with_message(ErrorCode::CodeTaken, message, &json!({ "deleted": deleted }))
        }
        ApiError::InvalidFields(errors) => {
            let code = ErrorCode::ValidationFailed;
            with_message(code, code.message(), &json!({ "fields": errors }))
        }
    }
}
