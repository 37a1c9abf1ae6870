//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use http::header::{HOST, SET_COOKIE};
use rlinks_core::host::{HostBuffer, MAX_HOST_BYTES, from_header};
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Slug, Workspace};

use crate::auth::session::Sessions;
use crate::auth::sign_in::Credentials;
use crate::web::extract::{AnonymousForm, SessionForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other};

/// The longest address somebody is led back to.
const MAX_NEXT_BYTES: usize = 512;

const SIGNED_OUT_MESSAGE: &str = "You were signed out. Sign in to go on.";
const UNSAVED_MESSAGE: &str = "You were signed out, so what you sent last was not saved. Sign in to go on.";

#[derive(Template)]
#[template(path = "sign_in/login.html")]
struct LoginPage<'a> {
    csrf: &'a str,
    next: &'a str,
    /// To be asked for, where the host names none.
    workspace: Option<&'a str>,
    email: &'a str,
    problem: Option<&'a str>,
    /// Why somebody is asked to sign in again.
    ended: Option<&'static str>,
    /// Whether a password can be given here.
    passwords: bool,
    /// Whether an OpenID provider can be gone to.
    oidc: bool,
    /// What was done before somebody was led here.
    done: Option<&'static str>,
    /// There is nobody yet who could sign in.
    is_new: bool,
}

impl<'a> LoginPage<'a> {
    /// For a workspace the host names, or for one that is asked for. Which ways there are is said only of the former: of the latter it
    /// is the workspace's own business.
    fn new(web: &Web, csrf: &'a str, next: &'a str, host: Option<&Workspace>, name: &'a str) -> Self {
        let accepts = |method| host.is_none_or(|workspace| workspace.policy.sign_in.contains(&method));
        Self {
            csrf,
            next,
            workspace: host.is_none().then_some(name),
            email: "",
            problem: None,
            ended: None,
            passwords: accepts(SignInMethod::Password),
            oidc: web.auth.oidc.is_some() && accepts(SignInMethod::Oidc),
            done: None,
            is_new: false,
        }
    }
}

/// The form. Who is signed in already is led on.
pub async fn show(State(web): State<Arc<Web>>, request: WebRequest) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let next = safe_next_path(request.query_param("next").as_deref()).to_owned();
    if web.auth.sessions.current(&request.headers, &request.connection).await?.is_some() {
        return Ok(see_other(&next, None));
    }
    let csrf = request.csrf_token(&web);
    let host = match slug_from_host(&web, &request.headers) {
        Some(slug) => web.store.workspace(&slug).await?,
        None => None,
    };
    let has_session_cookie = Sessions::has_cookie(&request.headers, &request.connection);
    let done = flash_text(&request);
    let template = LoginPage {
        // Whoever signed out themselves knows.
        ended: match (request.query_param("unsaved"), has_session_cookie) {
            (Some(_), _) => Some(UNSAVED_MESSAGE),
            (None, true) if done.is_none() => Some(SIGNED_OUT_MESSAGE),
            (None, _) => None,
        },
        done,
        // Where the store is away the form is there all the same.
        is_new: web.store.setup_pending().await.unwrap_or(false),
        ..LoginPage::new(&web, &csrf.token, &next, host.as_ref(), Slug::MAIN)
    };
    let mut response = render_page(&template)?;
    if has_session_cookie {
        response.headers_mut().append(SET_COOKIE, Sessions::clear_cookie(&request.connection));
    }
    response.headers_mut().extend(csrf.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

fn flash_text(request: &WebRequest) -> Option<&'static str> {
    match request.query_param("done").as_deref() {
        Some("everywhere") => Some("You are signed out everywhere."),
        Some("deleted") => Some("Your account is deleted."),
        _ => None,
    }
}

pub async fn sign_in(State(web): State<Arc<Web>>, submitted: AnonymousForm) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    let host = slug_from_host(&web, &request.headers);
    let name = host.as_ref().map_or_else(|| form.get("workspace").trim().to_lowercase(), Slug::to_string);
    let workspace = match Slug::parse(&name) {
        Ok(slug) => web.store.workspace(&slug).await?,
        Err(_) => None,
    };
    // Whether a workspace that was only named exists, and takes no passwords, is its own business.
    let workspace = workspace.filter(|workspace| host.is_some() || workspace.policy.allows_passwords());
    let given = Credentials { email: form.get("email"), password: form.get("password") };
    let outcome =
        web.auth.sign_in((&name, workspace.as_ref()), given, &request.connection, &request.headers).await;
    let next = safe_next_path(Some(form.get("next")));
    match outcome {
        Ok(started) => Ok(see_other(next, started.cookies(&request.connection))),
        Err(refused) => {
            let problem = PageError::from(refused);
            let csrf = request.csrf_token(&web);
            let named = workspace.as_ref().filter(|_| host.is_some());
            let template = LoginPage {
                email: form.get("email"),
                problem: Some(&problem.message),
                ..LoginPage::new(&web, &csrf.token, next, named, &name)
            };
            Err(problem.clone().rendered_in(&template, csrf.cookie))
        }
    }
}

/// Signs somebody out, here.
pub async fn sign_out(State(web): State<Arc<Web>>, submitted: SessionForm) -> Result<Response, PageError> {
    web.auth.sessions.end(&submitted.current).await?;
    Ok(see_other("/admin/login", Some(Sessions::clear_cookie(&submitted.request.connection))))
}

/// The workspace a request's Host names, if it does: a domain of its own, or its name below the base domain.
pub(crate) fn slug_from_host(web: &Web, headers: &HeaderMap) -> Option<Slug> {
    let mut buffer: HostBuffer = [0; MAX_HOST_BYTES];
    let host = from_header(headers.get(HOST)?.as_bytes(), &mut buffer)?;
    let directory = web.routes.directory.load();
    directory.dedicated_workspace(host).map(|workspace| workspace.slug.clone())
}

/// Where somebody goes after they signed in: a page of the dashboard, and never elsewhere.
pub(crate) fn safe_next_path(requested: Option<&str>) -> &str {
    let is_ours = |path: &str| {
        let rest = path.strip_prefix("/admin");
        path.len() <= MAX_NEXT_BYTES
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !path.contains("//")
            && !path.contains("..")
    };
    requested.filter(|path| is_ours(path)).unwrap_or("/admin")
}

#[cfg(test)]
mod tests {
    use super::safe_next_path;

    #[test]
    fn next_parameter_never_leaves_the_dashboard() {
        for ours in ["/admin", "/admin/account", "/admin?x=1", "/admin/links?search=a%20b"] {
            assert_eq!(safe_next_path(Some(ours)), ours);
        }
        for theirs in [
            "",
            "/",
            "//evil.example",
            "https://evil.example",
            "/admin//evil.example",
            "/admin/..//evil.example",
            "/admin\\evil.example",
            "/administrator",
            "/admin.evil.example",
            "/admin/\r\nSet-Cookie: x=y",
            "javascript:alert(1)",
            &format!("/admin/{}", "x".repeat(600)),
        ] {
            assert_eq!(safe_next_path(Some(theirs)), "/admin", "{theirs:?}");
        }
        assert_eq!(safe_next_path(None), "/admin");
    }
}
