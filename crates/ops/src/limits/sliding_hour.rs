//! Hourly limits: so much within any hour, wherever the hour begins.
//!
//! A subject's uses are kept as a row of moments, to the millisecond while there are few. Where there are more than
//! [`MAX_SLOTS_PER_SUBJECT`] moments, neighbours are merged and count as if all of them were the later one, so a use may count a few
//! seconds too long and never too short.
//!
//! Memory is bounded: at most [`MAX_SUBJECTS`] subjects with [`MAX_SLOTS`] moments among them, about 50 MB. Above that, moments are
//! merged further, by up to [`MAX_GRID_MS`], and subjects are forgotten, those that have used the smallest part of their limit first.
//!
//! What was counted is written to the store in batches and read back at start ([`HourlyLimits::take_unsaved`], [`HourlyLimits::restore`]).
//! Time is therefore the wall clock's, and where that is set back it goes on by the monotonic clock: nothing becomes free by it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use parking_lot::Mutex;
use rlinks_core::{Id, Timestamp};
use rlinks_store::LimitUse;
use rlinks_store::clock::Clock;

const SHARD_COUNT: usize = 16;
pub const MAX_SUBJECTS: usize = 100_000;
pub const MAX_SLOTS: usize = 1 << 20;
/// Moments of one subject; half as many milliseconds apart as they then must be, an hour still fits.
pub const MAX_SLOTS_PER_SUBJECT: usize = 512;
/// A subject with so few moments gets exact ones again.
const FEW_SLOTS: usize = MAX_SLOTS_PER_SUBJECT / 8;
/// How far apart moments can get when memory runs out: then six of them cover an hour, and all subjects fit.
pub const MAX_GRID_MS: i64 = 1 << 20;
/// The part of a full shard that is forgotten in one go, so that looking through it is paid for by that many newcomers.
const EVICTED_FRACTION: usize = 16;
pub const HOUR_MS: i64 = 3_600_000;
/// Uses that are written as one, all at the later moment: no more than passes between two writes.
const SAVED_TOGETHER_MS: i64 = 1000;
/// Moments of a subject that wait for the store; while it is away for long they are merged too.
const MAX_UNSAVED: usize = 8;
/// Threads read the clock before they wait for a lock, and nodes of a cluster correct theirs all the time: that is no step back.
const MAX_JITTER_MS: i64 = 1000;

/// What is limited, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitedSubject {
    pub limited: HourlyLimit,
    pub id: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HourlyLimit {
    /// Requests of a key, or of a person in all their sessions.
    Requests,
    /// Requests of a person or sponsor with all their keys together.
    PrincipalRequests,
    /// Links made by a user, or by a key without an owner.
    Creations,
    /// Questions to DNS of a person or sponsor.
    DnsChecks,
    /// The same of a whole workspace.
    WorkspaceDnsChecks,
}

impl HourlyLimit {
    const ALL: [Self; 5] =
        [Self::Requests, Self::PrincipalRequests, Self::Creations, Self::DnsChecks, Self::WorkspaceDnsChecks];

    /// Its name in the store.
    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::PrincipalRequests => "principal_requests",
            Self::Creations => "creations",
            Self::DnsChecks => "dns_checks",
            Self::WorkspaceDnsChecks => "workspace_dns_checks",
        }
    }

    pub const fn subject(self, id: Id) -> LimitedSubject {
        LimitedSubject { limited: self, id }
    }
}

/// How a subject stands after it asked; the `X-RateLimit-*` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitStatus {
    pub limit: u32,
    pub remaining: u32,
    /// Seconds until the oldest use leaves the hour, 0 where there is none; after a refusal, until enough have left for what was
    /// asked: `Retry-After`, at least 1.
    pub reset_seconds: u32,
}

/// What everybody has used within the last hour.
pub struct HourlyLimits {
    clock: Clock,
    time: Mutex<LimiterTime>,
    shards: [Mutex<Shard>; SHARD_COUNT],
    hasher: RandomState,
    max_subjects: usize,
    max_slots: usize,
}

/// The latest moment anybody asked at.
struct LimiterTime {
    now_ms: i64,
    monotonic_ms: u64,
}

#[derive(Default)]
struct Shard {
    subjects: HashMap<LimitedSubject, Uses>,
    /// Moments of all of them.
    slots: usize,
    /// Subjects whose uses the store doesn't know yet.
    unsaved: Vec<LimitedSubject>,
}

/// What one subject has used.
#[derive(Default)]
struct Uses {
    /// Oldest first.
    slots: VecDeque<Slot>,
    /// In all of them.
    total: u64,
    /// New moments are multiples of it, or any where it is 0.
    grid_ms: i64,
    /// What was allowed when last asked: tells how much of it is used.
    limit: u32,
    /// The newest moment, used or given back.
    last_ms: i64,
    /// What the store doesn't know yet, by moment; below zero where more was given back than used.
    unsaved: Vec<(i64, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    at_ms: i64,
    uses: u32,
}

impl HourlyLimits {
    /// Starts with no uses counted.
    pub fn new(clock: Clock) -> Self {
        Self::with_bounds(clock, MAX_SUBJECTS, MAX_SLOTS)
    }

    fn with_bounds(clock: Clock, max_subjects: usize, max_slots: usize) -> Self {
        Self {
            clock,
            time: Mutex::new(LimiterTime { now_ms: i64::MIN, monotonic_ms: 0 }),
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            max_subjects: max_subjects / SHARD_COUNT,
            max_slots: max_slots / SHARD_COUNT,
        }
    }

    /// Counts all of `uses` or none of them. Nothing is counted for who is refused; counting none only looks.
    ///
    /// The limit may differ from call to call: what was used stays used, and the new limit holds at once.
    pub fn take(
        &self,
        subject: LimitedSubject,
        limit: u32,
        uses: u32,
    ) -> Result<RateLimitStatus, RateLimitStatus> {
        let now_ms = self.now_ms();
        let mut shard = self.shard(subject).lock();
        shard.forget_old_uses(subject, now_ms);
        let known = shard.subjects.get(&subject);
        let total = known.map_or(0, |used| used.total);
        if total + u64::from(uses) > u64::from(limit) {
            let to_leave = (total + u64::from(uses)).saturating_sub(u64::from(limit));
            let free_at = known.and_then(|used| used.time_of_use(to_leave.min(total)));
            let remaining = u64::from(limit).saturating_sub(total);
            return Err(status(limit, remaining, seconds_to_leave(free_at, now_ms).max(1)));
        }
        if uses > 0 {
            let at_ms = self.add(&mut shard, subject, limit, Slot { at_ms: now_ms, uses }, now_ms);
            shard.mark_unsaved(subject, at_ms, i64::from(uses));
        }
        let oldest = shard.subjects.get(&subject).and_then(|used| used.time_of_use(1));
        let remaining = u64::from(limit) - total - u64::from(uses);
        Ok(status(limit, remaining, seconds_to_leave(oldest, now_ms)))
    }

    /// Gives back the latest uses that were counted for something that then did not count.
    pub fn refund(&self, subject: LimitedSubject, uses: u32) {
        let mut shard = self.shard(subject).lock();
        let (last_ms, refunded) = shard.refund(subject, uses);
        if refunded > 0 {
            shard.mark_unsaved(subject, last_ms, -i64::from(refunded));
        }
    }

    /// Everything that was counted since the last time, to be written to the store.
    pub fn take_unsaved(&self) -> Vec<LimitUse> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for subject in std::mem::take(&mut shard.unsaved) {
                let Some(used) = shard.subjects.get_mut(&subject) else { continue };
                let unsaved = std::mem::take(&mut used.unsaved);
                if used.slots.is_empty() {
                    shard.subjects.remove(&subject);
                }
                let kind = subject.limited.name();
                rows.extend(unsaved.into_iter().filter(|(_, uses)| *uses != 0).map(|(at_ms, uses)| {
                    LimitUse {
                        kind: kind.to_owned(),
                        subject: subject.id,
                        at: Timestamp::from_ms(at_ms),
                        uses,
                    }
                }));
            }
        }
        rows
    }

    /// Takes back what could not be written: the next batch has it.
    pub fn put_back_unsaved(&self, rows: &[LimitUse]) {
        for row in rows {
            if let Some(subject) = subject_of(row) {
                self.shard(subject).lock().mark_unsaved(subject, row.at.ms(), row.uses);
            }
        }
    }

    /// Counts what the store knows, a subject's rows in the order of time. Rows dated later than now, from before the clock was set
    /// back, count from now.
    pub fn restore(&self, rows: &[LimitUse]) {
        let now_ms = self.now_ms();
        for row in rows {
            let Some(subject) = subject_of(row) else { continue };
            let at_ms = row.at.ms().min(now_ms);
            if has_left(at_ms, now_ms) {
                continue;
            }
            let mut shard = self.shard(subject).lock();
            let uses = u32::try_from(row.uses.unsigned_abs()).unwrap_or(u32::MAX);
            match row.uses {
                0 => {}
                1.. => {
                    self.add(&mut shard, subject, 0, Slot { at_ms, uses }, now_ms);
                }
                _ => {
                    shard.refund(subject, uses);
                }
            }
        }
    }

    /// Since when uses count.
    pub fn counted_since(&self) -> Timestamp {
        Timestamp::from_ms(self.now_ms().saturating_sub(HOUR_MS))
    }

    /// The time, which never goes back: where the wall clock does, it goes on by the other.
    fn now_ms(&self) -> i64 {
        let (wall_ms, monotonic_ms) = (self.clock.now().ms(), self.clock.monotonic_ms());
        let mut time = self.time.lock();
        if wall_ms >= time.now_ms {
            time.now_ms = wall_ms;
        } else if time.now_ms.saturating_sub(wall_ms) > MAX_JITTER_MS {
            let elapsed_ms = monotonic_ms.saturating_sub(time.monotonic_ms);
            time.now_ms = time.now_ms.saturating_add(i64::try_from(elapsed_ms).unwrap_or(i64::MAX));
        }
        time.monotonic_ms = time.monotonic_ms.max(monotonic_ms);
        time.now_ms
    }

    fn shard(&self, subject: LimitedSubject) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(subject);
        &self.shards[usize::try_from(hash % SHARD_COUNT as u64).unwrap_or(0)]
    }

    /// Gives the moment the uses count from.
    fn add(&self, shard: &mut Shard, subject: LimitedSubject, limit: u32, slot: Slot, now_ms: i64) -> i64 {
        if !shard.subjects.contains_key(&subject) {
            shard.evict(self.max_subjects, now_ms);
        }
        let used = shard.subjects.entry(subject).or_default();
        let before = used.slots.len();
        used.limit = limit;
        used.add(slot);
        let at_ms = used.last_ms;
        shard.slots = shard.slots - before + used.slots.len();
        if shard.slots > self.max_slots {
            shard.coarsen(self.max_slots);
        }
        at_ms
    }
}

impl Shard {
    fn forget_old_uses(&mut self, subject: LimitedSubject, now_ms: i64) {
        let Some(used) = self.subjects.get_mut(&subject) else { return };
        self.slots -= used.forget_old(now_ms);
        if used.slots.is_empty() && used.unsaved.is_empty() {
            self.subjects.remove(&subject);
        }
    }

    /// Gives the moment from which they are given back, and how many there were.
    fn refund(&mut self, subject: LimitedSubject, uses: u32) -> (i64, u32) {
        let Some(known) = self.subjects.get_mut(&subject) else { return (0, 0) };
        let before = known.slots.len();
        let refunded = known.refund(uses);
        self.slots -= before - known.slots.len();
        (known.last_ms, refunded)
    }

    fn mark_unsaved(&mut self, subject: LimitedSubject, at_ms: i64, uses: i64) {
        let Some(known) = self.subjects.get_mut(&subject) else { return };
        if known.unsaved.is_empty() {
            self.unsaved.push(subject);
        }
        let is_full = known.unsaved.len() >= MAX_UNSAVED;
        match known.unsaved.last_mut() {
            Some((last_ms, some)) if is_full || at_ms.saturating_sub(*last_ms) <= SAVED_TOGETHER_MS => {
                *last_ms = at_ms.max(*last_ms);
                *some = some.saturating_add(uses);
            }
            _ => known.unsaved.push((at_ms, uses)),
        }
    }

    /// Forgets subjects when there is no room for another: those whose uses are all older than an hour; when they are too few, those
    /// that have used the smallest part of their limit. So filling the shard gains nothing.
    fn evict(&mut self, max_subjects: usize, now_ms: i64) {
        if self.subjects.len() < max_subjects {
            return;
        }
        self.subjects.retain(|_, used| {
            self.slots -= used.forget_old(now_ms);
            !used.slots.is_empty()
        });
        let room = max_subjects.div_ceil(EVICTED_FRACTION);
        let to_forget = (self.subjects.len() + room).saturating_sub(max_subjects);
        if to_forget > 0 {
            let mut order: Vec<_> = self
                .subjects
                .iter()
                .map(|(subject, used)| {
                    (used.total * (1 << 16) / u64::from(used.limit.max(1)), used.last_ms, *subject)
                })
                .collect();
            order.select_nth_unstable_by_key(to_forget - 1, |&(part, last_ms, _)| (part, last_ms));
            for (_, _, subject) in &order[..to_forget] {
                let forgotten = self.subjects.remove(subject);
                self.slots -= forgotten.map_or(0, |used| used.slots.len());
            }
        }
        let subjects = &self.subjects;
        self.unsaved.retain(|subject| subjects.contains_key(subject));
    }

    /// Merges moments of everybody until there is room for a good many more.
    fn coarsen(&mut self, max_slots: usize) {
        let mut grid_ms = 2;
        while self.slots > max_slots * 3 / 4 && grid_ms <= MAX_GRID_MS {
            self.slots = 0;
            for used in self.subjects.values_mut() {
                used.set_grid(used.grid_ms.max(grid_ms));
                self.slots += used.slots.len();
            }
            grid_ms *= 2;
        }
    }
}

impl Uses {
    /// Gives how many moments were forgotten.
    fn forget_old(&mut self, now_ms: i64) -> usize {
        let mut forgotten = 0;
        while let Some(oldest) = self.slots.front().filter(|oldest| has_left(oldest.at_ms, now_ms)) {
            self.total -= u64::from(oldest.uses);
            self.slots.pop_front();
            forgotten += 1;
        }
        if self.slots.len() <= FEW_SLOTS {
            self.grid_ms = 0;
        }
        forgotten
    }

    fn add(&mut self, Slot { at_ms, uses }: Slot) {
        self.push(Slot { at_ms: next_multiple(at_ms, self.grid_ms), uses });
        self.total += u64::from(uses);
        while self.slots.len() > MAX_SLOTS_PER_SUBJECT && self.grid_ms < MAX_GRID_MS {
            self.set_grid((self.grid_ms * 2).max(2));
        }
        self.last_ms = self.slots.back().map_or(at_ms, |newest| newest.at_ms);
    }

    fn push(&mut self, slot: Slot) {
        match self.slots.back_mut() {
            Some(newest) if newest.at_ms >= slot.at_ms => newest.uses = newest.uses.saturating_add(slot.uses),
            _ => self.slots.push_back(slot),
        }
    }

    fn set_grid(&mut self, grid_ms: i64) {
        self.grid_ms = grid_ms;
        for Slot { at_ms, uses } in std::mem::take(&mut self.slots) {
            self.push(Slot { at_ms: next_multiple(at_ms, grid_ms), uses });
        }
        self.slots.shrink_to_fit();
    }

    /// Takes back the latest uses, and gives how many there were.
    fn refund(&mut self, uses: u32) -> u32 {
        let mut left = uses;
        while let Some(newest) = self.slots.back_mut().filter(|_| left > 0) {
            let some = newest.uses.min(left);
            newest.uses -= some;
            left -= some;
            self.total -= u64::from(some);
            if newest.uses == 0 {
                self.slots.pop_back();
            }
        }
        uses - left
    }

    /// When the `number`th use was made, from the oldest.
    fn time_of_use(&self, number: u64) -> Option<i64> {
        let mut seen = 0;
        let slot = self.slots.iter().find(|slot| {
            seen += u64::from(slot.uses);
            seen >= number
        });
        slot.map(|slot| slot.at_ms)
    }
}

fn has_left(at_ms: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(at_ms) >= HOUR_MS
}

/// Seconds until a use leaves the hour, rounded up: who waits that long is not refused again.
fn seconds_to_leave(at_ms: Option<i64>, now_ms: i64) -> u32 {
    let left_ms = at_ms.map_or(0, |at_ms| at_ms.saturating_add(HOUR_MS).saturating_sub(now_ms).max(0));
    u32::try_from(left_ms.unsigned_abs().div_ceil(1000)).unwrap_or(u32::MAX)
}

fn next_multiple(at_ms: i64, grid_ms: i64) -> i64 {
    match grid_ms {
        ..=1 => at_ms,
        _ => match at_ms.rem_euclid(grid_ms) {
            0 => at_ms,
            over => at_ms.saturating_add(grid_ms - over),
        },
    }
}

fn status(limit: u32, remaining: u64, reset_seconds: u32) -> RateLimitStatus {
    let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
    RateLimitStatus { limit, remaining, reset_seconds }
}

/// Whom a row of the store is about; `None` if a later version wrote it.
fn subject_of(row: &LimitUse) -> Option<LimitedSubject> {
    let limited = HourlyLimit::ALL.into_iter().find(|limited| limited.name() == row.kind)?;
    Some(limited.subject(row.subject))
}

#[cfg(test)]
mod tests;
