//! The one place that asks the system for time and randomness. Everything else takes them as arguments, so tests freeze them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rlinks_core::Timestamp;

#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn system() -> Self {
        Self(Arc::new(system_now))
    }

    /// A clock of a test's own making.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system's clock")]
fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The operating system's randomness. A system without any cannot run a server that hands out codes and ids.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks for randomness")]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

/// Milliseconds on a clock that never steps: for deadlines and freshness, never for expiry.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the monotonic clock")]
pub fn monotonic_ms() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
