//! Oneself: who one is, where one is signed in, one's password, and how one leaves.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Email, User};
use rlinks_store::{Session, StoreError};

use super::browser_label::browser_label;
use super::{PageError, Web, render_page, see_other};
use crate::auth::session::{CurrentSession, Sessions};
use crate::auth::sign_in::SignInError;
use crate::web::extract::{SessionForm, SessionPage, WebRequest};
use crate::web::workspace::links_after_removal;
use rlinks_ops::OpsError;
use rlinks_ops::members::FreshProof;
use rlinks_ops::sessions::SessionsToEnd;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    current: &'a CurrentSession,
    sessions: Vec<Session>,
    takes_passwords: bool,
    /// They have one to give; otherwise they sign in at a provider.
    has_password: bool,
    full_name: &'a str,
    /// What is wrong with the password, the name, the wish to leave.
    problem: Option<&'a str>,
    name_problem: Option<&'a str>,
    delete_problem: Option<&'a str>,
    /// What becomes of one's links.
    links_after_removal: &'static str,
    done: Option<&'static str>,
}

impl<'a> AccountPage<'a> {
    async fn new(web: &Web, current: &'a CurrentSession) -> Result<Self, PageError> {
        let (workspace, email) = (current.user.workspace, &current.user.email);
        let known = web.store.user_with_password_hash(workspace, email).await?;
        Ok(Self {
            current,
            has_password: known.is_some_and(|(_, hash)| hash.is_some()),
            sessions: web.store.sessions_of(current.user.id, web.clock.now()).await?,
            takes_passwords: current.workspace.policy.allows_passwords(),
            full_name: &current.user.full_name,
            problem: None,
            name_problem: None,
            delete_problem: None,
            links_after_removal: links_after_removal(current.workspace.policy.visibility),
            done: None,
        })
    }
}

/// What was done before somebody was led here.
fn flash_text(request: &WebRequest) -> Option<&'static str> {
    match request.query_param("done").as_deref() {
        Some("password") => Some("Your password was changed. Everywhere else you are signed out."),
        Some("name") => Some("Your name was changed."),
        Some("session") => Some("That session has ended."),
        Some("others") => Some("Everywhere else you are signed out."),
        _ => None,
    }
}

pub async fn show(
    State(web): State<Arc<Web>>,
    SessionPage { request, current }: SessionPage,
) -> Result<Response, PageError> {
    let shown = AccountPage::new(&web, &current).await?;
    render_page(&AccountPage { done: flash_text(&request), ..shown })
}

/// Changes one's password, and signs one out everywhere else.
pub async fn change_password(
    State(web): State<Arc<Web>>,
    submitted: SessionForm,
) -> Result<Response, PageError> {
    let SessionForm { request, current, form } = submitted;
    let (old, new) = (form.get("old_password"), form.get("password"));
    let refused =
        match web.auth.change_password(&current, old, new, &request.connection, &request.headers).await {
            Ok(started) => {
                return Ok(see_other("/admin/account?done=password", started.cookies(&request.connection)));
            }
            Err(refused) => refused,
        };
    let problem = match refused {
        SignInError::InvalidCredentials => {
            PageError { message: "The current password is not this one".to_owned(), ..refused.into() }
        }
        refused => refused.into(),
    };
    let shown = AccountPage::new(&web, &current).await?;
    let template = AccountPage { problem: Some(&problem.message), ..shown };
    Err(problem.clone().rendered_in(&template, None))
}

pub async fn rename(State(web): State<Arc<Web>>, submitted: SessionForm) -> Result<Response, PageError> {
    let SessionForm { current, form, .. } = submitted;
    let full_name = match User::parse_name(form.get("full_name")) {
        Ok(name) => name,
        Err(error) => {
            let shown = AccountPage::new(&web, &current).await?;
            let wrong = Some(error.message.as_str());
            let template = AccountPage { name_problem: wrong, full_name: form.get("full_name"), ..shown };
            return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&template, None));
        }
    };
    web.ops.rename_self(&current.caller(), full_name).await?;
    Ok(see_other("/admin/account?done=name", None))
}

/// Ends every session one has but this one.
pub async fn sign_out_others(
    State(web): State<Arc<Web>>,
    submitted: SessionForm,
) -> Result<Response, PageError> {
    let current = &submitted.current;
    web.ops.end_sessions(&current.caller(), &current.user, SessionsToEnd::Others).await?;
    Ok(see_other("/admin/account?done=others", None))
}

/// Ends one session one has. One that has ended meanwhile is what was wanted.
pub async fn end_session(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    submitted: SessionForm,
) -> Result<Response, PageError> {
    let SessionForm { request, current, .. } = submitted;
    match web.ops.end_session(&current.caller(), &current.user, &id).await {
        Ok(ended) if ended.hash == current.session.hash => {
            let cookie = Sessions::clear_cookie(&request.connection);
            Ok(see_other("/admin/login", Some(cookie)))
        }
        Ok(_) | Err(OpsError::NotFound(_)) => Ok(see_other("/admin/account?done=session", None)),
        Err(error) => Err(error.into()),
    }
}

/// They have read that an admin reset their sign-in.
pub async fn dismiss_sign_in_reset(
    State(web): State<Arc<Web>>,
    submitted: SessionForm,
) -> Result<Response, PageError> {
    let current = &submitted.current;
    if let Some(reset) = &current.sign_in_reset {
        web.ops.dismiss_sign_in_reset(&current.caller(), reset.at).await?;
    }
    Ok(see_other("/admin/account", None))
}

/// Ends every session one has, this one too.
pub async fn sign_out_everywhere(
    State(web): State<Arc<Web>>,
    submitted: SessionForm,
) -> Result<Response, PageError> {
    web.auth.sign_out_everywhere(&submitted.current).await?;
    Ok(see_other("/admin/login?done=everywhere", Some(Sessions::clear_cookie(&submitted.request.connection))))
}

/// Deletes one's own account, once its address was typed: nobody does that by mistake.
pub async fn delete(State(web): State<Arc<Web>>, submitted: SessionForm) -> Result<Response, PageError> {
    let SessionForm { request, current, form } = submitted;
    let typed = Email::parse(form.get("email").trim()).is_ok_and(|email| email == current.user.email);
    let problem = if typed {
        let caller = current.caller();
        let password = form.get("password");
        let verified = if password.is_empty() {
            Ok(None)
        } else {
            let auth = &web.auth;
            auth.verify_own_password(&current.user, &current.session, password).await.map(Some)
        };
        let left = match &verified {
            Ok(verified) => {
                let proof = verified.as_deref().map_or(FreshProof::RecentSignIn, FreshProof::Password);
                web.ops.leave(&caller, proof).await
            }
            Err(SignInError::InvalidCredentials) => Err(OpsError::Forbidden("Current password is incorrect")),
            Err(_) => return Err(verified.expect_err("it was one").into()),
        };
        match left {
            Ok(()) => {
                return Ok(see_other(
                    "/admin/login?done=deleted",
                    Some(Sessions::clear_cookie(&request.connection)),
                ));
            }
            Err(OpsError::Store(StoreError::LastAdmin)) => PageError::with_message(
                ErrorCode::Conflict,
                "You are the last admin, and a workspace needs one: make somebody else admin first",
            ),
            Err(OpsError::Forbidden(why)) => PageError::with_message(ErrorCode::Forbidden, why),
            Err(error) => return Err(error.into()),
        }
    } else {
        PageError::with_message(ErrorCode::ValidationFailed, "This is not the e-mail address of this account")
    };
    let shown = AccountPage::new(&web, &current).await?;
    let template = AccountPage { delete_problem: Some(&problem.message), ..shown };
    Err(problem.clone().rendered_in(&template, None))
}
