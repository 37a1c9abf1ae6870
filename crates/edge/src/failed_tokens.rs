//! Guessing at the admin token, slowed down: each network may fail a few times a minute. Counted by each isolate for itself.

use std::collections::HashMap;
use std::net::IpAddr;

use rlinks_core::Timestamp;
use rlinks_core::click::ip_prefix::IpPrefix;

const MAX_FAILURES_PER_MINUTE: u32 = 10;
/// Networks counted one by one; further ones count together.
const MAX_NETWORKS: usize = 1000;
const MINUTE_MS: i64 = 60_000;

/// The failures of the current minute.
#[derive(Debug, Default)]
pub struct FailedTokens {
    minute: i64,
    by_network: HashMap<Option<IpPrefix>, u32>,
}

impl FailedTokens {
    /// Whether an address has failed too often: then its token isn't even looked at.
    pub fn is_blocked(&mut self, address: &str, now: Timestamp) -> bool {
        let network = self.network(address, now);
        self.by_network.get(&network).is_some_and(|count| *count >= MAX_FAILURES_PER_MINUTE)
    }

    pub fn count(&mut self, address: &str, now: Timestamp) {
        let network = self.network(address, now);
        *self.by_network.entry(network).or_default() += 1;
    }

    /// What an address counts as. Begins anew with each minute.
    fn network(&mut self, address: &str, now: Timestamp) -> Option<IpPrefix> {
        let minute = now.ms().div_euclid(MINUTE_MS);
        if minute != self.minute {
            *self = Self { minute, by_network: HashMap::new() };
        }
        let network = address.parse::<IpAddr>().ok().map(IpPrefix::from_address);
        let is_known = self.by_network.contains_key(&network) || self.by_network.len() < MAX_NETWORKS;
        network.filter(|_| is_known)
    }
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{FailedTokens, MAX_FAILURES_PER_MINUTE, MAX_NETWORKS};

    #[test]
    fn network_that_guesses_is_blocked_until_the_next_minute() {
        let (mut failed, now) = (FailedTokens::default(), Timestamp::from_ms(1_800_000_000_000));
        for last in 0..MAX_FAILURES_PER_MINUTE {
            assert!(!failed.is_blocked("192.0.2.1", now));
            failed.count(&format!("192.0.2.{last}"), now);
        }
        assert!(failed.is_blocked("192.0.2.77", now), "the network counts");
        assert!(!failed.is_blocked("198.51.100.1", now) && !failed.is_blocked("2001:db8::1", now));
        assert!(!failed.is_blocked("192.0.2.77", now.plus_ms(60_000)));
    }

    #[test]
    fn memory_is_bounded_by_the_number_of_networks() {
        let (mut failed, now) = (FailedTokens::default(), Timestamp::from_ms(1_800_000_000_000));
        for number in 0..MAX_NETWORKS * 2 {
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            failed.count(&format!("10.{high}.{low}.1"), now);
        }
        assert_eq!(failed.by_network.len(), MAX_NETWORKS + 1);
        assert!(failed.is_blocked("203.0.113.1", now), "what is not counted alone counts together");
    }
}
