//! Profile `fabric`: keys and values of the two namespaces. `ROUTES` is read, `HITS` is appended to; nothing else is written.

use std::hash::Hasher as _;
use std::net::IpAddr;

use rlinks_core::click::attribution::{parse_country, parse_referrer};
use rlinks_core::click::ip_prefix::IpPrefix;
use rlinks_core::link::route_object::{ParsedRoute, RouteObjectError};
use rlinks_core::{Code, Timestamp};
use serde::Serialize;
use siphasher::sip::SipHasher13;

use crate::request::EdgeRequest;

/// How long the edge may keep what it read of KV, in seconds. KV accepts no less than 30.
pub const KV_CACHE_TTL_SECONDS: u32 = 60;

/// Random bytes one [`hit_record`] wants.
pub const RANDOM_BYTES: usize = 10;

/// Hashed of a user agent at most, as natively.
const MAX_USER_AGENT_BYTES: usize = 512;

/// The key of a link's route object.
pub fn route_key(code: &str) -> String {
    format!("route:{code}")
}

/// The key that a deletion leaves.
pub fn tombstone_key(code: &str) -> String {
    format!("tombstone:{code}")
}

/// A route object under the key of `code`. One that says it is another's is broken.
pub fn parse_route(code: &str, json: &str) -> Result<ParsedRoute, RouteObjectError> {
    let route = ParsedRoute::parse(json.as_bytes())?;
    if route.code.as_str() == code { Ok(route) } else { Err(RouteObjectError::InvalidField("code")) }
}

#[derive(Serialize)]
struct Hit<'a> {
    ts: Timestamp,
    code: &'a Code,
    country: Option<&'a str>,
    ua_hash: Option<String>,
    referrer: Option<&'a str>,
    ip_prefix: Option<IpPrefix>,
}

/// The key and the value that record one click. The visitor's address is reduced to its network here and goes no further.
pub fn hit_record(
    code: &Code,
    request: &EdgeRequest,
    hash_key: Option<&[u8; 16]>,
    now: Timestamp,
    random: [u8; RANDOM_BYTES],
) -> (String, String) {
    let agent = request.user_agent.as_bytes();
    let agent = &agent[..agent.len().min(MAX_USER_AGENT_BYTES)];
    let ua_hash = hash_key.map(|key| {
        let mut hasher = SipHasher13::new_with_key(key);
        hasher.write(agent);
        format!("{:016x}", hasher.finish())
    });
    let referrer = parse_referrer(request.referrer.as_bytes());
    let hit = Hit {
        ts: now,
        code,
        country: parse_country(request.country.as_bytes()).map(|_| request.country.as_str()),
        ua_hash,
        referrer: referrer.as_deref(),
        ip_prefix: request.address.parse::<IpAddr>().ok().map(IpPrefix::from_address),
    };
    let value = serde_json::to_string(&hit).expect("a hit is JSON");
    (format!("hit:{code}:{}:{}", now.day(), uuid(now, random)), value)
}

/// A `UUIDv7`: the moment, then random bits.
fn uuid(now: Timestamp, random: [u8; RANDOM_BYTES]) -> String {
    let moment = now.ms().cast_unsigned() & 0xFFFF_FFFF_FFFF;
    let tail = random.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let (high, low) = ((tail >> 64) & 0xFFF, tail & 0x3FFF_FFFF_FFFF_FFFF);
    let bits = u128::from(moment) << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use rlinks_core::link::route_object::RouteObjectError;
    use rlinks_core::{Code, Timestamp};

    use super::{hit_record, parse_route};
    use crate::request::EdgeRequest;

    fn request() -> EdgeRequest {
        EdgeRequest {
            user_agent: "curl/8".to_owned(),
            referrer: "https://user:pw@news.example/a?secret=1".to_owned(),
            address: "203.0.113.77".to_owned(),
            country: "NL".to_owned(),
            ..EdgeRequest::default()
        }
    }

    #[test]
    fn hit_stores_the_network_and_a_keyed_hash() {
        let now = Timestamp::parse("2026-01-12T13:01:22.500Z").unwrap();
        let code = Code::from_path("parity").unwrap();
        let (key, value) = hit_record(&code, &request(), Some(&[7; 16]), now, [0xAB; 10]);
        assert_eq!(key, "hit:parity:20260112:019bb24b-fac4-7bab-abab-abababababab");
        assert_eq!(
            value,
            r#"{"ts":"2026-01-12T13:01:22.500Z","code":"parity","country":"NL","ua_hash":"d3864e08419eeda9","referrer":"https://news.example/a","ip_prefix":"203.0.113.0/24"}"#
        );
    }

    #[test]
    fn unknown_hit_fields_are_null_and_a_hash_needs_a_key() {
        let now = Timestamp::from_ms(0);
        let code = Code::from_path("a").unwrap();
        let odd = EdgeRequest {
            address: "nowhere".to_owned(),
            country: "T1".to_owned(),
            referrer: "x".to_owned(),
            ..request()
        };
        let (_, value) = hit_record(&code, &odd, None, now, [0; 10]);
        assert_eq!(
            value,
            r#"{"ts":"1970-01-01T00:00:00Z","code":"a","country":null,"ua_hash":null,"referrer":null,"ip_prefix":null}"#
        );
    }

    #[test]
    fn object_under_the_wrong_key_is_rejected() {
        let json = r#"{"v":1,"code":"a","target":"https://a.example/","status":"active"}"#;
        assert!(parse_route("a", json).is_ok());
        assert_eq!(parse_route("b", json), Err(RouteObjectError::InvalidField("code")));
    }
}
