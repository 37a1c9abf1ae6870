//! Keys that all servers of an installation share: of forms, cursors and sign-ins at an OpenID provider. Each can be rotated while
//! servers run: they look every few seconds, and go on accepting what the old key signed for as long as it may be in use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rlinks_core::Timestamp;
use rlinks_store::clock::Clock;
use rlinks_store::{SecretKey, SharedKeyPair, StoreError};

use crate::{Caller, Ops, OpsError};

/// How soon a server notices a rotation.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
const MINUTE_MS: i64 = 60 * 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallationKey {
    /// Signs forms of people who aren't signed in yet.
    Form,
    /// Signs cursors of lists.
    Cursor,
    /// Signs what a browser keeps while its user is at the OpenID provider.
    Oidc,
}

impl InstallationKey {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Cursor => "cursor",
            Self::Oidc => "oidc",
        }
    }

    const fn setting(self) -> &'static str {
        match self {
            Self::Form => "form_key",
            Self::Cursor => "cursor_key",
            Self::Oidc => "oidc_key",
        }
    }

    /// For how long what the old key signed goes on being accepted.
    const fn grace_ms(self) -> i64 {
        match self {
            Self::Form | Self::Cursor => 60 * MINUTE_MS,
            // A sign-in takes no longer.
            Self::Oidc => 10 * MINUTE_MS,
        }
    }
}

/// What becomes of what the old key signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSignatures {
    /// It is accepted for a while, so that users notice nothing.
    AcceptForAWhile,
    /// It is refused at once: the old key may be compromised.
    Refuse,
}

/// A key as this process knows it.
pub struct SharedKey {
    pair: ArcSwap<SharedKeyPair>,
    clock: Clock,
}

impl SharedKey {
    /// The key to sign with.
    pub fn current(&self) -> SecretKey {
        self.pair.load().current
    }

    /// The keys whose signatures are accepted now, the current one first.
    pub fn accepted(&self) -> impl Iterator<Item = SecretKey> + use<> {
        let (pair, now) = (self.pair.load_full(), self.clock.now());
        let previous = pair.previous.filter(|(_, until)| now <= *until).map(|(key, _)| key);
        std::iter::once(pair.current).chain(previous)
    }

    /// A key that never changes.
    pub fn fixed(key: SecretKey, clock: Clock) -> Self {
        Self { pair: ArcSwap::from_pointee(SharedKeyPair { current: key, previous: None }), clock }
    }
}

/// The keys this process uses.
pub(crate) type LoadedKeys = Arc<Mutex<BTreeMap<InstallationKey, Arc<SharedKey>>>>;

impl Ops {
    /// A key that all servers share, created by the first that needs it. A process that can't read it uses one of its own until it can,
    /// and the others don't accept what it signs.
    pub async fn shared_key(&self, key: InstallationKey) -> Arc<SharedKey> {
        if let Some(loaded) = self.shared_keys.lock().get(&key) {
            return Arc::clone(loaded);
        }
        let fresh = self.random.bytes();
        let pair = match self.writer.get_or_create_shared_key(key.setting(), fresh).await {
            Ok(pair) => pair,
            Err(error) => {
                tracing::warn!(%error, key = key.name(), "a key that servers share could not be read; this process uses its own");
                SharedKeyPair { current: fresh, previous: None }
            }
        };
        let loaded = Arc::new(SharedKey { pair: ArcSwap::from_pointee(pair), clock: self.clock.clone() });
        // Another task may have been first.
        Arc::clone(self.shared_keys.lock().entry(key).or_insert(loaded))
    }

    /// Notices rotations, until the task is dropped.
    pub async fn watch_shared_keys(&self) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            if let Err(error) = self.refresh_shared_keys().await {
                tracing::debug!(%error, "the keys that servers share could not be read again");
            }
        }
    }

    /// Looks for rotated keys now.
    pub async fn refresh_shared_keys(&self) -> Result<(), StoreError> {
        let loaded: Vec<_> =
            self.shared_keys.lock().iter().map(|(key, shared)| (*key, Arc::clone(shared))).collect();
        for (key, shared) in loaded {
            let pair = self.writer.get_or_create_shared_key(key.setting(), shared.current()).await?;
            if **shared.pair.load() != pair {
                shared.pair.store(Arc::new(pair));
            }
        }
        Ok(())
    }

    /// Puts a new key in the place of one that servers share. Gives until when what the old one signed is accepted.
    pub async fn rotate_shared_key(
        &self,
        caller: &Caller,
        key: InstallationKey,
        old: OldSignatures,
    ) -> Result<Option<Timestamp>, OpsError> {
        caller.require_operator("Only the operator can rotate keys of the installation")?;
        let now = self.clock.now();
        let until = (old == OldSignatures::AcceptForAWhile).then(|| now.plus_ms(key.grace_ms()));
        let names = (key.setting(), key.name());
        self.writer.rotate_shared_key(names, self.random.bytes(), until, &caller.actor, now).await?;
        self.refresh_shared_keys().await?;
        Ok(until)
    }
}
