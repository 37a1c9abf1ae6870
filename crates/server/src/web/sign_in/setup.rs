//! The first run: the setup token from the console makes its holder the first admin.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::header::SET_COOKIE;

use crate::auth::setup::FirstAdmin;
use crate::auth::sign_in::SignInError;
use crate::web::extract::{AnonymousForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other};

#[derive(Template)]
#[template(path = "sign_in/setup.html")]
struct SetupPage<'a> {
    csrf: &'a str,
    token: &'a str,
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
    let token = request.query_param("token").unwrap_or_default();
    if !web.auth.setup_token_valid(&token).await? {
        return Err(SignInError::LinkExpired.into());
    }
    let csrf = request.csrf_token(&web);
    let template =
        SetupPage { csrf: &csrf.token, token: &token, email: "", full_name: "", problem: None, field: "" };
    let mut response = render_page(&template)?;
    response.headers_mut().extend(csrf.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// Makes the first admin.
pub async fn set_up(State(web): State<Arc<Web>>, submitted: AnonymousForm) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    let (email, full_name) = (form.get("email"), form.get("full_name"));
    let given = FirstAdmin { email, full_name, password: form.get("password") };
    match web.auth.complete_setup(form.get("token"), given, &request.connection, &request.headers).await {
        Ok(started) => Ok(see_other("/admin", Some(started.cookie(&request.connection)))),
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
                token: form.get("token"),
                email,
                full_name,
                problem: Some(&problem.message),
                field: &field,
            };
            Err(problem.clone().rendered_in(&template, csrf.cookie))
        }
    }
}
