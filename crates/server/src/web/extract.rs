//! What a handler takes: who asks for a page, and whether a form was meant. Each stands in the handler's signature.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use rlinks_core::error_code::ErrorCode;

use super::{PageError, Web, see_other};
use crate::auth::authorize::RequiredScope;
use crate::auth::connection_info::ConnectionInfo;
use crate::auth::cookies::Cookie;
use crate::auth::csrf::{CsrfToken, is_cross_site};
use crate::auth::session::{CurrentSession, Sessions};
use crate::redirect::body_budget::{BodyAccount, BodyHolder, BodyRefused};
use rlinks_ops::Caller;
use rlinks_store::LimitStop;

const MAX_FORM_BYTES: usize = 16 * 1024;
/// The longest form about links: the longest target and the longest notes, each byte written as three.
const MAX_LINK_FORM_BYTES: usize = 384 * 1024;
const MAX_FORM_FIELDS: usize = 256;

/// A request as every page sees it.
pub struct WebRequest {
    pub connection: Arc<ConnectionInfo>,
    pub headers: HeaderMap,
    pub uri: Uri,
    /// What the body of the request holds.
    pub body_account: Option<BodyAccount>,
}

/// A signed-in user.
pub struct SessionPage {
    pub request: WebRequest,
    pub current: CurrentSession,
}

/// A form a signed-in user meant to send.
pub struct SessionForm {
    pub request: WebRequest,
    pub current: CurrentSession,
    pub form: Form,
}

/// A signed-in user with the scope that the type names.
pub struct AuthorizedPage<S> {
    pub request: WebRequest,
    pub current: CurrentSession,
    pub caller: Caller,
    scope: PhantomData<S>,
}

/// A form that a signed-in user with the scope that the type names meant to send.
pub struct AuthorizedForm<S> {
    pub request: WebRequest,
    pub current: CurrentSession,
    pub caller: Caller,
    pub form: Form,
    scope: PhantomData<S>,
}

/// A form we gave to a visitor who is not signed in.
pub struct AnonymousForm {
    pub request: WebRequest,
    pub form: Form,
}

/// What a form says.
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// A field; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether a box is ticked.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What follows this prefix in the names of fields: boxes that are ticked.
    pub fn names_after<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter_map(move |name| name.strip_prefix(prefix))
    }
}

impl WebRequest {
    /// What a form needs before sign-in.
    pub fn csrf_token(&self, web: &Web) -> CsrfToken {
        web.auth.csrf_tokens.issue(&self.headers, &self.connection)
    }

    /// A parameter of the query; the first of its name.
    pub fn query_param(&self, name: &str) -> Option<String> {
        let query = self.uri.query()?;
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
    }

    /// A cookie that isn't secret.
    pub fn cookie(&self, cookie: Cookie) -> Option<&str> {
        cookie.first(&self.headers, &self.connection)
    }

    /// Refuses sign-in over a connection that others could read.
    pub fn ensure_sign_in_allowed(&self) -> Result<(), PageError> {
        if self.connection.allows_sign_in() {
            return Ok(());
        }
        Err(PageError::with_message(
            ErrorCode::Forbidden,
            "This page came over plain HTTP, where others could read your password. Use https, or http://localhost on the machine itself. \
             The operator can allow this with insecure_cookies",
        ))
    }

    pub(super) fn from_parts(parts: &mut Parts) -> Result<Self, PageError> {
        let connection = parts.extensions.get::<Arc<ConnectionInfo>>().cloned();
        let connection = connection.ok_or_else(|| PageError::new(ErrorCode::Internal))?;
        let body_account = parts.extensions.get::<BodyAccount>().cloned();
        Ok(Self { connection, headers: parts.headers.clone(), uri: parts.uri.clone(), body_account })
    }

    pub(super) async fn current_session(&self, web: &Web) -> Result<Option<CurrentSession>, PageError> {
        let current = web.auth.sessions.current(&self.headers, &self.connection).await?;
        if let (Some(account), Some(current)) = (&self.body_account, &current) {
            account.set_holder(BodyHolder { principal: current.user.id, workspace: current.workspace.id });
        }
        Ok(current)
    }
}

impl FromRequestParts<Arc<Web>> for WebRequest {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Web>) -> Result<Self, PageError> {
        Self::from_parts(parts)
    }
}

/// Sends a visitor to the sign-in page, and back afterwards.
impl FromRequestParts<Arc<Web>> for SessionPage {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let request = WebRequest::from_parts(parts).map_err(IntoResponse::into_response)?;
        match request.current_session(web).await.map_err(IntoResponse::into_response)? {
            Some(mut current) => {
                current.limit_stops = unseen_stops(web, &current).await;
                Ok(Self { request, current })
            }
            None => Err(redirect_to_login(request.uri.path_and_query().map(http::uri::PathAndQuery::as_str))),
        }
    }
}

/// Stops that the member hasn't dismissed. A store that can't say is no reason to show no page.
async fn unseen_stops(web: &Web, current: &CurrentSession) -> Vec<LimitStop> {
    web.ops.limit_stops(&current.caller()).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "stops by limits could not be read for a page");
        Vec::new()
    })
}

impl FromRequest<Arc<Web>> for SessionForm {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        read_session_form(request, web, MAX_FORM_BYTES).await
    }
}

/// Who is not signed in sends no long form: their cookie is looked at first.
async fn read_session_form(request: Request, web: &Web, max_bytes: usize) -> Result<SessionForm, Response> {
    let (mut parts, body) = request.into_parts();
    let request = WebRequest::from_parts(&mut parts).map_err(IntoResponse::into_response)?;
    let current = request.current_session(web).await.map_err(IntoResponse::into_response)?;
    let Some(current) = current else {
        let mut response = redirect_after_expired_session(&request, body).await;
        response.headers_mut().append(http::header::SET_COOKIE, Sessions::clear_cookie(&request.connection));
        return Err(response);
    };
    let form = read_form(&request, body, max_bytes).await.map_err(IntoResponse::into_response)?;
    if is_cross_site(&request.headers, &request.connection) || !current.csrf_matches(form.get("csrf")) {
        return Err(csrf_failed().into_response());
    }
    Ok(SessionForm { request, current, form })
}

impl FromRequest<Arc<Web>> for AnonymousForm {
    type Rejection = PageError;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, PageError> {
        let (mut parts, body) = request.into_parts();
        let request = WebRequest::from_parts(&mut parts)?;
        let form = read_form(&request, body, MAX_FORM_BYTES).await?;
        request.ensure_sign_in_allowed()?;
        let ours = web.auth.csrf_tokens.is_valid(&request.headers, &request.connection, form.get("csrf"));
        if is_cross_site(&request.headers, &request.connection) || !ours {
            return Err(csrf_failed());
        }
        Ok(Self { request, form })
    }
}

impl<S: RequiredScope> FromRequestParts<Arc<Web>> for AuthorizedPage<S> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let SessionPage { request, current } = SessionPage::from_request_parts(parts, web).await?;
        let caller = authorize::<S>(&current).map_err(IntoResponse::into_response)?;
        Ok(Self { request, current, caller, scope: PhantomData })
    }
}

impl<S: RequiredScope> FromRequest<Arc<Web>> for AuthorizedForm<S> {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        let SessionForm { request, current, form } =
            read_session_form(request, web, MAX_LINK_FORM_BYTES).await?;
        let caller = authorize::<S>(&current).map_err(IntoResponse::into_response)?;
        Ok(Self { request, current, caller, form, scope: PhantomData })
    }
}

/// The same rules as for a program with this session.
pub(super) fn authorize<S: RequiredScope>(current: &CurrentSession) -> Result<Caller, PageError> {
    let caller = current.caller();
    match S::SCOPE {
        Some(scope) if !caller.scopes.contains(scope) => Err(PageError::with_message(
            ErrorCode::Forbidden,
            "Your role does not allow this. An admin can change it",
        )),
        _ => Ok(caller),
    }
}

pub(super) fn csrf_failed() -> PageError {
    PageError::with_message(
        ErrorCode::Forbidden,
        "This form did not come from a page of ours, or has grown old. Open the page again and repeat; cookies have to be allowed",
    )
}

/// Somebody whose session is over sent a form. They are told that it was not saved, and led on to where they were once they have
/// signed in again; the target of a new link comes along.
async fn redirect_after_expired_session(request: &WebRequest, body: Body) -> Response {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut parts = request.uri.path().trim_start_matches("/admin/").split('/');
    let next = match (parts.next().unwrap_or_default(), parts.next()) {
        _ if is_cross_site(&request.headers, &request.connection) => return redirect_to_login(None),
        ("links", None) => match read_form(request, body, MAX_FORM_BYTES).await {
            Ok(form) => format!("/admin?target={}", encoded(form.get("target"))),
            Err(_) => "/admin".to_owned(),
        },
        ("links", Some("bulk")) => "/admin".to_owned(),
        ("links", Some(code)) => format!("/admin/links/{code}"),
        (page @ ("account" | "keys" | "members" | "domains" | "policy"), _) => format!("/admin/{page}"),
        _ => return redirect_to_login(None),
    };
    see_other(&format!("/admin/login?next={}&unsaved=1", encoded(&next)), None)
}

pub(super) fn redirect_to_login(next: Option<&str>) -> Response {
    let next = next.filter(|next| *next != "/admin").map(|next| {
        let query: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        format!("?next={query}")
    });
    see_other(&format!("/admin/login{}", next.unwrap_or_default()), None)
}

/// A form as browsers send it, and nothing else: what another site can make a browser send without asking must not look like one.
async fn read_form(request: &WebRequest, body: Body, max_bytes: usize) -> Result<Form, PageError> {
    let kind = request.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(PageError::new(ErrorCode::UnsupportedMediaType));
    }
    let bytes = match Limited::new(body, max_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(PageError::new(ErrorCode::PayloadTooLarge));
        }
        Err(error) => {
            let refused = BodyRefused::find(&*error).map(PageError::from);
            return Err(refused.unwrap_or_else(|| PageError::new(ErrorCode::BadRequest)));
        }
    };
    let mut fields = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(&bytes) {
        let twice = fields.insert(name.into_owned(), value.into_owned()).is_some();
        if twice || fields.len() > MAX_FORM_FIELDS {
            return Err(PageError::new(ErrorCode::BadRequest));
        }
    }
    Ok(Form(fields))
}
