//! Who is asking: the socket's address, or, behind a trusted proxy, the right-most address nobody we trust has written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Longer chains are not read to their end.
const MAX_HOPS: usize = 32;

/// The client's address. Forwarding headers count only from a trusted peer, and an unreadable hop ends the walk at the last
/// readable one.
pub fn address(peer: IpAddr, headers: &ForwardedHeaders<'_>, trusted: &[IpNet]) -> IpAddr {
    let peer = canonical(peer);
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let mut last = peer;
    for hop in headers.hops().into_iter().rev().take(MAX_HOPS) {
        let Some(address) = hop else { return last };
        if !is_trusted(address, trusted) {
            return address;
        }
        last = address;
    }
    last
}

/// The network an address belongs to for limits: IPv4 /24, IPv6 /48.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
        }
    }
}

/// Whether a peer's forwarding headers are believed.
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address))
}

// `::ffff:1.2.3.4` is 1.2.3.4.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The header lines proxies write, in the order they came.
#[derive(Default)]
pub struct ForwardedHeaders<'a> {
    pub forwarded_for: Vec<&'a [u8]>,
    pub forwarded: Vec<&'a [u8]>,
}

impl<'a> ForwardedHeaders<'a> {
    pub fn from_headers(headers: &'a HeaderMap) -> Self {
        let lines = |name: HeaderName| headers.get_all(name).into_iter().map(HeaderValue::as_bytes).collect();
        Self { forwarded_for: lines(X_FORWARDED_FOR), forwarded: lines(FORWARDED) }
    }

    /// The hops in the order they were written: `X-Forwarded-For` where there is one, else `Forwarded`.
    fn hops(&self) -> Vec<Option<IpAddr>> {
        let text = |line: &&'a [u8]| std::str::from_utf8(line).unwrap_or("?");
        if !self.forwarded_for.is_empty() {
            return self.forwarded_for.iter().map(text).flat_map(|line| line.split(',')).map(hop).collect();
        }
        let elements = self.forwarded.iter().map(text).flat_map(|line| line.split(','));
        elements.map(|element| element.split(';').find_map(for_parameter).and_then(hop)).collect()
    }
}

fn for_parameter(pair: &str) -> Option<&str> {
    let (name, value) = pair.split_once('=')?;
    name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
}

/// An address with or without a port and brackets; anything else is nothing.
fn hop(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port_is_fine =
            port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        return if port_is_fine { address.parse().ok().map(canonical) } else { None };
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(canonical(address));
    }
    let (address, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    address.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use http::HeaderMap;

    use super::{ForwardedHeaders, address, network};

    #[track_caller]
    fn check(peer: &str, lines: &[(&'static str, &str)], expected: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let trusted =
            ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        assert_eq!(
            address(peer.parse().unwrap(), &ForwardedHeaders::from_headers(&headers), &trusted),
            expected.parse::<IpAddr>().unwrap(),
            "{lines:?}"
        );
    }

    /// Hostile inputs, S9.
    #[test]
    fn forwarding_headers_count_only_from_trusted_peers() {
        check("9.9.9.9", &[("x-forwarded-for", "1.2.3.4")], "9.9.9.9");
        check("9.9.9.9", &[("forwarded", "for=1.2.3.4"), ("cf-connecting-ip", "1.2.3.4")], "9.9.9.9");
        check("127.0.0.1", &[], "127.0.0.1");
        check("127.0.0.1", &[("x-forwarded-for", "6.6.6.6, 5.5.5.5")], "5.5.5.5");
        check("127.0.0.1", &[("x-forwarded-for", "6.6.6.6, 5.5.5.5, 10.1.1.1")], "5.5.5.5");
        check("127.0.0.1", &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "5.5.5.5")], "5.5.5.5");
        check("127.0.0.1", &[("x-forwarded-for", "unknown, [::2]:80, 1.2.3.4:99")], "1.2.3.4");
        check("127.0.0.1", &[("x-forwarded-for", "1.2.3.4, [2001:db8::1]:80")], "2001:db8::1");
        check("127.0.0.1", &[("x-forwarded-for", "1.2.3.4, garbage")], "127.0.0.1");
        check("127.0.0.1", &[("x-forwarded-for", "1.2.3.4, garbage, 10.0.0.7")], "10.0.0.7");
        check(
            "127.0.0.1",
            &[("forwarded", "for=6.6.6.6, for=\"[2001:db8::7]:443\";proto=https")],
            "2001:db8::7",
        );
        check("::ffff:127.0.0.1", &[("x-forwarded-for", "::ffff:1.2.3.4")], "1.2.3.4");
        let long = vec!["10.0.0.1"; 10_000].join(", ");
        check("127.0.0.1", &[("x-forwarded-for", &format!("1.2.3.4, {long}"))], "10.0.0.1");
    }

    #[test]
    fn addresses_are_grouped_by_network_for_limits() {
        let net = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(net("203.0.113.77"), "203.0.113.0");
        assert_eq!(net("2001:db8:1:2::3"), "2001:db8:1::");
    }
}
