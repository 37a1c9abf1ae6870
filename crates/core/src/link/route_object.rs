//! The v1 route object: a link as `rmax links get` prints it and as Cloudflare KV holds it under `route:{code}`.
//!
//! A promise to the future: readers accept every version up to their own, ignore fields they do not know, and depend on
//! `code`, `target`, `status` and `rules` alone. Older versions are upgraded in memory when read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Code, Link, LinkState, RedirectStatus, Route, Target, Timestamp};

/// The version we write.
pub const CURRENT_VERSION: u64 = 1;

/// Larger objects are not read.
pub const MAX_OBJECT_BYTES: usize = 256 * 1024;

/// Derived numbers. Never used to decide anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClickTotals {
    pub hits: u64,
    /// The last of them.
    pub last_hit: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Rules {
    https_only: bool,
    no_loop: bool,
    expires_at: Option<Timestamp>,
}

/// A link in the v1 shape, ready to be written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteObject {
    v: u64,
    code: Code,
    target: Target,
    status: LinkState,
    created_at: Timestamp,
    updated_at: Timestamp,
    created_by: String,
    meta: Map<String, Value>,
    rules: Rules,
    stats: ClickTotals,
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect_status: Option<RedirectStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl RouteObject {
    /// A link as a route object, with the numbers joined in.
    pub fn from_link(link: &Link, stats: ClickTotals) -> Self {
        let mut meta = link.metadata.clone();
        meta.insert("notes".to_owned(), link.notes.clone().map_or(Value::Null, Value::String));
        meta.insert("tags".to_owned(), link.tags.iter().cloned().map(Value::String).collect());
        Self {
            v: CURRENT_VERSION,
            code: link.code.clone(),
            target: link.target.clone(),
            status: link.state,
            created_at: link.created_at,
            updated_at: link.updated_at,
            created_by: link.created_by.to_string(),
            meta,
            rules: Rules { https_only: link.https_only, no_loop: link.no_loop, expires_at: link.expires_at },
            stats,
            redirect_status: Some(link.redirect_status)
                .filter(|status| *status != RedirectStatus::MovedPermanently),
            title: link.title.clone(),
        }
    }
}

/// A route object as read: what routing depends on is checked, the rest is kept where it makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedRoute {
    /// The version it was written in.
    pub v: u64,
    pub code: Code,
    pub target: Target,
    pub state: LinkState,
    pub redirect_status: RedirectStatus,
    /// Leads to https only.
    pub https_only: bool,
    /// Never leads back to a domain we serve.
    pub no_loop: bool,
    /// Served up to and including this moment.
    pub expires_at: Option<Timestamp>,
    /// Everything else of the object, upgraded to the current version.
    pub rest: Map<String, Value>,
}

/// Why an object is not served. It answers 404 and is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteObjectError {
    /// Not JSON, or not an object.
    #[error("it is not a JSON object")]
    NotJson,
    /// Larger than any object we write.
    #[error("it is too large")]
    TooLarge,
    /// No version, or one of ours to come.
    #[error("its version is missing or newer than this program")]
    UnsupportedVersion,
    /// A field routing depends on is missing or broken.
    #[error("its {0} is missing or broken")]
    InvalidField(&'static str),
}

impl ParsedRoute {
    /// Reads an object of any version up to ours.
    pub fn parse(json: &[u8]) -> Result<Self, RouteObjectError> {
        if json.len() > MAX_OBJECT_BYTES {
            return Err(RouteObjectError::TooLarge);
        }
        let Ok(Value::Object(mut object)) = serde_json::from_slice(json) else {
            return Err(RouteObjectError::NotJson);
        };
        let v = object
            .get("v")
            .and_then(Value::as_u64)
            .filter(|v| *v <= CURRENT_VERSION)
            .ok_or(RouteObjectError::UnsupportedVersion)?;
        upgrade(&mut object, v);
        let text = |name: &'static str| {
            object.get(name).and_then(Value::as_str).ok_or(RouteObjectError::InvalidField(name))
        };
        let code = Code::from_path(text("code")?).ok_or(RouteObjectError::InvalidField("code"))?;
        let target = Target::from_foreign(text("target")?).ok_or(RouteObjectError::InvalidField("target"))?;
        let state = match text("status")? {
            "active" => LinkState::Active,
            "disabled" => LinkState::Disabled,
            _ => return Err(RouteObjectError::InvalidField("status")),
        };
        let rules = match object.get("rules") {
            None => &Map::new(),
            Some(Value::Object(rules)) => rules,
            Some(_) => return Err(RouteObjectError::InvalidField("rules")),
        };
        let switch = |name| match rules.get(name) {
            None => Ok(true),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(RouteObjectError::InvalidField("rules")),
        };
        let expires_at = match rules.get("expires_at") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => {
                Some(Timestamp::parse(text).map_err(|_| RouteObjectError::InvalidField("rules"))?)
            }
            Some(_) => return Err(RouteObjectError::InvalidField("rules")),
        };
        let redirect_status = match object.get("redirect_status") {
            None => RedirectStatus::MovedPermanently,
            Some(status) => status
                .as_i64()
                .and_then(RedirectStatus::from_code)
                .ok_or(RouteObjectError::InvalidField("redirect_status"))?,
        };
        let (https_only, no_loop) = (switch("https_only")?, switch("no_loop")?);
        Ok(Self { v, code, target, state, redirect_status, https_only, no_loop, expires_at, rest: object })
    }

    /// The part of it a request depends on.
    pub fn route(&self) -> Route<'_> {
        Route {
            state: self.state,
            redirect_status: self.redirect_status,
            https_only: self.https_only,
            no_loop: self.no_loop,
            expires_at: self.expires_at,
            target: self.target.as_str(),
            target_host: self.target.host(),
        }
    }
}

/// Brings an object to [`CURRENT_VERSION`], one version at a time.
fn upgrade(object: &mut Map<String, Value>, from: u64) {
    for version in from..CURRENT_VERSION {
        if version == 0 {
            upgrade_from_v0(object);
        }
    }
    object.insert("v".to_owned(), CURRENT_VERSION.into());
}

/// Version 0 was never released. It was flat: `url`, `enabled`, `expires` in Unix seconds. It stands here so that the way
/// from an old shape to the current one is a tested way before it is needed.
fn upgrade_from_v0(object: &mut Map<String, Value>) {
    if let Some(url) = object.remove("url") {
        object.insert("target".to_owned(), url);
    }
    let enabled = object.remove("enabled").and_then(|value| value.as_bool()).unwrap_or(true);
    object.insert("status".to_owned(), if enabled { "active" } else { "disabled" }.into());
    let expires = object.remove("expires").filter(|value| !value.is_null());
    let expires_at = match expires.as_ref().map(|value| value.as_i64().map(Timestamp::from_unix_seconds)) {
        None => Value::Null,
        Some(Some(Ok(at))) => Value::String(at.to_string()),
        // Kept broken, so that reading refuses it rather than serving a link that should have ended.
        Some(_) => Value::Bool(false),
    };
    let rules = serde_json::json!({ "https_only": true, "no_loop": true, "expires_at": expires_at });
    object.insert("rules".to_owned(), rules);
}

#[cfg(test)]
mod tests {
    use super::{ClickTotals, ParsedRoute, RouteObject, RouteObjectError};
    use crate::{Actor, Code, Id, Link, LinkSource, LinkState, RedirectStatus, Target, Timestamp};

    const SEED: &str = include_str!("../../tests/it/fixtures/route-v1.json");
    const V0: &str = include_str!("../../tests/it/fixtures/route-v0.json");

    #[test]
    fn documented_example_is_parsed() {
        let route = ParsedRoute::parse(SEED.as_bytes()).unwrap();
        assert_eq!(route.code.as_str(), "parity");
        assert_eq!(route.target.as_str(), "https://paritybench.rmax.tech");
        assert_eq!(route.target.host(), "paritybench.rmax.tech");
        assert_eq!(
            (route.state, route.https_only, route.no_loop, route.expires_at),
            (LinkState::Active, true, true, None)
        );
    }

    #[test]
    fn target_host_is_normalized_like_browsers_do() {
        let host = |target: &str| {
            let json = format!(r#"{{"v":1,"code":"a","target":"{target}","status":"active"}}"#);
            ParsedRoute::parse(json.as_bytes()).unwrap().target.host().to_owned()
        };
        assert_eq!(host("https://127.1/x"), "127.0.0.1");
        assert_eq!(host("https://RMAX.to./x"), "rmax.to");
    }

    #[test]
    fn version_0_is_upgraded_in_memory() {
        let route = ParsedRoute::parse(V0.as_bytes()).unwrap();
        assert_eq!(route.v, 0);
        assert_eq!(route.target.as_str(), "https://example.com/old");
        assert_eq!(route.state, LinkState::Disabled);
        assert_eq!(route.expires_at.unwrap().to_string(), "2030-01-01T00:00:00Z");
        assert_eq!(route.rest["v"], 1);
    }

    #[test]
    fn unknown_fields_and_bad_values_of_unused_fields_are_ignored() {
        let json = r#"{"v":1,"code":"a","target":"https://example.com/","status":"active","created_at":5,"meta":"x","stats":null,"__proto__":{"v":9},"future":[1]}"#;
        assert!(ParsedRoute::parse(json.as_bytes()).is_ok());
    }

    #[test]
    fn invalid_routing_fields_are_rejected() {
        let check = |json: &str, expected| {
            assert_eq!(ParsedRoute::parse(json.as_bytes()).unwrap_err(), expected, "{json}");
        };
        check("", RouteObjectError::NotJson);
        check("[]", RouteObjectError::NotJson);
        check("{\"v\":1", RouteObjectError::NotJson);
        check("{}", RouteObjectError::UnsupportedVersion);
        check(
            r#"{"v":2,"code":"a","target":"https://a/","status":"active"}"#,
            RouteObjectError::UnsupportedVersion,
        );
        check(r#"{"v":-1}"#, RouteObjectError::UnsupportedVersion);
        check(r#"{"v":"1"}"#, RouteObjectError::UnsupportedVersion);
        check(r#"{"v":1,"target":"https://a/","status":"active"}"#, RouteObjectError::InvalidField("code"));
        check(
            r#"{"v":1,"code":"a/b","target":"https://a/","status":"active"}"#,
            RouteObjectError::InvalidField("code"),
        );
        check(r#"{"v":1,"code":"a","status":"active"}"#, RouteObjectError::InvalidField("target"));
        check(
            r#"{"v":1,"code":"a","target":"javascript:1","status":"active"}"#,
            RouteObjectError::InvalidField("target"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a%2eb/","status":"active"}"#,
            RouteObjectError::InvalidField("target"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a:99999/","status":"active"}"#,
            RouteObjectError::InvalidField("target"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a/","status":"paused"}"#,
            RouteObjectError::InvalidField("status"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a/","status":"active","rules":[]}"#,
            RouteObjectError::InvalidField("rules"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a/","status":"active","rules":{"no_loop":"no"}}"#,
            RouteObjectError::InvalidField("rules"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a/","status":"active","rules":{"expires_at":"soon"}}"#,
            RouteObjectError::InvalidField("rules"),
        );
        check(
            r#"{"v":1,"code":"a","target":"https://a/","status":"active","redirect_status":200}"#,
            RouteObjectError::InvalidField("redirect_status"),
        );
        check(
            &format!("{{\"v\":1,\"x\":\"{}\"}}", "x".repeat(super::MAX_OBJECT_BYTES)),
            RouteObjectError::TooLarge,
        );
    }

    #[test]
    fn written_object_is_read_back_unchanged() {
        let at = Timestamp::parse("2026-01-12T12:41:00Z").unwrap();
        let link = Link {
            id: Id::from_i64(1),
            workspace: Id::from_i64(1),
            code: Code::from_path("parity").unwrap(),
            generated: false,
            target: Target::parse("https://paritybench.rmax.tech", 2048).unwrap(),
            redirect_status: RedirectStatus::MovedPermanently,
            state: LinkState::Active,
            https_only: true,
            no_loop: true,
            expires_at: None,
            title: None,
            notes: Some("canonical parity benchmark".to_owned()),
            tags: vec!["benchmark".to_owned(), "research".to_owned()],
            metadata: serde_json::json!({"owner": "x"}).as_object().unwrap().clone(),
            source: LinkSource::Cli,
            created_by: Actor::operator("max@rmax.ai"),
            created_at: at,
            updated_at: at,
            version: 1,
        };
        let json = serde_json::to_string(&RouteObject::from_link(&link, ClickTotals::default())).unwrap();
        insta::assert_snapshot!(json, @r#"{"v":1,"code":"parity","target":"https://paritybench.rmax.tech/","status":"active","created_at":"2026-01-12T12:41:00Z","updated_at":"2026-01-12T12:41:00Z","created_by":"max@rmax.ai","meta":{"notes":"canonical parity benchmark","owner":"x","tags":["benchmark","research"]},"rules":{"https_only":true,"no_loop":true,"expires_at":null},"stats":{"hits":0,"last_hit":null}}"#);
        let read = ParsedRoute::parse(json.as_bytes()).unwrap();
        assert_eq!(read.route(), link.route());
        let later = Link { redirect_status: RedirectStatus::Found, title: Some("T".to_owned()), ..link };
        let json = serde_json::to_value(RouteObject::from_link(&later, ClickTotals::default())).unwrap();
        assert_eq!((&json["redirect_status"], &json["title"]), (&302.into(), &"T".into()));
    }
}
