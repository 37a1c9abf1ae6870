//! Answers: status, headers and body, the same from the native server and the Worker.

use serde_json::Value;

use crate::error_code::{self, ErrorCode};
use crate::redirect::decide::CacheControl;
use crate::redirect::public_pages;
use crate::time::DAY_MS;
use crate::{RedirectStatus, Timestamp};

/// `X-Robots-Tag` of every redirect and page: short links do not belong into search engines.
pub const ROBOTS_TAG: &str = "noindex";

// What `/robots.txt` says.
pub const ROBOTS_TXT: &str = "User-agent: *\nDisallow: /\n";

/// Where whoever found something wrong with a link looks for somebody to tell (RFC 9116).
pub const SECURITY_TXT_PATH: &str = "/.well-known/security.txt";
/// For so long what it says may be believed.
const SECURITY_TXT_VALIDITY_MS: i64 = 180 * DAY_MS;

/// The `Content-Security-Policy` of responses that aren't pages: a browser that opens one loads and runs nothing.
pub const DATA_SECURITY_POLICY: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What no response of ours lets a browser do: use devices, and load it into pages of other sites.
pub const BROWSER_POLICIES: [(&str, &str); 2] = [
    (
        "permissions-policy",
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    ("cross-origin-resource-policy", "same-origin"),
];

/// A whole answer, but for the request's id, which the server adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// Header names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; a HEAD request gets none.
    pub body: String,
}

/// The headers of a redirect, wherever it is written.
pub const fn redirect_headers<'a>(target: &'a str, cache_control: &'a str) -> [(&'static str, &'a str); 3] {
    [("location", target), ("cache-control", cache_control), ("x-robots-tag", ROBOTS_TAG)]
}

/// The same, spelled as in an HTTP/1.1 head.
pub const fn redirect_header_lines<'a>(target: &'a str, cache_control: &'a str) -> [&'a str; 5] {
    ["location: ", target, "\r\ncache-control: ", cache_control, "\r\nx-robots-tag: noindex\r\n"]
}

impl HttpResponse {
    pub fn redirect(status: RedirectStatus, target: &str, cache: CacheControl) -> Self {
        let headers =
            redirect_headers(target, &cache.to_string()).map(|(name, value)| (name, value.to_owned()));
        Self { status: status.code(), headers: headers.into(), body: String::new() }
    }

    /// Whom to tell that a link leads to something bad.
    pub fn security_txt(contact: &str, now: Timestamp) -> Self {
        let expires = Timestamp::from_ms(now.ms() - now.ms().rem_euclid(DAY_MS) + SECURITY_TXT_VALIDITY_MS);
        Self {
            status: 200,
            headers: vec![
                ("content-type", "text/plain; charset=utf-8".to_owned()),
                ("cache-control", "public, max-age=3600".to_owned()),
                ("x-content-type-options", "nosniff".to_owned()),
                ("content-security-policy", DATA_SECURITY_POLICY.to_owned()),
            ],
            body: format!("Contact: {contact}\nExpires: {expires}\n"),
        }
    }

    /// An error as JSON or as a page. The page says the same in fewer words and never carries details.
    pub fn error(code: ErrorCode, message: &str, details: &Value, as_json: bool, now: Timestamp) -> Self {
        let mut headers = vec![("cache-control", "no-store".to_owned()), ("vary", "Accept".to_owned())];
        if code == ErrorCode::MethodNotAllowed {
            headers.push(("allow", "GET, HEAD".to_owned()));
        }
        if code == ErrorCode::KvUnavailable {
            headers.push(("retry-after", "2".to_owned()));
        }
        let body = if as_json {
            headers.push(("content-type", "application/json".to_owned()));
            headers.push(("content-security-policy", DATA_SECURITY_POLICY.to_owned()));
            headers.push(("x-content-type-options", "nosniff".to_owned()));
            error_code::to_json(code, message, details, now)
        } else {
            headers.extend(page_headers());
            public_pages::error(code.status(), message)
        };
        Self { status: code.status(), headers, body }
    }

    /// A page that is no error.
    pub fn page(body: String) -> Self {
        let mut headers = vec![("cache-control", "no-store".to_owned())];
        headers.extend(page_headers());
        Self { status: 200, headers, body }
    }
}

fn page_headers() -> impl Iterator<Item = (&'static str, String)> {
    let of_pages = [
        ("content-type", "text/html; charset=utf-8".to_owned()),
        ("content-security-policy", public_pages::CONTENT_SECURITY_POLICY.to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("x-frame-options", "DENY".to_owned()),
        ("referrer-policy", "no-referrer".to_owned()),
        ("x-robots-tag", ROBOTS_TAG.to_owned()),
    ];
    of_pages.into_iter().chain(BROWSER_POLICIES.map(|(name, value)| (name, value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{redirect_header_lines, redirect_headers};

    #[test]
    fn header_lines_spell_the_headers_of_a_redirect() {
        let (target, cache_control) = ("https://example.com/", "private, max-age=0");
        let lines =
            redirect_headers(target, cache_control).map(|(name, value)| format!("{name}: {value}\r\n"));
        assert_eq!(redirect_header_lines(target, cache_control).concat(), lines.concat());
    }
}
