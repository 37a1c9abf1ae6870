//! A limit on guessing codes: how often a network may ask for codes that do not exist, in a limited amount of memory.

use std::net::IpAddr;

use rlinks_ops::limits::{LimitKey, RateLimit, RateLimiter};

use crate::redirect::client_address::network;

/// Misses a network may have at once.
const MAX_BURST_MISSES: u32 = 2_000;
/// Misses a network may have a second, for as long as it likes.
const MAX_MISSES_PER_SECOND: u32 = 50;
const LIMIT: RateLimit = RateLimit::per_second(MAX_MISSES_PER_SECOND, MAX_BURST_MISSES);
const MAX_NETWORKS: usize = 1 << 12;

/// One for each serving thread, so that none waits for another.
pub struct MissLimiter {
    limiter: RateLimiter,
}

impl MissLimiter {
    /// Nobody has missed yet.
    pub fn new() -> Self {
        Self { limiter: RateLimiter::new(MAX_NETWORKS) }
    }

    /// Counts a miss. Whether it is still within bounds; this machine itself always is.
    pub fn allow(&self, address: IpAddr, now_ms: u64) -> bool {
        address.is_loopback()
            || self.limiter.take(LimitKey::Misses(network(address)), LIMIT, 1, now_ms).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BURST_MISSES, MissLimiter};

    /// Hostile inputs, S32.
    #[test]
    fn guessing_network_is_limited_and_others_are_not() {
        let limiter = MissLimiter::new();
        let guesser = |last: u8| [203, 0, 113, last].into();
        let allowed = (0..MAX_BURST_MISSES * 2)
            .filter(|number| limiter.allow(guesser(number.to_le_bytes()[0]), 1000))
            .count();
        assert_eq!(allowed, MAX_BURST_MISSES as usize);
        assert!(limiter.allow([198, 51, 100, 1].into(), 1000));
        assert!(limiter.allow([127, 0, 0, 1].into(), 1000));
        assert!(limiter.allow(guesser(1), 1100), "after a while it may try again");
    }
}
