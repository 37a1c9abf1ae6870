//! The audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use rlinks_core::audit::AuditEntry;
use rlinks_core::{FieldCode, FieldError};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::Params;
use crate::auth::authorize::{Authorized, WorkspaceAdmin};
use rlinks_wire::Page;

/// The routes of the log.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Who changed what, when, from what to what; sealed by the hash of the entry before.
#[derive(ToSchema)]
#[schema(as = AuditEntry)]
#[expect(dead_code, reason = "describes `AuditEntry`")]
pub struct EntryView {
    seq: i64,
    #[schema(format = DateTime)]
    ts: String,
    workspace: String,
    actor: String,
    #[schema(example = "link.create")]
    action: String,
    #[schema(example = "link:parity")]
    subject: String,
    #[schema(value_type = Option<Object>, required)]
    before: Option<Value>,
    #[schema(value_type = Option<Object>, required)]
    after: Option<Value>,
    prev_hash: String,
    hash: String,
}

/// Lists what was done in the workspace, newest first; with `after` oldest first, to read on where one left off.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit",
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100), ("cursor" = Option<String>, Query),
        ("before" = Option<i64>, Query, description = "Only entries before the one with this `seq`", minimum = 0),
        ("after" = Option<i64>, Query, description = "Only entries after the one with this `seq`, oldest first", minimum = 0)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Page<EntryView>)))]
async fn list(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    mut params: Params,
) -> Result<Json<Page<AuditEntry>>, ApiError> {
    let limit = params.number("limit", 1..=100).unwrap_or(50);
    let cursor = params.text("cursor");
    let before = params.number("before", 0..=i64::MAX);
    let after = params.number("after", 0..=i64::MAX);
    if before.is_some() && after.is_some() {
        params.push_error(FieldError::new(
            "after",
            FieldCode::BadCharacters,
            "and `before` exclude each other",
        ));
    }
    params.finish()?;
    let workspace = caller.workspace.id;
    let direction = if after.is_some() { "after" } else { "before" };
    let context = format!("audit {workspace} {direction}");
    let place = cursor.map(|text| api.open_cursor::<i64>(&context, &text)).transpose()?;
    let entries = if let Some(after) = after {
        api.ops.store.audit_after(workspace, place.unwrap_or(after), limit + 1).await?
    } else {
        let before = place.or(before).unwrap_or(i64::MAX);
        api.ops.store.audit_before(workspace, before, limit + 1).await?
    };
    Ok(Json(api.page(&context, entries, limit, |entry| entry.seq)))
}
