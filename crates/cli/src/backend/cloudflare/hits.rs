//! Hits: what the Worker has written down of its redirects, one key `hit:{code}:{day}:{id}` for each.
//!
//! Keys are listed in the order of codes, not of time, so every look goes through all of them; what a key says is enough to know
//! which hits are new and how many there are, and only those that are wanted are read.

use std::collections::{BTreeMap, HashMap};

use rlinks_clicks::edge_hits::Hit;
use rlinks_clicks::time::day_of;
use rlinks_core::link::code::is_code;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Code, Timestamp};
use serde::Deserialize;

use super::Cloudflare;
use crate::backend::cloudflare::client::{KeyValue, MAX_KEYS_PER_READ};
use crate::backend::cloudflare::objects::{route_key, value_with_stats};
use crate::error::CliError;

const HIT_KEY_PREFIX: &str = "hit:";
/// Not a code: the log of changes.
const AUDIT_LOG_CODE: &str = "__admin__";

/// A key, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HitKey {
    /// The UTC day, counted from 1970.
    pub(crate) day: i64,
    pub(crate) code: String,
    pub(crate) id: String,
    key: String,
}

impl HitKey {
    /// None where it is no hit's.
    fn parse(key: String) -> Option<Self> {
        let mut parts = key.strip_prefix(HIT_KEY_PREFIX)?.split(':');
        let (code, day, id) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || code == AUDIT_LOG_CODE || !is_code(code) || id.is_empty() {
            return None;
        }
        let digits = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
        let date = digits.then(|| format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..]))?;
        let day = day_of(Timestamp::parse(&date).ok()?);
        Some(Self { day, code: code.to_owned(), id: id.to_owned(), key })
    }

    /// Whether its id begins with its moment.
    fn is_ordered(&self) -> bool {
        self.id.len() == 36 && self.id.as_bytes()[14] == b'7'
    }
}

// What `publish-stats` did.
#[derive(Debug, Default)]
pub(crate) struct PublishedStats {
    pub(crate) written: usize,
    pub(crate) right: usize,
    /// Codes with hits and no object.
    pub(crate) without_object: usize,
}

/// Only the moment of a hit.
#[derive(Deserialize)]
struct HitTime {
    ts: Timestamp,
}

impl Cloudflare {
    /// Every hit there is, by day.
    pub(crate) async fn hit_keys(&self) -> Result<Vec<HitKey>, CliError> {
        let keys = self.api.keys(&self.hits, HIT_KEY_PREFIX).await?;
        let mut keys: Vec<HitKey> = keys.into_iter().filter_map(HitKey::parse).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Reads hits, in their order, and says how many could not be read.
    pub(crate) async fn read_hits(&self, keys: &[HitKey]) -> Result<(Vec<Hit>, u64), CliError> {
        let names: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
        let values = self.api.get_all(&self.hits, &names).await?;
        let (mut hits, mut unread) = (Vec::with_capacity(keys.len()), 0);
        for HitKey { code, id, key, .. } in keys {
            match values.get(key).map(|value| Hit::parse(code, id, value)) {
                Some(Some(hit)) => hits.push(hit),
                Some(None) => unread += 1,
                // It had an end, and that came.
                None => {}
            }
        }
        Ok((hits, unread))
    }

    /// What all hits add up to, by code.
    pub(crate) async fn count_hits(&self) -> Result<BTreeMap<String, ClickTotals>, CliError> {
        let keys = self.hit_keys().await?;
        let mut counted: BTreeMap<String, ClickTotals> = BTreeMap::new();
        for HitKey { code, .. } in &keys {
            counted.entry(code.clone()).or_default().hits += 1;
        }
        let last: Vec<String> = last_hit_candidates(&keys).into_iter().map(|key| key.key.clone()).collect();
        for some in last.chunks(MAX_KEYS_PER_READ) {
            for (key, value) in self.api.get_all(&self.hits, some).await? {
                let Some(HitKey { code, .. }) = HitKey::parse(key) else { continue };
                let Ok(HitTime { ts }) = serde_json::from_str(&value) else { continue };
                let stats = counted.entry(code).or_default();
                stats.last_hit = stats.last_hit.max(Some(ts));
            }
        }
        Ok(counted)
    }

    /// Writes numbers into the objects of these codes, and touches nothing else of them. Each is read right before it is written.
    pub(crate) async fn publish_stats(
        &self,
        counted: &BTreeMap<String, ClickTotals>,
    ) -> Result<PublishedStats, CliError> {
        let codes: Vec<Code> = counted.keys().filter_map(|code| Code::from_path(code)).collect();
        let progress = self.output.counter("writing numbers", Some(codes.len() as u64));
        let mut done = PublishedStats::default();
        for some in codes.chunks(MAX_KEYS_PER_READ) {
            let keys: Vec<String> = some.iter().map(route_key).collect();
            let values = self.api.get_all(&self.routes, &keys).await?;
            let mut pairs = Vec::new();
            for (code, key) in some.iter().zip(keys) {
                let stats = counted.get(code.as_str()).copied().unwrap_or_default();
                match values.get(&key).map(|value| value_with_stats(value, stats)) {
                    Some(Some(value)) => pairs.push(KeyValue { key, value }),
                    Some(None) => done.right += 1,
                    None => done.without_object += 1,
                }
            }
            self.api.put_all(&self.routes, &pairs).await?;
            done.written += pairs.len();
            progress.add(some.len() as u64);
        }
        Ok(done)
    }
}

/// Of each code the keys one of which is its last hit: of its last day the one with the latest id where ids tell, else all.
fn last_hit_candidates(keys: &[HitKey]) -> Vec<&HitKey> {
    let mut last: HashMap<&str, Vec<&HitKey>> = HashMap::new();
    for key in keys {
        let known = last.entry(&key.code).or_default();
        match known.first().map(|first| first.day) {
            Some(day) if day > key.day => {}
            Some(day) if day == key.day => {
                // Sorted, so this one is later.
                if key.is_ordered() {
                    known.retain(|other| !other.is_ordered());
                }
                known.push(key);
            }
            _ => *known = vec![key],
        }
    }
    last.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> HitKey {
        HitKey::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn hit_keys_are_parsed_or_rejected() {
        let read = key("hit:parity:20260112:019c09bf-e495-7abc-bfff-fffe00000002");
        assert_eq!((read.code.as_str(), read.day), ("parity", 20465));
        assert!(read.is_ordered());
        for text in [
            "hit:__admin__:20260112:019c09bf-e495-7abc-bfff-fffe00000002",
            "hit:parity:20260112",
            "hit:parity:20260112:",
            "hit:parity:2026:x",
            "hit:parity:20261399:x",
            "hit:pa/rity:20260112:x",
            "hit:parity:20260112:x:y",
            "route:parity",
        ] {
            assert_eq!(HitKey::parse(text.to_owned()), None, "{text}");
        }
    }

    #[test]
    fn last_hit_candidates_are_the_newest_key_of_each_code_and_every_unordered_key() {
        let mut keys = [
            "hit:a:20260112:019c09bf-e495-7abc-bfff-fffe00000002",
            "hit:a:20260112:019c09bf-e495-7abc-bfff-fffe00000001",
            "hit:a:20260111:019d09bf-e495-7abc-bfff-fffe00000001",
            "hit:b:20260101:f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "hit:b:20260101:a47ac10b-58cc-4372-a567-0e02b2c3d479",
        ]
        .map(key);
        keys.sort();
        let mut last: Vec<&str> = last_hit_candidates(&keys).iter().map(|key| key.id.as_str()).collect();
        last.sort_unstable();
        assert_eq!(
            last,
            [
                "019c09bf-e495-7abc-bfff-fffe00000002",
                "a47ac10b-58cc-4372-a567-0e02b2c3d479",
                "f47ac10b-58cc-4372-a567-0e02b2c3d479"
            ]
        );
    }
}
