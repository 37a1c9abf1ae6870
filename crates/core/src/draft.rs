//! What somebody asks a link to be, parsed against the policy: a whole draft, or every field error at once.
//!
//! [`Input`] is what was typed or sent; [`LinkDraft`] and [`LinkPatch`] are what it means. Only the fields that were sent are
//! checked, so an expired link can still be renamed.

pub mod code_generator;

use serde_json::{Map, Value};

use crate::field_error::{FieldCode, FieldError, FieldErrors};
use crate::time::TimeError;
use crate::{
    Actor, Code, Id, Link, LinkSource, LinkState, Policy, RedirectStatus, ServedHosts, Target, Timestamp,
};

const MAX_TITLE_CHARS: usize = 500;
const MAX_NOTES_CHARS: usize = 10_000;
const MAX_TAGS: usize = 50;
const MAX_TAG_CHARS: usize = 64;
const MAX_METADATA_BYTES: usize = 16 * 1024;

/// A time as sent: text, or Unix seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeInput {
    /// RFC 3339 and its relatives.
    Text(String),
    Number(serde_json::Number),
}

/// What was typed or sent. `None` means: not named, leave it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    pub code: Option<String>,
    pub target: Option<String>,
    /// 301, 302, 307 or 308.
    pub redirect_status: Option<i64>,
    // `Some(None)` removes it.
    pub expires_at: Option<Option<TimeInput>>,
    pub title: Option<String>,
    pub notes: Option<String>,
    pub tags: Option<Vec<String>>,
    /// Tags to add to what is there.
    pub add_tags: Vec<String>,
    /// Tags to take away.
    pub remove_tags: Vec<String>,
    /// Leads to https only.
    pub https_only: Option<bool>,
    /// Never leads back to us.
    pub no_loop: Option<bool>,
    pub metadata: Option<Map<String, Value>>,
    // `active` or `disabled`.
    pub state: Option<LinkState>,
    /// Create anew over a deleted code.
    pub recreate: Option<bool>,
}

impl Input {
    /// What makes a link again what it was `then`. A value that is the same now isn't named, so it isn't checked again.
    pub fn to_restore(then: Link, now: &Link) -> Self {
        // Every field is named: a new one has to be put on one side or the other.
        let Link {
            target,
            redirect_status,
            state,
            https_only,
            no_loop,
            expires_at,
            title,
            notes,
            tags,
            metadata,
            id: _,
            workspace: _,
            code: _,
            generated: _,
            source: _,
            created_by: _,
            created_at: _,
            updated_at: _,
            version: _,
        } = then;
        Self {
            code: None,
            target: (target != now.target).then(|| target.as_str().to_owned()),
            redirect_status: Some(redirect_status.code().into()),
            expires_at: (expires_at != now.expires_at)
                .then(|| expires_at.map(|at| TimeInput::Text(at.to_string()))),
            title: Some(title.unwrap_or_default()),
            notes: Some(notes.unwrap_or_default()),
            tags: Some(tags),
            add_tags: Vec::new(),
            remove_tags: Vec::new(),
            https_only: Some(https_only),
            no_loop: Some(no_loop),
            metadata: Some(metadata),
            state: Some(state).filter(|state| *state != LinkState::Deleted),
            recreate: None,
        }
    }

    /// From a JSON body. Unknown fields, fields that never change and values of another kind are all named.
    pub fn from_json(body: &Map<String, Value>) -> Result<Self, FieldErrors> {
        let (mut input, mut errors) = (Self::default(), FieldErrors::default());
        for (name, value) in body {
            let kind =
                |wanted: &str| FieldError::new(name, FieldCode::BadCharacters, format!("must be {wanted}"));
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| kind("a text"));
            let clearable = || if value.is_null() { Ok(String::new()) } else { text() };
            let switch = || value.as_bool().ok_or_else(|| kind("true or false"));
            match name.as_str() {
                "code" => input.code = if value.is_null() { None } else { errors.ok_or_push(text()) },
                "target" => input.target = errors.ok_or_push(text()),
                "redirect_status" => {
                    let bad = || FieldError::new(name, FieldCode::BadStatus, "must be 301, 302, 307 or 308");
                    input.redirect_status = errors.ok_or_push(value.as_i64().ok_or_else(bad));
                }
                "expires_at" => match value {
                    Value::Null => input.expires_at = Some(None),
                    Value::String(text) => input.expires_at = Some(Some(TimeInput::Text(text.clone()))),
                    Value::Number(number) => input.expires_at = Some(Some(TimeInput::Number(number.clone()))),
                    _ => errors.push(FieldError::new(
                        name,
                        FieldCode::NotATime,
                        TimeError::NotATime.to_string(),
                    )),
                },
                "title" => input.title = errors.ok_or_push(clearable()),
                "notes" => input.notes = errors.ok_or_push(clearable()),
                "tags" => {
                    let list = value
                        .as_array()
                        .and_then(|list| list.iter().map(|tag| tag.as_str().map(str::to_owned)).collect());
                    input.tags = errors.ok_or_push(list.ok_or_else(|| kind("a list of texts")));
                }
                "https_only" => input.https_only = errors.ok_or_push(switch()),
                "no_loop" => input.no_loop = errors.ok_or_push(switch()),
                "recreate" => input.recreate = errors.ok_or_push(switch()),
                "metadata" => {
                    input.metadata =
                        errors.ok_or_push(value.as_object().cloned().ok_or_else(|| kind("an object")));
                }
                "state" => {
                    let state = value
                        .as_str()
                        .and_then(|text| text.parse().ok())
                        .filter(|state| *state != LinkState::Deleted);
                    input.state = errors.ok_or_push(state.ok_or_else(|| kind("active or disabled")));
                }
                "id" | "workspace" | "created_by" | "created_at" | "updated_at" | "version" | "source"
                | "clicks" => {
                    errors.push(FieldError::new(
                        name,
                        FieldCode::Immutable,
                        "is set by the server and never by a request",
                    ));
                }
                _ => errors.push(FieldError::new(name, FieldCode::UnknownField, "is no field of a link")),
            }
        }
        errors.into_result().map(|()| input)
    }
}

/// A new link, ready to be written but for id, code where none was chosen, and time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkDraft {
    pub code: Option<Code>,
    pub target: Target,
    pub redirect_status: RedirectStatus,
    pub expires_at: Option<Timestamp>,
    /// A name for people.
    pub title: Option<String>,
    pub notes: Option<String>,
    pub tags: Vec<String>,
    /// Leads to https only.
    pub https_only: bool,
    /// Never leads back to us.
    pub no_loop: bool,
    pub metadata: Map<String, Value>,
}

impl LinkDraft {
    /// The draft, or everything wrong with it.
    pub fn parse(
        input: &Input,
        policy: &Policy,
        served_hosts: &ServedHosts,
        now: Timestamp,
    ) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let code = input.code.as_deref().map(|text| Code::parse(text, &policy.code));
        let code = code.and_then(|parsed| errors.ok_or_push(parsed));
        if input.state.is_some() {
            errors.push(FieldError::new(
                "state",
                FieldCode::Immutable,
                "cannot be chosen for a new link; it begins active",
            ));
        }
        let patch = LinkPatch::collect(input, policy, now, &mut errors);
        if input.target.is_none() {
            errors.push(FieldError::new(
                "target",
                FieldCode::Required,
                "is missing; give the URL the link leads to",
            ));
        }
        let https_only = input.https_only.unwrap_or(policy.https_only);
        let no_loop = input.no_loop.unwrap_or(true);
        if let Some(target) = &patch.target {
            check_target_rules(target, https_only, no_loop, served_hosts, &mut errors);
        }
        let mut tags = Vec::new();
        patch.apply_tags(&mut tags, &mut errors);
        errors.into_result()?;
        Ok(Self {
            code,
            target: patch.target.expect("without a target there was an error"),
            redirect_status: patch.redirect_status.unwrap_or(policy.redirect_status),
            expires_at: patch.expires_at.flatten(),
            title: patch.title.flatten(),
            notes: patch.notes.flatten(),
            tags,
            https_only,
            no_loop,
            metadata: patch.metadata.unwrap_or_default(),
        })
    }
}

/// What a draft becomes a link with.
#[derive(Clone, Debug)]
pub struct LinkIdentity {
    pub id: Id,
    pub workspace: Id,
    pub code: Code,
    /// Made by the generator rather than chosen.
    pub generated: bool,
    /// How it came to be.
    pub source: LinkSource,
    pub created_by: Actor,
    pub created_at: Timestamp,
    /// One, or the next of the deleted link whose code it takes.
    pub version: i64,
}

impl LinkDraft {
    /// The link this draft asks for.
    pub fn to_link(&self, identity: LinkIdentity) -> Link {
        Link {
            id: identity.id,
            workspace: identity.workspace,
            code: identity.code,
            generated: identity.generated,
            target: self.target.clone(),
            redirect_status: self.redirect_status,
            state: LinkState::Active,
            https_only: self.https_only,
            no_loop: self.no_loop,
            expires_at: self.expires_at,
            title: self.title.clone(),
            notes: self.notes.clone(),
            tags: self.tags.clone(),
            metadata: self.metadata.clone(),
            source: identity.source,
            created_by: identity.created_by,
            created_at: identity.created_at,
            updated_at: identity.created_at,
            version: identity.version,
        }
    }
}

/// A change to a link: only what was named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkPatch {
    pub target: Option<Target>,
    pub redirect_status: Option<RedirectStatus>,
    /// Until when; `Some(None)` removes it.
    pub expires_at: Option<Option<Timestamp>>,
    // `Some(None)` clears it.
    pub title: Option<Option<String>>,
    // `Some(None)` clears it.
    pub notes: Option<Option<String>>,
    pub tags: Option<Vec<String>>,
    pub add_tags: Vec<String>,
    /// Tags to take away.
    pub remove_tags: Vec<String>,
    /// Leads to https only.
    pub https_only: Option<bool>,
    /// Never leads back to us.
    pub no_loop: Option<bool>,
    pub metadata: Option<Map<String, Value>>,
    pub state: Option<LinkState>,
}

impl LinkPatch {
    /// The change, or everything wrong with the fields that were sent.
    pub fn parse(input: &Input, policy: &Policy, now: Timestamp) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let patch = Self::collect(input, policy, now, &mut errors);
        if input.code.is_some() {
            errors.push(FieldError::new(
                "code",
                FieldCode::Immutable,
                "never changes; make a new link and disable this one",
            ));
        }
        errors.into_result().map(|()| patch)
    }

    fn collect(input: &Input, policy: &Policy, now: Timestamp, errors: &mut FieldErrors) -> Self {
        let max_bytes = usize::try_from(policy.max_target_bytes).unwrap_or(usize::MAX);
        let target = input.target.as_deref().map(|text| Target::parse(text, max_bytes));
        Self {
            target: target.and_then(|parsed| errors.ok_or_push(parsed)),
            redirect_status: input.redirect_status.and_then(|code| {
                let bad = || {
                    FieldError::new("redirect_status", FieldCode::BadStatus, "must be 301, 302, 307 or 308")
                };
                errors.ok_or_push(RedirectStatus::from_code(code).ok_or_else(bad))
            }),
            expires_at: input.expires_at.as_ref().and_then(|time| match time {
                None => Some(None),
                Some(time) => errors.ok_or_push(parse_expiry(time, now)).map(Some),
            }),
            title: input
                .title
                .as_deref()
                .and_then(|text| errors.ok_or_push(parse_free_text("title", text, MAX_TITLE_CHARS, &[]))),
            notes: input.notes.as_deref().and_then(|text| {
                errors.ok_or_push(parse_free_text("notes", text, MAX_NOTES_CHARS, &['\n', '\r', '\t']))
            }),
            tags: input.tags.as_ref().map(|list| parse_tags(list, errors)),
            add_tags: parse_tags(&input.add_tags, errors),
            remove_tags: input.remove_tags.iter().map(|tag| tag.trim().to_owned()).collect(),
            https_only: input.https_only,
            no_loop: input.no_loop,
            metadata: input.metadata.as_ref().and_then(|object| errors.ok_or_push(parse_metadata(object))),
            state: input.state,
        }
    }

    /// The names of what was sent and this link does not have.
    pub fn unapplied(&self, link: &Link) -> Vec<&'static str> {
        let differs = |field: &Option<Option<String>>, there: &Option<String>| {
            field.as_ref().is_some_and(|sent| sent != there)
        };
        let no_tag = |tag: &String| !link.tags.contains(tag);
        let named = [
            ("redirect_status", self.redirect_status.is_some_and(|sent| sent != link.redirect_status)),
            ("expires_at", self.expires_at.is_some_and(|sent| sent != link.expires_at)),
            ("title", differs(&self.title, &link.title)),
            ("notes", differs(&self.notes, &link.notes)),
            (
                "tags",
                self.tags.as_ref().is_some_and(|sent| *sent != link.tags) || self.add_tags.iter().any(no_tag),
            ),
            ("https_only", self.https_only.is_some_and(|sent| sent != link.https_only)),
            ("no_loop", self.no_loop.is_some_and(|sent| sent != link.no_loop)),
            ("metadata", self.metadata.as_ref().is_some_and(|sent| *sent != link.metadata)),
        ];
        named.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// The link as it would become. Its version and times are the writer's business; equal means nothing would change.
    pub fn apply(&self, link: &Link, served_hosts: &ServedHosts) -> Result<Link, FieldErrors> {
        let mut errors = FieldErrors::default();
        let mut next = link.clone();
        let set = self.clone();
        next.target = set.target.unwrap_or(next.target);
        next.redirect_status = set.redirect_status.unwrap_or(next.redirect_status);
        next.expires_at = set.expires_at.unwrap_or(next.expires_at);
        next.title = set.title.unwrap_or(next.title);
        next.notes = set.notes.unwrap_or(next.notes);
        next.https_only = set.https_only.unwrap_or(next.https_only);
        next.no_loop = set.no_loop.unwrap_or(next.no_loop);
        next.metadata = set.metadata.unwrap_or(next.metadata);
        next.state = set.state.unwrap_or(next.state);
        self.apply_tags(&mut next.tags, &mut errors);
        if self.target.is_some() || self.https_only == Some(true) || self.no_loop == Some(true) {
            let https = next.https_only && (self.target.is_some() || self.https_only == Some(true));
            let no_loop = next.no_loop && (self.target.is_some() || self.no_loop == Some(true));
            check_target_rules(&next.target, https, no_loop, served_hosts, &mut errors);
        }
        errors.into_result().map(|()| next)
    }

    fn apply_tags(&self, list: &mut Vec<String>, errors: &mut FieldErrors) {
        if let Some(whole) = &self.tags {
            list.clone_from(whole);
        }
        list.extend(self.add_tags.iter().cloned());
        list.retain(|tag| !self.remove_tags.contains(tag));
        list.sort();
        list.dedup();
        if list.len() > MAX_TAGS {
            errors.push(FieldError::new(
                "tags",
                FieldCode::TooLong,
                format!("would be {}; a link has at most {MAX_TAGS}", list.len()),
            ));
        }
    }
}

fn check_target_rules(
    target: &Target,
    https_only: bool,
    no_loop: bool,
    served_hosts: &ServedHosts,
    errors: &mut FieldErrors,
) {
    if https_only && !target.is_https() {
        errors.push(FieldError::new(
            "target",
            FieldCode::HttpsRequired,
            "must be https; allow http with https_only off (--no-https)",
        ));
    }
    if no_loop && served_hosts.contains(target.host()) {
        let message = format!(
            "leads back to {}, a domain served here; allow it with no_loop off (--allow-loop)",
            target.host()
        );
        errors.push(FieldError::new("target", FieldCode::Loop, message));
    }
}

/// A time to come until which something is good.
pub fn parse_expiry(time: &TimeInput, now: Timestamp) -> Result<Timestamp, FieldError> {
    let parsed = match time {
        TimeInput::Text(text) => Timestamp::parse(text),
        TimeInput::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(seconds), _) => Timestamp::from_unix_seconds(seconds),
            (None, Some(seconds)) if seconds.fract() != 0.0 => Err(TimeError::Fraction),
            _ => Err(TimeError::Milliseconds),
        },
    };
    let at = parsed.map_err(|error| {
        let code =
            if error == TimeError::Milliseconds { FieldCode::Milliseconds } else { FieldCode::NotATime };
        FieldError::new("expires_at", code, error.to_string())
    })?;
    if at <= now {
        return Err(FieldError::new(
            "expires_at",
            FieldCode::Past,
            format!("is already over ({at}); give a time to come"),
        ));
    }
    Ok(at)
}

fn parse_free_text(
    field: &str,
    text: &str,
    longest: usize,
    allowed: &[char],
) -> Result<Option<String>, FieldError> {
    if text.chars().count() > longest {
        return Err(FieldError::new(
            field,
            FieldCode::TooLong,
            format!("has more than {longest} characters"),
        ));
    }
    if text.chars().any(|letter| letter.is_control() && !allowed.contains(&letter)) {
        return Err(FieldError::new(field, FieldCode::ControlCharacter, "has control characters"));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn parse_tags(list: &[String], errors: &mut FieldErrors) -> Vec<String> {
    let parsed = list.iter().filter_map(|tag| {
        let tag = tag.trim();
        let refuse = |code, message: &str| Err(FieldError::new("tags", code, message));
        errors.ok_or_push(if tag.is_empty() {
            refuse(FieldCode::Required, "has an empty tag")
        } else if tag.chars().count() > MAX_TAG_CHARS {
            refuse(FieldCode::TooLong, "has a tag of more than 64 characters")
        } else if tag.chars().any(char::is_control) {
            refuse(FieldCode::ControlCharacter, "has control characters")
        } else if tag.contains(',') {
            refuse(FieldCode::BadCharacters, "has a comma in a tag; give each tag by itself")
        } else {
            Ok(tag.to_owned())
        })
    });
    parsed.collect()
}

fn parse_metadata(object: &Map<String, Value>) -> Result<Map<String, Value>, FieldError> {
    let refuse = |code, message: &str| Err(FieldError::new("metadata", code, message));
    if ["notes", "tags"].iter().any(|name| object.contains_key(*name)) {
        return refuse(
            FieldCode::Reserved,
            "may not have the keys notes and tags; they are fields of their own",
        );
    }
    let json = serde_json::to_string(object).expect("a JSON object is JSON");
    if json.len() > MAX_METADATA_BYTES {
        return refuse(FieldCode::TooLong, "has more than 16 KB");
    }
    if json.contains("\\u0000") {
        return refuse(FieldCode::ControlCharacter, "has a NUL character");
    }
    Ok(object.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Input, LinkDraft, LinkPatch};
    use crate::{FieldErrors, Host, Policy, Preset, ServedHosts, Timestamp};

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn domains() -> ServedHosts {
        ServedHosts::new([Host::parse("rmax.to").unwrap()], None)
    }

    fn draft(preset: Preset, body: &serde_json::Value) -> Result<LinkDraft, FieldErrors> {
        let input = Input::from_json(body.as_object().unwrap())?;
        LinkDraft::parse(&input, &Policy::preset(preset), &domains(), NOW)
    }

    #[track_caller]
    fn errors(body: &serde_json::Value) -> Vec<String> {
        let found = draft(Preset::Fabric, body).unwrap_err();
        found
            .0
            .iter()
            .map(|error| format!("{} {}", error.field, json!(error.code).as_str().unwrap()))
            .collect()
    }

    #[test]
    fn draft_takes_the_defaults_of_the_policy() {
        let draft = draft(Preset::Fabric, &json!({"target": "https://example.com", "tags": ["b", "a", "b"]}))
            .unwrap();
        assert!(draft.https_only && draft.no_loop && draft.code.is_none());
        assert_eq!(draft.redirect_status.code(), 301);
        assert_eq!(draft.tags, ["a", "b"]);
    }

    #[test]
    fn all_field_errors_are_reported_at_once() {
        let body = json!({"code": "Api/", "target": "http://rmax.to/x", "redirect_status": 303, "expires_at": 1, "title": "a\u{0}", "tags": ["a,b", ""]});
        assert_eq!(
            errors(&body),
            [
                "code bad_characters",
                "redirect_status bad_status",
                "expires_at past",
                "title control_character",
                "tags bad_characters",
                "tags required",
                "target https_required",
                "target loop"
            ]
        );
    }

    #[test]
    fn unknown_and_immutable_fields_are_rejected_by_name() {
        let body = json!({"target": "https://a.example/", "id": "1", "role": "admin", "https_only": "yes", "metadata": 5, "state": "deleted"});
        assert_eq!(
            errors(&body),
            [
                "https_only bad_characters",
                "id immutable",
                "metadata bad_characters",
                "role unknown_field",
                "state bad_characters"
            ]
        );
    }

    #[test]
    fn invalid_times_are_rejected_with_a_reason() {
        let with =
            |value: serde_json::Value| errors(&json!({"target": "https://a.example/", "expires_at": value}));
        assert_eq!(with(json!(1_900_000_000_000_i64)), ["expires_at milliseconds"]);
        assert_eq!(with(json!("1900000000000")), ["expires_at milliseconds"]);
        assert_eq!(with(json!(1_900_000_000.5)), ["expires_at not_a_time"]);
        assert_eq!(with(json!("soon")), ["expires_at not_a_time"]);
        assert_eq!(with(json!(true)), ["expires_at not_a_time"]);
        assert_eq!(with(json!(NOW.to_string())), ["expires_at past"]);
        assert!(
            draft(Preset::Fabric, &json!({"target": "https://a.example/", "expires_at": 1_900_000_000}))
                .is_ok()
        );
    }

    #[test]
    fn field_limits_are_enforced() {
        let with = |field: &str, value: serde_json::Value| {
            errors(&json!({"target": "https://a.example/", field: value}))
        };
        assert_eq!(with("title", json!("x".repeat(501))), ["title too_long"]);
        assert_eq!(with("notes", json!("x".repeat(10_001))), ["notes too_long"]);
        assert_eq!(
            with("tags", json!((0..51).map(|n| n.to_string()).collect::<Vec<_>>())),
            ["tags too_long"]
        );
        assert_eq!(with("tags", json!(["x".repeat(65)])), ["tags too_long"]);
        assert_eq!(with("metadata", json!({"x": "y".repeat(16_384)})), ["metadata too_long"]);
        assert_eq!(with("metadata", json!({"x": "\u{0}"})), ["metadata control_character"]);
        assert_eq!(with("metadata", json!({"notes": 1})), ["metadata reserved"]);
    }

    #[test]
    fn patch_validates_only_the_given_fields() {
        let policy = Policy::preset(Preset::Fabric);
        let input = |body: serde_json::Value| Input::from_json(body.as_object().unwrap()).unwrap();
        assert!(LinkPatch::parse(&input(json!({"title": "x"})), &policy, NOW).is_ok());
        let refused = LinkPatch::parse(&input(json!({"code": "new"})), &policy, NOW).unwrap_err();
        assert_eq!(refused.0[0].code, crate::FieldCode::Immutable);
    }
}
