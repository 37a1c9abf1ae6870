//! Workspaces and the hosts they answer on.

pub mod domain_verification;
pub mod policy;
pub mod presets;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldCode, FieldError};
use crate::{Host, Id, Policy, Timestamp};

/// The name of a workspace: one DNS label, unique for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slug(String);

impl Slug {
    /// The workspace every installation begins with.
    pub const MAIN: &'static str = "main";

    /// `[a-z0-9]`, hyphens inside, at most 63 characters.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let refuse = |code, message: &str| Err(FieldError::new("slug", code, message));
        if text.is_empty() {
            return refuse(FieldCode::Required, "is empty; give a name like `marketing`");
        }
        if text.len() > 63 {
            return refuse(FieldCode::TooLong, "has more than 63 characters");
        }
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !text.bytes().all(inside) || text.starts_with('-') || text.ends_with('-') {
            return refuse(
                FieldCode::BadCharacters,
                "may have lower-case letters and digits, with hyphens inside",
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// The workspace every installation begins with.
    pub fn main() -> Self {
        Self(Self::MAIN.to_owned())
    }

    /// A slug as the store keeps it.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Owns domains, links, members, keys and a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    pub id: Id,
    /// Its name in addresses.
    pub slug: Slug,
    /// Its name for people.
    pub name: String,
    pub policy: Policy,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was deleted. Nothing is erased, and the slug is never given out again.
    pub deleted_at: Option<Timestamp>,
}

impl Workspace {
    pub const MAX_NAME_CHARS: usize = 255;

    /// Whether it is the one every installation begins with.
    pub fn is_main(&self) -> bool {
        self.slug.as_str() == Slug::MAIN
    }

    /// A name for people: 1 to 255 characters on one line.
    pub fn parse_name(text: &str) -> Result<String, FieldError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(FieldError::new("name", FieldCode::Required, "is empty"));
        }
        if text.chars().count() > Self::MAX_NAME_CHARS {
            return Err(FieldError::new("name", FieldCode::TooLong, "has more than 255 characters"));
        }
        if text.chars().any(char::is_control) {
            return Err(FieldError::new("name", FieldCode::ControlCharacter, "has control characters"));
        }
        Ok(text.to_owned())
    }
}

/// A host we serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub host: Host,
    /// Whose links answer there.
    pub workspace: Id,
    /// Short URLs are written with it.
    pub primary: bool,
    /// When it was added.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::Slug;

    #[test]
    fn slug_must_be_one_dns_label() {
        for text in ["a", "main", "a-b", "0", &"a".repeat(63)] {
            assert!(Slug::parse(text).is_ok(), "{text}");
        }
        for text in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(Slug::parse(text).is_err(), "{text}");
        }
    }
}
