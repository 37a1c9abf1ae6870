//! Codes known to be unknown, for a short time, in a fixed amount of memory: a flood of random codes costs a slot each, and
//! the slots are what they are. Only used while the table does not hold every link.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Id;

/// How long an unknown code stays unknown without asking again.
const TTL_MS: u64 = 10_000;
const SLOT_COUNT: usize = 1 << 17;

/// A slot holds 40 bits of the code's hash and 24 bits of the moment (in 16 ms steps): one atomic word, no lock. The hash is
/// keyed, so nobody outside can make two codes share a slot's word.
pub struct NegativeCache {
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
}

const TICK_SHIFT: u32 = 4;
const TICK_MASK: u64 = (1 << 24) - 1;

impl NegativeCache {
    pub fn new() -> Self {
        Self { slots: (0..SLOT_COUNT).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }

    /// Remembers that there was no such link at `now_ms`.
    pub fn insert(&self, workspace: Id, code: &str, now_ms: u64) {
        let (slot, tag) = self.slot_and_tag(workspace, code);
        slot.store(tag | tick(now_ms), Ordering::Relaxed);
    }

    /// Whether there was none a moment ago.
    pub fn contains(&self, workspace: Id, code: &str, now_ms: u64) -> bool {
        let (slot, tag) = self.slot_and_tag(workspace, code);
        let word = slot.load(Ordering::Relaxed);
        let age = tick(now_ms).wrapping_sub(word & TICK_MASK) & TICK_MASK;
        word & !TICK_MASK == tag && age <= TTL_MS >> TICK_SHIFT
    }

    /// Forgets a code: it has just been created.
    pub fn remove(&self, workspace: Id, code: &str) {
        let (slot, tag) = self.slot_and_tag(workspace, code);
        if slot.load(Ordering::Relaxed) & !TICK_MASK == tag {
            slot.store(0, Ordering::Relaxed);
        }
    }

    fn slot_and_tag(&self, workspace: Id, code: &str) -> (&AtomicU64, u64) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(workspace.as_u64());
        hasher.write(code.as_bytes());
        let hash = hasher.finish();
        let slot = usize::try_from(hash & (SLOT_COUNT as u64 - 1)).unwrap_or_default();
        // A tag of zero would look like an empty slot.
        (&self.slots[slot], (hash & !TICK_MASK) | 1 << 63)
    }
}

fn tick(now_ms: u64) -> u64 {
    now_ms >> TICK_SHIFT & TICK_MASK
}

#[cfg(test)]
mod tests {
    use rlinks_core::Id;

    use super::NegativeCache;

    #[test]
    fn unknown_code_is_cached_for_ten_seconds_or_until_created() {
        let absent = NegativeCache::new();
        let (main, other) = (Id::from_i64(1), Id::from_i64(2));
        assert!(!absent.contains(main, "a", 5));
        absent.insert(main, "a", 1_000);
        assert!(absent.contains(main, "a", 10_990));
        assert!(!absent.contains(main, "a", 11_100));
        assert!(!absent.contains(other, "a", 1_000) && !absent.contains(main, "b", 1_000));
        absent.remove(main, "a");
        assert!(!absent.contains(main, "a", 1_000));
    }

    #[test]
    fn timestamps_may_wrap_around() {
        let absent = NegativeCache::new();
        let wrap = 1 << 28;
        absent.insert(Id::from_i64(1), "a", wrap - 16);
        assert!(absent.contains(Id::from_i64(1), "a", wrap + 16));
    }
}
