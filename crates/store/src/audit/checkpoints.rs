//! Signed heads. A chain alone does not show that its end was cut off, nor that all of it was written anew; a head that was
//! signed and put elsewhere does.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rlinks_core::Timestamp;
use rlinks_core::audit::Head;
use rlinks_core::hex;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::database::atomic_file::write_if_absent;
use crate::database::json::json;
pub use crate::database::open::CHECKPOINT_LOG_FILE;

/// The key heads are signed with.
pub const SIGNING_KEY_FILE: &str = "audit-key";

/// The key this installation signs its heads with.
pub struct Signer(Ed25519KeyPair);

/// A head, signed: where a chain ended at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The end of the chain.
    #[serde(flatten)]
    pub head: Head,
    /// When it was signed.
    pub ts: Timestamp,
    pub key: String,
    /// Over workspace, seq, hash and time.
    pub signature: String,
    /// The store was restored from a backup here: earlier heads no longer bind it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
}

impl Signer {
    /// The key in the data folder, made from `seed` where there is none yet.
    pub fn load(folder: &Path, seed: [u8; 32]) -> Result<Self, StoreError> {
        let path = folder.join(SIGNING_KEY_FILE);
        let cannot =
            |error: &dyn std::fmt::Display| StoreError::Unavailable(format!("{}: {error}", path.display()));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(folder).map_err(|error| cannot(&error))?;
                write_if_absent(&path, hex::encode(&seed).as_bytes()).map_err(|error| cannot(&error))?;
                // Another process may have been first.
                std::fs::read_to_string(&path).map_err(|error| cannot(&error))?
            }
            Err(error) => return Err(cannot(&error)),
        };
        let seed = hex::decode(text.trim()).ok_or_else(|| cannot(&"is not a key"))?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map(Self).map_err(|_| cannot(&"is not a key"))
    }

    /// The public key, as checkpoints name it.
    pub fn public_key(&self) -> String {
        hex::encode(self.0.public_key().as_ref())
    }

    pub fn sign(&self, head: Head, ts: Timestamp, restored: bool) -> Checkpoint {
        let signature = hex::encode(self.0.sign(&signed_bytes(&head, ts, restored)).as_ref());
        Checkpoint { head, ts, key: self.public_key(), signature, restored }
    }
}

fn signed_bytes(head: &Head, ts: Timestamp, restored: bool) -> Vec<u8> {
    let mut bytes = head.signed_bytes(ts);
    if restored {
        bytes.extend_from_slice(b"\nrestored");
    }
    bytes
}

impl Checkpoint {
    /// Whether the signature is that of the key it names.
    pub fn has_valid_signature(&self) -> bool {
        let (Some(key), Some(signature)) = (hex::decode(&self.key), hex::decode(&self.signature)) else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key)
            .verify(&signed_bytes(&self.head, self.ts, self.restored), &signature)
            .is_ok()
    }
}

/// Checkpoints, one JSON object a line. A line that is none, or whose signature is wrong, is an error that names it.
pub fn read_checkpoints(path: &Path) -> Result<Vec<Checkpoint>, StoreError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            let bad =
                |what: &str| StoreError::Refused(format!("{}, line {}: {what}", path.display(), number + 1));
            let checkpoint: Checkpoint = serde_json::from_str(line).map_err(|_| bad("is no checkpoint"))?;
            if checkpoint.has_valid_signature() {
                Ok(checkpoint)
            } else {
                Err(bad("the signature is wrong: this checkpoint was edited"))
            }
        })
        .collect()
}

/// The heads that bind the store now: those recorded at its last restore and after. A restore replaces the whole store, so it
/// looses every head before it, also those of workspaces the backup did not have.
pub fn effective_heads(checkpoints: &[Checkpoint]) -> Vec<Head> {
    let mut heads: Vec<Head> = Vec::new();
    let mut restored_at = None;
    for checkpoint in checkpoints {
        if checkpoint.restored {
            if restored_at.replace(checkpoint.ts) != Some(checkpoint.ts) {
                heads.clear();
            }
            heads.retain(|head| head.workspace != checkpoint.head.workspace);
        }
        heads.push(checkpoint.head.clone());
    }
    heads
}

/// Appends to the log of heads in the data folder what is not its last word on a workspace already.
pub fn append_checkpoints(
    folder: &Path,
    signer: &Signer,
    heads: &[Head],
    now: Timestamp,
    restored: bool,
) -> Result<(), StoreError> {
    let path = folder.join(CHECKPOINT_LOG_FILE);
    let cannot = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    let known = read_tail(&path);
    let mut lines = String::new();
    for head in heads {
        let last = known
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<Checkpoint>(line).ok())
            .find(|known| known.head.workspace == head.workspace);
        if restored || last.is_none_or(|last| last.head != *head) {
            lines.push_str(&json(&signer.sign(head.clone(), now, restored)));
            lines.push('\n');
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    // A power cut may have torn the last line; what follows must not become part of it.
    if !known.is_empty() && !known.ends_with('\n') {
        lines.insert(0, '\n');
    }
    // One write of whole lines: two processes appending at once do not mix.
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(cannot)?;
    file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()).map_err(cannot)
}

/// The end of the log, enough for the last word on every workspace in daily use: a missed one is only written again.
fn read_tail(path: &Path) -> String {
    const MAX_TAIL_BYTES: u64 = 64 * 1024;
    let read = || {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}
