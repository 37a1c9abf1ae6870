//! Limits on how fast a network may do something: a bucket of tokens for each, and a limited number of them. Hourly limits are
//! exact and kept through a restart, in [`super::sliding_hour`]; a bucket is cheap enough for the serving threads, and is forgotten.
//!
//! A bucket fills up evenly. It is kept as what is missing from a full one, in units of which a token has as many as an hour
//! has milliseconds: then a millisecond adds exactly `per_hour` units, and nothing is ever rounded away. A full bucket is the
//! same as none, so forgetting it changes nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use parking_lot::Mutex;

const SHARD_COUNT: usize = 16;
/// The part of a full shard that is forgotten in one go, so that looking through it is paid for by that many newcomers.
const EVICTED_FRACTION: usize = 16;
/// Milliseconds of an hour: with so many units in a token, a millisecond refills `per_hour` of them.
const UNITS_PER_TOKEN: u64 = 3_600_000;

/// Whose bucket, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetworkSubject {
    /// Unknown codes that a network asks for.
    Misses(IpAddr),
    /// The same of a wider network.
    WideMisses(IpAddr),
}

/// How much a subject may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkRate {
    /// Tokens of a full bucket.
    burst: u32,
    /// Tokens it gains in an hour.
    per_hour: u32,
}

impl NetworkRate {
    /// Some at once, and as many a second for as long as one likes. An empty bucket must fill up within an hour.
    pub const fn per_second(tokens: u32, burst: u32) -> Self {
        let per_hour = tokens * 3600;
        assert!(burst <= per_hour, "a bucket fills up within an hour");
        Self { burst, per_hour }
    }
}

/// How a subject stands after it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketStatus {
    /// Tokens a full bucket has.
    pub limit: u32,
    pub remaining: u32,
    /// Seconds until the bucket is full; after a refusal, until what was asked for is there, at least 1.
    pub reset_seconds: u32,
}

/// The buckets of everybody.
pub struct NetworkLimiter {
    shards: [Mutex<HashMap<NetworkSubject, Bucket>>; SHARD_COUNT],
    max_buckets_per_shard: usize,
    hasher: RandomState,
}

impl NetworkLimiter {
    /// Starts empty. At most so many subjects are remembered at once.
    pub fn new(max_buckets: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            max_buckets_per_shard: max_buckets / SHARD_COUNT,
            hasher: RandomState::new(),
        }
    }

    /// Takes all of `tokens` or none of them. Nothing is counted for who is refused; taking none only looks.
    ///
    /// The limit may differ from call to call: what was used stays used, and the new limit holds at once. A caller who asks
    /// for more than the limit is always refused, and told when the bucket is full.
    pub fn take(
        &self,
        key: NetworkSubject,
        limit: NetworkRate,
        tokens: u32,
        now_ms: u64,
    ) -> Result<BucketStatus, BucketStatus> {
        let mut shard = self.shard(key).lock();
        let known = shard.get_mut(&key);
        let is_known = known.is_some();
        let mut fresh = Bucket::full(limit, now_ms);
        let bucket = known.unwrap_or(&mut fresh);
        bucket.refill(limit, now_ms);
        let answer = bucket.take(tokens);
        if !is_known && fresh.missing > 0 {
            evict(&mut shard, self.max_buckets_per_shard, now_ms);
            shard.insert(key, fresh);
        }
        answer
    }

    fn shard(&self, key: NetworkSubject) -> &Mutex<HashMap<NetworkSubject, Bucket>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[usize::try_from(hash % SHARD_COUNT as u64).unwrap_or(0)]
    }
}

/// What one subject has used, as of `since_ms`.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    limit: NetworkRate,
    /// Units that a full bucket has and this one has not; never more than a full one holds.
    missing: u64,
    since_ms: u64,
}

impl Bucket {
    const fn full(limit: NetworkRate, now_ms: u64) -> Self {
        Self { limit, missing: 0, since_ms: now_ms }
    }

    fn capacity(&self) -> u64 {
        u64::from(self.limit.burst) * UNITS_PER_TOKEN
    }

    /// The time that has passed counts at the rate that held; then the new limit holds.
    fn refill(&mut self, limit: NetworkRate, now_ms: u64) {
        self.missing = self.missing_at(now_ms);
        // Threads read the clock before they wait for the lock, so a call may bring an earlier moment than the last one.
        self.since_ms = self.since_ms.max(now_ms);
        self.limit = limit;
        self.missing = self.missing.min(self.capacity());
    }

    fn missing_at(&self, now_ms: u64) -> u64 {
        let elapsed_ms = now_ms.saturating_sub(self.since_ms);
        self.missing.saturating_sub(elapsed_ms.saturating_mul(u64::from(self.limit.per_hour)))
    }

    fn take(&mut self, tokens: u32) -> Result<BucketStatus, BucketStatus> {
        let there = self.capacity() - self.missing;
        let wanted = u64::from(tokens) * UNITS_PER_TOKEN;
        if wanted <= there {
            self.missing += wanted;
            return Ok(self.status(self.seconds_to_refill(self.missing)));
        }
        let lacking = if tokens <= self.limit.burst { wanted - there } else { self.missing };
        Err(self.status(self.seconds_to_refill(lacking).max(1)))
    }

    fn status(&self, reset_seconds: u32) -> BucketStatus {
        let remaining = (self.capacity() - self.missing) / UNITS_PER_TOKEN;
        BucketStatus {
            limit: self.limit.burst,
            remaining: u32::try_from(remaining).expect("no more than a burst"),
            reset_seconds,
        }
    }

    /// Rounded up: who waits that long is not refused again. A limit of nothing never refills; its bucket is empty and full.
    fn seconds_to_refill(&self, units: u64) -> u32 {
        let ms = units.div_ceil(u64::from(self.limit.per_hour).max(1));
        u32::try_from(ms.div_ceil(1000)).expect("a bucket fills up within an hour")
    }

    fn full_in_ms(&self, now_ms: u64) -> u64 {
        self.missing_at(now_ms).div_ceil(u64::from(self.limit.per_hour).max(1))
    }
}

/// Forgets full buckets when a shard is full; when too few are, those that would be full soonest, the longest unused first.
/// So the heaviest user is forgotten last, and filling the shard gains nothing.
fn evict(shard: &mut HashMap<NetworkSubject, Bucket>, max_buckets: usize, now_ms: u64) {
    if shard.len() < max_buckets {
        return;
    }
    shard.retain(|_, bucket| bucket.full_in_ms(now_ms) > 0);
    let to_forget = (shard.len() + max_buckets.div_ceil(EVICTED_FRACTION)).saturating_sub(max_buckets);
    if to_forget == 0 {
        return;
    }
    let mut order: Vec<_> = shard
        .iter()
        .map(|(subject, bucket)| (bucket.full_in_ms(now_ms), bucket.since_ms, *subject))
        .collect();
    order.select_nth_unstable_by_key(to_forget - 1, |&(full_in_ms, since_ms, _)| (full_in_ms, since_ms));
    for (_, _, subject) in &order[..to_forget] {
        shard.remove(subject);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::{Bucket, BucketStatus, NetworkLimiter, NetworkRate, NetworkSubject, evict};

    const KEY: NetworkSubject = NetworkSubject::Misses(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)));
    const MAX_BUCKETS: usize = 100_000;
    const HOUR_MS: u64 = 3_600_000;

    fn network(number: u32) -> NetworkSubject {
        NetworkSubject::Misses(IpAddr::V4(number.into()))
    }

    /// An hour's tokens, all at once if need be.
    const fn hourly(tokens: u32) -> NetworkRate {
        NetworkRate { burst: tokens, per_hour: tokens }
    }

    const fn status(limit: u32, remaining: u32, reset_seconds: u32) -> BucketStatus {
        BucketStatus { limit, remaining, reset_seconds }
    }

    #[test]
    fn bucket_holds_an_hour_of_tokens_and_refills_evenly() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        assert_eq!(limits.take(KEY, hourly(60), 1, 5_000), Ok(status(60, 59, 60)));
        assert_eq!(limits.take(KEY, hourly(60), 59, 5_000), Ok(status(60, 0, 3600)));
        assert_eq!(limits.take(KEY, hourly(60), 1, 5_000), Err(status(60, 0, 60)));
        assert_eq!(limits.take(KEY, hourly(60), 1, 64_999), Err(status(60, 0, 1)));
        assert_eq!(limits.take(KEY, hourly(60), 1, 65_000), Ok(status(60, 0, 3600)));
        assert_eq!(limits.take(KEY, hourly(60), 0, 65_000 + HOUR_MS), Ok(status(60, 60, 0)));
        assert_eq!(limits.take(KEY, hourly(60), 60, u64::MAX), Ok(status(60, 0, 3600)));
        assert_eq!(
            limits.take(KEY, hourly(60), 1, 0),
            Err(status(60, 0, 60)),
            "an earlier moment refills nothing"
        );
    }

    #[test]
    fn subjects_do_not_share_a_bucket() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        for subject in
            [KEY, NetworkSubject::WideMisses(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7))), network(8)]
        {
            assert!(limits.take(subject, hourly(1), 1, 0).is_ok());
            assert!(limits.take(subject, hourly(1), 1, 0).is_err());
        }
    }

    #[test]
    fn limit_per_second_allows_a_burst_and_then_its_rate() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        let limit = NetworkRate::per_second(50, 2_000);
        assert_eq!(limits.take(KEY, limit, 2_000, 0), Ok(status(2_000, 0, 40)));
        assert_eq!(limits.take(KEY, limit, 1, 19), Err(status(2_000, 0, 1)));
        assert_eq!(limits.take(KEY, limit, 1, 20), Ok(status(2_000, 0, 40)));
        assert_eq!(limits.take(KEY, limit, 50, 1_020), Ok(status(2_000, 0, 40)));
        assert_eq!(limits.take(KEY, limit, 0, 100_000), Ok(status(2_000, 2_000, 0)));
    }

    #[test]
    fn changed_limit_applies_at_once() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        limits.take(KEY, hourly(100), 60, 0).unwrap();
        assert_eq!(limits.take(KEY, hourly(1000), 0, 0).unwrap().remaining, 940, "what was used stays used");
        assert_eq!(limits.take(KEY, hourly(70), 0, 0).unwrap().remaining, 10);
        assert_eq!(limits.take(KEY, hourly(50), 1, 0), Err(status(50, 0, 72)));
        assert_eq!(limits.take(KEY, hourly(50), 1, 72_000), Ok(status(50, 0, 3600)), "and no debt remains");
        assert_eq!(limits.take(KEY, hourly(0), 1, 72_000), Err(status(0, 0, 1)));
        assert_eq!(limits.take(KEY, hourly(u32::MAX), u32::MAX, 72_000), Ok(status(u32::MAX, 0, 3600)));
    }

    #[test]
    fn request_above_the_limit_is_always_refused() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        assert_eq!(limits.take(KEY, hourly(10), 11, 0), Err(status(10, 10, 1)));
        limits.take(KEY, hourly(10), 5, 0).unwrap();
        assert_eq!(limits.take(KEY, hourly(10), u32::MAX, 0), Err(status(10, 5, 1800)));
    }

    #[test]
    fn concurrent_requests_never_exceed_the_limit() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        let granted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        granted.fetch_add(
                            u32::from(limits.take(KEY, hourly(100), 1, 0).is_ok()),
                            Ordering::Relaxed,
                        );
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 100);
    }

    fn remembered(limits: &NetworkLimiter) -> usize {
        limits.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[test]
    fn memory_is_bounded_and_the_emptiest_bucket_is_evicted_last() {
        let limits = NetworkLimiter::new(MAX_BUCKETS);
        limits.take(KEY, hourly(1000), 1000, 0).unwrap();
        for id in 0..150_000 {
            limits.take(network(id), hourly(1000), 1, 0).unwrap();
        }
        let full = remembered(&limits);
        assert!(full <= MAX_BUCKETS && full > MAX_BUCKETS / 2, "{full}");
        assert!(limits.take(KEY, hourly(1000), 1, 0).is_err(), "the empty bucket is still known");

        for id in 0..1000 {
            limits.take(network(1_000_000 + id), hourly(0), 1, 0).unwrap_err();
            limits.take(network(2_000_000 + id), hourly(10), 0, 0).unwrap();
        }
        assert!(remembered(&limits) <= full, "who took nothing needs no bucket");
    }

    #[test]
    fn eviction_takes_full_then_fullest_then_oldest_buckets() {
        const MAX: usize = 6_400;
        const EVICTED_AT_ONCE: usize = 400;
        let bucket = |missing, since_ms| Bucket { limit: hourly(1), missing, since_ms };
        let id = |number: usize| network(u32::try_from(number).unwrap());
        let empty = bucket(HOUR_MS, 9);
        let mut shard: std::collections::HashMap<_, _> = (0..MAX).map(|n| (id(n), empty)).collect();
        for n in 0..EVICTED_AT_ONCE - 2 {
            shard.insert(id(n), bucket(HOUR_MS / 2, 9));
        }
        shard.insert(id(EVICTED_AT_ONCE - 2), bucket(5, 4));
        shard.insert(id(EVICTED_AT_ONCE - 1), bucket(HOUR_MS - 1, 8));
        evict(&mut shard, MAX, 9);
        assert_eq!(shard.len(), MAX - EVICTED_AT_ONCE);
        assert!((0..EVICTED_AT_ONCE).all(|n| !shard.contains_key(&id(n))));

        evict(&mut shard, MAX, 9);
        assert_eq!(shard.len(), MAX - EVICTED_AT_ONCE, "there is room");
    }

    /// The same, as one would explain it: a tank that gains `per_hour` drops every millisecond.
    struct Tank {
        level: u64,
        per_hour: u64,
        now_ms: u64,
    }

    impl Tank {
        fn wait_until(&mut self, now_ms: u64) {
            while self.now_ms < now_ms {
                self.level = (self.level + self.per_hour).min(self.per_hour * HOUR_MS);
                self.now_ms += 1;
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wait(u64),
        Take(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![(0_u64..3_000).prop_map(Step::Wait), (0_u32..40).prop_map(Step::Take),];
        proptest::collection::vec(step, 1..80)
    }

    proptest! {
        #[test]
        fn bucket_matches_the_reference_model(per_hour in prop_oneof![0_u32..40, 1_000_u32..100_000], steps in steps()) {
            let limits = NetworkLimiter::new(MAX_BUCKETS);
            let mut tank = Tank { level: u64::from(per_hour) * HOUR_MS, per_hour: per_hour.into(), now_ms: 0 };
            for step in steps {
                match step {
                    Step::Wait(ms) => tank.wait_until(tank.now_ms + ms),
                    Step::Take(tokens) => {
                        let expected = tank.level >= u64::from(tokens) * HOUR_MS;
                        if expected {
                            tank.level -= u64::from(tokens) * HOUR_MS;
                        }
                        let answer = limits.take(KEY, hourly(per_hour), tokens, tank.now_ms);
                        prop_assert_eq!(answer.is_ok(), expected);
                        let (Ok(standing) | Err(standing)) = answer;
                        prop_assert_eq!(u64::from(standing.remaining), tank.level / HOUR_MS);
                        prop_assert_eq!(standing.limit, per_hour);
                    }
                }
            }
        }

        #[test]
        fn request_after_the_announced_wait_succeeds(per_hour in 1_u32.., used in 0_u32.., wanted in 1_u32.., now_ms in 0_u64..1 << 50) {
            let (used, wanted) = (used % per_hour + 1, wanted % per_hour + 1);
            let limits = NetworkLimiter::new(MAX_BUCKETS);
            let after = limits.take(KEY, hourly(per_hour), used, now_ms).unwrap();
            prop_assert!(after.reset_seconds <= 3600);
            if let Err(refused) = limits.take(KEY, hourly(per_hour), wanted, now_ms) {
                let retry_ms = now_ms + u64::from(refused.reset_seconds) * 1000;
                if refused.reset_seconds > 1 {
                    limits.take(KEY, hourly(per_hour), wanted, retry_ms - 1000).unwrap_err();
                }
                prop_assert!(limits.take(KEY, hourly(per_hour), wanted, retry_ms).is_ok());
            }
        }
    }
}
