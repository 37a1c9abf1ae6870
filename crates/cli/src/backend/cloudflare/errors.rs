//! What Cloudflare's API means when it does not do what was asked.

use http::StatusCode;
use rlinks_core::error_code::ErrorCode;
use serde_json::{Value, json};

use super::access::{Access, VARIABLE};
use super::request::{Answer, Ask, Envelope};
use super::retry::PATIENCE;
use crate::error::Failure;

/// "Key not found", among the API's errors.
pub(crate) const NO_KEY: i64 = 10_009;
/// "Namespace not found".
const NO_NAMESPACE: i64 = 10_013;
/// "Could not route": an account or an address nobody has.
const NO_ROUTE: [i64; 2] = [7_000, 7_003];
/// What is said of a token that is none, with whatever status.
const NO_TOKEN: [i64; 5] = [6_003, 6_111, 9_106, 9_109, 10_000];

impl Access {
    /// The answer, where it is one.
    pub(crate) fn checked(&self, ask: &Ask, answer: Answer) -> Result<Answer, Failure> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let code = error_code(&answer.body);
        let said = self.said(&answer.body);
        let in_brackets = said.map(|said| format!(" ({said})")).unwrap_or_default();
        let is = |codes: &[i64]| code.is_some_and(|code| codes.contains(&code));
        Err(match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.refused(ask, answer.status, &in_brackets),
            _ if is(&NO_TOKEN) => self.refused(ask, StatusCode::UNAUTHORIZED, &in_brackets),
            _ if is(&[NO_NAMESPACE]) => Failure::usage(format!("there is no namespace {}", ask.about.trim_start_matches("Cloudflare's namespace ")))
                .hint("`wrangler kv namespace list` shows the ids; they are `cloudflare.routes` and `cloudflare.hits` of the environment"),
            _ if is(&NO_ROUTE) => Failure::usage(format!("Cloudflare knows no account {}{in_brackets}", self.account))
                .hint("`cloudflare.account_id` of the environment is shown on every page of Cloudflare's dashboard"),
            status if code.is_some() => {
                Failure::failed(format!("{} refuses: status {}{in_brackets}", ask.about, status.as_u16()))
            }
            _ => self.stranger(&answer),
        })
    }

    fn refused(&self, ask: &Ask, status: StatusCode, said: &str) -> Failure {
        let may = if ask.writes() { "write to" } else { "read" };
        let message = format!("the token in {VARIABLE} may not {may} {}{said}", ask.about);
        let code =
            if status == StatusCode::FORBIDDEN { ErrorCode::Forbidden } else { ErrorCode::Unauthenticated };
        let permission = if ask.writes() { "Edit" } else { "Read (to change links: Edit)" };
        Failure::of_server(code, message, Value::Null).hint(format!(
            "it needs the permission Account > Workers KV Storage > {permission} for account {}; it may also be expired, revoked or mistyped",
            self.account
        ))
    }

    pub(crate) fn stranger(&self, answer: &Answer) -> Failure {
        Failure::failed(format!(
            "{} does not answer like Cloudflare's API (status {})",
            self.base.host_str().unwrap_or_default(),
            answer.status.as_u16()
        ))
    }

    /// Cloudflare's own words, in one line and without the token.
    pub(crate) fn said(&self, body: &[u8]) -> Option<String> {
        const LONGEST: usize = 200;
        let envelope: Envelope<Value> = serde_json::from_slice(body).ok()?;
        let error = envelope.errors.into_iter().next()?;
        let message: String = error.message.replace(&self.token, "***").chars().take(LONGEST).collect();
        Some(format!("{} {message}", error.code).trim().to_owned())
    }
}

pub(crate) fn too_many(retry_after: Option<u64>) -> Failure {
    let message = match retry_after {
        Some(seconds) => format!("Cloudflare is asked too often and wants a pause of {seconds} seconds"),
        None => "Cloudflare is asked too often".to_owned(),
    };
    Failure::of_server(ErrorCode::RateLimited, message, json!({ "retry_after": retry_after })).hint(format!(
        "a command waits {} seconds in all; an account may ask 1,200 times in five minutes, so repeat it later",
        PATIENCE.as_secs()
    ))
}

pub(crate) fn error_code(body: &[u8]) -> Option<i64> {
    let envelope: Envelope<Value> = serde_json::from_slice(body).ok()?;
    envelope.errors.first().map(|error| error.code)
}
