//! Invitations: whoever has the address chooses a name and a password, or goes to the OpenID provider; once.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::SET_COOKIE;
use rlinks_store::Invited;

use crate::auth::oidc::provision::is_open;
use crate::auth::sign_in::Refused;
use crate::web::extract::{Asked, Visit};
use crate::web::{Problem, Web, page, see_other};

#[derive(Template)]
#[template(path = "invite.html")]
struct InvitePage<'a> {
    csrf: &'a str,
    invited: &'a Invited,
    full_name: &'a str,
    problem: Option<&'a str>,
    /// Whether a password can be chosen.
    passwords: bool,
    /// The token, where the OpenID provider can be gone to with it.
    oidc: Option<&'a str>,
}

impl<'a> InvitePage<'a> {
    fn new(web: &Web, token: &'a str, invited: &'a Invited, csrf: &'a str) -> Self {
        Self {
            csrf,
            invited,
            full_name: &invited.user.full_name,
            problem: None,
            passwords: invited.workspace.policy.takes_passwords(),
            oidc: (web.auth.oidc.is_some() && is_open(&invited.workspace)).then_some(token),
        }
    }
}

/// The form, for whoever has the token.
pub async fn show(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    visit: Visit,
) -> Result<Response, Problem> {
    visit.may_sign_in()?;
    let invited = web.auth.invited(&token).await?;
    let form = visit.form_token(&web);
    let template = InvitePage::new(&web, &token, &invited, &form.token);
    if !template.passwords && template.oidc.is_none() {
        return Err(Refused::NoPasswords.into());
    }
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
            let again = visit.form_token(&web);
            let template = InvitePage {
                full_name,
                problem: Some(&problem.message),
                ..InvitePage::new(&web, &token, &invited, &again.token)
            };
            Err(problem.clone().in_page(&template, again.cookie))
        }
        Err(refused) => Err(refused.into()),
    }
}
