//! Signing in with the OpenID provider: there and back.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use rlinks_core::access::api_key;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Slug, User, Workspace};
use rlinks_store::How;
use url::Url;

use super::login::{named_by_host, next};
use crate::auth::connection_info::ConnectionInfo;
use crate::auth::oidc::Oidc;
use crate::auth::oidc::login::{Arrival, Callback, FlowError, GOOD_SECONDS, Wish};
use crate::auth::oidc::provision::{Refused, is_open};
use crate::web::extract::Visit;
use crate::web::{Problem, Web, page, see_other};
use rlinks_store::clock::random_bytes;

/// What somebody's browser keeps while they are at the provider, but for its prefix.
const COOKIE_NAME: &str = "rlinks-oidc";
/// Longer ones are not ours.
const LONGEST_COOKIE: usize = 2048;

#[derive(Template)]
#[template(path = "leave.html")]
struct LeavePage<'a> {
    location: &'a str,
}

/// Sends somebody to the provider.
pub async fn start(State(web): State<Arc<Web>>, visit: Visit) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let oidc = provider(&web)?;
    if let Some(location) = elsewhere(oidc, &visit) {
        return Ok(see_other(&location, None));
    }
    let invitation = visit.parameter("invitation");
    let workspace = match &invitation {
        Some(token) => Some(web.auth.invited(token).await?.workspace),
        None => wanted(&web, &visit).await?,
    };
    let workspace = workspace.filter(is_open).ok_or(Refused::Workspace)?;
    let wish = Wish {
        workspace: workspace.slug.to_string(),
        next: next(visit.parameter("next").as_deref()).to_owned(),
        invitation: invitation.map(|token| api_key::hash(&token)),
    };
    let departure = oidc.begin(wish, random_bytes()).await?;
    let cookie = cookie(&visit.way, &departure.cookie, GOOD_SECONDS);
    // A form of ours may lead to our own pages only, so somebody who sent one takes one more step by themselves.
    if visit.parameter("via").as_deref() == Some("form") {
        let mut response = page(&LeavePage { location: &departure.location })?;
        response.headers_mut().append(SET_COOKIE, cookie);
        return Ok(response);
    }
    Ok(see_other(&departure.location, Some(cookie)))
}

/// The workspace somebody wants to go to: the Host's, or the one they name.
async fn wanted(web: &Web, visit: &Visit) -> Result<Option<Workspace>, Problem> {
    let named = visit.parameter("workspace").unwrap_or_else(|| Slug::MAIN.to_owned());
    match named_by_host(web, &visit.headers).or_else(|| Slug::parse(named.trim()).ok()) {
        Some(slug) => Ok(web.store.workspace(&slug).await?),
        None => Ok(None),
    }
}

/// Takes somebody back who was at the provider.
pub async fn callback(State(web): State<Arc<Web>>, visit: Visit) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let oidc = provider(&web)?;
    // Whatever comes of it, this trip is over.
    let over = cookie(&visit.way, "", 0);
    let arrived = arrive(&web, oidc, &visit).await;
    let (started, next) = arrived.map_err(|problem| Problem { cookie: Some(over.clone()), ..problem })?;
    let mut response = see_other(&next, Some(started));
    response.headers_mut().append(SET_COOKIE, over);
    Ok(response)
}

/// The cookie of the session that begins, and where it begins.
async fn arrive(web: &Web, oidc: &Oidc, visit: &Visit) -> Result<(HeaderValue, String), Problem> {
    let kept = kept(&visit.headers, &visit.way.cookie_name(COOKIE_NAME));
    let callback = Callback::parse(visit.uri.query().unwrap_or_default());
    let Arrival { identity, wish } = oidc.finish(callback, kept).await?;
    let slug = Slug::parse(&wish.workspace).map_err(|_| Refused::Workspace)?;
    let workspace: Workspace = web.store.workspace(&slug).await?.ok_or(Refused::Workspace)?;
    let user: User = match &wish.invitation {
        Some(hash) => oidc.accept(&workspace, &identity, hash).await?,
        None => oidc.admit(&workspace, &identity).await?,
    };
    let started = web.auth.sessions.start(&user, How::Oidc, &visit.way, &visit.headers).await?;
    Ok((started.cookie(&visit.way), wish.next))
}

fn provider(web: &Web) -> Result<&Oidc, Problem> {
    web.auth.oidc.as_ref().ok_or_else(|| Problem::new(ErrorCode::NotFound))
}

/// The same page where the provider sends people back to, if that is another host than this: a cookie of this one would not be there.
fn elsewhere(oidc: &Oidc, visit: &Visit) -> Option<String> {
    let mut url = Url::parse(oidc.redirect_uri()).ok()?;
    // Once: who comes from there and is still elsewhere is behind a proxy that says so.
    if visit.way.is_own(&url.origin().ascii_serialization()) || visit.parameter("moved").is_some() {
        return None;
    }
    url.set_path(visit.uri.path());
    url.set_query(visit.uri.query());
    url.query_pairs_mut().append_pair("moved", "1");
    Some(url.into())
}

fn cookie(way: &ConnectionInfo, value: &str, seconds: i64) -> HeaderValue {
    let name = way.cookie_name(COOKIE_NAME);
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{}", way.secure());
    HeaderValue::from_str(&text).expect("a cookie of ours is plain text")
}

/// The one cookie of this name. Two are none: one of them is somebody else's.
fn kept<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(given, _)| *given == name).map(|(_, value)| value);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    (value.len() <= LONGEST_COOKIE).then_some(value)
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let code = match &error {
            FlowError::State
            | FlowError::Issuer
            | FlowError::Denied(_)
            | FlowError::Code
            | FlowError::Token(_) => ErrorCode::Forbidden,
            FlowError::Away(reason) => {
                tracing::warn!(%reason, "somebody could not sign in with the OpenID provider");
                ErrorCode::KvUnavailable
            }
        };
        Self::saying(code, error.to_string())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Store(error) => error.into(),
            Refused::EmailTaken | Refused::Member => Self::saying(ErrorCode::Conflict, refused.to_string()),
            Refused::Invitation => Self::saying(ErrorCode::NotFound, refused.to_string()),
            _ => Self::saying(ErrorCode::Forbidden, refused.to_string()),
        }
    }
}
