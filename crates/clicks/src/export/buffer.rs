//! Bytes between somebody who writes and somebody who fetches.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

/// A growing buffer with two ends: clones share the bytes. Whoever fetches decides how large it gets.
#[derive(Clone, Default)]
pub(super) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// What was written since the last time.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
