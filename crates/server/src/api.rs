//! The REST API: what programs see. It parses, calls [`ops`](rlinks_ops) and renders.
//!
//! Every route says in its signature which scope it needs (`auth::authorize`), and beside it what it takes and gives, from which the
//! API's own description is made. `authentication` runs before all of them.

mod audit;
pub(crate) mod authentication;
pub(crate) mod create_links;
pub(crate) mod docs_page;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod import_export;
pub(crate) mod keys;
pub(crate) mod link_shapes;
pub(crate) mod links;
mod live;
pub(crate) mod members;
pub(crate) mod openapi;
mod qr;
mod sessions;
pub(crate) mod statistics;
mod workspace;

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use rlinks_clicks::Click;
use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{FieldCode, FieldError, Timestamp};
use rlinks_store::StoreError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::{InfoBuilder, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;

use self::error::ApiError;
use self::live::LiveHub;
use crate::auth::Auth;
use crate::front_end::FrontEnd;
use rlinks_wire::Page;

/// The first segment of everything here.
pub const PATH_PREFIX: &str = "/api";
/// Between two looks for new clicks, while somebody listens.
const LIVE_POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Numbers of clicks looked through at once.
const MAX_CLICKS_PER_POLL: i64 = 5_000;

/// What the routes share.
pub struct Api {
    front_end: Arc<FrontEnd>,
    pub(crate) auth: Arc<Auth>,
    live: LiveHub<Click>,
    /// The last click before somebody began to listen, until the first look for them.
    listening_from: Mutex<Option<i64>>,
}

impl Deref for Api {
    type Target = FrontEnd;

    fn deref(&self) -> &FrontEnd {
        &self.front_end
    }
}

impl Api {
    pub fn new(front_end: Arc<FrontEnd>, auth: Arc<Auth>) -> Self {
        Self { front_end, auth, live: LiveHub::new(), listening_from: Mutex::default() }
    }

    fn open_cursor<T: DeserializeOwned>(&self, context: &str, text: &str) -> Result<T, FieldError> {
        self.cursors().open(context, text).ok_or_else(|| {
            FieldError::new(
                "cursor",
                FieldCode::BadCharacters,
                "is no cursor of this list; begin without one",
            )
        })
    }

    /// A page of rows, of which one more than asked for was read.
    fn page<T>(&self, context: &str, mut rows: Vec<T>, limit: i64, position: impl Fn(&T) -> i64) -> Page<T> {
        let limit = usize::try_from(limit).unwrap_or_default();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| more).map(position);
        Page { data: rows, next_cursor: last.map(|last| self.cursors().seal(context, &last)) }
    }

    /// Sends new clicks to the stream's listeners until the task is dropped.
    pub async fn run(self: Arc<Self>) {
        self.publish_new_clicks().await;
    }

    /// Sends listeners away, so that their connections can end.
    pub fn close_streams(&self) {
        self.live.close();
    }

    /// Tells listeners of clicks as they are stored, by whichever process. While nobody listens it does nothing.
    async fn publish_new_clicks(&self) {
        let mut after = None;
        loop {
            tokio::time::sleep(LIVE_POLL_INTERVAL).await;
            let workspaces = self.live.subscribed_workspaces();
            let from = self.listening_from.lock().take();
            if workspaces.is_empty() {
                after = None;
                continue;
            }
            after = after.or(from);
            if let Err(error) = self.publish_since(&workspaces, &mut after).await {
                tracing::debug!(%error, "listeners are not told of clicks");
            }
        }
    }

    /// Somebody listens from here on: what is stored before the next look is for them too. Where the clicks cannot be asked, they hear
    /// what comes after it.
    async fn mark_listening(&self) {
        let last = async { self.clicks().await?.last_event().await };
        if let Ok(last) = last.await {
            self.listening_from.lock().get_or_insert(last);
        }
    }

    async fn publish_since(
        &self,
        workspaces: &[rlinks_core::Id],
        after: &mut Option<i64>,
    ) -> Result<(), StoreError> {
        let clicks = self.clicks().await?;
        let last = clicks.last_event().await?;
        let Some(from) = after.replace(last).filter(|from| *from < last) else { return Ok(()) };
        // Who is further behind than this would hear of it from the number that was lost.
        let from = from.max(last - MAX_CLICKS_PER_POLL);
        for workspace in workspaces {
            let during = Timestamp::from_ms(i64::MIN)..Timestamp::from_ms(i64::MAX);
            let filter = EventFilter { workspace: *workspace, link: None, during };
            let mut codes = Codes::new(self.ops.store.clone());
            let (found, _) = clicks.events_after(&filter, from, MAX_CLICKS_PER_POLL, &mut codes).await?;
            for click in found {
                self.live.publish(*workspace, Arc::new(click));
            }
        }
        Ok(())
    }
}

fn api_routes() -> OpenApiRouter<Arc<Api>> {
    let info = InfoBuilder::new()
        .title("rlinks")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Short links: make, change and follow them, and see how they are used."))
        .build();
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build())
        .merge(links::routes())
        .merge(crate::api::import_export::routes())
        .merge(crate::api::statistics::routes())
        .merge(keys::routes())
        .merge(crate::api::members::routes())
        .merge(sessions::routes())
        .merge(workspace::routes())
        .merge(audit::routes())
}

/// The API's own description, OpenAPI 3.1.
pub fn openapi() -> &'static Value {
    static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
        let (_, described) = api_routes().split_for_parts();
        let mut description =
            serde_json::to_value(described.merge_from(crate::api::openapi::PublicRoutes::openapi()))
                .expect("a description is JSON");
        add_common_schemas(&mut description);
        description
    });
    &DESCRIPTION
}

/// Bodies that are taken. A field none of them has is an error.
const REQUEST_SCHEMAS: [&str; 9] = [
    "NewLink",
    "LinkChange",
    "Bulk",
    "NewKey",
    "NewUser",
    "UserChange",
    "WorkspaceChange",
    "NewDomain",
    "DomainChange",
];

/// What all routes have in common: the error, and the credential.
fn add_common_schemas(description: &mut Value) {
    description["components"]["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "An API key, or an access token of the OpenID provider" },
        "session": {
            "type": "apiKey", "in": "cookie", "name": "__Host-rlinks",
            "description": "The dashboard's session. What changes something needs its token in `X-CSRF-Token` too",
        },
    });
    description["components"]["schemas"]["Error"] = json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "status", "message", "details", "ts"],
            "properties": {
                "code": { "type": "string", "example": "VALIDATION_FAILED" },
                "status": { "type": "integer" },
                "message": { "type": "string" },
                "details": { "type": ["object", "null"] },
                "ts": { "type": "string", "format": "date-time" },
            },
        } },
    });
    let error = json!({
        "description": "An error",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    });
    for schema in REQUEST_SCHEMAS {
        description["components"]["schemas"][schema]["additionalProperties"] = false.into();
    }
    let Some(paths) = description["paths"].as_object_mut() else { return };
    for (path, operations) in paths {
        let Some(operations) = operations.as_object_mut() else { continue };
        for operation in operations.values_mut() {
            if path.starts_with("/api/v1/") {
                operation["responses"]["default"] = error.clone();
                operation["security"] = json!([{ "bearer": [] }, { "session": [] }]);
            }
            let [tag, name] = [&operation["tags"][0], &operation["operationId"]]
                .map(|name| name.as_str().unwrap_or_default());
            operation["operationId"] = format!("{tag}_{name}").into();
            normalize_operation(operation);
        }
    }
}

/// What the macros leave open: every response has a description, and what comes in a query or a header is never null.
fn normalize_operation(operation: &mut Value) {
    if let Some(responses) = operation["responses"].as_object_mut() {
        for (status, response) in responses {
            if response["description"].as_str().is_none_or(str::is_empty) {
                let reason =
                    status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok()?.canonical_reason());
                response["description"] = reason.unwrap_or("An answer").into();
            }
        }
    }
    if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
        for parameter in parameters {
            if let Some([kind, null]) = parameter["schema"]["type"].as_array().map(Vec::as_slice)
                && null == "null"
            {
                parameter["schema"]["type"] = kind.clone();
            }
        }
    }
}

/// The routes below `/api`.
pub fn router(api: &Arc<Api>) -> Router {
    let (v1, _) = api_routes().split_for_parts();
    let v1 = v1
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(api), self::authentication::authenticate))
        .with_state(Arc::clone(api));
    let pages = Router::new()
        .route("/api/openapi.json", axum::routing::get(openapi_json))
        .route("/api/docs", axum::routing::get(docs))
        .route("/api", axum::routing::any(not_found))
        .route("/api/", axum::routing::any(not_found))
        .route("/api/{*rest}", axum::routing::any(not_found))
        .method_not_allowed_fallback(wrong_method);
    Router::new().merge(v1).merge(pages).layer(from_fn_with_state(Arc::clone(api), add_common_headers))
}

async fn openapi_json() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi().to_string());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

async fn docs() -> Response {
    static PAGE: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
        let policy = format!(
            "default-src 'none'; style-src {}; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            crate::api::docs_page::style_source()
        );
        (
            crate::api::docs_page::page(openapi()),
            HeaderValue::from_str(&policy).expect("a policy is a header value"),
        )
    });
    let (page, policy) = &*PAGE;
    ([(CONTENT_SECURITY_POLICY, policy.clone())], axum::response::Html(page.as_str())).into_response()
}

async fn wrong_method(method: Method) -> ApiError {
    ApiError::with_message(ErrorCode::MethodNotAllowed, format!("This address does not answer to {method}"))
}

async fn not_found() -> ApiError {
    ApiError::new(ErrorCode::NotFound)
}

/// What every answer of the API says.
async fn add_common_headers(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    error::write_envelope(&mut response, api.ops.clock.now());
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    response
}
