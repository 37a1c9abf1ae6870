//! Profile `edge`: the API of its own. What was asked, what a body may say, and what a link looks like.

use rlinks_core::draft::code_generator::{RANDOM_BYTES, random_code};
use rlinks_core::draft::{Input, LinkDraft, LinkPatch};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::policy::Generator;
use rlinks_core::{Code, FieldCode, FieldError, FieldErrors, Policy, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cached_link::seconds;
use crate::d1_sql::Row;
use crate::request::EdgeRequest;
use crate::settings::Settings;

/// Larger bodies are refused.
pub const MAX_BODY_BYTES: u32 = 64 * 1024;
/// Random codes tried before giving up.
pub const MAX_CODE_ATTEMPTS: usize = 5;

const LINK_FIELDS: [&str; 4] = ["target", "code", "redirect_status", "expires_at"];
const API_PREFIX: &str = "/api/v1/";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiCall {
    // `POST /links`
    Create,
    // `GET /links`
    List {
        /// Links on a page.
        limit: usize,
        /// The last link of the page before: its creation and its number.
        after: Option<(i64, i64)>,
    },
    // `GET /links/{code}`
    Get(Code),
    // `PATCH /links/{code}`
    Change(Code),
    // `DELETE /links/{code}`
    Delete(Code),
    // `GET /links/{code}/stats`
    Stats(Code),
    // `GET /check/{code}`
    Check(String),
}

/// Why a request gets something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// A code of the list, with its usual words.
    Code(ErrorCode),
    Message(ErrorCode, String),
    /// The code is another's, or was once.
    CodeTaken {
        /// Its link is gone, and the code stays taken.
        deleted: bool,
    },
    /// Fields that break a rule.
    InvalidFields(FieldErrors),
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        Self::InvalidFields(errors)
    }
}

impl ApiCall {
    /// Reads a request for `/api/v1/...`.
    pub fn parse(request: &EdgeRequest) -> Result<Self, ApiError> {
        let absent = || ApiError::Code(ErrorCode::NotFound);
        let rest = request.path.strip_prefix(API_PREFIX).ok_or_else(absent)?;
        let segments: Vec<&str> = rest.split('/').collect();
        let read = matches!(request.method.as_str(), "GET" | "HEAD");
        let call = match (segments.as_slice(), request.method.as_str()) {
            (["links"], "POST") => Self::Create,
            (["links"], _) if read => return parse_list(&request.query),
            (["links", code], method) => {
                let code = Code::from_path(code).ok_or_else(absent)?;
                match method {
                    "PATCH" => Self::Change(code),
                    "DELETE" => Self::Delete(code),
                    _ if read => Self::Get(code),
                    _ => return Err(ApiError::Code(ErrorCode::MethodNotAllowed)),
                }
            }
            (["links", code, "stats"], _) if read => Self::Stats(Code::from_path(code).ok_or_else(absent)?),
            (["check", text], _) if read && !text.is_empty() => Self::Check((*text).to_owned()),
            (["links"] | ["links", _, "stats"], _) => {
                return Err(ApiError::Code(ErrorCode::MethodNotAllowed));
            }
            (["check", text], _) if !text.is_empty() => {
                return Err(ApiError::Code(ErrorCode::MethodNotAllowed));
            }
            _ => return Err(absent()),
        };
        if let Some((name, _)) = url::form_urlencoded::parse(request.query.as_bytes()).next() {
            return Err(unknown_parameter(&name));
        }
        Ok(call)
    }
}

/// The methods an address of the API has.
pub fn allowed_methods(path: &str) -> &'static str {
    let segments: Vec<&str> = path.strip_prefix(API_PREFIX).unwrap_or_default().split('/').collect();
    match segments.as_slice() {
        ["links"] => "GET, HEAD, POST",
        ["links", _] => "GET, HEAD, PATCH, DELETE",
        _ => "GET, HEAD",
    }
}

fn unknown_parameter(name: &str) -> ApiError {
    FieldErrors::from(FieldError::new(name, FieldCode::UnknownField, "is no parameter of this address"))
        .into()
}

fn parse_list(query: &str) -> Result<ApiCall, ApiError> {
    let (mut limit, mut after) = (50, None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let bad =
            |message: &str| FieldErrors::from(FieldError::new(&name, FieldCode::BadCharacters, message));
        match &*name {
            "limit" => {
                limit = value
                    .parse()
                    .ok()
                    .filter(|limit| (1..=100).contains(limit))
                    .ok_or_else(|| bad("must be a number from 1 to 100"))?;
            }
            "cursor" => {
                let parts =
                    value.split_once('-').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
                after = Some(parts.ok_or_else(|| bad("must be the next_cursor of a page before"))?);
            }
            _ => return Err(unknown_parameter(&name)),
        }
    }
    Ok(ApiCall::List { limit, after })
}

/// Where the page behind this link begins.
pub fn next_cursor(row: &Row) -> String {
    format!("{}-{}", row.created_at, row.id)
}

/// The fields of a body, which must be the edge's own.
pub fn parse_body(body: &Map<String, Value>) -> Result<Input, FieldErrors> {
    let mut errors = FieldErrors::default();
    let ours: Map<String, Value> = body
        .iter()
        .filter(|(name, _)| LINK_FIELDS.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    for name in body.keys().filter(|name| !LINK_FIELDS.contains(&name.as_str())) {
        errors.push(FieldError::new(name, FieldCode::UnknownField, "is no field of a link here"));
    }
    match Input::from_json(&ours) {
        Ok(input) => errors.into_result().map(|()| input),
        Err(more) => {
            errors.0.extend(more.0);
            Err(errors)
        }
    }
}

/// A new link, parsed against the policy.
pub fn parse_draft(input: &Input, settings: &Settings, now: Timestamp) -> Result<LinkDraft, FieldErrors> {
    LinkDraft::parse(input, &settings.policy, &settings.served_hosts, now)
}

/// A code nobody chose, from random bytes: eight characters of base62, or seven where the policy folds case.
pub fn generate_code(policy: &Policy, bytes: &[u8; RANDOM_BYTES]) -> Option<Code> {
    match policy.generator {
        Generator::Random7 => random_code(bytes, 36, 7),
        Generator::Random8 | Generator::Snowflake | Generator::Hash => random_code(bytes, 62, 8),
    }
}

/// The link as it would become. Equal means that nothing would change.
pub fn apply_patch(
    row: &Row,
    input: &Input,
    settings: &Settings,
    now: Timestamp,
) -> Result<Row, FieldErrors> {
    let patch = LinkPatch::parse(input, &settings.policy, now)?;
    let mut next = row.clone();
    if let Some(target) = patch.target {
        let mut errors = FieldErrors::default();
        if settings.policy.https_only && !target.is_https() {
            errors.push(FieldError::new("target", FieldCode::HttpsRequired, "must be https"));
        }
        if settings.served_hosts.contains(target.host()) {
            let message = format!("leads back to {}, a domain served here", target.host());
            errors.push(FieldError::new("target", FieldCode::Loop, message));
        }
        errors.into_result()?;
        target.as_str().clone_into(&mut next.target);
    }
    if let Some(status) = patch.redirect_status {
        next.status = status.code();
    }
    if let Some(expires_at) = patch.expires_at {
        next.expires_at = expires_at.map(seconds);
    }
    Ok(next)
}

/// A link as the API shows it.
#[derive(Debug, Serialize)]
pub struct LinkResponse {
    id: String,
    code: String,
    short_url: String,
    target: String,
    redirect_status: u16,
    expires_at: Option<Timestamp>,
    expired: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    clicks: i64,
}

impl LinkResponse {
    /// Shows a row, at `now`.
    pub fn from_row(row: &Row, settings: &Settings, request: &EdgeRequest, now: Timestamp) -> Self {
        let moment = |at: i64| Timestamp::from_ms(at.saturating_mul(1000));
        let expires_at = row.expires_at.map(moment);
        let base = match settings.hosts.first() {
            Some(host) => format!("https://{}", host.as_str()),
            None => format!("{}://{}", request.scheme, request.host),
        };
        Self {
            id: row.id.to_string(),
            code: row.slug.clone(),
            short_url: format!("{base}/{}", row.slug),
            target: row.target.clone(),
            redirect_status: row.status,
            expires_at,
            expired: expires_at.is_some_and(|at| now > at),
            created_at: moment(row.created_at),
            updated_at: moment(row.updated_at),
            clicks: row.visit_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use rlinks_core::error_code::ErrorCode;
    use rlinks_core::{Code, FieldCode, Timestamp};
    use serde_json::json;

    use super::{ApiCall, ApiError, LinkResponse, apply_patch, parse_body, parse_draft};
    use crate::d1_sql::Row;
    use crate::request::EdgeRequest;
    use crate::settings::Settings;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn settings() -> Settings {
        Settings::parse(&["edge", "", "rmax.to"]).unwrap()
    }

    fn row() -> Row {
        Row {
            id: 3,
            slug: "ok".to_owned(),
            target: "https://a.example/".to_owned(),
            status: 302,
            expires_at: Some(1_799_999_999),
            visit_count: 5,
            created_at: 1_700_000_000,
            updated_at: 1_700_000_001,
        }
    }

    fn call(method: &str, path: &str) -> Result<ApiCall, ApiError> {
        ApiCall::parse(&EdgeRequest::parse(&format!("{method}\nhttps://rmax.to/api/v1/{path}")))
    }

    #[test]
    fn every_route_is_parsed_and_anything_else_rejected() {
        let ok = Code::from_path("ok").unwrap();
        assert_eq!(call("POST", "links"), Ok(ApiCall::Create));
        assert_eq!(call("GET", "links"), Ok(ApiCall::List { limit: 50, after: None }));
        assert_eq!(
            call("GET", "links?limit=2&cursor=17-4"),
            Ok(ApiCall::List { limit: 2, after: Some((17, 4)) })
        );
        assert_eq!(call("GET", "links/ok"), Ok(ApiCall::Get(ok.clone())));
        assert_eq!(call("PATCH", "links/ok"), Ok(ApiCall::Change(ok.clone())));
        assert_eq!(call("DELETE", "links/ok"), Ok(ApiCall::Delete(ok.clone())));
        assert_eq!(call("GET", "links/ok/stats"), Ok(ApiCall::Stats(ok)));
        assert_eq!(call("GET", "check/api"), Ok(ApiCall::Check("api".to_owned())));
        for (method, path) in
            [("PUT", "links"), ("POST", "links/ok"), ("DELETE", "links/ok/stats"), ("POST", "check/x")]
        {
            assert_eq!(
                call(method, path),
                Err(ApiError::Code(ErrorCode::MethodNotAllowed)),
                "{method} {path}"
            );
        }
        for path in ["", "keys", "links/", "links/a.b", "links/ok/clicks", "check/", "links/ok/stats/x"] {
            assert_eq!(call("GET", path), Err(ApiError::Code(ErrorCode::NotFound)), "{path}");
        }
        for path in ["links?limit=0", "links?limit=x", "links?cursor=x", "links?color=red", "links/ok?x=1"] {
            assert!(matches!(call("GET", path), Err(ApiError::InvalidFields(_))), "{path}");
        }
    }

    #[test]
    fn unknown_field_is_rejected() {
        let body = json!({"target": "https://a.example/", "title": "T", "id": 1, "expires_at": true});
        let errors = parse_body(body.as_object().unwrap()).unwrap_err().0;
        let named: Vec<_> = errors.iter().map(|error| (error.field.as_str(), error.code)).collect();
        assert_eq!(
            named,
            [
                ("id", FieldCode::UnknownField),
                ("title", FieldCode::UnknownField),
                ("expires_at", FieldCode::NotATime)
            ]
        );
    }

    #[test]
    fn policy_rules_apply_to_new_links_and_changes() {
        let make = |body: serde_json::Value| {
            let input = parse_body(body.as_object().unwrap())?;
            parse_draft(&input, &settings(), NOW)
        };
        let draft = make(json!({"target": "http://a.example", "code": "Ok_1"})).unwrap();
        assert_eq!((draft.target.as_str(), draft.redirect_status.code()), ("http://a.example/", 302));
        assert!(make(json!({"target": "https://rmax.to/x"})).is_err());
        assert!(make(json!({"target": "https://a.example/", "code": "a".repeat(33)})).is_err());
        assert!(make(json!({"target": "https://a.example/", "expires_at": 1_700_000_000})).is_err());
        let change = |body: serde_json::Value| {
            let input = parse_body(body.as_object().unwrap())?;
            apply_patch(&row(), &input, &settings(), NOW)
        };
        assert_eq!(change(json!({})).unwrap(), row(), "an expired link can be looked at and edited");
        assert_eq!(change(json!({"redirect_status": 308})).unwrap().status, 308);
        assert_eq!(change(json!({"expires_at": null})).unwrap().expires_at, None);
        assert_eq!(change(json!({"code": "other"})).unwrap_err().0[0].code, FieldCode::Immutable);
        assert_eq!(change(json!({"target": "https://RMAX.to./"})).unwrap_err().0[0].code, FieldCode::Loop);
    }

    #[test]
    fn link_json_has_the_documented_fields() {
        let json =
            serde_json::to_string(&LinkResponse::from_row(&row(), &settings(), &EdgeRequest::default(), NOW))
                .unwrap();
        assert_eq!(
            json,
            r#"{"id":"3","code":"ok","short_url":"https://rmax.to/ok","target":"https://a.example/","redirect_status":302,"expires_at":"2027-01-15T07:59:59Z","expired":true,"created_at":"2023-11-14T22:13:20Z","updated_at":"2023-11-14T22:13:21Z","clicks":5}"#
        );
    }
}
