//! A server of a test's own with people in it, on either database.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::{
    Actor, ApiKey, Email, Policy, Preset, Role, Scope, Scopes, Slug, Timestamp, User, Workspace,
};
use rlinks_ops::members::KeyDraft;
use rlinks_ops::{Ops, Requester, ShortUrls};
use rlinks_server::{Config, ReloadableSettings, Server};
use rlinks_store::Store;
use rlinks_store::clock::Clock;
use tokio::runtime::Runtime;

use super::caller::Caller;
use crate::client::{Answer, ask, wait_until};
use crate::database::Place;
use crate::support::{NOW, furnish, operator};

/// A running server, and beside it what another process would be: a second store, and operations on it.
pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) control: Option<SocketAddr>,
    pub(crate) place: Place,
    pub(crate) ops: Ops,
    pub(crate) runtime: Runtime,
    pub(crate) main: Workspace,
    now_ms: Arc<AtomicI64>,
    people: AtomicU32,
    server: Option<Server>,
}

/// Somebody with a key.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) caller: Caller,
    pub(crate) key: ApiKey,
    pub(crate) user: Option<User>,
}

impl Deref for Person {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Person {
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

/// Runs a test that blocks, in a house of its own, from a test that does not.
pub(crate) async fn in_house(place: Place, policy: Policy, test: impl FnOnce(House) + Send + 'static) {
    in_house_with(place, policy, |_| (), test).await;
}

/// The same with a server configured by the test.
pub(crate) async fn in_house_with(
    place: Place,
    policy: Policy,
    change: impl FnOnce(&mut Config) + Send + 'static,
    test: impl FnOnce(House) + Send + 'static,
) {
    let run = tokio::task::spawn_blocking(move || test(House::at(place, policy, change)));
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

fn start(place: &Place, now_ms: &Arc<AtomicI64>, change: impl FnOnce(&mut Config)) -> Server {
    let control = runtime(2);
    let store = control.block_on(place.open());
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
        data: place.folder().join("data"),
        journal_bytes: 64 << 20,
        journal_sync: SyncPolicy::EverySecond,
        geoip: None,
        archive: None,
        oidc: None,
        safety: rlinks_ops::safety::SafetyConfig::default(),
        domain_checks: rlinks_ops::domain_checks::DomainCheckConfig::default(),
        target_changes_per_minute: 100,
        reloadable: ReloadableSettings::default(),
    };
    change(&mut config);
    let now_ms = Arc::clone(now_ms);
    let clock = Clock::new(move || Timestamp::from_ms(now_ms.load(Ordering::SeqCst)));
    Server::start(config, store, clock, control).expect("the server starts")
}

impl House {
    /// On SQLite, with a preset.
    pub(crate) fn new(preset: Preset) -> Self {
        Self::at(Place::sqlite(), Policy::preset(preset), |_| ())
    }

    /// Workspace `main` has this policy and the host `rmax.to`.
    pub(crate) fn at(place: Place, policy: Policy, change: impl FnOnce(&mut Config)) -> Self {
        let runtime = runtime(1);
        let store = runtime.block_on(place.open());
        runtime.block_on(furnish(&store, "main", policy, &["rmax.to".to_owned()]));
        let now_ms = Arc::new(AtomicI64::new(NOW.ms()));
        let server = start(&place, &now_ms, change);
        let clock = {
            let now_ms = Arc::clone(&now_ms);
            Clock::new(move || Timestamp::from_ms(now_ms.load(Ordering::SeqCst)))
        };
        let ops = Ops {
            store,
            short_urls: naming(),
            own_host: None,
            clock,
            routes: None,
            safety: Arc::default(),
            domain_checker: Arc::default(),
            target_changes_per_minute: 100,
        };
        let main = runtime.block_on(ops.workspace(&Slug::parse("main").unwrap())).unwrap();
        let house = Self {
            address: server.address,
            control: server.control_address,
            place,
            ops,
            runtime,
            main,
            now_ms,
            people: AtomicU32::new(0),
            server: Some(server),
        };
        house.wait_until_ready();
        house
    }

    fn wait_until_ready(&self) {
        wait_until("the follower has looked", || self.visit("/ready").body.contains("\"ready\""));
    }

    /// Ends the server as a signal would, and starts another on the same place.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let server = start(&self.place, &self.now_ms, |_| ());
        (self.address, self.control) = (server.address, server.control_address);
        self.server = Some(server);
        self.wait_until_ready();
    }

    /// Another server on the same store, as another node would be.
    pub(crate) fn second(&self, change: impl FnOnce(&mut Config)) -> Server {
        start(&self.place, &self.now_ms, |config| {
            config.data = self.place.folder().join("second");
            change(config);
        })
    }

    pub(crate) fn server(&self) -> &Server {
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

    pub(crate) fn store(&self) -> &Store {
        &self.ops.store
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.now_ms.load(Ordering::SeqCst))
    }

    pub(crate) fn visit(&self, path: &str) -> Answer {
        self.visit_with(path, "")
    }

    /// The same with header lines, each ended.
    pub(crate) fn visit_with(&self, path: &str, lines: &str) -> Answer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\nConnection: close\r\n{lines}\r\n"
        );
        ask(self.address, request.as_bytes())
    }

    pub(crate) fn anonymous(&self) -> Caller {
        Caller::anonymous(self.address)
    }

    pub(crate) fn workspace(&self, slug: &str, policy: Policy, domains: &[&str]) -> Workspace {
        let domains: Vec<String> = domains.iter().map(|&host| host.to_owned()).collect();
        self.runtime.block_on(async {
            furnish(self.store(), slug, policy, &domains).await;
            self.ops.workspace(&Slug::parse(slug).unwrap()).await.unwrap()
        })
    }

    /// A member of a workspace, without a key.
    pub(crate) fn user(&self, workspace: &Workspace, role: Role) -> User {
        let number = self.people.fetch_add(1, Ordering::Relaxed);
        self.user_called(workspace, role, &format!("person-{number}@example.com"))
    }

    pub(crate) fn user_called(&self, workspace: &Workspace, role: Role, email: &str) -> User {
        let email = Email::parse(email).unwrap();
        let name = "Somebody".to_owned();
        let invited = self.runtime.block_on(self.ops.invite(
            &Requester::operator(operator()),
            workspace,
            email,
            name,
            role,
        ));
        invited.unwrap().0
    }

    /// A key as the operator makes it.
    pub(crate) fn key(&self, workspace: &Workspace, user: Option<&User>, scopes: Scopes) -> Person {
        self.key_until(workspace, user, scopes, None)
    }

    pub(crate) fn key_until(
        &self,
        workspace: &Workspace,
        user: Option<&User>,
        scopes: Scopes,
        expires_at: Option<Timestamp>,
    ) -> Person {
        let draft = KeyDraft { name: "a key".to_owned(), scopes, user: user.map(|user| user.id), expires_at };
        let by = Requester::operator(operator());
        let (key, secret) = self.runtime.block_on(self.ops.create_key(&by, workspace, &draft)).unwrap();
        let caller = Caller { address: self.address, key: Some(secret.reveal().to_owned()) };
        Person { caller, key, user: user.cloned() }
    }

    /// Somebody with all scopes their role lets them have.
    pub(crate) fn person(&self, workspace: &Workspace, role: Role) -> Person {
        let user = self.user(workspace, role);
        self.key(workspace, Some(&user), Scopes::ALL)
    }

    pub(crate) fn admin(&self) -> Person {
        self.person(&self.main, Role::Admin)
    }

    pub(crate) fn member(&self) -> Person {
        self.person(&self.main, Role::Member)
    }

    pub(crate) fn viewer(&self) -> Person {
        self.person(&self.main, Role::Viewer)
    }

    /// A key that is nobody's and may do everything.
    pub(crate) fn root(&self) -> Person {
        self.key(&self.main, None, Scopes::ALL)
    }

    /// A key that is nobody's and may look.
    pub(crate) fn reader(&self) -> Person {
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
pub(crate) fn owner(person: &Person) -> String {
    let user = person.user.as_ref().map(|user| Actor::from_user(user.id));
    user.unwrap_or_else(|| Actor::from_key(person.key.id)).as_str().to_owned()
}
