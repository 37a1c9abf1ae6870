//! Browsers in which a member has signed in before. Their attempts are counted apart, so that failures elsewhere don't lock owners out of their
//! own browser.
//!
//! Nothing is stored for them: a cookie names the account and the browser, signed together with the hash of the member's password, so that a
//! new password makes strangers of all browsers.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use ring::hmac;
use rlinks_core::access::api_key;
use rlinks_core::time::DAY_MS;
use rlinks_core::{Id, hex};
use rlinks_ops::shared_keys::SharedKey;
use rlinks_store::clock::Random;
use subtle::ConstantTimeEq as _;

use crate::auth::connection_info::ConnectionInfo;
use crate::auth::cookies::{Cookie, Lifetime};
use crate::auth::form_key::derive;

/// As long as browsers keep any cookie. Each sign-in begins it anew.
const LIFETIME_SECONDS: i64 = 400 * DAY_MS / 1000;
/// So many accounts a browser is known for; the oldest go.
const MAX_ACCOUNTS: usize = 8;
const TAG_BYTES: usize = 16;
const BROWSER_CHARS: usize = 22;
/// An account, a browser and the signature of both.
const ENTRY_CHARS: usize = 2 * TAG_BYTES + BROWSER_CHARS + 2 * TAG_BYTES;

/// Signs the cookies of known browsers, and recognizes them.
pub struct KnownBrowsers {
    form_key: Arc<SharedKey>,
    random: Random,
}

impl KnownBrowsers {
    /// Servers that share the key know each other's.
    pub(super) fn new(form_key: Arc<SharedKey>, random: Random) -> Self {
        Self { form_key, random }
    }

    /// A rotation makes strangers of all browsers.
    fn key(&self) -> hmac::Key {
        derive(&self.form_key.current(), "known browsers")
    }

    /// The id of the browser a request comes from, if a member has signed in there since they have this password. It takes as long for an
    /// account that doesn't exist.
    pub(super) fn recognize<'a>(
        &self,
        user: Id,
        password_hash: Option<&str>,
        (headers, connection): (&'a HeaderMap, &ConnectionInfo),
    ) -> Option<&'a str> {
        let account = self.account(user);
        let mut entries = entries(headers, connection);
        entries.find_map(|entry| {
            let (signed, tag) = entry.split_at(ENTRY_CHARS - 2 * TAG_BYTES);
            let (named, browser) = signed.split_at(2 * TAG_BYTES);
            let is_ours = self.tag(signed, password_hash).as_bytes().ct_eq(tag.as_bytes());
            (named == account && bool::from(is_ours)).then_some(browser)
        })
    }

    /// What a browser keeps in which a member has just signed in: this account, and those it was known for.
    pub(super) fn remember(
        &self,
        user: Id,
        password_hash: Option<&str>,
        (headers, connection): (&HeaderMap, &ConnectionInfo),
    ) -> String {
        let account = self.account(user);
        let browser = self.random.draw(api_key::random_token);
        let signed = format!("{account}{}", &browser[..BROWSER_CHARS]);
        let tag = self.tag(&signed, password_hash);
        let mut kept = vec![format!("{signed}{tag}")];
        kept.extend(
            entries(headers, connection).filter(|entry| !entry.starts_with(&account)).map(str::to_owned),
        );
        kept.truncate(MAX_ACCOUNTS);
        kept.join(".")
    }

    fn account(&self, user: Id) -> String {
        keyed_hash(&self.key(), &["account", &user.to_string()])
    }

    fn tag(&self, signed: &str, password_hash: Option<&str>) -> String {
        keyed_hash(&self.key(), &["browser", signed, password_hash.unwrap_or_default()])
    }
}

/// The cookie for a browser that is to be known.
pub(super) fn cookie(value: &str, connection: &ConnectionInfo) -> Option<HeaderValue> {
    Cookie::KnownBrowser.set(connection, value, Lifetime::Seconds(LIFETIME_SECONDS))
}

/// What can be entries of ours.
fn entries<'a>(headers: &'a HeaderMap, connection: &ConnectionInfo) -> impl Iterator<Item = &'a str> {
    let value = Cookie::KnownBrowser.single(headers, connection).unwrap_or_default();
    let is_entry =
        |entry: &&str| entry.len() == ENTRY_CHARS && entry.bytes().all(|byte| byte.is_ascii_alphanumeric());
    value.split('.').filter(is_entry).take(MAX_ACCOUNTS)
}

/// A hash that only the holder of the key can make. Each part goes in with its length before it.
pub(super) fn keyed_hash(key: &hmac::Key, parts: &[&str]) -> String {
    let mut hash = hmac::Context::with_key(key);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.sign().as_ref()[..TAG_BYTES])
}
