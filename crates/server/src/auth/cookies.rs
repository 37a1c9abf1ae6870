//! The cookies of the dashboard: their names and attributes, read and written here alone.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::connection_info::{ConnectionInfo, Transport};

/// A cookie of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// The token of a session.
    Session,
    /// What proves that a form came from us, before sign-in.
    Form,
    /// What a browser keeps while its user is at the OpenID provider.
    OidcLogin,
    /// The token of the set-up, after the address it came in.
    Setup,
    /// The token of an invitation, after the address it came in.
    Invitation,
    /// The accounts that have signed in from this browser.
    KnownBrowser,
    /// What the page before has done.
    Notice,
    Theme,
    /// Written by the script.
    TimeZone,
}

/// How long a browser keeps a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is closed.
    BrowserSession,
    Seconds(i64),
}

impl Cookie {
    /// A line of `Set-Cookie`; nothing if the value is no text a header can hold.
    pub fn set(self, connection: &ConnectionInfo, value: &str, lifetime: Lifetime) -> Option<HeaderValue> {
        let name = self.name(connection);
        let max_age = match lifetime {
            Lifetime::BrowserSession => String::new(),
            Lifetime::Seconds(seconds) => format!(" Max-Age={seconds};"),
        };
        // Keeps a cookie off plain HTTP, where there is https.
        let secure = if connection.transport == Transport::Https { "; Secure" } else { "" };
        HeaderValue::from_str(&format!("{name}={value}; Path=/;{max_age} HttpOnly; SameSite=Lax{secure}"))
            .ok()
    }

    /// The line that takes it away.
    pub fn clear(self, connection: &ConnectionInfo) -> HeaderValue {
        self.set(connection, "", Lifetime::Seconds(0)).expect("a cookie without a value is plain text")
    }

    /// The first of this name, for what isn't secret.
    pub fn first<'a>(self, headers: &'a HeaderMap, connection: &ConnectionInfo) -> Option<&'a str> {
        values(headers, self.name(connection)).next()
    }

    /// The only one of this name. Two count as none: another site may have set one of them.
    pub fn single<'a>(self, headers: &'a HeaderMap, connection: &ConnectionInfo) -> Option<&'a str> {
        let mut values = values(headers, self.name(connection));
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Some(value)
    }

    /// Over https no other site can set a cookie with this prefix, and it never leaves in the clear.
    fn name(self, connection: &ConnectionInfo) -> String {
        let prefix = match connection.transport {
            Transport::Https => "__Host-",
            Transport::Loopback | Transport::Plain => "",
        };
        let name = match self {
            Self::Session => "rlinks",
            Self::Form => "rlinks-form",
            Self::OidcLogin => "rlinks-oidc",
            Self::Setup => "rlinks-setup",
            Self::Invitation => "rlinks-invitation",
            Self::KnownBrowser => "rlinks-known",
            Self::Notice => "notice",
            Self::Theme => "theme",
            Self::TimeZone => "tz",
        };
        format!("{prefix}{name}")
    }
}

fn values(headers: &HeaderMap, name: String) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(given, _)| *given == name).map(|(_, value)| value)
}
