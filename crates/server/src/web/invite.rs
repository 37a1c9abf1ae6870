//! Invitations: whoever has the address chooses a name and a password, once.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::SET_COOKIE;
use rlinks_store::Invited;

use super::visit::{Asked, Visit};
use super::{Problem, Web, page, see_other};
use crate::auth::sign_in::{Refused, takes_passwords};

#[derive(Template)]
#[template(path = "invite.html")]
struct InvitePage<'a> {
    csrf: &'a str,
    invited: &'a Invited,
    full_name: &'a str,
    problem: Option<&'a str>,
}

/// The form, for whoever has the token.
pub async fn show(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    visit: Visit,
) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let invited = web.auth.invited(&token).await?;
    if !takes_passwords(&invited.workspace) {
        return Err(Refused::NoPasswords.into());
    }
    let form = visit.form_token(&web);
    let full_name = &invited.user.full_name;
    let template = InvitePage { csrf: &form.token, invited: &invited, full_name, problem: None };
    let mut response = page(&template)?;
    response.headers_mut().extend(form.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// Takes the invitation.
pub async fn accept(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    asked: Asked,
) -> Result<Response, Problem> {
    let Asked { visit, form } = asked;
    let (full_name, password) = (form.get("full_name"), form.get("password"));
    match web.auth.accept(&token, full_name, password, &visit.way, &visit.headers).await {
        Ok(started) => Ok(see_other("/admin", Some(started.cookie(&visit.way)))),
        Err(refused @ Refused::Field(_)) => {
            let invited = web.auth.invited(&token).await?;
            let problem = Problem::from(refused);
            let token = visit.form_token(&web);
            let template = InvitePage {
                csrf: &token.token,
                invited: &invited,
                full_name,
                problem: Some(&problem.message),
            };
            Err(problem.clone().in_page(&template, token.cookie))
        }
        Err(refused) => Err(refused.into()),
    }
}
