//! What SIGHUP may change of the redirect path.

use http::HeaderName;
use ipnet::IpNet;

/// What SIGHUP may change without a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadableSettings {
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which a trusted proxy names the visitor's country.
    pub country_header: Option<HeaderName>,
    /// Whom to tell that a link leads to something bad.
    pub contact: Option<String>,
}
