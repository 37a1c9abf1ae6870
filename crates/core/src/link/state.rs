//! What a link is: its state, how it redirects, and how it came to be.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What its owner made of a link. Expiry is no state: it is compared with the clock on every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    Active,
    /// Switched off by its owner.
    Disabled,
    /// Deleted; the code stays taken.
    Deleted,
}

impl LinkState {
    /// Its name in JSON, tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }
}

impl FromStr for LinkState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Active, Self::Disabled, Self::Deleted].into_iter().find(|state| state.name() == text).ok_or(())
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The HTTP status of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectStatus {
    // 301.
    MovedPermanently,
    // 302.
    Found,
    /// 307: the method stays.
    TemporaryRedirect,
    /// 308: permanent, the method stays.
    PermanentRedirect,
}

impl RedirectStatus {
    /// One of the four, or nothing.
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            301 => Some(Self::MovedPermanently),
            302 => Some(Self::Found),
            307 => Some(Self::TemporaryRedirect),
            308 => Some(Self::PermanentRedirect),
            _ => None,
        }
    }

    pub const fn code(self) -> u16 {
        match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::TemporaryRedirect => 307,
            Self::PermanentRedirect => 308,
        }
    }
}

impl Serialize for RedirectStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.code())
    }
}

impl<'de> Deserialize<'de> for RedirectStatus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = i64::deserialize(deserializer)?;
        Self::from_code(code)
            .ok_or_else(|| serde::de::Error::custom(format!("{code} is none of 301, 302, 307, 308")))
    }
}

/// How a link came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkSource {
    Api,
    Web,
    Cli,
    Import,
}

impl LinkSource {
    /// Its name in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Web => "web",
            Self::Cli => "cli",
            Self::Import => "import",
        }
    }
}

impl FromStr for LinkSource {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Api, Self::Web, Self::Cli, Self::Import]
            .into_iter()
            .find(|source| source.name() == text)
            .ok_or(())
    }
}
