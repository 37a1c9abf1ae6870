//! A limit on guessing codes: how often a network may ask for codes that do not exist, in a limited amount of memory.

use std::net::IpAddr;

use rlinks_ops::limits::{NetworkLimiter, NetworkRate, NetworkSubject};

use crate::redirect::client_address::{network, wide_network};

/// Misses a network may have at once.
const MAX_BURST_MISSES: u32 = 2_000;
/// Misses a network may have a second, for as long as it likes.
const MAX_MISSES_PER_SECOND: u32 = 50;
const LIMIT: NetworkRate = NetworkRate::per_second(MAX_MISSES_PER_SECOND, MAX_BURST_MISSES);
/// The same for an IPv6 /32: its owner could come from another /48 with every request.
const WIDE_LIMIT: NetworkRate = NetworkRate::per_second(MAX_MISSES_PER_SECOND * 8, MAX_BURST_MISSES * 8);
const MAX_NETWORKS: usize = 1 << 12;

/// One for each serving thread, so that none waits for another.
pub struct MissLimiter {
    limiter: NetworkLimiter,
}

impl MissLimiter {
    /// Nobody has missed yet.
    pub fn new() -> Self {
        Self { limiter: NetworkLimiter::new(MAX_NETWORKS) }
    }

    /// Counts a miss. Whether it is still within bounds.
    pub fn allow(&self, address: IpAddr, now_ms: u64) -> bool {
        let take = |key, limit| self.limiter.take(key, limit, 1, now_ms).is_ok();
        take(NetworkSubject::Misses(network(address)), LIMIT)
            && wide_network(address).is_none_or(|wide| take(NetworkSubject::WideMisses(wide), WIDE_LIMIT))
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
        let local = (0..=MAX_BURST_MISSES).filter(|_| limiter.allow([127, 0, 0, 1].into(), 1000)).count();
        assert_eq!(local, MAX_BURST_MISSES as usize, "this machine is no exception: a proxy may run on it");
        assert!(limiter.allow(guesser(1), 1100), "after a while it may try again");
    }

    #[test]
    fn rotating_through_a_wide_ipv6_network_is_limited() {
        let limiter = MissLimiter::new();
        let allowed = (0..MAX_BURST_MISSES * 16)
            .filter(|number| {
                let [_, _, high, low] = number.to_be_bytes();
                let third = u16::from_be_bytes([high, low]);
                limiter.allow(std::net::Ipv6Addr::new(0x2001, 0xdb8, third, 0, 0, 0, 0, 1).into(), 1000)
            })
            .count();
        assert_eq!(allowed, MAX_BURST_MISSES as usize * 8);
        assert!(limiter.allow("2001:db9::1".parse().unwrap(), 1000), "others are not");
    }
}
