//! The workspace, its policy and its domains.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rlinks_core::{FieldCode, FieldError, Host, Id, Policy, Timestamp, Workspace};
use rlinks_store::DomainRecord;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Fields, JsonObject, NoParams, Params, PathName};
use crate::auth::authorize::{Authorized, WorkspaceAdmin};
use rlinks_ops::workspaces::WorkspacePatch;
use rlinks_ops::{OpsError, Resource};
use rlinks_wire::Page;
use rlinks_wire::domain::Domain;

/// The routes of the workspace.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(show, change))
        .routes(routes!(domains, add_domain))
        .routes(routes!(change_domain, remove_domain))
        .routes(routes!(verify_domain))
}

/// A workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = Workspace)]
pub struct WorkspaceView {
    #[schema(value_type = String)]
    id: Id,
    slug: String,
    name: String,
    /// What links may be here, and how they answer.
    #[schema(value_type = Object)]
    policy: Policy,
    /// Links that are not deleted.
    links: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// What to change about a workspace.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `change` reads")]
pub struct WorkspaceChange {
    #[schema(max_length = 255)]
    name: Option<String>,
    /// Only what is named changes; with `preset` the rest begins from that one.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
}

async fn view(api: &Api, workspace: &Workspace) -> Result<WorkspaceView, ApiError> {
    Ok(WorkspaceView {
        id: workspace.id,
        slug: workspace.slug.to_string(),
        name: workspace.name.clone(),
        policy: workspace.policy.clone(),
        links: api.ops.store.count_links(workspace.id).await?,
        created_at: workspace.created_at,
        updated_at: workspace.updated_at,
    })
}

/// Shows the workspace and its policy.
#[utoipa::path(get, path = "/api/v1/workspace", tag = "workspace",
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = WorkspaceView)))]
async fn show(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    params: Params,
) -> Result<Json<WorkspaceView>, ApiError> {
    params.finish()?;
    Ok(Json(view(&api, &caller.workspace).await?))
}

/// Changes name or policy. A policy binds new writes; links that are there keep answering.
#[utoipa::path(patch, path = "/api/v1/workspace", tag = "workspace", request_body = WorkspaceChange,
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = WorkspaceView)))]
async fn change(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    JsonObject(body): JsonObject,
) -> Result<Json<WorkspaceView>, ApiError> {
    let seen = &caller.workspace;
    let mut fields = Fields::new(body);
    let name = fields.parsed("name", Workspace::parse_name);
    let policy = match fields.value("policy") {
        None | Some(Value::Null) => None,
        Some(Value::Object(changes)) => Some(seen.policy.merge_json(&changes)?),
        Some(_) => fields.take(Err(FieldError::new("policy", FieldCode::BadCharacters, "must be an object"))),
    };
    fields.finish()?;
    let workspace = api.ops.update_workspace(&caller, WorkspacePatch { name, policy }).await?;
    Ok(Json(view(&api, &workspace).await?))
}

/// A host to answer on.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `add_domain` reads")]
pub struct NewDomain {
    #[schema(max_length = 253, example = "go.example.com")]
    host: String,
    /// Short URLs are to be written with it.
    primary: Option<bool>,
}

/// What to change about a host.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `change_domain` reads")]
pub struct DomainChange {
    /// `true`: short URLs are to be written with it from now on. Another host takes that over, so it is never `false`.
    primary: bool,
}

fn from_record(record: DomainRecord, workspace: &Workspace, now: Timestamp) -> Domain {
    Domain::new(record.domain, &record.verification, workspace, now)
}

async fn domain_view(api: &Api, workspace: &Workspace, host: &Host) -> Result<Domain, ApiError> {
    let record = api.ops.domain_record(workspace, host).await?;
    Ok(from_record(record, workspace, api.ops.clock.now()))
}

/// Lists the hosts the workspace answers on.
#[utoipa::path(get, path = "/api/v1/domains", tag = "domains",
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Page<Domain>)))]
async fn domains(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    params: Params,
) -> Result<Json<Page<Domain>>, ApiError> {
    params.finish()?;
    let (workspace, now) = (&caller.workspace, api.ops.clock.now());
    let domains = api.ops.store.domain_records().await?;
    let mine = domains.into_iter().filter(|record| record.domain.workspace == workspace.id);
    let data = mine.map(|record| from_record(record, workspace, now)).collect();
    Ok(Json(Page { data, next_cursor: None }))
}

/// Adds a host, or makes one that is there the primary one. One that another workspace has is a conflict.
///
/// Where the operator asks for proof, a new host is `unproven` and does not answer until `proof` is in DNS.
#[utoipa::path(post, path = "/api/v1/domains", tag = "domains", request_body = NewDomain,
    extensions(("x-scope" = json!("workspace:admin"))), 
    responses((status = 201, body = Domain), (status = 200, body = Domain, description = "There already")))]
async fn add_domain(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(body);
    let host = fields.required("host", Host::parse);
    let primary = match fields.value("primary") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(primary)) => primary,
        Some(_) => {
            let wrong = FieldError::new("primary", FieldCode::BadCharacters, "must be true or false");
            fields.take(Err(wrong)).unwrap_or_default()
        }
    };
    fields.finish()?;
    let missing = || ApiError::from(FieldError::new("host", FieldCode::Required, "is missing"));
    let host = host.ok_or_else(missing)?;
    let (_, known) = api.ops.add_domain(&caller, host.clone()).await?;
    if primary {
        api.ops.set_primary_domain(&caller, &host).await?;
    }
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(domain_view(&api, &caller.workspace, &host).await?)).into_response())
}

/// Makes a host the primary one: short URLs are written with it.
#[utoipa::path(patch, path = "/api/v1/domains/{host}", tag = "domains", request_body = DomainChange, params(("host" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Domain)))]
async fn change_domain(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(host): PathName,
    _: NoParams,
    JsonObject(body): JsonObject,
) -> Result<Json<Domain>, ApiError> {
    let mut fields = Fields::new(body);
    let refused = match fields.value("primary") {
        Some(Value::Bool(true)) => None,
        None => Some((FieldCode::Required, "is missing")),
        Some(_) => Some((FieldCode::BadCharacters, "must be true; another host takes it over")),
    };
    if let Some((code, message)) = refused {
        fields.take::<()>(Err(FieldError::new("primary", code, message)));
    }
    fields.finish()?;
    let parsed = Host::parse(&host).map_err(|_| OpsError::NotFound(Resource::Domain(host)))?;
    api.ops.set_primary_domain(&caller, &parsed).await?;
    Ok(Json(domain_view(&api, &caller.workspace, &parsed).await?))
}

/// Looks for a host in DNS at once: whether its proof is there, and where its name leads. With its proof it answers.
#[utoipa::path(post, path = "/api/v1/domains/{host}/verify", tag = "domains", params(("host" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 200, body = Domain)))]
async fn verify_domain(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(host): PathName,
    _: NoParams,
) -> Result<Json<Domain>, ApiError> {
    let parsed = Host::parse(&host).map_err(|_| OpsError::NotFound(Resource::Domain(host)))?;
    let record = api.ops.verify_domain(&caller, &parsed).await?;
    Ok(Json(from_record(record, &caller.workspace, api.ops.clock.now())))
}

/// Removes a host: it no longer answers.
#[utoipa::path(delete, path = "/api/v1/domains/{host}", tag = "domains", params(("host" = String, Path)),
    extensions(("x-scope" = json!("workspace:admin"))), responses((status = 204)))]
async fn remove_domain(
    State(api): State<Arc<Api>>,
    caller: Authorized<WorkspaceAdmin>,
    PathName(host): PathName,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    let unknown = || OpsError::NotFound(Resource::Domain(host.clone()));
    let parsed = Host::parse(&host).map_err(|_| unknown())?;
    api.ops.remove_domain(&caller, &parsed).await?;
    Ok(StatusCode::NO_CONTENT)
}
