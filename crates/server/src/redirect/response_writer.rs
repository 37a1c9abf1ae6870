//! Redirects on their way out: as bytes by the fast path, and as a response for hyper.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use rlinks_core::redirect::decide::CacheControl;
use rlinks_core::redirect::response::{redirect_header_lines, redirect_headers};
use rlinks_core::{RedirectStatus, Timestamp};
use rlinks_routes::host_directory::ServedWorkspace;

use super::body::Body;

/// Responses on their way out.
pub struct ResponseBuffer {
    pub bytes: Vec<u8>,
    /// The line of `Strict-Transport-Security`, where there is one, and the name of the header behind it.
    before_id: Vec<u8>,
    /// The second `after_id` was written for.
    second: i64,
    /// The lines behind the id, up to the date.
    after_id: Vec<u8>,
}

impl ResponseBuffer {
    pub fn new(hsts: Option<&HeaderValue>) -> Self {
        let line = |value: &HeaderValue| [b"strict-transport-security: ", value.as_bytes(), b"\r\n"].concat();
        let mut before_id = hsts.map(line).unwrap_or_default();
        before_id.extend_from_slice(b"x-request-id: ");
        Self { bytes: Vec::new(), before_id, second: 0, after_id: Vec::new() }
    }

    pub fn redirect(
        &mut self,
        status: RedirectStatus,
        target: &str,
        cache_control: &str,
        id: &[u8],
        last: bool,
        now: Timestamp,
    ) {
        let line: &[u8] = match status {
            RedirectStatus::MovedPermanently => b"HTTP/1.1 301 Moved Permanently\r\n",
            RedirectStatus::Found => b"HTTP/1.1 302 Found\r\n",
            RedirectStatus::TemporaryRedirect => b"HTTP/1.1 307 Temporary Redirect\r\n",
            RedirectStatus::PermanentRedirect => b"HTTP/1.1 308 Permanent Redirect\r\n",
        };
        self.write_date(now);
        let end: &[u8] = if last { b"\r\nconnection: close\r\n\r\n" } else { b"\r\n\r\n" };
        let [location, target, cache, cache_control, robots] =
            redirect_header_lines(target, cache_control).map(str::as_bytes);
        let (before_id, after_id) = (self.before_id.as_slice(), self.after_id.as_slice());
        let parts: [&[u8]; 10] =
            [line, location, target, cache, cache_control, robots, before_id, id, after_id, end];
        self.bytes.reserve(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    fn write_date(&mut self, now: Timestamp) {
        let second = now.ms() / 1000;
        if second != self.second {
            self.second = second;
            let moment = UNIX_EPOCH + Duration::from_secs(second.unsigned_abs());
            let date = httpdate::fmt_http_date(moment);
            self.after_id = format!("\r\ncontent-length: 0\r\ndate: {date}").into_bytes();
        }
    }
}

/// A redirect for hyper to send.
pub fn redirect(
    status: u16,
    target: &str,
    cache: CacheControl,
    workspace: &ServedWorkspace,
) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).expect("301, 302, 307 or 308");
    let headers = response.headers_mut();
    headers.reserve(6);
    for (name, value) in redirect_headers(target, &workspace.cache_header(cache)) {
        let value = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(value.as_bytes()));
        headers.insert(HeaderName::from_static(name), value.expect("a redirect's headers are plain ASCII"));
    }
    response
}
