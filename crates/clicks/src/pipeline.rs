//! Recording in a running server: the journal and its keeper, and the threads that take clicks to the database.
//!
//! Storing is background work: its thread has a low priority, and while redirects keep all processors busy it pauses, so that they come
//! first and clicks wait in the journal. They must not wait for ever either: when a quarter of the journal's budget is waiting it pauses no
//! more, and at half of it a second thread without that modesty helps. That one also stores what is left when the server stops: there is a
//! deadline for it, and the modest thread may get no time at all.

pub(crate) mod cpu_load;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex as Lock;
use rlinks_core::Timestamp;
use rlinks_store::clock::Random;
use rlinks_store::{Location, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::database::ClickStore;
use crate::ingest::{Ingest, max_batch_entries};
use crate::journal::{self, Journal, JournalMaintenance, Reader};
use crate::misses::MissCounter;
use crate::pipeline::cpu_load::CpuTimes;
use crate::recorder::Recorder;
use crate::visitor_secrets::VisitorSecrets;

/// How long clicks wait for company.
const INGEST_INTERVAL: Duration = Duration::from_millis(200);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses between two looks at what does not come with clicks.
const INTERVALS_PER_MAINTENANCE: u32 = 5;
/// How long a start waits for the secrets other nodes may know.
const SECRETS_TIMEOUT: Duration = Duration::from_secs(3);
/// The lowest priority there is: what nobody else wants of the processors, and a hundredth of their time when everybody does.
const BACKGROUND_NICENESS: i32 = 19;
/// Between two looks at whether help is needed.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(1);
/// In a rush, a batch is followed by a pause so many times as long as it took, and no longer than this: statistics lag, but they move.
const SATURATED_PAUSE_FACTOR: u32 = 8;
const MAX_SATURATED_PAUSE: Duration = Duration::from_secs(3);
/// How long a look at the processors takes.
const CPU_SAMPLE_TIME: Duration = Duration::from_millis(100);

pub type NowFn = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How clicks are recorded.
pub struct PipelineOptions {
    /// The store they belong to.
    pub store: Location,
    /// The data folder: journal and secrets.
    pub data: PathBuf,
    /// What the journal may take on the disk.
    pub budget_bytes: u64,
    /// When the journal is synced.
    pub sync: journal::SyncPolicy,
    /// A file of places.
    pub geoip: Option<PathBuf>,
    /// Where randomness comes from.
    pub random: Random,
    /// What time it is.
    pub now: NowFn,
}

/// Clicks being recorded. Dropping it stops at once and leaves the rest in the journal; [`stop`](Self::stop) stores it first.
pub struct ClickPipeline {
    shared: Arc<PipelineState>,
    ended: Lock<Receiver<()>>,
    catch_up_thread: std::thread::Thread,
    maintenance: Lock<Option<JournalMaintenance>>,
}

struct PipelineState {
    location: Location,
    journal: Arc<Journal>,
    secrets: Arc<VisitorSecrets>,
    misses: Arc<MissCounter>,
    now: NowFn,
    ingest: Mutex<Ingest>,
    stopping: AtomicBool,
    /// What is left is stored before it ends.
    finishing: AtomicBool,
    wake: Notify,
    stored: AtomicU64,
    last_error: Lock<Option<String>>,
}

impl ClickPipeline {
    /// Starts recording. `control` is the runtime `store` was opened on. A database of clicks that cannot be opened does not
    /// keep anybody from recording: the journal holds the clicks until it can.
    pub fn start(options: PipelineOptions, store: Store, control: Handle) -> std::io::Result<Self> {
        let now = options.now;
        let boot = u64::from_le_bytes(options.random.bytes());
        let secrets = VisitorSecrets::open(&options.store, &options.data, options.random, now())?;
        let journal = Journal::open(journal::JournalOptions {
            data: options.data,
            budget_bytes: options.budget_bytes,
            sync: options.sync,
            boot,
        })?;
        let maintenance = JournalMaintenance::start(&journal)?;
        let misses = Arc::new(MissCounter::default());
        let ingest = Ingest::new(store, control, Reader::live(&journal), options.geoip, Arc::clone(&misses))
            .with_drop_counting(&journal);
        let shared = Arc::new(PipelineState {
            location: options.store,
            journal,
            secrets,
            misses,
            now,
            ingest: Mutex::new(ingest),
            stopping: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            wake: Notify::new(),
            stored: AtomicU64::new(0),
            last_error: Lock::new(None),
        });
        let (ready, is_ready) = sync_channel(1);
        // Nothing is sent: it is over when both have dropped their ends.
        let (end, ended) = sync_channel::<()>(1);
        let help_end = end.clone();
        let storing = Arc::clone(&shared);
        std::thread::Builder::new().name("clicks".to_owned()).spawn(move || {
            lower_priority();
            storing.run(&ready);
            drop(end);
        })?;
        let helped = Arc::clone(&shared);
        let helping = std::thread::Builder::new().name("clicks-help".to_owned()).spawn(move || {
            helped.catch_up();
            drop(help_end);
        })?;
        if matches!(shared.location, Location::Postgres(_)) {
            let _ = is_ready.recv_timeout(SECRETS_TIMEOUT);
        }
        let helping = helping.thread().clone();
        Ok(Self {
            shared,
            ended: Lock::new(ended),
            catch_up_thread: helping,
            maintenance: Lock::new(Some(maintenance)),
        })
    }

    /// A recorder for another serving thread.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.shared.journal.new_writer(), Arc::clone(&self.shared.secrets))
    }

    /// Where codes nobody has are counted.
    pub fn misses(&self) -> Arc<MissCounter> {
        Arc::clone(&self.shared.misses)
    }

    pub fn journal(&self) -> &Arc<Journal> {
        &self.shared.journal
    }

    /// The clicks stored so far, those that others left included.
    pub fn stored(&self) -> u64 {
        self.shared.stored.load(Ordering::Relaxed)
    }

    /// Why clicks are not being stored, while they are not.
    pub fn last_error(&self) -> Option<String> {
        self.shared.last_error.lock().clone()
    }

    /// What is wrong with recording, for whoever watches the server: clicks are dropped, or wait for their database.
    pub fn degraded_reason(&self) -> Option<&'static str> {
        if self.shared.journal.is_dropping() {
            return Some("clicks are not being recorded; redirects go on (the log says why)");
        }
        self.last_error().map(|_| "clicks cannot be stored; the journal holds them (the log says why)")
    }

    /// Stores what waits, for at most this long; what is left then is stored by the next start.
    pub fn stop(&self, at_most: Duration) {
        self.shared.finishing.store(true, Ordering::Release);
        self.signal_stop();
        if self.ended.lock().recv_timeout(at_most) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("some clicks are left in the journal; the next start stores them");
        }
        drop(self.maintenance.lock().take());
    }
}

impl ClickPipeline {
    fn signal_stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake.notify_one();
        self.catch_up_thread.unpark();
    }
}

impl Drop for ClickPipeline {
    fn drop(&mut self) {
        self.signal_stop();
    }
}

/// Lowers the priority of this thread, and of those it starts.
fn lower_priority() {
    if let Err(error) =
        rustix::process::setpriority_process(Some(rustix::thread::gettid()), BACKGROUND_NICENESS)
    {
        tracing::debug!(%error, "clicks are stored at the usual priority");
    }
}

fn runtime() -> Option<tokio::runtime::Runtime> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            tracing::error!(%error, "clicks cannot be stored; the journal holds them");
            None
        }
    }
}

impl PipelineState {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn run(&self, ready: &SyncSender<()>) {
        let Some(runtime) = runtime() else { return };
        // The tables of user agents are loaded here, and not by the first redirect.
        crate::enrich::user_agent::parse("warm");
        runtime.block_on(async {
            let Some(clicks) = self.open().await else { return };
            self.track_error(clicks.maintain_secrets(&self.secrets, (self.now)()).await);
            let _ = ready.try_send(());
            let mut pauses = 0_u32;
            while !self.is_stopping() {
                let (began, written) = (Instant::now(), self.journal.written());
                let stored = self.ingest_next_batch(&clicks).await;
                if self.track_error(stored).is_some_and(|stored| stored > 0) {
                    // Only who cannot keep up gives way: for everybody else it would be a delay.
                    if self.journal.written() - written > max_batch_entries(clicks.pool.dialect()) as u64 {
                        self.yield_to_redirects(began.elapsed() * SATURATED_PAUSE_FACTOR).await;
                    }
                    continue;
                }
                pauses = pauses.wrapping_add(1);
                if pauses.is_multiple_of(INTERVALS_PER_MAINTENANCE) {
                    let tended = self.maintain(&clicks, pauses / INTERVALS_PER_MAINTENANCE).await;
                    self.track_error(tended);
                }
                let pause = if self.last_error.lock().is_some() { RETRY_INTERVAL } else { INGEST_INTERVAL };
                let _ = tokio::time::timeout(pause, self.wake.notified()).await;
            }
            clicks.close().await;
        });
    }

    /// Leaves the processors to redirects while there is a rush, and the journal has room for their clicks.
    async fn yield_to_redirects(&self, at_most: Duration) {
        let until = Instant::now() + at_most.min(MAX_SATURATED_PAUSE);
        while Instant::now() < until && self.journal.pending_bytes() < self.journal.budget_bytes() / 4 {
            let before = CpuTimes::now();
            if tokio::time::timeout(CPU_SAMPLE_TIME, self.wake.notified()).await.is_ok() {
                return;
            }
            let is_saturated =
                before.zip(CpuTimes::now()).is_some_and(|(before, now)| now.saturated_since(&before));
            if !is_saturated {
                return;
            }
        }
    }

    /// Stores what is left at the end.
    async fn drain(&self) {
        let opened = ClickStore::open(&self.location).await;
        let Some(clicks) = self.track_error(opened) else { return };
        loop {
            let stored = self.ingest_next_batch(&clicks).await;
            if self.track_error(stored).is_none_or(|stored| stored == 0) {
                break;
            }
        }
        let tended = self.ingest.lock().await.maintain(&clicks, (self.now)()).await;
        self.track_error(tended);
        // The last connection to a file moves its log into it.
        clicks.close().await;
    }

    async fn ingest_next_batch(&self, clicks: &ClickStore) -> Result<usize, StoreError> {
        let stored = self.ingest.lock().await.ingest_next_batch(clicks, (self.now)()).await?;
        self.stored.fetch_add(stored as u64, Ordering::Relaxed);
        Ok(stored)
    }

    /// Once a second; the secrets once a minute.
    async fn maintain(&self, clicks: &ClickStore, seconds: u32) -> Result<(), StoreError> {
        let now = (self.now)();
        self.ingest.lock().await.maintain(clicks, now).await?;
        if seconds.is_multiple_of(60) {
            clicks.maintain_secrets(&self.secrets, now).await?;
        }
        Ok(())
    }

    /// Opens the clicks, however long it takes.
    async fn open(&self) -> Option<ClickStore> {
        loop {
            let opened = ClickStore::open(&self.location).await;
            match self.track_error(opened) {
                Some(clicks) => return Some(clicks),
                None if self.is_stopping() => return None,
                None => {
                    let _ = tokio::time::timeout(RETRY_INTERVAL, self.wake.notified()).await;
                }
            }
        }
    }

    /// Logs trouble when it begins and when it ends.
    fn track_error<T>(&self, outcome: Result<T, StoreError>) -> Option<T> {
        let mut last_error = self.last_error.lock();
        match outcome {
            Ok(value) => {
                if last_error.take().is_some() {
                    tracing::info!("clicks are stored again");
                }
                Some(value)
            }
            Err(error) => {
                let error = error.for_clicks();
                if last_error.is_none() {
                    tracing::error!(%error, "clicks cannot be stored; the journal holds them");
                }
                *last_error = Some(error.to_string());
                None
            }
        }
    }

    /// Helps when too much waits, and at the end.
    fn catch_up(&self) {
        let Some(runtime) = runtime() else { return };
        let budget = self.journal.budget_bytes();
        while !self.is_stopping() {
            if self.journal.pending_bytes() > budget / 2 && self.last_error.lock().is_none() {
                runtime.block_on(async {
                    let Ok(clicks) = ClickStore::open(&self.location).await else { return };
                    while self.journal.pending_bytes() > budget / 4 && !self.is_stopping() {
                        let stored = self.ingest_next_batch(&clicks).await;
                        if self.track_error(stored).is_none_or(|stored| stored == 0) {
                            break;
                        }
                    }
                    clicks.close().await;
                });
            }
            std::thread::park_timeout(CATCH_UP_INTERVAL);
        }
        if self.finishing.load(Ordering::Acquire) {
            runtime.block_on(self.drain());
        }
    }
}
