//! The one place where a redirect is written: as bytes by the fast path, and as a response for hyper.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use rlinks_core::redirect::decide::CacheControl;
use rlinks_core::redirect::response::ROBOTS_TAG;
use rlinks_core::{RedirectStatus, Timestamp};
use rlinks_routes::host_directory::ServedWorkspace;

use super::body::Body;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// Responses on their way out.
#[derive(Default)]
pub struct ResponseBuffer {
    pub bytes: Vec<u8>,
    /// The second `date` was written for.
    second: i64,
    date: Vec<u8>,
}

impl ResponseBuffer {
    pub fn redirect(
        &mut self,
        status: RedirectStatus,
        target: &str,
        cache: &[u8],
        id: &[u8],
        last: bool,
        now: Timestamp,
    ) {
        let line: &[u8] = match status {
            RedirectStatus::MovedPermanently => b"HTTP/1.1 301 Moved Permanently\r\nlocation: ",
            RedirectStatus::Found => b"HTTP/1.1 302 Found\r\nlocation: ",
            RedirectStatus::TemporaryRedirect => b"HTTP/1.1 307 Temporary Redirect\r\nlocation: ",
            RedirectStatus::PermanentRedirect => b"HTTP/1.1 308 Permanent Redirect\r\nlocation: ",
        };
        self.write_date(now);
        let end: &[u8] = if last { b"\r\nconnection: close\r\n\r\n" } else { b"\r\n\r\n" };
        let parts: [&[u8]; 9] = [
            line,
            target.as_bytes(),
            b"\r\ncache-control: ",
            cache,
            b"\r\nx-robots-tag: noindex\r\nx-request-id: ",
            id,
            b"\r\ncontent-length: 0\r\ndate: ",
            &self.date,
            end,
        ];
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
            self.date = httpdate::fmt_http_date(moment).into_bytes();
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
    let location = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(target.as_bytes()));
    headers.insert(LOCATION, location.expect("a target is plain ASCII"));
    headers.insert(CACHE_CONTROL, workspace.cache_header(cache));
    headers.insert(X_ROBOTS_TAG, HeaderValue::from_static(ROBOTS_TAG));
    response
}
