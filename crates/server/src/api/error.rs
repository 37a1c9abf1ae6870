//! Errors as programs get them: always the envelope, never what the database said.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use rlinks_clicks::stats::StatsError;
use rlinks_core::error_code::{self, ErrorCode};
use rlinks_core::{FieldError, FieldErrors, Timestamp};
use rlinks_store::StoreError;
use serde_json::{Value, json};

use rlinks_ops::OpsError;
use rlinks_ops::limits::RateLimitStatus;

use crate::auth::error::AuthError;
use crate::auth::sign_in::SignInError;
use crate::redirect::body_budget::BodyRefused;

/// When a store that is away may be back.
const STORE_RETRY_SECONDS: u32 = 1;

/// What a request gets that does not get what it asked for.
#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    details: Value,
    /// Seconds after which it may be tried again.
    retry_after: Option<u32>,
    /// How the caller stands with the limit they reached.
    rate_limit: Option<RateLimitStatus>,
}

impl ApiError {
    /// With the usual words.
    pub fn new(code: ErrorCode) -> Self {
        Self::with_message(code, code.message())
    }

    pub fn with_message(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Value::Null, retry_after: None, rate_limit: None }
    }

    pub fn rate_limited(seconds: u32, message: &str) -> Self {
        Self { retry_after: Some(seconds), ..Self::with_message(ErrorCode::RateLimited, message) }
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The error as one item of a bulk answer.
    pub fn item(&self) -> Value {
        json!({ "code": self.code.name(), "status": self.code.status(), "message": self.message, "details": self.details })
    }

    pub fn status(&self) -> u16 {
        self.code.status()
    }
}

impl From<BodyRefused> for ApiError {
    fn from(refused: BodyRefused) -> Self {
        let error = Self::with_message(refused.code(), refused.to_string());
        Self { retry_after: refused.retry_after(), ..error }
    }
}

impl From<OpsError> for ApiError {
    fn from(error: OpsError) -> Self {
        let code = error.code();
        match &error {
            OpsError::Invalid(fields) => Self { details: json!({ "fields": fields }), ..Self::new(code) },
            OpsError::Store(StoreError::CodeTaken { deleted, .. }) => {
                Self { details: json!({ "deleted": deleted }), ..Self::with_message(code, error.to_string()) }
            }
            OpsError::Unsafe(reason) => {
                Self { details: json!(reason), ..Self::with_message(code, error.to_string()) }
            }
            OpsError::HostClaimed { proof, .. } => {
                Self { details: json!({ "proof": proof }), ..Self::with_message(code, error.to_string()) }
            }
            OpsError::CreationLimit(status)
            | OpsError::RequestLimit { status, .. }
            | OpsError::DnsCheckLimit { status, .. } => Self {
                rate_limit: Some(*status),
                ..Self::rate_limited(status.reset_seconds, &error.to_string())
            },
            OpsError::Store(StoreError::RateLimited { seconds, .. })
            | OpsError::RemovalNeedsSession { seconds, .. } => {
                Self::rate_limited(*seconds, &error.to_string())
            }
            OpsError::Store(
                StoreError::Unavailable(_) | StoreError::Refused(_) | StoreError::Unreadable(_),
            ) => {
                tracing::error!(%error, "a request could not be answered");
                Self::new(code)
            }
            _ => Self::with_message(code, error.to_string()),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let code = match error {
            AuthError::Store(error) => return error.into(),
            AuthError::Unauthenticated | AuthError::NoAccount(_) => ErrorCode::Unauthenticated,
            AuthError::MissingScope(_) | AuthError::CrossSite => ErrorCode::Forbidden,
            AuthError::BadRequest | AuthError::AmbiguousWorkspace(_) => ErrorCode::BadRequest,
            AuthError::ProviderUnavailable(_) => ErrorCode::KvUnavailable,
        };
        Self::with_message(code, error.to_string())
    }
}

/// For a member who is signed in and was asked for their password again.
impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::InvalidCredentials => {
                Self::with_message(ErrorCode::Forbidden, "Current password is incorrect")
            }
            SignInError::LockedOut(seconds) | SignInError::Delayed(seconds) => {
                Self::rate_limited(seconds, &error.to_string())
            }
            SignInError::Busy => Self::rate_limited(5, &error.to_string()),
            SignInError::PasswordsDisabled | SignInError::LinkExpired => {
                Self::with_message(ErrorCode::Forbidden, error.to_string())
            }
            SignInError::Field(field) => field.into(),
            SignInError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for AuthError {
    fn into_response(self) -> Response {
        ApiError::from(self).into_response()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        OpsError::Store(error).into()
    }
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        OpsError::Invalid(errors).into()
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        FieldErrors::from(error).into()
    }
}

impl From<StatsError> for ApiError {
    fn from(error: StatsError) -> Self {
        match error {
            StatsError::InvalidQuery(field) => field.into(),
            StatsError::Store(error) => error.into(),
        }
    }
}

/// Writes the envelope of an answer that is an error. Errors themselves know no time.
pub fn write_envelope(response: &mut Response, now: Timestamp) {
    if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
        // The routes have measured the empty body.
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() =
            Body::from(error_code::to_json(error.code, &error.message, &error.details, now));
    }
}

/// Without its body, which [`write_envelope`] writes.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        let unavailable = (self.code == ErrorCode::KvUnavailable).then_some(STORE_RETRY_SECONDS);
        if let Some(seconds) = self.retry_after.or(unavailable) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == ErrorCode::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(rate_limit) = self.rate_limit {
            response.extensions_mut().insert(rate_limit);
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
