//! Invitations: whoever has the address chooses a name and a password, or goes to the OpenID provider; once. Opening the address moves its
//! token into a cookie, so that it stays in no history and no log. Only a form takes the invitation: programs that look at links in mail
//! use nothing up, and nobody leaves the workspace they are signed in to because they followed a link.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;
use rlinks_store::PendingInvitation;

use super::LINK_LIFETIME;
use super::oidc::url_on_redirect_host;
use crate::auth::cookies::Cookie;
use crate::auth::oidc::provision::allows_oidc;
use crate::auth::session::{CurrentSession, token_cookie};
use crate::auth::sign_in::SignInError;
use crate::web::extract::{AnonymousForm, WebRequest};
use crate::web::{PageError, Web, render_page, see_other, set_cookies};

#[derive(Template)]
#[template(path = "sign_in/invitation.html")]
struct InvitationPage<'a> {
    csrf: &'a str,
    invited: &'a PendingInvitation,
    /// Who is signed in in this browser, and would not be any more.
    current: Option<&'a CurrentSession>,
    full_name: &'a str,
    problem: Option<&'a str>,
    /// Whether a password can be chosen.
    passwords: bool,
    /// Whether the OpenID provider can be gone to.
    oidc: bool,
}

impl<'a> InvitationPage<'a> {
    fn new(
        web: &Web,
        invited: &'a PendingInvitation,
        current: Option<&'a CurrentSession>,
        csrf: &'a str,
    ) -> Self {
        Self {
            csrf,
            invited,
            current,
            full_name: &invited.user.full_name,
            problem: None,
            passwords: invited.workspace.policy.allows_passwords(),
            oidc: web.auth.oidc.is_some() && allows_oidc(&invited.workspace),
        }
    }
}

/// The address that was sent: keeps its token for the form, in the place of an earlier one.
pub async fn open(
    State(web): State<Arc<Web>>,
    Path(token): Path<String>,
    request: WebRequest,
) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let invited = web.auth.invitation(&token).await?;
    // The cookie has to be where the provider sends people back to.
    let oidc = web.auth.oidc.as_ref().filter(|_| allows_oidc(&invited.workspace));
    if let Some(location) = oidc.and_then(|oidc| url_on_redirect_host(oidc, &request)) {
        return Ok(see_other(&location, None));
    }
    let cookie = Cookie::Invitation.set(&request.connection, &token, LINK_LIFETIME);
    Ok(see_other("/admin/invite", cookie))
}

/// The form, for the holder of the token.
pub async fn show(State(web): State<Arc<Web>>, request: WebRequest) -> Result<Response, PageError> {
    request.ensure_sign_in_allowed()?;
    let invited = web.auth.invitation(token(&request)?).await?;
    let current = request.current_session(&web).await?;
    let csrf = request.csrf_token(&web);
    let template = InvitationPage::new(&web, &invited, current.as_ref(), &csrf.token);
    if !template.passwords && !template.oidc {
        return Err(SignInError::PasswordsDisabled.into());
    }
    let mut response = render_page(&template)?;
    set_cookies(&mut response, csrf.cookie);
    Ok(response)
}

/// The token that this browser came with.
fn token(request: &WebRequest) -> Result<&str, PageError> {
    token_cookie(&request.headers, &request.connection, Cookie::Invitation).ok_or_else(|| {
        PageError::with_message(
            ErrorCode::NotFound,
            "Open the address of your invitation once more: it was not opened in this browser, or longer than 15 minutes ago. Cookies \
             have to be allowed",
        )
    })
}

pub async fn accept(State(web): State<Arc<Web>>, submitted: AnonymousForm) -> Result<Response, PageError> {
    let AnonymousForm { request, form } = submitted;
    let token = token(&request)?;
    let (full_name, password) = (form.get("full_name"), form.get("password"));
    match web.auth.accept_invitation(token, full_name, password, &request.connection, &request.headers).await
    {
        Ok(started) => {
            let mut response = see_other("/admin", started.cookies(&request.connection));
            set_cookies(&mut response, [Cookie::Invitation.clear(&request.connection)]);
            Ok(response)
        }
        Err(refused @ SignInError::Field(_)) => {
            let invited = web.auth.invitation(token).await?;
            let current = request.current_session(&web).await?;
            let problem = PageError::from(refused);
            let csrf = request.csrf_token(&web);
            let template = InvitationPage {
                full_name,
                problem: Some(&problem.message),
                ..InvitationPage::new(&web, &invited, current.as_ref(), &csrf.token)
            };
            Err(problem.clone().rendered_in(&template, csrf.cookie))
        }
        Err(refused) => Err(refused.into()),
    }
}
