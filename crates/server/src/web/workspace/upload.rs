//! A file of links as a browser sends it: chosen, pasted, or, after the preview, the very same once more.
//!
//! Between preview and import the file is kept by the page and not by the server: whichever node gets the second form needs nothing of
//! the first. It travels as base64, because browsers change the ends of lines in text.

use std::sync::Arc;

use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use rlinks_core::error_code::ErrorCode;

use super::super::{Problem, Web};
use crate::auth::authorize::LinksWrite;
use crate::auth::caller::Caller;
use crate::auth::csrf::is_from_elsewhere;
use crate::auth::session::Signed;
use crate::web::extract::{Visit, allowed, not_meant, to_login};

/// The largest file.
pub const MOST_FILE_BYTES: usize = 16 * 1024 * 1024;
/// The largest form: such a file as base64, and some words.
pub const MOST_BODY_BYTES: usize = MOST_FILE_BYTES.div_ceil(3) * 4 + 64 * 1024;
/// The longest of the other fields.
const MOST_WORD_BYTES: usize = 1024;
/// Fields in the form.
const MOST_FIELDS: usize = 16;

/// A file, and what is to be done with it.
pub struct Upload {
    pub signed: Signed,
    pub caller: Caller,
    pub file: Vec<u8>,
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
        let visit = Visit::of(&mut parts).map_err(Problem::into_response)?;
        let signed = visit.signed(web).await.map_err(Problem::into_response)?;
        let signed = signed.ok_or_else(|| to_login(None))?;
        if is_from_elsewhere(&visit.headers, &visit.way) {
            return Err(not_meant().into_response());
        }
        let caller = allowed::<LinksWrite>(&signed).map_err(Problem::into_response)?;
        let form = Multipart::from_request(Request::from_parts(parts, body), web).await;
        let form = form.map_err(|_| Problem::new(ErrorCode::UnsupportedMediaType).into_response())?;
        read(form, signed, caller).await.map_err(Problem::into_response)
    }
}

/// Reads the form. The token comes first: nothing of what follows is read for somebody who did not mean it.
async fn read(mut form: Multipart, signed: Signed, caller: Caller) -> Result<Upload, Problem> {
    let first = form.next_field().await.map_err(|error| broken(&error))?.ok_or_else(not_meant)?;
    if first.name() != Some("csrf") || !signed.has_shown(&word(first).await?) {
        return Err(not_meant());
    }
    let mut upload = Upload {
        signed,
        caller,
        file: Vec::new(),
        format: String::new(),
        allow_http: false,
        confirmed: false,
    };
    for _ in 0..MOST_FIELDS {
        let Some(field) = form.next_field().await.map_err(|error| broken(&error))? else { return Ok(upload) };
        match field.name().unwrap_or_default() {
            "file" | "text" => {
                let bytes = whole(field, MOST_FILE_BYTES).await?;
                // Who leaves one of the two empty means the other.
                if !bytes.is_empty() {
                    upload.file = bytes;
                }
            }
            "content" => {
                let bytes = whole(field, MOST_BODY_BYTES).await?;
                upload.file = STANDARD.decode(bytes).map_err(|_| Problem::new(ErrorCode::BadRequest))?;
            }
            "format" => upload.format = word(field).await?,
            "allow_http" => upload.allow_http = !word(field).await?.is_empty(),
            "confirmed" => upload.confirmed = word(field).await? == "yes",
            _ => return Err(Problem::new(ErrorCode::BadRequest)),
        }
    }
    Err(Problem::new(ErrorCode::BadRequest))
}

async fn word(field: Field<'_>) -> Result<String, Problem> {
    let bytes = whole(field, MOST_WORD_BYTES).await?;
    String::from_utf8(bytes).map_err(|_| Problem::new(ErrorCode::BadRequest))
}

async fn whole(mut field: Field<'_>, most: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| broken(&error))? {
        if bytes.len() + chunk.len() > most {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn too_large() -> Problem {
    Problem::saying(
        ErrorCode::PayloadTooLarge,
        "The file has more than 16 MiB. Import it in parts, or at the command line: rmax links import",
    )
}

fn broken(error: &MultipartError) -> Problem {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    Problem::saying(ErrorCode::BadRequest, "The form did not arrive whole")
}
