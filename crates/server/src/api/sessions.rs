//! Sessions of the dashboard: one's own, and those of members to an admin.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rlinks_core::User;
use rlinks_ops::Caller;
use rlinks_ops::sessions::SessionsToEnd;
use rlinks_store::Session as StoredSession;
use rlinks_wire::Page;
use rlinks_wire::session::Session;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{NoParams, Params, PathName, TwoPathNames};
use crate::auth::authorize::{AnyScope, Authorized, WorkspaceAdmin};

/// The routes of sessions.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list_own, end_own))
        .routes(routes!(show_own, end_one_own))
        .routes(routes!(list, end))
        .routes(routes!(end_one))
}

/// Lists where the caller is signed in, newest first.
#[utoipa::path(get, path = "/api/v1/me/sessions", tag = "me", operation_id = "sessions",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("any"))), responses((status = 200, body = Page<Session>)))]
async fn list_own(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    params: Params,
) -> Result<Json<Page<Session>>, ApiError> {
    page(&api, &caller, caller.account()?, params).await
}

/// Ends every session of the caller; with `keep_current` all but the one that asks. Keys need `workspace:admin`.
#[utoipa::path(delete, path = "/api/v1/me/sessions", tag = "me", operation_id = "end_sessions",
    params(("keep_current" = Option<bool>, Query)),
    extensions(("x-scope" = json!("any; a key needs workspace:admin"))), responses((status = 204)))]
async fn end_own(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    mut params: Params,
) -> Result<StatusCode, ApiError> {
    let keep = params.boolean("keep_current").unwrap_or(false);
    params.finish()?;
    let which = if keep { SessionsToEnd::Others } else { SessionsToEnd::All };
    api.ops.end_sessions(&caller, caller.account()?, which).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One session of the caller.
#[utoipa::path(get, path = "/api/v1/me/sessions/{id}", tag = "me", operation_id = "session", params(("id" = String, Path)),
    extensions(("x-scope" = json!("any"))), responses((status = 200, body = Session)))]
async fn show_own(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    _: NoParams,
) -> Result<Json<Session>, ApiError> {
    let session = api.ops.session_of(&caller, caller.account()?, &id).await?;
    Ok(Json(shown(&caller, &session)))
}

/// Ends one session of the caller, from the next request on. Keys need `workspace:admin`.
#[utoipa::path(delete, path = "/api/v1/me/sessions/{id}", tag = "me", operation_id = "end_session", params(("id" = String, Path)),
    extensions(("x-scope" = json!("any; a key needs workspace:admin"))), responses((status = 204)))]
async fn end_one_own(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    PathName(id): PathName,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    api.ops.end_session(&caller, caller.account()?, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists where a member is signed in, newest first.
#[utoipa::path(get, path = "/api/v1/users/{id}/sessions", tag = "users", operation_id = "sessions",
    params(("id" = String, Path), ("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Page<Session>)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(id): PathName,
    params: Params,
) -> Result<Json<Page<Session>>, ApiError> {
    let user = api.ops.member(&caller.workspace, &id).await?;
    page(&api, &caller, &user, params).await
}

/// Ends every session of a member, from the next request on.
#[utoipa::path(delete, path = "/api/v1/users/{id}/sessions", tag = "users", operation_id = "end_sessions", params(("id" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 204)))]
async fn end(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(id): PathName,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    let user = api.ops.member(&caller.workspace, &id).await?;
    api.ops.end_sessions(&caller, &user, SessionsToEnd::All).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends one session of a member, from the next request on.
#[utoipa::path(delete, path = "/api/v1/users/{id}/sessions/{session}", tag = "users", operation_id = "end_session",
    params(("id" = String, Path), ("session" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 204)))]
async fn end_one(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    TwoPathNames(id, session): TwoPathNames,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    let user = api.ops.member(&caller.workspace, &id).await?;
    api.ops.end_session(&caller, &user, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn page(
    api: &Api,
    caller: &Caller,
    user: &User,
    mut params: Params,
) -> Result<Json<Page<Session>>, ApiError> {
    let limit = params.number("limit", 1..=100).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let context = format!("sessions {}", user.id);
    let before = cursor.map(|text| api.open_cursor::<(i64, String)>(&context, &text)).transpose()?;
    let sessions = api.ops.sessions_of(caller, user).await?;
    // A member has few enough to read them all.
    let mut rows: Vec<Session> = sessions.iter().map(|session| shown(caller, session)).collect();
    let position = |row: &Session| (row.created_at.ms(), row.id.clone());
    rows.sort_by_key(|row| Reverse(position(row)));
    rows.retain(|row| before.as_ref().is_none_or(|before| position(row) < *before));
    let limit = usize::try_from(limit).unwrap_or_default();
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more).map(position);
    Ok(Json(Page { next_cursor: last.map(|last| api.cursors().seal(&context, &last)), data: rows }))
}

fn shown(caller: &Caller, session: &StoredSession) -> Session {
    Session {
        id: session.public_id(),
        current: caller.session().is_some_and(|current| current.hash == session.hash),
        agent: session.agent.clone(),
        network: session.network.clone(),
        method: session.how.name().to_owned(),
        created_at: session.created_at,
        last_used_at: session.seen_at,
        expires_at: session.expires_at,
    }
}
