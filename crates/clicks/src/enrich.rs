//! Enrichment: what can be known of a click beyond what the request said. Pure but for the tables it reads.

pub mod country;
pub mod geo;
#[cfg(test)]
pub(crate) mod mmdb;
pub mod user_agent;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rlinks_core::{Id, Timestamp};

use crate::click::{Device, IpPrefix};
use crate::enrich::geo::{Geo, GeoLocation};
use crate::enrich::user_agent::{ParsedUserAgent, UserAgentCache};
use crate::journal::Producer;
use crate::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_core::click::attribution;

/// A batch, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct EnrichedBatch<'a> {
    pub(crate) events: Vec<Event<'a>>,
    /// User agents, each once.
    pub(crate) agents: Vec<(UserAgentKey, ParsedUserAgent)>,
    pub(crate) places: Vec<NamedLocation>,
}

/// A place, and what it is called.
#[derive(Debug)]
pub(crate) struct NamedLocation {
    /// What tells places apart.
    pub(crate) key: String,
    pub(crate) place: GeoLocation,
    /// `Paris, FR`: there are several of most names.
    pub(crate) city: Option<String>,
}

impl NamedLocation {
    pub(crate) fn country(&self) -> Option<&str> {
        self.place.country.as_ref().and_then(|country| std::str::from_utf8(country).ok())
    }
}

/// What tells user agents apart: the hash, and the text where it is kept.
pub(crate) type UserAgentKey = (u64, String);

#[derive(Clone, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) producer: Producer,
    pub(crate) sequence: u64,
    pub(crate) ts: Timestamp,
    pub(crate) link: Id,
    pub(crate) workspace: Id,
    pub(crate) owner: Option<Id>,
    pub(crate) bot: bool,
    /// None where it was recorded elsewhere.
    pub(crate) visitor: Option<u64>,
    pub(crate) prefix: Option<i64>,
    /// Its place in `agents`.
    pub(crate) agent: usize,
    /// Its place in `places`.
    pub(crate) place: usize,
    pub(crate) referrer: Option<&'a str>,
    pub(crate) host: Option<Arc<str>>,
    pub(crate) utm_source: Option<&'a str>,
    pub(crate) utm_medium: Option<&'a str>,
    pub(crate) utm_campaign: Option<&'a str>,
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn enrich<'a>(
    records: &[(Producer, u64, JournalEntry<'a>)],
    geo: Option<&Geo>,
    user_agents: &mut UserAgentCache,
    owners: &HashMap<Id, Option<Id>>,
    now: Timestamp,
) -> EnrichedBatch<'a> {
    let mut enriched = EnrichedBatch::default();
    let (mut agents, mut places) = (HashMap::new(), HashMap::new());
    let (mut by_network, mut hosts) =
        (HashMap::new(), HashMap::<&[u8], (Option<&str>, Option<Arc<str>>)>::new());
    for (producer, sequence, record) in records {
        let agent_text = match record.agent {
            UserAgentBytes::Raw(text) => text,
            UserAgentBytes::Parsed(_) => &[],
        };
        let agent = *agents.entry((record.ua_hash, agent_text)).or_insert_with(|| {
            let read = match record.agent {
                UserAgentBytes::Raw(text) => {
                    user_agent::decode(user_agents.get_or_parse(record.ua_hash, text))
                }
                UserAgentBytes::Parsed(bytes) => user_agent::decode(bytes),
            };
            let text = String::from_utf8_lossy(agent_text).into_owned();
            enriched.agents.push(((record.ua_hash, text), read));
            enriched.agents.len() - 1
        });
        let place = *by_network.entry((record.country, record.prefix)).or_insert_with(|| {
            let place = location_of(record, geo);
            let key = location_key(&place);
            *places.entry(key.clone()).or_insert_with(|| {
                enriched.places.push(named_location(key, place));
                enriched.places.len() - 1
            })
        });
        let (referrer, host) = hosts
            .entry(record.referrer)
            .or_insert_with(|| match attribution::parse_referrer(record.referrer) {
                Some(Cow::Borrowed(text)) => (Some(text), attribution::referrer_host(text).map(Arc::from)),
                // The recorder has taken names of users away, so nothing is left to take away here.
                Some(Cow::Owned(_)) | None => (None, None),
            })
            .clone();
        let bot = record.bot || enriched.agents[agent].1.device == Device::Bot;
        enriched.events.push(Event {
            producer: *producer,
            sequence: *sequence,
            // A clock that runs ahead must not put clicks into days to come.
            ts: record.ts.min(now),
            link: record.link,
            workspace: record.workspace,
            owner: owners.get(&record.link).copied().flatten(),
            bot,
            visitor: Some(record.visitor),
            prefix: record.prefix,
            agent,
            place,
            referrer,
            host,
            utm_source: non_empty(record.utm_source),
            utm_medium: non_empty(record.utm_medium),
            utm_campaign: non_empty(record.utm_campaign),
        });
    }
    enriched
}

/// What the proxy says, else what the table says of the network.
fn location_of(record: &JournalEntry<'_>, geo: Option<&Geo>) -> GeoLocation {
    let network = record.prefix.and_then(IpPrefix::from_i64).map(IpPrefix::address);
    let found = match (geo, network) {
        (Some(geo), Some(network)) => geo.look_up(network),
        _ => GeoLocation::default(),
    };
    match record.country {
        // A city of another country is none.
        Some(country) if found.country != Some(country) => {
            GeoLocation { country: Some(country), ..GeoLocation::default() }
        }
        _ => found,
    }
}

pub(crate) fn named_location(key: String, place: GeoLocation) -> NamedLocation {
    let mut known = NamedLocation { key, place, city: None };
    known.city = known.place.city.as_ref().map(|city| match known.country() {
        Some(country) => format!("{city}, {country}"),
        None => city.clone(),
    });
    known
}

pub(crate) fn location_key(place: &GeoLocation) -> String {
    let country =
        place.country.as_ref().and_then(|country| std::str::from_utf8(country).ok()).unwrap_or_default();
    let city = place.city.as_deref().unwrap_or_default();
    let degrees = |degrees: Option<f64>| degrees.map(|degrees| degrees.to_string()).unwrap_or_default();
    format!("{country}|{city}|{}|{}", degrees(place.latitude), degrees(place.longitude))
}
