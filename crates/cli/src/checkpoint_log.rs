//! The log of signed heads in the data folder, as it is after a power cut: its end may be half a line.

use std::path::Path;

use rlinks_store::StoreError;
use rlinks_store::audit::checkpoints::SignedLines;

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct CheckpointLog {
    /// Its heads, and what keys said of former ones, each with the right signature.
    pub(crate) signed: SignedLines,
    /// The numbers of lines that are no JSON at all.
    pub(crate) torn_lines: Vec<usize>,
}

/// Reads the log; one that is not there is empty. A torn line is passed over, because writing goes on after it. A line that is
/// whole and not what we signed was edited, and is refused.
pub(crate) fn read(path: &Path) -> Result<CheckpointLog, StoreError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(CheckpointLog::default()),
        Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", path.display()))),
    };
    let mut log = CheckpointLog::default();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let bad = |what: &str| StoreError::Refused(format!("{}, line {number}: {what}", path.display()));
        if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
            log.torn_lines.push(number);
            continue;
        }
        log.signed.push(line).map_err(bad)?;
    }
    Ok(log)
}

/// How to say that it holds no head.
pub(crate) fn describe_empty(path: &Path) -> String {
    if path.exists() {
        format!("{} holds no signed head", path.display())
    } else {
        format!("there is no {} yet", path.display())
    }
}
