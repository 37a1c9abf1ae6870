//! Statistics and clicks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{AppendHeaders, IntoResponse, Response};
use futures_util::stream::{self, Stream};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, LINK};
use rlinks_clicks::Click;
use rlinks_clicks::events::Codes;
use rlinks_clicks::export::jsonl;
use rlinks_clicks::misses::MissedCode;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{Bots, Interval, RecentCursor, Statistics, StatsError, StatsQuery, Zone};
use rlinks_clicks::time::day_of;
use rlinks_core::{Code, FieldCode, FieldError, Policy, Scope, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use super::live::LiveEvent;
use crate::api::extract::{Params, PathName};
use crate::auth::authorize::{AnalyticsRead, Authorized};
use rlinks_ops::Caller;
use rlinks_ops::csv::{Cell, write_row};
use rlinks_ops::statistics::{TopLink, visible_owner, workspace_subject};
use rlinks_ops::sweep::click_retention;
use rlinks_wire::Page;

const X_NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");
/// How often a listener's key is looked at again.
const REVALIDATE_INTERVAL_MS: u64 = 1000;
/// How often a listener without news is spoken to. One that is gone is noticed by it, and its place is free: who has closed one half
/// of a connection may still want to hear from the other.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// When whoever found no place to listen may ask again.
const STREAM_RETRY_SECONDS: u32 = 10;

/// The routes of statistics.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(link_stats))
        .routes(routes!(workspace_stats))
        .routes(routes!(clicks))
        .routes(routes!(live))
}

/// What to count.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `question` reads")]
struct StatsParams {
    /// From this moment on: RFC 3339 or `YYYY-MM-DD`; else 30 days.
    from: Option<String>,
    /// Until before this moment; else the end of today.
    to: Option<String>,
    /// Else `day`. A week begins on Monday.
    #[param(inline)]
    interval: Option<IntervalName>,
    /// A zone like `Europe/Berlin`; else UTC.
    tz: Option<String>,
    /// Else people's clicks alone.
    #[param(inline)]
    bots: Option<BotsName>,
}

/// How long a step of a series is.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum IntervalName {
    Hour,
    Day,
    Week,
    Month,
}

/// Whether bots count.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum BotsName {
    Exclude,
    Include,
}

/// What clicks add up to.
#[derive(ToSchema)]
#[schema(as = Statistics)]
#[expect(dead_code, reason = "describes `rlinks_clicks::stats::Statistics`")]
pub struct StatisticsView {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    interval: String,
    tz: String,
    /// Before this moment whole UTC days are counted where they begin.
    #[schema(format = DateTime)]
    tz_exact_from: Option<String>,
    /// The days of this zone begin inside of an hour, and are put together from whole hours.
    tz_rounded: Option<bool>,
    bots: String,
    total: TotalsView,
    series: Vec<PointView>,
    /// Breakdowns are of whole UTC days: from this moment on, where it is not `from`.
    #[schema(format = DateTime)]
    breakdown_from: Option<String>,
    #[schema(format = DateTime)]
    breakdown_to: Option<String>,
    referrers: Vec<ValueView>,
    countries: Vec<CountryView>,
    cities: Vec<ValueView>,
    devices: Vec<ValueView>,
    browsers: Vec<ValueView>,
    systems: Vec<ValueView>,
    campaigns: Vec<ValueView>,
}

/// Clicks, visitors and bots.
#[derive(ToSchema)]
#[schema(as = Totals)]
#[expect(dead_code, reason = "describes")]
pub struct TotalsView {
    clicks: u64,
    /// A person counts once in a UTC day.
    visitors: u64,
    bots: u64,
}

/// The same of one hour, day, week or month.
#[derive(ToSchema)]
#[schema(as = Point)]
#[expect(dead_code, reason = "describes")]
pub struct PointView {
    #[schema(format = DateTime)]
    start: String,
    clicks: u64,
    visitors: u64,
    bots: u64,
}

/// Clicks with one value.
#[derive(ToSchema)]
#[schema(as = Value)]
#[expect(dead_code, reason = "describes")]
pub struct ValueView {
    value: String,
    clicks: u64,
}

/// Clicks from one country.
#[derive(ToSchema)]
#[schema(as = Country)]
#[expect(dead_code, reason = "describes")]
pub struct CountryView {
    value: String,
    #[schema(required)]
    name: Option<String>,
    clicks: u64,
}

/// The statistics of a workspace.
#[derive(Serialize, ToSchema)]
pub struct WorkspaceStatistics {
    #[serde(flatten)]
    #[schema(value_type = StatisticsView)]
    pub(crate) statistics: Statistics,
    /// The links clicked most, at most 20.
    pub(crate) top_links: Vec<TopLink>,
    /// The codes asked for in vain most often, at most 20.
    #[schema(value_type = Vec<MissView>)]
    pub(crate) misses: Vec<MissedCode>,
}

/// A code nobody has, or that answers no more.
#[derive(ToSchema)]
#[schema(as = Miss)]
#[expect(dead_code, reason = "describes `Missed`")]
pub struct MissView {
    code: String,
    misses: u64,
}

fn stats_query(
    mut params: Params,
    subject: RollupSubject,
    policy: &Policy,
    now: Timestamp,
) -> Result<StatsQuery, ApiError> {
    let bad = |name: &str, message: &str| FieldError::new(name, FieldCode::BadCharacters, message);
    let interval = params.parsed("interval", |text| {
        Interval::parse(text).ok_or_else(|| bad("interval", "is none of hour, day, week, month"))
    });
    let tz = params.parsed("tz", |text| {
        Zone::parse(text).ok_or_else(|| bad("tz", "is no time zone; write it like Europe/Berlin"))
    });
    let tz = tz.unwrap_or_default();
    let bots = params.parsed("bots", |text| {
        Bots::parse(text).ok_or_else(|| bad("bots", "is neither exclude nor include"))
    });
    let mut moment = |name: &str| {
        params.parsed(name, |text| match text.parse::<i64>() {
            Ok(_) => crate::api::extract::time(name, text),
            Err(_) => {
                tz.moment(text).map_err(|error| FieldError::new(name, FieldCode::NotATime, error.to_string()))
            }
        })
    };
    let (from, to) = (moment("from"), moment("to"));
    params.finish()?;
    Ok(StatsQuery {
        from,
        to,
        interval: interval.unwrap_or_default(),
        tz,
        bots: bots.unwrap_or_default(),
        days_kept_from: click_retention(policy).daily_days.map(|days| day_of(now) - i64::from(days)),
        ..StatsQuery::for_subject(subject)
    })
}

/// The statistics of a link, of a deleted one too.
#[utoipa::path(get, path = "/api/v1/links/{code}/stats", operation_id = "of_link", tag = "statistics", params(("code" = String, Path), StatsParams),
    extensions(("x-scope" = json!("analytics:read"))), responses((status = 200, body = StatisticsView)))]
async fn link_stats(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnalyticsRead>,
    PathName(code): PathName,
    params: Params,
) -> Result<Json<Statistics>, ApiError> {
    let link = api.ops.any_link(&caller, &code).await?;
    let now = api.ops.clock.now();
    let subject = RollupSubject::link(caller.workspace.id, link.id);
    let query = stats_query(params, subject, &caller.workspace.policy, now)?;
    Ok(Json(api.clicks().await?.statistics(&query, now).await?))
}

/// The statistics of the workspace; where links are their owner's alone, of one's own.
#[utoipa::path(get, path = "/api/v1/stats", operation_id = "of_workspace", tag = "statistics", params(StatsParams),
    extensions(("x-scope" = json!("analytics:read"))), responses((status = 200, body = WorkspaceStatistics)))]
async fn workspace_stats(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnalyticsRead>,
    params: Params,
) -> Result<Json<WorkspaceStatistics>, ApiError> {
    let query =
        stats_query(params, workspace_subject(&caller), &caller.workspace.policy, api.ops.clock.now())?;
    Ok(Json(collect_workspace_stats(&api, &caller, &query).await?))
}

/// The statistics of the workspace as a caller sees it.
async fn collect_workspace_stats(
    api: &Api,
    caller: &Caller,
    query: &StatsQuery,
) -> Result<WorkspaceStatistics, StatsError> {
    let statistics = api.clicks().await?.statistics(query, api.ops.clock.now()).await?;
    let (top_links, misses) = api.ops.top_links_and_misses(caller, api.clicks().await?, &statistics).await?;
    Ok(WorkspaceStatistics { statistics, top_links, misses })
}

/// One recorded redirect.
#[derive(ToSchema)]
#[schema(as = Click)]
#[expect(dead_code, reason = "describes a line of the full form")]
pub struct ClickView {
    #[schema(example = "hit:parity:20260129:0197...")]
    key: String,
    #[schema(format = DateTime)]
    ts: String,
    code: String,
    #[schema(required)]
    country: Option<String>,
    #[schema(required)]
    ua_hash: Option<String>,
    #[schema(required)]
    referrer: Option<String>,
    #[schema(required)]
    ip_prefix: Option<String>,
    id: String,
    link_id: String,
    workspace_id: String,
    #[schema(required)]
    user_agent: Option<String>,
    #[schema(required)]
    city: Option<String>,
    #[schema(required)]
    latitude: Option<f64>,
    #[schema(required)]
    longitude: Option<f64>,
    device: String,
    #[schema(required)]
    browser: Option<String>,
    #[schema(required)]
    browser_version: Option<String>,
    #[schema(required)]
    system: Option<String>,
    #[schema(required)]
    system_version: Option<String>,
    #[schema(required)]
    utm_source: Option<String>,
    #[schema(required)]
    utm_medium: Option<String>,
    #[schema(required)]
    utm_campaign: Option<String>,
    #[schema(required)]
    visitor: Option<String>,
    bot: bool,
}

fn click(click: &Click) -> Value {
    serde_json::to_value(jsonl::full(click)).expect("a click is JSON")
}

/// The latest clicks of a link, newest first; as CSV by `Accept: text/csv`, whose next page is named by `Link` (`rel="next"`) and its
/// cursor by `X-Next-Cursor`.
#[utoipa::path(get, path = "/api/v1/links/{code}/clicks", tag = "statistics",
    params(("code" = String, Path), ("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("analytics:read"))),
    responses((status = 200, content((Page<ClickView> = "application/json"), (String = "text/csv")))))]
async fn clicks(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnalyticsRead>,
    PathName(code): PathName,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, ApiError> {
    let limit = params.number("limit", 1..=100).unwrap_or(100);
    let cursor = params.text("cursor");
    params.finish()?;
    let link = api.ops.any_link(&caller, &code).await?;
    let context = format!("clicks {} {}", caller.workspace.id, link.id);
    let after = cursor.map(|text| api.open_cursor::<RecentCursor>(&context, &text)).transpose()?;
    let mut codes = Codes::new(api.ops.store.clone());
    let limit = usize::try_from(limit).unwrap_or(100);
    let (found, next) =
        api.clicks().await?.recent(caller.workspace.id, Some(link.id), after, limit, &mut codes).await?;
    let next_cursor = next.map(|next| api.cursors().seal(&context, &next));
    let rows: Vec<Value> = found.iter().map(click).collect();
    if wants_csv(&headers) {
        return Ok(csv_page(&link.code, &rows, limit, next_cursor.as_deref()));
    }
    Ok(Json(Page { data: rows, next_cursor }).into_response())
}

fn wants_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == "text/csv")
}

/// A page of CSV. Where the next one is stands in the head: CSV has no place for it.
fn csv_page(code: &Code, rows: &[Value], limit: usize, next_cursor: Option<&str>) -> Response {
    let kind = [
        (CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, "attachment; filename=\"clicks.csv\"".to_owned()),
    ];
    let next = next_cursor.map(|cursor| {
        let link: String = byte_serialize(code.as_str().as_bytes()).collect();
        let query: String = byte_serialize(cursor.as_bytes()).collect();
        let next = format!("</api/v1/links/{link}/clicks?limit={limit}&cursor={query}>; rel=\"next\"");
        AppendHeaders([(LINK, next), (X_NEXT_CURSOR, cursor.to_owned())])
    });
    (kind, next, csv(rows)).into_response()
}

/// The columns of a click in CSV.
const CSV_COLUMNS: [&str; 24] = [
    "key",
    "ts",
    "code",
    "country",
    "ua_hash",
    "referrer",
    "ip_prefix",
    "id",
    "link_id",
    "workspace_id",
    "user_agent",
    "city",
    "latitude",
    "longitude",
    "device",
    "browser",
    "browser_version",
    "system",
    "system_version",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "visitor",
    "bot",
];

fn csv(rows: &[Value]) -> String {
    let mut text = String::new();
    write_row(&mut text, CSV_COLUMNS.map(Cell::text));
    for row in rows {
        write_row(&mut text, CSV_COLUMNS.map(|column| cell(&row[column])));
    }
    text
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Null => Cell::Empty,
        Value::Bool(value) => Cell::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cell::Integer(number),
            None => number.as_f64().map_or(Cell::Empty, Cell::Float),
        },
        Value::String(text) => Cell::text(text),
        Value::Array(_) | Value::Object(_) => Cell::text(value.to_string()),
    }
}

/// Clicks as they happen: server-sent events, `event: click`.
#[utoipa::path(get, path = "/api/v1/stats/live", tag = "statistics",
    extensions(("x-scope" = json!("analytics:read"))),
    responses((status = 200, content((String = "text/event-stream")), description = "Each event's data is a Click")))]
async fn live(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnalyticsRead>,
    params: Params,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    params.finish()?;
    let subscription = api.live.subscribe(caller.workspace.id, caller.principal_id(), api.ops.stream_quota());
    let subscription =
        subscription.map_err(|error| ApiError::rate_limited(STREAM_RETRY_SECONDS, &error.to_string()))?;
    api.mark_listening().await;
    let live_stream = LiveStream {
        api: Arc::clone(&api),
        caller: Caller::clone(&caller),
        revalidate_at_ms: 0,
        subscription,
    };
    let events = stream::unfold(live_stream, |mut live_stream| async {
        let event = live_stream.next().await?;
        Some((Ok(event), live_stream))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)))
}

struct LiveStream {
    api: Arc<Api>,
    /// Who listens, as of the last look.
    caller: Caller,
    /// When their credential is looked at again.
    revalidate_at_ms: u64,
    subscription: super::live::Subscription<Click>,
}

impl LiveStream {
    /// The next event, until there are no more or the listener's credential is good no longer.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.api.ops.clock.monotonic_ms() >= self.revalidate_at_ms {
                self.caller = self.api.auth.revalidate(&self.caller, Scope::AnalyticsRead).await?;
                self.revalidate_at_ms = self.api.ops.clock.monotonic_ms() + REVALIDATE_INTERVAL_MS;
            }
            let waiting = Duration::from_millis(REVALIDATE_INTERVAL_MS);
            let Ok(event) = tokio::time::timeout(waiting, self.subscription.next()).await else { continue };
            match event? {
                LiveEvent::Published(click) if self.is_visible(&click).await => {
                    return Some(
                        Event::default()
                            .event("click")
                            .data(crate::api::statistics::click(&click).to_string()),
                    );
                }
                LiveEvent::Published(_) => {}
                LiveEvent::Lost(lost) => {
                    return Some(Event::default().event("lost").data(json!({ "clicks": lost }).to_string()));
                }
            }
        }
    }

    async fn is_visible(&self, click: &Click) -> bool {
        let Some(own) = visible_owner(&self.caller) else { return true };
        let names = self.api.ops.store.link_names(&[click.link]).await.unwrap_or_default();
        names.first().is_some_and(|name| name.owner == Some(own))
    }
}
