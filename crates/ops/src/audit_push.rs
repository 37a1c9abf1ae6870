//! The signed ends of the audit chains, sent elsewhere: to a webhook, a bucket, or syslog. Whoever can write the data folder can write
//! its log of heads anew; what was sent away they can't.
//!
//! Only the newest heads matter, so nothing queues up: a destination that was away gets what holds when it is back. It delays nothing.

mod syslog;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rlinks_clicks::export::destination::{Destination, OpenDestination};
use rlinks_core::audit::Head;
use rlinks_store::audit::checkpoints::PublishedHeads;
use rlinks_store::database::atomic_file::Overwrite;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use self::syslog::Syslog;
use crate::outbound::{AddressRule, OutboundClient, OutboundRules};

const WEBHOOK_RULES: OutboundRules = OutboundRules {
    connect_timeout: Duration::from_secs(10),
    timeout: Duration::from_secs(30),
    max_response_bytes: 64 * 1024,
    max_redirects: 0,
    addresses: AddressRule::OperatorConfigured,
};
/// For anything, whatever its own deadlines.
const SEND_TIMEOUT: Duration = Duration::from_mins(2);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_mins(5);

/// Where heads are sent, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushDestination {
    /// They are posted here as JSON.
    Webhook(Url),
    /// Each time an object of its own below this name.
    Bucket(Destination),
    Syslog(Syslog),
}

impl PushDestination {
    /// `https://...`, `s3://bucket/folder/`, or `syslog://host:514`, `syslog+tcp://host:601`, `syslog+unix:///dev/log`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            "must be like https://example.com/hook, s3://bucket/folder/, syslog://host:514, syslog+tcp://host:601 or syslog+unix:///dev/log"
                .to_owned()
        };
        if let Some(syslog) = Syslog::parse(text) {
            return Ok(Self::Syslog(syslog));
        }
        if text.starts_with("s3://") {
            let folder = if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
            return Destination::parse(&folder).map(Self::Bucket).map_err(|error| error.to_string());
        }
        let url =
            Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        url.map(Self::Webhook).ok_or_else(wrong)
    }

    /// What kind it is, for counters.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Bucket(_) => "s3",
            Self::Syslog(_) => "syslog",
        }
    }

    /// For logs and `--print-config`. The path of a webhook is often its secret.
    pub fn describe(&self) -> String {
        match self {
            Self::Webhook(url) => format!("{}://{}/***", url.scheme(), url.host_str().unwrap_or_default()),
            Self::Bucket(bucket) => bucket.to_string(),
            Self::Syslog(syslog) => syslog.to_string(),
        }
    }

    fn open(&self, options: &[(String, String)]) -> Result<Target, String> {
        let sender = match self {
            Self::Webhook(url) => {
                let client = OutboundClient::new(url, WEBHOOK_RULES).map_err(|error| error.to_string())?;
                Sender::Webhook(client, url.clone())
            }
            Self::Bucket(bucket) => {
                // Buckets with object lock want a checksum with every object.
                let checksum = ("AWS_CHECKSUM_ALGORITHM".to_owned(), "sha256".to_owned());
                let options: Vec<_> = std::iter::once(checksum).chain(options.iter().cloned()).collect();
                Sender::Bucket(bucket.open(&options).map_err(|error| error.to_string())?)
            }
            Self::Syslog(syslog) => Sender::Syslog(syslog.clone(), Mutex::default()),
        };
        Ok(Target {
            kind: self.kind(),
            name: self.describe(),
            sender,
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }
}

/// A destination at work.
struct Target {
    kind: &'static str,
    name: String,
    sender: Sender,
    sent: AtomicU64,
    failed: AtomicU64,
}

enum Sender {
    Webhook(OutboundClient, Url),
    Bucket(OpenDestination),
    /// With the heads it has: each is a message of its own, so only those that moved are sent.
    Syslog(Syslog, Mutex<Vec<Head>>),
}

impl Target {
    async fn send(&self, heads: &PublishedHeads) -> Result<(), String> {
        match &self.sender {
            Sender::Webhook(client, url) => {
                let sent = client.post_json(url, to_line(heads)).await;
                let status = sent.map_err(|error| error.to_string())?.status();
                if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
            }
            Sender::Bucket(bucket) => {
                let put = async {
                    let mut object = bucket.begin(Some(&object_name(heads)), Overwrite::Replace).await?;
                    object.write(to_line(heads).as_bytes()).await?;
                    object.finish().await
                };
                put.await.map_err(|error| error.to_string())
            }
            Sender::Syslog(syslog, known) => {
                let moved: Vec<_> = {
                    let known = known.lock();
                    heads.checkpoints.iter().filter(|checkpoint| !known.contains(&checkpoint.head)).collect()
                };
                syslog.send(heads, &moved).await.map_err(|error| error.to_string())?;
                *known.lock() = heads.checkpoints.iter().map(|checkpoint| checkpoint.head.clone()).collect();
                Ok(())
            }
        }
    }

    async fn run(self: Arc<Self>, mut newest: watch::Receiver<Option<Arc<PublishedHeads>>>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let heads = newest.borrow_and_update().clone();
            if let Some(heads) = heads {
                let sent = tokio::time::timeout(SEND_TIMEOUT, self.send(&heads)).await;
                if let Err(error) = sent.unwrap_or_else(|_| Err("it did not answer in time".to_owned())) {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(
                        to = self.name,
                        error,
                        "the audit heads could not be pushed; trying again"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                    continue;
                }
                self.sent.fetch_add(1, Ordering::Relaxed);
                pause = FIRST_PAUSE;
            }
            if newest.changed().await.is_err() {
                return;
            }
        }
    }
}

/// What was sent to the destinations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushCount {
    pub kind: &'static str,
    pub sent: u64,
    pub failed: u64,
}

/// Sends heads to every destination.
pub struct AuditPush {
    targets: Vec<Arc<Target>>,
    newest: watch::Sender<Option<Arc<PublishedHeads>>>,
}

impl AuditPush {
    /// `options` are the usual `AWS_` variables. A destination that can't be right is an error; one that is away isn't.
    pub fn new(destinations: &[PushDestination], options: &[(String, String)]) -> Result<Self, String> {
        let targets: Result<Vec<_>, String> = destinations
            .iter()
            .map(|to| to.open(options).map(Arc::new).map_err(|error| format!("{}: {error}", to.describe())))
            .collect();
        Ok(Self { targets: targets?, newest: watch::Sender::new(None) })
    }

    /// These are the heads now. What was published before is not sent again.
    pub fn publish(&self, heads: PublishedHeads) {
        let ends = |heads: &PublishedHeads| {
            heads.checkpoints.iter().map(|checkpoint| checkpoint.head.clone()).collect::<Vec<_>>()
        };
        self.newest.send_if_modified(|newest| {
            let is_news = newest
                .as_ref()
                .is_none_or(|known| ends(known) != ends(&heads) || known.fingerprint != heads.fingerprint);
            if is_news {
                *newest = Some(Arc::new(heads));
            }
            is_news
        });
    }

    /// Sends, until the task is dropped.
    pub async fn run(&self) {
        let mut running = JoinSet::new();
        for target in &self.targets {
            running.spawn(Arc::clone(target).run(self.newest.subscribe()));
        }
        while running.join_next().await.is_some() {}
    }

    /// How often it worked and how often not, for each kind of destination there is.
    pub fn counts(&self) -> Vec<PushCount> {
        let mut counts: Vec<PushCount> = Vec::new();
        for target in &self.targets {
            let (sent, failed) = (target.sent.load(Ordering::Relaxed), target.failed.load(Ordering::Relaxed));
            match counts.iter_mut().find(|count| count.kind == target.kind) {
                Some(count) => (count.sent, count.failed) = (count.sent + sent, count.failed + failed),
                None => counts.push(PushCount { kind: target.kind, sent, failed }),
            }
        }
        counts
    }
}

/// One line, which `rmax audit verify --checkpoint` reads as it is.
fn to_line(heads: &PublishedHeads) -> String {
    let mut line = serde_json::to_string(heads).expect("heads are JSON");
    line.push('\n');
    line
}

/// Sorted by time, and another one for other heads.
fn object_name(heads: &PublishedHeads) -> String {
    let digest = Sha256::digest(to_line(heads).as_bytes());
    format!("audit-heads-{}-{}.json", heads.ts.ms(), rlinks_core::hex::encode(&digest[..4]))
}
