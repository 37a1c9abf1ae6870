//! Files of links: in, after a preview that says what would be done, and out.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use rlinks_core::Scope;
use rlinks_core::error_code::ErrorCode;

use super::super::{PageError, Web, capitalize, render_page};
use super::upload::Upload;
use crate::auth::authorize::LinksRead;
use crate::auth::session::CurrentSession;
use crate::front_end::download::{download, stream_body_until};
use crate::front_end::spilled_file::SpilledFile;
use crate::redirect::body_budget::BodyAccount;
use crate::web::extract::AuthorizedPage;
use rlinks_ops::WriteMode;
use rlinks_ops::export::ExportFormat;
use rlinks_ops::import::{
    ImportFormat, ImportIdentity, ImportOptions, ImportReport, OnExisting, ReadError, RowOutcome, Rows,
};

/// Where the file goes in the page. Nothing that is escaped looks like it.
const CONTENT_FIELD: &str = "name=\"content\" value=\"";
/// As much of a file as is encoded at once: whole groups of base64.
const PIECE_BYTES: u64 = 48 * 1024;
/// How long sending the page with a file may take.
const MAX_SENDING_TIME: Duration = Duration::from_mins(5);

/// What a file may be, in words.
const IMPORT_FORMATS: [(&str, &str); 10] = [
    ("jsonl", "JSON lines of ours"),
    ("csv", "CSV of ours"),
    ("shlink", "Shlink, CSV"),
    ("dub", "Dub, CSV"),
    ("chhoto", "Chhoto URL, JSON"),
    ("yourls", "YOURLS, SQL or CSV"),
    ("kutt", "Kutt, JSON"),
    ("sink", "Sink, JSON"),
    ("golink", "golink, JSON lines"),
    ("bitly", "Bitly, JSON"),
];

/// As what links leave, and what for.
const EXPORT_FORMATS: [(&str, &str, &str); 5] = [
    ("jsonl", "JSON lines", "everything a link has; can be imported again"),
    ("csv", "CSV", "the same for a spreadsheet; can be imported again"),
    ("nginx", "nginx", "a map of what answers now"),
    ("caddy", "Caddy", "lines for a Caddyfile, of what answers now"),
    ("cloudflare", "Cloudflare", "a _redirects file of what answers now"),
];

#[derive(Template)]
#[template(path = "workspace/import.html")]
struct ImportPage<'a> {
    current: &'a CurrentSession,
    may_import: bool,
    format: &'a str,
    allow_http: bool,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "workspace/import_report.html")]
struct ReportPage<'a> {
    current: &'a CurrentSession,
    report: &'a ImportReport,
    allow_http: bool,
}

/// The form, and the files to take away.
pub async fn show(
    AuthorizedPage { current, caller, .. }: AuthorizedPage<LinksRead>,
) -> Result<Response, PageError> {
    let may_import = caller.scopes.contains(Scope::LinksWrite);
    render_page(&ImportPage { current: &current, may_import, format: "", allow_http: false, problem: None })
}

/// A file: what importing it would do, and once that was seen, importing it.
pub async fn preview_or_import(State(web): State<Arc<Web>>, upload: Upload) -> Result<Response, PageError> {
    let Upload { current, caller, file, account, format, allow_http, confirmed } = upload;
    let again = |problem: PageError| {
        let shown = ImportPage {
            current: &current,
            may_import: true,
            format: &format,
            allow_http,
            problem: Some(problem.message.clone()),
        };
        problem.rendered_in(&shown, None)
    };
    if file.is_empty() {
        return Err(again(PageError::with_message(
            ErrorCode::ValidationFailed,
            "Choose a file, or paste its contents",
        )));
    }
    let known = ImportFormat::ALL.iter().find(|(name, _)| *name == format).map(|(_, known)| *known);
    if known.is_none() && !format.is_empty() {
        return Err(again(PageError::with_message(ErrorCode::ValidationFailed, "There is no such format")));
    }
    let rows = match Rows::open(file.reader(), known).await {
        Ok(rows) => rows,
        Err(ReadError::Io(error)) => {
            tracing::error!(%error, "a file that was sent cannot be read");
            return Err(PageError::new(ErrorCode::Internal));
        }
        Err(error) => {
            return Err(again(PageError::with_message(
                ErrorCode::ValidationFailed,
                capitalize(&error.to_string()),
            )));
        }
    };
    let mode = if confirmed { WriteMode::Apply } else { WriteMode::DryRun };
    let import = ImportOptions {
        mode,
        on_existing: OnExisting::Skip,
        identity: ImportIdentity::New,
        allow_http,
        clicks: Some(web.front_end.clicks().await?),
        on_progress: &|_| {},
    };
    let report = web.ops.import(&caller, rows, &import).await?;
    let page = ReportPage { current: &current, report: &report, allow_http };
    if confirmed || report.created == 0 {
        return render_page(&page);
    }
    let page = page.render().map_err(|error| {
        tracing::error!(%error, "a page could not be made");
        PageError::new(ErrorCode::Internal)
    })?;
    Ok(page_with_file(&page, &file, account))
}

/// The page with the file in its form. It is read while it is sent, and given up when that takes too long: until then it counts against the
/// budget for bodies.
fn page_with_file(page: &str, file: &SpilledFile, account: Option<BodyAccount>) -> Response {
    let before = page.find(CONTENT_FIELD).map_or(page.len(), |at| at + CONTENT_FIELD.len());
    let (before, after) = page.split_at(before);
    let length = page.len() as u64 + file.length().div_ceil(3) * 4;
    let reader = file.reader().take(file.length());
    let deadline = tokio::time::Instant::now() + MAX_SENDING_TIME;
    let pieces = stream::try_unfold((reader, Some(after.to_owned()), account), move |state| async move {
        let (mut reader, after, account) = state;
        let Some(after) = after else { return Ok(None) };
        let mut piece = Vec::new();
        let read = reader.by_ref().take(PIECE_BYTES).read_to_end(&mut piece);
        read?;
        let encoded = STANDARD.encode(&piece);
        if reader.limit() > 0 {
            return Ok::<_, std::io::Error>(Some((encoded, (reader, Some(after), account))));
        }
        Ok(Some((encoded + &after, (reader, None, account))))
    });
    let body = stream_body_until(before.to_owned(), pieces, Some(deadline));
    ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_LENGTH, &length.to_string())], body)
        .into_response()
}

/// Links as a file.
pub async fn export(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, caller, .. }: AuthorizedPage<LinksRead>,
) -> Result<Response, PageError> {
    let requested = request.query_param("format").unwrap_or_default();
    let format = ExportFormat::ALL.iter().find(|(name, _)| *name == requested);
    let (_, format) =
        format.ok_or_else(|| PageError::with_message(ErrorCode::NotFound, "There is no such format"))?;
    download(&web.front_end, &caller, *format).await.map_err(PageError::from)
}
