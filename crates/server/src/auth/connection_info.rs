//! How a request came: over what, from which network, and under which names we are known there. `cookies` goes by it.

use std::net::SocketAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HOST, HeaderName};
use rlinks_core::host::is_loopback_host;

use crate::redirect::client_address;
use crate::redirect::settings::{ForwardedHeader, ReloadableSettings};

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What is known of our own doors before anybody comes.
#[derive(Clone, Debug, Default)]
pub struct SiteOrigin {
    /// Our listeners speak TLS.
    pub tls: bool,
    /// Sign-in over plain HTTP is wanted, beyond this machine.
    pub insecure_cookies: bool,
    /// Where the configuration says that we are reached.
    pub public_url: Option<String>,
}

/// Over what a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Encrypted, up to us or up to a proxy we trust.
    Https,
    /// In the clear, and never left this machine.
    Loopback,
    /// In the clear. Nobody signs in like this unless the operator said so.
    Plain,
}

/// How a request came.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    pub transport: Transport,
    /// The network it came from, as text; never the address.
    pub network: String,
    /// Origins that are ours.
    origins: Vec<String>,
    insecure_cookies: bool,
}

impl ConnectionInfo {
    /// Of a request. Only a proxy we trust may speak for somebody else.
    pub fn from_request(
        site: &SiteOrigin,
        settings: &ReloadableSettings,
        peer: SocketAddr,
        headers: &HeaderMap,
    ) -> Self {
        let peer = peer.ip().to_canonical();
        let address = client_address::address_of(peer, headers, settings);
        let is_proxy = client_address::is_trusted(peer, &settings.trusted_proxies);
        let said = is_proxy.then(|| forwarded_proto(headers, &settings.forwarded_header)).flatten();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = host.trim().to_ascii_lowercase();
        let https = said.map_or(site.tls, |scheme| scheme == Scheme::Https);
        let transport = if https {
            Transport::Https
        } else if address.is_loopback() && is_loopback_name(&host) {
            Transport::Loopback
        } else {
            Transport::Plain
        };
        let mut origins = vec![format!("{}://{host}", if https { "https" } else { "http" })];
        origins.extend(site.public_url.as_deref().and_then(origin_of));
        Self {
            transport,
            network: client_address::network_text(address),
            origins,
            insecure_cookies: site.insecure_cookies,
        }
    }

    /// Whether anybody may sign in like this.
    pub const fn allows_sign_in(&self) -> bool {
        !matches!((self.transport, self.insecure_cookies), (Transport::Plain, false))
    }

    /// Whether this is an origin of ours.
    pub fn is_own_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|own| own == origin)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// What the proxy next to us says that it was spoken to over: the last word of the header it writes.
fn forwarded_proto(headers: &HeaderMap, header: &ForwardedHeader) -> Option<Scheme> {
    let last = |name: HeaderName| {
        let line = headers.get_all(name).into_iter().next_back()?.to_str().ok()?;
        line.rsplit(',').next().map(str::trim)
    };
    let proto = if header.is_forwarded() {
        last(FORWARDED)?.split(';').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("proto").then(|| value.trim().trim_matches('"'))
        })?
    } else {
        last(X_FORWARDED_PROTO)?
    };
    Some(if proto.eq_ignore_ascii_case("https") { Scheme::Https } else { Scheme::Http })
}

/// A Host that leads to this machine itself.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    is_loopback_host(name)
}

fn origin_of(url: &str) -> Option<String> {
    let origin = url::Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{ConnectionInfo, ForwardedHeader, ReloadableSettings, SiteOrigin, Transport};

    fn connection(tls: bool, peer: &str, lines: &[(&'static str, &str)]) -> ConnectionInfo {
        connection_with(ForwardedHeader::default(), tls, peer, lines)
    }

    fn connection_with(
        forwarded_header: ForwardedHeader,
        tls: bool,
        peer: &str,
        lines: &[(&'static str, &str)],
    ) -> ConnectionInfo {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let site = SiteOrigin { tls, ..SiteOrigin::default() };
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let settings =
            ReloadableSettings { trusted_proxies, forwarded_header, ..ReloadableSettings::default() };
        ConnectionInfo::from_request(&site, &settings, peer.parse().unwrap(), &headers)
    }

    #[track_caller]
    fn check(tls: bool, peer: &str, lines: &[(&'static str, &str)], expected: Transport) {
        assert_eq!(connection(tls, peer, lines).transport, expected, "{peer} {lines:?}");
    }

    #[test]
    fn https_comes_from_tls_or_a_trusted_proxy() {
        check(true, "9.9.9.9:1", &[("host", "rmax.to")], Transport::Https);
        check(false, "9.9.9.9:1", &[("host", "rmax.to")], Transport::Plain);
        check(false, "9.9.9.9:1", &[("host", "rmax.to"), ("x-forwarded-proto", "https")], Transport::Plain);
        check(false, "10.0.0.1:1", &[("host", "rmax.to"), ("x-forwarded-proto", "https")], Transport::Https);
        check(
            false,
            "10.0.0.1:1",
            &[("host", "rmax.to"), ("x-forwarded-proto", "https, http")],
            Transport::Plain,
        );
        let lines =
            [("host", "rmax.to"), ("forwarded", "for=1.2.3.4;proto=https"), ("x-forwarded-proto", "http")];
        let standard = ForwardedHeader::new(http::header::FORWARDED);
        assert_eq!(connection_with(standard, false, "10.0.0.1:1", &lines).transport, Transport::Https);
        check(false, "10.0.0.1:1", &lines, Transport::Plain);
        // A proxy that was spoken to in the clear and speaks TLS to us has still let the cookie out.
        check(true, "10.0.0.1:1", &[("host", "rmax.to"), ("x-forwarded-proto", "http")], Transport::Plain);
    }

    #[test]
    fn loopback_needs_a_local_peer_and_a_local_host() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "app.localhost"] {
            check(false, "127.0.0.1:1", &[("host", host)], Transport::Loopback);
            check(false, "9.9.9.9:1", &[("host", host)], Transport::Plain);
        }
        check(false, "127.0.0.1:1", &[("host", "rmax.to")], Transport::Plain);
        check(false, "127.0.0.1:1", &[("host", "localhost.example.com")], Transport::Plain);
    }

    #[test]
    fn networks_and_origins_follow_the_connection() {
        let https = connection(true, "203.0.113.77:1", &[("host", "RMAX.to")]);
        assert_eq!(https.network, "203.0.113.0/24");
        assert!(
            https.is_own_origin("https://rmax.to")
                && !https.is_own_origin("http://rmax.to")
                && !https.is_own_origin("null")
        );
        let plain = connection(false, "[2001:db8:1:2::3]:1", &[("host", "rmax.to")]);
        assert_eq!(plain.network, "2001:db8:1::/48");
        assert!(!plain.allows_sign_in() && https.allows_sign_in());
    }
}
