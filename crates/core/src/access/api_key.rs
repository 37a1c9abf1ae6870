//! API keys: what a program may do, and how a key is written, hashed and checked.
//!
//! A key is `rmx_` and eight random characters, by which it is found and shown, then `_` and 43 more: 256 random bits. Only
//! its hash is kept.

use std::fmt;

use blake2::Blake2b;
use blake2::digest::consts::U32;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use super::scope::Scopes;
use crate::field_error::FieldError;
use crate::hex;
use crate::{Actor, Id, Timestamp, base62};

/// A program's credential, without the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: Id,
    /// Whose links it is for.
    pub workspace: Id,
    /// The member it belongs to. A key the operator created may have none.
    pub user: Option<Id>,
    /// What it is for, in its owner's words.
    pub name: String,
    /// How it begins: enough to find it, useless without the rest.
    pub prefix: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Its sponsor: the creator or, if a key created it, that key's sponsor.
    pub created_by: Actor,
    /// The key that was called with when this one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_with: Option<Id>,
    /// The key this one replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_from: Option<Id>,
    pub created_at: Timestamp,
    /// Good up to and including this moment.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to within some seconds.
    pub last_used_at: Option<Timestamp>,
    /// How many requests it made, to within some seconds.
    pub usage_count: i64,
}

/// Whether a key is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    Active,
    Expired,
    Revoked,
}

impl ApiKey {
    /// Who answers for a key that is nobody's, besides itself: the member or the key that made it. The operator's keys stand for
    /// themselves.
    pub fn sponsor(maker: &Actor) -> Option<Actor> {
        (maker.user().is_some() || maker.key().is_some()).then(|| maker.clone())
    }

    /// Whom rate limits count it for: its member, or its sponsor.
    pub fn principal(&self) -> Actor {
        let member = self.user.map(Actor::from_user);
        member.or_else(|| Self::sponsor(&self.created_by)).unwrap_or_else(|| Actor::from_key(self.id))
    }

    pub const MAX_NAME_CHARS: usize = 100;

    /// Whether it is good at this moment.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        if self.revoked_at.is_some() {
            KeyStatus::Revoked
        } else if self.expires_at.is_some_and(|at| now > at) {
            KeyStatus::Expired
        } else {
            KeyStatus::Active
        }
    }

    /// A name: 1 to 100 characters on one line.
    pub fn parse_name(text: &str) -> Result<String, FieldError> {
        crate::text::one_line("name", text, Self::MAX_NAME_CHARS)
    }
}

const KEY_SCHEME: &str = "rmx_";
const PREFIX_RANDOM_CHARS: usize = 8;
const SECRET_CHARS: usize = 43;
/// The length of a prefix: scheme and random characters.
pub const PREFIX_CHARS: usize = KEY_SCHEME.len() + PREFIX_RANDOM_CHARS;
/// The length of a whole key.
pub const KEY_CHARS: usize = PREFIX_CHARS + 1 + SECRET_CHARS;
/// How many random bytes [`ApiKeySecret::new`] wants: enough that running out is a matter of astronomy.
pub const RANDOM_BYTES: usize = 128;

/// A whole key: what its owner sees once, and a request carries. It cannot be printed by accident.
#[derive(Clone)]
pub struct ApiKeySecret(String);

impl ApiKeySecret {
    /// A new one of random bytes. Nothing when they run out: give fresh ones.
    pub fn new(random: &[u8; RANDOM_BYTES]) -> Option<Self> {
        let letters = random_base62(random, PREFIX_RANDOM_CHARS + SECRET_CHARS)?;
        let (prefix, secret) = letters.split_at(PREFIX_RANDOM_CHARS);
        Some(Self(format!("{KEY_SCHEME}{prefix}_{secret}")))
    }

    /// A key as a request carries it, if it can be one.
    pub fn parse(text: &str) -> Option<Self> {
        let letters = text.strip_prefix(KEY_SCHEME).filter(|_| text.len() == KEY_CHARS)?;
        let word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (prefix, rest) = letters.split_at_checked(PREFIX_RANDOM_CHARS)?;
        let secret = rest.strip_prefix('_')?;
        (word(prefix) && word(secret)).then(|| Self(text.to_owned()))
    }

    /// How it is found and shown.
    pub fn prefix(&self) -> &str {
        &self.0[..PREFIX_CHARS]
    }

    /// What is kept of it.
    pub fn hash(&self) -> String {
        hash_secret(&self.0)
    }

    /// Whether this hash is its own, in the same time whatever the answer.
    pub fn matches(&self, kept: &str) -> bool {
        let ours = match kept.split_once(':') {
            Some(("sha256", _)) => format!("sha256:{}", hex::encode(&Sha256::digest(self.0.as_bytes()))),
            _ => self.hash(),
        };
        ours.as_bytes().ct_eq(kept.as_bytes()).into()
    }

    /// The text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}_...", self.prefix())
    }
}

/// The hash by which a random secret is kept: `blake2b256:` and 64 digits. For secrets of full entropy, never for passwords.
pub fn hash_secret(secret: &str) -> String {
    format!("blake2b256:{}", hex::encode(&Blake2b::<U32>::digest(secret.as_bytes())))
}

/// The length of a [`random_token`].
pub const TOKEN_CHARS: usize = SECRET_CHARS;

/// A one-time secret of 256 bits: an invitation, a session.
pub fn random_token(random: &[u8; RANDOM_BYTES]) -> Option<String> {
    random_base62(random, TOKEN_CHARS)
}

/// Letters of the base62 alphabet, each equally likely.
fn random_base62(random: &[u8], length: usize) -> Option<String> {
    let text: String = random
        .iter()
        .filter(|byte| **byte < 248)
        .map(|byte| char::from(base62::ALPHABET[usize::from(byte % 62)]))
        .take(length)
        .collect();
    (text.len() == length).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{ApiKeySecret, KEY_CHARS, RANDOM_BYTES, random_token};

    fn random() -> [u8; RANDOM_BYTES] {
        std::array::from_fn(|at| u8::try_from(at * 7 % 256).unwrap())
    }

    #[test]
    fn key_has_a_lookup_prefix_and_matches_only_its_own_hash() {
        let key = ApiKeySecret::new(&random()).unwrap();
        assert_eq!(key.reveal().len(), KEY_CHARS);
        assert_eq!(key.prefix(), "rmx_07elszGN");
        assert_eq!(format!("{key:?}"), "rmx_07elszGN_...");
        let read = ApiKeySecret::parse(key.reveal()).unwrap();
        assert!(read.matches(&key.hash()) && key.hash().starts_with("blake2b256:"));
        let mut other = key.reveal().to_owned();
        other.pop();
        other.push(if key.reveal().ends_with('0') { '1' } else { '0' });
        assert!(!ApiKeySecret::parse(&other).unwrap().matches(&key.hash()));
        assert!(!key.matches("") && !key.matches("sha256:") && !key.matches("blake2b256:"));
    }

    #[test]
    fn key_hashes_match_reference_digests() {
        // From `b2sum -l 256` and `sha256sum`.
        let key = ApiKeySecret("abc".to_owned());
        assert_eq!(key.hash(), "blake2b256:bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
        assert!(key.matches("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    }

    #[test]
    fn malformed_keys_are_rejected() {
        let good = ApiKeySecret::new(&random()).unwrap();
        let text = good.reveal();
        for bad in [
            "",
            "rmx_",
            &text[1..],
            &format!("{text}x"),
            &text.replace('_', "-"),
            &"ä".repeat(28),
            &text.replace("rmx_0", "rmx_é"),
        ] {
            assert!(ApiKeySecret::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(random_token(&random()).unwrap().len(), 43);
        assert_eq!(random_token(&[255; RANDOM_BYTES]), None);
    }
}
