//! A server of its own for each test.

use std::net::SocketAddr;

use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::{
    Actor, Code, Host, Id, LinkDraft, LinkSource, Policy, RedirectStatus, Slug, Target, Timestamp, Workspace,
};
use rlinks_ops::{Caller, ShortUrls};
use rlinks_server::{Config, ConnectionSettings, ReloadableSettings, ServeError, Server};
use rlinks_store::clock::Clock;
use rlinks_store::write::{CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{Location, MissingStore, Store, StoreOptions, StoreWriter};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::raw_client::{Response, send_request, wait_until};

pub(crate) const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_123);
pub(crate) const MAIN: Id = Id::from_i64(1);

/// A store in a folder and on a runtime of its own, on which a server can be started.
pub(crate) struct UnstartedServer {
    pub(crate) folder: TempDir,
    pub(crate) store: StoreWriter,
    pub(crate) runtime: Runtime,
}

impl UnstartedServer {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let store = runtime.block_on(open(&folder));
        Self { folder, store, runtime }
    }

    /// Starts serving, with a clock that stands still.
    pub(crate) fn serve(self, change: impl FnOnce(&mut Config)) -> RunningServer {
        let running = self.try_serve(change).expect("the server starts");
        wait_until("the follower has looked", || running.get("/ready").body.contains("\"ready\""));
        running
    }

    /// The same for a server that may refuse to start, or does not speak plain HTTP.
    pub(crate) fn try_serve(self, change: impl FnOnce(&mut Config)) -> Result<RunningServer, ServeError> {
        self.try_serve_at(Clock::new(|| NOW), change)
    }

    /// The same with a clock of the test's own.
    pub(crate) fn try_serve_at(
        self,
        clock: Clock,
        change: impl FnOnce(&mut Config),
    ) -> Result<RunningServer, ServeError> {
        let mut config = Config {
            listen: "127.0.0.1:0".parse().expect("an address"),
            control_listen: None,
            serve_admin: true,
            insecure_cookies: false,
            threads: 1,
            cache_bytes: 16 << 20,
            short_urls: ShortUrls {
                domain: None,
                base_domain: None,
                public_scheme: "https".to_owned(),
                public_url: None,
                listen: "127.0.0.1:0".parse().expect("an address"),
                tls: false,
            },
            own_host: None,
            tls: None,
            hsts_seconds: 0,
            data: self.folder.path().to_owned(),
            journal_bytes: 64 << 20,
            journal_sync: SyncPolicy::EverySecond,
            geoip: None,
            archive: None,
            audit_key: rlinks_store::audit::signing_key::SigningKeySource::DataFolder,
            audit_push: rlinks_server::AuditPushSettings::default(),
            oidc: None,
            safety: rlinks_ops::safety::SafetyConfig::default(),
            domain_checks: rlinks_ops::domain_checks::DomainCheckConfig::default(),
            target_changes_per_minute: 100,
            removals_per_minute: 1000,
            resource_limits: rlinks_ops::ResourceLimits::default(),
            connections: ConnectionSettings::default(),
            reloadable: ReloadableSettings::default(),
        };
        change(&mut config);
        let server = Server::start(config, self.store.into(), clock, self.runtime)?;
        Ok(RunningServer { address: server.address, folder: self.folder, _server: server })
    }
}

pub(crate) async fn open(folder: &TempDir) -> StoreWriter {
    let options = StoreOptions {
        location: Location::Sqlite(folder.path().join("rlinks.db")),
        worker: None,
        holder: "test".to_owned(),
        now: NOW,
        if_missing: MissingStore::Refuse,
    };
    Store::open(options).await.expect("the store opens").1
}

/// A running server. Dropping it stops it at once.
pub(crate) struct RunningServer {
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
    _server: Server,
}

impl RunningServer {
    pub(crate) fn get(&self, path: &str) -> Response {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        ))
    }

    pub(crate) fn send(&self, request: &str) -> Response {
        send_request(self.address, request.as_bytes())
    }
}

pub(crate) fn operator() -> Actor {
    Actor::operator("test")
}

/// The operator, as a caller of operations in a workspace.
pub(crate) fn operator_in(workspace: &Workspace) -> Caller {
    Caller::operator(operator(), workspace.clone())
}

/// Gives a workspace its policy and domains.
pub(crate) async fn set_up_workspace(
    store: &StoreWriter,
    slug: &str,
    policy: Policy,
    domains: &[String],
) -> Id {
    let slug = Slug::parse(slug).expect("a slug");
    let id = match store.workspace(&slug).await.expect("the store answers") {
        None => {
            store
                .create_workspace(slug, "Other".to_owned(), policy, &operator(), NOW)
                .await
                .expect("a workspace")
                .id
        }
        Some(seen) => {
            let next = rlinks_core::Workspace { policy, ..seen.clone() };
            store
                .update_workspace(&seen, next, "workspace.policy", &operator(), NOW)
                .await
                .expect("a policy")
                .id
        }
    };
    for domain in domains {
        store.add_domain(id, Host::parse(domain).expect("a host"), &operator(), NOW).await.expect("a domain");
    }
    id
}

/// A link of `main` as `rmax links set` makes it.
pub(crate) async fn create(store: &StoreWriter, code: &str, target: &str) -> Written {
    let draft = LinkDraft {
        code: Code::from_path(code),
        target: Target::parse(target, 2048).unwrap(),
        redirect_status: RedirectStatus::MovedPermanently,
        expires_at: None,
        title: None,
        notes: None,
        tags: Vec::new(),
        https_only: true,
        no_loop: true,
        metadata: serde_json::Map::new(),
    };
    let op = LinkOp::Create {
        draft,
        code: CodeChoice::Chosen(Code::from_path(code).unwrap()),
        source: LinkSource::Cli,
        on_conflict: OnConflict::Refuse,
    };
    store.write(LinkWrite::new(MAIN, operator(), NOW, op)).await.unwrap()
}

/// How many links [`serve_more_than_fits`] has: `big-0` and so on.
pub(crate) const BIG: usize = 1600;

/// A server with more links than its table holds: 16 shards of two chunks are about 2 MB, and these are 3 MB.
pub(crate) fn serve_more_than_fits() -> RunningServer {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(async {
        let writes = (0..BIG).map(|number| {
            let store = unstarted.store.clone();
            tokio::spawn(async move { create(&store, &format!("big-{number}"), &big_target(number)).await })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap();
        }
    });
    unstarted.serve(|config| config.cache_bytes = 1)
}

/// Where one of these leads.
pub(crate) fn big_target(number: usize) -> String {
    format!("https://example.com/{}/{number}", "x".repeat(1900))
}
