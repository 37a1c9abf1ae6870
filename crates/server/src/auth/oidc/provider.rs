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
use url::Url;

use super::Algorithm;
use super::jwks::{self, Key, Keys};
use super::token::Refusal;
use crate::auth::oidc::metadata::{Discovery, discover};
use rlinks_ops::outbound::{Fetch, FetchError};
use rlinks_store::clock::Clock;

/// Between two times the issuer is asked, whatever for.
const PAUSE_MS: i64 = 30_000;
/// Keys older than this are asked for anew, while they go on being used.
const FRESH_MS: i64 = 10 * 60_000;
/// Doors change less often than keys.
const DOORS_FRESH_MS: i64 = 3_600_000;
/// What an issuer said this long ago is not believed any more.
const GOOD_MS: i64 = 24 * 3_600_000;
/// Names of keys the issuer does not have, and how long each is remembered.
const MOST_UNKNOWN: usize = 128;
const UNKNOWN_MS: i64 = 5 * 60_000;
/// Between two looks whether keys are due.
const LOOK: Duration = Duration::from_mins(1);

/// Why a token's key is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKey {
    /// The issuer has no such key.
    Unknown,
    /// We know no keys at all, and the issuer does not answer.
    Away,
}

impl From<Refusal> for NoKey {
    fn from(_: Refusal) -> Self {
        Self::Unknown
    }
}

/// The issuer as far as we know it.
pub struct Issuer {
    name: String,
    algorithms: Vec<Algorithm>,
    /// How it is asked.
    pub fetch: Fetch,
    clock: Clock,
    known: RwLock<Known>,
    /// Whoever holds it is asking; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
    fetches: AtomicU64,
}

#[derive(Default)]
struct Known {
    doors: Option<(Arc<Discovery>, Timestamp)>,
    keys: Option<(Arc<Keys>, Timestamp)>,
    tried_at: Option<Timestamp>,
    unknown: VecDeque<(String, Timestamp)>,
    trouble: Option<String>,
}

impl Issuer {
    /// Nothing is asked yet.
    pub fn new(name: &str, algorithms: &[Algorithm], clock: Clock) -> Result<Self, FetchError> {
        let url = Url::parse(name).map_err(|_| FetchError::Odd("`oidc.issuer` is no address"))?;
        Ok(Self {
            name: name.to_owned(),
            algorithms: algorithms.to_vec(),
            fetch: Fetch::new(&url)?,
            clock,
            known: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
            fetches: AtomicU64::new(0),
        })
    }

    /// Asks once, for whoever wants to know whether it can be used: how many of its keys can.
    pub async fn look(&self) -> Result<usize, FetchError> {
        Ok(self.ask_for_keys(self.clock.now()).await?.len())
    }

    /// How often its keys were asked for.
    pub fn key_fetches(&self) -> u64 {
        self.fetches.load(Ordering::Relaxed)
    }

    /// Keeps the keys young. Until the task is dropped.
    pub async fn keep_fresh(&self) {
        loop {
            self.renew().await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks for keys that are due.
    async fn renew(&self) {
        if self.is_due() {
            let _one_at_a_time = self.asking.lock().await;
            if self.is_due() {
                self.ask().await;
            }
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.now();
        let known = self.known.read();
        known.keys.as_ref().is_none_or(|(_, at)| !is_within(now, *at, FRESH_MS)) && known.may_ask(now)
    }

    /// Where its doors are.
    pub async fn doors(&self) -> Result<Arc<Discovery>, FetchError> {
        for _ in 0..2 {
            if let Some(doors) = self.known.read().doors(self.clock.now()) {
                return Ok(doors);
            }
            let _one_at_a_time = self.asking.lock().await;
            let known = self.known.read().doors(self.clock.now());
            if known.is_none() && self.known.read().may_ask(self.clock.now()) {
                self.ask().await;
            }
        }
        let trouble = self.known.read().trouble.clone();
        Err(FetchError::Unreachable(trouble.unwrap_or_else(|| "it did not answer a moment ago".to_owned())))
    }

    /// The key of this name.
    pub async fn key(self: &Arc<Self>, kid: &str) -> Result<Arc<Key>, NoKey> {
        let found = self.known.read().find(kid, self.clock.now());
        if self.is_due() && !matches!(found, Found::Nothing) {
            let issuer = Arc::clone(self);
            tokio::spawn(async move { issuer.renew().await });
        }
        match found {
            Found::Key(key) => return Ok(key),
            Found::Refused => return Err(NoKey::Unknown),
            Found::Other if !self.known.read().may_ask(self.clock.now()) => return Err(NoKey::Unknown),
            Found::Other | Found::Nothing => {}
        }
        let _one_at_a_time = self.asking.lock().await;
        // Somebody else may have asked while we waited.
        let now = self.clock.now();
        let found = self.known.read().find(kid, now);
        match found {
            Found::Key(key) => Ok(key),
            Found::Refused => Err(NoKey::Unknown),
            Found::Other if !self.known.read().may_ask(now) => Err(NoKey::Unknown),
            Found::Nothing if !self.known.read().may_ask(now) => Err(NoKey::Away),
            Found::Other | Found::Nothing => {
                let has_answered = self.ask().await;
                let mut known = self.known.write();
                match known.find(kid, now) {
                    Found::Key(key) => Ok(key),
                    Found::Nothing => Err(NoKey::Away),
                    Found::Other | Found::Refused => {
                        if has_answered {
                            known.remember_unknown(kid, now);
                        }
                        Err(NoKey::Unknown)
                    }
                }
            }
        }
    }

    /// Asks for what is due, under the lock. Says whether there are new keys.
    async fn ask(&self) -> bool {
        let now = self.clock.now();
        self.known.write().tried_at = Some(now);
        let trouble = match self.ask_for_keys(now).await {
            Ok(keys) => {
                let mut known = self.known.write();
                known.keys = Some((Arc::new(keys), now));
                known.unknown.clear();
                known.trouble = None;
                return true;
            }
            Err(error) => error.to_string(),
        };
        tracing::warn!(issuer = self.name, trouble, "the OpenID provider was asked for its keys in vain");
        self.known.write().trouble = Some(trouble);
        false
    }

    async fn ask_for_keys(&self, now: Timestamp) -> Result<Keys, FetchError> {
        let old = self.known.read().doors.clone();
        let doors = match old {
            Some((doors, at)) if is_within(now, at, DOORS_FRESH_MS) => doors,
            old => match discover(&self.fetch, &self.name).await {
                Ok(fresh) => {
                    let fresh = Arc::new(fresh);
                    self.known.write().doors = Some((Arc::clone(&fresh), now));
                    fresh
                }
                // The keys may be where they were.
                Err(error) => old.map(|(doors, _)| doors).ok_or(error)?,
            },
        };
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let body = self.fetch.get(&doors.jwks_uri, None).await?;
        jwks::read(&body, &self.algorithms).map_err(FetchError::Odd)
    }
}

/// What a name of a key leads to.
enum Found {
    Key(Arc<Key>),
    /// There are keys, and this one is not among them.
    Other,
    /// The same, and the issuer was asked for it.
    Refused,
    /// There are no keys that may be used.
    Nothing,
}

impl Known {
    fn doors(&self, now: Timestamp) -> Option<Arc<Discovery>> {
        self.doors.as_ref().filter(|(_, at)| is_within(now, *at, GOOD_MS)).map(|(doors, _)| Arc::clone(doors))
    }

    fn find(&self, kid: &str, now: Timestamp) -> Found {
        let Some((keys, _)) = self.keys.as_ref().filter(|(_, at)| is_within(now, *at, GOOD_MS)) else {
            return Found::Nothing;
        };
        if let Some(key) = keys.get(kid) {
            return Found::Key(Arc::clone(key));
        }
        let is_refused = self.unknown.iter().any(|(name, at)| name == kid && is_within(now, *at, UNKNOWN_MS));
        if is_refused { Found::Refused } else { Found::Other }
    }

    /// Whether the last time was long enough ago.
    fn may_ask(&self, now: Timestamp) -> bool {
        self.tried_at.is_none_or(|at| !is_within(now, at, PAUSE_MS))
    }

    fn remember_unknown(&mut self, kid: &str, now: Timestamp) {
        if self.unknown.len() >= MOST_UNKNOWN {
            self.unknown.pop_front();
        }
        self.unknown.push_back((kid.to_owned(), now));
    }
}

/// Whether `at` is less than so long ago. A clock that was set back has forgotten when it was.
fn is_within(now: Timestamp, at: Timestamp, ms: i64) -> bool {
    (0..ms).contains(&now.ms().saturating_sub(at.ms()))
}
