//! Links.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG};
use http::{HeaderMap, StatusCode};
use rlinks_core::audit::AuditEntry;
use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Code, FieldCode, FieldError, Link, LinkState};
use rlinks_store::Order;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::audit::EntryView;
use super::error::ApiError;
use super::{Api, qr};
use crate::api::extract::{JsonObject, NoParams, Params, PathName, if_match};
use crate::auth::authorize::{Authorized, LinksDelete, LinksRead, LinksWrite};
use rlinks_ops::Caller;
use rlinks_ops::links::list::{LinkWithClicks, ListPosition, ListQuery, Sort};
use rlinks_ops::{Explanation, LinkVisibility, WriteMode};
use rlinks_wire::Page;

pub use crate::api::link_shapes::TimeInput;
use crate::api::link_shapes::{LinkChange, LinkView, OrderName, SortName, StateName, etag, view};

const MAX_HISTORY_ENTRIES: i64 = 100;

/// The routes of links.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list, crate::api::create_links::create))
        .routes(routes!(crate::api::create_links::bulk))
        .routes(routes!(get, patch, delete))
        .routes(routes!(restore))
        .routes(routes!(history))
        .routes(routes!(qr_code))
        .routes(routes!(check))
        .routes(routes!(explain))
}

async fn link_response(api: &Api, caller: &Caller, link: &Link) -> Result<Response, ApiError> {
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
    caller: Authorized<LinksRead>,
    mut params: Params,
) -> Result<Json<LinkPage>, ApiError> {
    // A cursor is of one list: the same workspace, owner, filter and order.
    let context = params.identity(&format!("links {} {}", caller.workspace.id, caller.owner), "cursor");
    let cursor = params.text("cursor");
    let query = list_query(&caller, params)?;
    let after = cursor.map(|text| api.open_cursor::<ListPosition>(&context, &text)).transpose()?;
    let (query, now) = (ListQuery { after, ..query }, api.ops.clock.now());
    let page =
        rlinks_ops::links::list::list(&api.ops.store, api.clicks().await?, &caller.workspace, &query, now)
            .await?;
    let directory = api.directory();
    let shown = |listed: &LinkWithClicks| {
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
    let expired = params.boolean("expired");
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
    let order = params.one_of("order", &[("asc", Order::Asc), ("desc", Order::Desc)]);
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
        created_by: (caller.visibility == LinkVisibility::Own).then(|| caller.owner.clone()),
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
    caller: Authorized<LinksRead>,
    PathName(code): PathName,
    mut params: Params,
) -> Result<Response, ApiError> {
    let at = params.time("at");
    params.finish()?;
    let link = match at {
        None => api.ops.link(&caller, &code).await?,
        Some(at) => api.ops.link_at(&caller, &code, at).await?,
    };
    link_response(&api, &caller, &link).await
}

/// Every change of a link, newest first; of a deleted one too.
#[utoipa::path(get, path = "/api/v1/links/{code}/history", tag = "links",
    params(("code" = String, Path), ("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = Page<EntryView>)))]
async fn history(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksRead>,
    PathName(code): PathName,
    mut params: Params,
) -> Result<Json<Page<AuditEntry>>, ApiError> {
    let limit = params.number("limit", 1..=MAX_HISTORY_ENTRIES).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let link = api.ops.any_link(&caller, &code).await?;
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
    caller: Authorized<LinksRead>,
    PathName(code): PathName,
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
#[schema(as = Explanation)]
#[expect(dead_code, reason = "describes `Explanation`")]
pub struct ExplanationView {
    address: String,
    #[schema(value_type = Vec<ExplainStepView>)]
    steps: Vec<ExplainStepView>,
    status: u16,
    #[schema(required)]
    location: Option<String>,
    #[schema(required)]
    error: Option<String>,
}

/// One step of it.
#[derive(ToSchema)]
#[schema(as = ExplainStep)]
#[expect(dead_code, reason = "describes")]
pub struct ExplainStepView {
    step: String,
    result: String,
}

/// Explains what a visitor would get, step by step, without counting.
#[utoipa::path(get, path = "/api/v1/explain", tag = "links",
    params(("url" = String, Query, description = "A short URL, a path or a code"), ("at" = Option<String>, Query)),
    extensions(("x-scope" = json!("links:read"))), responses((status = 200, body = ExplanationView)))]
async fn explain(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksRead>,
    mut params: Params,
) -> Result<Json<Explanation>, ApiError> {
    let url = params.text("url").filter(|text| !text.is_empty());
    let at = params.time("at");
    if url.is_none() {
        params.push_error(FieldError::new("url", FieldCode::Required, "is missing"));
    }
    params.finish()?;
    let url = url.unwrap_or_default();
    Ok(Json(api.ops.explain(&caller, &url, at).await?))
}

/// How a QR code is drawn.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum QrFormat {
    Svg,
    Png,
}

/// The short URL of a link as a QR code: SVG, or PNG by `Accept` or `format`.
#[utoipa::path(get, path = "/api/v1/links/{code}/qr", tag = "links",
    params(("code" = String, Path), ("format" = inline(Option<QrFormat>), Query),
        ("size" = Option<i64>, Query, minimum = 64, maximum = 2048), ("margin" = Option<i64>, Query, minimum = 0, maximum = 16)),
    extensions(("x-scope" = json!("links:read"))),
    responses((status = 200, content((String = "image/svg+xml"), (Vec<u8> = "image/png")))))]
async fn qr_code(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksRead>,
    PathName(code): PathName,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, ApiError> {
    let format = params.one_of("format", &[("svg", false), ("png", true)]);
    let size = params.number("size", 64..=2048).and_then(|size| u32::try_from(size).ok());
    let margin = params.number("margin", 0..=16).and_then(|margin| u32::try_from(margin).ok());
    params.finish()?;
    let link = api.ops.link(&caller, &code).await?;
    let url = api.ops.short_urls.short_url(&api.directory(), &caller.workspace, &link.code);
    let url = url.ok_or_else(|| {
        ApiError::with_message(
            ErrorCode::Conflict,
            "No domain reaches this workspace, so this link has no short URL",
        )
    })?;
    let (size, margin) =
        (size.unwrap_or(qr::DEFAULT_SIZE_PIXELS), margin.unwrap_or(qr::DEFAULT_MARGIN_SQUARES));
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

/// Changes what is named and nothing else.
#[utoipa::path(patch, path = "/api/v1/links/{code}", tag = "links", request_body = LinkChange,
    params(("code" = String, Path), ("If-Match" = Option<String>, Header, description = "The ETag it was read with")),
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = LinkView, headers(("ETag" = String)))))]
async fn patch(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksWrite>,
    PathName(code): PathName,
    headers: HeaderMap,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let mut input = Input::from_json(&body)?;
    if input.recreate.take().is_some() {
        return Err(FieldError::new("recreate", FieldCode::UnknownField, "is for new links").into());
    }
    let versions = if_match(&headers)?;
    let done = api.ops.patch(&caller, &code, &input, versions.as_deref()).await?;
    link_response(&api, &caller, &done.link).await
}

/// Deletes a link. Its code stays taken.
#[utoipa::path(delete, path = "/api/v1/links/{code}", tag = "links",
    params(("code" = String, Path), ("If-Match" = Option<String>, Header)),
    extensions(("x-scope" = json!("links:delete"))), responses((status = 204)))]
async fn delete(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksDelete>,
    PathName(code): PathName,
    _: NoParams,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let versions = if_match(&headers)?;
    let mode = WriteMode::Apply;
    api.ops.change_state(&caller, &code, LinkState::Deleted, versions.as_deref(), mode).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Brings a deleted link back as it was.
#[utoipa::path(post, path = "/api/v1/links/{code}/restore", tag = "links", params(("code" = String, Path)),
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = LinkView, headers(("ETag" = String)))))]
async fn restore(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksWrite>,
    PathName(code): PathName,
    _: NoParams,
) -> Result<Response, ApiError> {
    let done = api.ops.restore(&caller, &code, WriteMode::Apply).await?;
    link_response(&api, &caller, &done.link).await
}
