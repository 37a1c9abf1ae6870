//! What the server's own paths answer to an anonymous GET from another machine, for `explain`. A test of the server asks all of them.

use rlinks_core::error_code::ErrorCode;

/// What such a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnonymousResponse {
    /// 200, with what is there.
    Page(&'static str),
    /// 204.
    Empty,
    /// 308, to the path without its last slash.
    WithoutSlash,
    /// 303, to the page where people sign in.
    SignIn,
    Error(ErrorCode),
}

use AnonymousResponse::{Empty, Error, Page, SignIn, WithoutSlash};

const KEY_OR_SESSION: AnonymousResponse = Error(ErrorCode::Unauthenticated);
/// Only forms are sent there.
const POST_ONLY: AnonymousResponse = Error(ErrorCode::MethodNotAllowed);

/// The first that matches counts; `*` is any one segment. What matches none isn't there.
const RESPONSES: [(&str, AnonymousResponse); 81] = [
    ("/health", Page("whether the server runs")),
    ("/ready", Page("whether the server is ready, or shutting down")),
    ("/robots.txt", Page("what crawlers may visit")),
    ("/favicon.ico", Empty),
    ("/metrics", KEY_OR_SESSION),
    ("/api/docs", Page("the description of the API")),
    ("/api/openapi.json", Page("the description of the API")),
    ("/api/v1/audit", KEY_OR_SESSION),
    ("/api/v1/check/*", KEY_OR_SESSION),
    ("/api/v1/domains", KEY_OR_SESSION),
    ("/api/v1/domains/*", KEY_OR_SESSION),
    ("/api/v1/domains/*/verify", KEY_OR_SESSION),
    ("/api/v1/explain", KEY_OR_SESSION),
    ("/api/v1/export", KEY_OR_SESSION),
    ("/api/v1/import", KEY_OR_SESSION),
    ("/api/v1/keys", KEY_OR_SESSION),
    ("/api/v1/keys/*", KEY_OR_SESSION),
    ("/api/v1/keys/*/created", KEY_OR_SESSION),
    ("/api/v1/keys/*/rotate", KEY_OR_SESSION),
    ("/api/v1/links", KEY_OR_SESSION),
    ("/api/v1/links/*", KEY_OR_SESSION),
    ("/api/v1/links/*/clicks", KEY_OR_SESSION),
    ("/api/v1/links/*/history", KEY_OR_SESSION),
    ("/api/v1/links/*/qr", KEY_OR_SESSION),
    ("/api/v1/links/*/restore", KEY_OR_SESSION),
    ("/api/v1/links/*/stats", KEY_OR_SESSION),
    ("/api/v1/me", KEY_OR_SESSION),
    ("/api/v1/me/sessions", KEY_OR_SESSION),
    ("/api/v1/me/sessions/*", KEY_OR_SESSION),
    ("/api/v1/stats", KEY_OR_SESSION),
    ("/api/v1/stats/live", KEY_OR_SESSION),
    ("/api/v1/users", KEY_OR_SESSION),
    ("/api/v1/users/*", KEY_OR_SESSION),
    ("/api/v1/users/*/sessions", KEY_OR_SESSION),
    ("/api/v1/users/*/sessions/*", KEY_OR_SESSION),
    ("/api/v1/workspace", KEY_OR_SESSION),
    ("/admin", SignIn),
    ("/admin/", WithoutSlash),
    ("/admin/login", Page("where people sign in")),
    ("/admin/style.css", Page("the dashboard's style")),
    ("/admin/theme.css", Page("the dashboard's colours")),
    ("/admin/app.js", Page("the dashboard's script")),
    ("/admin/account", SignIn),
    ("/admin/audit", SignIn),
    ("/admin/audit/export", SignIn),
    ("/admin/domains", SignIn),
    ("/admin/export", SignIn),
    ("/admin/import", SignIn),
    ("/admin/keys", SignIn),
    ("/admin/links/bulk", POST_ONLY),
    ("/admin/links/*", SignIn),
    ("/admin/members", SignIn),
    ("/admin/policy", SignIn),
    ("/admin/stats", SignIn),
    ("/admin/logout", POST_ONLY),
    ("/admin/links", POST_ONLY),
    ("/admin/theme", POST_ONLY),
    ("/admin/account/password", POST_ONLY),
    ("/admin/account/name", POST_ONLY),
    ("/admin/account/sign-out-others", POST_ONLY),
    ("/admin/account/sign-out-everywhere", POST_ONLY),
    ("/admin/account/sessions/*/end", POST_ONLY),
    ("/admin/account/sign-in-reset-seen", POST_ONLY),
    ("/admin/account/delete", POST_ONLY),
    ("/admin/notices/dismiss", POST_ONLY),
    ("/admin/workspace/name", POST_ONLY),
    ("/admin/links/*/state", POST_ONLY),
    ("/admin/links/*/rollback", POST_ONLY),
    ("/admin/keys/*/revoke", POST_ONLY),
    ("/admin/keys/*/rotate", POST_ONLY),
    ("/admin/members/*/invite", POST_ONLY),
    ("/admin/members/*/sessions", SignIn),
    ("/admin/members/*/sessions/end", POST_ONLY),
    ("/admin/members/*/sessions/*/end", POST_ONLY),
    ("/admin/members/*/role", POST_ONLY),
    ("/admin/members/*/suspend", POST_ONLY),
    ("/admin/members/*/activate", POST_ONLY),
    ("/admin/members/*/delete", POST_ONLY),
    ("/admin/domains/*/primary", POST_ONLY),
    ("/admin/domains/*/remove", POST_ONLY),
    ("/admin/domains/*/verify", POST_ONLY),
];

/// What an anonymous GET of one of the server's own paths gets.
pub(super) fn anonymous_response(path: &str) -> AnonymousResponse {
    let found = RESPONSES.iter().find(|(pattern, _)| matches(pattern, path));
    found.map_or(Error(ErrorCode::NotFound), |(_, response)| *response)
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut segments) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), segments.next()) {
            (None, None) => return true,
            (Some("*"), Some(segment)) if !segment.is_empty() => {}
            (Some(want), Some(segment)) if want == segment => {}
            _ => return false,
        }
    }
}
