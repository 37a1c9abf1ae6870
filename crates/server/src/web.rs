//! The dashboard: what people see. It calls [`ops`](rlinks_ops) and [`auth`](crate::auth), renders the result here, and works without a script.
//!
//! | to find | look in |
//! |---|---|
//! | who asks, and that they meant it | `extract`: it stands in every handler's signature |
//! | signing in and out, invitations, the first admin | `sign_in` |
//! | one's own account | `account`; what a browser is called, `browser_label` |
//! | links: the list, one link, its form and history, many at once | `links` |
//! | statistics over a range, of a link and of the workspace | `statistics` |
//! | the workspace: log, keys, members, domains, policy, files | `workspace` |
//! | what the next page says about a change | `flash` |
//! | who was stopped by a limit on changes | `limit_notices` |
//! | style and script, light and dark | `assets` |
//!
//! Templates are in `crates/server/templates`; askama escapes what they show. `finish` gives every response its headers.

mod account;
pub(crate) mod assets;
mod browser_label;
pub(crate) mod extract;
pub(crate) mod flash;
pub(crate) mod limit_notices;
pub(crate) mod links;
pub(crate) mod sign_in;
pub(crate) mod statistics;
pub(crate) mod workspace;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use rlinks_core::error_code::{self, ErrorCode};
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::response::ROBOTS_TAG;
use rlinks_store::StoreError;
use serde_json::Value;

use crate::auth::Auth;
use crate::auth::oidc::CALLBACK_PATH;
use crate::auth::session::CurrentSession;
use crate::auth::sign_in::SignInError;
use crate::front_end::FrontEnd;
use crate::redirect::body_budget::BodyRefused;
use crate::web::assets::{script_url, style_url};
use crate::web::extract::WebRequest;
use rlinks_ops::{Ops, OpsError};
use rlinks_routes::RouteCache;
use rlinks_store::clock::Clock;

/// Nothing is loaded from elsewhere, nothing inline runs, nobody frames it, and forms come back to us.
const CSP_HEADER_VALUE: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; connect-src 'self'";

/// What the pages share.
pub struct Web {
    auth: Arc<Auth>,
    front_end: Arc<FrontEnd>,
    ops: Ops,
    store: rlinks_store::Store,
    routes: Arc<RouteCache>,
    clock: Clock,
}

impl Web {
    /// On the runtime the store was opened on.
    pub fn new(auth: Arc<Auth>, front_end: Arc<FrontEnd>, routes: Arc<RouteCache>) -> Self {
        let ops = front_end.ops.clone();
        Self { auth, front_end, store: ops.store.clone(), clock: ops.clock.clone(), ops, routes }
    }
}

/// The routes below `/admin`.
pub fn router(web: &Arc<Web>) -> Router {
    Router::new()
        .route("/admin", get(crate::web::links::list::show))
        .route("/admin/", get(|| async { Redirect::permanent("/admin") }))
        .route(
            "/admin/login",
            get(crate::web::sign_in::login::show).post(crate::web::sign_in::login::sign_in),
        )
        .route(
            "/admin/oidc/start",
            get(crate::web::sign_in::oidc::start).post(crate::web::sign_in::oidc::start_confirmed),
        )
        .route(CALLBACK_PATH, get(crate::web::sign_in::oidc::callback))
        .route("/admin/logout", post(crate::web::sign_in::login::sign_out))
        .route("/admin/setup", get(crate::web::sign_in::setup::show).post(crate::web::sign_in::setup::set_up))
        .route(
            "/admin/invite",
            get(crate::web::sign_in::invitation::show).post(crate::web::sign_in::invitation::accept),
        )
        .route("/admin/invite/{token}", get(crate::web::sign_in::invitation::open))
        .route("/admin/account", get(account::show))
        .route("/admin/account/password", post(account::change_password))
        .route("/admin/account/name", post(account::rename))
        .route("/admin/account/sign-out-others", post(account::sign_out_others))
        .route("/admin/account/sign-out-everywhere", post(account::sign_out_everywhere))
        .route("/admin/account/sessions/{id}/end", post(account::end_session))
        .route("/admin/account/sign-in-reset-seen", post(account::dismiss_sign_in_reset))
        .route("/admin/account/delete", post(account::delete))
        .merge(crate::web::workspace::routes())
        .route("/admin/links", post(crate::web::links::list::create))
        .route("/admin/links/bulk", post(crate::web::links::bulk::apply))
        .route(
            "/admin/links/{code}",
            get(crate::web::links::link::show).post(crate::web::links::link::change),
        )
        .route("/admin/links/{code}/state", post(crate::web::links::link::change_state))
        .route("/admin/links/{code}/rollback", post(crate::web::links::link::roll_back))
        .route("/admin/notices/dismiss", post(limit_notices::dismiss))
        .route("/admin/theme", post(crate::web::assets::choose_theme))
        .route("/admin/style.css", get(crate::web::assets::style))
        .route("/admin/theme.css", get(crate::web::assets::theme))
        .route("/admin/app.js", get(crate::web::assets::script))
        .route("/admin/{*rest}", any(page_not_found))
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(web))
        .layer(from_fn_with_state(Arc::clone(web), finish))
}

async fn page_not_found() -> PageError {
    PageError::with_message(
        ErrorCode::NotFound,
        "Look for a typing mistake in the address. What was here may be gone",
    )
}

async fn method_not_allowed(method: Method) -> PageError {
    PageError::with_message(ErrorCode::MethodNotAllowed, format!("This address does not answer to {method}"))
}

fn render_page(template: &impl Template) -> Result<Response, PageError> {
    match template.render() {
        Ok(text) => Ok(Html(text).into_response()),
        Err(error) => {
            tracing::error!(%error, "a page could not be made");
            Err(PageError::new(ErrorCode::Internal))
        }
    }
}

/// Leads a browser on after it sent a form.
fn see_other(path: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
    let mut response = Redirect::to(path).into_response();
    set_cookies(&mut response, cookies);
    response
}

fn set_cookies(response: &mut Response, cookies: impl IntoIterator<Item = HeaderValue>) {
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// What somebody gets who does not get what they asked for: a page, or the envelope for a program that prefers JSON.
#[derive(Clone, Debug)]
pub struct PageError {
    code: ErrorCode,
    message: String,
    retry_after: Option<u32>,
    /// The form once more, with what was wrong about it.
    page: Option<String>,
    cookie: Option<HeaderValue>,
}

impl PageError {
    /// With the usual words.
    fn new(code: ErrorCode) -> Self {
        Self::with_message(code, code.message())
    }

    fn with_message(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, page: None, cookie: None }
    }

    fn message(&self) -> &str {
        &self.message
    }

    /// Shown in a form that can be filled in again, with the cookie that goes with it.
    fn rendered_in(mut self, template: &impl Template, cookie: Option<HeaderValue>) -> Self {
        self.page = template.render().ok();
        self.cookie = cookie;
        self
    }
}

impl From<BodyRefused> for PageError {
    fn from(refused: BodyRefused) -> Self {
        let error = Self::with_message(refused.code(), refused.to_string());
        Self { retry_after: refused.retry_after(), ..error }
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a page could not be shown");
        Self::new(OpsError::Store(error).code())
    }
}

impl From<OpsError> for PageError {
    fn from(error: OpsError) -> Self {
        match error {
            OpsError::Store(
                error @ (StoreError::Unavailable(_)
                | StoreError::Refused(_)
                | StoreError::Unreadable(_)
                | StoreError::ClicksUnavailable(_)),
            ) => error.into(),
            OpsError::Store(StoreError::RateLimited { seconds, .. })
            | OpsError::RemovalNeedsSession { seconds, .. } => Self {
                retry_after: Some(seconds),
                ..Self::with_message(error.code(), capitalize(&error.to_string()))
            },
            error => Self {
                retry_after: error.rate_limit().map(|status| status.reset_seconds),
                ..Self::with_message(error.code(), capitalize(&error.to_string()))
            },
        }
    }
}

/// A message with a capital letter.
fn capitalize(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl From<SignInError> for PageError {
    fn from(refused: SignInError) -> Self {
        let message = refused.to_string();
        match refused {
            SignInError::InvalidCredentials => Self::with_message(ErrorCode::Unauthenticated, message),
            SignInError::LockedOut(seconds) | SignInError::Delayed(seconds) => {
                Self { retry_after: Some(seconds), ..Self::with_message(ErrorCode::RateLimited, message) }
            }
            SignInError::Busy => {
                Self { retry_after: Some(5), ..Self::with_message(ErrorCode::RateLimited, message) }
            }
            SignInError::PasswordsDisabled => Self::with_message(ErrorCode::Forbidden, message),
            SignInError::LinkExpired => Self::with_message(ErrorCode::NotFound, message),
            SignInError::Field(field) => {
                let name = match field.field.as_str() {
                    "email" => "The e-mail address",
                    "full_name" => "The name",
                    "password" => "The password",
                    other => other,
                };
                Self::with_message(ErrorCode::ValidationFailed, format!("{name} {}", field.message))
            }
            SignInError::Store(StoreError::NameTaken(_)) => {
                Self::with_message(ErrorCode::Conflict, "A member has this e-mail address already")
            }
            SignInError::Store(error) => error.into(),
        }
    }
}

/// Without its body, which [`finish`] writes.
impl IntoResponse for PageError {
    fn into_response(mut self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let unavailable = (self.code == ErrorCode::KvUnavailable).then_some(1);
        if let Some(seconds) = self.retry_after.or(unavailable) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(cookie) = self.cookie.take() {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// What is wrong, to somebody we do not know.
#[derive(Template)]
#[template(path = "errors/error.html")]
struct ErrorPage<'a> {
    title: &'a str,
    message: &'a str,
}

/// The same to somebody who is signed in, and can go on from there.
#[derive(Template)]
#[template(path = "errors/error_signed_in.html")]
struct SignedInErrorPage<'a> {
    current: &'a CurrentSession,
    title: &'a str,
    message: &'a str,
}

/// The page of a problem.
async fn render_error(web: &Web, problem: &PageError, request: Option<&WebRequest>) -> String {
    if let Some(page) = &problem.page {
        return page.clone();
    }
    let title = match problem.code {
        ErrorCode::NotFound => "There is no such page",
        ErrorCode::Forbidden => "This is not for you",
        ErrorCode::MethodNotAllowed | ErrorCode::BadRequest => "This does not work here",
        ErrorCode::KvUnavailable | ErrorCode::Internal => "Something is wrong on our side",
        _ => "This was not done",
    };
    let message = &problem.message;
    // A store that is away knows nobody; then it is the plain page.
    let current = match request.filter(|_| problem.code != ErrorCode::KvUnavailable) {
        Some(request) => request.current_session(web).await.ok().flatten(),
        None => None,
    };
    let page = match &current {
        Some(current) => SignedInErrorPage { current, title, message }.render(),
        None => ErrorPage { title, message }.render(),
    };
    page.unwrap_or_default()
}

/// What every answer says, and the words of those that are a problem.
async fn finish(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let accept: Vec<_> =
        request.headers().get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok()).collect();
    let accept = (!accept.is_empty()).then(|| accept.join(","));
    let as_json = wants_json(request.uri().path(), accept.as_deref());
    let (mut parts, body) = request.into_parts();
    let request = WebRequest::from_parts(&mut parts).ok();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(problem) = response.extensions_mut().remove::<Arc<PageError>>() {
        let (kind, body) = if as_json {
            let envelope = error_code::to_json(problem.code, &problem.message, &Value::Null, web.clock.now());
            ("application/json", envelope)
        } else {
            ("text/html; charset=utf-8", render_error(&web, &problem, request.as_ref()).await)
        };
        // The routes have measured the empty body.
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        *response.body_mut() = Body::from(body);
    }
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CSP_HEADER_VALUE),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("x-robots-tag"), ROBOTS_TAG),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
