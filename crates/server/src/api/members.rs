//! Members, and oneself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rlinks_core::{Email, FieldCode, FieldError, Id, Role, Scopes, User, UserStatus};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Fields, JsonObject, OptionalJsonObject, Params, PathName};
use crate::auth::authorize::{AnyScope, Authorized, WorkspaceAdmin};
use rlinks_ops::members::{FreshProof, MemberPatch};
use rlinks_ops::{Caller, Credential};
use rlinks_wire::Page;
use rlinks_wire::key::ScopeName;
use rlinks_wire::member::{Invitation, Member, RoleName, UserStatusName};

/// The routes of members.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(change, remove))
        .routes(routes!(me, leave))
}

/// Somebody to become a member.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `create` reads")]
pub struct NewUser {
    #[schema(max_length = 254, example = "ann@example.com")]
    email: String,
    #[schema(max_length = 255)]
    full_name: Option<String>,
    /// Else `member`.
    #[schema(value_type = Option<RoleName>)]
    role: Option<String>,
}

/// Confirms who is deleting their own account.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `leave` reads")]
pub struct Reauthentication {
    /// For accounts that have one.
    password: Option<String>,
}

/// What to change about a member.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `change` reads")]
pub struct UserChange {
    #[schema(max_length = 254)]
    email: Option<String>,
    #[schema(max_length = 255)]
    full_name: Option<String>,
    #[schema(value_type = Option<RoleName>)]
    role: Option<String>,
    #[schema(value_type = Option<UserStatusName>)]
    status: Option<String>,
}

/// Lists members, oldest first.
#[utoipa::path(get, path = "/api/v1/users", tag = "users",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Page<Member>)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    mut params: Params,
) -> Result<Json<Page<Member>>, ApiError> {
    let limit = params.number("limit", 1..=100).unwrap_or(50);
    let cursor = params.text("cursor");
    params.finish()?;
    let context = format!("users {}", caller.workspace.id);
    let after = cursor.map(|text| api.open_cursor::<i64>(&context, &text)).transpose()?.map(Id::from_i64);
    let users = api.ops.store.users(caller.workspace.id, after, limit + 1).await?;
    let page = api.page(&context, users, limit, |user| user.id.as_i64());
    Ok(Json(page.map(|user| Member::from(&user))))
}

/// Makes somebody a member and gives the invitation to send them.
#[utoipa::path(post, path = "/api/v1/users", tag = "users", request_body = NewUser,
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 201, body = Invitation)))]
async fn create(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(body);
    let email = fields.required("email", Email::parse);
    let full_name = fields.parsed("full_name", User::parse_name);
    let role = fields.parsed("role", str::parse::<Role>);
    fields.finish()?;
    let missing = || ApiError::from(FieldError::new("email", FieldCode::Required, "is missing"));
    let (email, role) = (email.ok_or_else(missing)?, role.unwrap_or(Role::Member));
    let (user, invitation) = api.ops.invite(&caller, email, full_name.unwrap_or_default(), role).await?;
    let body = Invitation {
        user: Member::from(&user),
        invite_url: invitation.url,
        invite_expires_at: invitation.expires_at,
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Changes a member. The last admin stays one.
#[utoipa::path(patch, path = "/api/v1/users/{id}", tag = "users", request_body = UserChange, params(("id" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Member)))]
async fn change(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(id): PathName,
    JsonObject(body): JsonObject,
) -> Result<Json<Member>, ApiError> {
    let mut fields = Fields::new(body);
    let patch = MemberPatch {
        email: fields.parsed("email", Email::parse),
        full_name: fields.parsed("full_name", User::parse_name),
        role: fields.parsed("role", str::parse::<Role>),
        status: fields.parsed("status", |text| match text.parse::<UserStatus>()? {
            UserStatus::Deleted => {
                Err(FieldError::new("status", FieldCode::BadCharacters, "is neither active nor suspended"))
            }
            status => Ok(status),
        }),
    };
    fields.finish()?;
    let seen = api.ops.member(&caller.workspace, &id).await?;
    Ok(Json(Member::from(&api.ops.change_member(&caller, &seen, &patch).await?)))
}

/// Deletes an account: address and name are forgotten, keys are gone. One's own needs a session and the password, as `DELETE /me` does.
#[utoipa::path(delete, path = "/api/v1/users/{id}", tag = "users", params(("id" = String, Path)),
    request_body = Option<Reauthentication>,
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 204)))]
async fn remove(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(id): PathName,
    OptionalJsonObject(body): OptionalJsonObject,
) -> Result<StatusCode, ApiError> {
    let user = api.ops.member(&caller.workspace, &id).await?;
    if caller.member() == Some(user.id) {
        return delete_own_account(&api, &caller, body).await;
    }
    Fields::new(body).finish()?;
    api.ops.remove_member(&caller, &user).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete_own_account(
    api: &Api,
    caller: &Caller,
    body: Map<String, Value>,
) -> Result<StatusCode, ApiError> {
    let mut fields = Fields::new(body);
    let password = fields.parsed("password", |text| Ok(text.to_owned()));
    fields.finish()?;
    let verified = match (&password, &caller.user, &caller.credential) {
        (Some(password), Some(user), Credential::Session(session)) => {
            Some(api.auth.verify_own_password(user, session, password).await?)
        }
        _ => None,
    };
    let proof = verified.as_deref().map_or(FreshProof::RecentSignIn, FreshProof::Password);
    api.ops.leave(caller, proof).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who is calling.
#[derive(Serialize, ToSchema)]
pub struct Me {
    /// The slug of the workspace.
    workspace: String,
    /// The member; none for a key the operator made.
    #[schema(required)]
    user: Option<Member>,
    /// The id of the key.
    #[schema(value_type = Option<String>, required)]
    key: Option<Id>,
    /// What this credential may do.
    #[schema(value_type = Vec<ScopeName>)]
    scopes: Scopes,
}

/// Says who is calling, and what they may do.
#[utoipa::path(get, path = "/api/v1/me", tag = "me",
    extensions(("x-scope" = json!("any"))), responses((status = 200, body = Me)))]
async fn me(caller: Authorized<AnyScope>, params: Params) -> Result<Json<Me>, ApiError> {
    params.finish()?;
    Ok(Json(Me {
        workspace: caller.workspace.slug.to_string(),
        user: caller.user.as_ref().map(Member::from),
        key: caller.key().map(|key| key.id),
        scopes: caller.scopes,
    }))
}

/// Deletes one's own account. It needs a session and the password, or a sign-in at the OpenID provider within the last five minutes; a key
/// can't do it.
#[utoipa::path(delete, path = "/api/v1/me", tag = "me", request_body = Option<Reauthentication>,
    extensions(("x-scope" = json!("any"))), responses((status = 204)))]
async fn leave(
    State(api): State<Arc<Api>>,
    caller: Authorized<AnyScope>,
    OptionalJsonObject(body): OptionalJsonObject,
) -> Result<StatusCode, ApiError> {
    delete_own_account(&api, &caller, body).await
}
