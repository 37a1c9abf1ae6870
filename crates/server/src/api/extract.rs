//! What a request brings: query parameters, a JSON body, a version it saw.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Timestamp, strict_json};
use serde_json::{Map, Value};

use super::Api;
use super::error::ApiError;
use crate::front_end::spilled_file::SpilledFile;
use crate::redirect::body_budget::{BodyAccount, BodyRefused};

/// A body of most routes.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// A body of many links.
pub const MAX_BULK_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Query parameters of one request.
const MAX_PARAMETERS: usize = 64;

/// The one name in the path of a route. What is no text is nobody's name.
pub struct PathName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(path_is_not_text()),
        }
    }
}

/// The two names in the path of a route.
pub struct TwoPathNames(pub String, pub String);

impl<S: Send + Sync> FromRequestParts<S> for TwoPathNames {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<(String, String)>::from_request_parts(parts, state).await {
            Ok(Path((first, second))) => Ok(Self(first, second)),
            Err(_) => Err(path_is_not_text()),
        }
    }
}

fn path_is_not_text() -> ApiError {
    ApiError::with_message(ErrorCode::NotFound, "The path is not UTF-8, so nothing is there")
}

/// No query parameters: who sends one expects something of it.
pub struct NoParams;

impl<S: Sync> FromRequestParts<S> for NoParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Params::parse(parts.uri.query())?.finish().map(|()| Self)
    }
}

/// Query parameters. Each is taken by name; what is left over is an error, so that a misspelt filter does not list everything.
pub struct Params {
    values: Vec<(String, String)>,
    errors: FieldErrors,
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::parse(parts.uri.query())
    }
}

impl Params {
    fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let query = query.unwrap_or_default().as_bytes();
        let values: Vec<(String, String)> =
            url::form_urlencoded::parse(query).into_owned().take(MAX_PARAMETERS + 1).collect();
        if values.len() > MAX_PARAMETERS {
            return Err(ApiError::with_message(
                ErrorCode::BadRequest,
                format!("There are more than {MAX_PARAMETERS} query parameters"),
            ));
        }
        Ok(Self { values, errors: FieldErrors::default() })
    }

    /// What makes a list the same list: everything that was asked for but the place in it.
    pub fn identity(&self, of: &str, cursor_name: &str) -> String {
        let mut asked: Vec<_> =
            self.values.iter().filter(|(name, _)| name != cursor_name && name != "limit").collect();
        asked.sort();
        format!("{of} {asked:?}")
    }

    /// The value of this name; twice is an error.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let at = self.values.iter().position(|(known, _)| known == name)?;
        let (_, value) = self.values.remove(at);
        if self.values.iter().any(|(known, _)| known == name) {
            self.values.retain(|(known, _)| known != name);
            self.errors.push(FieldError::new(name, FieldCode::BadCharacters, "is given more than once"));
        }
        if value.contains('\0') {
            self.errors.push(FieldError::new(name, FieldCode::ControlCharacter, "has control characters"));
            return None;
        }
        Some(value)
    }

    pub fn parsed<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, FieldError>) -> Option<T> {
        let text = self.text(name)?;
        let read = read(&text).map_err(|error| FieldError { field: name.to_owned(), ..error });
        self.errors.ok_or_push(read)
    }

    /// One of some words.
    pub fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        self.parsed(name, |text| {
            let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
            found.ok_or_else(|| {
                let list = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
                FieldError::new(name, FieldCode::BadCharacters, format!("is none of {list}"))
            })
        })
    }

    // `true` or `false`.
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        self.one_of(name, &[("true", true), ("false", false)])
    }

    /// A whole number of a range.
    pub fn number(&mut self, name: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        self.parsed(name, |text| match text.parse::<i64>() {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(number) if number < *range.start() => {
                Err(FieldError::new(name, FieldCode::TooShort, format!("must be {} at least", range.start())))
            }
            Ok(_) => {
                Err(FieldError::new(name, FieldCode::TooLong, format!("must be {} at most", range.end())))
            }
            Err(_) => Err(FieldError::new(name, FieldCode::BadCharacters, "is no whole number")),
        })
    }

    /// A moment: RFC 3339, a day, or Unix seconds.
    pub fn time(&mut self, name: &str) -> Option<Timestamp> {
        self.parsed(name, |text| time(name, text))
    }

    /// An error somebody else found.
    pub fn push_error(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// Nothing is left over, and nothing was wrong.
    pub fn finish(mut self) -> Result<(), ApiError> {
        for (name, _) in self.values.drain(..) {
            let name: String = name.chars().take(100).collect();
            self.errors.push(FieldError::new(
                &name,
                FieldCode::UnknownField,
                "is no parameter of this route",
            ));
        }
        Ok(self.errors.into_result()?)
    }
}

/// A moment as text, of the field that brought it.
pub fn time(name: &str, text: &str) -> Result<Timestamp, FieldError> {
    let parsed = match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_unix_seconds(seconds),
        Err(_) => Timestamp::parse(text),
    };
    parsed.map_err(|error| {
        let code = match error {
            rlinks_core::time::TimeError::Milliseconds => FieldCode::Milliseconds,
            _ => FieldCode::NotATime,
        };
        FieldError::new(name, code, error.to_string())
    })
}

pub struct JsonObject(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for JsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        Ok(Self(read_json_object(request, MAX_BODY_BYTES).await?))
    }
}

/// The same where nothing need be sent.
pub struct OptionalJsonObject(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for OptionalJsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            Params::parse(request.uri().query())?.finish()?;
            return Ok(Self(Map::new()));
        }
        Ok(Self(read_json_object(request, MAX_BODY_BYTES).await?))
    }
}

pub struct BulkJsonObject(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for BulkJsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        Ok(Self(read_json_object(request, MAX_BULK_BODY_BYTES).await?))
    }
}

async fn read_json_object(request: Request, max_bytes: usize) -> Result<Map<String, Value>, ApiError> {
    debug_assert!(*request.method() != Method::GET);
    Params::parse(request.uri().query())?.finish()?;
    if !is_json(request.headers()) {
        return Err(ApiError::with_message(
            ErrorCode::UnsupportedMediaType,
            "Send JSON, with `Content-Type: application/json`",
        ));
    }
    let account = request.extensions().get::<BodyAccount>().cloned();
    let bytes = read_body(request, max_bytes).await?;
    if let Some(account) = account {
        account.wait_to_parse().await;
    }
    strict_json::parse_object(&bytes)
        .map_err(|error| ApiError::with_message(ErrorCode::BadRequest, error.to_string()))
}

/// A body of at most so many bytes.
async fn read_body(request: Request, max_bytes: usize) -> Result<Bytes, ApiError> {
    let body = limited_body(request, max_bytes)?;
    let body = body.collect().await.map_err(|error| body_error(&*error, max_bytes))?;
    Ok(body.to_bytes())
}

/// A body that ends with an error after so many bytes; one that was announced to be longer is not begun.
fn limited_body(request: Request, max_bytes: usize) -> Result<Limited<Body>, ApiError> {
    let announced = request.headers().get(http::header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(too_large(max_bytes));
    }
    Ok(Limited::new(request.into_body(), max_bytes))
}

fn too_large(max_bytes: usize) -> ApiError {
    ApiError::with_message(
        ErrorCode::PayloadTooLarge,
        format!("The body has more than {} KiB", max_bytes / 1024),
    )
}

fn body_error(error: &(dyn std::error::Error + 'static), max_bytes: usize) -> ApiError {
    if error.is::<LengthLimitError>() {
        return too_large(max_bytes);
    }
    match BodyRefused::find(error) {
        Some(refused) => refused.into(),
        None => ApiError::with_message(ErrorCode::BadRequest, "The body did not arrive whole"),
    }
}

/// A file of links, of whichever kind.
pub struct UploadedFile(pub SpilledFile);

/// What files of links are sent as.
const FILE_TYPES: [&str; 8] = [
    "application/json",
    "application/x-ndjson",
    "application/jsonl",
    "text/csv",
    "application/sql",
    "application/x-sql",
    "text/plain",
    "application/octet-stream",
];

impl FromRequest<Arc<Api>> for UploadedFile {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !FILE_TYPES.contains(&kind.as_str()) {
            let message = "Send the file itself, with `Content-Type: application/octet-stream` or what it is";
            return Err(ApiError::with_message(ErrorCode::UnsupportedMediaType, message));
        }
        let mut body = limited_body(request, MAX_BULK_BODY_BYTES)?;
        let mut file = api.receive_file();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| body_error(&*error, MAX_BULK_BODY_BYTES))?;
            let written = frame.data_ref().map_or(Ok(()), |bytes| file.push(bytes));
            written.map_err(|error| {
                tracing::error!(%error, "a file that was sent cannot be kept");
                ApiError::new(ErrorCode::Internal)
            })?;
        }
        Ok(Self(file.finish()))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || (kind.get(..12).is_some_and(|head| head.eq_ignore_ascii_case("application/"))
            && kind.len() > 5
            && kind[kind.len() - 5..].eq_ignore_ascii_case("+json"))
}

/// The versions a request would change, where it says so. `*` is any.
pub fn if_match(headers: &HeaderMap) -> Result<Option<Vec<i64>>, ApiError> {
    let mut versions = Vec::new();
    let values: Vec<_> = headers.get_all(IF_MATCH).iter().collect();
    if values.is_empty() || values.iter().any(|value| value.as_bytes().trim_ascii() == b"*") {
        return Ok(None);
    }
    for tag in values.iter().flat_map(|value| value.to_str().unwrap_or_default().split(',')) {
        // What we never gave out matches nothing.
        let number = tag.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        versions.extend(number.and_then(|text| text.parse::<i64>().ok()));
    }
    if versions.is_empty() { Err(ApiError::new(ErrorCode::PreconditionFailed)) } else { Ok(Some(versions)) }
}

/// Takes the fields of an object one by one; what is left over is an error.
pub struct Fields {
    object: Map<String, Value>,
    errors: FieldErrors,
}

impl Fields {
    pub fn new(object: Map<String, Value>) -> Self {
        Self { object, errors: FieldErrors::default() }
    }

    /// A text, read. Absent and null are nothing.
    pub fn parsed<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, FieldError>) -> Option<T> {
        match self.object.remove(name)? {
            Value::Null => None,
            Value::String(text) => self
                .errors
                .ok_or_push(read(&text).map_err(|error| FieldError { field: name.to_owned(), ..error })),
            _ => self.wrong(name, "must be a text"),
        }
    }

    /// The same where it must be there.
    pub fn required<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, FieldError>) -> Option<T> {
        if matches!(self.object.get(name), None | Some(Value::Null)) {
            self.object.remove(name);
            self.errors.push(FieldError::new(name, FieldCode::Required, "is missing"));
            return None;
        }
        self.parsed(name, read)
    }

    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name)
    }

    /// A list of texts.
    pub fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        match self.object.remove(name)? {
            Value::Null => None,
            Value::Array(list) => {
                let texts: Option<Vec<String>> =
                    list.iter().map(|value| value.as_str().map(str::to_owned)).collect();
                if texts.is_none() {
                    return self.wrong(name, "must be a list of texts");
                }
                texts
            }
            _ => self.wrong(name, "must be a list of texts"),
        }
    }

    /// Keeps the value, or the error.
    pub fn take<T>(&mut self, read: Result<T, FieldError>) -> Option<T> {
        self.errors.ok_or_push(read)
    }

    fn wrong<T>(&mut self, name: &str, message: &str) -> Option<T> {
        self.errors.push(FieldError::new(name, FieldCode::BadCharacters, message));
        None
    }

    /// Nothing is left over, and nothing was wrong.
    pub fn finish(mut self) -> Result<(), ApiError> {
        for (name, _) in self.object {
            let immutable =
                matches!(name.as_str(), "id" | "workspace" | "created_at" | "updated_at" | "created_by");
            let (code, message) = if immutable {
                (FieldCode::Immutable, "is set by the server and never by a request")
            } else {
                (FieldCode::UnknownField, "is no field of this")
            };
            self.errors.push(FieldError::new(&name.chars().take(100).collect::<String>(), code, message));
        }
        Ok(self.errors.into_result()?)
    }
}
