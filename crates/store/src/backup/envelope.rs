//! The first and the last line of a backup: who wrote it, and the signature that says so.
//!
//! Format 3 is signed with the installation's key and has a place for encryption. Formats 1 and 2 have a checksum that anybody can
//! compute anew, so they are restored only by those who say that they trust the file itself.

use rlinks_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::audit::signing_key::{Signer, fingerprint, is_signed_by};

/// 2: with members and keys. 3: signed.
const FORMAT_VERSION: u32 = 3;
const FIRST_SIGNED_FORMAT: u32 = 3;

#[derive(Serialize, Deserialize)]
pub(super) struct BackupHeader {
    format: u32,
    created_at: Timestamp,
    version: String,
    /// The public key of the installation that wrote it. Its private key is in no backup.
    #[serde(default)]
    key: Option<String>,
    /// For people; worked out anew from the key when it is shown.
    #[serde(default)]
    fingerprint: Option<String>,
    /// How the lines between this one and the last are encrypted; null where they aren't.
    #[serde(default)]
    encryption: Option<serde_json::Value>,
}

impl BackupHeader {
    pub(super) fn new(signer: &Signer, now: Timestamp) -> Self {
        Self {
            format: FORMAT_VERSION,
            created_at: now,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: Some(signer.public_key()),
            fingerprint: Some(signer.fingerprint()),
            encryption: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct BackupEnd {
    pub(super) lines: u64,
    /// Of all lines before it.
    pub(super) sha256: String,
    #[serde(default)]
    pub(super) signature: Option<String>,
}

/// Who wrote a backup, as far as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupOrigin {
    pub format: u32,
    pub created_at: Timestamp,
    pub version: String,
    /// The public key that signed it; formats before 3 are not signed.
    pub key: Option<String>,
}

/// Which backups the caller of a restore trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreTrust {
    /// What this public key signed.
    Key(String),
    /// An unsigned file.
    Unsigned,
}

impl BackupOrigin {
    pub(super) fn from_header(header: &BackupHeader) -> Result<Self, &'static str> {
        if header.format > FORMAT_VERSION {
            return Err("it was written by a newer rmax");
        }
        if header.encryption.is_some() {
            return Err("it is encrypted in a way this rmax doesn't know");
        }
        let key = header.key.clone().filter(|_| header.format >= FIRST_SIGNED_FORMAT);
        if header.format >= FIRST_SIGNED_FORMAT && key.is_none() {
            return Err("its header names no key");
        }
        Ok(Self {
            format: header.format,
            created_at: header.created_at,
            version: header.version.clone(),
            key,
        })
    }

    /// The fingerprint of the key that signed it.
    pub fn fingerprint(&self) -> Option<String> {
        self.key.as_deref().map(fingerprint)
    }

    /// Whether the last line has the signature that the first one promises.
    pub(super) fn has_signed(&self, end: &BackupEnd) -> bool {
        match (&self.key, &end.signature) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(key), Some(signature)) => {
                is_signed_by(key, &signed_bytes(end.lines, &end.sha256), signature)
            }
        }
    }

    pub(super) fn ensure_trusted(&self, trust: &RestoreTrust) -> Result<(), StoreError> {
        let is_trusted = match (&self.key, trust) {
            (Some(key), RestoreTrust::Key(trusted)) => key == trusted,
            (None, RestoreTrust::Unsigned) => true,
            (Some(_), RestoreTrust::Unsigned) | (None, RestoreTrust::Key(_)) => false,
        };
        if is_trusted {
            return Ok(());
        }
        Err(StoreError::Refused(
            "the backup is not signed by a key that is trusted; nothing was changed".to_owned(),
        ))
    }
}

/// The hash covers the header too, so the signature does.
fn signed_bytes(lines: u64, sha256: &str) -> Vec<u8> {
    format!("rlinks.backup.1\n{lines}\n{sha256}").into_bytes()
}

impl Signer {
    /// The signature of a backup of so many lines with this hash.
    pub fn seal_backup(&self, lines: u64, sha256: &str) -> String {
        self.sign_bytes(&signed_bytes(lines, sha256))
    }
}
