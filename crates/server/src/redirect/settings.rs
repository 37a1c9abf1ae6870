//! What SIGHUP may change of the redirect path.

use http::HeaderName;
use http::header::FORWARDED;
use ipnet::IpNet;

/// What SIGHUP may change without a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadableSettings {
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they name the client.
    pub forwarded_header: ForwardedHeader,
    /// The header in which a trusted proxy names the visitor's country.
    pub country_header: Option<HeaderName>,
    /// Whether a client on this machine sees `/metrics` on a listener that serves redirects too.
    pub metrics_loopback: bool,
    /// Whom to tell that a link leads to something bad.
    pub contact: Option<String>,
}

/// The one header in which trusted proxies name the client; all others are the client's own word. `Forwarded` is read as RFC 7239 has it, any
/// other as a list of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedHeader(HeaderName);

impl ForwardedHeader {
    pub const fn new(name: HeaderName) -> Self {
        Self(name)
    }

    pub const fn name(&self) -> &HeaderName {
        &self.0
    }

    /// Whether it is the standard's header, which names the scheme too.
    pub fn is_forwarded(&self) -> bool {
        self.0 == FORWARDED
    }
}

impl Default for ForwardedHeader {
    fn default() -> Self {
        Self(HeaderName::from_static("x-forwarded-for"))
    }
}
