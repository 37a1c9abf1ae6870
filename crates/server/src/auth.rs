//! Authentication: who sends a request, and what they may do.
//!
//! | to find | look in |
//! |---|---|
//! | the caller of a request: key, token or session | `authenticate` gives a `caller`; keys are cached in `key_cache` and counted in `key_usage` |
//! | the scope a route needs | `authorize` |
//! | how a request came to us, and which cookies that allows | [`connection_info`], [`cookies`] |
//! | sessions: start, look-up, end | [`session`] |
//! | protection against cross-site requests | [`csrf`] |
//! | signing in with a password, and how often that may fail | [`sign_in`] |
//! | browsers that have signed in before | [`known_browsers`] |
//! | the first admin | [`setup`] |
//! | an OpenID provider: signing in with it, and its access tokens | [`oidc`] |
//!
//! Everything is in the store and looked up on every request, so what ends on one node has ended on all.

pub(crate) mod authenticate;
pub(crate) mod authorize;
pub mod connection_info;
pub mod cookies;
pub mod csrf;
pub(crate) mod error;
mod form_key;
pub(crate) mod key_cache;
pub(crate) mod key_usage;
pub mod known_browsers;
pub mod oidc;
pub mod session;
pub mod setup;
pub mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use rlinks_store::Store;

use self::csrf::CsrfTokens;
use self::key_cache::KeyCache;
use self::key_usage::KeyUsage;
use self::known_browsers::KnownBrowsers;
use self::oidc::Oidc;
use self::session::Sessions;
use rlinks_ops::Ops;
use rlinks_ops::passwords::Passwords;
use rlinks_ops::shared_keys::{InstallationKey, SharedKey};
use rlinks_routes::RouteCache;
use rlinks_store::clock::Clock;

/// How often what is over is forgotten.
const PURGE_INTERVAL: Duration = Duration::from_mins(5);

/// What signing in needs.
pub struct Auth {
    ops: Ops,
    store: Store,
    clock: Clock,
    /// Who is signed in.
    pub sessions: Sessions,
    /// Tokens of forms for people who are not signed in yet.
    pub csrf_tokens: CsrfTokens,
    passwords: Passwords,
    /// Of what was typed into the sign-in form only a keyed hash is kept.
    form_key: Arc<SharedKey>,
    known_browsers: KnownBrowsers,
    /// The OpenID provider, where there is one.
    pub oidc: Option<Oidc>,
    routes: Arc<RouteCache>,
    key_cache: KeyCache,
    pub(crate) key_usage: KeyUsage,
}

impl Auth {
    /// On the runtime the store was opened on.
    pub async fn new(ops: Ops, oidc: Option<Oidc>, routes: Arc<RouteCache>) -> Self {
        let form_key = ops.shared_key(InstallationKey::Form).await;
        Self {
            sessions: Sessions::new(ops.clone()),
            csrf_tokens: CsrfTokens::new(Arc::clone(&form_key), ops.random.clone()),
            passwords: Passwords::default(),
            known_browsers: KnownBrowsers::new(Arc::clone(&form_key), ops.random.clone()),
            form_key,
            oidc,
            routes,
            key_cache: KeyCache::default(),
            key_usage: KeyUsage::default(),
            store: ops.store.clone(),
            clock: ops.clock.clone(),
            ops,
        }
    }

    /// What hashes attempts. A rotation forgets those that were counted.
    fn attempt_key(&self) -> hmac::Key {
        form_key::derive(&self.form_key.current(), "attempts")
    }

    /// Purges old sessions and attempts, refreshes the provider's keys and writes how keys are used, until the task is dropped.
    pub async fn run(&self) {
        let provider = async {
            if let Some(oidc) = &self.oidc {
                oidc.run().await;
            }
        };
        tokio::join!(self.purge_expired(), provider, self.key_usage.run(&self.ops));
    }

    /// Writes what was counted and is not in the store yet.
    pub async fn flush(&self) {
        self.key_usage.write(&self.ops).await;
    }

    async fn purge_expired(&self) {
        loop {
            tokio::time::sleep(PURGE_INTERVAL).await;
            if let Err(error) = self.ops.purge_sign_ins(&sign_in::SIGN_IN_LIMITS).await {
                tracing::debug!(%error, "sessions that are over could not be forgotten");
            }
        }
    }
}
