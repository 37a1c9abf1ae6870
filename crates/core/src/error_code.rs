//! Errors as programs see them: one list of codes, one JSON shape.

use serde::Serialize;
use serde_json::Value;

use crate::Timestamp;

/// Every error a client can meet, with its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// No such address, or one that says no more.
    NotFound,
    /// The link has expired.
    Expired,
    /// The link is switched off.
    Disabled,
    /// The link was deleted.
    Deleted,
    /// The link would lead back to us.
    LoopDetected,
    /// The store cannot be reached.
    KvUnavailable,
    /// Not readable as a request.
    BadRequest,
    /// Fields that break a rule.
    ValidationFailed,
    Unauthenticated,
    /// A credential without the right.
    Forbidden,
    /// A method this path does not have.
    MethodNotAllowed,
    /// The code is another link's.
    CodeTaken,
    /// Somebody else was faster.
    Conflict,
    /// A limit of the policy is reached.
    QuotaExceeded,
    /// `If-Match` names another version.
    PreconditionFailed,
    /// A body over the limit.
    PayloadTooLarge,
    /// A path over 2 KB.
    UriTooLong,
    /// A body of another kind.
    UnsupportedMediaType,
    /// A target on a block list.
    UnsafeTarget,
    RateLimited,
    /// Headers over the limit.
    HeadersTooLarge,
    Internal,
}

impl ErrorCode {
    const ALL: [Self; 22] = [
        Self::NotFound,
        Self::Expired,
        Self::Disabled,
        Self::Deleted,
        Self::LoopDetected,
        Self::KvUnavailable,
        Self::BadRequest,
        Self::ValidationFailed,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::MethodNotAllowed,
        Self::CodeTaken,
        Self::Conflict,
        Self::QuotaExceeded,
        Self::PreconditionFailed,
        Self::PayloadTooLarge,
        Self::UriTooLong,
        Self::UnsupportedMediaType,
        Self::UnsafeTarget,
        Self::RateLimited,
        Self::HeadersTooLarge,
        Self::Internal,
    ];

    /// By the identifier programs compare.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }

    /// The identifier programs compare.
    pub const fn name(self) -> &'static str {
        self.spec().0
    }

    pub const fn status(self) -> u16 {
        self.spec().1
    }

    /// What it means, when there is nothing better to say.
    pub const fn message(self) -> &'static str {
        self.spec().2
    }

    const fn spec(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::NotFound => ("NOT_FOUND", 404, "Requested redirect code not found"),
            Self::Expired => ("EXPIRED", 410, "This link has expired"),
            Self::Disabled => ("DISABLED", 410, "This link has been switched off by its owner"),
            Self::Deleted => ("DELETED", 410, "This link has been deleted"),
            Self::LoopDetected => ("LOOP_DETECTED", 500, "This link would lead back to this server"),
            Self::KvUnavailable => {
                ("KV_UNAVAILABLE", 503, "The link store cannot be reached; try again shortly")
            }
            Self::BadRequest => ("BAD_REQUEST", 400, "The request could not be read"),
            Self::ValidationFailed => ("VALIDATION_FAILED", 400, "Some fields break a rule"),
            Self::Unauthenticated => ("UNAUTHENTICATED", 401, "A valid credential is needed"),
            Self::Forbidden => ("FORBIDDEN", 403, "This credential does not allow that"),
            Self::MethodNotAllowed => {
                ("METHOD_NOT_ALLOWED", 405, "This address does not answer to that method")
            }
            Self::CodeTaken => ("CODE_TAKEN", 409, "This code is taken"),
            Self::Conflict => {
                ("CONFLICT", 409, "Somebody else changed this at the same time; look again and repeat")
            }
            Self::QuotaExceeded => ("QUOTA_EXCEEDED", 409, "The limit of this workspace is reached"),
            Self::PreconditionFailed => ("PRECONDITION_FAILED", 412, "This has changed since you read it"),
            Self::PayloadTooLarge => ("PAYLOAD_TOO_LARGE", 413, "The body is too large"),
            Self::UriTooLong => ("URI_TOO_LONG", 414, "The path is too long"),
            Self::UnsupportedMediaType => ("UNSUPPORTED_MEDIA_TYPE", 415, "Send JSON"),
            Self::UnsafeTarget => ("UNSAFE_TARGET", 422, "This target is on a block list"),
            Self::RateLimited => ("RATE_LIMITED", 429, "Too many requests; wait and repeat"),
            Self::HeadersTooLarge => ("HEADERS_TOO_LARGE", 431, "The headers are too large"),
            Self::Internal => ("INTERNAL", 500, "Something went wrong on our side"),
        }
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    status: u16,
    message: &'a str,
    details: &'a Value,
    ts: Timestamp,
}

/// The JSON of an error: `{"error":{"code","status","message","details","ts"}}`.
pub fn to_json(code: ErrorCode, message: &str, details: &Value, now: Timestamp) -> String {
    let body = Body { code: code.name(), status: code.status(), message, details, ts: now.whole_seconds() };
    serde_json::to_string(&Envelope { error: body }).expect("an envelope is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::ErrorCode;
    use crate::Timestamp;

    #[test]
    fn error_code_names_round_trip() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.name()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("TEAPOT"), None);
    }

    #[test]
    fn error_envelope_matches_the_documented_json() {
        let now = Timestamp::parse("2026-01-29T12:34:56.789Z").unwrap();
        assert_eq!(
            super::to_json(ErrorCode::NotFound, ErrorCode::NotFound.message(), &Value::Null, now),
            r#"{"error":{"code":"NOT_FOUND","status":404,"message":"Requested redirect code not found","details":null,"ts":"2026-01-29T12:34:56Z"}}"#
        );
    }
}
