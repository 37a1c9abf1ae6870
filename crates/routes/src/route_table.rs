//! The route table: every link a redirect may need, in memory, bounded in bytes.
//!
//! An arena of small chunks and an index of 32-bit handles that stores no keys: about 25 bytes a link beyond its code and
//! target. While all links fit, the table is complete and an unknown code is known to be unknown. When they do not fit, the
//! oldest chunk goes, and from then on it is a cache in front of the store.
//!
//! Entries are never filtered: state and expiry are decided on every request.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::RwLock;
use rlinks_core::{Id, LinkState, RedirectStatus, Route, Timestamp};
use rlinks_store::RouteRecord;

/// Writers lock one shard and leave the others to readers.
const SHARD_COUNT: usize = 16;
/// A chunk is evicted whole, so it is small beside a shard's share of the memory. An entry that is larger has its own.
const CHUNK_BYTES: usize = 64 * 1024;
/// A shard is packed anew when more than half of it is dead, unless it is not worth the work.
const MIN_COMPACTION_BYTES: usize = 4 * CHUNK_BYTES;

pub struct RouteTable {
    shards: Box<[RwLock<Shard>]>,
    hasher: RandomState,
    shard_budget_bytes: usize,
    evicted: AtomicBool,
    links: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    /// Handles: the chunk's slot in the high half, the entry's offset in the low half.
    index: HashTable<u32>,
    chunks: Vec<Vec<u8>>,
    /// Slots in the order they were filled; the last is being filled.
    order: VecDeque<u16>,
    free: Vec<u16>,
    bytes: usize,
    dead_bytes: usize,
}

/// An entry as it lies in a chunk: its length, whose it is, and what `decide` needs. Lengths and small numbers take one byte.
struct Entry<'a> {
    length: usize,
    workspace: u64,
    version: u64,
    id: i64,
    code: &'a str,
    route: Route<'a>,
}

impl RouteTable {
    /// An empty table that will not grow beyond this.
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            shards: (0..SHARD_COUNT).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            shard_budget_bytes: (budget_bytes / SHARD_COUNT).max(2 * CHUNK_BYTES),
            evicted: AtomicBool::new(false),
            links: AtomicUsize::new(0),
        }
    }

    /// Whether everything that was put in is still there.
    pub fn is_complete(&self) -> bool {
        !self.evicted.load(Ordering::Relaxed)
    }

    /// How many links it holds.
    pub fn links(&self) -> usize {
        self.links.load(Ordering::Relaxed)
    }

    /// What it takes of memory.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().total_bytes()).sum()
    }

    /// Runs `then` on a link, under its shard's lock: borrow what you need and leave.
    pub fn with<R>(&self, workspace: Id, code: &str, then: impl FnOnce(Id, Route<'_>) -> R) -> Option<R> {
        let key = workspace.as_u64();
        let hash = self.hash(key, code);
        let shard = self.shard(hash).read();
        let handle = *shard.index.find(hash, |handle| shard.has_key(*handle, key, code))?;
        let entry = shard.entry(handle);
        Some(then(Id::from_i64(entry.id), entry.route))
    }

    /// Puts a link in, unless a newer version of it is there.
    pub fn insert(&self, record: &RouteRecord) {
        let key = record.workspace.as_u64();
        let code = record.code.as_str();
        let hash = self.hash(key, code);
        let mut shard = self.shard(hash).write();
        if let Some(handle) = shard.index.find(hash, |handle| shard.has_key(*handle, key, code)).copied() {
            let known = shard.entry(handle);
            if known.version > version(record) {
                return;
            }
            shard.dead_bytes += known.length;
            shard.unlink(hash, handle);
            self.links.fetch_sub(1, Ordering::Relaxed);
        }
        let handle = shard.append(record);
        let Shard { index, chunks, .. } = &mut *shard;
        index.insert_unique(hash, handle, |handle| self.hash_of(chunks, *handle));
        self.links.fetch_add(1, Ordering::Relaxed);
        self.enforce_budget(&mut shard);
    }

    /// Takes a link out.
    pub fn remove(&self, workspace: Id, code: &str) {
        let key = workspace.as_u64();
        let hash = self.hash(key, code);
        let mut shard = self.shard(hash).write();
        if let Some(handle) = shard.index.find(hash, |handle| shard.has_key(*handle, key, code)).copied() {
            shard.dead_bytes += shard.entry(handle).length;
            shard.unlink(hash, handle);
            self.links.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn enforce_budget(&self, shard: &mut Shard) {
        if shard.dead_bytes > MIN_COMPACTION_BYTES && shard.dead_bytes * 2 > shard.bytes {
            self.compact(shard);
        }
        while shard.total_bytes() > self.shard_budget_bytes && shard.order.len() > 1 {
            self.evict_oldest(shard);
        }
    }

    fn evict_oldest(&self, shard: &mut Shard) {
        let Some(slot) = shard.order.pop_front() else { return };
        let chunk = std::mem::take(&mut shard.chunks[usize::from(slot)]);
        let mut at = 0;
        while at < chunk.len() {
            let entry = Entry::decode(&chunk[at..]);
            let hash = self.hash(entry.workspace, entry.code);
            let handle = handle(slot, at);
            if shard.index.find(hash, |known| *known == handle).is_some() {
                shard.unlink(hash, handle);
                self.links.fetch_sub(1, Ordering::Relaxed);
                self.evicted.store(true, Ordering::Relaxed);
            } else {
                shard.dead_bytes = shard.dead_bytes.saturating_sub(entry.length);
            }
            at += entry.length;
        }
        shard.bytes -= chunk.capacity();
        shard.free.push(slot);
    }

    /// Copies what is alive into fresh chunks.
    fn compact(&self, shard: &mut Shard) {
        let old = std::mem::take(shard);
        let mut index = HashTable::with_capacity(old.index.len());
        for slot in &old.order {
            let chunk = &old.chunks[usize::from(*slot)];
            let mut at = 0;
            while at < chunk.len() {
                let entry = Entry::decode(&chunk[at..]);
                let hash = self.hash(entry.workspace, entry.code);
                let known = handle(*slot, at);
                if old.index.find(hash, |handle| *handle == known).is_some() {
                    let moved = shard.append_bytes(&chunk[at..at + entry.length]);
                    index.insert_unique(hash, moved, |handle| self.hash_of(&shard.chunks, *handle));
                }
                at += entry.length;
            }
        }
        shard.index = index;
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // The index uses the lowest and the highest bits; these are in between.
        &self.shards[usize::try_from(hash >> 32).unwrap_or_default() % SHARD_COUNT]
    }

    fn hash(&self, workspace: u64, code: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(workspace);
        hasher.write(code.as_bytes());
        hasher.finish()
    }

    fn hash_of(&self, chunks: &[Vec<u8>], handle: u32) -> u64 {
        let entry = Entry::decode(bytes_at(chunks, handle));
        self.hash(entry.workspace, entry.code)
    }
}

impl Shard {
    fn entry(&self, handle: u32) -> Entry<'_> {
        Entry::decode(bytes_at(&self.chunks, handle))
    }

    /// Compares without reading the rest of the entry.
    fn has_key(&self, handle: u32, workspace: u64, code: &str) -> bool {
        let bytes = bytes_at(&self.chunks, handle);
        let mut at = 0;
        read_varint(bytes, &mut at);
        if read_varint(bytes, &mut at) != workspace {
            return false;
        }
        read_varint(bytes, &mut at);
        let (flags, length) = (bytes[at], usize::from(bytes[at + 1]));
        at += 3 + 8 + if flags & HAS_EXPIRY == 0 { 0 } else { 8 };
        length == code.len() && bytes[at..at + length] == *code.as_bytes()
    }

    fn unlink(&mut self, hash: u64, handle: u32) {
        if let Ok(found) = self.index.find_entry(hash, |known| *known == handle) {
            found.remove();
        }
    }

    fn total_bytes(&self) -> usize {
        self.bytes + self.index.allocation_size()
    }

    fn append(&mut self, record: &RouteRecord) -> u32 {
        let mut bytes = Vec::with_capacity(record.code.as_str().len() + record.target.as_str().len() + 48);
        Entry::encode(record, &mut bytes);
        self.append_bytes(&bytes)
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> u32 {
        let room = self.order.back().map_or(0, |slot| {
            let chunk = &self.chunks[usize::from(*slot)];
            chunk.capacity() - chunk.len()
        });
        if room < bytes.len() {
            let fresh = Vec::with_capacity(CHUNK_BYTES.max(bytes.len()));
            self.bytes += fresh.capacity();
            let slot = if let Some(slot) = self.free.pop() {
                self.chunks[usize::from(slot)] = fresh;
                slot
            } else {
                self.chunks.push(fresh);
                u16::try_from(self.chunks.len() - 1).expect("a shard's share is below 65,536 chunks")
            };
            self.order.push_back(slot);
        }
        let slot = *self.order.back().expect("there is a chunk to fill");
        let chunk = &mut self.chunks[usize::from(slot)];
        let at = chunk.len();
        chunk.extend_from_slice(bytes);
        handle(slot, at)
    }
}

/// Offsets fit 16 bits: a chunk larger than that holds one entry, at its beginning.
fn handle(slot: u16, at: usize) -> u32 {
    u32::from(slot) << 16 | u32::try_from(at & 0xffff).unwrap_or_default()
}

fn bytes_at(chunks: &[Vec<u8>], handle: u32) -> &[u8] {
    let (slot, at) = ((handle >> 16) as usize, (handle & 0xffff) as usize);
    &chunks[slot][at..]
}

fn version(record: &RouteRecord) -> u64 {
    record.version.max(0).cast_unsigned()
}

const HTTPS_ONLY: u8 = 1 << 4;
const NO_LOOP: u8 = 1 << 5;
const HAS_EXPIRY: u8 = 1 << 6;

impl<'a> Entry<'a> {
    /// `length workspace version flags code_length host_length id [expires_at] code target`
    fn encode(record: &RouteRecord, out: &mut Vec<u8>) {
        let (code, target) = (record.code.as_str(), record.target.as_str());
        let mut body = Vec::with_capacity(48);
        write_varint(&mut body, record.workspace.as_u64());
        write_varint(&mut body, version(record));
        let state = match record.state {
            LinkState::Active => 0,
            LinkState::Disabled => 1,
            LinkState::Deleted => 2,
        };
        let status = match record.redirect_status {
            RedirectStatus::MovedPermanently => 0,
            RedirectStatus::Found => 1,
            RedirectStatus::TemporaryRedirect => 2,
            RedirectStatus::PermanentRedirect => 3,
        };
        let flag = |on, bit| if on { bit } else { 0 };
        let flags = state
            | status << 2
            | flag(record.https_only, HTTPS_ONLY)
            | flag(record.no_loop, NO_LOOP)
            | flag(record.expires_at.is_some(), HAS_EXPIRY);
        let short = |length: usize| u8::try_from(length).expect("codes and hosts have fewer than 256 bytes");
        body.extend([flags, short(code.len()), short(record.target.host().len())]);
        body.extend(record.id.as_i64().to_le_bytes());
        if let Some(at) = record.expires_at {
            body.extend(at.ms().to_le_bytes());
        }
        write_varint_length(out, body.len() + code.len() + target.len());
        out.extend(body);
        out.extend(code.as_bytes());
        out.extend(target.as_bytes());
    }

    fn decode(bytes: &'a [u8]) -> Self {
        let mut at = 0;
        let rest = usize::try_from(read_varint(bytes, &mut at)).expect("a length written by us");
        let length = at + rest;
        let workspace = read_varint(bytes, &mut at);
        let version = read_varint(bytes, &mut at);
        let (flags, code_length, host_length) =
            (bytes[at], usize::from(bytes[at + 1]), usize::from(bytes[at + 2]));
        at += 3;
        let id = read_i64(bytes, &mut at);
        let expires_at = (flags & HAS_EXPIRY != 0).then(|| Timestamp::from_ms(read_i64(bytes, &mut at)));
        let code = text(&bytes[at..at + code_length]);
        let target = text(&bytes[at + code_length..length]);
        // After `http://` or `https://`: a stored target begins with nothing else.
        let host = if target.as_bytes()[4] == b's' { 8 } else { 7 };
        let route = Route {
            state: match flags & 3 {
                0 => LinkState::Active,
                1 => LinkState::Disabled,
                _ => LinkState::Deleted,
            },
            redirect_status: match flags >> 2 & 3 {
                0 => RedirectStatus::MovedPermanently,
                1 => RedirectStatus::Found,
                2 => RedirectStatus::TemporaryRedirect,
                _ => RedirectStatus::PermanentRedirect,
            },
            https_only: flags & HTTPS_ONLY != 0,
            no_loop: flags & NO_LOOP != 0,
            expires_at,
            target,
            target_host: &target[host..host + host_length],
        };
        Self { length, workspace, version, id, code, route }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("codes and targets are ASCII")
}

fn read_i64(bytes: &[u8], at: &mut usize) -> i64 {
    let number = i64::from_le_bytes(bytes[*at..*at + 8].try_into().expect("eight bytes"));
    *at += 8;
    number
}

/// Seven bits a byte, low ones first; the eighth says there is more.
fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn write_varint_length(out: &mut Vec<u8>, length: usize) {
    write_varint(out, length as u64);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rlinks_core::{Code, Id, LinkState, RedirectStatus, Target, Timestamp};
    use rlinks_store::RouteRecord;

    use super::RouteTable;

    fn record(workspace: i64, code: &str, target: &str, version: i64) -> RouteRecord {
        RouteRecord {
            id: Id::from_i64(i64::MAX - version),
            workspace: Id::from_i64(workspace),
            code: Code::from_path(code).unwrap(),
            target: Target::parse(target, 65_536).unwrap(),
            redirect_status: RedirectStatus::PermanentRedirect,
            state: LinkState::Disabled,
            https_only: true,
            no_loop: false,
            expires_at: (version % 2 == 0).then(|| Timestamp::from_ms(1_800_000_000_000 + version)),
            version,
        }
    }

    #[track_caller]
    fn check(table: &RouteTable, record: &RouteRecord) {
        let found = table.with(record.workspace, record.code.as_str(), |id, route| {
            assert_eq!((id, route), (record.id, record.route()));
        });
        assert!(found.is_some(), "{}", record.code);
    }

    #[test]
    fn stored_routes_are_read_back_unchanged() {
        let table = RouteTable::new(64 << 20);
        let records = [
            record(1, "a", "https://example.com/", 1),
            record(1, &"z".repeat(64), "http://[::1]:8080/x?y#z", 2),
            record(i64::MAX, "a", "https://other.example./p", 300),
            record(7, "long", &format!("https://example.com/{}", "x".repeat(65_000)), 4),
            record(7, "after-long", "https://example.com/after", 5),
        ];
        for record in &records {
            table.insert(record);
        }
        for record in &records {
            check(&table, record);
        }
        assert!(table.with(Id::from_i64(2), "a", |_, _| ()).is_none());
        assert_eq!((table.links(), table.is_complete()), (5, true));
    }

    #[test]
    fn older_version_does_not_replace_a_newer_one() {
        let table = RouteTable::new(1 << 20);
        table.insert(&record(1, "a", "https://new.example/", 5));
        table.insert(&record(1, "a", "https://old.example/", 4));
        check(&table, &record(1, "a", "https://new.example/", 5));
        table.insert(&record(1, "a", "https://newest.example/", 6));
        check(&table, &record(1, "a", "https://newest.example/", 6));
        assert_eq!(table.links(), 1);
        table.remove(Id::from_i64(1), "a");
        assert_eq!(table.links(), 0);
    }

    #[test]
    fn repeated_changes_do_not_grow_memory() {
        let table = RouteTable::new(64 << 20);
        for version in 1..200_000 {
            table.insert(&record(
                1,
                &format!("c{}", version % 100),
                "https://example.com/some/longer/path/than/usual",
                version,
            ));
        }
        assert_eq!(table.links(), 100);
        assert!(table.bytes() < 16 * 10 * 64 * 1024, "{}", table.bytes());
        for version in 199_900..200_000 {
            check(
                &table,
                &record(
                    1,
                    &format!("c{}", version % 100),
                    "https://example.com/some/longer/path/than/usual",
                    version,
                ),
            );
        }
    }

    #[test]
    fn oldest_routes_are_evicted_over_budget_and_the_table_is_incomplete() {
        let budget = 16 * 3 * 64 * 1024;
        let table = RouteTable::new(budget);
        let mut put = HashMap::new();
        for number in 0..60_000 {
            let record = record(1, &format!("code-{number}"), "https://example.com/a/b/c/d/e/f/g/h/i/j/k", 1);
            table.insert(&record);
            put.insert(number, record);
        }
        assert!(!table.is_complete());
        assert!(table.bytes() <= budget, "{} of {budget}", table.bytes());
        let kept = put
            .values()
            .filter(|record| table.with(record.workspace, record.code.as_str(), |_, _| ()).is_some())
            .count();
        assert_eq!(kept, table.links());
        assert!(kept > 10_000, "{kept}");
        (59_000..60_000).for_each(|number| check(&table, &put[&number]));
    }

    #[test]
    fn overhead_per_link_beyond_its_text_is_small() {
        let table = RouteTable::new(512 << 20);
        let mut text = 0;
        for number in 0..200_000_i64 {
            let record =
                record(1, &format!("{number:07}"), &format!("https://example.com/landing/{number:052}"), 1);
            text += record.code.as_str().len() + record.target.as_str().len();
            table.insert(&record);
        }
        let beyond = (table.bytes() - text) / 200_000;
        assert!(beyond < 40, "{beyond} bytes a link beyond code and target");
    }
}
