//! The description of what visitors see. The routes themselves are the redirect path's.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Describes; nobody calls these.
pub fn described() -> OpenApiRouter {
    OpenApiRouter::new()
        .routes(routes!(redirect))
        .routes(routes!(preview))
        .routes(routes!(health))
        .routes(routes!(ready))
}

/// Whether the process is there.
#[derive(Serialize, ToSchema)]
struct Health {
    #[schema(example = "ok")]
    status: String,
    version: String,
}

/// Whether it serves.
#[derive(Serialize, ToSchema)]
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
async fn redirect() {}

/// Shows where a link leads, without going there or counting.
#[utoipa::path(get, path = "/{code}+", tag = "public", params(("code" = String, Path)),
    responses((status = 200, content((String = "text/html"))), (status = "4XX", description = "No such link")))]
async fn preview() {}

/// Says that the process is there.
#[utoipa::path(get, path = "/health", tag = "public", responses((status = 200, body = Health)))]
async fn health() {}

/// Says whether redirects are served.
#[utoipa::path(get, path = "/ready", tag = "public",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness, description = "Draining")))]
async fn ready() {}
