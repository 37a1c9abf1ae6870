//! A backup, read line by line.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rlinks_core::hex;
use sha2::{Digest, Sha256};

use super::envelope::BackupOrigin;
use super::{Line, MAX_LINE_BYTES};
use crate::StoreError;

/// Reads a backup line by line, and at the end checks that it was all of it.
pub(super) struct BackupReader {
    from: BufReader<File>,
    hash: Sha256,
    count: u64,
    /// Known from the first line on. Whether it is true is known at the end.
    origin: Option<BackupOrigin>,
    ended: bool,
}

impl BackupReader {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        Ok(Self { from: BufReader::new(file), hash: Sha256::new(), count: 0, origin: None, ended: false })
    }

    /// What the header says of who wrote it.
    pub(super) fn origin(&self) -> Option<&BackupOrigin> {
        self.origin.as_ref()
    }

    pub(super) fn next_line(&mut self) -> Result<Option<Line>, StoreError> {
        let refuse = |what: &str| {
            Err(StoreError::Refused(format!("not a whole rlinks backup: {what}; nothing was changed")))
        };
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(&mut self.from, MAX_LINE_BYTES as u64);
        limited
            .read_until(b'\n', &mut text)
            .map_err(|error| StoreError::Unavailable(format!("the backup cannot be read: {error}")))?;
        if text.is_empty() {
            return if self.ended { Ok(None) } else { refuse("it ends early") };
        }
        if self.ended {
            return refuse("there is more after its end");
        }
        let Ok(line) = serde_json::from_slice::<Line>(&text) else {
            return refuse(&format!("line {} cannot be read", self.count + 1));
        };
        match &line {
            Line::RlinksBackup(header) if self.count == 0 => match BackupOrigin::from_header(header) {
                Ok(origin) => self.origin = Some(origin),
                Err(why) => return refuse(why),
            },
            _ if self.count == 0 => return refuse("it has no header"),
            Line::End(end) => {
                self.ended = true;
                let sha256 = hex::encode(&self.hash.clone().finalize());
                if end.lines != self.count || end.sha256 != sha256 {
                    return refuse("its contents are not those its last line names");
                }
                if !self.origin.as_ref().is_some_and(|origin| origin.has_signed(end)) {
                    return Err(StoreError::Refused(
                        "the backup's signature is wrong: it was changed after it was written; nothing was changed".to_owned(),
                    ));
                }
            }
            _ => {}
        }
        self.hash.update(&text);
        self.count += 1;
        Ok(Some(line))
    }
}
