//! What a server is told. Where each value comes from (flags, variables, file, defaults) is the command line's business.

use std::net::SocketAddr;
use std::path::PathBuf;

use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::Host;

use crate::auth::oidc::OidcSettings;
pub use crate::redirect::connection_limits::ConnectionSettings;
pub use crate::redirect::settings::{ForwardedHeader, ReloadableSettings};
pub use crate::redirect::tls::TlsFiles;
use rlinks_ops::audit_push::PushDestination;
use rlinks_ops::{ResourceLimits, ShortUrls, domain_checks, safety};
use rlinks_store::audit::signing_key::SigningKeySource;

#[derive(Clone, Debug)]
pub struct Config {
    /// Where redirects are served.
    pub listen: SocketAddr,
    /// Where everything that is not for the public is served instead; the public listener then serves redirects and health only.
    pub control_listen: Option<SocketAddr>,
    /// Without it the public listener serves redirects and health only.
    pub serve_admin: bool,
    /// People may sign in over plain HTTP from other machines than this one.
    pub insecure_cookies: bool,
    pub threads: usize,
    /// What the route table may take of memory.
    pub cache_bytes: usize,
    /// How links are shown.
    pub short_urls: ShortUrls,
    /// The host short URLs begin with where there is no domain.
    pub own_host: Option<Host>,
    /// Certificate and key; without them the listener speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// For how long browsers that came over TLS use nothing else (`Strict-Transport-Security`); 0 leaves it to them.
    pub hsts_seconds: u32,
    /// The data folder: the lock of the one server, the log of signed audit heads, the click journal.
    pub data: PathBuf,
    /// Where the key is that signs audit heads.
    pub audit_key: SigningKeySource,
    /// Where signed audit heads are sent.
    pub audit_push: AuditPushSettings,
    /// What the click journal may take on the disk.
    pub journal_bytes: u64,
    /// When the click journal is synced.
    pub journal_sync: SyncPolicy,
    /// A file of places in `MaxMind`'s format.
    pub geoip: Option<PathBuf>,
    /// Where raw clicks go before they are pruned.
    pub archive: Option<Archive>,
    /// The OpenID provider people may sign in with.
    pub oidc: Option<OidcSettings>,
    /// Who is asked whether a target is safe.
    pub safety: safety::SafetyConfig,
    /// What is asked about hosts, and whether they must be proven.
    pub domain_checks: domain_checks::DomainCheckConfig,
    /// How many existing links one principal may point elsewhere in a minute, and a workspace ten times as many; 0 is no limit.
    pub target_changes_per_minute: u32,
    /// How many they may disable or delete.
    pub removals_per_minute: u32,
    /// How many keys, hosts and the like one member may have.
    pub resource_limits: ResourceLimits,
    /// How many connections there may be.
    pub connections: ConnectionSettings,
    /// What a reload may change.
    pub reloadable: ReloadableSettings,
}

/// A folder or an object store, and the `AWS_` variables to reach it by.
#[derive(Clone)]
pub struct Archive {
    /// As it was configured.
    pub destination: String,
    /// The variables; they hold secrets.
    pub options: Vec<(String, String)>,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Archive").field("place", &self.destination).finish_non_exhaustive()
    }
}

/// Where signed audit heads are sent, and the `AWS_` variables to reach buckets by.
#[derive(Clone, Default)]
pub struct AuditPushSettings {
    pub destinations: Vec<PushDestination>,
    /// The variables; they hold secrets.
    pub options: Vec<(String, String)>,
}

impl std::fmt::Debug for AuditPushSettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.destinations.iter().map(PushDestination::describe)).finish()
    }
}

/// Reads the configuration again, for SIGHUP. An error keeps what is in force.
pub type Reload = Box<dyn Fn() -> Result<ReloadableSettings, String> + Send + Sync>;
