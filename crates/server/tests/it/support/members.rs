//! A server of a test's own with people in it, on either database.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::{
    Actor, ApiKey, Email, Password, Policy, Preset, Role, Scope, Scopes, Slug, Timestamp, User, Workspace,
};
use rlinks_ops::api_keys::KeyRequest;
use rlinks_ops::{Ops, OpsSettings, ShortUrls};
use rlinks_server::{Config, ConnectionSettings, ReloadableSettings, Server};
use rlinks_store::clock::{Clock, Random};
use rlinks_store::{NewUser, StoreWriter};
use tokio::runtime::Runtime;

use crate::support::api_client::ApiClient;
use crate::support::database::TestStore;
use crate::support::raw_client::{Response, send_request, wait_until};
use crate::support::server::{NOW, operator_in, set_up_workspace};

/// A password anybody may have.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A running server, and beside it what another process would be: a second store, and operations on it.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) control: Option<SocketAddr>,
    pub(crate) test_store: TestStore,
    /// Changes made past the operations.
    store: StoreWriter,
    pub(crate) ops: Ops,
    pub(crate) runtime: Runtime,
    pub(crate) main: Workspace,
    now_ms: Arc<AtomicI64>,
    people: AtomicU32,
    server: Option<Server>,
}

/// Somebody with a key.
#[derive(Clone, Debug)]
pub(crate) struct ApiUser {
    pub(crate) caller: ApiClient,
    pub(crate) key: ApiKey,
    pub(crate) user: Option<User>,
}

impl Deref for ApiUser {
    type Target = ApiClient;

    fn deref(&self) -> &ApiClient {
        &self.caller
    }
}

impl ApiUser {
    pub(crate) fn secret(&self) -> &str {
        self.caller.key.as_deref().unwrap()
    }

    pub(crate) fn user_id(&self) -> String {
        self.user.as_ref().unwrap().id.to_string()
    }

    pub(crate) fn key_id(&self) -> String {
        self.key.id.to_string()
    }
}

/// Runs a test that blocks, with a server of its own, from a test that does not.
pub(crate) async fn with_server(
    test_store: TestStore,
    policy: Policy,
    test: impl FnOnce(TestServer) + Send + 'static,
) {
    with_configured_server(test_store, policy, |_| (), test).await;
}

/// The same with a server configured by the test.
pub(crate) async fn with_configured_server(
    test_store: TestStore,
    policy: Policy,
    change: impl FnOnce(&mut Config) + Send + 'static,
    test: impl FnOnce(TestServer) + Send + 'static,
) {
    let run = tokio::task::spawn_blocking(move || test(TestServer::at(test_store, policy, change)));
    if let Err(failed) = run.await {
        std::panic::resume_unwind(failed.into_panic());
    }
}

pub(crate) fn preset(preset: Preset) -> Policy {
    Policy::preset(preset)
}

pub(crate) fn runtime(threads: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

fn naming() -> ShortUrls {
    let listen = "127.0.0.1:0".parse().unwrap();
    ShortUrls {
        domain: None,
        base_domain: None,
        public_scheme: "https".to_owned(),
        public_url: None,
        listen,
        tls: false,
    }
}

pub(crate) fn settings(clock: Clock) -> OpsSettings {
    OpsSettings {
        short_urls: naming(),
        own_host: None,
        clock,
        random: Random::system(),
        routes: None,
        safety: Arc::default(),
        domain_checker: Arc::default(),
        target_changes_per_minute: 100,
        removals_per_minute: 1000,
        resource_limits: rlinks_ops::ResourceLimits::default(),
    }
}

fn start(test_store: &TestStore, now_ms: &Arc<AtomicI64>, change: impl FnOnce(&mut Config)) -> Server {
    let control = runtime(2);
    let store = control.block_on(test_store.open());
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        control_listen: None,
        serve_admin: true,
        insecure_cookies: false,
        threads: 1,
        cache_bytes: 16 << 20,
        short_urls: naming(),
        own_host: None,
        tls: None,
        hsts_seconds: 0,
        data: test_store.folder().join("data"),
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
    let now_ms = Arc::clone(now_ms);
    let clock = Clock::new(move || Timestamp::from_ms(now_ms.load(Ordering::SeqCst)));
    Server::start(config, store.into(), clock, control).expect("the server starts")
}

impl TestServer {
    /// On SQLite, with a preset.
    pub(crate) fn new(preset: Preset) -> Self {
        Self::at(TestStore::sqlite(), Policy::preset(preset), |_| ())
    }

    /// Workspace `main` has this policy and the host `rmax.to`.
    pub(crate) fn at(test_store: TestStore, policy: Policy, change: impl FnOnce(&mut Config)) -> Self {
        let runtime = runtime(1);
        let store = runtime.block_on(test_store.open());
        runtime.block_on(set_up_workspace(&store, "main", policy, &["rmax.to".to_owned()]));
        let now_ms = Arc::new(AtomicI64::new(NOW.ms()));
        let server = start(&test_store, &now_ms, change);
        let clock = {
            let now_ms = Arc::clone(&now_ms);
            Clock::new(move || Timestamp::from_ms(now_ms.load(Ordering::SeqCst)))
        };
        let ops = Ops::new(store.clone().into(), settings(clock));
        let main = runtime.block_on(ops.workspace(&Slug::parse("main").unwrap())).unwrap();
        let test_server = Self {
            address: server.address,
            control: server.control_address,
            test_store,
            store,
            ops,
            runtime,
            main,
            now_ms,
            people: AtomicU32::new(0),
            server: Some(server),
        };
        test_server.wait_until_ready();
        test_server
    }

    fn wait_until_ready(&self) {
        wait_until("the follower has looked", || self.visit("/ready").body.contains("\"ready\""));
    }

    /// Ends the server as a signal would, and starts another on the same store.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let server = start(&self.test_store, &self.now_ms, |_| ());
        (self.address, self.control) = (server.address, server.control_address);
        self.server = Some(server);
        self.wait_until_ready();
    }

    /// Another server on the same store, as another node would be.
    pub(crate) fn second(&self, change: impl FnOnce(&mut Config)) -> Server {
        start(&self.test_store, &self.now_ms, |config| {
            config.data = self.test_store.folder().join("second");
            change(config);
        })
    }

    pub(crate) fn running(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// How often the server asked for the OpenID provider's keys.
    pub(crate) fn key_fetches(&self) -> u64 {
        self.server.as_ref().unwrap().key_fetches()
    }

    pub(crate) fn take_server(&mut self) -> Server {
        self.server.take().unwrap()
    }

    pub(crate) fn store(&self) -> &StoreWriter {
        &self.store
    }

    /// The operations of yet another process.
    pub(crate) fn other_ops(&self, change: impl FnOnce(&mut OpsSettings)) -> Ops {
        let mut settings = settings(self.ops.clock.clone());
        change(&mut settings);
        Ops::new(self.store.clone().into(), settings)
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.now_ms.load(Ordering::SeqCst))
    }

    pub(crate) fn visit(&self, path: &str) -> Response {
        self.visit_with(path, "")
    }

    /// The same with header lines, each ended.
    pub(crate) fn visit_with(&self, path: &str, lines: &str) -> Response {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\nConnection: close\r\n{lines}\r\n"
        );
        send_request(self.address, request.as_bytes())
    }

    pub(crate) fn anonymous(&self) -> ApiClient {
        ApiClient::anonymous(self.address)
    }

    pub(crate) fn workspace(&self, slug: &str, policy: Policy, domains: &[&str]) -> Workspace {
        let domains: Vec<String> = domains.iter().map(|&host| host.to_owned()).collect();
        self.runtime.block_on(async {
            set_up_workspace(self.store(), slug, policy, &domains).await;
            self.ops.workspace(&Slug::parse(slug).unwrap()).await.unwrap()
        })
    }

    /// A member of a workspace, without a key.
    pub(crate) fn user(&self, workspace: &Workspace, role: Role) -> User {
        let number = self.people.fetch_add(1, Ordering::Relaxed);
        self.user_with_email(workspace, role, &format!("person-{number}@example.com"))
    }

    pub(crate) fn user_with_email(&self, workspace: &Workspace, role: Role, email: &str) -> User {
        let email = Email::parse(email).unwrap();
        let name = "Somebody".to_owned();
        let invited = self.runtime.block_on(self.ops.invite(&operator_in(workspace), email, name, role));
        invited.unwrap().0
    }

    /// A key as the operator makes it.
    pub(crate) fn key(&self, workspace: &Workspace, user: Option<&User>, scopes: Scopes) -> ApiUser {
        self.key_expiring_at(workspace, user, scopes, None)
    }

    pub(crate) fn key_expiring_at(
        &self,
        workspace: &Workspace,
        user: Option<&User>,
        scopes: Scopes,
        expires_at: Option<Timestamp>,
    ) -> ApiUser {
        let user_id = user.map(|user| user.id.to_string());
        let request =
            KeyRequest { name: "a key".to_owned(), scopes: Some(scopes), user: user_id, expires_at };
        let made = self.runtime.block_on(self.ops.create_key(&operator_in(workspace), request));
        let (key, secret) = made.unwrap();
        let caller = ApiClient { address: self.address, key: Some(secret.reveal().to_owned()) };
        ApiUser { caller, key, user: user.cloned() }
    }

    /// Somebody with all scopes their role lets them have.
    pub(crate) fn person(&self, workspace: &Workspace, role: Role) -> ApiUser {
        let user = self.user(workspace, role);
        self.key(workspace, Some(&user), role.scopes())
    }

    pub(crate) fn admin(&self) -> ApiUser {
        self.person(&self.main, Role::Admin)
    }

    pub(crate) fn member(&self) -> ApiUser {
        self.person(&self.main, Role::Member)
    }

    pub(crate) fn viewer(&self) -> ApiUser {
        self.person(&self.main, Role::Viewer)
    }

    /// A key that is nobody's and may do everything.
    pub(crate) fn root(&self) -> ApiUser {
        self.key(&self.main, None, Scopes::ALL)
    }

    /// A key that is nobody's and may look.
    pub(crate) fn reader(&self) -> ApiUser {
        self.key(&self.main, None, Scopes::new(&[Scope::LinksRead, Scope::AnalyticsRead]))
    }

    /// The actions in the log of `main`, oldest first.
    pub(crate) fn actions(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let mut entries = self.store().audit_before(self.main.id, i64::MAX, 100_000).await.unwrap();
            entries.reverse();
            entries.into_iter().map(|entry| entry.action).collect()
        })
    }
}

/// Who owns what somebody makes.
pub(crate) fn owner(person: &ApiUser) -> String {
    let user = person.user.as_ref().map(|user| Actor::from_user(user.id));
    user.unwrap_or_else(|| Actor::from_key(person.key.id)).as_str().to_owned()
}

/// A member who signs in with [`PASSWORD`].
pub(crate) fn member(server: &TestServer, workspace: &Workspace, role: Role, email: &str) -> User {
    let new = NewUser {
        workspace: workspace.id,
        email: Email::parse(email).unwrap(),
        full_name: "Ann Example".to_owned(),
        role,
    };
    let password = Password::parse(PASSWORD).unwrap();
    server.runtime.block_on(server.ops.add_member(&operator_in(workspace), new, password)).unwrap()
}

/// An admin of `main` who signs in with [`PASSWORD`].
pub(crate) fn ann(server: &TestServer) -> User {
    member(server, &server.main, Role::Admin, "ann@example.com")
}
