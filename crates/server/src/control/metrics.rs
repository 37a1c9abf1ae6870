//! `/metrics`: what a server has done and how it stands, as Prometheus reads it.
//!
//! Serving threads count by themselves and write to no memory that another writes to; the totals are computed per scrape. Nothing
//! is counted by link, host, workspace or path: labels are few and fixed, so requests can't make the response grow.

use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, FORWARDED, VIA};
use http::{HeaderMap, StatusCode};
use rlinks_core::Scope;

use crate::api::error::ApiError;
use crate::auth::Auth;
use crate::auth::oidc::Oidc;
use crate::control::health::{method_not_allowed, not_found};
use crate::redirect::context::{ListenerRole, RedirectContext};
use crate::redirect::counters::{RequestKind, STATUS_COUNT};
use crate::redirect::error_response::error_response;
use crate::redirect::refusal_log::Refusal;

/// The text form of version 0.0.4, which every Prometheus reads.
const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// In one second of a processor; Linux tells programs so whatever its own clock does.
const CPU_TICKS_PER_SECOND: f64 = 100.0;
/// Headers of proxies beside those with `x-forwarded-` before their names.
const PROXY_HEADERS: [&str; 4] = ["x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];

/// The one route there is.
pub fn routes(auth: &Arc<Auth>) -> Router<Arc<RedirectContext>> {
    Router::new()
        .route("/metrics", get(metrics).fallback(method_not_allowed))
        .fallback(not_found)
        .layer(Extension(Arc::clone(auth)))
}

/// Open on a listener of its own; elsewhere for keys that administer a workspace, and where the operator says so for this very machine.
async fn metrics(
    State(context): State<Arc<RedirectContext>>,
    Extension(auth): Extension<Arc<Auth>>,
    Extension(role): Extension<ListenerRole>,
    ConnectInfo(peer): ConnectInfo<std::net::SocketAddr>,
    request: Request,
) -> Response {
    let trusts_loopback = context.reloadable.load().metrics_loopback;
    let is_operator =
        trusts_loopback && peer.ip().to_canonical().is_loopback() && !is_forwarded(request.headers());
    if role != ListenerRole::AdminOnly
        && !is_operator
        && let Err(error) = auth.credential_allows(request.headers(), Scope::WorkspaceAdmin).await
    {
        let code = ApiError::from(error).code();
        return error_response(&request, code, context.clock.now()).map(Body::new);
    }
    let key_fetches = auth.oidc.as_ref().map(Oidc::key_fetches);
    let headers = [(CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE), (CACHE_CONTROL, "no-store")];
    (StatusCode::OK, headers, render(&context, key_fetches)).into_response()
}

/// Whether a proxy forwarded this request.
fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
        || headers.contains_key(VIA)
        || headers
            .keys()
            .any(|name| name.as_str().starts_with("x-forwarded-") || PROXY_HEADERS.contains(&name.as_str()))
}

/// Everything there is to say, in the order it is said.
fn render(context: &RedirectContext, key_fetches: Option<u64>) -> String {
    let mut page = PrometheusText(String::with_capacity(4096));
    let (threads, click_pipeline, table) =
        (context.metrics.threads(), &context.click_pipeline, context.routes.table.load());
    let journal = click_pipeline.journal();

    page.gauge("rlinks_build_info", "The version that runs.");
    page.sample("rlinks_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);

    page.gauge(
        "rlinks_request_body_bytes",
        "Bytes of large request bodies that are held, in memory or in a file.",
    );
    page.sample("rlinks_request_body_bytes", &[], context.body_budget.held_bytes());

    page.counter(
        "rlinks_http_responses_total",
        "Answers, by what was asked for (a link, or a page of ours) and status.",
    );
    for (kind, name) in [(RequestKind::Link, "link"), (RequestKind::Control, "control")] {
        for index in 0..STATUS_COUNT {
            let answers: u64 =
                threads.iter().map(|thread| thread.responses(kind)[index].load(Ordering::Relaxed)).sum();
            if answers > 0 {
                page.sample(
                    "rlinks_http_responses_total",
                    &[("kind", &name), ("status", &(index + 100))],
                    answers,
                );
            }
        }
    }
    page.counter(
        "rlinks_refused_requests_total",
        "Failed sign-ins, lock-outs, rejected credentials and reached limits.",
    );
    for refusal in Refusal::ALL {
        let reason = [("reason", &refusal.name() as &dyn Display)];
        page.sample("rlinks_refused_requests_total", &reason, context.refusals.total(refusal));
    }
    page.gauge_value(
        "rlinks_open_connections",
        "Connections that are open.",
        threads.iter().map(|thread| thread.connections()).sum::<usize>(),
    );

    page.counter_value("rlinks_clicks_recorded_total", "Clicks written to the journal.", journal.written());
    page.counter_value(
        "rlinks_clicks_stored_total",
        "Clicks taken from the journal to their database.",
        click_pipeline.stored(),
    );
    page.counter_value(
        "rlinks_clicks_dropped_total",
        "Clicks that could not be recorded.",
        journal.dropped(),
    );
    page.gauge_value("rlinks_journal_pending_bytes", "What waits in the journal.", journal.pending_bytes());
    page.gauge_value(
        "rlinks_journal_limit_bytes",
        "What may wait before clicks are dropped.",
        journal.budget_bytes(),
    );

    page.gauge(
        "rlinks_component_up",
        "Whether a part does its work: 0 while the links' or the clicks' database is away.",
    );
    let components =
        [("store", context.routes.is_fresh()), ("clicks", click_pipeline.degraded_reason().is_none())];
    for (component, works) in components {
        page.sample("rlinks_component_up", &[("component", &component)], u8::from(works));
    }
    page.gauge_value("rlinks_draining", "1 while the server shuts down.", u8::from(context.is_draining()));
    page.gauge_value("rlinks_route_table_links", "Links that are answered from memory.", table.links());
    page.gauge_value("rlinks_route_table_bytes", "The memory they take.", table.bytes());
    page.gauge_value(
        "rlinks_route_table_complete",
        "1 while all links fit, so that no redirect asks the database.",
        u8::from(context.routes.is_complete()),
    );

    if let Some(fetches) = key_fetches {
        page.counter_value(
            "rlinks_oidc_key_fetches_total",
            "How often the OpenID provider was asked for its keys.",
            fetches,
        );
    }
    let failed = context.metrics.failed_reloads.load(Ordering::Relaxed);
    page.counter_value(
        "rlinks_config_reload_failures_total",
        "Configurations that could not be read again, so that the old one stayed.",
        failed,
    );
    add_process_metrics(&mut page);
    page.0
}

/// What every process says, under the names dashboards expect. Nothing where the system does not tell.
fn add_process_metrics(page: &mut PrometheusText) {
    let Some(usage) = ProcessUsage::read() else { return };
    page.counter_value(
        "process_cpu_seconds_total",
        "Time of processors this process has used.",
        usage.cpu_seconds,
    );
    page.gauge_value("process_resident_memory_bytes", "Memory this process has.", usage.resident_bytes);
    page.gauge_value("process_threads", "Threads of this process.", usage.threads);
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // Looking takes one itself.
        page.gauge_value(
            "process_open_fds",
            "Files and connections this process has open.",
            files.count().saturating_sub(1),
        );
    }
}

struct ProcessUsage {
    cpu_seconds: f64,
    resident_bytes: u64,
    threads: u64,
}

impl ProcessUsage {
    fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name of a process may hold anything, blanks and brackets too.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u32>().ok();
        Some(Self {
            cpu_seconds: (f64::from(field(14)?) + f64::from(field(15)?)) / CPU_TICKS_PER_SECOND,
            resident_bytes: u64::from(field(24)?) * rustix::param::page_size() as u64,
            threads: u64::from(field(20)?),
        })
    }
}

/// A page in Prometheus' text form. Names, labels and values are ours, so nothing needs escaping.
struct PrometheusText(String);

impl PrometheusText {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    fn counter_value(&mut self, name: &str, help: &str, value: impl Display) {
        self.counter(name, help);
        self.sample(name, &[], value);
    }

    fn gauge_value(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauge(name, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, said)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{said}\"", if place == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}
