//! A target as Safe Browsing spells it, so that two spellings of one page are one text.
//!
//! The rules are those Google publishes for its clients under "URLs and Hashing". The host of a [`Target`] is canonical already; what is
//! left are path and query. Block lists are compared in the same spelling.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use rlinks_core::Target;

/// Suffixes of a host that are looked up have so many labels. Google counts from the public suffix, whose list changes daily; a few
/// more suffixes cost nothing and find the same.
const SUFFIX_LABELS: std::ops::RangeInclusive<usize> = 2..=6;
/// Folders from the root down that are looked up.
const MAX_FOLDERS: usize = 4;

/// Host, path and query, in their canonical spelling.
pub struct CanonicalUrl<'a> {
    pub host: &'a str,
    /// The path; it begins with a slash.
    pub path: String,
    /// The query, where there is one.
    pub query: Option<String>,
}

impl<'a> CanonicalUrl<'a> {
    pub fn from_target(target: &'a Target) -> Self {
        let rest = &target.as_str()[target.host_range().1..];
        let rest = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
        let (path, query) = path_and_query(rest);
        Self { host: target.host(), path, query }
    }

    /// Every text that a list may have for this page: some suffixes of the host with some beginnings of the path.
    pub fn expressions(&self) -> Vec<String> {
        let paths = self.paths();
        let mut expressions = Vec::new();
        for host in self.hosts() {
            for path in &paths {
                expressions.push(format!("{host}{path}"));
            }
        }
        expressions
    }

    fn hosts(&self) -> Vec<&'a str> {
        let mut hosts = vec![self.host];
        if !is_ip_address(self.host) {
            let labels = self.host.split('.').count();
            let shorter = suffixes(self.host).skip(1).zip((1..labels).rev());
            hosts.extend(shorter.filter(|(_, labels)| SUFFIX_LABELS.contains(labels)).map(|(host, _)| host));
        }
        hosts
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .path
            .match_indices('/')
            .take(MAX_FOLDERS)
            .map(|(at, _)| self.path[..=at].to_owned())
            .collect();
        let mut add = |path: String| {
            if !paths.contains(&path) {
                paths.push(path);
            }
        };
        add(self.path.clone());
        if let Some(query) = self.query.as_deref().filter(|query| !query.is_empty()) {
            add(format!("{}?{query}", self.path));
        }
        paths
    }
}

/// What follows the authority of a URL, in canonical spelling and without its fragment.
pub fn path_and_query(rest: &str) -> (String, Option<String>) {
    let rest = rest.split('#').next().unwrap_or_default();
    match rest.split_once('?') {
        Some((path, query)) => (canonical_path(path), Some(escape(&unescape(query)))),
        None => (canonical_path(rest), None),
    }
}

/// Whether a host is an address: those have no suffixes.
pub fn is_ip_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

/// A host, and what is left of it as labels are taken from its front.
pub fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    std::iter::once(host).chain(host.match_indices('.').map(|(dot, _)| &host[dot + 1..]))
}

/// Without escapes, without `.` and `..`, one slash for many; then what must be escaped is escaped again.
fn canonical_path(path: &str) -> String {
    let plain = unescape(path);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_folder = true;
    for part in plain.split(|&byte| byte == b'/') {
        ends_in_folder = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    let mut path = Vec::with_capacity(plain.len() + 2);
    for part in &kept {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if ends_in_folder || kept.is_empty() {
        path.push(b'/');
    }
    escape(&path)
}

/// Takes escapes away until there are none left. An escape may come out of escapes, so each byte that is added is looked at with the two
/// before it; that gives what doing it again and again gives, in one go.
fn unescape(text: &str) -> Vec<u8> {
    let mut plain: Vec<u8> = Vec::with_capacity(text.len());
    for &byte in text.as_bytes() {
        plain.push(byte);
        while let [.., b'%', high, low] = plain[..]
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            plain.truncate(plain.len() - 3);
            plain.push(high << 4 | low);
        }
    }
    plain
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte <= b' ' || byte >= 127 || byte == b'#' || byte == b'%' {
            let _ = write!(text, "%{byte:02X}");
        } else {
            text.push(char::from(byte));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url, 65_536).unwrap()
    }

    #[test]
    fn url_spellings_share_one_canonical_form() {
        for (url, canonical) in [
            ("http://host/%25%32%35", "host/%25"),
            ("http://host/%25%32%35%25%32%35", "host/%25%25"),
            ("http://host/%2525252525252525", "host/%25"),
            ("http://host/asdf%25%32%35asd", "host/asdf%25asd"),
            ("http://host/%%%25%32%35asd%%", "host/%25%25%25asd%25%25"),
            ("http://www.google.com", "www.google.com/"),
            ("http://www.google.com/blah/..", "www.google.com/"),
            ("http://www.google.com/a/%2e%2e/b", "www.google.com/b"),
            ("http://www.google.com/q?r?", "www.google.com/q?r?"),
            ("http://evil.com/foo#bar#baz", "evil.com/foo"),
            ("http://evil.com/foo;", "evil.com/foo;"),
            ("http://evil.com/foo?bar;", "evil.com/foo?bar;"),
            ("http://www.gotaport.com:1234/", "www.gotaport.com/"),
            ("http://host.com//twoslashes?more//slashes", "host.com/twoslashes?more//slashes"),
            ("http://3279880203/blah", "195.127.0.11/blah"),
            ("http://host.com/%257Ea%2521b%2540c%2523d", "host.com/~a!b@c%23d"),
            ("http://host.com/ab%2523cd", "host.com/ab%23cd"),
            ("http://host.com/%2E%73%65c/", "host.com/.sec/"),
            ("http://host.com./x", "host.com/x"),
        ] {
            let target = target(url);
            let made = CanonicalUrl::from_target(&target);
            let query = made.query.map(|query| format!("?{query}")).unwrap_or_default();
            assert_eq!(format!("{}{}{query}", made.host, made.path), canonical, "{url}");
        }
    }

    #[test]
    fn lookup_expressions_cover_parent_hosts_and_paths() {
        let expressions = |url: &str| CanonicalUrl::from_target(&target(url)).expressions();
        assert_eq!(
            expressions("http://a.b.com/1/2.html?param=1"),
            [
                "a.b.com/",
                "a.b.com/1/",
                "a.b.com/1/2.html",
                "a.b.com/1/2.html?param=1",
                "b.com/",
                "b.com/1/",
                "b.com/1/2.html",
                "b.com/1/2.html?param=1"
            ]
        );
        assert_eq!(expressions("http://1.2.3.4/1/"), ["1.2.3.4/", "1.2.3.4/1/"]);
        assert_eq!(expressions("http://[::1]/"), ["[::1]/"]);
        let deep = expressions("https://a.b.c.d.e.f.g.co.uk/1/2/3/4/5/6.html?x");
        let hosts = ["a.b.c.d.e.f.g.co.uk", "d.e.f.g.co.uk", "e.f.g.co.uk", "f.g.co.uk", "g.co.uk", "co.uk"];
        let paths = ["/", "/1/", "/1/2/", "/1/2/3/", "/1/2/3/4/5/6.html", "/1/2/3/4/5/6.html?x"];
        let all: Vec<String> =
            hosts.iter().flat_map(|host| paths.iter().map(move |path| format!("{host}{path}"))).collect();
        assert_eq!(deep, all);
    }

    #[test]
    fn nested_escapes_are_decoded_in_linear_time() {
        let nested = format!("https://example.com/%{}41", "25".repeat(30_000));
        assert_eq!(CanonicalUrl::from_target(&target(&nested)).path, "/A");
    }
}
