//! Links as files: in and out.

use std::io::Cursor;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use rlinks_core::{FieldCode, FieldError};
use tokio::sync::mpsc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::ApiError;
use crate::api::extract::{Params, UploadedFile};
use crate::auth::authorize::{Authorized, LinksRead, LinksWrite};
use crate::auth::caller::Caller;
use rlinks_ops::export::{Export, ExportFormat};
use rlinks_ops::import::{
    CreationQuota, ImportFormat, ImportIdentity, ImportOptions, ImportReport, OnExisting, ReadError, Rows,
};
use rlinks_ops::limits::LimitKey;
use rlinks_ops::{OpsError, WriteMode};
use rlinks_store::clock::monotonic_ms;

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
    let rows = Rows::open(Cursor::new(file), format).await.map_err(|error| match error {
        ReadError::Io(error) => {
            tracing::error!(%error, "a file that was sent cannot be read");
            ApiError::new(rlinks_core::error_code::ErrorCode::Internal)
        }
        error => FieldError::new("format", FieldCode::BadCharacters, error.to_string()).into(),
    })?;
    Ok(Json(import_rows(&api, &caller, rows, mode, allow_http).await?))
}

/// What somebody imports: as many links as they may make, and none that is there is changed.
pub(crate) async fn import_rows(
    api: &Api,
    caller: &Caller,
    rows: Rows,
    mode: WriteMode,
    allow_http: bool,
) -> Result<ImportReport, OpsError> {
    let limit = caller.workspace.policy.limits.creations_per_hour;
    let creations = limit.map(|limit| Creations { api, caller, limit });
    let import = ImportOptions {
        mode,
        on_existing: OnExisting::Skip,
        identity: ImportIdentity::New,
        allow_http,
        clicks: Some(api.clicks().await?),
        quota: creations.as_ref().map(|creations| creations as &dyn CreationQuota),
        on_written: &|link| api.update_route(link),
        on_progress: &|_| {},
    };
    api.ops.import(&caller.by, &caller.workspace, rows, &import).await
}

/// The limit of links somebody makes in an hour.
struct Creations<'a> {
    api: &'a Api,
    caller: &'a Caller,
    limit: u32,
}

impl CreationQuota for Creations<'_> {
    fn take(&self, wanted: usize) -> usize {
        let (subject, now) = (LimitKey::Creations(self.caller.principal_id()), monotonic_ms());
        (0..wanted)
            .take_while(|_| self.api.auth.rate_limiter.take(subject, self.limit, 1, now).is_ok())
            .count()
    }

    fn refund(&self, unused: usize) {
        let subject = LimitKey::Creations(self.caller.principal_id());
        self.api.auth.rate_limiter.refund(subject, u32::try_from(unused).unwrap_or(u32::MAX));
    }
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

/// A file of the links somebody sees.
pub(crate) async fn download(api: &Api, caller: &Caller, format: ExportFormat) -> Result<Response, OpsError> {
    let clicks = api.clicks().await?;
    let mut export = Export::new(&api.ops, Some(clicks), &caller.by, &caller.workspace, format).await?;
    // What can go wrong goes wrong here mostly, while there is still an answer to give.
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::try_unfold(export, |mut export| async move {
        Ok::<_, OpsError>(export.next().await?.map(|text| (text, export)))
    });
    let body = stream_body(first, rest);
    let name = format!("attachment; filename=\"{}\"", format.file_name());
    Ok(([(CONTENT_TYPE, format.media_type()), (CONTENT_DISPOSITION, &name)], body).into_response())
}

/// A body of pages that come as they are taken. It is read on a serving thread, which never touches the database; so they are made
/// here.
pub(crate) fn stream_body(
    first: String,
    rest: impl Stream<Item = Result<String, OpsError>> + Send + 'static,
) -> Body {
    let (pages, taken) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut rest = std::pin::pin!(rest);
        while let Some(page) = rest.next().await {
            // An answer that breaks off is seen to be none.
            let page = page.map_err(|error| std::io::Error::other(error.to_string()));
            let is_over = page.is_err();
            if pages.send(page).await.is_err() || is_over {
                return;
            }
        }
    });
    let rest = stream::unfold(taken, |mut taken| async { Some((taken.recv().await?, taken)) });
    Body::from_stream(stream::iter([Ok(first)]).chain(rest))
}
