//! Targets: where a link leads.
//!
//! URL parsers are lenient; we are not. What a person typed and what a browser is sent must be the same page, so
//! everything a parser would silently repair is refused, and the serialised form is what is stored and sent.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use crate::field_error::{FieldCode, FieldError};
use crate::host::{is_invisible, is_plausible};

/// An absolute http or https URL in its serialised form: ASCII, no user name, no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    host: (usize, usize),
}

/// Whatever a policy says, no longer text is looked at.
pub const MAX_TARGET_BYTES: usize = 65_536;

/// The version of [`Target::normalized`]. A change of its rules is a new number, never a silent one.
pub const NORMALIZATION_VERSION: u32 = 1;

impl Target {
    /// A target as a person or program gives it.
    pub fn parse(text: &str, max_bytes: usize) -> Result<Self, FieldError> {
        let refuse = |code, message: String| Err(FieldError::new("target", code, message));
        let max_bytes = max_bytes.min(MAX_TARGET_BYTES);
        if text.is_empty() {
            return refuse(
                FieldCode::Required,
                "is empty; give a URL like https://example.com/page".to_owned(),
            );
        }
        if text.len() > max_bytes {
            return refuse(FieldCode::TooLong, format!("has more than {max_bytes} bytes"));
        }
        if text.chars().any(char::is_control) {
            return refuse(
                FieldCode::ControlCharacter,
                "has control characters (tab, line break or the like)".to_owned(),
            );
        }
        if text.trim() != text {
            return refuse(FieldCode::ControlCharacter, "begins or ends with a space".to_owned());
        }
        let Some(rest) = after_scheme(text) else {
            return Err(wrong_scheme(text));
        };
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if rest[..rest.find(['?', '#']).unwrap_or(rest.len())].contains('\\') {
            return refuse(
                FieldCode::BadCharacters,
                "has a backslash, which browsers read as a slash".to_owned(),
            );
        }
        if authority.contains('@') {
            return refuse(
                FieldCode::Userinfo,
                "has a user name before the host; remove everything up to the @".to_owned(),
            );
        }
        if authority.is_empty() {
            return refuse(FieldCode::BadHost, "has no host after the //".to_owned());
        }
        if authority.contains('%') || authority.chars().any(is_invisible) {
            return refuse(FieldCode::BadHost, "has escapes or invisible characters in its host".to_owned());
        }
        let mut url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => {
                return refuse(FieldCode::BadHost, format!("has a host or port that is not one ({error})"));
            }
        };
        // An IPv4 address in IPv6 clothes would pass every check of the IPv4 address.
        if let Some(url::Host::Ipv6(v6)) = url.host()
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            url.set_ip_host(v4.into()).expect("an http URL has a host");
        }
        let host = url.host_str().unwrap_or_default();
        if !is_plausible(host.strip_suffix('.').unwrap_or(host)) || url.port() == Some(0) {
            return refuse(FieldCode::BadHost, "has a host or port that is not one".to_owned());
        }
        let text = String::from(url);
        if text.len() > max_bytes {
            return refuse(FieldCode::TooLong, format!("has more than {max_bytes} bytes once written out"));
        }
        Self::from_stored(text).ok_or_else(|| {
            FieldError::new("target", FieldCode::BadCharacters, "has characters a URL cannot carry")
        })
    }

    /// A target as the store or a route object holds it. Nothing when it could not have been written by us.
    pub fn from_stored(text: String) -> Option<Self> {
        let rest = after_scheme(&text)?;
        let start = text.len() - rest.len();
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if authority.contains('@')
            || text.len() > MAX_TARGET_BYTES
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return None;
        }
        let name = match authority.rfind(':') {
            Some(colon) if authority[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()) => {
                &authority[..colon]
            }
            _ => authority,
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let host = (start, start + name.len());
        Some(Self { text, host })
    }

    /// A target from where others than us may have written, such as KV: checked like a new one, and kept to the letter where that
    /// changes nothing about its host.
    pub fn from_foreign(text: &str) -> Option<Self> {
        let parsed = Self::parse(text, MAX_TARGET_BYTES).ok()?;
        Self::from_stored(text.to_owned()).filter(|kept| kept.host() == parsed.host()).or(Some(parsed))
    }

    /// The URL, as sent in `Location`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its host, normalised: no port, no trailing dot.
    pub fn host(&self) -> &str {
        &self.text[self.host.0..self.host.1]
    }

    /// Where in [`Target::as_str`] the host stands, for caches that keep the text alone.
    pub fn host_range(&self) -> (usize, usize) {
        self.host
    }

    /// Whether it is https.
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The form by which two targets count as the same page. For matching only: a redirect always goes to the target as
    /// given. Rules of version [`NORMALIZATION_VERSION`]: parameters sorted by key, tracking parameters dropped, one trailing slash
    /// dropped. Path case, http apart from https, and the fragment stay.
    pub fn normalized(&self) -> String {
        let (front, fragment) = match self.text.split_once('#') {
            Some((front, fragment)) => (front, Some(fragment)),
            None => (self.text.as_str(), None),
        };
        let (path, query) = match front.split_once('?') {
            Some((path, query)) => (path, query),
            None => (front, ""),
        };
        let root = self.text.len() - after_scheme(&self.text).map_or(0, str::len);
        let path_start = path[root..].find('/').map_or(path.len(), |slash| root + slash);
        let path = if path.len() > path_start + 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
        let mut pairs: Vec<&str> =
            query.split('&').filter(|pair| !pair.is_empty() && !is_tracking(key(pair))).collect();
        pairs.sort_by_key(|pair| key(pair));
        let mut normal = path.to_owned();
        for (index, pair) in pairs.iter().enumerate() {
            normal.push(if index == 0 { '?' } else { '&' });
            normal.push_str(pair);
        }
        if let Some(fragment) = fragment {
            normal.push('#');
            normal.push_str(fragment);
        }
        normal
    }
}

fn key(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

fn is_tracking(key: &str) -> bool {
    const KEYS: &[&str] = &[
        "fbclid", "gclid", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "twclid", "ttclid", "igshid",
        "mc_cid", "mc_eid", "_hsenc", "_hsmi",
    ];
    key.starts_with("utm_") || KEYS.contains(&key)
}

/// What follows `http://` or `https://`, byte for byte: `https:evil.example` has no such rest.
fn after_scheme(text: &str) -> Option<&str> {
    ["https://", "http://"].iter().find_map(|scheme| {
        let front = text.get(..scheme.len())?;
        front.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

fn wrong_scheme(text: &str) -> FieldError {
    let scheme: &str = text.split(':').next().unwrap_or_default();
    let is_scheme = scheme.len() < text.len()
        && scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // `example.com:8080/x` reads as a scheme, but whoever wrote it meant a host.
    if is_scheme
        && !scheme.contains('.')
        && !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https" | "localhost")
    {
        FieldError::new(
            "target",
            FieldCode::Scheme,
            "must begin with https:// or http://; other schemes are not served",
        )
    } else {
        FieldError::new("target", FieldCode::NotAbsolute, "is not a whole URL; begin with https://")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(out)
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_stored(String::deserialize(deserializer)?)
            .ok_or_else(|| serde::de::Error::custom("not a target"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Target;
    use crate::FieldCode;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, FieldCode>) {
        let got = Target::parse(text, 2048);
        assert_eq!(got.as_ref().map(Target::as_str).map_err(|error| error.code), expected, "{text:?}");
    }

    #[test]
    fn target_is_kept_in_its_serialised_form() {
        check("https://example.com", Ok("https://example.com/"));
        check("HTTPS://EXAMPLE.com:443/A?b=C#d", Ok("https://example.com/A?b=C#d"));
        check("http://example.com:8080/", Ok("http://example.com:8080/"));
        check("https://bücher.example/ü?ö", Ok("https://xn--bcher-kva.example/%C3%BC?%C3%B6"));
        check("https://example。com/", Ok("https://example.com/"));
        check("https://example.com/a b", Ok("https://example.com/a%20b"));
        check("https://faß.de/", Ok("https://xn--fa-hia.de/"));
        check("https://аррӏе.com/", Ok("https://xn--80ak6aa92e.com/"));
        check("https://example.com./x", Ok("https://example.com./x"));
        check("https://127.1/", Ok("https://127.0.0.1/"));
        check("https://[::1]:8443/", Ok("https://[::1]:8443/"));
        // Every check of the IPv4 address holds for it.
        check("https://[::ffff:7f00:1]/x?y#z", Ok("https://127.0.0.1/x?y#z"));
        check("https://[::ffff:192.0.2.1]:8443/", Ok("https://192.0.2.1:8443/"));
        check(
            "https://example.com/?next=javascript:alert(1)\\x",
            Ok("https://example.com/?next=javascript:alert(1)\\x"),
        );
        check("https://example.com/#\u{202e}x", Ok("https://example.com/#%E2%80%AEx"));
    }

    /// Hostile inputs, S2.
    #[test]
    fn dangerous_schemes_are_refused() {
        for text in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "blob:https://a",
            "view-source:https://a",
            "intent://x#Intent;end",
            "about:blank",
            "https+x://a",
            "ftp://a",
            "mailto:a@b",
        ] {
            check(text, Err(FieldCode::Scheme));
        }
        for text in ["  javascript:alert(1)", "java\tscript:alert(1)", "\u{1}javascript:alert(1)"] {
            check(text, Err(FieldCode::ControlCharacter));
        }
    }

    /// Hostile inputs, S3.
    #[test]
    fn control_characters_are_refused_not_stripped() {
        for text in [
            "https://a.com/\r\nSet-Cookie: x=1",
            "https://a.com/\t",
            "https://a.com/\0",
            " https://a.com",
            "https://a.com ",
            "https://a.com/\u{85}",
        ] {
            check(text, Err(FieldCode::ControlCharacter));
        }
    }

    /// Hostile inputs, S6.
    #[test]
    fn userinfo_and_incomplete_urls_are_refused() {
        for text in [
            "https://good.com@evil.com/",
            "https://good.com:443@evil.com/",
            "https://user:pw@good.com/",
            "https://@evil.com/",
        ] {
            check(text, Err(FieldCode::Userinfo));
        }
        for text in [
            "https:evil.com",
            "https:/evil.com",
            "//evil.com",
            "\\\\evil.com",
            "evil.com",
            "/path",
            "example.com:8080/x",
            "localhost:3000",
            "http:",
        ] {
            check(text, Err(FieldCode::NotAbsolute));
        }
        check("https://good.com\\@evil.com/", Err(FieldCode::BadCharacters));
        check("https://good.com/\\evil", Err(FieldCode::BadCharacters));
        for text in ["https:///evil.com", "https://good.com%40evil.com/", "https://?x"] {
            check(text, Err(FieldCode::BadHost));
        }
    }

    /// Hostile inputs, S8.
    #[test]
    fn malformed_hosts_are_refused() {
        for text in [
            "https://a..b/",
            "https://-a.com/",
            "https://a.com:0/",
            "https://a.com:99999/",
            "https://exam%2Fple.com/",
            "https://ex%61mple.com/",
            "https://exa\u{ad}mple.com/",
            "https://xn--example-.com/",
            "https://[::1/",
            "https://a-.com",
        ] {
            check(text, Err(FieldCode::BadHost));
        }
        check(
            &format!("https://a.com/{}", "x".repeat(2034)),
            Ok(&format!("https://a.com/{}", "x".repeat(2034))),
        );
        check(&format!("https://a.com/{}", "x".repeat(2035)), Err(FieldCode::TooLong));
        check(&format!("https://a.com/{}", "ü".repeat(400)), Err(FieldCode::TooLong));
        check(&"x".repeat(2 << 20), Err(FieldCode::TooLong));
        check("", Err(FieldCode::Required));
    }

    #[test]
    fn normalization_matches_version_1() {
        #[track_caller]
        fn same(given: &str, normal: &str) {
            assert_eq!(Target::parse(given, 65_536).unwrap().normalized(), normal);
        }
        same("https://Example.com", "https://example.com/");
        same("https://example.com:443/a/", "https://example.com/a");
        same("https://example.com/a//", "https://example.com/a/");
        same("https://example.com/A?b=2&a=1&b=1", "https://example.com/A?a=1&b=2&b=1");
        same("https://example.com/?utm_source=x&gclid=1", "https://example.com/");
        same("https://example.com/a/?utm_campaign=x&q=%20", "https://example.com/a?q=%20");
        same("https://example.com/a?", "https://example.com/a");
        same("https://example.com/a/#Top", "https://example.com/a#Top");
        same("https://example.com/?x=1#?a/", "https://example.com/?x=1#?a/");
        same("http://example.com/", "http://example.com/");
        same("https://example.com:8443/x/", "https://example.com:8443/x");
    }

    proptest! {
        #[test]
        fn accepted_targets_are_ascii_and_parse_again(text in "(https?://)?[ -~é。\\t]{0,40}") {
            if let Ok(target) = Target::parse(&text, 2048) {
                prop_assert!(target.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(Target::parse(target.as_str(), 2048).unwrap(), target.clone());
                let url = url::Url::parse(target.as_str()).unwrap();
                let host = url.host_str().unwrap();
                prop_assert_eq!(host.strip_suffix('.').unwrap_or(host), target.host());
                prop_assert!(url.username().is_empty());
            }
        }

        #[test]
        fn normalizing_twice_changes_nothing(path in "[a-zA-Z/?&=#_.%0-9]{0,40}") {
            if let Ok(target) = Target::parse(&format!("https://example.com/{path}"), 2048) {
                let once = Target::from_stored(target.normalized()).unwrap();
                // One trailing slash is dropped, so a path of slashes shrinks by one each time; all else is settled.
                if !target.normalized().split(['?', '#']).next().unwrap_or_default().ends_with('/') {
                    prop_assert_eq!(once.normalized(), target.normalized());
                }
            }
        }
    }
}
