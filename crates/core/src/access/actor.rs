//! Who acts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Id;

/// Who made a change: a person or a key by id, the operator by their own text, or the system.
///
/// E-mail addresses and names of users never appear here: a person can be forgotten and the audit chain still verifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(String);

const MAX_OPERATOR_CHARS: usize = 255;

impl Actor {
    /// The person at the terminal, by the identity they configured.
    pub fn operator(text: &str) -> Self {
        let clean: String =
            text.trim().chars().filter(|letter| !letter.is_control()).take(MAX_OPERATOR_CHARS).collect();
        if clean.is_empty() { Self("operator".to_owned()) } else { Self(clean) }
    }

    /// A daily job, a migration, the first start.
    pub fn system() -> Self {
        Self("system".to_owned())
    }

    pub fn from_user(id: Id) -> Self {
        Self(format!("user:{id}"))
    }

    pub fn from_key(id: Id) -> Self {
        Self(format!("key:{id}"))
    }

    /// An actor as the store keeps it.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The user it is, where it is one.
    pub fn user(&self) -> Option<Id> {
        self.0.strip_prefix("user:")?.parse().ok().map(Id::from_i64)
    }

    /// The key it is, where it is one.
    pub fn key(&self) -> Option<Id> {
        self.0.strip_prefix("key:")?.parse().ok().map(Id::from_i64)
    }

    /// As stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
