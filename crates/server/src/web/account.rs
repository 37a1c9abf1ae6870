//! Oneself: who one is, where one is signed in, one's password, and how one leaves.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_clicks::enrich::user_agent::{self, Agent};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Email, User};
use rlinks_store::{Session, StoreError};

use super::{Problem, Web, page, see_other};
use crate::auth::caller::Caller;
use crate::auth::session::{Sessions, Signed};
use crate::auth::sign_in::Refused;
use crate::web::extract::{Sent, SignedIn, Visit};
use crate::web::workspace::links_after;
use rlinks_ops::OpsError;
use rlinks_ops::members::MemberPatch;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    signed: &'a Signed,
    sessions: Vec<Session>,
    takes_passwords: bool,
    full_name: &'a str,
    /// What is wrong with the password, the name, the wish to leave.
    problem: Option<&'a str>,
    name_problem: Option<&'a str>,
    delete_problem: Option<&'a str>,
    /// What becomes of one's links.
    links_after: &'static str,
    done: Option<&'static str>,
}

impl<'a> AccountPage<'a> {
    async fn new(web: &Web, signed: &'a Signed) -> Result<Self, Problem> {
        Ok(Self {
            signed,
            sessions: web.store.sessions_of(signed.user.id, web.clock.now()).await?,
            takes_passwords: signed.workspace.policy.takes_passwords(),
            full_name: &signed.user.full_name,
            problem: None,
            name_problem: None,
            delete_problem: None,
            links_after: links_after(signed.workspace.policy.visibility),
            done: None,
        })
    }
}

/// A browser by its name and its system, as far as it says so: `Firefox 140 on Linux`.
fn browser(user_agent: &str) -> String {
    let Agent { browser, browser_version, system, system_version, .. } = user_agent::read(user_agent);
    let with = |name: Option<Box<str>>, version: Option<Box<str>>| match (name, version) {
        (Some(name), Some(version)) => Some(format!("{name} {version}")),
        (name, _) => name.map(String::from),
    };
    match (with(browser, browser_version), with(system, system_version)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if user_agent.is_empty() => "unknown".to_owned(),
        (None, None) => user_agent.to_owned(),
    }
}

/// What was done before somebody was led here.
fn done(visit: &Visit) -> Option<&'static str> {
    match visit.parameter("done").as_deref() {
        Some("password") => Some("Your password was changed. Everywhere else you are signed out."),
        Some("name") => Some("Your name was changed."),
        Some("others") => Some("Everywhere else you are signed out."),
        _ => None,
    }
}

/// One's account.
pub async fn show(
    State(web): State<Arc<Web>>,
    SignedIn { visit, signed }: SignedIn,
) -> Result<Response, Problem> {
    let shown = AccountPage::new(&web, &signed).await?;
    page(&AccountPage { done: done(&visit), ..shown })
}

/// Changes one's password, and signs one out everywhere else.
pub async fn change_password(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    let Sent { visit, signed, form } = sent;
    let (old, new) = (form.get("old_password"), form.get("password"));
    let refused = match web.auth.change_password(&signed, old, new, &visit.way, &visit.headers).await {
        Ok(started) => {
            return Ok(see_other("/admin/account?done=password", Some(started.cookie(&visit.way))));
        }
        Err(refused) => refused,
    };
    let problem = match refused {
        Refused::Wrong => {
            Problem { message: "The current password is not this one".to_owned(), ..refused.into() }
        }
        refused => refused.into(),
    };
    let shown = AccountPage::new(&web, &signed).await?;
    let template = AccountPage { problem: Some(&problem.message), ..shown };
    Err(problem.clone().in_page(&template, None))
}

/// Changes one's name.
pub async fn rename(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    let Sent { signed, form, .. } = sent;
    let full_name = match User::parse_name(form.get("full_name")) {
        Ok(name) => name,
        Err(error) => {
            let shown = AccountPage::new(&web, &signed).await?;
            let wrong = Some(error.message.as_str());
            let template = AccountPage { name_problem: wrong, full_name: form.get("full_name"), ..shown };
            return Err(Problem::new(ErrorCode::ValidationFailed).in_page(&template, None));
        }
    };
    let by = Caller::of_session(signed.clone()).by;
    let patch = MemberPatch { full_name: Some(full_name), ..MemberPatch::default() };
    let changed = web.api.ops.change_member(&by, &signed.user, &patch).await;
    changed?;
    Ok(see_other("/admin/account?done=name", None))
}

/// Ends every session one has but this one.
pub async fn sign_out_others(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    let (signed, now) = (&sent.signed, web.clock.now());
    let sessions = web.store.sessions_of(signed.user.id, now).await?;
    for session in sessions.iter().filter(|session| session.hash != signed.session.hash) {
        web.store.end_session(&signed.user, &session.hash, now).await?;
    }
    Ok(see_other("/admin/account?done=others", None))
}

/// Ends every session one has, this one too.
pub async fn sign_out_everywhere(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    web.auth.sign_out_everywhere(&sent.signed).await?;
    Ok(see_other("/admin/login?done=everywhere", Some(Sessions::no_cookie(&sent.visit.way))))
}

/// Deletes one's own account, once its address was typed: nobody does that by mistake.
pub async fn delete(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    let Sent { visit, signed, form } = sent;
    let typed = Email::parse(form.get("email").trim()).is_ok_and(|email| email == signed.user.email);
    let problem = if typed {
        let by = Caller::of_session(signed.clone()).by;
        match web.api.ops.remove_member(&by, &signed.workspace, &signed.user).await {
            Ok(()) => {
                return Ok(see_other("/admin/login?done=deleted", Some(Sessions::no_cookie(&visit.way))));
            }
            Err(OpsError::Store(StoreError::LastAdmin)) => Problem::saying(
                ErrorCode::Conflict,
                "You are the last admin, and a workspace needs one: make somebody else admin first",
            ),
            Err(error) => return Err(error.into()),
        }
    } else {
        Problem::saying(ErrorCode::ValidationFailed, "This is not the e-mail address of this account")
    };
    let shown = AccountPage::new(&web, &signed).await?;
    let template = AccountPage { delete_problem: Some(&problem.message), ..shown };
    Err(problem.clone().in_page(&template, None))
}
