//! Who asks for a page, and that whoever sends a form meant to. A handler says in its signature which of these it needs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, COOKIE};
use http::request::Parts;
use http::{HeaderMap, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use rlinks_core::error_code::ErrorCode;

use super::{Problem, Web, see_other};
use crate::auth::authorize::Needs;
use crate::auth::caller::Caller;
use crate::auth::connection_info::ConnectionInfo;
use crate::auth::csrf::{FormToken, is_from_elsewhere};
use crate::auth::session::{Sessions, Signed};

/// The longest form.
const MOST_BYTES: usize = 16 * 1024;
/// The longest form about links: the longest target and the longest notes, each byte written as three.
const MOST_BYTES_OF_LINKS: usize = 384 * 1024;
/// Fields in it.
const MOST_FIELDS: usize = 256;

/// A request as every page sees it.
pub struct Visit {
    pub way: Arc<ConnectionInfo>,
    pub headers: HeaderMap,
    pub uri: Uri,
}

/// Somebody who is signed in.
pub struct SignedIn {
    pub visit: Visit,
    pub signed: Signed,
}

/// A form from somebody who is signed in, and meant it.
pub struct Sent {
    pub visit: Visit,
    pub signed: Signed,
    pub form: Form,
}

/// Somebody who is signed in and may see what the type says.
pub struct Looking<N> {
    pub visit: Visit,
    pub signed: Signed,
    pub caller: Caller,
    needs: PhantomData<N>,
}

/// A form from somebody who may do what the type says, and meant it.
pub struct Doing<N> {
    pub visit: Visit,
    pub signed: Signed,
    pub caller: Caller,
    pub form: Form,
    needs: PhantomData<N>,
}

/// A form from somebody who is not signed in, to whom we gave it.
pub struct Asked {
    pub visit: Visit,
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
    pub fn after<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter_map(move |name| name.strip_prefix(prefix))
    }
}

impl Visit {
    /// What a form for somebody who is not signed in needs.
    pub fn form_token(&self, web: &Web) -> FormToken {
        web.auth.forms.issue(&self.headers, &self.way)
    }

    /// A parameter of the query; the first of its name.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.uri.query()?;
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
    }

    /// A cookie that is no secret: the first of its name.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let lines = self.headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// Nobody signs in where the whole network could read along.
    pub fn may_sign_in(&self) -> Result<(), Problem> {
        if self.way.is_allowed() {
            return Ok(());
        }
        Err(Problem::saying(
            ErrorCode::Forbidden,
            "This page came over plain HTTP, where others could read your password. Use https, or http://localhost on the machine itself. \
             The operator can allow this with insecure_cookies",
        ))
    }

    pub(super) fn of(parts: &mut Parts) -> Result<Self, Problem> {
        let way = parts.extensions.get::<Arc<ConnectionInfo>>().cloned();
        let way = way.ok_or_else(|| Problem::new(ErrorCode::Internal))?;
        Ok(Self { way, headers: parts.headers.clone(), uri: parts.uri.clone() })
    }

    pub(super) async fn signed(&self, web: &Web) -> Result<Option<Signed>, Problem> {
        Ok(web.auth.sessions.of(&self.headers, &self.way).await?)
    }
}

impl FromRequestParts<Arc<Web>> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Web>) -> Result<Self, Problem> {
        Self::of(parts)
    }
}

/// Whoever is not signed in is led to where they can be, and back.
impl FromRequestParts<Arc<Web>> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let visit = Visit::of(parts).map_err(IntoResponse::into_response)?;
        match visit.signed(web).await.map_err(IntoResponse::into_response)? {
            Some(signed) => Ok(Self { visit, signed }),
            None => Err(to_login(visit.uri.path_and_query().map(http::uri::PathAndQuery::as_str))),
        }
    }
}

impl FromRequest<Arc<Web>> for Sent {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        sent(request, web, MOST_BYTES).await
    }
}

/// Who is not signed in sends no long form: their cookie is looked at first.
async fn sent(request: Request, web: &Web, most_bytes: usize) -> Result<Sent, Response> {
    let (mut parts, body) = request.into_parts();
    let visit = Visit::of(&mut parts).map_err(IntoResponse::into_response)?;
    let signed = visit.signed(web).await.map_err(IntoResponse::into_response)?;
    let Some(signed) = signed else {
        let mut response = signed_out(&visit, body).await;
        response.headers_mut().append(http::header::SET_COOKIE, Sessions::no_cookie(&visit.way));
        return Err(response);
    };
    let form = read(&visit, body, most_bytes).await.map_err(IntoResponse::into_response)?;
    if is_from_elsewhere(&visit.headers, &visit.way) || !signed.has_shown(form.get("csrf")) {
        return Err(not_meant().into_response());
    }
    Ok(Sent { visit, signed, form })
}

impl FromRequest<Arc<Web>> for Asked {
    type Rejection = Problem;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let visit = Visit::of(&mut parts)?;
        let form = read(&visit, body, MOST_BYTES).await?;
        visit.may_sign_in()?;
        let ours = web.auth.forms.is_ours(&visit.headers, &visit.way, form.get("csrf"));
        if is_from_elsewhere(&visit.headers, &visit.way) || !ours {
            return Err(not_meant());
        }
        Ok(Self { visit, form })
    }
}

impl<N: Needs> FromRequestParts<Arc<Web>> for Looking<N> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let SignedIn { visit, signed } = SignedIn::from_request_parts(parts, web).await?;
        let caller = allowed::<N>(&signed).map_err(IntoResponse::into_response)?;
        Ok(Self { visit, signed, caller, needs: PhantomData })
    }
}

impl<N: Needs> FromRequest<Arc<Web>> for Doing<N> {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        let Sent { visit, signed, form } = sent(request, web, MOST_BYTES_OF_LINKS).await?;
        let caller = allowed::<N>(&signed).map_err(IntoResponse::into_response)?;
        Ok(Self { visit, signed, caller, form, needs: PhantomData })
    }
}

/// The same rules as for a program with this session.
pub(super) fn allowed<N: Needs>(signed: &Signed) -> Result<Caller, Problem> {
    let caller = Caller::of_session(signed.clone());
    match N::SCOPE {
        Some(scope) if !caller.scopes.has(scope) => Err(Problem::saying(
            ErrorCode::Forbidden,
            "Your role does not allow this. An admin can change it",
        )),
        _ => Ok(caller),
    }
}

pub(super) fn not_meant() -> Problem {
    Problem::saying(
        ErrorCode::Forbidden,
        "This form did not come from a page of ours, or has grown old. Open the page again and repeat; cookies have to be allowed",
    )
}

/// Somebody whose session is over sent a form. They are told that it was not saved, and led on to where they were once they have
/// signed in again; the target of a new link comes along.
async fn signed_out(visit: &Visit, body: Body) -> Response {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut parts = visit.uri.path().trim_start_matches("/admin/").split('/');
    let next = match (parts.next().unwrap_or_default(), parts.next()) {
        _ if is_from_elsewhere(&visit.headers, &visit.way) => return to_login(None),
        ("links", None) => match read(visit, body, MOST_BYTES).await {
            Ok(form) => format!("/admin?target={}", encoded(form.get("target"))),
            Err(_) => "/admin".to_owned(),
        },
        ("links", Some("bulk")) => "/admin".to_owned(),
        ("links", Some(code)) => format!("/admin/links/{code}"),
        (page @ ("account" | "keys" | "members" | "domains" | "policy"), _) => format!("/admin/{page}"),
        _ => return to_login(None),
    };
    see_other(&format!("/admin/login?next={}&unsaved=1", encoded(&next)), None)
}

pub(super) fn to_login(next: Option<&str>) -> Response {
    let next = next.filter(|next| *next != "/admin").map(|next| {
        let query: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        format!("?next={query}")
    });
    see_other(&format!("/admin/login{}", next.unwrap_or_default()), None)
}

/// A form as browsers send it, and nothing else: what another site can make a browser send without asking must not look like one.
async fn read(visit: &Visit, body: Body, most_bytes: usize) -> Result<Form, Problem> {
    let kind = visit.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Problem::new(ErrorCode::UnsupportedMediaType));
    }
    let bytes = match Limited::new(body, most_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(Problem::new(ErrorCode::PayloadTooLarge)),
        Err(_) => return Err(Problem::new(ErrorCode::BadRequest)),
    };
    let mut fields = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(&bytes) {
        let twice = fields.insert(name.into_owned(), value.into_owned()).is_some();
        if twice || fields.len() > MOST_FIELDS {
            return Err(Problem::new(ErrorCode::BadRequest));
        }
    }
    Ok(Form(fields))
}
