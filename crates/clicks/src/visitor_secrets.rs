//! The two secrets of counting: the salt of each UTC day, and the key of the hashes of user agents.
//!
//! A visitor's key is a hash of address and user agent under the day's salt. The salt is made when its day begins and destroyed
//! when it is over; from then on nobody, not even who has every file, can tell whose key it was, or join two days. It survives a
//! restart, so that `kill -9` does not make everybody a new visitor: as a file beside the store, or, where nodes share a
//! PostgreSQL, as a row of an unlogged table.
//!
//! Serving threads read memory only. A day nobody has prepared (a clock that jumped) gets a salt on the spot; it is kept a
//! moment later.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rlinks_core::{Timestamp, hex};
use rlinks_store::clock::Random;
use rlinks_store::database::atomic_file::write_if_absent;
use rlinks_store::database::pool::{Pool, read, run_in};
use rlinks_store::{Location, StoreError};
use siphasher::sip::SipHasher13;

use crate::time::{DAY_MS, HOUR_MS, day_of};

/// Sixteen bytes nobody else knows.
pub type HashKey = [u8; 16];
const KEY_FILE: &str = "click-key";
/// A salt outlives its day by this much, for clicks whose clock was behind.
const SALT_GRACE_MS: i64 = HOUR_MS;

/// The secrets in force.
pub struct VisitorSecrets {
    folder: Option<PathBuf>,
    random: Random,
    user_agent_key: Mutex<Option<HashKey>>,
    salts: Mutex<BTreeMap<i64, Salt>>,
    /// Counts changes of mind, so that threads know when to ask again.
    epoch: AtomicU64,
}

#[derive(Clone, Copy)]
struct Salt {
    secret: HashKey,
    is_stored: bool,
}

impl VisitorSecrets {
    /// The secrets of an installation whose store is there. With PostgreSQL they come with the first [`maintain`](Self::maintain).
    pub fn open(
        location: &Location,
        data: &Path,
        random: Random,
        now: Timestamp,
    ) -> std::io::Result<Arc<Self>> {
        let folder = matches!(location, Location::Sqlite(_)).then(|| data.to_owned());
        let secrets = Self {
            folder,
            random,
            user_agent_key: Mutex::default(),
            salts: Mutex::default(),
            epoch: AtomicU64::new(0),
        };
        secrets.maintain_files(now)?;
        Ok(Arc::new(secrets))
    }

    /// Moves when a secret that was given out is no longer the one in force: another node was first.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The key of the hashes of user agents: the same for ever on one installation.
    pub fn agent_key(&self) -> HashKey {
        *self.user_agent_key.lock().get_or_insert_with(|| self.random.bytes())
    }

    /// The salt of a day.
    pub fn salt(&self, day: i64) -> HashKey {
        let make = || Salt { secret: self.random.bytes(), is_stored: false };
        self.salts.lock().entry(day).or_insert_with(make).secret
    }

    /// Prepares today and tomorrow, keeps what is not kept, and destroys what is over. `pool` is the clicks' database.
    pub async fn maintain(&self, pool: &Pool, now: Timestamp) -> Result<(), StoreError> {
        match pool {
            Pool::Sqlite { .. } => self
                .maintain_files(now)
                .map_err(|error| StoreError::Unavailable(format!("the secrets of clicks: {error}"))),
            Pool::Postgres(_) => self.maintain_rows(pool, now).await,
        }
    }

    /// The days that need a salt, and those whose salt must go.
    fn salt_days(&self, now: Timestamp) -> (Vec<i64>, Vec<i64>) {
        let today = day_of(now);
        let first = day_of(now.plus_ms(-SALT_GRACE_MS));
        let mut wanted: Vec<i64> = (first..=today + 1).collect();
        let salts = self.salts.lock();
        wanted.extend(
            salts.iter().filter(|(day, salt)| **day >= first && !salt.is_stored).map(|(day, _)| *day),
        );
        let over = salts.keys().copied().filter(|day| *day < first).collect();
        (wanted, over)
    }

    fn adopt(&self, day: i64, secret: HashKey) {
        let known = self.salts.lock().insert(day, Salt { secret, is_stored: true });
        if known.is_some_and(|known| known.secret != secret) {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn maintain_files(&self, now: Timestamp) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        if self.user_agent_key.lock().is_none() {
            let key = write_once(&folder.join(KEY_FILE), self.random.bytes())?;
            *self.user_agent_key.lock() = Some(key);
        }
        let (wanted, over) = self.salt_days(now);
        for day in wanted {
            let known = self.salts.lock().get(&day).copied();
            if known.is_none_or(|salt| !salt.is_stored) {
                let secret = known.map_or_else(|| self.random.bytes(), |salt| salt.secret);
                self.adopt(day, write_once(&folder.join(file_name(day)), secret)?);
            }
        }
        self.salts.lock().retain(|day, _| !over.contains(day));
        destroy_files(folder, now)
    }

    async fn maintain_rows(&self, pool: &Pool, now: Timestamp) -> Result<(), StoreError> {
        let (wanted, over) = self.salt_days(now);
        let mut tx = pool.begin().await?;
        let key = self.agent_key();
        run_in!(
            &mut tx,
            "insert into keys (name, value) values ('agents', $1) on conflict do nothing",
            encode(key)
        )?;
        for day in wanted {
            run_in!(
                &mut tx,
                "insert into salts (day, salt) values ($1, $2) on conflict do nothing",
                day,
                encode(self.salt(day))
            )?;
        }
        run_in!(&mut tx, "delete from salts where day < $1", day_of(now.plus_ms(-SALT_GRACE_MS)))?;
        tx.commit().await?;
        // Another node may have been first; its word counts.
        let rows: Vec<(i64, String)> = read!(pool, fetch_all, "select day, salt from salts")?;
        for (day, salt) in rows {
            if let Some(secret) = decode(&salt) {
                self.adopt(day, secret);
            }
        }
        let row: Option<(String,)> =
            read!(pool, fetch_optional, "select value from keys where name = 'agents'")?;
        if let Some(key) = row.and_then(|(key,)| decode(&key)) {
            let known = self.user_agent_key.lock().replace(key);
            if known.is_some_and(|known| known != key) {
                self.epoch.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.salts.lock().retain(|day, _| !over.contains(day));
        Ok(())
    }
}

/// The keyed hash of a user agent.
pub fn hash_user_agent(key: &HashKey, user_agent: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(user_agent);
    hasher.finish()
}

/// The key of a visitor under a day's salt.
pub fn visitor_key(salt: &HashKey, address: std::net::IpAddr, ua_hash: u64) -> u64 {
    let mut hasher = SipHasher13::new_with_key(salt);
    let agent = ua_hash.to_le_bytes();
    match address {
        std::net::IpAddr::V4(address) => {
            let mut both = [0; 12];
            both[..4].copy_from_slice(&address.octets());
            both[4..].copy_from_slice(&agent);
            hasher.write(&both);
        }
        std::net::IpAddr::V6(address) => {
            let mut both = [0; 24];
            both[..16].copy_from_slice(&address.octets());
            both[16..].copy_from_slice(&agent);
            hasher.write(&both);
        }
    }
    hasher.finish()
}

/// Destroys the salts of days that are over, also those an earlier process left.
fn destroy_files(folder: &Path, now: Timestamp) -> std::io::Result<()> {
    let first = file_name(day_of(now.plus_ms(-SALT_GRACE_MS)));
    // Also what a process that was killed while it kept one left beside it, under a hidden name.
    let is_over = |name: &str| {
        let name = name.strip_prefix('.').unwrap_or(name);
        name.starts_with("salt-") && name.get(..first.len()).is_some_and(|day| *day < *first)
    };
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_over) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn file_name(day: i64) -> String {
    format!("salt-{}", Timestamp::from_ms(day * DAY_MS).day())
}

/// Writes a secret where there is none yet, whole or not at all, and gives the one that is there.
fn write_once(path: &Path, secret: HashKey) -> std::io::Result<HashKey> {
    if let Some(there) = read_file(path)? {
        return Ok(there);
    }
    write_if_absent(path, encode(secret).as_bytes())?;
    // Another process may have been first.
    Ok(read_file(path)?.unwrap_or(secret))
}

fn read_file(path: &Path) -> std::io::Result<Option<HashKey>> {
    match std::fs::read_to_string(path) {
        Ok(text) => decode(text.trim()).map(Some).ok_or_else(|| {
            std::io::Error::new(ErrorKind::InvalidData, format!("{} is not a key of ours", path.display()))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn encode(secret: HashKey) -> String {
    hex::encode(&secret)
}

fn decode(text: &str) -> Option<HashKey> {
    hex::decode(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;
    use rlinks_store::Location;

    use std::sync::atomic::{AtomicU8, Ordering};

    use rlinks_store::clock::Random;

    use super::{VisitorSecrets, visitor_key};
    use crate::time::day_of;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn counting() -> Random {
        let next = AtomicU8::new(1);
        Random::new(move |bytes| bytes.fill(next.fetch_add(1, Ordering::Relaxed)))
    }

    #[test]
    fn salt_survives_a_restart_and_is_deleted_an_hour_after_its_day() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("rlinks.db"));
        let random = counting();
        let open = |now| VisitorSecrets::open(&location, folder.path(), random.clone(), now).unwrap();
        let noon = at("2026-11-16T12:00:00Z");
        let today = day_of(noon);
        let first = open(noon);
        let (salt, key) = (first.salt(today), first.agent_key());
        let again = open(at("2026-11-16T23:59:59Z"));
        assert_eq!((again.salt(today), again.agent_key()), (salt, key));
        assert_ne!(again.salt(today + 1), salt);
        let late = open(at("2026-11-17T00:59:59Z"));
        assert_eq!(late.salt(today), salt, "for clicks whose clock was behind");
        // As a process that was killed in the middle of keeping it leaves it.
        for left in ["salt-20261116.new-99", ".salt-20261116.aBc123.part"] {
            std::fs::copy(folder.path().join("salt-20261116"), folder.path().join(left)).unwrap();
        }
        let over = open(at("2026-11-17T01:00:00Z"));
        assert_ne!(over.salt(today), salt);
        let files: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(files.iter().all(|name| !name.to_string_lossy().contains("20261116")), "{files:?}");
        assert_eq!(over.agent_key(), key);
    }

    #[test]
    fn visitor_key_is_stable_within_one_day_only() {
        let (one, two) = ([1; 16], [2; 16]);
        let address = "203.0.113.7".parse().unwrap();
        assert_eq!(visitor_key(&one, address, 5), visitor_key(&one, address, 5));
        assert_ne!(visitor_key(&one, address, 5), visitor_key(&two, address, 5));
        assert_ne!(visitor_key(&one, address, 5), visitor_key(&one, address, 6));
        assert_ne!(visitor_key(&one, address, 5), visitor_key(&one, "203.0.113.8".parse().unwrap(), 5));
    }
}
