//! Errors as the redirect path gives them: JSON or a page, as the request prefers.

use http::{Request, Response};
use rlinks_core::Timestamp;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::response::HttpResponse;
use serde_json::Value;

use super::body::{Body, into_response};

/// An error as JSON or as a page, as the request prefers.
pub fn error_response<B>(request: &Request<B>, code: ErrorCode, now: Timestamp) -> Response<Body> {
    let as_json = wants_json(request.uri().path(), accept_header(request).as_deref());
    into_response(HttpResponse::error(code, code.message(), &Value::Null, as_json, now))
}

pub fn accept_header<B>(request: &Request<B>) -> Option<String> {
    let lines: Vec<_> = request
        .headers()
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}
