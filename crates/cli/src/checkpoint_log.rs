//! The log of signed heads in the data folder, as it is after a power cut: its end may be half a line.

use std::path::Path;

use rlinks_store::StoreError;
use rlinks_store::audit::checkpoints::Checkpoint;

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct HeadsLog {
    /// Its heads, each with the right signature.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// The numbers of lines that are no JSON at all.
    pub(crate) torn: Vec<usize>,
}

/// Reads the log; one that is not there is empty. A torn line is passed over, because writing goes on after it. A line that is
/// whole and not what we signed was edited, and is refused.
pub(crate) fn read(place: &Path) -> Result<HeadsLog, StoreError> {
    let bytes = match std::fs::read(place) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HeadsLog::default()),
        Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", place.display()))),
    };
    let mut log = HeadsLog::default();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let bad = |what: &str| StoreError::Refused(format!("{}, line {number}: {what}", place.display()));
        if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
            log.torn.push(number);
            continue;
        }
        let checkpoint: Checkpoint = serde_json::from_slice(line).map_err(|_| bad("is no checkpoint"))?;
        if !checkpoint.has_valid_signature() {
            return Err(bad("the signature is wrong: this checkpoint was edited"));
        }
        log.checkpoints.push(checkpoint);
    }
    Ok(log)
}

/// How to say that it holds no head.
pub(crate) fn nothing_in(place: &Path) -> String {
    if place.exists() {
        format!("{} holds no signed head", place.display())
    } else {
        format!("there is no {} yet", place.display())
    }
}
