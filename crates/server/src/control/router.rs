//! What is not a redirect: health, readiness and the few files browsers ask for. The API and the dashboard join here.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body as AxumBody;
use axum::extract::State;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use hyper::body::Incoming;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::link::code::OWN_PATHS;
use rlinks_core::redirect::path::first_segment;
use rlinks_core::redirect::response::ROBOTS_TXT;
use tower::ServiceExt as _;

use crate::auth::connection_info::Way;
use crate::redirect::connection;
use crate::redirect::context::{Face, Pages, Shared};

/// The routes of the public listener.
pub fn router() -> Router<Arc<Shared>> {
    let health = get(|| async {
        no_store(Json(serde_json::json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") })))
    });
    let robots = get(|| async { ([(CONTENT_TYPE, "text/plain; charset=utf-8")], ROBOTS_TXT) });
    let favicon = get(|| async { (StatusCode::NO_CONTENT, [(CACHE_CONTROL, "public, max-age=86400")]) });
    let handlers: [MethodRouter<Arc<Shared>>; 4] = [health, get(ready), robots, favicon];
    let mut router = Router::new().fallback(not_found);
    for (path, handler) in OWN_PATHS.iter().zip(handlers) {
        router = router.route(path, handler.fallback(method_not_allowed));
    }
    router
}

/// Answers one request that is no redirect.
pub async fn handle(
    shared: Arc<Shared>,
    face: Face,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<AxumBody> {
    let mut request = request.map(AxumBody::new);
    request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
    request.extensions_mut().insert(face);
    // Who is signed in matters nowhere else.
    if face.has_pages() && matches!(first_segment(request.uri().path()), "api" | "admin") {
        let trusted = &shared.reloadable.load().trusted_proxies;
        let way = Way::of(&shared.entrance, trusted, peer, request.headers());
        request.extensions_mut().insert(Arc::new(way));
    }
    let router = Pages::of(&shared, face, request.uri().path());
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn no_store(body: impl IntoResponse) -> impl IntoResponse {
    ([(CACHE_CONTROL, "no-store")], body)
}

/// Ready while redirects are served: a store that is away makes it degraded, not unready, for known links still redirect. So do
/// clicks that are dropped or wait.
async fn ready(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let store = (!shared.routes.is_fresh())
        .then_some("the link store cannot be read; known links still redirect (the log says why)");
    let (status, word, reasons) = if shared.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining", vec!["the server is shutting down"])
    } else {
        let reasons: Vec<&str> = store.into_iter().chain(shared.recording.worry()).collect();
        (StatusCode::OK, if reasons.is_empty() { "ready" } else { "degraded" }, reasons)
    };
    (status, no_store(Json(serde_json::json!({ "status": word, "reasons": reasons }))))
}

/// What is not there.
pub async fn not_found(State(shared): State<Arc<Shared>>, request: Request<AxumBody>) -> Response<AxumBody> {
    connection::error(&request, ErrorCode::NotFound, &shared).map(AxumBody::new)
}

/// What cannot be done there.
pub async fn method_not_allowed(
    State(shared): State<Arc<Shared>>,
    method: Method,
    request: Request<AxumBody>,
) -> Response<AxumBody> {
    tracing::debug!(%method, "a method this path does not have");
    let mut response = connection::error(&request, ErrorCode::MethodNotAllowed, &shared).map(AxumBody::new);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

#[cfg(test)]
mod tests {
    use rlinks_core::link::code::{OWN_PATHS, is_reserved};

    #[test]
    fn every_first_segment_of_ours_is_a_reserved_word() {
        for path in OWN_PATHS.iter().chain(&["/metrics"]) {
            let segment = path.trim_start_matches('/').split('/').next().unwrap();
            assert!(
                is_reserved(segment),
                "{path}: reserve `{segment}` in rlinks-core, or a link could hide it"
            );
        }
    }
}
