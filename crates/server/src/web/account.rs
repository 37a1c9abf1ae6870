//! Oneself: who one is, where one is signed in, and one's password.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_store::Session;

use super::visit::{Sent, SignedIn};
use super::{Problem, Web, page, see_other};
use crate::auth::session::{Sessions, Signed};
use crate::auth::sign_in::{Refused, takes_passwords};

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    signed: &'a Signed,
    sessions: &'a [Session],
    takes_passwords: bool,
    problem: Option<&'a str>,
    done: Option<&'a str>,
}

/// One's account.
pub async fn show(
    State(web): State<Arc<Web>>,
    SignedIn { visit, signed }: SignedIn,
) -> Result<Response, Problem> {
    let sessions = web.store.sessions_of(signed.user.id, web.clock.now()).await?;
    let changed = visit.parameter("done").as_deref() == Some("password");
    let done = changed.then_some("Your password was changed. Everywhere else you are signed out.");
    page(&AccountPage {
        takes_passwords: takes_passwords(&signed.workspace),
        signed: &signed,
        sessions: &sessions,
        problem: None,
        done,
    })
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
    let sessions = web.store.sessions_of(signed.user.id, web.clock.now()).await?;
    let template = AccountPage {
        takes_passwords: takes_passwords(&signed.workspace),
        signed: &signed,
        sessions: &sessions,
        problem: Some(&problem.message),
        done: None,
    };
    Err(problem.clone().in_page(&template, None))
}

/// Ends every session one has, this one too.
pub async fn sign_out_everywhere(State(web): State<Arc<Web>>, sent: Sent) -> Result<Response, Problem> {
    web.auth.sign_out_everywhere(&sent.signed).await?;
    Ok(see_other("/admin/login", Some(Sessions::no_cookie(&sent.visit.way))))
}
