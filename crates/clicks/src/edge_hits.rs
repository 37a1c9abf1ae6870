//! Clicks that were recorded elsewhere: the hits of the Worker at Cloudflare, each stored once, by its id.
//!
//! A hit knows less than a click of ours: no visitor's key, and of the user agent a hash alone. So imported clicks count as clicks
//! of people on devices nobody knows, and add no visitors.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::pool::{read, read_in, run_in};
use serde::Deserialize;
use uuid::Uuid;

use crate::bulk_lookup::{json, look_up};
use crate::click::{Click, Device, IpPrefix};
use crate::database::ClickStore;
use crate::enrich::geo::GeoLocation;
use crate::enrich::user_agent;
use crate::enrich::{EnrichedBatch, Event, location_key, named_location};
use crate::ingest::write;
use crate::journal::Producer;
use crate::time::day_of;
use rlinks_core::click::attribution;

/// Hits in one transaction: it must not hold the write lock for long.
pub const MAX_HITS_PER_BATCH: usize = 4096;

/// A hit as the Worker writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its name for ever.
    pub id: Uuid,
    pub ts: Timestamp,
    pub code: String,
    pub country: Option<[u8; 2]>,
    /// The hash of the user agent, by the Worker's key.
    pub ua_hash: u64,
    pub referrer: Option<String>,
    pub prefix: Option<IpPrefix>,
}

/// The value of a key `hit:{code}:{day}:{id}`.
#[derive(Deserialize)]
struct HitValue<'a> {
    ts: Timestamp,
    #[serde(default, borrow)]
    country: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    ua_hash: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    referrer: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    ip_prefix: Option<Cow<'a, str>>,
}

impl Hit {
    /// Reads a hit. The key says whose it is and what it is called, the value all the rest. Of what is malformed nothing is kept;
    /// without a name or a moment it is no hit.
    pub fn parse(code: &str, id: &str, value: &str) -> Option<Self> {
        let value: HitValue<'_> = serde_json::from_str(value).ok()?;
        let referrer =
            value.referrer.as_deref().and_then(|text| attribution::parse_referrer(text.as_bytes()));
        Some(Self {
            id: id.parse().ok()?,
            ts: value.ts,
            code: code.to_owned(),
            country: value.country.as_deref().and_then(parse_country),
            ua_hash: value.ua_hash.as_deref().and_then(parse_hash).unwrap_or_default(),
            referrer: referrer.map(Cow::into_owned),
            prefix: value.ip_prefix.as_deref().and_then(parse_network),
        })
    }

    /// The click it was, as exports write it.
    pub fn click(&self) -> Click {
        let country = self.country.as_ref().and_then(|letters| std::str::from_utf8(letters).ok());
        Click {
            n: 0,
            id: self.id,
            ts: self.ts,
            link: Id::from_i64(0),
            workspace: Id::from_i64(0),
            code: self.code.clone(),
            referrer: self.referrer.clone(),
            user_agent: None,
            ua_hash: Some(self.ua_hash).filter(|hash| *hash != 0),
            ip_prefix: self.prefix,
            country: country.map(str::to_owned),
            city: None,
            latitude: None,
            longitude: None,
            device: Device::Unknown,
            browser: None,
            browser_version: None,
            system: None,
            system_version: None,
            utm_source: None,
            utm_medium: None,
            utm_campaign: None,
            visitor: None,
            bot: false,
        }
    }
}

/// Cloudflare writes XX for unknown and T1 for Tor, and neither is a country.
fn parse_country(text: &str) -> Option<[u8; 2]> {
    let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
    let is_country = letters.iter().all(u8::is_ascii_alphabetic) && !text.eq_ignore_ascii_case("XX");
    is_country.then(|| letters.map(|letter| letter.to_ascii_uppercase()))
}

/// The first 16 hexadecimal digits.
fn parse_hash(text: &str) -> Option<u64> {
    let digits = text.get(..16.min(text.len()))?;
    u64::from_str_radix(digits, 16).ok()
}

/// A network. Whatever is written, no more of it is kept than we would keep.
fn parse_network(text: &str) -> Option<IpPrefix> {
    let address: IpAddr = text.split('/').next()?.parse().ok()?;
    Some(IpPrefix::from_address(address))
}

/// A hit and the link it is of.
#[derive(Clone, Debug)]
pub struct LinkedHit<'a> {
    pub hit: &'a Hit,
    pub link: Id,
    /// Who made that, where it is a user.
    pub owner: Option<Id>,
}

/// What became of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitImportReport {
    /// Stored and added up.
    pub stored: u64,
    pub already_stored: u64,
    /// Of days whose raw clicks are not kept any more: whether they were counted, nobody knows.
    pub too_old: u64,
}

impl ClickStore {
    /// Stores hits of a workspace that are not there yet, and adds them up, in one transaction. At most [`MAX_HITS_PER_BATCH`] at once.
    pub async fn import_hits(
        &self,
        workspace: Id,
        hits: &[LinkedHit<'_>],
        now: Timestamp,
    ) -> Result<HitImportReport, StoreError> {
        let mut tx = self.pool.begin().await?;
        let first = write::lock(&mut tx).await?;
        let frozen: Option<(i64,)> = read_in!(
            &mut tx,
            fetch_optional,
            "select before_day from frozen where workspace_id = $1",
            workspace.as_i64()
        )?;
        let kept_from = frozen.map_or(i64::MIN, |(day,)| day);
        let ids: Vec<[String; 1]> = hits.iter().map(|of| [of.hit.id.to_string()]).collect();
        let sql = look_up!(tx.dialect(), "d.event_id", "events", "d.event_id = asked.value ->> 0");
        let there: Vec<(String,)> = read_in!(&mut tx, fetch_all, sql, json(&ids))?;
        let mut known: HashSet<String> = there.into_iter().map(|(id,)| id).collect();
        let mut done = HitImportReport::default();
        let mut fresh = Vec::new();
        for (of, [id]) in hits.iter().zip(ids) {
            if day_of(of.hit.ts) < kept_from {
                done.too_old += 1;
            } else if known.insert(id) {
                fresh.push(of);
            } else {
                done.already_stored += 1;
            }
        }
        done.stored = fresh.len() as u64;
        if !fresh.is_empty() {
            let batch = enrich_hits(workspace, &fresh, now);
            let ids: Vec<String> = fresh.iter().map(|of| of.hit.id.to_string()).collect();
            write::write_imported(&mut tx, &batch, &ids, first).await?;
        }
        tx.commit().await?;
        Ok(done)
    }

    /// Which of these ids are stored already.
    pub async fn stored_event_ids(&self, ids: &[String]) -> Result<HashSet<String>, StoreError> {
        let asked: Vec<[&String; 1]> = ids.iter().map(|id| [id]).collect();
        let sql = look_up!(self.pool.dialect(), "d.event_id", "events", "d.event_id = asked.value ->> 0");
        let there: Vec<(String,)> = read!(&self.pool, fetch_all, sql, json(&asked))?;
        Ok(there.into_iter().map(|(id,)| id).collect())
    }

    /// Remembers how far something has come; never back.
    pub async fn advance_watermark(&self, name: &str, upto: i64, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into exports (name, upto, updated_at) values ($1, $2, $3)
             on conflict (name) do update set upto = excluded.upto, updated_at = excluded.updated_at
             where excluded.upto > exports.upto",
            name,
            upto,
            now.ms()
        )?;
        tx.commit().await
    }
}

/// Hits as a batch, ready to be written.
fn enrich_hits<'a>(workspace: Id, hits: &[&'a LinkedHit<'a>], now: Timestamp) -> EnrichedBatch<'a> {
    let mut enriched = EnrichedBatch::default();
    let (mut agents, mut places) = (HashMap::new(), HashMap::new());
    for of in hits {
        let hit = of.hit;
        let agent = *agents.entry(hit.ua_hash).or_insert_with(|| {
            enriched.agents.push(((hit.ua_hash, String::new()), user_agent::decode(&[])));
            enriched.agents.len() - 1
        });
        let place = *places.entry(hit.country).or_insert_with(|| {
            let place = GeoLocation { country: hit.country, ..GeoLocation::default() };
            enriched.places.push(named_location(location_key(&place), place));
            enriched.places.len() - 1
        });
        enriched.events.push(Event {
            producer: Producer { boot: 0, thread: 0 },
            sequence: 0,
            // A clock that runs ahead must not put clicks into days to come.
            ts: hit.ts.min(now),
            link: of.link,
            workspace,
            owner: of.owner,
            bot: false,
            visitor: None,
            prefix: hit.prefix.map(IpPrefix::as_i64),
            agent,
            place,
            referrer: hit.referrer.as_deref(),
            host: hit.referrer.as_deref().and_then(attribution::referrer_host).map(Into::into),
            utm_source: None,
            utm_medium: None,
            utm_campaign: None,
        });
    }
    enriched
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "019c09bf-e495-7abc-bfff-fffe00000002";

    #[test]
    fn documented_hit_is_parsed() {
        let value = r#"{"ts":"2026-01-12T13:01:22Z","code":"parity","country":"NL","ua_hash":"e4c1","referrer":"https://twitter.com/a?q=secret","ip_prefix":"203.0.113.0/24"}"#;
        let hit = Hit::parse("parity", ID, value).unwrap();
        assert_eq!((hit.id.to_string().as_str(), hit.ts.to_string().as_str()), (ID, "2026-01-12T13:01:22Z"));
        assert_eq!((hit.country, hit.ua_hash), (Some(*b"NL"), 0xe4c1));
        assert_eq!(hit.referrer.as_deref(), Some("https://twitter.com/a"));
        assert_eq!(hit.prefix.unwrap().to_string(), "203.0.113.0/24");
    }

    #[test]
    fn malformed_hit_fields_are_dropped() {
        let value = r#"{"ts":"2026-01-12T13:01:22Z","country":"T1","ua_hash":"zz","referrer":null,"ip_prefix":"2001:db8:1:2:3::4"}"#;
        let hit = Hit::parse("a", ID, value).unwrap();
        assert_eq!((hit.country, hit.ua_hash, &hit.referrer), (None, 0, &None));
        assert_eq!(hit.prefix.unwrap().to_string(), "2001:db8:1::/48");
        assert_eq!(Hit::parse("a", "no-id", value), None);
        assert_eq!(Hit::parse("a", ID, "{}"), None);
        assert_eq!(Hit::parse("a", ID, "[1]"), None);
        assert_eq!(parse_hash(&"f".repeat(64)), Some(u64::MAX));
        assert_eq!(parse_hash("äääääääääääääääää"), None);
        assert_eq!(parse_country("xx"), None);
    }
}
