//! Invitations: whoever has the address chooses a name and a password, or goes to the OpenID provider; once.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::SET_COOKIE;
use rlinks_store::PendingInvitation;

use crate::auth::oidc::provision::allows_oidc;
use crate::auth::sign_in::SignInError;
use crate::web::extract::{AnonymousForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other};

#[derive(Template)]
#[template(path = "sign_in/invitation.html")]
struct InvitationPage<'a> {
    csrf: &'a str,
    invited: &'a PendingInvitation,
    full_name: &'a str,
    problem: Option<&'a str>,
    /// Whether a password can be chosen.
    passwords: bool,
    /// The token, where the OpenID provider can be gone to with it.
    oidc: Option<&'a str>,
}

impl<'a> InvitationPage<'a> {
    fn new(web: &Web, token: &'a str, invited: &'a PendingInvitation, csrf: &'a str) -> Self {
        Self {
            csrf,
            invited,
            full_name: &invited.user.full_name,
            problem: None,
            passwords: invited.workspace.policy.allows_passwords(),
            oidc: (web.auth.oidc.is_some() && allows_oidc(&invited.workspace)).then_some(token),
        }
    }
}

/// The form, for the holder of the token.
pub async fn show(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    request: WebRequest,
) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let invited = web.auth.invitation(&token).await?;
    let csrf = request.csrf_token(&web);
    let template = InvitationPage::new(&web, &token, &invited, &csrf.token);
    if !template.passwords && template.oidc.is_none() {
        return Err(SignInError::PasswordsDisabled.into());
    }
    let mut response = render_page(&template)?;
    response.headers_mut().extend(csrf.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

pub async fn accept(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    submitted: AnonymousForm,
) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    let (full_name, password) = (form.get("full_name"), form.get("password"));
    match web.auth.accept_invitation(&token, full_name, password, &request.connection, &request.headers).await
    {
        Ok(started) => Ok(see_other("/admin", Some(started.cookie(&request.connection)))),
        Err(refused @ SignInError::Field(_)) => {
            let invited = web.auth.invitation(&token).await?;
            let problem = PageError::from(refused);
            let csrf = request.csrf_token(&web);
            let template = InvitationPage {
                full_name,
                problem: Some(&problem.message),
                ..InvitationPage::new(&web, &token, &invited, &csrf.token)
            };
            Err(problem.clone().rendered_in(&template, csrf.cookie))
        }
        Err(refused) => Err(refused.into()),
    }
}
