//! Hourly limits against a model that remembers every use.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use proptest::prelude::*;
use rlinks_core::{Id, Timestamp};
use rlinks_store::clock::Clock;

use super::{
    HOUR_MS, HourlyLimit, HourlyLimits, LimitedSubject, MAX_SLOTS, MAX_SLOTS_PER_SUBJECT, MAX_SUBJECTS,
    RateLimitStatus, SHARD_COUNT,
};

const KEY: LimitedSubject = HourlyLimit::Requests.subject(Id::from_i64(7));
const START_MS: i64 = 1_800_000_000_123;

/// Both clocks of a test.
#[derive(Clone)]
struct Clocks {
    wall_ms: Arc<AtomicI64>,
    monotonic_ms: Arc<AtomicU64>,
}

impl Clocks {
    fn new() -> Self {
        Self { wall_ms: Arc::new(AtomicI64::new(START_MS)), monotonic_ms: Arc::default() }
    }

    fn clock(&self) -> Clock {
        let Self { wall_ms, monotonic_ms } = self.clone();
        Clock::new(move || Timestamp::from_ms(wall_ms.load(Ordering::SeqCst)))
            .with_monotonic(move || monotonic_ms.load(Ordering::SeqCst))
    }

    fn limits(&self) -> HourlyLimits {
        HourlyLimits::new(self.clock())
    }

    fn now_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn wait(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms.unsigned_abs(), Ordering::SeqCst);
    }

    /// The wall clock is set; no time passes.
    fn step(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

const fn status(limit: u32, remaining: u32, reset_seconds: u32) -> RateLimitStatus {
    RateLimitStatus { limit, remaining, reset_seconds }
}

/// What a process that starts now knows of the last one.
fn restarted(clocks: &Clocks, limits: &HourlyLimits) -> HourlyLimits {
    let next = clocks.limits();
    next.restore(&limits.take_unsaved());
    next
}

fn slots(limits: &HourlyLimits) -> usize {
    let counted = limits.shards.iter().map(|shard| shard.lock().slots).sum();
    let there = |shard: &super::Shard| shard.subjects.values().map(|used| used.slots.len()).sum::<usize>();
    assert_eq!(limits.shards.iter().map(|shard| there(&shard.lock())).sum::<usize>(), counted);
    counted
}

fn subjects(limits: &HourlyLimits) -> usize {
    limits.shards.iter().map(|shard| shard.lock().subjects.len()).sum()
}

#[test]
fn limit_holds_in_every_hour_and_frees_what_is_an_hour_old() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    assert_eq!(limits.take(KEY, 100, 60), Ok(status(100, 40, 3600)));
    clocks.wait(1_800_000);
    assert_eq!(limits.take(KEY, 100, 40), Ok(status(100, 0, 1800)));
    assert_eq!(limits.take(KEY, 100, 1), Err(status(100, 0, 1800)));
    assert_eq!(limits.take(KEY, 100, 61), Err(status(100, 0, 3600)), "sixty leave first, then the rest");
    clocks.wait(1_799_999);
    assert_eq!(limits.take(KEY, 100, 1), Err(status(100, 0, 1)), "nothing is free before the hour is over");
    clocks.wait(1);
    assert_eq!(limits.take(KEY, 100, 60), Ok(status(100, 0, 1800)));
    assert_eq!(limits.take(KEY, 100, 1), Err(status(100, 0, 1800)));
    clocks.wait(HOUR_MS);
    assert_eq!(limits.take(KEY, 100, 0), Ok(status(100, 100, 0)));
}

#[test]
fn subjects_do_not_share_a_limit() {
    let limits = Clocks::new().limits();
    for subject in
        [KEY, HourlyLimit::Creations.subject(KEY.id), HourlyLimit::Requests.subject(Id::from_i64(8))]
    {
        assert!(limits.take(subject, 1, 1).is_ok());
        assert!(limits.take(subject, 1, 1).is_err());
    }
}

#[test]
fn changed_limit_applies_at_once_and_what_was_used_stays_used() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    limits.take(KEY, 100, 60).unwrap();
    assert_eq!(limits.take(KEY, 1000, 0).unwrap().remaining, 940);
    assert_eq!(limits.take(KEY, 50, 1), Err(status(50, 0, 3600)));
    assert_eq!(limits.take(KEY, 0, 1), Err(status(0, 0, 3600)));
    assert_eq!(limits.take(KEY, u32::MAX, u32::MAX - 60), Ok(status(u32::MAX, 0, 3600)));
    assert_eq!(limits.take(KEY, 10, u32::MAX), Err(status(10, 0, 3600)));
    assert_eq!(clocks.limits().take(KEY, 0, 1), Err(status(0, 0, 1)));
}

#[test]
fn refunded_uses_never_exceed_the_limit() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    limits.refund(KEY, 5);
    limits.take(KEY, 10, 6).unwrap();
    clocks.wait(1000);
    limits.take(KEY, 10, 4).unwrap();
    limits.refund(KEY, 5);
    assert_eq!(limits.take(KEY, 10, 5), Ok(status(10, 0, 3599)));
    limits.refund(KEY, u32::MAX);
    assert_eq!(limits.take(KEY, 10, 11), Err(status(10, 10, 1)));
    assert_eq!(slots(&limits), 0);
}

#[test]
fn concurrent_uses_never_exceed_the_limit() {
    let limits = Clocks::new().limits();
    let granted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..10 {
                    granted.fetch_add(u32::from(limits.take(KEY, 100, 1).is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(granted.into_inner(), 100);
}

#[test]
fn clock_set_back_frees_nothing_and_time_goes_on() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    limits.take(KEY, 10, 10).unwrap();
    for step in [-500, -2 * HOUR_MS, -i64::from(u32::MAX)] {
        clocks.step(step);
        assert_eq!(limits.take(KEY, 10, 1), Err(status(10, 0, 3600)), "{step}");
    }
    clocks.step(500 + 2 * HOUR_MS + i64::from(u32::MAX));
    assert_eq!(limits.take(KEY, 10, 1), Err(status(10, 0, 3600)), "nor does setting it right again");
    clocks.step(-2 * HOUR_MS);
    clocks.wait(HOUR_MS - 1);
    assert!(limits.take(KEY, 10, 1).is_err());
    clocks.wait(1);
    assert_eq!(
        limits.take(KEY, 10, 10),
        Ok(status(10, 0, 3600)),
        "an hour is an hour, whatever the clock says"
    );

    clocks.step(i64::MIN / 2);
    assert!(limits.take(KEY, 10, 1).is_err());
    clocks.step(i64::MAX);
    assert!(limits.take(KEY, 10, 10).is_ok());
}

#[test]
fn clock_set_back_over_a_restart_frees_nothing() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    limits.take(KEY, 10, 10).unwrap();
    clocks.step(-2 * HOUR_MS);
    let limits = restarted(&clocks, &limits);
    assert_eq!(limits.take(KEY, 10, 1), Err(status(10, 0, 3600)));
    clocks.wait(HOUR_MS);
    assert!(limits.take(KEY, 10, 10).is_ok());
}

#[test]
fn restart_keeps_what_was_written_and_what_was_given_back() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    limits.take(KEY, 10, 3).unwrap();
    let mut stored = limits.take_unsaved();
    assert!(limits.take_unsaved().is_empty(), "nothing is written twice");
    clocks.wait(600_000);
    limits.take(KEY, 10, 5).unwrap();
    let failed = limits.take_unsaved();
    limits.put_back_unsaved(&failed);
    stored.extend(limits.take_unsaved());
    limits.refund(KEY, 2);
    stored.extend(limits.take_unsaved());
    assert_eq!(stored.iter().map(|row| row.uses).collect::<Vec<_>>(), [3, 5, -2]);
    let again = clocks.limits();
    again.restore(&stored);
    assert_eq!(again.take(KEY, 10, 0), Ok(status(10, 4, 3000)));
    assert!(again.take_unsaved().is_empty(), "what is read is not written again");
    clocks.wait(3_000_000);
    assert_eq!(again.take(KEY, 10, 0), limits.take(KEY, 10, 0));
    assert_eq!(again.take(KEY, 10, 0), Ok(status(10, 7, 600)));
}

#[test]
fn frequent_uses_are_merged_and_count_a_little_longer() {
    let clocks = Clocks::new();
    let limits = clocks.limits();
    for _ in 0..3600 {
        limits.take(KEY, 3600, 1).unwrap();
        clocks.wait(1000);
    }
    assert!(slots(&limits) <= MAX_SLOTS_PER_SUBJECT);
    clocks.wait(9_000);
    let free = limits.take(KEY, 3600, 0).unwrap().remaining;
    assert!(
        (1..=10).contains(&free),
        "the first is more than an hour ago, and merged with few others: {free}"
    );
    clocks.wait(HOUR_MS);
    limits.take(KEY, 3600, 3600).unwrap();
    assert_eq!(slots(&limits), 1, "and few uses are exact again");
}

#[test]
fn memory_is_bounded_and_whoever_used_most_is_forgotten_last() {
    let clocks = Clocks::new();
    let (max_subjects, max_slots) = (SHARD_COUNT * 64, SHARD_COUNT * 512);
    let limits = HourlyLimits::with_bounds(clocks.clock(), max_subjects, max_slots);
    limits.take(KEY, 1000, 1000).unwrap();
    for round in 0..60 {
        for id in 0..2_000 {
            limits.take(HourlyLimit::Creations.subject(Id::from_i64(id)), 1000, 1).unwrap();
        }
        clocks.wait(50_000);
        assert!(slots(&limits) <= max_slots, "{round}");
        assert!(subjects(&limits) <= max_subjects, "{round}");
        assert!(limits.take(KEY, 1000, 1).is_err(), "{round}: what was used up is still known");
    }
    let unsaved: usize = limits.shards.iter().map(|shard| shard.lock().unsaved.len()).sum();
    assert!(unsaved <= max_subjects, "{unsaved}");
    for id in 5_000..6_000 {
        limits.take(HourlyLimit::Creations.subject(Id::from_i64(id)), 0, 1).unwrap_err();
        limits.take(HourlyLimit::Creations.subject(Id::from_i64(id)), 10, 0).unwrap();
    }
    assert!(limits.shards.iter().all(|shard| {
        !shard.lock().subjects.keys().any(|subject| (5_000..6_000).contains(&subject.id.as_i64()))
    }));
}

#[test]
fn all_subjects_fit_at_the_coarsest() {
    let slots_of_an_hour = (HOUR_MS + super::MAX_GRID_MS) / super::MAX_GRID_MS + 1;
    let needed = MAX_SUBJECTS * usize::try_from(slots_of_an_hour).unwrap();
    assert!(needed <= MAX_SLOTS * 3 / 4, "else each use would look through all of them");
}

/// Remembers every use.
#[derive(Default)]
struct Model {
    uses: Vec<(i64, u32)>,
}

impl Model {
    fn take(&mut self, limit: u32, uses: u32, now_ms: i64) -> Result<RateLimitStatus, RateLimitStatus> {
        self.uses.retain(|(at_ms, uses)| *uses > 0 && now_ms - at_ms < HOUR_MS);
        let total: u32 = self.uses.iter().map(|(_, uses)| uses).sum();
        let seconds = |at_ms: i64| u32::try_from((at_ms + HOUR_MS - now_ms + 999) / 1000).unwrap();
        if total + uses <= limit {
            if uses > 0 {
                self.uses.push((now_ms, uses));
            }
            let reset = self.uses.first().map_or(0, |(at_ms, _)| seconds(*at_ms));
            return Ok(status(limit, limit - total - uses, reset));
        }
        let mut left = total;
        let enough = self.uses.iter().find(|(_, some)| {
            left -= some;
            left + uses <= limit
        });
        let last = self.uses.last();
        let reset = enough.or(last).map_or(1, |(at_ms, _)| seconds(*at_ms).max(1));
        Err(status(limit, limit.saturating_sub(total), reset))
    }

    fn refund(&mut self, mut uses: u32) {
        for (_, there) in self.uses.iter_mut().rev() {
            let some = uses.min(*there);
            *there -= some;
            uses -= some;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Take(u32),
    Refund(u32),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0_i64..900_000).prop_map(Step::Wait),
        4 => (0_u32..12).prop_map(Step::Take),
        1 => (0_u32..5).prop_map(Step::Refund),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn limit_matches_the_reference_model(limit in 0_u32..40, steps in steps()) {
        let clocks = Clocks::new();
        let (mut limits, mut model) = (clocks.limits(), Model::default());
        let mut stored = Vec::new();
        for step in steps {
            match step {
                Step::Wait(ms) => clocks.wait(ms),
                Step::Refund(uses) => {
                    limits.take(KEY, limit, 0).ok();
                    model.take(limit, 0, clocks.now_ms()).ok();
                    limits.refund(KEY, uses);
                    model.refund(uses);
                    stored.extend(limits.take_unsaved());
                }
                Step::Take(uses) => {
                    let expected = model.take(limit, uses, clocks.now_ms());
                    prop_assert_eq!(limits.take(KEY, limit, uses), expected);
                    stored.extend(limits.take_unsaved());
                }
                Step::Restart => {
                    limits = clocks.limits();
                    limits.restore(&stored);
                }
            }
        }
    }

    #[test]
    fn request_after_the_announced_wait_succeeds(limit in 1_u32.., used in 0_u32.., wanted in 1_u32..) {
        let (used, wanted) = (used % limit + 1, wanted % limit + 1);
        let clocks = Clocks::new();
        let limits = clocks.limits();
        prop_assert_eq!(limits.take(KEY, limit, used).unwrap().reset_seconds, 3600);
        if let Err(refused) = limits.take(KEY, limit, wanted) {
            clocks.wait(i64::from(refused.reset_seconds) * 1000 - 1);
            prop_assert!(limits.take(KEY, limit, wanted).is_err());
            clocks.wait(1);
            prop_assert!(limits.take(KEY, limit, wanted).is_ok());
        }
    }
}

proptest! {
    // Long sequences, so fewer of them.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_hour_holds_more_than_the_limit_however_often_uses_are_merged(
        limit in 600_u32..2_000,
        waits in proptest::collection::vec(0_i64..6_000, 2_500),
    ) {
        let clocks = Clocks::new();
        let limits = clocks.limits();
        let mut granted = Vec::new();
        for wait in waits {
            clocks.wait(wait);
            if limits.take(KEY, limit, 1).is_ok() {
                granted.push(clocks.now_ms());
            }
        }
        for hour in granted.windows(limit as usize + 1) {
            prop_assert!(hour[limit as usize] - hour[0] >= HOUR_MS);
        }
    }
}
