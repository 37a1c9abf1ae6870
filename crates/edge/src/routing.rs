//! Where a request goes, and what it gets: core's walk, for one workspace and without a connection.

use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::HostBuffer;
use rlinks_core::redirect::decide::NotFoundReason;
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::response::{HttpResponse, ROBOTS_TXT};
use rlinks_core::redirect::{self, LinkRequest, RequestHead, RequestMethod, Resolution, public_pages};
use rlinks_core::{Decision, Route, Timestamp, Visitor, decide};
use serde_json::Value;

use crate::request::EdgeRequest;
use crate::settings::{Profile, Settings};

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum NextStep<'a> {
    Respond(HttpResponse),
    /// Look the link up.
    Load(EdgeLinkRequest<'a>),
    CallApi,
}

/// A request for a link of the one workspace there is. No key of ours can be built from its code: `__admin__` is a server word.
pub type EdgeLinkRequest<'a> = LinkRequest<'a, ()>;

/// Where a request goes.
pub fn next_step<'a>(
    request: &'a EdgeRequest,
    settings: &Settings,
    buffer: &'a mut HostBuffer,
    now: Timestamp,
) -> NextStep<'a> {
    let method = RequestMethod::parse(&request.method);
    let head = RequestHead { method, host: Some(request.host.as_bytes()), path: &request.path };
    let workspace_of = |host: &str| if settings.serves(host) { Ok(()) } else { Err(ErrorCode::NotFound) };
    match redirect::resolve(&head, buffer, workspace_of) {
        Resolution::Refused(code) => NextStep::Respond(error(request, code, now)),
        Resolution::ServerPath => server_path(request, settings, now),
        Resolution::Landing => NextStep::Respond(HttpResponse::page(public_pages::landing())),
        Resolution::NotALink => NextStep::Respond(error(request, ErrorCode::NotFound, now)),
        Resolution::Link(asked) => NextStep::Load(asked),
    }
}

/// What a link's request gets, and whether it is a click.
pub fn respond(
    request: &EdgeRequest,
    settings: &Settings,
    asked: &EdgeLinkRequest<'_>,
    route: Option<Route<'_>>,
    now: Timestamp,
) -> (HttpResponse, ClickRecord) {
    let visitor = Visitor { host: asked.host, served_hosts: &settings.served_hosts };
    match decide(route, &settings.policy, &visitor, now) {
        Decision::Redirect { target, .. } if asked.preview => {
            let host = route.map_or("", |route| route.target_host);
            (HttpResponse::page(public_pages::preview(&asked.code, target, host)), ClickRecord::Skip)
        }
        Decision::Redirect { status, target, cache } => {
            let click = if request.is_head() { ClickRecord::Skip } else { ClickRecord::Write };
            (HttpResponse::redirect(status, target, cache), click)
        }
        decision => {
            let code = decision.error_code().unwrap_or(ErrorCode::Internal);
            let insecure = decision == Decision::NotFound(NotFoundReason::Insecure);
            (error(request, code, now), if insecure { ClickRecord::SkipInsecure } else { ClickRecord::Skip })
        }
    }
}

/// Whether an answer is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickRecord {
    /// A redirect that was followed.
    Write,
    Skip,
    /// Nothing to record, but our own promise is broken: a link that must lead to https does not.
    SkipInsecure,
}

/// An error as JSON or as a page, as the request prefers.
pub fn error(request: &EdgeRequest, code: ErrorCode, now: Timestamp) -> HttpResponse {
    error_with_message(request, code, code.message(), &Value::Null, now)
}

/// The same with better words.
pub fn error_with_message(
    request: &EdgeRequest,
    code: ErrorCode,
    message: &str,
    details: &Value,
    now: Timestamp,
) -> HttpResponse {
    HttpResponse::error(code, message, details, wants_json(&request.path, request.accept.as_deref()), now)
}

/// Paths that are ours on every host.
fn server_path(request: &EdgeRequest, settings: &Settings, now: Timestamp) -> NextStep<'static> {
    let plain = |status, kind: &str, cache: &str, body: String| {
        let mut headers = Vec::new();
        for (name, value) in [("content-type", kind), ("cache-control", cache)] {
            if !value.is_empty() {
                headers.push((name, value.to_owned()));
            }
        }
        HttpResponse { status, headers, body }
    };
    let answer = match request.path.as_str() {
        "/health" => {
            let body = concat!("{\"status\":\"ok\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");
            plain(200, "application/json", "no-store", body.to_owned())
        }
        "/ready" => {
            plain(200, "application/json", "no-store", r#"{"reasons":[],"status":"ready"}"#.to_owned())
        }
        "/robots.txt" => plain(200, "text/plain; charset=utf-8", "", ROBOTS_TXT.to_owned()),
        "/favicon.ico" => plain(204, "", "public, max-age=86400", String::new()),
        path if path.starts_with("/api/v1/") && settings.profile == Profile::Edge => {
            return NextStep::CallApi;
        }
        _ => return NextStep::Respond(error(request, ErrorCode::NotFound, now)),
    };
    NextStep::Respond(if is_read(request) {
        answer
    } else {
        error(request, ErrorCode::MethodNotAllowed, now)
    })
}

fn is_read(request: &EdgeRequest) -> bool {
    matches!(request.method.as_str(), "GET" | "HEAD")
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{NextStep, next_step};
    use crate::request::EdgeRequest;
    use crate::settings::Settings;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    #[track_caller]
    fn check(profile: &str, method: &str, url: &str, expected: &str) {
        let request = EdgeRequest::parse(&format!("{method}\n{url}\napplication/json"));
        let settings = Settings::parse(&[profile, "", "rmax.to"]).unwrap();
        let mut buffer = [0; rlinks_core::host::MAX_HOST_BYTES];
        let got = match next_step(&request, &settings, &mut buffer, NOW) {
            NextStep::Respond(answer) => answer.status.to_string(),
            NextStep::Load(asked) => format!("{}{}", asked.code, if asked.preview { " preview" } else { "" }),
            NextStep::CallApi => "api".to_owned(),
        };
        assert_eq!(got, expected, "{method} {url}");
    }

    #[test]
    fn requests_are_routed_by_method_host_and_path() {
        for profile in ["fabric", "edge"] {
            check(profile, "GET", "https://rmax.to/parity", "parity");
            check(profile, "HEAD", "https://RMAX.to./par%69ty+", "parity preview");
            check(profile, "GET", "https://rmax.to/", "200");
            check(profile, "GET", "https://stranger.example/parity", "404");
            check(profile, "POST", "https://rmax.to/parity", "405");
            check(profile, "GET", "https://rmax.to/a/b", "404");
            check(profile, "GET", "https://stranger.example/health", "200");
            check(profile, "POST", "https://rmax.to/health", "405");
            check(profile, "GET", "https://rmax.to/favicon.ico", "204");
            check(profile, "GET", "https://rmax.to/__admin__", "404");
            check(profile, "GET", "https://rmax.to/Admin", "Admin");
            check(profile, "GET", "https://rmax.to/www", "www");
            check(profile, "GET", "https://rmax.to/api", "404");
            check(profile, "GET", &format!("https://rmax.to/{}", "a".repeat(2048)), "414");
        }
    }

    #[test]
    fn only_the_edge_profile_has_an_api() {
        check("fabric", "POST", "https://rmax.to/api/v1/links", "404");
        check("edge", "POST", "https://rmax.to/api/v1/links", "api");
    }
}
