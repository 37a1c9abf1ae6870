//! Hosts: normalised names, so that two spellings of one host are one value.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldCode, FieldError};

/// A host: lower case, punycode, no trailing dot, no port. IPv6 keeps its brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Host(String);

/// The longest host name DNS knows.
pub const MAX_HOST_BYTES: usize = 253;

impl Host {
    /// A host as a person writes it.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let refuse = |message: &str| Err(FieldError::new("host", FieldCode::BadHost, message));
        if text.is_empty() {
            return Err(FieldError::new("host", FieldCode::Required, "is empty; give a name like rmax.to"));
        }
        if text.len() > 1024 {
            return refuse("is too long");
        }
        if text.contains("://") || text.contains('/') {
            return refuse("is a URL; give the host alone, like rmax.to");
        }
        if text.chars().any(|letter| letter.is_whitespace() || letter.is_control() || is_invisible(letter)) {
            return refuse("has spaces, control or invisible characters");
        }
        if text.contains(['@', '%', '\\', '?', '#']) {
            return refuse("has characters no host name has");
        }
        if !text.starts_with('[') && text.contains(':') {
            return refuse("has a port; give the host alone, a code answers on every port");
        }
        let Ok(host) = url::Host::parse(text).map(without_mapping) else {
            return refuse("is not a host name");
        };
        if matches!(host, url::Host::Ipv4(_)) && host.to_string() != text {
            return refuse("reads as a number; write an address with all its four parts");
        }
        let host = host.to_string();
        if !host.starts_with('[') && !host.bytes().all(is_name_byte) {
            return refuse("may have letters, digits, hyphens and dots; there are no wildcards");
        }
        let host = host.strip_suffix('.').unwrap_or(&host);
        if !is_plausible(host) {
            return refuse("is not a host name: a label is empty, too long, or begins or ends with a hyphen");
        }
        Ok(Self(host.to_owned()))
    }

    /// A host as the store keeps it.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An address, or a name every machine has for itself: nobody's in DNS.
    pub fn is_local(&self) -> bool {
        let name = self.as_str();
        name.starts_with('[')
            || name.parse::<Ipv4Addr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
    }

    /// What stands before `.{base}`.
    pub fn subdomain_of(&self, base: &Self) -> Option<&str> {
        subdomain_of(self.as_str(), base.as_str())
    }
}

/// Whether a host, in lower case and without a port, is this machine itself. Brackets of IPv6 don't matter, and an IPv4 address inside of
/// IPv6 is what it holds.
pub fn is_loopback_host(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn subdomain_of<'a>(host: &'a str, base: &str) -> Option<&'a str> {
    host.strip_suffix(base)?.strip_suffix('.')
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Letters that leave no mark: they make two hosts look like one.
pub(crate) fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a serialised host could stand in DNS, or is an address.
pub(crate) fn is_plausible(host: &str) -> bool {
    if host.starts_with('[') {
        return true;
    }
    !host.is_empty()
        && host.len() <= MAX_HOST_BYTES
        && host
            .split('.')
            .all(|label| (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-'))
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Each byte a name may have as a small letter, and 0 for all others: every request's host goes through here.
const LOWERCASE_NAME_BYTES: [u8; 256] = {
    let mut small = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        if is_name_byte(byte) {
            small[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    small
};

/// Room for the longest host on the stack of a request.
pub type HostBuffer = [u8; MAX_HOST_BYTES];

/// A `Host` header as a normalised name, written into `buffer`: lower case, without port and trailing dot.
///
/// Nothing when it is no host: empty, too long, a port that is no port, or characters no host has. Unicode is refused here:
/// browsers send punycode.
pub fn from_header<'a>(header: &[u8], buffer: &'a mut HostBuffer) -> Option<&'a str> {
    if header.starts_with(b"[") {
        return ipv6_literal(header, buffer);
    }
    let (mut length, mut before) = (0, b'.');
    for (slot, &byte) in buffer.iter_mut().zip(header) {
        let small = LOWERCASE_NAME_BYTES[usize::from(byte)];
        if small == 0 {
            break;
        }
        if small == b'.' && before == b'.' {
            return None;
        }
        before = small;
        *slot = small;
        length += 1;
    }
    let mut rest = &header[length..];
    if before == b'.' {
        length = length.checked_sub(1)?;
    } else if length == MAX_HOST_BYTES {
        rest = rest.strip_prefix(b".").unwrap_or(rest);
    }
    if !is_port(rest) {
        return None;
    }
    std::str::from_utf8(&buffer[..length]).ok()
}

/// `[::ffff:192.0.2.1]` is 192.0.2.1.
fn without_mapping<S>(host: url::Host<S>) -> url::Host<S> {
    match host {
        url::Host::Ipv6(address) => {
            address.to_ipv4_mapped().map_or(url::Host::Ipv6(address), url::Host::Ipv4)
        }
        other => other,
    }
}

/// One address has many spellings; `[0:0::1]` is `[::1]`.
fn ipv6_literal<'a>(header: &[u8], buffer: &'a mut HostBuffer) -> Option<&'a str> {
    let end = header.iter().position(|&byte| byte == b']')?;
    let address: Ipv6Addr = std::str::from_utf8(&header[1..end]).ok()?.parse().ok()?;
    if !is_port(&header[end + 1..]) {
        return None;
    }
    let text = without_mapping(url::Host::<String>::Ipv6(address)).to_string();
    let slot = buffer.get_mut(..text.len())?;
    slot.copy_from_slice(text.as_bytes());
    std::str::from_utf8(slot).ok()
}

/// Whether what follows a name is nothing, or a colon and a port, which may be left out.
fn is_port(rest: &[u8]) -> bool {
    let Some((colon, port)) = rest.split_first() else { return true };
    let number = port.iter().try_fold(0_u32, |number, byte| {
        byte.is_ascii_digit().then(|| number.saturating_mul(10) + u32::from(byte - b'0'))
    });
    *colon == b':' && port.len() <= 5 && number.is_some_and(|number| number <= 65_535)
}

/// The hosts a link must not lead back to. Cheap to clone: what counts for every workspace is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedHosts {
    shared: Arc<SharedHosts>,
    workspace_hosts: HashSet<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SharedHosts {
    hosts: HashSet<String>,
    base: Option<String>,
}

impl ServedHosts {
    /// The configured domains, and the base domain under which every workspace has a name of its own.
    pub fn new(hosts: impl IntoIterator<Item = Host>, base: Option<&Host>) -> Self {
        let hosts = hosts.into_iter().map(|host| host.0).collect();
        let base = base.map(|host| host.as_str().to_owned());
        Self { shared: Arc::new(SharedHosts { hosts, base }), workspace_hosts: HashSet::new() }
    }

    /// The same, and more hosts that count for one workspace alone.
    #[must_use]
    pub fn with_workspace_hosts(&self, hosts: impl IntoIterator<Item = Host>) -> Self {
        let own = self.workspace_hosts.iter().cloned().chain(hosts.into_iter().map(|host| host.0)).collect();
        Self { shared: Arc::clone(&self.shared), workspace_hosts: own }
    }

    /// Whether a normalised host is one of ours.
    pub fn contains(&self, host: &str) -> bool {
        let SharedHosts { hosts, base } = &*self.shared;
        hosts.contains(host)
            || self.workspace_hosts.contains(host)
            || base.as_deref().is_some_and(|base| {
                host == base || subdomain_of(host, base).is_some_and(|slug| !slug.contains('.'))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Host, HostBuffer, ServedHosts, from_header};

    #[track_caller]
    fn header(text: &str) -> Option<String> {
        let mut buffer: HostBuffer = [0; super::MAX_HOST_BYTES];
        from_header(text.as_bytes(), &mut buffer).map(str::to_owned)
    }

    #[test]
    fn spellings_of_one_host_are_equal() {
        for text in ["rmax.to", "RMAX.to", "rmax.to.", "ｒｍａｘ.to", "rmax。to"] {
            assert_eq!(Host::parse(text).map(|host| host.to_string()), Ok("rmax.to".to_owned()), "{text}");
        }
        assert_eq!(Host::parse("bücher.example").unwrap().as_str(), "xn--bcher-kva.example");
        assert_eq!(Host::parse("[::1]").unwrap().as_str(), "[::1]");
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        for text in [
            "",
            " ",
            "a b",
            "https://rmax.to",
            "rmax.to/x",
            "rmax.to:80",
            "a..b",
            "-a.com",
            "a-.com",
            "a@b",
            "a%41",
            "exa\u{ad}mple.com",
            "*.x.example",
            "1.2.3",
            "0x7f.1",
            "a!b.example",
            "\u{202e}a.com",
        ] {
            assert!(Host::parse(text).is_err(), "{text:?}");
        }
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert!(Host::parse(&format!("{}com", "a.".repeat(140))).is_err());
    }

    #[test]
    fn host_header_loses_port_case_and_trailing_dot() {
        assert_eq!(header("RMAX.to:8080").as_deref(), Some("rmax.to"));
        assert_eq!(header("rmax.to.").as_deref(), Some("rmax.to"));
        assert_eq!(header("rmax.to.:80").as_deref(), Some("rmax.to"));
        assert_eq!(header("[::1]:80").as_deref(), Some("[::1]"));
        assert_eq!(header("[::1]").as_deref(), Some("[::1]"));
        assert_eq!(header("[0:0::1]:80").as_deref(), Some("[::1]"));
        assert_eq!(header("[2001:DB8::1]").as_deref(), Some("[2001:db8::1]"));
        assert_eq!(header("127.0.0.1:8080").as_deref(), Some("127.0.0.1"));
        assert_eq!(header("[::ffff:7f00:1]:8080").as_deref(), Some("127.0.0.1"));
        assert_eq!(header("rmax.to:").as_deref(), Some("rmax.to"));
        let longest = "a".repeat(253);
        assert_eq!(header(&format!("{longest}.:80")), Some(longest));
    }

    #[test]
    fn invalid_host_header_is_ignored() {
        for text in [
            "",
            ":80",
            "good:99999",
            "good:8a",
            "a b",
            "a/b",
            "a@b",
            "ä.com",
            "[::1",
            "[::1]x:80",
            "good:1:2",
            ".",
            "..",
            "a..",
            "a..b",
            ".a",
            "[x]",
        ] {
            assert_eq!(header(text), None, "{text:?}");
        }
        assert_eq!(header(&"a".repeat(254)), None);
    }

    #[test]
    fn base_domain_serves_one_label_below_it() {
        let domains =
            ServedHosts::new([Host::parse("rmax.to").unwrap()], Some(&Host::parse("links.example").unwrap()));
        for ours in ["rmax.to", "links.example", "team.links.example"] {
            assert!(domains.contains(ours), "{ours}");
        }
        for theirs in ["example", "a.b.links.example", "xlinks.example", "www.rmax.to", ""] {
            assert!(!domains.contains(theirs), "{theirs}");
        }
    }

    #[test]
    fn host_of_a_workspace_is_served_for_that_workspace_only() {
        let all = ServedHosts::new([Host::parse("rmax.to").unwrap()], None);
        let one = all.with_workspace_hosts([Host::parse("go.example").unwrap()]);
        assert!(one.contains("go.example") && one.contains("rmax.to"));
        assert!(!all.contains("go.example"));
    }

    #[test]
    fn addresses_and_localhost_are_local() {
        for text in ["127.0.0.1", "203.0.113.9", "[::1]", "localhost", "LOCALHOST.", "a.localhost"] {
            assert!(Host::parse(text).unwrap().is_local(), "{text}");
        }
        for text in ["rmax.to", "localhost.example", "notlocalhost", "1.2.3.4.example"] {
            assert!(!Host::parse(text).unwrap().is_local(), "{text}");
        }
    }
}
