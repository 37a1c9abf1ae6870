//! Links.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use rlinks_core::audit::AuditEntry;
use rlinks_core::draft::Input;
use rlinks_core::envelope::ErrorCode;
use rlinks_core::{Code, FieldCode, FieldError, FieldErrors, Link, LinkState, Target, Workspace};
use rlinks_store::Order;
use rlinks_store::write::Once;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::audit::EntryView;
use super::caller::{Allowed, Caller, LinksDelete, LinksRead, LinksWrite};
use super::error::ApiError;
use super::limits::{Standing, Subject};
use super::request::{BulkObject, NoParams, Object, Params, Segment, if_match};
use super::{Api, Page, qr};
use crate::clock::monotonic_ms;
use crate::ops::list::{ListQuery, Listed, Position, Sort};
use crate::ops::{Deleted, Done, Explanation, Mode, OpsError, Outcome, Sees};

mod shapes;

pub use self::shapes::TimeInput;
use self::shapes::{Created, LinkChange, LinkView, NewLink, OrderName, SortName, StateName};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const LONGEST_KEY: usize = 255;
const MOST_AT_ONCE: usize = 1000;
const MOST_ENTRIES: i64 = 100;

/// The routes of links.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(bulk))
        .routes(routes!(get, patch, delete))
        .routes(routes!(restore))
        .routes(routes!(history))
        .routes(routes!(qr_code))
        .routes(routes!(check))
        .routes(routes!(explain))
}

/// A link with its clicks. Clicks that cannot be read are an error: zero would be a lie.
async fn view(api: &Api, workspace: &Workspace, link: &Link) -> Result<LinkView, ApiError> {
    let directory = api.directory();
    let subject = rlinks_clicks::roll::Subject::link(workspace.id, link.id);
    let totals = api.clicks().await?.totals(&[subject]).await?;
    Ok(LinkView::new(api, workspace, &directory, link, totals.get(&subject)))
}

fn etag(link: &Link) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", link.version)).expect("a number is a header value")
}

async fn answer(api: &Api, caller: &Caller, link: &Link) -> Result<Response, ApiError> {
    let body = Json(view(api, &caller.workspace, link).await?);
    Ok(([(ETAG, etag(link))], body).into_response())
}

// ---- looking ----

/// How to list links.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `list_query` reads")]
struct ListParams {
    /// Codes that begin so.
    prefix: Option<String>,
    /// Words of title, notes, target, code and tags, each of which some word begins with.
    search: Option<String>,
    /// With this tag.
    tag: Option<String>,
    /// Without it: active and disabled.
    #[param(inline)]
    state: Option<StateName>,
    /// Past their expiry, or not.
    expired: Option<bool>,
    /// Made at this moment or after it.
    created_after: Option<String>,
    /// Made before this moment.
    created_before: Option<String>,
    /// Else `created_at`.
    #[param(inline)]
    sort: Option<SortName>,
    /// Else `asc` for codes, `desc` for the rest.
    #[param(inline)]
    order: Option<OrderName>,
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A page of links.
#[derive(Serialize, ToSchema)]
pub struct LinkPage {
    data: Vec<LinkView>,
    /// For the page after this one.
    #[schema(required)]
    next_cursor: Option<String>,
    /// How many there are in all; with a filter, 10,000 at most.
    total: i64,
}

/// Lists links.
#[utoipa::path(get, path = "/api/v1/links", tag = "links", params(ListParams),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = LinkPage)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    mut params: Params,
) -> Result<Json<LinkPage>, ApiError> {
    // A cursor is of one list: the same workspace, owner, filter and order.
    let context = params.identity(&format!("links {} {}", caller.workspace.id, caller.by.owner), "cursor");
    let cursor = params.text("cursor");
    let query = list_query(&caller, params)?;
    let after = cursor.map(|text| api.open_cursor::<Position>(&context, &text)).transpose()?;
    let (query, now) = (ListQuery { after, ..query }, api.ops.clock.now());
    let page =
        crate::ops::list::list(&api.ops.store, api.clicks().await?, &caller.workspace, &query, now).await?;
    let directory = api.directory();
    let shown = |listed: &Listed| {
        LinkView::new(&api, &caller.workspace, &directory, &listed.link, listed.total.as_ref())
    };
    Ok(Json(LinkPage {
        data: page.links.iter().map(shown).collect(),
        next_cursor: page.next.map(|position| api.cursors().seal(&context, &position)),
        total: page.total,
    }))
}

fn list_query(caller: &Caller, mut params: Params) -> Result<ListQuery, ApiError> {
    let word = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    let fold = caller.workspace.policy.code.fold_case;
    let prefix = params.text("prefix").and_then(word);
    let search = params.text("search").and_then(word);
    let tag = params.text("tag").and_then(word).map(|text| text.trim().to_owned());
    let state = params.parsed("state", |text| {
        text.parse::<LinkState>().map_err(|()| {
            FieldError::new("state", FieldCode::BadCharacters, "is none of active, disabled, deleted")
        })
    });
    let expired = params.switch("expired");
    let (created_after, created_before) = (params.time("created_after"), params.time("created_before"));
    let sort = params.parsed("sort", |text| {
        Sort::parse(text).ok_or_else(|| {
            FieldError::new(
                "sort",
                FieldCode::BadCharacters,
                "is none of created_at, updated_at, clicks, code",
            )
        })
    });
    let order = params.word("order", &[("asc", Order::Asc), ("desc", Order::Desc)]);
    let limit = params.number("limit", 1..=100).and_then(|limit| u16::try_from(limit).ok());
    params.finish()?;
    let sort = sort.unwrap_or_default();
    let natural = if sort == Sort::Code { Order::Asc } else { Order::Desc };
    Ok(ListQuery {
        prefix: prefix.map(|text| if fold { text.to_ascii_lowercase() } else { text }),
        search,
        tag,
        state,
        expired,
        created_after,
        created_before,
        created_by: (caller.by.sees == Sees::Own).then(|| caller.by.owner.clone()),
        sort,
        order: order.unwrap_or(natural),
        limit,
        after: None,
    })
}

/// Shows a link, now or as it was.
#[utoipa::path(get, path = "/api/v1/links/{code}", tag = "links",
    params(("code" = String, Path), ("at" = Option<String>, Query, description = "As it was at this moment")),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = LinkView, headers(("ETag" = String)))))]
async fn get(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    Segment(code): Segment,
    mut params: Params,
) -> Result<Response, ApiError> {
    let at = params.time("at");
    params.finish()?;
    let link = match at {
        None => api.ops.link(&caller.by, &caller.workspace, &code).await?,
        Some(at) => api.ops.link_at(&caller.by, &caller.workspace, &code, at).await?,
    };
    answer(&api, &caller, &link).await
}

/// Every change of a link, newest first; of a deleted one too.
#[utoipa::path(get, path = "/api/v1/links/{code}/history", tag = "links",
    params(("code" = String, Path), ("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = Page<EntryView>)))]
async fn history(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    Segment(code): Segment,
    mut params: Params,
) -> Result<Json<Page<AuditEntry>>, ApiError> {
    let limit = params.number("limit", 1..=MOST_ENTRIES).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let link = api.ops.any_link(&caller.by, &caller.workspace, &code).await?;
    let context = format!("history {} {}", caller.workspace.id, link.code);
    let before = cursor.map(|text| api.open_cursor::<i64>(&context, &text)).transpose()?.unwrap_or(i64::MAX);
    let entries = api.ops.store.history_before(caller.workspace.id, &link.code, before, limit + 1).await?;
    Ok(Json(api.page(&context, entries, limit, |entry| entry.seq)))
}

/// Whether a code can be had.
#[derive(Serialize, ToSchema)]
pub struct Availability {
    available: bool,
    /// Why not.
    #[schema(required)]
    reason: Option<String>,
}

/// Says whether a code can be had.
#[utoipa::path(get, path = "/api/v1/check/{code}", tag = "links", params(("code" = String, Path)),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = Availability)))]
async fn check(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    Segment(code): Segment,
    params: Params,
) -> Result<Json<Availability>, ApiError> {
    params.finish()?;
    let reason = match Code::parse(&code, &caller.workspace.policy.code) {
        Err(error) => Some(error.message),
        Ok(parsed) => match api.ops.code_taken(&caller.workspace, &parsed).await? {
            None => None,
            Some(LinkState::Deleted) => Some("belongs to a deleted link".to_owned()),
            Some(_) => Some("is taken".to_owned()),
        },
    };
    Ok(Json(Availability { available: reason.is_none(), reason }))
}

/// What a request would get, and why.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes `Explanation`")]
pub struct ExplanationView {
    address: String,
    #[schema(value_type = Vec<StepView>)]
    steps: Vec<StepView>,
    status: u16,
    #[schema(required)]
    location: Option<String>,
    #[schema(required)]
    error: Option<String>,
}

/// One step of it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes")]
pub struct StepView {
    step: String,
    result: String,
}

/// Explains what a visitor would get, step by step, without counting.
#[utoipa::path(get, path = "/api/v1/explain", tag = "links",
    params(("url" = String, Query, description = "A short URL, a path or a code"), ("at" = Option<String>, Query)),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = ExplanationView)))]
async fn explain(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    mut params: Params,
) -> Result<Json<Explanation>, ApiError> {
    let url = params.text("url").filter(|text| !text.is_empty());
    let at = params.time("at");
    if url.is_none() {
        params.refuse(FieldError::new("url", FieldCode::Required, "is missing"));
    }
    params.finish()?;
    let url = url.unwrap_or_default();
    Ok(Json(api.ops.explain_for(&caller.by, &caller.workspace, &url, at).await?))
}

/// How a QR code is drawn.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum Drawing {
    Svg,
    Png,
}

/// The short URL of a link as a QR code: SVG, or PNG by `Accept` or `format`.
#[utoipa::path(get, path = "/api/v1/links/{code}/qr", tag = "links",
    params(("code" = String, Path), ("format" = inline(Option<Drawing>), Query),
        ("size" = Option<i64>, Query, minimum = 64, maximum = 2048), ("margin" = Option<i64>, Query, minimum = 0, maximum = 16)),
    extensions(("x-scope" = json!("links:read"))),
    responses((status = 200, content((String = "image/svg+xml"), (Vec<u8> = "image/png")))))]
async fn qr_code(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksRead>,
    Segment(code): Segment,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, ApiError> {
    let format = params.word("format", &[("svg", false), ("png", true)]);
    let size = params.number("size", 64..=2048).and_then(|size| u32::try_from(size).ok());
    let margin = params.number("margin", 0..=16).and_then(|margin| u32::try_from(margin).ok());
    params.finish()?;
    let link = api.ops.link(&caller.by, &caller.workspace, &code).await?;
    let url = api.ops.naming.short_url(&api.directory(), &caller.workspace, &link.code);
    let url = url.ok_or_else(|| {
        ApiError::saying(
            ErrorCode::Conflict,
            "No domain reaches this workspace, so this link has no short URL",
        )
    })?;
    let (size, margin) = (size.unwrap_or(qr::DEFAULT_SIZE), margin.unwrap_or(qr::DEFAULT_MARGIN));
    let drawn = if format.unwrap_or_else(|| prefers_png(&headers)) {
        qr::png(&url, size, margin).map(|png| ([(CONTENT_TYPE, "image/png")], png).into_response())
    } else {
        qr::svg(&url, size, margin).map(|svg| ([(CONTENT_TYPE, "image/svg+xml")], svg).into_response())
    };
    drawn.map_err(|error| FieldError::new("size", FieldCode::TooShort, error.to_string()).into())
}

fn prefers_png(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match (accept.find("image/png"), accept.find("image/svg")) {
        (Some(png), Some(svg)) => png < svg,
        (png, _) => png.is_some(),
    }
}

// ---- changing ----

/// Makes a link, under a chosen or a generated code.
#[utoipa::path(post, path = "/api/v1/links", tag = "links", request_body = NewLink,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeat a request with the same key and it is done once; 24 hours")),
    extensions(("x-scope" = json!("links:write"))),
    responses((status = 201, body = Created, headers(("Location" = String), ("ETag" = String))),
        (status = 200, body = Created, description = "There already: handed back, or revived")))]
async fn create(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksWrite>,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Response, ApiError> {
    let once = once(&caller, &headers, &body)?;
    if let Some(once) = &once
        && let Some(done) = api.ops.answered(&caller.workspace, &without_nulls(&body), once).await?
    {
        return created(&api, &caller, &done).await;
    }
    let (made, standing) = make(&api, &caller, &body, once).await;
    let mut response = match made {
        Ok(done) => created(&api, &caller, &done).await?,
        Err(error) => error.into_response(),
    };
    if let Some(standing) = standing {
        response.extensions_mut().insert(standing);
    }
    Ok(response)
}

/// Creates one link within the limits of its maker.
async fn make(
    api: &Api,
    caller: &Caller,
    body: &Map<String, Value>,
    once: Option<Once>,
) -> (Result<Done, ApiError>, Option<Standing>) {
    let (made, standing) = make_link(api, caller, Input::from_json(&without_nulls(body)), once).await;
    let made = made.map_err(|refused| match refused {
        NotMade::TooMany { seconds } => ApiError::slow_down(seconds, TOO_MANY),
        NotMade::Refused(error) => error.into(),
    });
    (made, standing)
}

/// What somebody is told who has made their links of this hour.
pub const TOO_MANY: &str = "You have made your links of this hour";

/// Why there is no new link.
pub enum NotMade {
    /// Their maker has made enough for now.
    TooMany {
        /// In so many seconds there may be another.
        seconds: u32,
    },
    /// The word of [`ops`](crate::ops).
    Refused(OpsError),
}

/// The same for every face: the limit holds for a person, wherever they come in.
pub async fn make_link(
    api: &Api,
    caller: &Caller,
    input: Result<Input, FieldErrors>,
    once: Option<Once>,
) -> (Result<Done, NotMade>, Option<Standing>) {
    let subject = Subject::Creations(caller.counted_as());
    let limit = caller.workspace.policy.limits.creations_per_hour;
    let taken = limit.map(|limit| api.limits.take(subject, limit, 1, monotonic_ms())).transpose();
    let standing = match taken {
        Ok(standing) => standing,
        Err(left) => return (Err(NotMade::TooMany { seconds: left.reset_seconds }), Some(left)),
    };
    let made = async {
        let input = input?;
        let deleted = Deleted::sent(&input);
        api.ops.create(&caller.by, &caller.workspace, &input, deleted, once, Mode::Write).await
    };
    let made: Result<Done, OpsError> = made.await;
    let counts = made.as_ref().is_ok_and(|done| done.outcome == Outcome::Created && !done.again);
    if let (Some(_), false) = (limit, counts) {
        api.limits.give_back(subject, 1);
    }
    if let Ok(done) = &made {
        api.learn(&done.link);
    }
    (made.map_err(NotMade::Refused), standing.filter(|_| counts))
}

/// For a new link, null says as little as nothing.
fn without_nulls(body: &Map<String, Value>) -> Map<String, Value> {
    const OPTIONAL: [&str; 6] = ["redirect_status", "tags", "https_only", "no_loop", "metadata", "recreate"];
    let mut body = body.clone();
    body.retain(|name, value| !(value.is_null() && OPTIONAL.contains(&name.as_str())));
    body
}

async fn created(api: &Api, caller: &Caller, done: &Done) -> Result<Response, ApiError> {
    let link = &done.link;
    // Nobody has clicked what was just made.
    let shown = if done.outcome == Outcome::Created {
        LinkView::new(api, &caller.workspace, &api.directory(), link, None)
    } else {
        view(api, &caller.workspace, link).await?
    };
    let body = Json(Created {
        // It was not when it was made or handed back, and a repeated answer says what the first one said.
        link: shown.when_made(),
        reused: matches!(done.outcome, Outcome::Reused | Outcome::Revived),
        revived: done.outcome == Outcome::Revived,
        not_applied: done.not_applied.clone(),
    });
    let status = if done.outcome == Outcome::Created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, [(ETAG, etag(link))], body).into_response();
    if status == StatusCode::CREATED {
        let place = format!("/api/v1/links/{}", link.code);
        let place = HeaderValue::from_str(&place).expect("a code is a header value");
        response.headers_mut().insert(LOCATION, place);
    }
    if done.again {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// What makes a repeated request the same request.
fn once(caller: &Caller, headers: &HeaderMap, body: &Map<String, Value>) -> Result<Option<Once>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > LONGEST_KEY {
        let message = "must have 1 to 255 characters of ASCII";
        return Err(FieldError::new("Idempotency-Key", FieldCode::BadCharacters, message).into());
    }
    // Objects are sorted by their keys, so the order in which fields are sent makes no difference.
    let text = serde_json::to_string(body).expect("what was JSON is JSON");
    let request = rlinks_core::audit::hex(&Sha256::digest(text.as_bytes()));
    Ok(Some(Once { by: caller.by.owner.clone(), key: key.to_owned(), request }))
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
    link: Option<Created>,
    /// Code, status, message and details.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// Makes up to 1,000 links; each stands alone.
#[utoipa::path(post, path = "/api/v1/links/bulk", tag = "links", request_body = Bulk,
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = BulkResults)))]
async fn bulk(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksWrite>,
    BulkObject(mut body): BulkObject,
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
    if items.len() > MOST_AT_ONCE {
        return Err(refuse(FieldCode::TooLong, "has more than 1000 links"));
    }
    // Asked about together, their targets are known when each is made.
    let targets: Vec<Target> = items
        .iter()
        .filter_map(|item| item.get("target")?.as_str())
        .filter_map(|text| Target::parse(text, rlinks_core::target::LONGEST).ok())
        .collect();
    api.ops.safety.check_all(&targets.iter().collect::<Vec<_>>()).await;
    let results = make_all(&api, &caller, &items).await;
    let directory = api.directory();
    let mut shown = Vec::with_capacity(results.len());
    for (index, made) in results.into_iter().enumerate() {
        shown.push(match made {
            Ok(done) => {
                let made = done.outcome == Outcome::Created;
                let link = if made {
                    LinkView::new(&api, &caller.workspace, &directory, &done.link, None)
                } else {
                    view(&api, &caller.workspace, &done.link).await?
                };
                let link = Created {
                    link,
                    reused: !made,
                    revived: done.outcome == Outcome::Revived,
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
async fn make_all(api: &Api, caller: &Caller, items: &[Value]) -> Vec<Result<Done, ApiError>> {
    let subject = Subject::Creations(caller.counted_as());
    let limit = caller.workspace.policy.limits.creations_per_hour;
    let read = items.iter().map(item_input).collect::<Vec<_>>();
    let inputs: Vec<Input> = read.iter().filter_map(|input| input.as_ref().ok().cloned()).collect();
    let mut made: Vec<Result<Done, ApiError>> = Vec::with_capacity(inputs.len());
    while made.len() < inputs.len() {
        let left = &inputs[made.len()..];
        let mut room = left.len();
        if let Some(limit) = limit {
            let mut refused = 0;
            let mut take = || match api.limits.take(subject, limit, 1, monotonic_ms()) {
                Ok(_) => true,
                Err(standing) => {
                    refused = standing.reset_seconds;
                    false
                }
            };
            room = left.iter().take_while(|_| take()).count();
            if room == 0 {
                made.extend(left.iter().map(|_| Err(ApiError::slow_down(refused, TOO_MANY))));
                break;
            }
        }
        for done in api.ops.create_in_order(&caller.by, &caller.workspace, &left[..room]).await {
            if limit.is_some() && !done.as_ref().is_ok_and(|done| done.outcome == Outcome::Created) {
                api.limits.give_back(subject, 1);
            }
            if let Ok(done) = &done {
                api.learn(&done.link);
            }
            made.push(done.map_err(ApiError::from));
        }
    }
    let mut made = made.into_iter();
    let lost = || Err(ApiError::new(ErrorCode::Internal));
    read.into_iter().map(|input| input.and_then(|_| made.next().unwrap_or_else(lost))).collect()
}

fn item_input(item: &Value) -> Result<Input, ApiError> {
    let Value::Object(body) = item else {
        return Err(FieldError::new("links", FieldCode::BadCharacters, "must be a list of objects").into());
    };
    Ok(Input::from_json(&without_nulls(body))?)
}

/// Changes what is named and nothing else.
#[utoipa::path(patch, path = "/api/v1/links/{code}", tag = "links", request_body = LinkChange,
    params(("code" = String, Path), ("If-Match" = Option<String>, Header, description = "The ETag it was read with")),
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = LinkView, headers(("ETag" = String)))))]
async fn patch(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksWrite>,
    Segment(code): Segment,
    headers: HeaderMap,
    Object(body): Object,
) -> Result<Response, ApiError> {
    let mut input = Input::from_json(&body)?;
    if input.recreate.take().is_some() {
        return Err(FieldError::new("recreate", FieldCode::UnknownField, "is for new links").into());
    }
    let versions = if_match(&headers)?;
    let done = api.ops.patch(&caller.by, &caller.workspace, &code, &input, versions.as_deref()).await?;
    api.learn(&done.link);
    answer(&api, &caller, &done.link).await
}

/// Deletes a link. Its code stays taken.
#[utoipa::path(delete, path = "/api/v1/links/{code}", tag = "links",
    params(("code" = String, Path), ("If-Match" = Option<String>, Header)),
    extensions(("x-scope" = json!("links:delete"))), responses((status = 204)))]
async fn delete(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksDelete>,
    Segment(code): Segment,
    _: NoParams,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let versions = if_match(&headers)?;
    let done = api.ops.delete(&caller.by, &caller.workspace, &code, versions.as_deref()).await?;
    api.learn(&done.link);
    Ok(StatusCode::NO_CONTENT)
}

/// Brings a deleted link back as it was.
#[utoipa::path(post, path = "/api/v1/links/{code}/restore", tag = "links", params(("code" = String, Path)),
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = LinkView, headers(("ETag" = String)))))]
async fn restore(
    State(api): State<Arc<Api>>,
    caller: Allowed<LinksWrite>,
    Segment(code): Segment,
    _: NoParams,
) -> Result<Response, ApiError> {
    let done = api.ops.restore(&caller.by, &caller.workspace, &code, Mode::Write).await?;
    api.learn(&done.link);
    answer(&api, &caller, &done.link).await
}
