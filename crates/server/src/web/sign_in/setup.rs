//! The first run: whoever has the token from the console becomes the first admin.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::header::SET_COOKIE;

use crate::auth::setup::FirstAdmin;
use crate::auth::sign_in::Refused;
use crate::web::extract::{Asked, Visit};
use crate::web::{Problem, Web, page, see_other};

#[derive(Template)]
#[template(path = "setup.html")]
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
    fn wrong(&self, field: &str) -> Option<&str> {
        self.problem.filter(|_| self.field == field)
    }
}

/// The form, for whoever has the token.
pub async fn show(State(web): State<Arc<Web>>, visit: Visit) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let token = visit.parameter("token").unwrap_or_default();
    if !web.auth.is_setup(&token).await? {
        return Err(Refused::Over.into());
    }
    let form = visit.form_token(&web);
    let template =
        SetupPage { csrf: &form.token, token: &token, email: "", full_name: "", problem: None, field: "" };
    let mut response = page(&template)?;
    response.headers_mut().extend(form.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// Makes the first admin.
pub async fn set_up(State(web): State<Arc<Web>>, asked: Asked) -> Result<Response, Problem> {
    let Asked { visit, form } = asked;
    let (email, full_name) = (form.get("email"), form.get("full_name"));
    let given = FirstAdmin { email, full_name, password: form.get("password") };
    match web.auth.set_up(form.get("token"), given, &visit.way, &visit.headers).await {
        Ok(started) => Ok(see_other("/admin", Some(started.cookie(&visit.way)))),
        Err(Refused::Over) => Err(Refused::Over.into()),
        Err(refused) => {
            let field = match &refused {
                Refused::Field(error) => error.field.clone(),
                _ => String::new(),
            };
            let problem = Problem::from(refused);
            let token = visit.form_token(&web);
            let template = SetupPage {
                csrf: &token.token,
                token: form.get("token"),
                email,
                full_name,
                problem: Some(&problem.message),
                field: &field,
            };
            Err(problem.clone().in_page(&template, token.cookie))
        }
    }
}
