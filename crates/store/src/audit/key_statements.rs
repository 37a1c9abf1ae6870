//! Which keys count beside the one in force. When a key is rotated, the new one says in a signed statement that it follows the old one;
//! when a backup of another installation is restored, the key here says that it accepts that installation's. So what older keys signed
//! can be verified, and a key can only be added by one that counts.

use std::collections::HashMap;

use rlinks_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::audit::signing_key::{Signer, is_signed_by};

/// What a retired key signed so long after its end still counts: two clocks may differ, and a server may have been at it.
const RETIREMENT_GRACE_MS: i64 = 10 * 60 * 1000;

/// Why a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChange {
    /// The key that signs follows the former one.
    Rotated,
    /// A backup that the former one signed was restored.
    Restored,
}

impl KeyChange {
    const fn name(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Restored => "restored",
        }
    }
}

/// A key says of a former one that it counts for what it signed until now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatement {
    pub statement: KeyChange,
    /// The public key that is vouched for.
    pub former: String,
    /// The public key that vouches.
    pub key: String,
    pub ts: Timestamp,
    pub signature: String,
    /// The former key's own signature, where it was there to give one: verifiers that know that key can continue from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_signature: Option<String>,
}

impl KeyStatement {
    pub fn rotated(former: &Signer, signer: &Signer, ts: Timestamp) -> Self {
        let statement = Self::new(KeyChange::Rotated, &former.public_key(), signer, ts);
        let former_signature = Some(former.sign_bytes(&statement.signed_bytes()));
        Self { former_signature, ..statement }
    }

    /// The same where the former key is not there to sign.
    pub fn new(statement: KeyChange, former: &str, signer: &Signer, ts: Timestamp) -> Self {
        let unsigned = Self {
            statement,
            former: former.to_owned(),
            key: signer.public_key(),
            ts,
            signature: String::new(),
            former_signature: None,
        };
        let signature = signer.sign_bytes(&unsigned.signed_bytes());
        Self { signature, ..unsigned }
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let Self { statement, former, key, ts, .. } = self;
        format!("rlinks.key.1\n{}\n{former}\n{key}\n{}", statement.name(), ts.ms()).into_bytes()
    }

    pub fn has_valid_signatures(&self) -> bool {
        let bytes = self.signed_bytes();
        is_signed_by(&self.key, &bytes, &self.signature)
            && self.former_signature.as_ref().is_none_or(|own| is_signed_by(&self.former, &bytes, own))
    }
}

/// The keys that count, and until when.
#[derive(Clone, Debug, Default)]
pub struct TrustedKeys(HashMap<String, Option<Timestamp>>);

/// What a signature is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStanding {
    Trusted,
    /// Its key counted once, and not any more when this was signed.
    Retired,
    Unknown,
}

impl TrustedKeys {
    /// Everything that follows from the key in force.
    pub fn from_statements(current: &str, statements: &[KeyStatement]) -> Self {
        let mut keys = HashMap::from([(current.to_owned(), None)]);
        // Each round adds at least one key or is the last.
        loop {
            let before = keys.len();
            for statement in statements {
                if keys.contains_key(&statement.key)
                    && !keys.contains_key(&statement.former)
                    && statement.has_valid_signatures()
                {
                    keys.insert(statement.former.clone(), Some(statement.ts));
                }
            }
            if keys.len() == before {
                return Self(keys);
            }
        }
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn standing(&self, key: &str, signed_at: Timestamp) -> KeyStanding {
        match self.0.get(key) {
            None => KeyStanding::Unknown,
            Some(Some(until)) if signed_at > until.plus_ms(RETIREMENT_GRACE_MS) => KeyStanding::Retired,
            Some(_) => KeyStanding::Trusted,
        }
    }
}
