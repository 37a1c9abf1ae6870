//! Where a member is signed in, and an end to it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_core::User;
use rlinks_store::Session;

use super::super::browser_label::browser_label;
use super::super::{PageError, Web, render_page, see_other};
use super::flash_text;
use super::members::{display_name, find_member};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage};
use rlinks_ops::OpsError;
use rlinks_ops::sessions::SessionsToEnd;

const FLASH_TEXTS: [(&str, &str); 2] =
    [("session", "That session has ended."), ("all", "They are signed out everywhere.")];

#[derive(Template)]
#[template(path = "workspace/member_sessions.html")]
struct MemberSessionsPage<'a> {
    current: &'a CurrentSession,
    done: Option<&'static str>,
    user: &'a User,
    name: String,
    sessions: Vec<Session>,
}

pub async fn show(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedPage { request, current, caller, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    let sessions = web.ops.sessions_of(&caller, &user).await?;
    let done = flash_text(&request, &FLASH_TEXTS);
    let name = display_name(&user);
    render_page(&MemberSessionsPage { current: &current, done, user: &user, name, sessions })
}

/// Ends one session. One that has ended meanwhile is what was wanted.
pub async fn end_one(
    State(web): State<Arc<Web>>,
    Path((id, session)): Path<(String, String)>,
    AuthorizedForm { caller, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    match web.ops.end_session(&caller, &user, &session).await {
        Ok(_) | Err(OpsError::NotFound(_)) => {
            Ok(see_other(&format!("/admin/members/{}/sessions?done=session", user.id), None))
        }
        Err(error) => Err(error.into()),
    }
}

pub async fn end_all(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { caller, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    web.ops.end_sessions(&caller, &user, SessionsToEnd::All).await?;
    Ok(see_other(&format!("/admin/members/{}/sessions?done=all", user.id), None))
}
