//! A brake on guessing codes: each network may miss so often, in a fixed amount of memory.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use crate::redirect::client_address::network;

/// Misses a network may have at once.
const MAX_BURST_MISSES: u32 = 2_000;
/// Misses a network may have a second, for as long as it likes.
const MAX_MISSES_PER_SECOND: u32 = 50;
const SLOT_COUNT: usize = 1 << 12;

/// One bucket of tokens a network; networks that share a slot take turns. One table a serving thread, so no lock.
pub struct MissLimiter {
    slots: Box<[Slot]>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    network: u64,
    missed: u32,
    since_ms: u64,
}

impl MissLimiter {
    /// Nobody has missed yet.
    pub fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOT_COUNT].into(), hasher: RandomState::new() }
    }

    /// Counts a miss. Whether it is still within bounds; this machine itself always is.
    pub fn allow(&mut self, address: IpAddr, now_ms: u64) -> bool {
        if address.is_loopback() {
            return true;
        }
        let hash = self.hasher.hash_one(network(address));
        let slot = &mut self.slots[usize::try_from(hash).unwrap_or(usize::MAX) % SLOT_COUNT];
        if slot.network != hash {
            *slot = Slot { network: hash, missed: 0, since_ms: now_ms };
        }
        let forgiven = (now_ms - slot.since_ms) * u64::from(MAX_MISSES_PER_SECOND) / 1000;
        if forgiven > 0 {
            slot.missed = slot.missed.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX));
            slot.since_ms = now_ms;
        }
        slot.missed += u32::from(slot.missed <= MAX_BURST_MISSES);
        slot.missed <= MAX_BURST_MISSES
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BURST_MISSES, MissLimiter};

    /// Hostile inputs, S32.
    #[test]
    fn guessing_network_is_limited_and_others_are_not() {
        let mut limiter = MissLimiter::new();
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
