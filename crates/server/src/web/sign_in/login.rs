//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use http::header::{HOST, SET_COOKIE};
use rlinks_core::host::{HostBuffer, LONGEST, from_header};
use rlinks_core::workspace::policy::SignIn;
use rlinks_core::{Slug, Workspace};

use crate::auth::session::Sessions;
use crate::auth::sign_in::Credentials;
use crate::web::extract::{Asked, Sent, Visit};
use crate::web::{Problem, Web, page, see_other};

/// The longest address somebody is led back to.
const LONGEST_NEXT: usize = 512;

const SIGNED_OUT: &str = "You were signed out. Sign in to go on.";
const UNSAVED: &str = "You were signed out, so what you sent last was not saved. Sign in to go on.";

#[derive(Template)]
#[template(path = "login.html")]
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
        let ways = |way| host.is_none_or(|workspace| workspace.policy.sign_in.contains(&way));
        Self {
            csrf,
            next,
            workspace: host.is_none().then_some(name),
            email: "",
            problem: None,
            ended: None,
            passwords: ways(SignIn::Password),
            oidc: web.auth.oidc.is_some() && ways(SignIn::Oidc),
            done: None,
            is_new: false,
        }
    }
}

/// The form. Who is signed in already is led on.
pub async fn show(State(web): State<Arc<Web>>, visit: Visit) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let next = next(visit.parameter("next").as_deref()).to_owned();
    if web.auth.sessions.of(&visit.headers, &visit.way).await?.is_some() {
        return Ok(see_other(&next, None));
    }
    let form = visit.form_token(&web);
    let host = match named_by_host(&web, &visit.headers) {
        Some(slug) => web.store.workspace(&slug).await?,
        None => None,
    };
    let is_over = Sessions::is_brought(&visit.headers, &visit.way);
    let done = done(&visit);
    let template = LoginPage {
        // Whoever signed out themselves knows.
        ended: match (visit.parameter("unsaved"), is_over) {
            (Some(_), _) => Some(UNSAVED),
            (None, true) if done.is_none() => Some(SIGNED_OUT),
            (None, _) => None,
        },
        done,
        // Where the store is away the form is there all the same.
        is_new: web.store.awaits_setup().await.unwrap_or(false),
        ..LoginPage::new(&web, &form.token, &next, host.as_ref(), Slug::MAIN)
    };
    let mut response = page(&template)?;
    if is_over {
        response.headers_mut().append(SET_COOKIE, Sessions::no_cookie(&visit.way));
    }
    response.headers_mut().extend(form.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

fn done(visit: &Visit) -> Option<&'static str> {
    match visit.parameter("done").as_deref() {
        Some("everywhere") => Some("You are signed out everywhere."),
        Some("deleted") => Some("Your account is deleted."),
        _ => None,
    }
}

/// Signs somebody in.
pub async fn sign_in(State(web): State<Arc<Web>>, asked: Asked) -> Result<Response, Problem> {
    let Asked { visit, form } = asked;
    let host = named_by_host(&web, &visit.headers);
    let name = host.as_ref().map_or_else(|| form.get("workspace").trim().to_lowercase(), Slug::to_string);
    let workspace = match Slug::parse(&name) {
        Ok(slug) => web.store.workspace(&slug).await?,
        Err(_) => None,
    };
    let given = Credentials { email: form.get("email"), password: form.get("password") };
    let signed = web.auth.sign_in((&name, workspace.as_ref()), given, &visit.way, &visit.headers).await;
    let next = next(Some(form.get("next")));
    match signed {
        Ok(started) => Ok(see_other(next, Some(started.cookie(&visit.way)))),
        Err(refused) => {
            let problem = Problem::from(refused);
            let token = visit.form_token(&web);
            let named = workspace.as_ref().filter(|_| host.is_some());
            let template = LoginPage {
                email: form.get("email"),
                problem: Some(&problem.message),
                ..LoginPage::new(&web, &token.token, next, named, &name)
            };
            Err(problem.clone().in_page(&template, token.cookie))
        }
    }
}

/// Signs somebody out, here.
pub async fn sign_out(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    web.auth.sessions.end(&sent.signed).await?;
    Ok(see_other("/admin/login", Some(Sessions::no_cookie(&sent.visit.way))))
}

/// The workspace a request's Host names, if it does: a domain of its own, or its name below the base domain.
pub(crate) fn named_by_host(web: &Web, headers: &HeaderMap) -> Option<Slug> {
    let mut buffer: HostBuffer = [0; LONGEST];
    let host = from_header(headers.get(HOST)?.as_bytes(), &mut buffer)?;
    let directory = web.routes.directory.load();
    directory.named_by(host).map(|workspace| workspace.slug.clone())
}

/// Where somebody goes after they signed in: a page of the dashboard, and never elsewhere.
pub(crate) fn next(asked: Option<&str>) -> &str {
    let is_ours = |path: &str| {
        let rest = path.strip_prefix("/admin");
        path.len() <= LONGEST_NEXT
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !path.contains("//")
            && !path.contains("..")
    };
    asked.filter(|path| is_ours(path)).unwrap_or("/admin")
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn nobody_is_led_elsewhere() {
        for ours in ["/admin", "/admin/account", "/admin?x=1", "/admin/links?search=a%20b"] {
            assert_eq!(next(Some(ours)), ours);
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
            assert_eq!(next(Some(theirs)), "/admin", "{theirs:?}");
        }
        assert_eq!(next(None), "/admin");
    }
}
