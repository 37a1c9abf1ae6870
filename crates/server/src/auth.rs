//! Signing in: who somebody is, and that a request is theirs.
//!
//! | to find | look in |
//! |---|---|
//! | over what a request came, and which cookies that allows | `way` |
//! | sessions: beginning, knowing, ending | `session` |
//! | that a request was meant by whoever is signed in | `csrf` |
//! | hashing, and how many hash at once | `password` |
//! | signing in with a password, and how often one may fail | `sign_in` |
//! | the first admin | `setup` |
//! | an OpenID provider: signing in with it, and its access tokens | `oidc` |
//!
//! Everything is in the store and asked on every request, so what ends on one node has ended on all.

pub(crate) mod authenticate;
pub mod connection_info;
pub mod csrf;
pub(crate) mod key_cache;
pub(crate) mod key_usage;
pub mod oidc;
pub mod session;
pub mod setup;
pub mod sign_in;

use std::time::Duration;

use ring::hmac;
use rlinks_core::audit::{from_hex, hex};
use rlinks_store::Store;

use self::csrf::FormTokens;
use self::oidc::Oidc;
use self::session::Sessions;
use rlinks_ops::passwords::Passwords;
use rlinks_store::clock::{Clock, random_bytes};

/// How often what is over is forgotten.
const FORGET: Duration = Duration::from_mins(5);

/// What signing in needs.
pub struct Auth {
    store: Store,
    clock: Clock,
    /// Who is signed in.
    pub sessions: Sessions,
    /// Tokens of forms for people who are not signed in yet.
    pub forms: FormTokens,
    passwords: Passwords,
    /// Of what was typed into the sign-in form only a keyed hash is kept.
    attempts: hmac::Key,
    /// The OpenID provider, where there is one.
    pub oidc: Option<Oidc>,
}

impl Auth {
    /// On the runtime the store was opened on.
    pub async fn new(store: Store, clock: Clock, oidc: Option<Oidc>) -> Self {
        let key = form_key(&store).await;
        let derived = |purpose: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, purpose.as_bytes()).as_ref())
        };
        Self {
            sessions: Sessions::new(store.clone(), clock.clone()),
            forms: FormTokens::new(derived("forms")),
            passwords: Passwords::default(),
            attempts: derived("attempts"),
            oidc,
            store,
            clock,
        }
    }

    /// Forgets sessions and attempts that are over, again and again, and keeps the provider's keys young. Until the task is dropped.
    pub async fn work(&self) {
        let provider = async {
            if let Some(oidc) = &self.oidc {
                oidc.work().await;
            }
        };
        tokio::join!(self.forget(), provider);
    }

    async fn forget(&self) {
        loop {
            tokio::time::sleep(FORGET).await;
            let now = self.clock.now();
            let forget = async {
                self.store.forget_attempts(&sign_in::PATIENCE, now).await?;
                self.store.forget_sessions(now).await
            };
            if let Err(error) = forget.await {
                tracing::debug!(%error, "sessions that are over could not be forgotten");
            }
        }
    }
}

/// The key of form tokens: the same on every node, so that a form may be sent to another one than it came from.
async fn form_key(store: &Store) -> [u8; 32] {
    let fresh: [u8; 32] = random_bytes();
    let agreed = store.agree_on("form_key", &hex(&fresh)).await;
    match agreed.map(|text| from_hex(&text).and_then(|bytes| bytes.try_into().ok())) {
        Ok(Some(key)) => key,
        Ok(None) => fresh,
        Err(error) => {
            tracing::warn!(%error, "forms of this process are its own");
            fresh
        }
    }
}
