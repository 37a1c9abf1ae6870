//! A file of links as a browser sends it: chosen, pasted, or, after the preview, the very same once more.
//!
//! Between preview and import the file is kept by the page and not by the server: whichever node gets the second form needs nothing of
//! the first. It travels as base64, because browsers change the ends of lines in text. While it is here it is a [`SpilledFile`], never a
//! value in memory.

use std::sync::Arc;

use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use rlinks_core::error_code::ErrorCode;

use super::super::{PageError, Web};
use crate::auth::authorize::LinksWrite;
use crate::auth::csrf::is_cross_site;
use crate::auth::session::CurrentSession;
use crate::front_end::spilled_file::{SpilledFile, SpillingFile};
use crate::redirect::body_budget::{BodyAccount, BodyRefused};
use crate::web::extract::{WebRequest, authorize, csrf_failed, redirect_to_login};
use rlinks_ops::Caller;

const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// The largest form: such a file as base64, and some words.
pub const MAX_BODY_BYTES: usize = (16 * 1024 * 1024_usize).div_ceil(3) * 4 + 64 * 1024;
/// The longest of the other fields.
const MAX_TEXT_FIELD_BYTES: usize = 1024;
/// Fields in the form.
const MAX_FORM_FIELDS: usize = 16;

/// A file, and what is to be done with it.
pub struct Upload {
    pub current: CurrentSession,
    pub caller: Caller,
    pub file: SpilledFile,
    /// What it holds while it is here.
    pub account: Option<BodyAccount>,
    /// What it is; empty: to be recognised.
    pub format: String,
    /// Links may lead to http.
    pub allow_http: bool,
    /// The preview was seen.
    pub confirmed: bool,
}

impl FromRequest<Arc<Web>> for Upload {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let request = WebRequest::from_parts(&mut parts).map_err(PageError::into_response)?;
        let current = request.current_session(web).await.map_err(PageError::into_response)?;
        let current = current.ok_or_else(|| redirect_to_login(None))?;
        if is_cross_site(&request.headers, &request.connection) {
            return Err(csrf_failed().into_response());
        }
        let caller = authorize::<LinksWrite>(&current).map_err(PageError::into_response)?;
        let form = Multipart::from_request(Request::from_parts(parts, body), web).await;
        let form = form.map_err(|_| PageError::new(ErrorCode::UnsupportedMediaType).into_response())?;
        let upload = Upload {
            current,
            caller,
            file: web.front_end.receive_file().finish(),
            account: request.body_account,
            format: String::new(),
            allow_http: false,
            confirmed: false,
        };
        read_upload(form, upload, web).await.map_err(PageError::into_response)
    }
}

/// Reads the form. The token comes first: nothing of what follows is read for somebody who did not mean it.
async fn read_upload(mut form: Multipart, mut upload: Upload, web: &Web) -> Result<Upload, PageError> {
    let first = form.next_field().await.map_err(|error| multipart_error(&error))?.ok_or_else(csrf_failed)?;
    if first.name() != Some("csrf") || !upload.current.csrf_matches(&read_text(first).await?) {
        return Err(csrf_failed());
    }
    for _ in 0..MAX_FORM_FIELDS {
        let Some(field) = form.next_field().await.map_err(|error| multipart_error(&error))? else {
            return Ok(upload);
        };
        match field.name().unwrap_or_default() {
            "file" | "text" => {
                let file = read_file(field, web.front_end.receive_file(), None).await?;
                // If one of the two is empty, the other counts.
                if !file.is_empty() {
                    upload.file = file;
                }
            }
            "content" => {
                let decoder = Some(Base64Decoder::default());
                upload.file = read_file(field, web.front_end.receive_file(), decoder).await?;
            }
            "format" => upload.format = read_text(field).await?,
            "allow_http" => upload.allow_http = !read_text(field).await?.is_empty(),
            "confirmed" => upload.confirmed = read_text(field).await? == "yes",
            _ => return Err(PageError::new(ErrorCode::BadRequest)),
        }
    }
    Err(PageError::new(ErrorCode::BadRequest))
}

async fn read_text(field: Field<'_>) -> Result<String, PageError> {
    let bytes = read_bytes(field, MAX_TEXT_FIELD_BYTES).await?;
    String::from_utf8(bytes).map_err(|_| PageError::new(ErrorCode::BadRequest))
}

async fn read_bytes(mut field: Field<'_>, max_bytes: usize) -> Result<Vec<u8>, PageError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| multipart_error(&error))? {
        if bytes.len() + chunk.len() > max_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads a file, as it is or as base64.
async fn read_file(
    mut field: Field<'_>,
    mut file: SpillingFile,
    mut decoder: Option<Base64Decoder>,
) -> Result<SpilledFile, PageError> {
    while let Some(chunk) = field.chunk().await.map_err(|error| multipart_error(&error))? {
        let written = match &mut decoder {
            None => file.push(&chunk),
            Some(decoder) => file.push(&decoder.decode(&chunk)?),
        };
        written.map_err(|error| {
            tracing::error!(%error, "a file that was sent cannot be kept");
            PageError::new(ErrorCode::Internal)
        })?;
        if file.length() > MAX_FILE_BYTES {
            return Err(too_large());
        }
    }
    if let Some(decoder) = decoder {
        decoder.finish()?;
    }
    Ok(file.finish())
}

/// Decodes base64 that comes in pieces.
#[derive(Default)]
struct Base64Decoder {
    /// Letters of a group that is not complete.
    rest: Vec<u8>,
    /// The padding at the end has come.
    has_ended: bool,
}

impl Base64Decoder {
    fn decode(&mut self, piece: &[u8]) -> Result<Vec<u8>, PageError> {
        self.rest.extend_from_slice(piece);
        let later = self.rest.split_off(self.rest.len() / 4 * 4);
        let groups = std::mem::replace(&mut self.rest, later);
        if self.has_ended && !groups.is_empty() {
            return Err(PageError::new(ErrorCode::BadRequest));
        }
        self.has_ended |= groups.last() == Some(&b'=');
        STANDARD.decode(groups).map_err(|_| PageError::new(ErrorCode::BadRequest))
    }

    fn finish(self) -> Result<(), PageError> {
        if self.rest.is_empty() { Ok(()) } else { Err(PageError::new(ErrorCode::BadRequest)) }
    }
}

fn too_large() -> PageError {
    PageError::with_message(
        ErrorCode::PayloadTooLarge,
        "The file has more than 16 MiB. Import it in parts, or at the command line: rmax links import",
    )
}

fn multipart_error(error: &MultipartError) -> PageError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    if let Some(refused) = BodyRefused::find(error) {
        return refused.into();
    }
    PageError::with_message(ErrorCode::BadRequest, "The form did not arrive whole")
}
