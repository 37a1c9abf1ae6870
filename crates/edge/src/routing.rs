//! Where a request goes, and what it gets: the walk of the native server, for one workspace and without a connection.

use std::borrow::Cow;

use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::{self, HostBuffer, from_header};
use rlinks_core::link::code::is_reserved;
use rlinks_core::redirect::decide::NotFoundReason;
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::path::{MAX_PATH_BYTES, RequestPath, first_segment, parse_path};
use rlinks_core::redirect::public_pages;
use rlinks_core::redirect::response::{HttpResponse, ROBOTS_TXT};
use rlinks_core::{Decision, Route, Timestamp, Visitor, decide};
use serde_json::Value;

use crate::request::EdgeRequest;
use crate::settings::{Profile, Settings};

/// What the first look at a request gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// Everything there is to say.
    Respond(HttpResponse),
    /// A link is asked for, or where it leads.
    Load {
        /// Never a reserved word: no key of ours is built from one.
        code: Cow<'a, str>,
        // `/{code}+`
        preview: bool,
    },
    Api,
}

/// Where a request goes.
pub fn resolve<'a>(request: &'a EdgeRequest, settings: &Settings, now: Timestamp) -> Resolution<'a> {
    let refuse = |code| Resolution::Respond(error(request, code, now));
    if request.path.len() > MAX_PATH_BYTES {
        return refuse(ErrorCode::UriTooLong);
    }
    let mut buffer: HostBuffer = [0; host::MAX_HOST_BYTES];
    let Some(host) = from_header(request.host.as_bytes(), &mut buffer) else {
        return refuse(ErrorCode::BadRequest);
    };
    let asked = parse_path(&request.path);
    let word = match &asked {
        RequestPath::Code(code) | RequestPath::Preview(code) => code,
        RequestPath::NotALink => first_segment(&request.path),
        RequestPath::Root => "",
    };
    // Our own paths answer on every host; and a reserved word is never looked up, or `/__admin__` would reach the audit log.
    if is_reserved(word) {
        return server_path(request, settings, now);
    }
    if !settings.serves(host) {
        return refuse(ErrorCode::NotFound);
    }
    if !is_read(request) {
        return refuse(ErrorCode::MethodNotAllowed);
    }
    match asked {
        RequestPath::Root => Resolution::Respond(HttpResponse::page(public_pages::landing())),
        RequestPath::NotALink => refuse(ErrorCode::NotFound),
        RequestPath::Code(code) => Resolution::Load { code, preview: false },
        RequestPath::Preview(code) => Resolution::Load { code, preview: true },
    }
}

/// What a link's request gets, and whether it is a click.
pub fn respond(
    request: &EdgeRequest,
    settings: &Settings,
    (code, preview): (&str, bool),
    route: Option<Route<'_>>,
    now: Timestamp,
) -> (HttpResponse, ClickRecord) {
    let mut buffer: HostBuffer = [0; host::MAX_HOST_BYTES];
    let host = from_header(request.host.as_bytes(), &mut buffer).unwrap_or_default();
    let visitor = Visitor { host, served_hosts: &settings.served_hosts };
    match decide(route, &settings.policy, &visitor, now) {
        Decision::Redirect { target, .. } if preview => {
            let host = route.map_or("", |route| route.target_host);
            (HttpResponse::page(public_pages::preview(code, target, host)), ClickRecord::Skip)
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
    /// A redirect somebody followed.
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
fn server_path<'a>(request: &'a EdgeRequest, settings: &Settings, now: Timestamp) -> Resolution<'a> {
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
        path if path.starts_with("/api/v1/") && settings.profile == Profile::Edge => return Resolution::Api,
        _ => return Resolution::Respond(error(request, ErrorCode::NotFound, now)),
    };
    Resolution::Respond(if is_read(request) {
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

    use super::{Resolution, resolve};
    use crate::request::EdgeRequest;
    use crate::settings::Settings;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    #[track_caller]
    fn check(profile: &str, method: &str, url: &str, expected: &str) {
        let request = EdgeRequest::parse(&format!("{method}\n{url}\napplication/json"));
        let settings = Settings::parse(&[profile, "", "rmax.to"]).unwrap();
        let got = match resolve(&request, &settings, NOW) {
            Resolution::Respond(answer) => answer.status.to_string(),
            Resolution::Load { code, preview } => format!("{code}{}", if preview { " preview" } else { "" }),
            Resolution::Api => "api".to_owned(),
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
            check(profile, "GET", "https://rmax.to/Admin", "404");
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
