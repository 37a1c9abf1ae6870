//! Health, readiness and the few files browsers ask for: what every listener serves.

use std::sync::Arc;

use axum::body::Body as AxumBody;
use axum::extract::State;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::link::code::PUBLIC_PATHS;
use rlinks_core::redirect::response::ROBOTS_TXT;

use crate::redirect::context::RedirectContext;
use crate::redirect::error_response::error_response;

/// The routes of every listener.
pub fn routes() -> Router<Arc<RedirectContext>> {
    let health = get(|| async {
        no_store(Json(serde_json::json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") })))
    });
    let robots = get(|| async { ([(CONTENT_TYPE, "text/plain; charset=utf-8")], ROBOTS_TXT) });
    let favicon = get(|| async { (StatusCode::NO_CONTENT, [(CACHE_CONTROL, "public, max-age=86400")]) });
    let handlers: [MethodRouter<Arc<RedirectContext>>; 4] = [health, get(ready), robots, favicon];
    let mut router = Router::new().fallback(not_found);
    for (path, handler) in PUBLIC_PATHS.iter().zip(handlers) {
        router = router.route(path, handler.fallback(method_not_allowed));
    }
    router
}

fn no_store(body: impl IntoResponse) -> impl IntoResponse {
    ([(CACHE_CONTROL, "no-store")], body)
}

/// Ready while redirects are served: a store that is away makes it degraded, not unready, for known links still redirect. So do
/// clicks that are dropped or wait.
async fn ready(State(context): State<Arc<RedirectContext>>) -> impl IntoResponse {
    let store = (!context.routes.is_fresh())
        .then_some("the link store cannot be read; known links still redirect (the log says why)");
    let (status, word, reasons) = if context.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining", vec!["the server is shutting down"])
    } else {
        let reasons: Vec<&str> = store.into_iter().chain(context.click_pipeline.degraded_reason()).collect();
        (StatusCode::OK, if reasons.is_empty() { "ready" } else { "degraded" }, reasons)
    };
    (status, no_store(Json(serde_json::json!({ "status": word, "reasons": reasons }))))
}

/// What is not there.
pub async fn not_found(
    State(context): State<Arc<RedirectContext>>,
    request: Request<AxumBody>,
) -> Response<AxumBody> {
    error_response(&request, ErrorCode::NotFound, context.clock.now()).map(AxumBody::new)
}

/// What cannot be done there.
pub async fn method_not_allowed(
    State(context): State<Arc<RedirectContext>>,
    method: Method,
    request: Request<AxumBody>,
) -> Response<AxumBody> {
    tracing::debug!(%method, "a method this path does not have");
    let mut response =
        error_response(&request, ErrorCode::MethodNotAllowed, context.clock.now()).map(AxumBody::new);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

#[cfg(test)]
mod tests {
    use rlinks_core::link::code::{PUBLIC_PATHS, is_server_word};
    use rlinks_core::redirect::path::first_segment;

    #[test]
    fn first_segment_of_every_own_path_is_a_server_word() {
        for path in PUBLIC_PATHS.iter().chain(&["/metrics"]) {
            assert!(
                is_server_word(first_segment(path)),
                "{path}: make its word a server word, or a link hides it"
            );
        }
    }
}
