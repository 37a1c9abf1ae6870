//! Links as files: in and out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::{FieldCode, FieldError};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Params, UploadedFile};
use crate::auth::authorize::{Authorized, LinksRead, LinksWrite};
use crate::front_end::download::download;
use rlinks_ops::WriteMode;
use rlinks_ops::export::ExportFormat;
use rlinks_ops::import::{
    ImportFormat, ImportIdentity, ImportOptions, ImportReport, OnExisting, ReadError, Rows,
};

/// The routes of files.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(import)).routes(routes!(export))
}

/// What a file to import may be.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum ImportFormatName {
    Jsonl,
    Csv,
    Shlink,
    Dub,
    Chhoto,
    Yourls,
    Kutt,
    Sink,
    Golink,
    Bitly,
}

/// As what links leave.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
enum ExportFormatName {
    Jsonl,
    Csv,
    Nginx,
    Caddy,
    Cloudflare,
}

/// Imports the links of a file of at most 16 MiB: of ours, or of another shortener. Nothing that is there is changed.
#[utoipa::path(post, path = "/api/v1/import", tag = "links",
    params(("format" = inline(Option<ImportFormatName>), Query, description = "Else it is recognised by its contents"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would be done"),
        ("https_only" = Option<bool>, Query, description = "`false`: let links lead to http, where the file does not say otherwise")),
    request_body(content((String = "application/x-ndjson"), (String = "text/csv"), (String = "application/json"),
        (String = "application/sql"), (String = "application/octet-stream"))),
    extensions(("x-scope" = json!("links:write"))), responses((status = 200, body = ImportReport)))]
async fn import(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksWrite>,
    mut params: Params,
    UploadedFile(file): UploadedFile,
) -> Result<Json<ImportReport>, ApiError> {
    let format = params.one_of("format", &ImportFormat::ALL);
    let mode = if params.boolean("dry_run") == Some(true) { WriteMode::DryRun } else { WriteMode::Apply };
    let allow_http = params.boolean("https_only") == Some(false);
    params.finish()?;
    let rows = Rows::open(file.reader(), format).await.map_err(|error| match error {
        ReadError::Io(error) => {
            tracing::error!(%error, "a file that was sent cannot be read");
            ApiError::new(rlinks_core::error_code::ErrorCode::Internal)
        }
        error => FieldError::new("format", FieldCode::BadCharacters, error.to_string()).into(),
    })?;
    let import = ImportOptions {
        mode,
        on_existing: OnExisting::Skip,
        identity: ImportIdentity::New,
        allow_http,
        clicks: Some(api.clicks().await?),
        on_progress: &|_| {},
    };
    Ok(Json(api.ops.import(&caller, rows, &import).await?))
}

/// Exports links as a file: all, or in workspaces where members see only their own, those. The maps for other servers hold what
/// answers now.
#[utoipa::path(get, path = "/api/v1/export", tag = "links",
    params(("format" = inline(Option<ExportFormatName>), Query, description = "Else `jsonl`")),
    extensions(("x-scope" = json!("links:read"))),
    responses((status = 200, content((String = "application/x-ndjson"), (String = "text/csv"), (String = "text/plain")))))]
async fn export(
    State(api): State<Arc<Api>>,
    caller: Authorized<LinksRead>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let format = params.one_of("format", &ExportFormat::ALL);
    params.finish()?;
    Ok(download(&api, &caller, format.unwrap_or(ExportFormat::Jsonl)).await?)
}
