//! The first run: the setup token from the console makes its holder the first admin. The printed address has the token in it; opening it
//! moves the token into a cookie, so that it stays in no history and no log, and uses nothing up.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::auth::cookies::Cookie;
use crate::auth::session::token_cookie;
use crate::auth::setup::FirstAdmin;
use crate::auth::sign_in::SignInError;
use crate::web::extract::{AnonymousForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other, set_cookies};

use super::LINK_LIFETIME;

#[derive(Template)]
#[template(path = "sign_in/setup.html")]
struct SetupPage<'a> {
    csrf: &'a str,
    email: &'a str,
    full_name: &'a str,
    problem: Option<&'a str>,
    /// The field it is about, if it is about one.
    field: &'a str,
}

impl SetupPage<'_> {
    /// What is wrong with a field; without a name, what is wrong with none of them.
    fn error(&self, field: &str) -> Option<&str> {
        self.problem.filter(|_| self.field == field)
    }
}

/// The form, for the holder of the token.
pub async fn show(State(web): State<Arc<Web>>, request: WebRequest) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    if let Some(token) = request.query_param("token") {
        ensure_valid(&web, &token).await?;
        let cookie = Cookie::Setup.set(&request.connection, &token, LINK_LIFETIME);
        return Ok(see_other("/admin/setup", cookie));
    }
    ensure_valid(&web, token(&request)).await?;
    let csrf = request.csrf_token(&web);
    let template = SetupPage { csrf: &csrf.token, email: "", full_name: "", problem: None, field: "" };
    let mut response = render_page(&template)?;
    set_cookies(&mut response, csrf.cookie);
    Ok(response)
}

/// The token that this browser came with; empty if it has none.
fn token(request: &WebRequest) -> &str {
    token_cookie(&request.headers, &request.connection, Cookie::Setup).unwrap_or_default()
}

async fn ensure_valid(web: &Web, token: &str) -> Result<(), PageError> {
    if !web.auth.setup_token_valid(token).await? {
        return Err(SignInError::LinkExpired.into());
    }
    Ok(())
}

/// Makes the first admin.
pub async fn set_up(State(web): State<Arc<Web>>, submitted: AnonymousForm) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    let (email, full_name) = (form.get("email"), form.get("full_name"));
    let given = FirstAdmin { email, full_name, password: form.get("password") };
    match web.auth.complete_setup(token(&request), given, &request.connection, &request.headers).await {
        Ok(started) => {
            let mut response = see_other("/admin", started.cookies(&request.connection));
            set_cookies(&mut response, [Cookie::Setup.clear(&request.connection)]);
            Ok(response)
        }
        Err(SignInError::LinkExpired) => Err(SignInError::LinkExpired.into()),
        Err(refused) => {
            let field = match &refused {
                SignInError::Field(error) => error.field.clone(),
                _ => String::new(),
            };
            let problem = PageError::from(refused);
            let csrf = request.csrf_token(&web);
            let template = SetupPage {
                csrf: &csrf.token,
                email,
                full_name,
                problem: Some(&problem.message),
                field: &field,
            };
            Err(problem.clone().rendered_in(&template, csrf.cookie))
        }
    }
}
