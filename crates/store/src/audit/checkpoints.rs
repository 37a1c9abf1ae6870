//! Signed heads. A chain alone does not show that its end was cut off, nor that all of it was written anew; a head that was
//! signed and put elsewhere does.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rlinks_core::Timestamp;
use rlinks_core::audit::Head;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::audit::key_statements::KeyStatement;
use crate::audit::signing_key::{Signer, is_signed_by};
use crate::database::json::json;
pub use crate::database::open::CHECKPOINT_LOG_FILE;

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
    pub fn sign(&self, head: Head, ts: Timestamp, restored: bool) -> Checkpoint {
        let signature = self.sign_bytes(&signed_bytes(&head, ts, restored));
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
        is_signed_by(&self.key, &signed_bytes(&self.head, self.ts, self.restored), &self.signature)
    }
}

/// Heads as they are sent elsewhere: where every chain ended, and why former keys count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedHeads {
    pub ts: Timestamp,
    /// Of the key that signed.
    pub fingerprint: String,
    pub checkpoints: Vec<Checkpoint>,
    #[serde(default)]
    pub statements: Vec<KeyStatement>,
}

/// What was read of a log of heads, of a checkpoint, or of heads that were sent elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedLines {
    pub checkpoints: Vec<Checkpoint>,
    pub statements: Vec<KeyStatement>,
}

impl SignedLines {
    /// Takes a line. The error says what is wrong with it.
    pub fn push(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let (checkpoints, statements) = if let Ok(checkpoint) = serde_json::from_slice::<Checkpoint>(line) {
            (vec![checkpoint], Vec::new())
        } else if let Ok(statement) = serde_json::from_slice::<KeyStatement>(line) {
            (Vec::new(), vec![statement])
        } else if let Ok(published) = serde_json::from_slice::<PublishedHeads>(line) {
            (published.checkpoints, published.statements)
        } else {
            return Err("is no checkpoint");
        };
        if !checkpoints.iter().all(Checkpoint::has_valid_signature) {
            return Err("the signature is wrong: this checkpoint was edited");
        }
        if !statements.iter().all(KeyStatement::has_valid_signatures) {
            return Err("the signature is wrong: this statement about a key was edited");
        }
        self.checkpoints.extend(checkpoints);
        self.statements.extend(statements);
        Ok(())
    }
}

/// Checkpoints, one JSON object a line. A line that is none, or whose signature is wrong, is an error that names it.
pub fn read_checkpoints(path: &Path) -> Result<SignedLines, StoreError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
    let mut signed = SignedLines::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        signed
            .push(line.as_bytes())
            .map_err(|what| StoreError::Refused(format!("{}, line {number}: {what}", path.display())))?;
    }
    Ok(signed)
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
    append_lines(&path, &known, lines)
}

/// Appends a statement about a key to the log of heads.
pub fn append_statement(folder: &Path, statement: &KeyStatement) -> Result<(), StoreError> {
    let path = folder.join(CHECKPOINT_LOG_FILE);
    append_lines(&path, &read_tail(&path), format!("{}\n", json(statement)))
}

fn append_lines(path: &Path, known: &str, mut lines: String) -> Result<(), StoreError> {
    let cannot = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    if lines.is_empty() {
        return Ok(());
    }
    // A power cut may have torn the last line; what follows must not become part of it.
    if !known.is_empty() && !known.ends_with('\n') {
        lines.insert(0, '\n');
    }
    // One write of whole lines: two processes appending at once do not mix.
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(cannot)?;
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
