//! Policies: what a workspace lets a link be, and how it answers. Four presets, each the rules of one source document.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field_error::{FieldCode, FieldError, FieldErrors};
use crate::link::RedirectStatus;
use crate::link::code::{Alphabet, CodeRules, MAX_CODE_CHARS};

/// A named set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// A person's canonical domain. The default workspace's.
    Fabric,
    /// A small public shortener at the edge.
    Edge,
    /// Many owners who do not see each other's links.
    Platform,
    /// A team that shares links; the same target gets the same code.
    Team,
}

impl Preset {
    pub const ALL: [Self; 4] = [Self::Fabric, Self::Edge, Self::Platform, Self::Team];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Fabric => "fabric",
            Self::Edge => "edge",
            Self::Platform => "platform",
            Self::Team => "team",
        }
    }
}

impl FromStr for Preset {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|preset| preset.name() == text).ok_or_else(|| {
            FieldError::new("preset", FieldCode::BadCharacters, "is none of fabric, edge, platform, team")
        })
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// How a code is made when none is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// Seven random characters of `[a-z0-9]`.
    Random7,
    /// Eight random characters of base62.
    Random8,
    /// The link's id in base62.
    Snowflake,
    /// A hash of workspace and normalized target: guessable by whoever knows the target, so never for secret links.
    Hash,
}

/// Who may keep a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheScope {
    Private,
    /// Anyone on the way.
    Public,
    NoStore,
}

/// How long a redirect may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRules {
    pub scope: CacheScope,
    /// For how many seconds; never beyond the link's expiry.
    pub max_age: u32,
}

/// What an unusable link answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveResponse {
    /// 404, as if it had never been.
    NotFound,
    // 410, saying why.
    Gone,
}

impl Serialize for InactiveResponse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(match self {
            Self::NotFound => 404,
            Self::Gone => 410,
        })
    }
}

impl<'de> Deserialize<'de> for InactiveResponse {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u16::deserialize(deserializer)? {
            404 => Ok(Self::NotFound),
            410 => Ok(Self::Gone),
            other => Err(serde::de::Error::custom(format!("{other} is neither 404 nor 410"))),
        }
    }
}

/// What each kind of unusable link answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "struct Answers")]
pub struct InactiveResponses {
    pub expired: InactiveResponse,
    pub disabled: InactiveResponse,
    pub deleted: InactiveResponse,
}

/// What a deletion leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deletion {
    /// A tombstone: the code is never given out again but by an explicit act.
    Tombstone,
    /// The link, marked deleted, with its statistics. In a workspace that reuses targets the same target revives it.
    Soft,
}

/// What happens to expired links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpiredLinks {
    /// They stay and can be extended.
    #[serde(rename = "none")]
    Keep,
    /// The daily job purges them; a tombstone stays.
    #[serde(rename = "daily")]
    PurgeDaily,
}

/// Who sees a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    Workspace,
    /// Its owner, and admins.
    Owner,
}

/// A way to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignInMethod {
    /// A password kept here.
    Password,
    Oidc,
    Keys,
}

/// What a click keeps of the user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAgentRetention {
    Hashed,
    Truncated(u32),
}

impl Serialize for UserAgentRetention {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Hashed => serializer.serialize_str("hashed"),
            Self::Truncated(characters) => serializer.serialize_u32(*characters),
        }
    }
}

impl<'de> Deserialize<'de> for UserAgentRetention {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text == "hashed" => Ok(Self::Hashed),
            Value::Number(number) if number.as_u64().is_some_and(|count| count <= 512) => {
                Ok(Self::Truncated(u32::try_from(number.as_u64().unwrap_or_default()).unwrap_or(512)))
            }
            _ => Err(serde::de::Error::custom("neither \"hashed\" nor a number of characters up to 512")),
        }
    }
}

/// How much there may be. Absent means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Links neither deleted nor expired.
    pub live_links: Option<u32>,
    /// Creations by one user in an hour.
    pub creations_per_hour: Option<u32>,
    /// Requests with one key in an hour.
    pub requests_per_hour: Option<u32>,
}

/// The rules of a workspace.
///
/// A stored policy may be of an earlier or a later version: missing fields come from its preset, and unknown ones are ignored. Input goes
/// through [`Policy::set_field`], which refuses both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Policy {
    /// The preset it was filled from.
    pub preset: Preset,
    /// What a new code may be.
    pub code: CodeRules,
    /// How a code is made when none is chosen.
    pub generator: Generator,
    /// The status of a link that names none.
    pub redirect_status: RedirectStatus,
    /// How long a redirect may be kept by browsers and proxies.
    pub cache: CacheRules,
    /// What unusable links answer.
    pub answers: InactiveResponses,
    /// What a deletion leaves.
    pub delete: Deletion,
    /// What happens to expired links.
    pub sweep: ExpiredLinks,
    /// The `https_only` of a link that does not say.
    pub https_only: bool,
    pub max_target_bytes: u32,
    /// The same target gets the same generated code.
    pub reuse: bool,
    /// Who sees a link.
    pub visibility: Visibility,
    /// How people and programs sign in.
    pub sign_in: Vec<SignInMethod>,
    /// What a click keeps of the user agent.
    pub user_agent: UserAgentRetention,
    /// For how many days raw clicks are kept; absent means for ever.
    pub retention_days: Option<u32>,
    /// How much there may be.
    pub limits: Limits,
}

impl Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static DEFAULTS: LazyLock<[Value; 4]> = LazyLock::new(|| {
            Preset::ALL.map(|preset| {
                Policy::serialize(&Policy::preset(preset), serde_json::value::Serializer)
                    .expect("a policy is JSON")
            })
        });
        let stored = Value::deserialize(deserializer)?;
        let preset = match stored.get("preset") {
            Some(name) => Preset::deserialize(name).map_err(serde::de::Error::custom)?,
            None => return Err(serde::de::Error::missing_field("preset")),
        };
        let mut whole = DEFAULTS[preset as usize].clone();
        overlay(&mut whole, stored);
        Self::deserialize(whole).map_err(serde::de::Error::custom)
    }
}

/// Puts stored values over defaults. What the defaults don't have is nothing we know.
fn overlay(defaults: &mut Value, stored: Value) {
    match (defaults, stored) {
        (Value::Object(defaults), Value::Object(stored)) => {
            for (name, value) in stored {
                if let Some(slot) = defaults.get_mut(&name) {
                    overlay(slot, value);
                }
            }
        }
        (defaults, stored) => *defaults = stored,
    }
}

/// The first field of `sent` that `known` has not.
fn unknown_field<'a>(sent: &'a Value, known: &Value) -> Option<&'a str> {
    let (Value::Object(sent), Value::Object(known)) = (sent, known) else { return None };
    sent.iter().find_map(|(name, value)| match known.get(name) {
        None => Some(name.as_str()),
        Some(known) => unknown_field(value, known),
    })
}

impl Policy {
    /// Whether people may sign in by password.
    pub fn allows_passwords(&self) -> bool {
        self.sign_in.contains(&SignInMethod::Password)
    }

    /// This policy with one field changed: `key` is the path of a field (`cache.max_age`), `value` JSON or plain text.
    pub fn set_field(&self, key: &str, value: &str) -> Result<Self, FieldError> {
        let refuse = |message: String| FieldError::new(key, FieldCode::BadCharacters, message);
        if key == "preset" {
            return Err(refuse("fills the whole policy and is not set alone; use --preset".to_owned()));
        }
        let mut json = serde_json::to_value(self).expect("a policy is JSON");
        let slot = key
            .split('.')
            .try_fold(&mut json, |at, step| at.get_mut(step))
            .ok_or_else(|| FieldError::new(key, FieldCode::UnknownField, "is no field of a policy"))?;
        *slot = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        // Not as stored values are read: what is missing or unknown here was not meant.
        let policy =
            Self::deserialize(&json).map_err(|error| refuse(format!("cannot be `{value}`: {error}")))?;
        let known = serde_json::to_value(&policy).expect("a policy is JSON");
        if let Some(name) = unknown_field(&json, &known) {
            return Err(refuse(format!("cannot be `{value}`: `{name}` is no field of a policy")));
        }
        policy.check(key)?;
        Ok(policy)
    }

    /// This policy with several fields changed, in whatever order makes sense: each step must give a sound policy, and nobody
    /// should have to find the order.
    pub fn set_fields(&self, fields: &[(String, String)]) -> Result<Self, FieldErrors> {
        let mut policy = self.clone();
        let mut waiting: Vec<&(String, String)> = fields.iter().collect();
        while !waiting.is_empty() {
            let mut errors = FieldErrors::default();
            let before = waiting.len();
            waiting.retain(|(key, value)| match policy.set_field(key, value) {
                Ok(next) => {
                    policy = next;
                    false
                }
                Err(error) => {
                    errors.push(error);
                    true
                }
            });
            if waiting.len() == before {
                return Err(errors);
            }
        }
        Ok(policy)
    }

    /// This policy with what a JSON object names changed. A `preset` is where the rest begins from.
    pub fn merge_json(&self, changes: &Map<String, Value>) -> Result<Self, FieldErrors> {
        let begin = match changes.get("preset") {
            None => self.clone(),
            Some(Value::String(name)) => Self::preset(name.parse()?),
            Some(_) => {
                return Err(FieldError::new("preset", FieldCode::BadCharacters, "must be a text").into());
            }
        };
        let mut fields = Vec::new();
        for (name, value) in changes.iter().filter(|(name, _)| *name != "preset") {
            collect_leaves(name, value, &mut fields);
        }
        begin.set_fields(&fields)
    }

    /// Whether the same target gets the link there is. Never where links are their owner's alone, whatever an old policy says: it would
    /// be somebody else's.
    pub fn reuses_links(&self) -> bool {
        self.reuse && self.visibility != Visibility::Owner
    }

    /// Whether the fields make sense together.
    pub fn check(&self, field: &str) -> Result<(), FieldError> {
        let refuse = |message: &str| Err(FieldError::new(field, FieldCode::BadCharacters, message));
        if !(1..=MAX_CODE_CHARS).contains(&self.code.max) || !(1..=self.code.max).contains(&self.code.min) {
            return refuse("code.min and code.max must satisfy 1 <= min <= max <= 64");
        }
        if self.code.fold_case && self.code.alphabet != Alphabet::Lower {
            return refuse("code.fold_case needs the alphabet a-z0-9-");
        }
        if self.code.fold_case && self.generator != Generator::Random7 {
            return refuse("code.fold_case needs the generator random7: the others make upper case");
        }
        if !(16..=65_536).contains(&self.max_target_bytes) {
            return refuse("max_target_bytes must be between 16 and 65536");
        }
        if self.reuse && self.generator != Generator::Hash {
            return refuse("reuse needs the generator hash");
        }
        if self.reuse && self.visibility == Visibility::Owner {
            return refuse("reuse needs visibility workspace: it hands out the links of others");
        }
        if self.limits.requests_per_hour == Some(0) {
            return refuse("limits.requests_per_hour must be at least 1, or null for as many as they like");
        }
        if self.cache.max_age > 31_536_000 {
            return refuse("cache.max_age must be at most one year, 31536000");
        }
        if self.sign_in.is_empty() {
            return refuse("sign_in needs at least one of password, oidc, keys");
        }
        Ok(())
    }
}

/// Every value that is no object, with its path.
fn collect_leaves(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                collect_leaves(&format!("{path}.{name}"), value, found);
            }
        }
        other => found.push((path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::{Policy, Preset};

    #[test]
    fn interdependent_fields_are_changed_together() {
        let fabric = Policy::preset(Preset::Fabric);
        let changes = |text: &str| serde_json::from_str(text).unwrap();
        let team = fabric
            .merge_json(&changes(
                r#"{"reuse":true,"generator":"hash","code":{"fold_case":false},"limits":{"live_links":5}}"#,
            ))
            .unwrap();
        assert!(team.reuse && !team.code.fold_case && team.limits.live_links == Some(5));
        let edge = team
            .merge_json(&changes(r#"{"preset":"edge","cache":{"max_age":7},"limits":{"live_links":null}}"#))
            .unwrap();
        assert_eq!((edge.preset, edge.cache.max_age, edge.limits.live_links), (Preset::Edge, 7, None));
        for bad in [
            r#"{"reuse":true}"#,
            r#"{"reuse":true,"generator":"hash","code":{"fold_case":false},"visibility":"owner"}"#,
            r#"{"preset":"team","visibility":"owner"}"#,
            r#"{"preset":"team","limits":{"requests_per_hour":0}}"#,
            r#"{"nope":1}"#,
            r#"{"preset":1}"#,
            r#"{"preset":"x"}"#,
            r#"{"cache":{}}"#,
            r#"{"cache":7}"#,
        ] {
            assert!(fabric.merge_json(&changes(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_preset_is_valid_and_survives_json() {
        for preset in Preset::ALL {
            let policy = Policy::preset(preset);
            policy.check("policy").unwrap();
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        }
    }

    #[test]
    fn stored_policy_of_another_version_is_read() {
        let edge = Policy::preset(Preset::Edge);
        let mut json = serde_json::to_value(&edge).unwrap();
        json["sampling"] = 5.into();
        json["cache"]["stale_while_revalidate"] = 5.into();
        json["limits"].as_object_mut().unwrap().remove("live_links");
        json.as_object_mut().unwrap().remove("retention_days");
        assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), edge);
        assert!(serde_json::from_str::<Policy>("{}").is_err(), "without its preset nothing is known");
    }

    #[test]
    fn unknown_or_missing_fields_of_a_sent_value_are_rejected() {
        let policy = Policy::preset(Preset::Fabric);
        for (key, value) in [
            ("cache", r#"{"scope":"private","max_age":1,"more":1}"#),
            ("cache", r#"{"scope":"private"}"#),
            ("limits", r#"{"live_links":1,"more":1}"#),
        ] {
            assert!(policy.set_field(key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn policy_json_matches_its_snapshot() {
        insta::assert_snapshot!(serde_json::to_string(&Policy::preset(Preset::Team)).unwrap(), @r#"{"preset":"team","code":{"alphabet":"A-Za-z0-9_-","min":1,"max":20,"fold_case":false,"unique_fold":false},"generator":"hash","redirect_status":302,"cache":{"scope":"no-store","max_age":0},"answers":{"expired":410,"disabled":410,"deleted":404},"delete":"soft","sweep":"none","https_only":false,"max_target_bytes":65536,"reuse":true,"visibility":"workspace","sign_in":["password","oidc","keys"],"user_agent":512,"retention_days":396,"limits":{"live_links":null,"creations_per_hour":null,"requests_per_hour":1000}}"#);
    }

    #[test]
    fn single_field_is_changed_and_invalid_values_are_rejected() {
        let policy = Policy::preset(Preset::Fabric);
        assert_eq!(policy.set_field("cache.max_age", "60").unwrap().cache.max_age, 60);
        assert_eq!(
            policy.set_field("answers.expired", "404").unwrap().answers.expired,
            super::InactiveResponse::NotFound
        );
        assert_eq!(policy.set_field("limits.live_links", "10").unwrap().limits.live_links, Some(10));
        assert_eq!(policy.set_field("retention_days", "30").unwrap().retention_days, Some(30));
        for (key, value) in [
            ("nope", "1"),
            ("preset", "team"),
            ("cache", "1"),
            ("cache.max_age", "-1"),
            ("answers.expired", "200"),
            ("code.max", "65"),
            ("code.min", "0"),
            ("max_target_bytes", "1"),
            ("reuse", "true"),
            ("cache.max_age.x", "1"),
            ("generator", "hash"),
        ] {
            assert!(policy.set_field(key, value).is_err(), "{key}={value}");
        }
    }
}
