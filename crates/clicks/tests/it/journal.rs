//! Faults, row 18: a journal that was torn, damaged or tampered with gives every record that is whole, none that was not written, and a
//! clean next start. And a journal that grows while it is read gives every record once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rlinks_clicks::journal::entry::JournalEntry;
use rlinks_clicks::journal::{
    Batch, DroppedClicks, JOURNAL_FOLDER, Journal, JournalMaintenance, JournalOptions, QUARANTINE_FOLDER,
    Reader, SegmentWriter, SyncPolicy, read_drop_counters,
};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};
use rlinks_core::Id;
use tempfile::TempDir;

use crate::support::clicks::{ClickFixture, click, moment};
use crate::support::database::{TestStore, at};

/// What is read at once.
const MAX_ENTRIES: usize = 4096;

/// A journal that a process left behind, and what is in it.
struct AbandonedJournal {
    data: TempDir,
    /// Each record's payload, and where its frame ends.
    records: Vec<(Vec<u8>, usize)>,
}

impl AbandonedJournal {
    /// One segment of `count` records.
    fn new(count: usize) -> Self {
        let data = tempfile::tempdir().unwrap();
        let lane = open(data.path(), 7).new_writer();
        let segment = data.path().join(JOURNAL_FOLDER).join("j-0000000000000007-0-1");
        let records = (0..count)
            .map(|number| {
                let referrer = format!("https://r.example/{}", "x".repeat(number * 37 % 90));
                let payload = append(&lane, number, &referrer);
                (payload, usize::try_from(fs::metadata(&segment).unwrap().len()).unwrap())
            })
            .collect();
        Self { data, records }
    }

    fn folder(&self) -> PathBuf {
        self.data.path().join(JOURNAL_FOLDER)
    }

    fn segment(&self) -> PathBuf {
        self.folder().join("j-0000000000000007-0-1")
    }

    /// Where the frame of a record lies.
    fn frame(&self, number: usize) -> std::ops::Range<usize> {
        let start = if number == 0 { 20 } else { self.records[number - 1].1 };
        start..self.records[number].1
    }

    /// Reads all, as the next start does; nothing is read that was not written. Gives the numbers of the records and what was
    /// counted as torn and as damaged.
    #[track_caller]
    fn read(&self) -> (Vec<usize>, u64, u64) {
        let (mut numbers, mut torn, mut damaged) = (Vec::new(), 0, 0);
        let mut reader = Reader::abandoned(&self.folder());
        loop {
            let batch = reader.read(MAX_ENTRIES).unwrap();
            if batch.is_empty() {
                break;
            }
            for (sequence, payload) in payloads(&batch) {
                let number = usize::try_from(sequence).unwrap() - 1;
                assert_eq!(payload, self.records[number].0, "record {number} is not what was written");
                numbers.push(number);
            }
            torn += batch.torn;
            damaged += batch.damaged;
            reader.commit();
        }
        reader.commit();
        let again = Reader::abandoned(&self.folder()).read(MAX_ENTRIES).unwrap();
        assert!(again.is_empty(), "the next start is not clean: {again:?}");
        (numbers, torn, damaged)
    }

    fn is_in_quarantine(&self) -> bool {
        self.folder().join(QUARANTINE_FOLDER).join("j-0000000000000007-0-1").exists()
    }
}

fn open(data: &Path, boot: u64) -> Arc<Journal> {
    open_with(data, boot, 64 << 20)
}

fn open_with(data: &Path, boot: u64, budget_bytes: u64) -> Arc<Journal> {
    Journal::open(JournalOptions { data: data.to_owned(), budget_bytes, sync: SyncPolicy::EverySecond, boot })
        .unwrap()
}

fn record(number: usize, referrer: &str) -> JournalEntry<'_> {
    JournalEntry {
        referrer: referrer.as_bytes(),
        ..click(Id::from_i64(9), at(number.try_into().unwrap()), number as u64)
    }
}

/// Appends a record and gives its payload.
fn append(lane: &SegmentWriter, number: usize, referrer: &str) -> Vec<u8> {
    let record = record(number, referrer);
    let mut payload = Vec::new();
    record.encode(&mut payload);
    assert!(lane.append(&record), "record {number} was dropped");
    payload
}

fn payloads(batch: &Batch) -> impl Iterator<Item = (u64, &[u8])> {
    batch.entries.iter().map(|record| (record.sequence, &batch.bytes[record.bytes.clone()]))
}

fn all_but(count: usize, missing: &[usize]) -> Vec<usize> {
    (0..count).filter(|number| !missing.contains(number)).collect()
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain until {what}");
}

/// Faults, row 18.
#[test]
fn torn_last_record_is_dropped_and_counted_and_earlier_ones_are_kept() {
    let left = AbandonedJournal::new(12);
    let bytes = fs::read(left.segment()).unwrap();
    let last = left.frame(11);
    for cut in 1..=last.len() {
        fs::write(left.segment(), &bytes[..bytes.len() - cut]).unwrap();
        // Cut off as a whole, nobody can know that it was there.
        let torn = u64::from(cut < last.len());
        assert_eq!(left.read(), (all_but(12, &[11]), torn, 0), "{cut} bytes cut off");
        assert!(!left.segment().exists() && !left.is_in_quarantine());
    }
}

/// Faults, row 18.
#[test]
fn flipped_bit_loses_only_its_record() {
    let left = AbandonedJournal::new(12);
    let bytes = fs::read(left.segment()).unwrap();
    for number in [0, 5, 10] {
        for (turn, offset) in left.frame(number).enumerate() {
            let mut flipped = bytes.clone();
            flipped[offset] ^= 1 << (turn % 8);
            fs::write(left.segment(), &flipped).unwrap();
            assert_eq!(left.read(), (all_but(12, &[number]), 0, 1), "record {number}, byte {offset}");
            assert_eq!(
                fs::read(left.folder().join(QUARANTINE_FOLDER).join("j-0000000000000007-0-1")).unwrap(),
                flipped
            );
        }
    }
    // The head of the segment is not any record.
    for offset in 0..20 {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[offset] ^= 1 << bit;
            fs::write(left.segment(), &flipped).unwrap();
            assert_eq!(left.read(), (all_but(12, &[]), 0, 0), "byte {offset}, bit {bit}");
            assert!(left.is_in_quarantine());
        }
    }
    // Several at once, neighbours among them.
    let mut flipped = bytes;
    for number in [2, 3, 7] {
        flipped[left.frame(number).start + 20] ^= 0x40;
    }
    fs::write(left.segment(), &flipped).unwrap();
    assert_eq!(left.read(), (all_but(12, &[2, 3, 7]), 0, 3));
}

/// Faults, row 18.
#[test]
fn damage_at_a_read_buffer_boundary_loses_only_its_record() {
    let left = AbandonedJournal::new(8000);
    let bytes = fs::read(left.segment()).unwrap();
    assert!(bytes.len() > (1 << 20) + (100 << 10), "{} bytes", bytes.len());
    let edge = left.records.iter().position(|(_, end)| *end > (1 << 20) + 20).unwrap();
    for number in edge - 3..edge + 3 {
        for offset in [0, 1, 7, 30] {
            let mut flipped = bytes.clone();
            flipped[left.frame(number).start + offset] ^= 0x80;
            fs::write(left.segment(), &flipped).unwrap();
            let (numbers, torn, damaged) = left.read();
            assert_eq!((torn, damaged, numbers.len()), (0, 1, 7999), "record {number}, byte {offset}");
            assert!(!numbers.contains(&number));
        }
    }
    // More garbage than one look takes in.
    let mut ruined = bytes;
    let (first, last) = (100, 7900);
    for (offset, byte) in ruined[left.frame(first).start..left.frame(last).end].iter_mut().enumerate() {
        *byte = u8::try_from(offset.wrapping_mul(2_654_435_761) >> 13 & 0xFF).unwrap();
    }
    fs::write(left.segment(), &ruined).unwrap();
    let (numbers, torn, damaged) = left.read();
    assert_eq!((torn, damaged), (0, 7801));
    assert_eq!(numbers, (0..100).chain(7901..8000).collect::<Vec<_>>());
}

/// Faults, row 18.
#[test]
fn trailing_zeros_empty_segments_and_foreign_files_lose_nothing() {
    let left = AbandonedJournal::new(5);
    let bytes = fs::read(left.segment()).unwrap();
    // What some file systems leave of a write that a power cut interrupted.
    for zeros in [1, 13, 14, 15, 4096, 2 << 20] {
        fs::write(left.segment(), [&bytes[..], &vec![0; zeros]].concat()).unwrap();
        let (numbers, torn, damaged) = left.read();
        assert_eq!((numbers, torn, damaged), (all_but(5, &[]), 1, 0), "{zeros} zeros");
    }
    fs::write(left.segment(), &bytes).unwrap();
    let empty = left.folder().join("j-0000000000000008-0-1");
    fs::write(&empty, "").unwrap();
    fs::write(left.folder().join("j-0000000000000009-3-1"), "rlinksj").unwrap();
    let others =
        ["notes.txt", "j-", "j-7-0", "j-7-0-1-2", "j-zz-0-1", "j-7-99999999-1", "x-7-0-1", "j-7-0-1.bak"];
    for name in others {
        fs::write(left.folder().join(name), b"not ours").unwrap();
    }
    assert_eq!(left.read(), (all_but(5, &[]), 0, 0));
    assert!(!empty.exists());
    for name in others {
        assert_eq!(fs::read(left.folder().join(name)).unwrap(), b"not ours", "{name}");
    }
}

/// A journal of several segments of one thread, as its process left it: each segment's path and first and last sequence.
fn several_segments(data: &Path) -> Vec<(PathBuf, u64, u64)> {
    let journal = open_with(data, 7, 1 << 20);
    let keeper = JournalMaintenance::start(&journal).unwrap();
    let lane = journal.new_writer();
    let path = |number: usize| data.join(JOURNAL_FOLDER).join(format!("j-0000000000000007-0-{number}"));
    let referrer = format!("https://r.example/{}", "x".repeat(50_000));
    let (mut segments, mut sequence) = (Vec::new(), 0);
    for number in 1..=3 {
        let first = sequence + 1;
        // The last of them makes the segment long enough for the keeper to begin the next.
        for _ in 0..6 {
            sequence += 1;
            append(&lane, usize::try_from(sequence).unwrap(), &referrer);
        }
        segments.push((path(number), first, sequence));
        wait_until("the keeper has begun another segment", || path(number + 1).exists());
        // Made is not yet adopted; what comes now may still go into either.
        wait_until("it is in use", || fs::metadata(path(number + 1)).is_ok_and(|file| file.len() > 0));
    }
    drop(keeper);
    segments
}

/// Faults, row 18.
#[test]
fn missing_or_truncated_segment_counts_every_record_it_held() {
    let whole = tempfile::tempdir().unwrap();
    let segments = several_segments(whole.path());
    let read = |change: &dyn Fn(&Path)| {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join(JOURNAL_FOLDER)).unwrap();
        for file in fs::read_dir(whole.path().join(JOURNAL_FOLDER)).unwrap() {
            let path = file.unwrap().path();
            fs::copy(&path, data.path().join(JOURNAL_FOLDER).join(path.file_name().unwrap())).unwrap();
        }
        change(&data.path().join(JOURNAL_FOLDER));
        let mut reader = Reader::abandoned(&data.path().join(JOURNAL_FOLDER));
        let batch = reader.read(MAX_ENTRIES).unwrap();
        reader.commit();
        let sequences: Vec<u64> = batch.entries.iter().map(|record| record.sequence).collect();
        assert!(Reader::abandoned(&data.path().join(JOURNAL_FOLDER)).read(MAX_ENTRIES).unwrap().is_empty());
        (sequences, batch.torn, batch.damaged)
    };
    let (name, first, last) = (&segments[1].0.file_name().unwrap(), segments[1].1, segments[1].2);
    let all: Vec<u64> = (1..=segments[2].2).collect();
    let without = |gone: std::ops::RangeInclusive<u64>| -> Vec<u64> {
        all.iter().copied().filter(|sequence| !gone.contains(sequence)).collect()
    };
    assert_eq!(read(&|_| ()), (all.clone(), 0, 0));
    let removed = read(&|folder: &Path| fs::remove_file(folder.join(name)).unwrap());
    assert_eq!(removed, (without(first..=last), 0, last - first + 1));
    let emptied = read(&|folder: &Path| fs::write(folder.join(name), "").unwrap());
    assert_eq!(emptied, (without(first..=last), 0, last - first + 1));
    let cut = read(&|folder: &Path| {
        let bytes = fs::read(folder.join(name)).unwrap();
        fs::write(folder.join(name), &bytes[..bytes.len() - 10]).unwrap();
    });
    assert_eq!(cut, (without(last..=last), 0, 1), "in the middle it is damage, and counted once");
}

#[derive(Clone, Debug)]
enum Mutation {
    Flip { offset: usize, bit: u8 },
    Overwrite { offset: usize, with: Vec<u8> },
    Truncate { offset: usize },
    Insert { offset: usize, what: Vec<u8> },
    Remove { offset: usize, length: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let offset = || 0..4000_usize;
    let bytes = || proptest::collection::vec(any::<u8>(), 1..300);
    prop_oneof![
        (offset(), 0..8_u8).prop_map(|(offset, bit)| Mutation::Flip { offset, bit }),
        (offset(), bytes()).prop_map(|(offset, with)| Mutation::Overwrite { offset, with }),
        offset().prop_map(|offset| Mutation::Truncate { offset }),
        (offset(), bytes()).prop_map(|(offset, what)| Mutation::Insert { offset, what }),
        (offset(), 1..300_usize).prop_map(|(offset, length)| Mutation::Remove { offset, length }),
    ]
}

impl Mutation {
    /// Changes the bytes; `origin` says of each where it stood, and nothing of those that were not there.
    fn apply(&self, bytes: &mut Vec<u8>, origin: &mut Vec<Option<usize>>) {
        let length = bytes.len();
        match self {
            Self::Flip { offset, bit } if *offset < length => {
                bytes[*offset] ^= 1 << bit;
                origin[*offset] = None;
            }
            Self::Overwrite { offset, with } => {
                for (offset, byte) in (*offset..length).zip(with) {
                    (bytes[offset], origin[offset]) = (*byte, None);
                }
            }
            Self::Truncate { offset } => {
                bytes.truncate(*offset);
                origin.truncate(*offset);
            }
            Self::Insert { offset, what } => {
                let offset = (*offset).min(length);
                bytes.splice(offset..offset, what.iter().copied());
                origin.splice(offset..offset, what.iter().map(|_| None));
            }
            Self::Remove { offset, length: removed } => {
                let range = (*offset).min(length)..(offset + removed).min(length);
                bytes.drain(range.clone());
                origin.drain(range);
            }
            Self::Flip { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// Faults, row 18.
    #[test]
    fn randomly_damaged_segment_yields_only_intact_records(
        mutations in proptest::collection::vec(mutation(), 1..5),
    ) {
        let left = AbandonedJournal::new(20);
        let mut bytes = fs::read(left.segment()).unwrap();
        let mut origin: Vec<Option<usize>> = (0..bytes.len()).map(Some).collect();
        for mutation in &mutations {
            mutation.apply(&mut bytes, &mut origin);
        }
        fs::write(left.segment(), &bytes).unwrap();
        // `read` fails on a record that was not written, and on a next start that is not clean.
        let (numbers, _, _) = left.read();
        // An inserted or removed byte at a border changes no frame, so it is the frames' own bytes that count.
        let standing: BTreeMap<usize, usize> =
            origin.iter().enumerate().filter_map(|(offset, origin)| Some(((*origin)?, offset))).collect();
        for number in 0..20 {
            let frame = left.frame(number);
            let whole = standing.get(&frame.start).is_some_and(|start| {
                frame.clone().enumerate().all(|(at, offset)| standing.get(&offset) == Some(&(start + at)))
            });
            // The segment's own head may be cut so short that it is none: then nothing in it can be read.
            prop_assert!(!whole || numbers.contains(&number) || bytes.len() < 20, "record {number} is whole and was not read: {mutations:?}");
        }
        let mut once = numbers.clone();
        once.dedup();
        prop_assert_eq!(once, numbers);
    }
}

/// Faults, row 18.
#[tokio::test]
async fn losses_are_counted_in_the_database_and_intact_records_stored_once() {
    let fixture = ClickFixture::new(TestStore::sqlite()).await;
    let left = AbandonedJournal::new(12);
    let mut bytes = fs::read(left.segment()).unwrap();
    bytes[left.frame(4).start + 30] ^= 1;
    bytes.truncate(bytes.len() - 3);
    fs::write(left.segment(), &bytes).unwrap();
    for _ in 0..2 {
        let control = tokio::runtime::Handle::current();
        let reader = Reader::abandoned(&left.folder());
        let mut ingest =
            Ingest::new(fixture.store.reader(), control, reader, None, Arc::new(MissCounter::default()));
        while ingest.ingest_next_batch(&fixture.clicks, moment("2099-01-01")).await.unwrap() > 0 {}
        assert_eq!(fixture.count("select count(*) from events").await, 10);
        assert_eq!(
            fixture.count("select count(distinct seq) from events where seq not in (5, 12)").await,
            10
        );
        assert_eq!(fixture.count("select clicks + bots from totals where kind = 0").await, 10);
        assert_eq!(fixture.count("select clicks from losses where reason = 'torn'").await, 1);
        assert_eq!(fixture.count("select clicks from losses where reason = 'damaged'").await, 1);
        assert_eq!(fixture.count("select count(*) from losses").await, 2);
    }
    assert!(left.is_in_quarantine());
    fixture.clicks.close().await;
    fixture.store.close().await;
}

/// Faults, row 42.
#[tokio::test]
async fn click_from_a_clock_ahead_is_stored_with_the_current_time() {
    let mut fixture = ClickFixture::new(TestStore::sqlite()).await;
    let link = fixture.link("a").await;
    let now = moment("2026-11-16T23:30:00Z");
    // Tomorrow by its own clock, five minutes ahead, right, and an hour behind.
    for offset_ms in [3_600_000, 300_000, 0, -3_600_000] {
        fixture.record(&[click(link, now.plus_ms(offset_ms), 1)]);
    }
    fixture.store_all_at(now).await;
    let stored = |sql: &'static str| fixture.count(sql);
    assert_eq!(stored("select count(*) from events").await, 4);
    assert_eq!(stored("select max(ts) from events").await, now.ms());
    assert_eq!(stored("select min(ts) from events").await, now.ms() - 3_600_000);
    assert_eq!(stored("select count(*) from days where kind = 0").await, 1, "no day to come");
    assert_eq!(stored("select clicks from days where kind = 0").await, 4);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

#[test]
fn segment_that_was_just_created_is_not_removed_by_the_reader() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), 7);
    let lane = journal.new_writer();
    append(&lane, 1, "");
    // As the keeper makes it, a moment before it is written to.
    let next = data.path().join(JOURNAL_FOLDER).join("j-0000000000000007-0-2");
    fs::write(&next, "").unwrap();
    let mut reader = Reader::live(&journal);
    assert_eq!(reader.read(MAX_ENTRIES).unwrap().entries.len(), 1);
    reader.commit();
    assert!(reader.read(MAX_ENTRIES).unwrap().is_empty());
    reader.commit();
    assert!(next.exists(), "clicks written to a file that is gone would be lost");
}

#[test]
fn staged_clicks_are_written_together_by_a_flush() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), 7);
    let lane = journal.new_writer();
    let mut reader = Reader::live(&journal);
    for number in 0..3 {
        assert!(lane.stage(&record(number, "")));
    }
    assert!(lane.has_staged());
    assert!(reader.read(MAX_ENTRIES).unwrap().is_empty());
    assert!(lane.flush());
    assert!(!lane.has_staged());
    let sequences: Vec<u64> =
        reader.read(MAX_ENTRIES).unwrap().entries.iter().map(|record| record.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    reader.commit();
    // Whoever noted this one went away before writing it.
    assert!(lane.stage(&record(3, "")));
    let keeper = JournalMaintenance::start(&journal).unwrap();
    wait_until("the keeper has written it", || reader.read(MAX_ENTRIES).unwrap().entries.len() == 1);
    drop(keeper);
    assert_eq!(journal.dropped(), 0);
}

#[test]
fn records_written_during_rotation_are_read_once_and_in_order() {
    let data = tempfile::tempdir().unwrap();
    let journal = open_with(data.path(), 7, 1 << 20);
    let keeper = JournalMaintenance::start(&journal).unwrap();
    let lanes = [journal.new_writer(), journal.new_writer()];
    let (stop, referrer) = (AtomicBool::new(false), format!("https://r.example/{}", "x".repeat(3000)));
    let mut reader = Reader::live(&journal);
    let mut read = [0_u64, 0];
    let mut take = |reader: &mut Reader| {
        let batch = reader.read(64).unwrap();
        for record in &batch.entries {
            let last = &mut read[usize::from(record.producer.thread)];
            assert_eq!(record.sequence, *last + 1, "thread {}", record.producer.thread);
            *last = record.sequence;
        }
        assert_eq!((batch.torn, batch.damaged), (0, 0));
        reader.commit();
        batch.entries.len()
    };
    let kept: Vec<u64> = std::thread::scope(|scope| {
        let writing: Vec<_> = lanes
            .iter()
            .map(|lane| {
                let (stop, referrer) = (&stop, &referrer);
                scope.spawn(move || {
                    let mut kept = 0;
                    // Until the reader has seen enough, and so often at most.
                    for number in 0..2_000_000 {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        // A full journal drops: then there is nothing to do but to wait for the reader.
                        kept += u64::from(lane.stage(&record(number, referrer)));
                        // Segments change while some are noted and not written, too.
                        if number % 3 == 2 {
                            lane.flush();
                        }
                        // Some segments' worth between two looks of the keeper, and not the whole disk's.
                        if number % 8 == 7 {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    kept
                })
            })
            .collect();
        // At least a dozen segments of each.
        let last = data.path().join(JOURNAL_FOLDER);
        wait_until("a dozen segments were used", || {
            while take(&mut reader) == 64 {}
            fs::read_dir(&last).unwrap().any(|file| {
                let name = file.unwrap().file_name().into_string().unwrap();
                name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok()).is_some_and(|n| n > 12)
            })
        });
        stop.store(true, Ordering::Relaxed);
        writing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(keeper);
    while take(&mut reader) > 0 {}
    assert_eq!(kept, read, "kept and read");
}

#[test]
fn unreadable_segment_loses_no_record_of_another() {
    let left = AbandonedJournal::new(5);
    // Read after the first, and nobody can read a folder.
    fs::create_dir(left.folder().join("j-0000000000000008-0-1")).unwrap();
    let mut reader = Reader::abandoned(&left.folder());
    assert_eq!(reader.read(MAX_ENTRIES).unwrap().entries.len(), 5);
    reader.commit();
    assert!(reader.read(MAX_ENTRIES).is_err(), "and it is said");
    // Read before the others, it does not hold them up either.
    let left = AbandonedJournal::new(5);
    fs::create_dir(left.folder().join("j-0000000000000001-0-1")).unwrap();
    let mut reader = Reader::abandoned(&left.folder());
    assert_eq!(reader.read(MAX_ENTRIES).unwrap().entries.len(), 5);
}

#[test]
fn segment_that_cannot_be_removed_is_not_read_again() {
    let left = AbandonedJournal::new(5);
    let mut bytes = fs::read(left.segment()).unwrap();
    bytes[left.frame(2).start + 20] ^= 1;
    fs::write(left.segment(), bytes).unwrap();
    let in_the_way = left.folder().join(QUARANTINE_FOLDER);
    fs::write(&in_the_way, "a file where the folder should be").unwrap();
    let mut reader = Reader::abandoned(&left.folder());
    assert_eq!(reader.read(MAX_ENTRIES).unwrap().entries.len(), 4);
    for _ in 0..3 {
        reader.commit();
        let again = reader.read(MAX_ENTRIES).unwrap();
        assert!(again.is_empty(), "{again:?}");
    }
    fs::remove_file(in_the_way).unwrap();
    reader.commit();
    assert!(left.is_in_quarantine());
}

#[test]
fn reading_many_segments_keeps_few_files_open() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join(JOURNAL_FOLDER);
    append(&open(data.path(), 0).new_writer(), 1, "");
    let segment = data.path().join("segment");
    fs::rename(folder.join("j-0000000000000000-0-1"), &segment).unwrap();
    for boot in 1..=1500 {
        fs::copy(&segment, folder.join(format!("j-{boot:016x}-0-1"))).unwrap();
    }
    let mut reader = Reader::abandoned(&folder);
    let opened = || {
        let files = fs::read_dir("/proc/self/fd").unwrap();
        files
            .filter(|file| {
                fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|to| to.starts_with(&folder))
            })
            .count()
    };
    let mut records = 0;
    while let count @ 1.. = reader.read(100).unwrap().entries.len() {
        records += count;
        assert!(opened() <= 2, "{} open files", opened());
        reader.commit();
    }
    assert_eq!((records, fs::read_dir(&folder).unwrap().count()), (1500, 0));
}

#[tokio::test]
async fn drop_count_survives_the_process_and_is_counted_once() {
    let test_store = TestStore::sqlite();
    let (store, clicks) = (test_store.open().await, ClickStore::open(&test_store.location).await.unwrap());
    let data = test_store.folder();
    let folder = data.join(JOURNAL_FOLDER);
    // No room at all, and nobody who stores anything.
    let journal = open_with(data, 7, 1);
    let keeper = JournalMaintenance::start(&journal).unwrap();
    let lane = journal.new_writer();
    wait_until("there is no room", || journal.is_dropping());
    for number in 0..5 {
        assert!(!lane.append(&record(number, "")));
    }
    let of_boot = |clicks| DroppedClicks { boot: 7, clicks };
    wait_until("they are kept", || read_drop_counters(&folder).unwrap() == [of_boot(5)]);
    assert!(!lane.append(&record(5, "")));
    drop(keeper);
    assert_eq!(read_drop_counters(&folder).unwrap(), [of_boot(6)], "the last one too");
    assert_eq!(
        clicks.losses_with(&read_drop_counters(&folder).unwrap()).await.unwrap(),
        [("dropped".to_owned(), 6)]
    );

    let tally = folder.join("d-0000000000000007");
    let bytes = std::fs::read(&tally).unwrap();
    let control = tokio::runtime::Handle::current();
    for _ in 0..2 {
        let misses = Arc::new(MissCounter::default());
        let mut ingest =
            Ingest::new(store.reader(), control.clone(), Reader::abandoned(&folder), None, misses);
        ingest.store_drops(&clicks).await.unwrap();
        assert_eq!(clicks.losses().await.unwrap(), [("dropped".to_owned(), 6)]);
        assert!(!tally.exists());
        // As if it had been killed before the file was gone.
        std::fs::write(&tally, &bytes).unwrap();
    }
    assert_eq!(
        clicks.losses_with(&read_drop_counters(&folder).unwrap()).await.unwrap(),
        [("dropped".to_owned(), 6)]
    );
}

#[tokio::test]
async fn process_without_uncounted_drops_leaves_no_drop_counter() {
    let test_store = TestStore::sqlite();
    let (store, clicks) = (test_store.open().await, ClickStore::open(&test_store.location).await.unwrap());
    let folder = test_store.folder().join(JOURNAL_FOLDER);
    drop(JournalMaintenance::start(&open(test_store.folder(), 7)).unwrap());
    assert_eq!(read_drop_counters(&folder).unwrap(), []);

    let journal = open_with(test_store.folder(), 8, 1);
    let keeper = JournalMaintenance::start(&journal).unwrap();
    let lane = journal.new_writer();
    wait_until("there is no room", || journal.is_dropping());
    assert!(!lane.append(&record(1, "")));
    let control = tokio::runtime::Handle::current();
    let mut ingest =
        Ingest::new(store.reader(), control, Reader::live(&journal), None, Arc::new(MissCounter::default()))
            .with_drop_counting(&journal);
    ingest.store_drops(&clicks).await.unwrap();
    drop(keeper);
    assert_eq!(read_drop_counters(&folder).unwrap(), []);
    assert_eq!(clicks.losses().await.unwrap(), [("dropped".to_owned(), 1)]);
}
