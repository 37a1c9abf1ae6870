//! The life of a server: lock, open, listen, follow, drain.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderValue;
use rlinks_clicks::ClickStore;
use rlinks_clicks::pipeline::{self, ClickPipeline};
use rlinks_store::audit::signing_key::{SigningKey, SigningKeySource};
use rlinks_store::{Store, StoreError, StoreOptions};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::auth::Auth;
use crate::auth::connection_info::SiteOrigin;
use crate::auth::oidc::Oidc;
use crate::control::router::ControlRouters;
use crate::front_end::FrontEnd;
use crate::process::config::{Config, Reload};
use crate::process::error::ServeError;
use crate::process::lock::lock;
use crate::process::signals::StopSignals;
use crate::redirect::acceptor::{self, ListenerSettings, ServingThreads};
use crate::redirect::connection_limits::ConnectionLimits;
use crate::redirect::context::{ControlHandler, ListenerRole, RedirectContext};
use crate::redirect::phase::Phase;
use crate::redirect::tls::Tls;
use crate::web::Web;
use rlinks_ops::audit_push::AuditPush;
use rlinks_ops::domain_checks::DomainChecker;
use rlinks_ops::safety::Safety;
use rlinks_ops::{OpenedStore, Ops, OpsSettings};
use rlinks_routes::RouteCache;
use rlinks_store::clock::{Clock, Random};

/// Between `/ready` saying 503 and the listener closing, so that a balancer can see it.
const UNREADY_DELAY: Duration = Duration::from_millis(500);
/// From then on, open connections have this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
/// And then the store.
const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often heads are signed and logged.
const CHECKPOINT_INTERVAL: Duration = Duration::from_mins(1);

/// Runs until SIGTERM or SIGINT, then drains. A second signal ends it at once.
/// `announce` is given the address at which the first admin is made, where there is none yet.
pub fn run(
    config: Config,
    store: StoreOptions,
    clock: Clock,
    reload: Reload,
    announce: impl FnOnce(&str),
) -> Result<(), ServeError> {
    let _lock = lock(&config.data)?;
    let control = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()?;
    let opened = control.block_on(async {
        let opened = OpenedStore::open(store).await?;
        opened.store.quick_check().await?;
        Ok::<_, StoreError>(opened)
    })?;
    // Before anybody can know that we serve: who reads that line may send a signal at once.
    let signals = control.block_on(async { Signals::listen() })?;
    let server = Server::start(config, opened, clock, control)?;
    server.control.block_on(async {
        // Beside waiting: a store that is slow to answer must not make a signal wait.
        let announced = async {
            if let Some(url) = server.setup_url().await {
                announce(&url);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = wait_for_shutdown(&server, signals, reload) => {}
            () = announced => {}
        }
    });
    server.stop();
    Ok(())
}

/// The signals a server answers to.
struct Signals {
    stop: StopSignals,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { stop: StopSignals::listen()?, hang_up: signal(SignalKind::hangup())? })
    }
}

async fn wait_for_shutdown(server: &Server, signals: Signals, reload: Reload) {
    let Signals { mut stop, mut hang_up } = signals;
    loop {
        tokio::select! {
            () = stop.received() => break,
            _ = hang_up.recv() => server.reload(&reload),
        }
    }
    tokio::spawn(async move {
        stop.received().await;
        tracing::warn!("a second signal: stopping at once");
        std::process::exit(0);
    });
}

pub struct Server {
    /// Where redirects are served: of use where the port was 0.
    pub address: SocketAddr,
    /// Where the rest is served, when that is apart.
    pub control_address: Option<SocketAddr>,
    context: Arc<RedirectContext>,
    control_plane: ControlHandler,
    api: Arc<Api>,
    auth: Arc<Auth>,
    store: Store,
    tls: Option<Arc<Tls>>,
    phase: watch::Sender<Phase>,
    acceptors: Vec<JoinHandle<()>>,
    background_tasks: Vec<JoinHandle<()>>,
    /// What the daily jobs have opened.
    clicks: Arc<OnceCell<ClickStore>>,
    threads: Vec<Arc<ServingThreads>>,
    control: Runtime,
    signing_key: SigningKey,
    audit_push: Arc<AuditPush>,
    config: Config,
    clock: Clock,
}

impl Server {
    /// Listens and serves. `control` is the runtime the store was opened on.
    pub fn start(
        mut config: Config,
        opened: OpenedStore,
        clock: Clock,
        control: Runtime,
    ) -> Result<Self, ServeError> {
        let (store, random) = (opened.store.clone(), Random::system());
        let signing_key = load_signing_key(&config)?;
        let audit_push = AuditPush::new(&config.audit_push.destinations, &config.audit_push.options)
            .map_err(ServeError::AuditPush)?;
        let audit_push = Arc::new(audit_push);
        let listener = bind(config.listen)?;
        config.short_urls.listen = listener.local_addr()?;
        let control_listener = config.control_listen.map(bind).transpose()?;
        let tls = config.tls.clone().map(Tls::load).transpose().map_err(ServeError::Tls)?.map(Arc::new);
        let routes = Arc::new(RouteCache::new(
            store.clone(),
            control.handle().clone(),
            clock.clone(),
            config.cache_bytes,
        ));
        control.block_on(routes.reload_directory(config.short_urls.base_domain.as_ref()))?;
        let safety = Arc::new(Safety::new(&config.safety, &clock).map_err(ServeError::Safety)?);
        if let Some(list) = safety.blocklist() {
            let read = control.block_on(list.get()).map_err(ServeError::Safety)?;
            list.report(&read);
        }
        let domain_checker =
            DomainChecker::new(&config.domain_checks, random.clone()).map_err(ServeError::DomainChecks)?;
        let recording = start_click_pipeline(&config, &store, &clock, &random, control.handle())?;
        let settings = OpsSettings {
            short_urls: config.short_urls.clone(),
            own_host: config.own_host.clone(),
            clock: clock.clone(),
            random: random.clone(),
            routes: Some(Arc::clone(&routes)),
            safety,
            domain_checker: Arc::new(domain_checker),
            target_changes_per_minute: config.target_changes_per_minute,
            removals_per_minute: config.removals_per_minute,
            resource_limits: config.resource_limits,
        };
        let ops = Ops::new(opened, settings);
        control.block_on(ops.load_limit_uses());
        let clicks = Arc::default();
        let auth = Arc::new(control.block_on(build_auth(&config, &ops, &routes))?);
        let front_end = FrontEnd::new(ops, Arc::clone(&routes), Arc::clone(&clicks), &config.data);
        let front_end = Arc::new(control.block_on(front_end));
        let api = Arc::new(Api::new(Arc::clone(&front_end), Arc::clone(&auth)));
        let web = Web::new(Arc::clone(&auth), front_end, Arc::clone(&routes));
        let web = Arc::new(web);
        let context = Arc::new(RedirectContext::new(
            routes,
            clock.clone(),
            config.reloadable.clone(),
            control.handle().clone(),
            recording,
        ));
        let control_routers = ControlRouters {
            health: crate::control::health::routes(),
            api: crate::api::router(&api),
            admin: crate::web::router(&web),
            metrics: crate::control::metrics::routes(&auth, &audit_push),
        };
        let site = SiteOrigin {
            tls: tls.is_some(),
            insecure_cookies: config.insecure_cookies,
            public_url: config.short_urls.public_url.clone(),
        };
        let control_plane = crate::control::router::handler(Arc::clone(&context), site, control_routers);
        let mut server = Self {
            address: listener.local_addr()?,
            control_address: control_listener.as_ref().map(TcpListener::local_addr).transpose()?,
            context,
            control_plane,
            api,
            auth,
            store,
            tls,
            phase: watch::Sender::new(Phase::Running),
            acceptors: Vec::new(),
            background_tasks: Vec::new(),
            clicks,
            threads: Vec::new(),
            control,
            signing_key,
            audit_push,
            config,
            clock,
        };
        server.start_background_tasks();
        server.open_listeners(listener, control_listener)?;
        Ok(server)
    }

    /// How often the OpenID provider's keys were asked for.
    pub fn key_fetches(&self) -> u64 {
        self.auth.oidc.as_ref().map_or(0, Oidc::key_fetches)
    }

    fn open_listeners(
        &mut self,
        listener: TcpListener,
        control_listener: Option<TcpListener>,
    ) -> Result<(), ServeError> {
        let limits = ConnectionLimits::new(&self.config.connections, acceptor::connection_limit());
        let (limits, control_limits) =
            if control_listener.is_some() { limits.split() } else { (limits, limits) };
        let threads = self.config.threads;
        let apart = control_listener.is_some() || !self.config.serve_admin;
        self.listen(
            listener,
            if apart { ListenerRole::PublicOnly } else { ListenerRole::Combined },
            threads,
            limits,
        )?;
        if let Some(listener) = control_listener {
            self.listen(listener, ListenerRole::AdminOnly, 1, control_limits)?;
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if let Some(address) = self.control_address {
            tracing::info!("serving what is not for the public on {scheme}://{address}");
        }
        tracing::info!(threads, "serving redirects on {scheme}://{}", self.address);
        Ok(())
    }

    fn listen(
        &mut self,
        listener: TcpListener,
        role: ListenerRole,
        threads: usize,
        limits: ConnectionLimits,
    ) -> Result<(), ServeError> {
        let (tls, phase) = (self.tls.as_ref(), self.phase.subscribe());
        let hsts = self.config.hsts_seconds;
        let hsts = (tls.is_some() && hsts > 0).then(|| format!("max-age={hsts}"));
        let hsts = hsts.map(|value| HeaderValue::from_str(&value).expect("a number is a header value"));
        let threads = ServingThreads::start(
            &ListenerSettings { role, threads, limits, hsts },
            &self.context,
            &self.control_plane,
            tls,
            &phase,
            &self.api.ops.random,
        )?;
        let threads = Arc::new(threads);
        let (accepting, context, phase) =
            (Arc::clone(&threads), Arc::clone(&self.context), self.phase.subscribe());
        self.acceptors.push(self.control.spawn(async move {
            if let Err(error) = accepting.accept_loop(listener, &context, phase).await {
                tracing::error!(%error, "no more connections can be accepted");
            }
        }));
        self.threads.push(threads);
        Ok(())
    }

    fn start_background_tasks(&mut self) {
        let routes = Arc::clone(&self.context.routes);
        let following = rlinks_routes::feed_follower::run(
            self.store.clone(),
            routes,
            self.config.short_urls.base_domain.clone(),
        );
        self.background_tasks.push(self.control.spawn(following));
        let (ops, key, push) = (self.api.ops.clone(), self.signing_key.clone(), Arc::clone(&self.audit_push));
        self.background_tasks.push(self.control.spawn(async move {
            loop {
                write_checkpoint(&ops, &key, &push).await;
                tokio::time::sleep(CHECKPOINT_INTERVAL).await;
            }
        }));
        let push = Arc::clone(&self.audit_push);
        self.background_tasks.push(self.control.spawn(async move { push.run().await }));
        let ops = self.api.ops.clone();
        self.background_tasks.push(self.control.spawn(async move { ops.watch_shared_keys().await }));
        let (archive, clicks) = (self.config.archive.clone(), Arc::clone(&self.clicks));
        let jobs = crate::process::scheduler::run(self.api.ops.clone(), archive, clicks);
        self.background_tasks.push(self.control.spawn(jobs));
        self.background_tasks.push(self.control.spawn(Arc::clone(&self.api).run()));
        let auth = Arc::clone(&self.auth);
        self.background_tasks.push(self.control.spawn(async move { auth.run().await }));
        let ops = self.api.ops.clone();
        self.background_tasks.push(self.control.spawn(async move { ops.keep_limit_uses().await }));
        let watching = self.api.ops.clone().poll_blocklist();
        self.background_tasks.push(self.control.spawn(watching));
        if let Some(tls) = &self.tls {
            self.background_tasks.push(self.control.spawn(Arc::clone(tls).watch_files()));
        }
    }

    /// The address at which the first admin is made, where there is none yet and pages are served at all. Addresses given out before
    /// no longer work.
    pub fn create_setup_url(&self) -> Option<String> {
        self.control.block_on(self.setup_url())
    }

    async fn setup_url(&self) -> Option<String> {
        if self.control_address.is_none() && !self.config.serve_admin {
            return None;
        }
        let base = match self.control_address {
            None => self.config.short_urls.base_url(),
            Some(address) => self.config.short_urls.listener_url(address),
        };
        match self.api.ops.create_setup_token().await {
            Ok(token) => token.map(|token| format!("{base}/admin/setup?token={token}")),
            Err(error) => {
                tracing::error!(%error, "the first admin cannot be set up");
                None
            }
        }
    }

    /// What SIGHUP does: reads configuration, certificate and block list again; what is broken leaves the old in force.
    pub fn reload(&self, reload: &Reload) {
        match reload() {
            Ok(fresh) => {
                self.context.reloadable.store(Arc::new(fresh));
                tracing::info!("the configuration was read again");
            }
            Err(error) => {
                self.context.metrics.failed_reloads.fetch_add(1, Ordering::Relaxed);
                tracing::error!(error, "the old configuration stays in force");
            }
        }
        if let Some(tls) = &self.tls {
            tls.reload();
        }
        let ops = self.api.ops.clone();
        self.control.spawn(async move { ops.reload_blocklist().await });
    }

    /// Drains and ends: readiness goes first, then the listener, then the connections, then their clicks, then everything.
    pub fn stop(self) {
        tracing::info!("draining");
        let began_ms = self.clock.monotonic_ms();
        self.context.drain();
        self.control.block_on(async {
            tokio::time::sleep(UNREADY_DELAY).await;
            self.phase.send_replace(Phase::Draining);
            self.api.close_streams();
            for acceptor in self.acceptors {
                let _ = acceptor.await;
            }
            let all_ended = async {
                while !self.threads.iter().all(|threads| threads.are_idle()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            if tokio::time::timeout(DRAIN_TIMEOUT, all_ended).await.is_err() {
                tracing::warn!("some connections did not end in time and are cut off");
            }
        });
        // What is not stored in time is in the journal, and the next start stores it.
        let gone = Duration::from_millis(self.clock.monotonic_ms() - began_ms);
        self.context
            .click_pipeline
            .stop((UNREADY_DELAY + DRAIN_TIMEOUT).saturating_sub(gone).max(STORE_CLOSE_TIMEOUT / 2));
        self.control.block_on(async {
            for follower in &self.background_tasks {
                follower.abort();
            }
            // A store that does not answer must not hold up the end.
            let _ = tokio::time::timeout(STORE_CLOSE_TIMEOUT, async {
                self.auth.flush().await;
                for follower in self.background_tasks {
                    let _ = follower.await;
                }
                // Only now: a write that was cut off has given its uses back.
                self.api.ops.save_limit_uses().await;
                if let Some(clicks) = self.clicks.get() {
                    clicks.close().await;
                }
                write_checkpoint(&self.api.ops, &self.signing_key, &self.audit_push).await;
                self.store.close().await;
            })
            .await;
        });
        tracing::info!("stopped");
        self.control.shutdown_background();
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    acceptor::bind(address).map_err(|error| ServeError::Listen(error.to_string()))
}

/// Begins to record clicks.
fn start_click_pipeline(
    config: &Config,
    store: &Store,
    clock: &Clock,
    random: &Random,
    control: &Handle,
) -> Result<ClickPipeline, ServeError> {
    let clock = clock.clone();
    let options = pipeline::PipelineOptions {
        store: store.location().clone(),
        data: config.data.clone(),
        budget_bytes: config.journal_bytes,
        sync: config.journal_sync,
        geoip: config.geoip.clone(),
        random: random.clone(),
        now: Arc::new(move || clock.now()),
    };
    Ok(ClickPipeline::start(options, store.clone(), control.clone())?)
}

/// What signing in needs; with an OpenID provider, where one is configured.
async fn build_auth(config: &Config, ops: &Ops, routes: &Arc<RouteCache>) -> Result<Auth, ServeError> {
    let mut oidc = None;
    if let Some(settings) = config.oidc.clone() {
        let made = Oidc::new(settings, ops.clone()).await;
        oidc = Some(made.map_err(|error| ServeError::Oidc(error.to_string()))?);
    }
    Ok(Auth::new(ops.clone(), oidc, Arc::clone(routes)).await)
}

/// Signs the heads that moved, appends them to the log, and sends them elsewhere. Trouble is logged; it stops nothing.
async fn write_checkpoint(ops: &Ops, key: &SigningKey, push: &AuditPush) {
    match ops.sign_heads(key).await {
        Ok(heads) => push.publish(heads),
        Err(error) => tracing::warn!(%error, "the audit heads could not be signed"),
    }
}

/// The key that signs audit heads. One that was configured must be there before anything is served.
fn load_signing_key(config: &Config) -> Result<SigningKey, ServeError> {
    let key = SigningKey::new(&config.data, config.audit_key.clone());
    if config.audit_key != SigningKeySource::DataFolder {
        key.require()?;
    }
    Ok(key)
}
