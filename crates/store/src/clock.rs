//! The one place that asks the system for time and randomness. Everything else takes them as arguments, so tests freeze them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rlinks_core::Timestamp;

/// What time it is, on the wall and on a clock that never steps.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    monotonic_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Clock {
    pub fn system() -> Self {
        Self::new(system_now)
    }

    /// A clock of a test's own making; what never steps is still the system's.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), monotonic_ms: Arc::new(monotonic_ms) }
    }

    /// The same with a clock of the test's own for deadlines and freshness.
    #[must_use]
    pub fn with_monotonic(self, monotonic_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { monotonic_ms: Arc::new(monotonic_ms), ..self }
    }

    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Milliseconds on a clock that never steps: for deadlines and freshness, never for expiry.
    pub fn monotonic_ms(&self) -> u64 {
        (self.monotonic_ms)()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system's clock")]
fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Fills a slice with random bytes.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// Where random bytes come from.
#[derive(Clone)]
pub struct Random(Arc<Fill>);

impl Random {
    pub fn system() -> Self {
        Self(Arc::new(system_random))
    }

    /// Bytes of a test's own making.
    pub fn new(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(fill))
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.0)(&mut bytes);
        bytes
    }

    /// Something made of bytes that may not be enough for it, once in the life of the universe.
    pub fn draw<T, const N: usize>(&self, make: impl Fn(&[u8; N]) -> Option<T>) -> T {
        loop {
            if let Some(made) = make(&self.bytes()) {
                return made;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks for randomness")]
fn system_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has randomness");
}

/// The operating system's randomness. A system without any cannot run a server that hands out codes and ids.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    system_random(&mut bytes);
    bytes
}

/// Milliseconds on a clock that never steps: for deadlines and freshness, never for expiry.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the monotonic clock")]
pub fn monotonic_ms() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
