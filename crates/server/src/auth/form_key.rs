//! The installation's key of forms has several uses, each with a key of its own.

use ring::hmac;
use rlinks_store::SecretKey;

/// The key for one use of it.
pub(super) fn derive(key: &SecretKey, purpose: &str) -> hmac::Key {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, purpose.as_bytes()).as_ref())
}
