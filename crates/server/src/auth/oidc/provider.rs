//! What we know of the issuer, and when it is asked again.
//!
//! Keys are renewed every ten minutes, and at once when a token names one we do not have: the issuer may have changed its keys. Since
//! anybody can name a key, all asking together happens at most every thirty seconds, and a name the issuer did not know is remembered
//! for a while. An issuer that is away, or talks nonsense, changes nothing: what it said before is good for a day.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use rlinks_core::Timestamp;
use rlinks_core::time::{DAY_MS, HOUR_MS};
use url::Url;

use super::Algorithm;
use super::jwks::{self, Key, Keys};
use super::token::TokenError;
use crate::auth::oidc::metadata::{ProviderMetadata, discover};
use rlinks_ops::outbound::{AddressRule, OutboundClient, OutboundError, OutboundRules};
use rlinks_store::clock::Clock;

/// What an issuer says, it says at its own address: no redirect is followed.
const RULES: OutboundRules = OutboundRules {
    connect_timeout: Duration::from_secs(1),
    timeout: Duration::from_secs(5),
    max_response_bytes: 1 << 20,
    max_redirects: 0,
    addresses: AddressRule::OperatorConfigured,
};
/// Between two times the issuer is asked, whatever for.
const MIN_FETCH_INTERVAL_MS: i64 = 30_000;
/// Keys older than this are asked for anew, while they go on being used.
const KEY_REFRESH_INTERVAL_MS: i64 = 10 * 60_000;
/// Doors change less often than keys.
const METADATA_REFRESH_INTERVAL_MS: i64 = HOUR_MS;
/// What an issuer said this long ago is not believed any more.
const MAX_CACHE_AGE_MS: i64 = DAY_MS;
/// Names of keys the issuer does not have, and how long each is remembered.
const MAX_UNKNOWN_KIDS: usize = 128;
const UNKNOWN_KID_TTL_MS: i64 = 5 * 60_000;
/// Between two looks whether keys are due.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Why a token's key is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The issuer has no such key.
    Unknown,
    /// We know no keys at all, and the issuer does not answer.
    Unavailable,
}

impl From<TokenError> for KeyError {
    fn from(_: TokenError) -> Self {
        Self::Unknown
    }
}

/// The issuer as far as we know it.
pub struct Issuer {
    name: String,
    algorithms: Vec<Algorithm>,
    /// How it is asked.
    pub client: OutboundClient,
    clock: Clock,
    cache: RwLock<ProviderCache>,
    /// Held during a refresh; other callers wait for its result.
    refresh_lock: tokio::sync::Mutex<()>,
    fetches: AtomicU64,
}

#[derive(Default)]
struct ProviderCache {
    metadata: Option<(Arc<ProviderMetadata>, Timestamp)>,
    keys: Option<(Arc<Keys>, Timestamp)>,
    tried_at: Option<Timestamp>,
    unknown: VecDeque<(String, Timestamp)>,
    last_error: Option<String>,
}

impl Issuer {
    /// Nothing is asked yet.
    pub fn new(name: &str, algorithms: &[Algorithm], clock: Clock) -> Result<Self, OutboundError> {
        let url = Url::parse(name).map_err(|_| OutboundError::Malformed("`oidc.issuer` is no address"))?;
        Ok(Self {
            name: name.to_owned(),
            algorithms: algorithms.to_vec(),
            client: OutboundClient::new(&url, RULES)?,
            clock,
            cache: RwLock::default(),
            refresh_lock: tokio::sync::Mutex::default(),
            fetches: AtomicU64::new(0),
        })
    }

    /// Probes the provider once and returns how many of its keys are usable.
    pub async fn probe(&self) -> Result<usize, OutboundError> {
        Ok(self.fetch_keys(self.clock.now()).await?.len())
    }

    /// How often its keys were asked for.
    pub fn key_fetches(&self) -> u64 {
        self.fetches.load(Ordering::Relaxed)
    }

    /// Keeps the keys young. Until the task is dropped.
    pub async fn run(&self) {
        loop {
            self.refresh_if_due().await;
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Asks for keys that are due.
    async fn refresh_if_due(&self) {
        if self.is_due() {
            let _one_at_a_time = self.refresh_lock.lock().await;
            if self.is_due() {
                self.refresh().await;
            }
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.now();
        let known = self.cache.read();
        known.keys.as_ref().is_none_or(|(_, at)| !is_within(now, *at, KEY_REFRESH_INTERVAL_MS))
            && known.may_fetch(now)
    }

    /// Where its doors are.
    pub async fn metadata(&self) -> Result<Arc<ProviderMetadata>, OutboundError> {
        for _ in 0..2 {
            if let Some(metadata) = self.cache.read().metadata(self.clock.now()) {
                return Ok(metadata);
            }
            let _one_at_a_time = self.refresh_lock.lock().await;
            let known = self.cache.read().metadata(self.clock.now());
            if known.is_none() && self.cache.read().may_fetch(self.clock.now()) {
                self.refresh().await;
            }
        }
        let trouble = self.cache.read().last_error.clone();
        Err(OutboundError::Unreachable(
            trouble.unwrap_or_else(|| "it did not answer a moment ago".to_owned()),
        ))
    }

    /// The key of this name.
    pub async fn key(self: &Arc<Self>, kid: &str) -> Result<Arc<Key>, KeyError> {
        let found = self.cache.read().find(kid, self.clock.now());
        if self.is_due() && !matches!(found, KeyLookup::NoKeySet) {
            let issuer = Arc::clone(self);
            tokio::spawn(async move { issuer.refresh_if_due().await });
        }
        match found {
            KeyLookup::Found(key) => return Ok(key),
            KeyLookup::KnownMissing => return Err(KeyError::Unknown),
            KeyLookup::NotInKeySet if !self.cache.read().may_fetch(self.clock.now()) => {
                return Err(KeyError::Unknown);
            }
            KeyLookup::NotInKeySet | KeyLookup::NoKeySet => {}
        }
        let _one_at_a_time = self.refresh_lock.lock().await;
        // Another caller may have refreshed while we waited.
        let now = self.clock.now();
        let found = self.cache.read().find(kid, now);
        match found {
            KeyLookup::Found(key) => Ok(key),
            KeyLookup::KnownMissing => Err(KeyError::Unknown),
            KeyLookup::NotInKeySet if !self.cache.read().may_fetch(now) => Err(KeyError::Unknown),
            KeyLookup::NoKeySet if !self.cache.read().may_fetch(now) => Err(KeyError::Unavailable),
            KeyLookup::NotInKeySet | KeyLookup::NoKeySet => {
                let has_answered = self.refresh().await;
                let mut known = self.cache.write();
                match known.find(kid, now) {
                    KeyLookup::Found(key) => Ok(key),
                    KeyLookup::NoKeySet => Err(KeyError::Unavailable),
                    KeyLookup::NotInKeySet | KeyLookup::KnownMissing => {
                        if has_answered {
                            known.remember_unknown(kid, now);
                        }
                        Err(KeyError::Unknown)
                    }
                }
            }
        }
    }

    /// Asks for what is due, under the lock. Says whether there are new keys.
    async fn refresh(&self) -> bool {
        let now = self.clock.now();
        self.cache.write().tried_at = Some(now);
        let trouble = match self.fetch_keys(now).await {
            Ok(keys) => {
                let mut known = self.cache.write();
                known.keys = Some((Arc::new(keys), now));
                known.unknown.clear();
                known.last_error = None;
                return true;
            }
            Err(error) => error.to_string(),
        };
        tracing::warn!(issuer = self.name, trouble, "the OpenID provider was asked for its keys in vain");
        self.cache.write().last_error = Some(trouble);
        false
    }

    async fn fetch_keys(&self, now: Timestamp) -> Result<Keys, OutboundError> {
        let old = self.cache.read().metadata.clone();
        let metadata = match old {
            Some((metadata, at)) if is_within(now, at, METADATA_REFRESH_INTERVAL_MS) => metadata,
            old => match discover(&self.client, &self.name).await {
                Ok(fresh) => {
                    let fresh = Arc::new(fresh);
                    self.cache.write().metadata = Some((Arc::clone(&fresh), now));
                    fresh
                }
                // The keys may be where they were.
                Err(error) => old.map(|(metadata, _)| metadata).ok_or(error)?,
            },
        };
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let body = self.client.get_json(&metadata.jwks_uri, None).await?;
        jwks::parse(&body, &self.algorithms).map_err(OutboundError::Malformed)
    }
}

/// What a name of a key leads to.
enum KeyLookup {
    Found(Arc<Key>),
    /// There are keys, and this one is not among them.
    NotInKeySet,
    /// The same, and the issuer was asked for it.
    KnownMissing,
    /// There are no keys that may be used.
    NoKeySet,
}

impl ProviderCache {
    fn metadata(&self, now: Timestamp) -> Option<Arc<ProviderMetadata>> {
        self.metadata
            .as_ref()
            .filter(|(_, at)| is_within(now, *at, MAX_CACHE_AGE_MS))
            .map(|(metadata, _)| Arc::clone(metadata))
    }

    fn find(&self, kid: &str, now: Timestamp) -> KeyLookup {
        let Some((keys, _)) = self.keys.as_ref().filter(|(_, at)| is_within(now, *at, MAX_CACHE_AGE_MS))
        else {
            return KeyLookup::NoKeySet;
        };
        if let Some(key) = keys.get(kid) {
            return KeyLookup::Found(Arc::clone(key));
        }
        let is_refused =
            self.unknown.iter().any(|(name, at)| name == kid && is_within(now, *at, UNKNOWN_KID_TTL_MS));
        if is_refused { KeyLookup::KnownMissing } else { KeyLookup::NotInKeySet }
    }

    /// Whether the last time was long enough ago.
    fn may_fetch(&self, now: Timestamp) -> bool {
        self.tried_at.is_none_or(|at| !is_within(now, at, MIN_FETCH_INTERVAL_MS))
    }

    fn remember_unknown(&mut self, kid: &str, now: Timestamp) {
        if self.unknown.len() >= MAX_UNKNOWN_KIDS {
            self.unknown.pop_front();
        }
        self.unknown.push_back((kid.to_owned(), now));
    }
}

/// Whether `at` is less than so long ago. A clock that was set back has forgotten when it was.
fn is_within(now: Timestamp, at: Timestamp, ms: i64) -> bool {
    (0..ms).contains(&now.ms().saturating_sub(at.ms()))
}
