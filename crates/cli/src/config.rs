//! What is configured: flags, then variables, then the file, then defaults; and where each value came from.
//!
//! [`layers`] collects what was given, [`Config::load`] gives it a meaning. A key nobody knows is an error with a suggestion, so
//! that a slip of the pen never means a default.

mod audit;
mod domain_checks;
mod layers;
mod oidc;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use http::HeaderName;
use ipnet::IpNet;
use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::Host;
use rlinks_core::id::WorkerId;
use rlinks_ops::audit_push::PushDestination;
use rlinks_ops::safety::{self, WhenUnavailable, safe_browsing};
use rlinks_ops::{ResourceLimits, ShortUrls};
use rlinks_server::auth::oidc::OidcSettings;
use rlinks_server::{ConnectionSettings, ForwardedHeader, ReloadableSettings, TlsFiles};
use rlinks_store::Location;
use rlinks_store::audit::signing_key::{SigningKey, SigningKeySource};
use tracing::level_filters::LevelFilter;
use url::Url;

use self::layers::{Layers, Origin, Setting};
use crate::args::{Global, Serve};
use crate::environment::Environment;
use crate::error::CliError;

/// Thirty days: long enough to matter, short enough to take back.
const DEFAULT_HSTS_SECONDS: u32 = 30 * 24 * 3600;
const PRODUCTION_ENV: &str = "production";

/// What is in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The name of the environment.
    pub(crate) env: String,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// What the command line talks to.
    pub(crate) backend: BackendConfig,
    /// Keys, locks and logs; on SQLite the store too.
    pub(crate) data: PathBuf,
    /// Whether the API key may travel in the clear.
    pub(crate) plain_http: PlainHttp,
    /// The workspace commands are about.
    pub(crate) workspace: String,
    /// Somebody named that workspace, rather than leaving it at the default.
    pub(crate) workspace_named: bool,
    /// The first domain of workspace `main`.
    pub(crate) domain: Option<Host>,
    /// Every workspace answers on `{slug}.{base_domain}`.
    pub(crate) base_domain: Option<Host>,
    /// The scheme of short URLs.
    pub(crate) public_scheme: String,
    /// How short URLs begin where there is no domain.
    pub(crate) public_url: Option<String>,
    /// Who is at the terminal.
    pub(crate) identity: Option<String>,
    pub(crate) listen: SocketAddr,
    /// Where to serve what is not for the public.
    pub(crate) control_listen: Option<SocketAddr>,
    /// Serve what is not for the public at all.
    pub(crate) serve_admin: bool,
    /// Let people sign in over plain HTTP from other machines.
    pub(crate) insecure_cookies: bool,
    pub(crate) threads: usize,
    pub(crate) connections: ConnectionSettings,
    /// What the route table may take of memory.
    pub(crate) cache_bytes: usize,
    /// What a running server may take over when this is read again.
    pub(crate) reloadable: ReloadableSettings,
    /// A file of places.
    pub(crate) geoip: Option<PathBuf>,
    /// What the click journal may take on the disk.
    pub(crate) journal_bytes: u64,
    /// When it is synced.
    pub(crate) journal_sync: SyncPolicy,
    /// Where raw clicks go before they are pruned.
    pub(crate) archive: Option<String>,
    /// Where the key is that signs audit heads and backups.
    pub(crate) audit_key: SigningKeySource,
    /// Where signed audit heads are sent.
    pub(crate) audit_push: Vec<PushDestination>,
    /// Who is asked whether a target is safe.
    pub(crate) safety: safety::SafetyConfig,
    /// What is asked about hosts, and whether they must be proven.
    pub(crate) domain_checks: rlinks_ops::domain_checks::DomainCheckConfig,
    /// How many existing links one principal may point elsewhere in a minute.
    pub(crate) target_changes_per_minute: u32,
    /// How many they may disable or delete.
    pub(crate) removals_per_minute: u32,
    /// How many keys, hosts and the like one member may have.
    pub(crate) resource_limits: ResourceLimits,
    /// Which id maker this process is.
    pub(crate) worker: Option<WorkerId>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) hsts_seconds: u32,
    /// The OpenID provider people may sign in with.
    pub(crate) oidc: Option<OidcSettings>,
    pub(crate) log: Log,
    /// Every value and where it came from.
    pub(crate) effective: Vec<EffectiveSetting>,
}

/// What to do where a server's address on another machine is plain http.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    Refuse,
    Allow,
}

/// What the command line talks to: an outside system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackendConfig {
    /// A store this process opens itself.
    Store(Location),
    /// A running server, by its REST API.
    Server(Url),
    /// Cloudflare's key-value storage, by Cloudflare's API.
    Cloudflare(KvNamespaces),
}

/// Where links and hits are kept at Cloudflare. The token is no part of it: it is read where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KvNamespaces {
    pub(crate) account_id: String,
    /// The namespace of `route:` and `tombstone:`.
    pub(crate) routes: String,
    /// The namespace of `hit:`.
    pub(crate) hits: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    /// How much; the command decides when nobody says.
    pub(crate) level: Option<LevelFilter>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// One value in force, without its secrets.
#[derive(Clone, Debug)]
pub(crate) struct EffectiveSetting {
    pub(crate) key: &'static str,
    pub(crate) value: serde_json::Value,
    pub(crate) from: String,
}

impl Config {
    /// Reads everything that was given and says what it means.
    pub(crate) fn load(
        global: &Global,
        serve: Option<&Serve>,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let mut layers = Layers::collect(global, serve, environment)?;
        let data = data_folder(&mut layers)?;
        let backend = backend(&mut layers, &data)?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cache_mb = layers.number("cache_mb", 1..=1_048_576)?.unwrap_or(512);
        layers.show_default("cache_mb", 512);
        let journal_mb = layers.number("journal_mb", 1..=1_048_576)?.unwrap_or(1024);
        layers.show_default("journal_mb", 1024);
        let changes = layers.number("limits.target_changes_per_minute", 0..=1_000_000)?.unwrap_or(100);
        layers.show_default("limits.target_changes_per_minute", 100);
        let removals = layers.number("limits.removals_per_minute", 0..=1_000_000)?.unwrap_or(1000);
        layers.show_default("limits.removals_per_minute", 1000);
        layers.show_default("tls.hsts", DEFAULT_HSTS_SECONDS);
        Ok(Self {
            backend,
            data,
            domain: layers.parsed("domain", host)?,
            base_domain: layers.parsed("base_domain", host)?,
            public_scheme: layers.parsed("public_scheme", scheme)?.unwrap_or_else(|| "https".to_owned()),
            public_url: layers.parsed("public_url", public_url)?,
            identity: layers.parsed("identity", |text| Ok(text.to_owned()))?,
            listen: layers.parsed("listen", address)?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080))),
            control_listen: layers.parsed("control_listen", address)?,
            serve_admin: layers.boolean("serve_admin")?.unwrap_or(true),
            insecure_cookies: layers.boolean("insecure_cookies")?.unwrap_or(false),
            threads: layers
                .number("threads", 1..=1024)?
                .map_or(threads, |n| usize::try_from(n).unwrap_or(threads)),
            connections: connections(&mut layers)?,
            cache_bytes: usize::try_from(cache_mb).unwrap_or(usize::MAX).saturating_mul(1024 * 1024),
            reloadable: ReloadableSettings {
                trusted_proxies: layers.list("trusted_proxies", network)?,
                forwarded_header: layers
                    .parsed("forwarded_header", header)?
                    .map_or_else(ForwardedHeader::default, ForwardedHeader::new),
                country_header: layers.parsed("country_header", header)?,
                metrics_loopback: layers.boolean("metrics_loopback")?.unwrap_or(false),
                contact: layers.parsed("safety.contact", contact)?,
            },
            geoip: layers.parsed("geoip_path", |text| Ok(PathBuf::from(text)))?,
            journal_bytes: u64::try_from(journal_mb).unwrap_or(1024) << 20,
            journal_sync: layers.parsed("journal_sync", syncing)?.unwrap_or_default(),
            archive: layers.parsed("retention.archive", |text| Ok(text.to_owned()))?,
            audit_key: audit::key(&mut layers)?,
            audit_push: audit::push(&mut layers)?,
            safety: safety(&mut layers)?,
            domain_checks: domain_checks::options(&mut layers)?,
            target_changes_per_minute: u32::try_from(changes).unwrap_or(100),
            removals_per_minute: u32::try_from(removals).unwrap_or(1000),
            resource_limits: resource_limits(&mut layers)?,
            worker: layers
                .number("worker_id", 0..=1023)?
                .and_then(|number| WorkerId::new(u16::try_from(number).ok()?)),
            tls: tls(&mut layers)?,
            hsts_seconds: layers
                .number("tls.hsts", 0..=i64::from(u32::MAX))?
                .map_or(DEFAULT_HSTS_SECONDS, |seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
            oidc: oidc::settings(&mut layers)?,
            log: Log {
                format: layers.parsed("log.format", log_format)?.unwrap_or_default(),
                level: layers.parsed("log.level", log_level)?,
            },
            plain_http: if global.insecure { PlainHttp::Allow } else { PlainHttp::Refuse },
            env: layers.env.clone(),
            file: layers.file.clone(),
            workspace: layers.workspace.clone().unwrap_or_else(|| rlinks_core::Slug::MAIN.to_owned()),
            workspace_named: layers.workspace.is_some(),
            effective: layers.into_effective(threads),
        })
    }

    /// What signs audit heads and backups.
    pub(crate) fn signing_key(&self) -> SigningKey {
        SigningKey::new(&self.data, self.audit_key.clone())
    }

    /// How links are shown.
    pub(crate) fn short_urls(&self) -> ShortUrls {
        ShortUrls {
            domain: self.domain.clone(),
            base_domain: self.base_domain.clone(),
            public_scheme: self.public_scheme.clone(),
            public_url: self.public_url.clone(),
            listen: self.listen,
            tls: self.tls.is_some(),
        }
    }

    /// The host short URLs begin with where there is no domain.
    pub(crate) fn own_host(&self) -> Option<Host> {
        let public = self.public_url.as_deref().and_then(|url| url::Url::parse(url).ok());
        let public = public.and_then(|url| Host::parse(url.host_str()?).ok());
        let listen = || {
            Host::parse(&match self.listen.ip() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            })
        };
        public.or_else(|| listen().ok())
    }

    /// The settings that differ and that a running server cannot take over.
    pub(crate) fn changes_needing_restart(&self, fresh: &Self) -> Vec<&'static str> {
        /// What a reload takes over, and what only commands read.
        const NO_RESTART_KEYS: [&str; 8] = [
            "trusted_proxies",
            "forwarded_header",
            "metrics_loopback",
            "country_header",
            "safety.contact",
            "identity",
            "public_scheme",
            "public_url",
        ];
        fn value<'a>(config: &'a Config, key: &str) -> Option<&'a serde_json::Value> {
            config.effective.iter().find(|shown| shown.key == key).map(|shown| &shown.value)
        }
        let mut keys: Vec<&'static str> = layers::CONFIG_KEYS
            .into_iter()
            .filter(|key| !NO_RESTART_KEYS.contains(key) && value(self, key) != value(fresh, key))
            .collect();
        // A password that changed is not shown.
        if self.backend != fresh.backend && !keys.contains(&"store") {
            keys.push("store");
        }
        if self.oidc != fresh.oidc && !keys.iter().any(|key| key.starts_with("oidc.")) {
            keys.push("oidc.client_secret");
        }
        keys
    }

    /// The store, where the environment points at one. Much can be done nowhere else.
    pub(crate) fn location(&self) -> Result<&Location, CliError> {
        match &self.backend {
            BackendConfig::Store(location) => Ok(location),
            BackendConfig::Server(server) => Err(CliError::usage(format!(
                "this needs the store itself, and environment `{}` points at a server ({server})",
                self.env
            ))
            .hint("run it where the store is, or choose with --env an environment of rmax.toml that has a `store` (or set RMAX_STORE)")),
            BackendConfig::Cloudflare(_) => Err(CliError::usage(format!(
                "this needs the store itself, and environment `{}` points at Cloudflare, where `rmax links` and `rmax audit` work",
                self.env
            ))
            .hint("choose with --env an environment of rmax.toml that has a `store` (or set RMAX_STORE)")),
        }
    }

    /// What an environment of this name says of Cloudflare, whatever else is in force. The word `cloudflare` also names the only
    /// environment there is of that kind.
    pub(crate) fn cloudflare(
        global: &Global,
        environment: &Environment,
        name: &str,
    ) -> Result<KvNamespaces, CliError> {
        let layers = Layers::collect(&Global { env: None, ..global.clone() }, None, environment)?;
        let known = layers.cloudflare_environments();
        let name = match (name, known) {
            (name, known) if known.iter().any(|known| known == name) => name.to_owned(),
            ("cloudflare", [only]) => only.clone(),
            ("cloudflare", []) => {
                return Err(CliError::usage("no environment of rmax.toml points at Cloudflare").hint(
                    "add a section [env.cloudflare] with cloudflare = { account_id = \"...\", routes = \"...\", hits = \"...\" }",
                ));
            }
            (name, known) => {
                return Err(CliError::usage(format!(
                    "`{name}` is no environment that points at Cloudflare; there is {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )));
            }
        };
        let named = Global { env: Some(name), ..global.clone() };
        kv_namespaces(&mut Layers::collect(&named, None, environment)?)
    }

    /// Where the store is, without its password.
    pub(crate) fn store_shown(&self) -> String {
        match &self.backend {
            BackendConfig::Store(Location::Sqlite(path)) => format!("sqlite:{}", path.display()),
            BackendConfig::Store(Location::Postgres(url)) => mask_password(url),
            BackendConfig::Server(server) => server.to_string(),
            BackendConfig::Cloudflare(namespaces) => format!("Cloudflare's namespace {}", namespaces.routes),
        }
    }
}

/// How many keys, hosts and the like one member may have: what is not set keeps its default, and 0 is no limit.
fn resource_limits(layers: &mut Layers) -> Result<ResourceLimits, CliError> {
    let mut limit = |key| {
        let number = layers.number(key, 0..=1_000_000)?;
        Ok::<_, CliError>(number.and_then(|number| u32::try_from(number).ok()))
    };
    let limits = ResourceLimits {
        keys: limit("limits.keys")?,
        invitations: limit("limits.invitations")?,
        domains: limit("limits.domains")?,
        live_streams: limit("limits.live_streams")?,
        dns_checks_per_hour: limit("limits.dns_checks_per_hour")?,
    };
    // Those of keys and invitations depend on the workspace's preset.
    layers.show_default("limits.domains", rlinks_ops::DEFAULT_DOMAINS);
    layers.show_default("limits.live_streams", rlinks_ops::DEFAULT_LIVE_STREAMS);
    layers.show_default("limits.dns_checks_per_hour", rlinks_ops::DEFAULT_DNS_CHECKS_PER_HOUR);
    Ok(limits)
}

fn connections(layers: &mut Layers) -> Result<ConnectionSettings, CliError> {
    let mut number = |key, least| {
        let number = layers.number(key, least..=1_000_000)?;
        Ok::<_, CliError>(number.and_then(|number| usize::try_from(number).ok()))
    };
    Ok(ConnectionSettings {
        max: number("connections.max", 16)?,
        per_address: number("connections.per_address", 1)?,
        reserved_for_redirects: number("connections.reserved_for_redirects", 0)?,
    })
}

/// The folder named; else that of a named SQLite store; else the default, for each environment its own.
fn data_folder(layers: &mut Layers) -> Result<PathBuf, CliError> {
    if let Some(named) = layers.parsed("data", |text| Ok(PathBuf::from(text)))? {
        return Ok(named);
    }
    let store = layers.get("store").and_then(|setting| Location::parse(&setting.text()?).ok());
    let folder = match (store, layers.env.as_str()) {
        (Some(Location::Sqlite(path)), _) => match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        },
        (_, PRODUCTION_ENV) => PathBuf::from("rlinks-data"),
        // Two stores must not share one log of signed heads.
        (_, env) => Path::new("rlinks-data").join(env),
    };
    layers.show_default("data", folder.display().to_string());
    Ok(folder)
}

/// The one place that knows what an environment can point at.
fn backend(layers: &mut Layers, data: &Path) -> Result<BackendConfig, CliError> {
    let named = layers.winning(&[
        "store",
        "server",
        "cloudflare.account_id",
        "cloudflare.routes",
        "cloudflare.hits",
    ])?;
    let Some((key, setting)) = named else { return Ok(local_backend(layers, data)) };
    match key {
        "store" => {}
        "server" => return server_backend(layers, &setting),
        _ => return Ok(BackendConfig::Cloudflare(kv_namespaces(layers)?)),
    }
    let location = setting.text().and_then(|text| Location::parse(&text).ok()).ok_or_else(|| {
        setting.invalid("store", "must be sqlite:<path> or postgres://<user>@<host>/<database>")
    })?;
    // A folder named later than a SQLite file moves the store too: `--data elsewhere` must never write to the file's store.
    let data_is_later =
        layers.get("data").is_some_and(|data| data.origin.precedence() > setting.origin.precedence());
    if data_is_later && matches!(location, Location::Sqlite(_)) {
        return Ok(local_backend(layers, data));
    }
    layers.show("store", mask_password(&setting.text().unwrap_or_default()).into(), &setting.origin);
    Ok(BackendConfig::Store(location))
}

/// The embedded store of a data folder.
fn local_backend(layers: &mut Layers, data: &Path) -> BackendConfig {
    let path = data.join("rlinks.db");
    layers.show_default("store", format!("sqlite:{}", path.display()));
    BackendConfig::Store(Location::Sqlite(path))
}

/// A running server. What it answers with is its own, so a folder of data has no meaning beside it.
fn server_backend(layers: &mut Layers, setting: &Setting) -> Result<BackendConfig, CliError> {
    let url = setting.text().and_then(|text| server_url(&text)).ok_or_else(|| {
        setting.invalid(
            "server",
            "must be the address of a server, like https://links.example.com, without user, query or fragment",
        )
    })?;
    if layers.get("data").is_some_and(|data| matches!(data.origin, Origin::Flag(_))) {
        return Err(CliError::usage(format!(
            "--data names a folder, and environment `{}` points at a server ({url})",
            layers.env
        ))
        .hint("leave --data out, or choose an environment that has a `store` with --env"));
    }
    layers.show("server", url.as_str().into(), &setting.origin);
    Ok(BackendConfig::Server(url))
}

/// An address below which the API is, ending in a slash.
fn server_url(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    plain.then_some(url)
}

/// Cloudflare's storage: all three names are needed.
fn kv_namespaces(layers: &mut Layers) -> Result<KvNamespaces, CliError> {
    let mut part = |key: &'static str| {
        let named = layers.parsed(key, namespace)?;
        named.ok_or_else(|| {
            CliError::usage(format!("environment `{}` points at Cloudflare and does not say `{key}`", layers.env))
                .hint("cloudflare = { account_id = \"...\", routes = \"<namespace id>\", hits = \"<namespace id>\" }")
        })
    };
    let (account_id, routes, hits) =
        (part("cloudflare.account_id")?, part("cloudflare.routes")?, part("cloudflare.hits")?);
    Ok(KvNamespaces { account_id, routes, hits })
}

fn tls(layers: &mut Layers) -> Result<Option<TlsFiles>, CliError> {
    let path = |text: &str| Ok(PathBuf::from(text));
    match (layers.parsed("tls.cert", path)?, layers.parsed("tls.key", path)?) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(CliError::usage("`tls.cert` is set and `tls.key` is not; TLS needs both")),
        (None, Some(_)) => Err(CliError::usage("`tls.key` is set and `tls.cert` is not; TLS needs both")),
    }
}

/// Who is asked whether a target is safe.
fn safety(layers: &mut Layers) -> Result<safety::SafetyConfig, CliError> {
    let url = layers.parsed("safety.safe_browsing_url", |text| {
        server_url(text)
            .ok_or_else(|| "must be an address like https://safebrowsing.googleapis.com/".to_owned())
    })?;
    let google = || Url::parse(safe_browsing::GOOGLE_API_URL).expect("it is a URL");
    let key = layers.secret("safety.safe_browsing_key")?;
    Ok(safety::SafetyConfig {
        blocklist: layers.parsed("safety.blocklist_path", |text| Ok(PathBuf::from(text)))?,
        safe_browsing: key
            .map(|key| safe_browsing::SafeBrowsingConfig { key, url: url.unwrap_or_else(google) }),
        when_unavailable: layers.parsed("safety.when_unavailable", when_unavailable)?.unwrap_or_default(),
    })
}

// ---- what a text means; each error says how it should be ----

fn host(text: &str) -> Result<Host, String> {
    Host::parse(text).map_err(|error| error.message)
}

fn scheme(text: &str) -> Result<String, String> {
    match text {
        "http" | "https" => Ok(text.to_owned()),
        _ => Err("must be http or https".to_owned()),
    }
}

fn public_url(text: &str) -> Result<String, String> {
    let url =
        url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    match url {
        Some(url) if url.query().is_none() && url.fragment().is_none() && url.username().is_empty() => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("must be the beginning of a URL, like https://links.example.com".to_owned()),
    }
}

/// Whoever reads it goes there, so it is an address in one of the two forms that programs understand.
fn contact(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).ok().filter(|url| match url.scheme() {
        "https" => url.has_host(),
        "mailto" => url.path().contains('@'),
        _ => false,
    });
    url.map(String::from)
        .ok_or_else(|| "must be like mailto:abuse@example.com or https://example.com/abuse".to_owned())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be an address and a port, like 127.0.0.1:8080 or [::]:8080".to_owned())
}

fn network(text: &str) -> Result<IpNet, String> {
    let single = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| single()).map_err(|_| "must be networks, like 10.0.0.0/8 or ::1".to_owned())
}

fn header(text: &str) -> Result<HeaderName, String> {
    text.parse().map_err(|_| "must be the name of a header, like CF-IPCountry".to_owned())
}

fn syncing(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "always" => Ok(SyncPolicy::EveryWrite),
        "interval" => Ok(SyncPolicy::EverySecond),
        "off" => Ok(SyncPolicy::Never),
        _ => Err("must be always, interval or off".to_owned()),
    }
}

fn when_unavailable(text: &str) -> Result<WhenUnavailable, String> {
    match text {
        "allow" => Ok(WhenUnavailable::Allow),
        "refuse" => Ok(WhenUnavailable::Refuse),
        _ => Err("must be allow or refuse".to_owned()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if fits {
        Ok(text.to_owned())
    } else {
        Err("must be an id as Cloudflare shows it, like 0123456789abcdef0123456789abcdef".to_owned())
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

fn log_level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err("must be error, warn, info, debug or trace".to_owned()),
    }
}

/// A URL whose password, if any, is not shown.
pub(crate) fn mask_password(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let Ok(mut url) = url::Url::parse(text) else {
        let scheme = text.split("://").next().unwrap_or_default();
        return format!("{scheme}://***");
    };
    let secret = |name: &str| name.contains("password");
    if url.password().is_none() && !url.query_pairs().any(|(name, _)| secret(&name)) {
        return text.to_owned();
    }
    if url.password().is_some() {
        let _ = url.set_password(Some("***"));
    }
    let pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| {
            let value = if secret(&name) { "***".to_owned() } else { value.into_owned() };
            (name.into_owned(), value)
        })
        .collect();
    if !pairs.is_empty() {
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    url.to_string()
}
