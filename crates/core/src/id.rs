//! Ids: Snowflakes. Milliseconds since 2024, then the worker, then a sequence; 63 bits, so text in JSON.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;

// 2024-01-01T00:00:00Z.
pub const EPOCH_MS: i64 = 1_704_067_200_000;
const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
/// How many workers there can be.
pub const MAX_WORKERS: u16 = 1 << WORKER_BITS;

/// The id of a link, a workspace or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(i64);

/// Which of the 1,024 id makers this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerId(u16);

impl WorkerId {
    /// A worker between 0 and 1023, or nothing.
    pub fn new(number: u16) -> Option<Self> {
        (number < MAX_WORKERS).then_some(Self(number))
    }

    pub const fn number(self) -> u16 {
        self.0
    }

    /// The worker that made an id.
    pub const fn from_id(id: Id) -> Self {
        Self(((id.as_u64() >> SEQUENCE_BITS) & ((1 << WORKER_BITS) - 1)) as u16)
    }
}

impl Id {
    /// An id as the store keeps it.
    pub const fn from_i64(id: i64) -> Self {
        Self(id)
    }

    /// As the store keeps it.
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// When it was made, as far as it is one of ours.
    pub const fn created_at(self) -> Timestamp {
        Timestamp::from_ms((self.0 >> (WORKER_BITS + SEQUENCE_BITS)) + EPOCH_MS)
    }

    /// As the bits Base62 writes.
    pub const fn as_u64(self) -> u64 {
        self.0.cast_unsigned()
    }

    /// The id after `last` for this worker at this moment.
    ///
    /// Always greater than `last` of the same worker: a clock that stands still or steps back continues the last
    /// millisecond's sequence, and a full sequence borrows the next millisecond. So no id is ever given twice, and nobody
    /// waits.
    #[must_use]
    pub const fn next(last: Self, now: Timestamp, worker: WorkerId) -> Self {
        let now_ms = now.ms() - EPOCH_MS;
        let (last_ms, last_sequence) =
            (last.0 >> (WORKER_BITS + SEQUENCE_BITS), last.0 & ((1 << SEQUENCE_BITS) - 1));
        let (ms, sequence) = if now_ms > last_ms {
            (now_ms, 0)
        } else if last_sequence + 1 < 1 << SEQUENCE_BITS {
            (last_ms, last_sequence + 1)
        } else {
            (last_ms + 1, 0)
        };
        Self(ms << (WORKER_BITS + SEQUENCE_BITS) | (worker.0 as i64) << SEQUENCE_BITS | sequence)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EPOCH_MS, Id, WorkerId};
    use crate::{Timestamp, base62};

    #[test]
    fn id_parts_match_the_documented_layout() {
        let id = Id::next(Id::from_i64(0), Timestamp::from_ms(EPOCH_MS + 5), WorkerId::new(23).unwrap());
        assert_eq!(id.as_i64(), 5 << 22 | 23 << 12);
        assert_eq!((WorkerId::from_id(id).number(), id.created_at()), (23, Timestamp::from_ms(EPOCH_MS + 5)));
        let next = Id::next(id, Timestamp::from_ms(EPOCH_MS + 5), WorkerId::new(23).unwrap());
        assert_eq!(next.as_i64(), id.as_i64() + 1);
    }

    #[test]
    fn codes_from_ids_have_ten_characters_until_may_2030() {
        let code = |text| {
            let id = Id::next(Id::from_i64(0), Timestamp::parse(text).unwrap(), WorkerId::new(0).unwrap());
            base62::encode(id.as_u64()).len()
        };
        assert_eq!(code("2026-11-15T00:00:00Z"), 10);
        assert_eq!(code("2030-05-01T00:00:00Z"), 10);
        assert_eq!(code("2030-07-01T00:00:00Z"), 11);
    }

    #[test]
    fn worker_id_out_of_range_is_rejected() {
        assert!(WorkerId::new(1023).is_some() && WorkerId::new(1024).is_none());
    }

    proptest! {
        #[test]
        fn ids_increase_whatever_the_clock_does(clock in proptest::collection::vec(0_i64..10_000, 1..200), worker in 0_u16..1024) {
            let worker = WorkerId::new(worker).unwrap();
            let mut last = Id::from_i64(0);
            for ms in clock {
                let id = Id::next(last, Timestamp::from_ms(EPOCH_MS + ms), worker);
                prop_assert!(id > last);
                prop_assert_eq!(id.as_i64() >> 12 & 1023, i64::from(worker.number()));
                last = id;
            }
        }
    }

    #[test]
    fn full_sequence_borrows_the_next_millisecond() {
        let worker = WorkerId::new(7).unwrap();
        let now = Timestamp::from_ms(EPOCH_MS + 1);
        let mut last = Id::from_i64(0);
        for _ in 0..5000 {
            let id = Id::next(last, now, worker);
            assert!(id > last);
            last = id;
        }
    }
}
