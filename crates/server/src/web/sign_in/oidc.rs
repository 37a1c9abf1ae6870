//! Signing in with the OpenID provider: there and back.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::HeaderValue;
use rlinks_core::access::api_key;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Slug, User, Workspace};
use url::Url;

use super::login::{safe_next_path, slug_from_host};
use crate::auth::cookies::{Cookie, Lifetime};
use crate::auth::oidc::Oidc;
use crate::auth::oidc::login::{Callback, CompletedLogin, LOGIN_TIMEOUT_SECONDS, LoginError, LoginRequest};
use crate::auth::oidc::provision::{ProvisionError, allows_oidc};
use crate::auth::session::{CurrentSession, token_cookie};
use crate::auth::sign_in::SignInError;
use crate::web::extract::{AnonymousForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other, set_cookies};

/// Longer cookies are not ours.
const MAX_COOKIE_BYTES: usize = 2048;

#[derive(Template)]
#[template(path = "sign_in/oidc_redirect.html")]
struct OidcRedirectPage<'a> {
    location: &'a str,
}

/// Asks before switching from the signed-in workspace to another: following a link must not do that.
#[derive(Template)]
#[template(path = "sign_in/switch_workspace.html")]
struct SwitchWorkspacePage<'a> {
    csrf: &'a str,
    current: &'a CurrentSession,
    workspace: &'a str,
    next: &'a str,
}

/// Sends the browser to the provider.
pub async fn start(State(web): State<Arc<Web>>, request: WebRequest) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let oidc = provider(&web)?;
    // Where earlier pages of an invitation led to.
    if let Some(token) = request.query_param("invitation") {
        if !token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(SignInError::LinkExpired.into());
        }
        return Ok(see_other(&format!("/admin/invite/{token}"), None));
    }
    if let Some(location) = url_on_redirect_host(oidc, &request) {
        return Ok(see_other(&location, None));
    }
    // Whether there is such a workspace, and whether it lets people in this way, is said to whom the provider knows.
    let named = request.query_param("workspace").unwrap_or_else(|| Slug::MAIN.to_owned());
    let workspace = requested_workspace(&web, &request, &named);
    let next = safe_next_path(request.query_param("next").as_deref()).to_owned();
    let current = request.current_session(&web).await?;
    if let Some(current) = current.filter(|current| current.workspace.slug.as_str() != workspace) {
        let csrf = request.csrf_token(&web);
        let page = SwitchWorkspacePage {
            csrf: &csrf.token,
            current: &current,
            workspace: if workspace.is_empty() { named.trim() } else { &workspace },
            next: &next,
        };
        let mut response = render_page(&page)?;
        set_cookies(&mut response, csrf.cookie);
        return Ok(response);
    }
    let (location, cookie) =
        begin(&web, &request, LoginRequest { workspace, next, invitation: None }).await?;
    if request.query_param("via").as_deref() == Some("form") {
        return leave_after_form(&location, cookie);
    }
    Ok(see_other(&location, cookie))
}

/// The same once the workspace was confirmed: with the invitation they opened, or to another workspace than theirs.
pub async fn start_confirmed(
    State(web): State<Arc<Web>>,
    submitted: AnonymousForm,
) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    provider(&web)?;
    let next = safe_next_path(Some(form.get("next"))).to_owned();
    let login_request = if form.has("invitation") {
        let token = token_cookie(&request.headers, &request.connection, Cookie::Invitation);
        let token = token.ok_or(SignInError::LinkExpired)?;
        let workspace = web.auth.invitation(token).await?.workspace;
        if !allows_oidc(&workspace) {
            return Err(ProvisionError::WorkspaceUnavailable.into());
        }
        let invitation = Some(api_key::hash_secret(token));
        LoginRequest { workspace: workspace.slug.to_string(), next, invitation }
    } else {
        let workspace = requested_workspace(&web, &request, form.get("workspace"));
        LoginRequest { workspace, next, invitation: None }
    };
    let (location, cookie) = begin(&web, &request, login_request).await?;
    leave_after_form(&location, cookie)
}

/// Where the provider is, and what the browser keeps meanwhile.
async fn begin(
    web: &Web,
    request: &WebRequest,
    login_request: LoginRequest,
) -> Result<(String, Option<HeaderValue>), PageError> {
    let redirect = provider(web)?.begin_login(login_request, web.ops.random.bytes()).await?;
    let lifetime = Lifetime::Seconds(LOGIN_TIMEOUT_SECONDS);
    let cookie = Cookie::OidcLogin.set(&request.connection, &redirect.cookie, lifetime);
    Ok((redirect.location, cookie))
}

/// A form of ours may lead to our own pages only, so submitting one leads to a page with one more step.
fn leave_after_form(location: &str, cookie: Option<HeaderValue>) -> Result<Response, PageError> {
    let mut response = render_page(&OidcRedirectPage { location })?;
    set_cookies(&mut response, cookie);
    Ok(response)
}

/// The slug of the workspace to sign in to: the Host's, or the one the user names. What can be no slug is empty.
fn requested_workspace(web: &Web, request: &WebRequest, named: &str) -> String {
    let slug = slug_from_host(web, &request.headers).or_else(|| Slug::parse(named.trim()).ok());
    slug.map(|slug| slug.to_string()).unwrap_or_default()
}

/// Completes the sign-in when the browser comes back.
pub async fn callback(State(web): State<Arc<Web>>, request: WebRequest) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let oidc = provider(&web)?;
    // Whatever comes of it, this trip is over.
    let cleared = Cookie::OidcLogin.clear(&request.connection);
    let completed = complete_login(&web, oidc, &request).await;
    let (cookies, next) =
        completed.map_err(|problem| PageError { cookie: Some(cleared.clone()), ..problem })?;
    let mut response = see_other(&next, cookies);
    set_cookies(&mut response, [cleared]);
    Ok(response)
}

/// The cookies of the session that begins, and where it begins.
async fn complete_login(
    web: &Web,
    oidc: &Oidc,
    request: &WebRequest,
) -> Result<(Vec<HeaderValue>, String), PageError> {
    let cookie = Cookie::OidcLogin
        .single(&request.headers, &request.connection)
        .filter(|value| value.len() <= MAX_COOKIE_BYTES);
    let callback = Callback::parse(request.uri.query().unwrap_or_default());
    let CompletedLogin { identity, request: login_request } = oidc.finish_login(callback, cookie).await?;
    let slug = Slug::parse(&login_request.workspace).map_err(|_| ProvisionError::WorkspaceUnavailable)?;
    let workspace: Workspace =
        web.store.workspace(&slug).await?.ok_or(ProvisionError::WorkspaceUnavailable)?;
    let user: User = match &login_request.invitation {
        Some(hash) => oidc.accept_invitation(&workspace, &identity, hash).await?,
        None => oidc.sign_in(&workspace, &identity).await?,
    };
    let started = web.auth.sign_in_by_provider(&user, &request.connection, &request.headers).await?;
    let mut cookies = started.cookies(&request.connection);
    if login_request.invitation.is_some() {
        cookies.push(Cookie::Invitation.clear(&request.connection));
    }
    Ok((cookies, login_request.next))
}

fn provider(web: &Web) -> Result<&Oidc, PageError> {
    web.auth.oidc.as_ref().ok_or_else(|| PageError::new(ErrorCode::NotFound))
}

/// The same page where the provider sends people back to, if that is another host than this: a cookie of this one would not be there.
pub(super) fn url_on_redirect_host(oidc: &Oidc, request: &WebRequest) -> Option<String> {
    let mut url = Url::parse(oidc.redirect_uri()).ok()?;
    // Once: who comes from there and is still elsewhere is behind a proxy that says so.
    if request.connection.is_own_origin(&url.origin().ascii_serialization())
        || request.query_param("moved").is_some()
    {
        return None;
    }
    url.set_path(request.uri.path());
    url.set_query(request.uri.query());
    url.query_pairs_mut().append_pair("moved", "1");
    Some(url.into())
}

impl From<LoginError> for PageError {
    fn from(error: LoginError) -> Self {
        let code = match &error {
            LoginError::InvalidState
            | LoginError::WrongIssuer
            | LoginError::Denied(_)
            | LoginError::CodeRejected
            | LoginError::Token(_) => ErrorCode::Forbidden,
            LoginError::ProviderUnavailable(reason) => {
                tracing::warn!(%reason, "somebody could not sign in with the OpenID provider");
                ErrorCode::KvUnavailable
            }
        };
        Self::with_message(code, error.to_string())
    }
}

impl From<ProvisionError> for PageError {
    fn from(refused: ProvisionError) -> Self {
        match refused {
            ProvisionError::Store(error) => error.into(),
            ProvisionError::EmailTaken | ProvisionError::AlreadyMember => {
                Self::with_message(ErrorCode::Conflict, refused.to_string())
            }
            ProvisionError::InvitationExpired => Self::with_message(ErrorCode::NotFound, refused.to_string()),
            _ => Self::with_message(ErrorCode::Forbidden, refused.to_string()),
        }
    }
}
