//! The installation's Ed25519 key: it signs audit heads and backups. It lies in the data folder unless the operator keeps it in a file
//! elsewhere, or has a command print it.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rlinks_core::hex;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::database::atomic_file::{AtomicFile, AtomicFileError, Overwrite, write_if_absent};

/// The key in the data folder, where no other place was configured.
pub const SIGNING_KEY_FILE: &str = "audit-key";

/// How long a command may take to print the key.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// A key is 64 hexadecimal digits; whatever prints more prints no key.
const MAX_KEY_BYTES: u64 = 4096;

/// Where the key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKeySource {
    /// In the data folder; made there when it is first needed.
    DataFolder,
    /// In this file, which only an explicit rotation creates.
    File(PathBuf),
    /// Printed by this command, which `sh -c` runs once per process.
    Command(String),
}

/// The installation's key, to be loaded when it is needed.
#[derive(Clone, Debug)]
pub struct SigningKey {
    data: PathBuf,
    source: SigningKeySource,
    printed: Arc<OnceLock<Arc<Signer>>>,
}

impl SigningKey {
    pub fn new(data: &Path, source: SigningKeySource) -> Self {
        Self { data: data.to_owned(), source, printed: Arc::default() }
    }

    /// The data folder, where the log of signed heads is.
    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn source(&self) -> &SigningKeySource {
        &self.source
    }

    /// The file that holds it, if it is in a file.
    fn path(&self) -> Option<PathBuf> {
        match &self.source {
            SigningKeySource::DataFolder => Some(self.data.join(SIGNING_KEY_FILE)),
            SigningKeySource::File(path) => Some(path.clone()),
            SigningKeySource::Command(_) => None,
        }
    }

    /// Where it is, for people.
    pub fn describe(&self) -> String {
        self.path().map_or_else(|| "the command of `audit.key`".to_owned(), |path| path.display().to_string())
    }

    /// The key; `None` where it was never made. Files are read on every call, so that a running server notices a rotation.
    pub fn load(&self) -> Result<Option<Arc<Signer>>, StoreError> {
        let cannot = |why: &dyn std::fmt::Display| StoreError::Refused(format!("{}: {why}", self.describe()));
        let text = match &self.source {
            SigningKeySource::Command(command) => {
                if let Some(signer) = self.printed.get() {
                    return Ok(Some(Arc::clone(signer)));
                }
                run_command(command).map_err(|why| cannot(&why))?
            }
            SigningKeySource::DataFolder | SigningKeySource::File(_) => {
                match std::fs::read_to_string(self.path().unwrap_or_default()) {
                    Ok(text) => text,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(cannot(&error)),
                }
            }
        };
        let seed = hex::decode(text.trim()).ok_or_else(|| cannot(&"is not a key"))?;
        let signer = Arc::new(Signer::from_seed(&seed).ok_or_else(|| cannot(&"is not a key"))?);
        if matches!(self.source, SigningKeySource::Command(_)) {
            return Ok(Some(Arc::clone(self.printed.get_or_init(|| signer))));
        }
        Ok(Some(signer))
    }

    /// The key, which must be there.
    pub fn require(&self) -> Result<Arc<Signer>, StoreError> {
        self.load()?.ok_or_else(|| {
            StoreError::Refused(format!(
                "there is no audit key at {}; if it was lost, or was never made, `rmax keys rotate-installation audit` makes one",
                self.describe()
            ))
        })
    }

    /// The key, made of `seed` where there is none in the data folder yet. A place that was configured is never filled here: a key that
    /// is missing there was lost.
    pub fn load_or_create(&self, seed: [u8; 32]) -> Result<Arc<Signer>, StoreError> {
        if let (SigningKeySource::DataFolder, Some(path)) = (&self.source, self.path())
            && self.load()?.is_none()
        {
            let cannot = |error: std::io::Error| StoreError::Refused(format!("{}: {error}", path.display()));
            std::fs::create_dir_all(&self.data).map_err(cannot)?;
            // Another process may be first; then its key is the one.
            write_if_absent(&path, hex::encode(&seed).as_bytes()).map_err(cannot)?;
        }
        self.require()
    }

    /// Puts another key in its place.
    pub fn replace(&self, seed: [u8; 32]) -> Result<(), StoreError> {
        let Some(path) = self.path() else {
            return Err(StoreError::Refused(
                "`audit.key` is a command, so rmax can't store a new key; put it where the command finds it"
                    .to_owned(),
            ));
        };
        let write = || {
            let mut file = AtomicFile::create(&path, Overwrite::Replace)?;
            file.write_all(hex::encode(&seed).as_bytes())?;
            file.finish()
        };
        write().map_err(|error: AtomicFileError| StoreError::Refused(format!("{}: {error}", path.display())))
    }
}

impl SigningKey {
    /// Removes the file, where the key is in one.
    pub fn remove(&self) -> Result<(), StoreError> {
        let Some(path) = self.path() else { return Ok(()) };
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::Refused(format!("{}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

/// What a command prints. Its output is in no error: it may be half a key.
fn run_command(command: &str) -> Result<String, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let stdout = child.stdout.take();
    let (send, receive) = mpsc::channel();
    // Reading has no deadline of its own. The thread ends with the command.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.map(|stdout| stdout.take(MAX_KEY_BYTES).read_to_string(&mut text));
        let _ = send.send(read.is_some_and(|read| read.is_ok()).then_some(text));
    });
    let Ok(text) = receive.recv_timeout(COMMAND_TIMEOUT) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("did not print a key within {} seconds", COMMAND_TIMEOUT.as_secs()));
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("failed ({status})"));
    }
    text.ok_or_else(|| "printed no text".to_owned())
}

/// A key that can sign.
pub struct Signer(Ed25519KeyPair);

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Signer({})", self.fingerprint())
    }
}

impl Signer {
    /// From 32 bytes; others are no key.
    pub fn from_seed(seed: &[u8]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// The public key, as checkpoints and backups name it.
    pub fn public_key(&self) -> String {
        hex::encode(self.0.public_key().as_ref())
    }

    pub fn fingerprint(&self) -> String {
        fingerprint(&self.public_key())
    }

    /// Signs bytes that begin with what they are, so that no signature can stand for another.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> String {
        hex::encode(self.0.sign(bytes).as_ref())
    }
}

/// Whether a signature over these bytes is that of the key.
pub(crate) fn is_signed_by(key: &str, bytes: &[u8], signature: &str) -> bool {
    let (Some(key), Some(signature)) = (hex::decode(key), hex::decode(signature)) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(bytes, &signature).is_ok()
}

/// What people compare: 128 bits of the hash of a public key, in groups of four.
pub fn fingerprint(public_key: &str) -> String {
    let digits = hex::encode(&Sha256::digest(public_key.as_bytes())[..16]);
    let groups: Vec<&str> = (0..digits.len()).step_by(4).map(|at| &digits[at..at + 4]).collect();
    groups.join("-")
}
