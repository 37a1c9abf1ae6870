//! What a form about a link says: the texts as they were typed, what they mean, and what is wrong beside each of them.

use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::{FieldCode, FieldError, FieldErrors, Link, Timestamp};
use rlinks_store::StoreError;
use serde_json::Value;

use crate::web::capitalize;
use crate::web::extract::Form;
use rlinks_ops::OpsError;

/// A form about a link as somebody sees it.
#[derive(Clone, Debug, Default)]
pub struct LinkForm {
    pub target: String,
    pub code: String,
    pub title: String,
    pub tags: String,
    pub expires_at: String,
    pub redirect_status: String,
    pub notes: String,
    pub https_only: bool,
    pub no_loop: bool,
    pub metadata: String,
    /// Of a link that is yet to be made.
    allow: Option<Allow>,
    /// What is wrong has to do with one of the switches.
    switch: bool,
    errors: Vec<(String, String)>,
}

/// What a new link may do that the policy would not let it.
#[derive(Clone, Copy, Debug, Default)]
struct Allow {
    http: bool,
    own: bool,
}

impl LinkForm {
    /// As it was sent.
    pub fn from_form(form: &Form) -> Self {
        let text = |name: &str| form.get(name).trim().to_owned();
        Self {
            target: text("target"),
            code: text("code"),
            title: text("title"),
            tags: text("tags"),
            expires_at: text("expires_at"),
            redirect_status: text("redirect_status"),
            // Browsers send every line's end as two letters.
            notes: form.get("notes").replace("\r\n", "\n"),
            https_only: form.has("https_only"),
            no_loop: form.has("no_loop"),
            metadata: text("metadata"),
            ..Self::default()
        }
    }

    /// As it was sent, about a link that is yet to be made. What it may do is ticked; what it must, the policy says.
    pub fn from_new_link_form(form: &Form) -> Self {
        let allow = Allow { http: form.has("allow_http"), own: form.has("allow_loop") };
        Self { allow: Some(allow), ..Self::from_form(form) }
    }

    pub fn with_target(target: String) -> Self {
        Self { target, ..Self::default() }
    }

    /// As a link is.
    pub fn from_link(link: &Link) -> Self {
        let metadata = Some(&link.metadata).filter(|metadata| !metadata.is_empty());
        let metadata = metadata.and_then(|metadata| serde_json::to_string_pretty(metadata).ok());
        Self {
            target: link.target.as_str().to_owned(),
            code: link.code.to_string(),
            title: link.title.clone().unwrap_or_default(),
            tags: link.tags.join(", "),
            expires_at: link.expires_at.map(to_input_value).unwrap_or_default(),
            redirect_status: link.redirect_status.code().to_string(),
            notes: link.notes.clone().unwrap_or_default().replace("\r\n", "\n"),
            https_only: link.https_only,
            no_loop: link.no_loop,
            metadata: metadata.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// What a new link is to be. What was left empty is left to the policy.
    pub fn new_link(&self) -> Input {
        let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Input {
            target: named(&self.target).map(|target| with_scheme(&target)),
            code: named(&self.code),
            title: named(&self.title),
            notes: named(&self.notes),
            tags: named(&self.tags).map(|text| split_tags(&text)),
            expires_at: named(&self.expires_at).map(|text| Some(from_input_value(&text))),
            redirect_status: self.redirect_status.parse().ok(),
            https_only: self.allows_http().then_some(false),
            no_loop: self.allows_own_domains().then_some(false),
            ..Input::default()
        }
    }

    /// What to change about a link: only what is not as it was shown, so that an expiry that is over does not stand in the way.
    pub fn change(&self, shown: &Self) -> Result<Input, FieldErrors> {
        let differs = |mine: &String, theirs: &String| Some(mine.clone()).filter(|_| mine != theirs);
        let metadata = match differs(&self.metadata, &shown.metadata) {
            None => None,
            Some(text) if text.is_empty() => Some(serde_json::Map::new()),
            Some(text) => {
                if let Ok(Value::Object(object)) = serde_json::from_str(&text) {
                    Some(object)
                } else {
                    let message = "must be a JSON object, like {\"campaign\": \"spring\"}";
                    return Err(FieldError::new("metadata", FieldCode::BadCharacters, message).into());
                }
            }
        };
        Ok(Input {
            target: differs(&self.target, &shown.target),
            title: differs(&self.title, &shown.title),
            notes: differs(&self.notes, &shown.notes),
            tags: differs(&self.tags, &shown.tags).map(|text| split_tags(&text)),
            expires_at: differs(&self.expires_at, &shown.expires_at)
                .map(|text| Some(text).filter(|text| !text.is_empty()).map(|text| from_input_value(&text))),
            redirect_status: differs(&self.redirect_status, &shown.redirect_status)
                .map(|text| text.parse().unwrap_or_default()),
            https_only: Some(self.https_only).filter(|mine| *mine != shown.https_only),
            no_loop: Some(self.no_loop).filter(|mine| *mine != shown.no_loop),
            metadata,
            ..Input::default()
        })
    }

    /// Where this form and another differ: the name, this one's value and the other's.
    pub fn diff(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let switch = |on: bool| if on { "yes" } else { "no" }.to_owned();
        let pairs = [
            ("Target", self.target.clone(), other.target.clone()),
            ("Title", self.title.clone(), other.title.clone()),
            ("Tags", self.tags.clone(), other.tags.clone()),
            ("Expiry", self.expires_at.clone(), other.expires_at.clone()),
            ("Redirect", self.redirect_status.clone(), other.redirect_status.clone()),
            ("Notes", self.notes.clone(), other.notes.clone()),
            ("https only", switch(self.https_only), switch(other.https_only)),
            ("No loops", switch(self.no_loop), switch(other.no_loop)),
            ("Metadata", self.metadata.clone(), other.metadata.clone()),
        ];
        pairs.into_iter().filter(|(_, mine, theirs)| mine != theirs).collect()
    }

    /// Puts an error beside its fields. Gives back one that belongs to none.
    pub fn attach_errors(&mut self, error: OpsError) -> Option<OpsError> {
        match error {
            OpsError::Invalid(errors) => {
                for error in errors.0 {
                    self.switch |= matches!(error.code, FieldCode::HttpsRequired | FieldCode::Loop);
                    let message = format!("{} {}", field_label(&error.field), self.error_message(&error));
                    self.errors.push((error.field, capitalize(&message)));
                }
                None
            }
            OpsError::Store(StoreError::CodeTaken { deleted, .. }) => {
                let message = if deleted {
                    "This code belongs to a deleted link. Restore it, or choose another"
                } else {
                    "This code is taken. Choose another"
                };
                self.errors.push(("code".to_owned(), message.to_owned()));
                None
            }
            OpsError::Unsafe(_) => {
                self.errors.push(("target".to_owned(), capitalize(&error.to_string())));
                None
            }
            error => Some(error),
        }
    }

    /// What is wrong, in the words of this form.
    fn error_message(&self, error: &FieldError) -> String {
        match (error.code, self.allow.is_some()) {
            (FieldCode::HttpsRequired, true) => {
                "is plain http. Tick “may lead to plain http” below to allow it".to_owned()
            }
            (FieldCode::HttpsRequired, false) => {
                "is plain http. Untick “leads to https only” below to allow it".to_owned()
            }
            (FieldCode::Loop, is_new) => {
                let what = error.message.split(';').next().unwrap_or_default();
                let how = if is_new {
                    "Tick “may lead to a domain served here” below"
                } else {
                    "Untick “never leads back to a domain served here” below"
                };
                format!("{what}. {how} to allow it")
            }
            // There are many notes and tags.
            _ => match error.message.strip_prefix("has ") {
                Some(rest) if ["notes", "tags"].contains(&error.field.as_str()) => format!("have {rest}"),
                _ => error.message.clone(),
            },
        }
    }

    /// Whether this is the first field of the form with something wrong: the one to go to.
    pub fn is_first_error(&self, field: &str) -> bool {
        const ORDER: [&str; 8] =
            ["target", "code", "title", "tags", "expires_at", "redirect_status", "notes", "metadata"];
        ORDER.into_iter().find(|name| self.error(name).is_some()) == Some(field)
    }

    /// Whether plain http was ticked.
    pub fn allows_http(&self) -> bool {
        self.allow.is_some_and(|allow| allow.http)
    }

    /// Whether domains served here were.
    pub fn allows_own_domains(&self) -> bool {
        self.allow.is_some_and(|allow| allow.own)
    }

    /// Whether anything is wrong.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// What is wrong with a field.
    pub fn error(&self, field: &str) -> Option<&str> {
        self.errors.iter().find(|(name, _)| name == field).map(|(_, message)| message.as_str())
    }

    /// Whether something folded away is needed: it is wrong, or would help, or was chosen.
    pub fn is_open(&self) -> bool {
        let is_wrong = self.errors.iter().any(|(name, _)| name != "target");
        is_wrong || self.switch || self.allows_http() || self.allows_own_domains()
    }
}

/// A field as people call it.
fn field_label(field: &str) -> String {
    match field {
        "expires_at" => "the expiry".to_owned(),
        "redirect_status" => "the redirect".to_owned(),
        other => format!("the {}", other.replace('_', " ")),
    }
}

/// Whoever pastes `example.com/page` means https.
fn with_scheme(target: &str) -> String {
    let bare = !target.contains("://")
        && target.split(['/', '?', '#']).next().is_some_and(|host| host.contains('.') && !host.contains(':'));
    if bare { format!("https://{target}") } else { target.to_owned() }
}

pub fn split_tags(text: &str) -> Vec<String> {
    text.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
}

/// A time as a browser's field shows it: UTC, without saying so, to the second.
fn to_input_value(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-29T12:00:00".len()).collect()
}

/// And as it sends it: the seconds are left out where they are none.
fn from_input_value(text: &str) -> TimeInput {
    let is_short = text.len() == "2026-01-29T12:00".len() && text.as_bytes().get(10) == Some(&b'T');
    TimeInput::Text(if is_short { format!("{text}:00") } else { text.to_owned() })
}
