//! The description of what visitors see. The routes themselves are the redirect path's.

use utoipa::{OpenApi, ToSchema};

/// Describes; nobody calls these.
#[derive(OpenApi)]
#[openapi(paths(redirect, preview, health, ready, metrics, description, docs))]
pub struct PublicRoutes;

/// Whether the process is there.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes")]
struct Health {
    #[schema(example = "ok")]
    status: String,
    version: String,
}

/// Whether it serves.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes")]
struct Readiness {
    /// `ready`, `degraded` or `draining`.
    status: String,
    reasons: Vec<String>,
}

/// Follows a link.
#[utoipa::path(get, path = "/{code}", tag = "public", params(("code" = String, Path)),
    responses((status = "3XX", description = "To the target, by the link's own status", headers(("Location" = String))),
        (status = "4XX", description = "No such link, or one that answers no more"), (status = 500, description = "A loop"),
        (status = 503, description = "The store cannot be asked")))]
#[expect(dead_code, reason = "describes")]
fn redirect() {}

/// Shows where a link leads, without going there or counting.
#[utoipa::path(get, path = "/{code}+", tag = "public", params(("code" = String, Path)),
    responses((status = 200, content((String = "text/html"))), (status = "4XX", description = "No such link")))]
#[expect(dead_code, reason = "describes")]
fn preview() {}

/// Says that the process is there.
#[utoipa::path(get, path = "/health", tag = "public", responses((status = 200, body = Health)))]
#[expect(dead_code, reason = "describes")]
fn health() {}

/// Says whether redirects are served.
#[utoipa::path(get, path = "/ready", tag = "public",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness, description = "Draining")))]
#[expect(dead_code, reason = "describes")]
fn ready() {}

/// Says how the server does, for Prometheus. A key needs `workspace:admin`; this very machine and a listener of its own need none.
#[utoipa::path(get, path = "/metrics", tag = "public",
    responses((status = 200, content((String = "text/plain"))), (status = 401, description = "Somebody else, without a key"),
        (status = 403, description = "The key does not allow it"), (status = 404, description = "Served on another listener")))]
#[expect(dead_code, reason = "describes")]
fn metrics() {}

/// Describes the API: this document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "public", responses((status = 200, body = Object)))]
#[expect(dead_code, reason = "describes")]
fn description() {}

/// Shows the description as a page.
#[utoipa::path(get, path = "/api/docs", tag = "public", responses((status = 200, content((String = "text/html")))))]
#[expect(dead_code, reason = "describes")]
fn docs() {}
