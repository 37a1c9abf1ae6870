//! Who was refused, for operators: a line in the log and a counter for each failed sign-in, lock-out, rejected credential and reached limit.
//!
//! A line names the client's network and nothing finer. Lines are few however many refusals there are; the counters have them all.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// More of one kind in a minute are only counted.
const MAX_LINES_PER_MINUTE: u32 = 10;
const MINUTE_MS: u64 = 60_000;

/// Why a client was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    SignIn,
    LockOut,
    Credential,
    RateLimit,
    /// One address has as many connections as it may.
    Connection,
    /// As many requests are with the API and the dashboard as may be.
    Busy,
}

impl Refusal {
    pub const ALL: [Self; 6] =
        [Self::SignIn, Self::LockOut, Self::Credential, Self::RateLimit, Self::Connection, Self::Busy];

    /// As metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::LockOut => "lock_out",
            Self::Credential => "credential",
            Self::RateLimit => "rate_limit",
            Self::Connection => "connection",
            Self::Busy => "busy",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::SignIn => "a sign-in failed",
            Self::LockOut => "a sign-in was refused after too many failures",
            Self::Credential => "an API key or token was rejected",
            Self::RateLimit => "a client has reached a limit",
            Self::Connection => "an address has as many connections as it may",
            Self::Busy => "the API and the dashboard are busy",
        }
    }
}

#[derive(Default)]
pub struct RefusalLog {
    kinds: [RefusalCounter; Refusal::ALL.len()],
}

#[derive(Default)]
struct RefusalCounter {
    total: AtomicU64,
    window: Mutex<LogWindow>,
}

/// What was logged, and what was not, in the minute that began at `start_ms`.
#[derive(Default)]
struct LogWindow {
    start_ms: u64,
    lines: u32,
    suppressed: u64,
}

impl RefusalLog {
    /// Counts a refusal, and logs it if few of its kind were. `now_ms` is of a clock that never steps.
    pub fn record(&self, refusal: Refusal, network: &str, now_ms: u64) {
        let counter = &self.kinds[refusal as usize];
        counter.total.fetch_add(1, Ordering::Relaxed);
        let mut window = counter.window.lock();
        if now_ms.saturating_sub(window.start_ms) >= MINUTE_MS {
            if window.suppressed > 0 {
                tracing::warn!(
                    reason = refusal.name(),
                    count = window.suppressed,
                    "more were refused than logged"
                );
            }
            *window = LogWindow { start_ms: now_ms, ..LogWindow::default() };
        }
        if window.lines < MAX_LINES_PER_MINUTE {
            window.lines += 1;
            tracing::warn!(reason = refusal.name(), network, "{}", refusal.message());
        } else {
            window.suppressed += 1;
        }
    }

    /// How many there were.
    pub fn total(&self, refusal: Refusal) -> u64 {
        self.kinds[refusal as usize].total.load(Ordering::Relaxed)
    }
}
