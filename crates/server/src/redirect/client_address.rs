//! Who is asking: the socket's address, or, behind a trusted proxy, the right-most address nobody we trust has written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use super::settings::{ForwardedHeader, ReloadableSettings};

/// Longer chains are not read to their end.
const MAX_HOPS: usize = 32;

/// The client's address. The forwarding header counts only from a trusted peer, and an unreadable hop ends the walk at the last
/// readable one.
pub fn address(peer: IpAddr, forwarded: &ForwardedLines<'_>, trusted: &[IpNet]) -> IpAddr {
    let peer = canonical(peer);
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let mut last = peer;
    for hop in forwarded.hops().into_iter().rev().take(MAX_HOPS) {
        let Some(address) = hop else { return last };
        if !is_trusted(address, trusted) {
            return address;
        }
        last = address;
    }
    last
}

/// The same for a request whose headers hyper has parsed.
pub fn address_of(peer: IpAddr, headers: &HeaderMap, settings: &ReloadableSettings) -> IpAddr {
    address(
        peer,
        &ForwardedLines::from_headers(headers, &settings.forwarded_header),
        &settings.trusted_proxies,
    )
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

/// The same as text, with its length: what may be logged and kept of a client.
pub fn network_text(address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 24 } else { 48 };
    format!("{}/{bits}", network(address))
}

/// The wider network of an IPv6 address that one customer of a provider may have many of: a /32.
pub fn wide_network(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => {
            let [a, b, ..] = v6.segments();
            Some(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0).into())
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

/// The lines of the forwarding header, in the order they came.
pub struct ForwardedLines<'a> {
    header: &'a ForwardedHeader,
    lines: Vec<&'a [u8]>,
}

impl<'a> ForwardedLines<'a> {
    pub fn new(header: &'a ForwardedHeader, lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self { header, lines: lines.into_iter().collect() }
    }

    pub fn from_headers(headers: &'a HeaderMap, header: &'a ForwardedHeader) -> Self {
        Self::new(header, headers.get_all(header.name()).into_iter().map(HeaderValue::as_bytes))
    }

    /// The hops in the order they were written.
    fn hops(&self) -> Vec<Option<IpAddr>> {
        let lines = self.lines.iter().map(|line| std::str::from_utf8(line).unwrap_or("?"));
        let elements = lines.flat_map(|line| line.split(','));
        if self.header.is_forwarded() {
            elements.map(|element| element.split(';').find_map(for_parameter).and_then(hop)).collect()
        } else {
            elements.map(hop).collect()
        }
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

    use super::{ForwardedHeader, ForwardedLines, address, network, wide_network};

    #[track_caller]
    fn check(peer: &str, lines: &[(&'static str, &str)], expected: &str) {
        check_with("x-forwarded-for", peer, lines, expected);
    }

    /// The same where the client is named in another header.
    #[track_caller]
    fn check_with(header: &'static str, peer: &str, lines: &[(&'static str, &str)], expected: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let trusted =
            ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let header = ForwardedHeader::new(http::HeaderName::from_static(header));
        assert_eq!(
            address(peer.parse().unwrap(), &ForwardedLines::from_headers(&headers, &header), &trusted),
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
        let standard = ("forwarded", "for=6.6.6.6, for=\"[2001:db8::7]:443\";proto=https");
        check_with("forwarded", "127.0.0.1", &[standard], "2001:db8::7");
        check("::ffff:127.0.0.1", &[("x-forwarded-for", "::ffff:1.2.3.4")], "1.2.3.4");
        let long = vec!["10.0.0.1"; 10_000].join(", ");
        check("127.0.0.1", &[("x-forwarded-for", &format!("1.2.3.4, {long}"))], "10.0.0.1");
    }

    #[test]
    fn only_the_configured_header_is_read() {
        let both = [("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=5.5.5.5"), ("x-real-ip", "4.4.4.4")];
        check_with("x-forwarded-for", "127.0.0.1", &both, "6.6.6.6");
        check_with("forwarded", "127.0.0.1", &both, "5.5.5.5");
        check_with("x-real-ip", "127.0.0.1", &both, "4.4.4.4");
        check_with("forwarded", "127.0.0.1", &both[..1], "127.0.0.1");
        check_with("x-forwarded-for", "127.0.0.1", &both[1..], "127.0.0.1");
    }

    #[test]
    fn addresses_are_grouped_by_network_for_limits() {
        let wide = |text: &str| wide_network(text.parse().unwrap()).map(|net| net.to_string());
        assert_eq!((wide("203.0.113.77"), wide("2001:db8:1:2::3")), (None, Some("2001:db8::".to_owned())));
        let net = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(net("203.0.113.77"), "203.0.113.0");
        assert_eq!(net("2001:db8:1:2::3"), "2001:db8:1::");
    }
}
