//! An uploaded file, kept off the heap: what is more than a few kilobytes goes to a file without a name, which is gone when
//! it is closed, even after a crash.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As much of it as is kept in memory.
const MEMORY_BYTES: usize = 64 * 1024;

/// A file that is still arriving.
pub struct SpillingFile {
    folder: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
}

/// A file that has arrived. Clones are the same file.
#[derive(Clone)]
pub struct SpilledFile(Arc<SpillingFile>);

/// Reads a [`SpilledFile`] from its beginning.
pub struct SpilledReader {
    file: SpilledFile,
    at: u64,
}

impl SpillingFile {
    /// An empty file. What does not fit in memory goes to this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), memory: Vec::new(), file: None, length: 0 }
    }

    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY_BYTES {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.folder)?),
        };
        if !self.memory.is_empty() {
            file.write_all(&std::mem::take(&mut self.memory))?;
        }
        file.write_all(bytes)
    }

    pub fn finish(self) -> SpilledFile {
        SpilledFile(Arc::new(self))
    }
}

impl SpilledFile {
    pub fn length(&self) -> u64 {
        self.0.length
    }

    pub fn is_empty(&self) -> bool {
        self.length() == 0
    }

    pub fn reader(&self) -> SpilledReader {
        SpilledReader { file: self.clone(), at: 0 }
    }
}

impl Read for SpilledReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = if let Some(file) = &self.file.0.file {
            file.read_at(buffer, self.at)?
        } else {
            let at = usize::try_from(self.at).map_err(io::Error::other)?;
            (&self.file.0.memory[at..]).read(buffer)?
        };
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{MEMORY_BYTES, SpillingFile};

    #[test]
    fn file_is_read_as_it_was_written_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        for (length, spills) in
            [(0, false), (10, false), (MEMORY_BYTES, false), (MEMORY_BYTES + 1, true), (1 << 20, true)]
        {
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            let mut file = SpillingFile::new(folder.path());
            bytes.chunks(1000).for_each(|chunk| file.push(chunk).unwrap());
            assert_eq!(file.file.is_some(), spills, "{length}");
            let file = file.finish();
            for _ in 0..2 {
                let mut read = Vec::new();
                file.reader().read_to_end(&mut read).unwrap();
                assert_eq!((read == bytes, file.length()), (true, length as u64));
            }
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        }
    }
}
