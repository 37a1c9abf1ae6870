//! What Cloudflare's API means when it does not do what was asked.

use http::StatusCode;
use rlinks_core::error_code::ErrorCode;
use serde_json::{Value, json};

use super::access::{ApiAccess, TOKEN_VARIABLE};
use super::request::{ApiResponse, Envelope, KvRequest};
use super::retry::MAX_TOTAL_WAIT;
use crate::error::CliError;

/// "Key not found", among the API's errors.
pub(crate) const KEY_NOT_FOUND: i64 = 10_009;
const NAMESPACE_NOT_FOUND: i64 = 10_013;
/// "Could not route": an account or an address nobody has.
const NO_ROUTE_CODES: [i64; 2] = [7_000, 7_003];
/// What is said of a token that is none, with whatever status.
const INVALID_TOKEN_CODES: [i64; 5] = [6_003, 6_111, 9_106, 9_109, 10_000];

impl ApiAccess {
    /// The answer, where it is one.
    pub(crate) fn check_status(
        &self,
        request: &KvRequest,
        answer: ApiResponse,
    ) -> Result<ApiResponse, CliError> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let code = error_code(&answer.body);
        let said = self.error_message(&answer.body);
        let in_brackets = said.map(|said| format!(" ({said})")).unwrap_or_default();
        let is = |codes: &[i64]| code.is_some_and(|code| codes.contains(&code));
        Err(match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.token_refused(request, answer.status, &in_brackets),
            _ if is(&INVALID_TOKEN_CODES) => self.token_refused(request, StatusCode::UNAUTHORIZED, &in_brackets),
            _ if is(&[NAMESPACE_NOT_FOUND]) => CliError::usage(format!("there is no namespace {}", request.description.trim_start_matches("Cloudflare's namespace ")))
                .hint("`wrangler kv namespace list` shows the ids; they are `cloudflare.routes` and `cloudflare.hits` of the environment"),
            _ if is(&NO_ROUTE_CODES) => CliError::usage(format!("Cloudflare knows no account {}{in_brackets}", self.account))
                .hint("`cloudflare.account_id` of the environment is shown on every page of Cloudflare's dashboard"),
            status if code.is_some() => {
                CliError::failed(format!("{} refuses: status {}{in_brackets}", request.description, status.as_u16()))
            }
            _ => self.unexpected_response(&answer),
        })
    }

    fn token_refused(&self, request: &KvRequest, status: StatusCode, said: &str) -> CliError {
        let may = if request.is_write() { "write to" } else { "read" };
        let message = format!("the token in {TOKEN_VARIABLE} may not {may} {}{said}", request.description);
        let code =
            if status == StatusCode::FORBIDDEN { ErrorCode::Forbidden } else { ErrorCode::Unauthenticated };
        let permission = if request.is_write() { "Edit" } else { "Read (to change links: Edit)" };
        CliError::from_server(code, message, Value::Null).hint(format!(
            "it needs the permission Account > Workers KV Storage > {permission} for account {}; it may also be expired, revoked or mistyped",
            self.account
        ))
    }

    pub(crate) fn unexpected_response(&self, answer: &ApiResponse) -> CliError {
        CliError::failed(format!(
            "{} does not answer like Cloudflare's API (status {})",
            self.base_url.host_str().unwrap_or_default(),
            answer.status.as_u16()
        ))
    }

    /// Cloudflare's own words, in one line and without the token.
    pub(crate) fn error_message(&self, body: &[u8]) -> Option<String> {
        const MAX_MESSAGE_CHARS: usize = 200;
        let envelope: Envelope<Value> = serde_json::from_slice(body).ok()?;
        let error = envelope.errors.into_iter().next()?;
        let message: String =
            error.message.replace(&self.token, "***").chars().take(MAX_MESSAGE_CHARS).collect();
        Some(format!("{} {message}", error.code).trim().to_owned())
    }
}

pub(crate) fn rate_limited(retry_after: Option<u64>) -> CliError {
    let message = match retry_after {
        Some(seconds) => format!("Cloudflare is asked too often and wants a pause of {seconds} seconds"),
        None => "Cloudflare is asked too often".to_owned(),
    };
    CliError::from_server(ErrorCode::RateLimited, message, json!({ "retry_after": retry_after })).hint(format!(
        "a command waits {} seconds in all; an account may ask 1,200 times in five minutes, so repeat it later",
        MAX_TOTAL_WAIT.as_secs()
    ))
}

pub(crate) fn error_code(body: &[u8]) -> Option<i64> {
    let envelope: Envelope<Value> = serde_json::from_slice(body).ok()?;
    envelope.errors.first().map(|error| error.code)
}
