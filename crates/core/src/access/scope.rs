//! What a credential may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::field_error::{FieldCode, FieldError};

/// One thing a credential may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// See links, their history and QR codes.
    LinksRead,
    /// Make, change and restore links.
    LinksWrite,
    LinksDelete,
    /// See statistics and clicks.
    AnalyticsRead,
    /// Members, keys, domains, policy and the audit log.
    WorkspaceAdmin,
}

impl Scope {
    pub const ALL: [Self; 5] =
        [Self::LinksRead, Self::LinksWrite, Self::LinksDelete, Self::AnalyticsRead, Self::WorkspaceAdmin];

    pub const fn name(self) -> &'static str {
        match self {
            Self::LinksRead => "links:read",
            Self::LinksWrite => "links:write",
            Self::LinksDelete => "links:delete",
            Self::AnalyticsRead => "analytics:read",
            Self::WorkspaceAdmin => "workspace:admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl FromStr for Scope {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            FieldError::new("scopes", FieldCode::BadCharacters, format!("`{text}` is none of {names}"))
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a credential may do. In JSON a list of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(0b1_1111);
    /// What a key gets that names none.
    pub const DEFAULT: Self = Self::new(&[Scope::LinksRead, Scope::LinksWrite]);

    pub const fn new(scopes: &[Scope]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < scopes.len() {
            bits |= scopes[at].bit();
            at += 1;
        }
        Self(bits)
    }

    /// By their names; at least one.
    pub fn parse<T: AsRef<str>>(names: &[T]) -> Result<Self, FieldError> {
        if names.is_empty() {
            return Err(FieldError::new(
                "scopes",
                FieldCode::Required,
                "is empty; a key must be able to do something",
            ));
        }
        names
            .iter()
            .try_fold(Self::NONE, |scopes, name| Ok(Self(scopes.0 | name.as_ref().parse::<Scope>()?.bit())))
    }

    /// Whether this one is among them.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of these are among the other's.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Each of them, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// Their names with commas between: how the store keeps them.
    pub fn to_text(self) -> String {
        self.iter().map(Scope::name).collect::<Vec<_>>().join(",")
    }

    /// As the store keeps them. A name of a later version is nothing we would allow.
    pub fn from_stored(text: &str) -> Self {
        Self(
            text.split(',')
                .filter_map(|name| name.parse::<Scope>().ok())
                .fold(0, |bits, scope| bits | scope.bit()),
        )
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::name))
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        Self::parse(&names).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Scopes};

    #[test]
    fn scopes_are_a_set() {
        let two = Scopes::parse(&["links:write", "links:read", "links:read"]).unwrap();
        assert_eq!(two, Scopes::DEFAULT);
        assert_eq!(two.to_text(), "links:read,links:write");
        assert_eq!(Scopes::from_stored("links:read,links:fly,links:write"), two);
        assert!(two.is_subset(Scopes::ALL) && !Scopes::ALL.is_subset(two));
        assert!(two.contains(Scope::LinksRead) && !two.contains(Scope::LinksDelete));
        assert_eq!(serde_json::to_string(&two).unwrap(), r#"["links:read","links:write"]"#);
        assert!(Scopes::parse::<&str>(&[]).is_err() && Scopes::parse(&["links"]).is_err());
    }
}
