//! Authentication: who sends a request, and what they may do.
//!
//! | to find | look in |
//! |---|---|
//! | the caller of a request: key, token or session | `authenticate` gives a `caller`; keys are cached in `key_cache` and counted in `key_usage` |
//! | the scope a route needs | `authorize` |
//! | how a request came to us, and which cookies that allows | [`connection_info`] |
//! | sessions: start, look-up, end | [`session`] |
//! | protection against cross-site requests | [`csrf`] |
//! | signing in with a password, and how often that may fail | [`sign_in`] |
//! | the first admin | [`setup`] |
//! | an OpenID provider: signing in with it, and its access tokens | [`oidc`] |
//!
//! Everything is in the store and looked up on every request, so what ends on one node has ended on all.

pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod caller;
pub mod connection_info;
pub mod csrf;
pub(crate) mod error;
pub(crate) mod key_cache;
pub(crate) mod key_usage;
pub mod oidc;
pub mod session;
pub mod setup;
pub mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use rlinks_core::hex;
use rlinks_store::Store;

use self::csrf::CsrfTokens;
use self::key_cache::KeyCache;
use self::key_usage::KeyUsage;
use self::oidc::Oidc;
use self::session::Sessions;
use rlinks_ops::limits::RateLimiter;
use rlinks_ops::passwords::Passwords;
use rlinks_routes::RouteCache;
use rlinks_store::clock::{Clock, random_bytes};

/// How often what is over is forgotten.
const PURGE_INTERVAL: Duration = Duration::from_mins(5);

/// What signing in needs.
pub struct Auth {
    store: Store,
    clock: Clock,
    /// Who is signed in.
    pub sessions: Sessions,
    /// Tokens of forms for people who are not signed in yet.
    pub csrf_tokens: CsrfTokens,
    passwords: Passwords,
    /// Of what was typed into the sign-in form only a keyed hash is kept.
    attempt_key: hmac::Key,
    /// The OpenID provider, where there is one.
    pub oidc: Option<Oidc>,
    routes: Arc<RouteCache>,
    key_cache: KeyCache,
    pub(crate) key_usage: KeyUsage,
    pub(crate) rate_limiter: RateLimiter,
}

impl Auth {
    /// On the runtime the store was opened on.
    pub async fn new(store: Store, clock: Clock, oidc: Option<Oidc>, routes: Arc<RouteCache>) -> Self {
        let key = form_key(&store).await;
        let derived = |purpose: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, purpose.as_bytes()).as_ref())
        };
        Self {
            sessions: Sessions::new(store.clone(), clock.clone()),
            csrf_tokens: CsrfTokens::new(derived("forms")),
            passwords: Passwords::default(),
            attempt_key: derived("attempts"),
            oidc,
            routes,
            key_cache: KeyCache::default(),
            key_usage: KeyUsage::default(),
            rate_limiter: RateLimiter::new(),
            store,
            clock,
        }
    }

    /// Purges old sessions and attempts, refreshes the provider's keys and writes how keys are used, until the task is dropped.
    pub async fn run(&self) {
        let provider = async {
            if let Some(oidc) = &self.oidc {
                oidc.run().await;
            }
        };
        tokio::join!(self.purge_expired(), provider, self.key_usage.run(&self.store));
    }

    /// Writes what was counted and is not in the store yet.
    pub async fn flush(&self) {
        self.key_usage.write(&self.store).await;
    }

    async fn purge_expired(&self) {
        loop {
            tokio::time::sleep(PURGE_INTERVAL).await;
            let now = self.clock.now();
            let purge = async {
                self.store.purge_attempts(&sign_in::SIGN_IN_LIMITS, now).await?;
                self.store.purge_sessions(now).await
            };
            if let Err(error) = purge.await {
                tracing::debug!(%error, "sessions that are over could not be forgotten");
            }
        }
    }
}

/// The key of form tokens: the same on every node, so that a form may be sent to another one than it came from.
async fn form_key(store: &Store) -> [u8; 32] {
    let fresh: [u8; 32] = random_bytes();
    let agreed = store.get_or_insert_setting("form_key", &hex::encode(&fresh)).await;
    match agreed.map(|text| hex::decode(&text).and_then(|bytes| bytes.try_into().ok())) {
        Ok(Some(key)) => key,
        Ok(None) => fresh,
        Err(error) => {
            tracing::warn!(%error, "forms of this process are its own");
            fresh
        }
    }
}
