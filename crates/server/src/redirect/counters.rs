//! What each serving thread has done. Threads count by themselves and write to no memory that another writes to; readers add them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Statuses are 100 to 599.
pub const STATUS_COUNT: usize = 500;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A link, or an address that might have been one.
    Link,
    /// Health, the API, the dashboard.
    Control,
}

/// What one serving thread has done.
pub struct ThreadMetrics {
    connections: AtomicUsize,
    links: [AtomicU64; STATUS_COUNT],
    control: [AtomicU64; STATUS_COUNT],
}

impl ThreadMetrics {
    fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { connections: AtomicUsize::new(0), links: zeros(), control: zeros() }
    }

    /// Counts a connection that was opened.
    pub fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed.
    pub fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn count_response(&self, kind: RequestKind, status: u16) {
        if let Some(count) = self.responses(kind).get(usize::from(status).wrapping_sub(100)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Responses by status, from 100 on.
    pub fn responses(&self, kind: RequestKind) -> &[AtomicU64; STATUS_COUNT] {
        match kind {
            RequestKind::Link => &self.links,
            RequestKind::Control => &self.control,
        }
    }
}

/// The metrics of all serving threads, and what is counted for the process.
#[derive(Default)]
pub struct Metrics {
    threads: Mutex<Vec<Arc<ThreadMetrics>>>,
    /// How often the configuration could not be read again.
    pub failed_reloads: AtomicU64,
}

impl Metrics {
    /// Adds the metrics of another thread.
    pub fn add_thread(&self) -> Arc<ThreadMetrics> {
        let thread = Arc::new(ThreadMetrics::new());
        self.threads.lock().push(Arc::clone(&thread));
        thread
    }

    /// The metrics of every thread.
    pub fn threads(&self) -> Vec<Arc<ThreadMetrics>> {
        self.threads.lock().clone()
    }
}
