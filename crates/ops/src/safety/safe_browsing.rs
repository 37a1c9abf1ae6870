//! Google Safe Browsing, version 5, without a list of its own: `hashes.search` by the first four bytes of hashes.
//!
//! Google sees four bytes of the hash of each spelling of a target and never the target. What it answers is kept as long as it says,
//! also that nothing was found. Nothing is fetched from the target itself, and no redirect is followed. The key travels in a header, so
//! that no log of addresses has it.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use prost::Message;
use rlinks_core::Target;
use rlinks_core::time::DAY_MS;
use rlinks_core::two_generation_cache::TwoGenerationCache;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use url::Url;

use super::canonical::CanonicalUrl;
use crate::outbound::{AddressRule, OutboundClient, OutboundError, OutboundRules};
use rlinks_store::clock::Clock;

/// Where Google is asked.
pub const GOOGLE_API_URL: &str = "https://safebrowsing.googleapis.com/";
const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");
/// A question, waiting for its turn included, takes no longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions asked at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Prefixes in one question: Google allows 1,000, and an address must not become too long for what is in between.
const MAX_PREFIXES_PER_REQUEST: usize = 256;
const RULES: OutboundRules = OutboundRules {
    connect_timeout: REQUEST_TIMEOUT,
    timeout: REQUEST_TIMEOUT,
    max_response_bytes: 1 << 20,
    max_redirects: 0,
    addresses: AddressRule::OperatorConfigured,
};
/// Google's own bound of how long an answer may be kept.
const MAX_CACHE_MS: u64 = DAY_MS.unsigned_abs();
const MAX_CACHED_PREFIXES: usize = 1 << 17;
/// So many failures in a row, and nobody is asked for a while.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;
const BREAKER_OPEN_MS: u64 = 30_000;

type HashPrefix = [u8; 4];
type FullHash = [u8; 32];

/// Where and with what Google is asked.
#[derive(Clone)]
pub struct SafeBrowsingConfig {
    /// The key of a project. A secret.
    pub key: String,
    /// [`GOOGLE_API_URL`], or what stands in for it.
    pub url: Url,
}

impl std::fmt::Debug for SafeBrowsingConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// What a page is listed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threat {
    Malware,
    /// Pages that pretend to be others.
    SocialEngineering,
    UnwantedSoftware,
    HarmfulApplication,
}

impl Threat {
    /// As people say it.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Malware => "malware",
            Self::SocialEngineering => "social engineering (phishing)",
            Self::UnwantedSoftware => "unwanted software",
            Self::HarmfulApplication => "a potentially harmful application",
        }
    }

    /// What a detail says, where it counts for a page that somebody visits. Details with a value we do not know are passed over, as
    /// the protocol asks; so are trial entries and those for frames.
    fn from_detail(detail: &wire::Detail) -> Option<Self> {
        if !detail.attributes.is_empty() {
            return None;
        }
        match detail.threat_type {
            1 => Some(Self::Malware),
            2 => Some(Self::SocialEngineering),
            3 => Some(Self::UnwantedSoftware),
            4 => Some(Self::HarmfulApplication),
            _ => None,
        }
    }
}

/// What is known of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No list has it.
    NotListed,
    /// A list has it.
    Listed(Threat),
    /// Nobody could be asked, and why.
    Unknown(String),
}

pub struct SafeBrowsing {
    client: OutboundClient,
    question: Url,
    key: HeaderValue,
    request_slots: Semaphore,
    cache: Mutex<TwoGenerationCache<HashPrefix, CachedHashes, RandomState>>,
    breaker: Mutex<Breaker>,
    clock: Clock,
    requests_sent: AtomicU64,
}

impl SafeBrowsing {
    pub fn new(options: &SafeBrowsingConfig, clock: Clock) -> Result<Self, String> {
        let mut key = HeaderValue::from_str(&options.key)
            .map_err(|_| "safety.safe_browsing_key has characters no key has".to_owned())?;
        key.set_sensitive(true);
        let question = options
            .url
            .join("v5/hashes:search")
            .map_err(|_| "safety.safe_browsing_url cannot be used".to_owned())?;
        let client = OutboundClient::new(&question, RULES)
            .map_err(|error| format!("no client can be made: {error}"))?;
        Ok(Self {
            client,
            question,
            key,
            request_slots: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            cache: Mutex::new(TwoGenerationCache::new(MAX_CACHED_PREFIXES)),
            breaker: Mutex::default(),
            clock,
            requests_sent: AtomicU64::new(0),
        })
    }

    /// What is known of some targets, in their order. Asks at most `most` questions, and of what would take more nothing is known.
    pub async fn look_up(&self, targets: &[&Target], most: usize) -> Vec<Finding> {
        let hashes: Vec<Vec<FullHash>> = targets.iter().map(|target| hashes(target)).collect();
        let mut known: HashMap<HashPrefix, Vec<(FullHash, Threat)>> = HashMap::new();
        let mut wanted: Vec<HashPrefix> = Vec::new();
        {
            let (mut seen, cache, now_ms) = (HashSet::new(), self.cache.lock(), self.clock.monotonic_ms());
            for prefix in hashes.iter().flatten().map(prefix_of).filter(|prefix| seen.insert(*prefix)) {
                match cache.get(&prefix).filter(|found| now_ms < found.until_ms) {
                    Some(found) => drop(known.insert(prefix, found.hashes.clone())),
                    None => wanted.push(prefix),
                }
            }
        }
        let mut failure = None;
        for (number, question) in wanted.chunks(MAX_PREFIXES_PER_REQUEST).enumerate() {
            if number == most {
                failure = Some("enough was asked for now".to_owned());
                break;
            }
            match self.search_hashes(question).await {
                Ok(answers) => known.extend(answers),
                Err(why) => {
                    failure = Some(why);
                    break;
                }
            }
        }
        let finding = |hashes: &Vec<FullHash>| {
            let listed = hashes.iter().find_map(|hash| {
                let found = known.get(&prefix_of(hash))?;
                found.iter().find(|(full, _)| full == hash).map(|(_, threat)| *threat)
            });
            match (listed, &failure) {
                (Some(threat), _) => Finding::Listed(threat),
                (None, Some(why)) if hashes.iter().any(|hash| !known.contains_key(&prefix_of(hash))) => {
                    Finding::Unknown(why.clone())
                }
                (None, _) => Finding::NotListed,
            }
        };
        hashes.iter().map(finding).collect()
    }

    /// Questions that were asked since the start.
    pub fn requests_sent(&self) -> u64 {
        self.requests_sent.load(Ordering::Relaxed)
    }

    /// Asks about some prefixes and remembers the answer. Why not is for people: it holds no address and no key.
    async fn search_hashes(
        &self,
        prefixes: &[HashPrefix],
    ) -> Result<HashMap<HashPrefix, Vec<(FullHash, Threat)>>, String> {
        let question = BreakerPermit::acquire(&self.breaker, self.clock.monotonic_ms())?;
        self.requests_sent.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, async {
            let _turn =
                self.request_slots.acquire().await.map_err(|_| "the server is stopping".to_owned())?;
            self.fetch(prefixes).await
        });
        let answer = answer.await.unwrap_or_else(|_| Err("Safe Browsing did not answer in time".to_owned()));
        question.complete(answer.as_ref().err(), self.clock.monotonic_ms());
        let response = answer?;
        let mut found: HashMap<HashPrefix, Vec<(FullHash, Threat)>> =
            prefixes.iter().map(|prefix| (*prefix, Vec::new())).collect();
        for full in &response.full_hashes {
            let Ok(hash) = FullHash::try_from(full.full_hash.as_slice()) else { continue };
            let threat = full.details.iter().find_map(Threat::from_detail);
            if let (Some(threat), Some(list)) = (threat, found.get_mut(&prefix_of(&hash))) {
                list.push((hash, threat));
            }
        }
        let kept_ms = response.cache_duration.map_or(0, wire::Duration::ms).min(MAX_CACHE_MS);
        if kept_ms > 0 {
            let until_ms = self.clock.monotonic_ms() + kept_ms;
            let mut cache = self.cache.lock();
            for (prefix, hashes) in &found {
                cache.insert(*prefix, CachedHashes { hashes: hashes.clone(), until_ms });
            }
        }
        Ok(found)
    }

    async fn fetch(&self, prefixes: &[HashPrefix]) -> Result<wire::SearchHashesResponse, String> {
        let mut question = self.question.clone();
        {
            let mut pairs = question.query_pairs_mut();
            pairs.append_pair("alt", "proto");
            for prefix in prefixes {
                pairs.append_pair("hashPrefixes", &URL_SAFE_NO_PAD.encode(prefix));
            }
        }
        let headers = vec![(API_KEY_HEADER, self.key.clone())];
        let response = self.client.get(&question, headers).await.map_err(|error| trouble(&error))?;
        if response.status() != http::StatusCode::OK {
            return Err(format!("Safe Browsing answered {}", response.status().as_u16()));
        }
        let bytes = response.body().await.map_err(|error| trouble(&error))?;
        wire::SearchHashesResponse::decode(bytes.as_slice())
            .map_err(|_| "Safe Browsing answered something nobody can read".to_owned())
    }
}

/// For people: no address and no key.
fn trouble(error: &OutboundError) -> String {
    let why = match error {
        OutboundError::TimedOut => "did not answer in time",
        OutboundError::TooLong { .. } => "answered too much",
        _ => "cannot be reached",
    };
    tracing::debug!(%error, "Safe Browsing {why}");
    format!("Safe Browsing {why}")
}

fn hashes(target: &Target) -> Vec<FullHash> {
    let expressions = CanonicalUrl::from_target(target).expressions();
    expressions.iter().map(|expression| Sha256::digest(expression.as_bytes()).into()).collect()
}

fn prefix_of(hash: &FullHash) -> HashPrefix {
    let [a, b, c, d, ..] = *hash;
    [a, b, c, d]
}

#[derive(Clone)]
struct CachedHashes {
    hashes: Vec<(FullHash, Threat)>,
    until_ms: u64,
}

/// Whether Google is worth asking.
#[derive(Default)]
struct Breaker {
    failures: u32,
    /// Questions without an answer yet.
    in_flight: u32,
    open_until_ms: u64,
}

/// A question on its way. Dropping it unanswered says nothing about Google.
struct BreakerPermit<'a>(&'a Mutex<Breaker>);

impl<'a> BreakerPermit<'a> {
    fn acquire(breaker: &'a Mutex<Breaker>, now_ms: u64) -> Result<Self, String> {
        breaker.lock().try_acquire(now_ms)?;
        Ok(Self(breaker))
    }

    fn complete(self, failure: Option<&String>, now_ms: u64) {
        self.0.lock().record(failure, now_ms);
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

impl Breaker {
    /// Once there are failures, no more questions are open than it takes to know: so many asked at once cannot overshoot, and after
    /// a rest one question finds out for all.
    fn try_acquire(&mut self, now_ms: u64) -> Result<(), String> {
        let enough = self.failures > 0
            && self.in_flight > 0
            && self.failures + self.in_flight >= MAX_CONSECUTIVE_FAILURES;
        if enough || now_ms < self.open_until_ms {
            return Err(
                "Safe Browsing could not be asked several times and is left alone for a while".to_owned()
            );
        }
        self.in_flight += 1;
        Ok(())
    }

    fn record(&mut self, failure: Option<&String>, now_ms: u64) {
        let Some(why) = failure else {
            if self.failures >= MAX_CONSECUTIVE_FAILURES {
                tracing::info!("Safe Browsing answers again");
            }
            (self.failures, self.open_until_ms) = (0, 0);
            return;
        };
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MAX_CONSECUTIVE_FAILURES {
            if self.failures == MAX_CONSECUTIVE_FAILURES {
                tracing::warn!(
                    why,
                    "Safe Browsing cannot be asked; `safety.when_unavailable` says what that means"
                );
            }
            self.open_until_ms = now_ms + BREAKER_OPEN_MS;
        }
    }
}

/// What travels. Numbers as in Google's `google.security.safebrowsing.v5`; fields nobody here reads are left out.
pub mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct SearchHashesResponse {
        /// Every listed hash that begins with one of the prefixes.
        #[prost(message, repeated, tag = "1")]
        pub full_hashes: Vec<FullHash>,
        /// How long the answer is good, for all prefixes that were asked for.
        #[prost(message, optional, tag = "2")]
        pub cache_duration: Option<Duration>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FullHash {
        // SHA-256.
        #[prost(bytes = "vec", tag = "1")]
        pub full_hash: Vec<u8>,
        /// What it is listed for.
        #[prost(message, repeated, tag = "2")]
        pub details: Vec<Detail>,
    }

    /// What a hash is listed for.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Detail {
        /// Numbers from 1; others are to be passed over.
        #[prost(int32, tag = "1")]
        pub threat_type: i32,
        #[prost(int32, repeated, tag = "2")]
        pub attributes: Vec<i32>,
    }

    // `google.protobuf.Duration`.
    #[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
    pub struct Duration {
        #[prost(int64, tag = "1")]
        pub seconds: i64,
        /// And a part of one.
        #[prost(int32, tag = "2")]
        pub nanos: i32,
    }

    impl Duration {
        /// In milliseconds; nothing where it is negative.
        pub fn ms(self) -> u64 {
            let whole = u64::try_from(self.seconds).unwrap_or_default().saturating_mul(1000);
            whole.saturating_add(u64::try_from(self.nanos / 1_000_000).unwrap_or_default())
        }
    }
}
