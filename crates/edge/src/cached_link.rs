//! Profile `edge`: what KV (`L:`, `NEG:`) and the Cache API hold of a link. Data only, never a verdict: every request decides
//! anew, so an entry cannot keep an expired link alive.
//!
//! An entry knows its version (the row's `updated_at`, which never stands still when a link changes) and when it was made. After
//! [`FRESH_SECONDS`] the truth is asked again, so an entry that nobody managed to delete does not redirect for ever; until KV
//! forgets it, it still serves while the truth is away.

use rlinks_core::{LinkState, RedirectStatus, Route, Target, Timestamp};
use serde::{Deserialize, Serialize};

use crate::d1_sql::Row;

/// How long an entry in KV is believed without asking D1.
pub const FRESH_SECONDS: i64 = 3600;
/// How long an entry serves while D1 is away.
pub const STALE_SECONDS: i64 = 86_400;
/// How long one data centre's cache is believed.
pub const CACHE_SECONDS: i64 = 300;
/// How long a code that nobody has stays unknown.
pub const NEGATIVE_TTL_SECONDS: i64 = 60;
/// How long the edge may keep what it read of KV: links, and absences.
pub const KV_CACHE_TTL_SECONDS: u32 = 60;
/// KV refuses shorter lives.
const MIN_KV_TTL_SECONDS: i64 = 60;
/// Absences one isolate writes in a minute. Random codes must not become a bill.
pub const MAX_NEGATIVE_WRITES_PER_MINUTE: u32 = 60;

/// A link as the caches hold it. The names are the source document's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEntry {
    pub target: String,
    pub status: u16,
    #[serde(rename = "expiresAt", default)]
    pub expires_at: Option<i64>,
    // The row's `updated_at`.
    pub version: i64,
    /// When this was read from D1, in Unix seconds.
    pub cached: i64,
}

/// A link that can be decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedLink {
    target: Target,
    redirect_status: RedirectStatus,
    expires_at: Option<Timestamp>,
}

impl CacheEntry {
    /// What D1 said, at `now`.
    pub fn from_row(row: &Row, now: Timestamp) -> Self {
        Self {
            target: row.target.clone(),
            status: row.status,
            expires_at: row.expires_at,
            version: row.updated_at,
            cached: seconds(now),
        }
    }

    /// Reads an entry. What is broken is as good as absent: D1 knows better.
    pub fn parse(json: &str) -> Option<Self> {
        let entry: Self = serde_json::from_str(json).ok()?;
        entry.link().is_some().then_some(entry)
    }

    /// As it is written.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("an entry is JSON")
    }

    /// Whether it is young enough to be believed for `lifetime` seconds. One from the future is not.
    pub fn is_fresh(&self, lifetime: i64, now: Timestamp) -> bool {
        (-60..=lifetime).contains(&(seconds(now) - self.cached))
    }

    /// For how many seconds KV keeps it: never much beyond its link, and never less than KV accepts.
    pub fn kv_ttl_seconds(&self, now: Timestamp) -> i64 {
        let left = self.expires_at.map_or(STALE_SECONDS, |at| at - seconds(now));
        left.clamp(MIN_KV_TTL_SECONDS, STALE_SECONDS)
    }

    /// For how many seconds a data centre keeps it; none when that would outlive the link.
    pub fn cache_ttl_seconds(&self, now: Timestamp) -> i64 {
        let left = self.expires_at.map_or(CACHE_SECONDS, |at| at - seconds(now));
        left.clamp(0, CACHE_SECONDS)
    }

    /// The link, if the entry makes sense.
    pub fn link(&self) -> Option<CachedLink> {
        Some(CachedLink {
            target: Target::from_foreign(&self.target)?,
            redirect_status: RedirectStatus::from_code(self.status.into())?,
            expires_at: self.expires_at.map(|at| Timestamp::from_ms(at.saturating_mul(1000))),
        })
    }
}

impl CachedLink {
    /// The part of it a request depends on.
    pub fn route(&self, https_only: bool) -> Route<'_> {
        Route {
            state: LinkState::Active,
            redirect_status: self.redirect_status,
            https_only,
            no_loop: true,
            expires_at: self.expires_at,
            target: self.target.as_str(),
            target_host: self.target.host(),
        }
    }
}

/// A code that nobody had a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegativeEntry {
    #[serde(rename = "notFound")]
    not_found: bool,
    cached: i64,
}

impl NegativeEntry {
    /// Nobody has it at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { not_found: true, cached: seconds(now) }
    }

    /// As it is written.
    pub fn json(self) -> String {
        serde_json::to_string(&self).expect("an absence is JSON")
    }

    /// Whether this text says that nobody has it, and is young enough: KV may forget late.
    pub fn is_in_force(json: &str, now: Timestamp) -> bool {
        serde_json::from_str::<Self>(json).is_ok_and(|absent| {
            absent.not_found && (0..=NEGATIVE_TTL_SECONDS).contains(&(seconds(now) - absent.cached))
        })
    }
}

/// The key of a link in KV.
pub fn kv_key(code: &str) -> String {
    format!("L:{code}")
}

/// The key of an absence in KV.
pub fn negative_kv_key(code: &str) -> String {
    format!("NEG:{code}")
}

/// The key of a link in the Cache API: host and code and nothing else of a request, or `?x=1` would escape deletion. No visitor
/// can ask for this address: `__admin__` is reserved.
pub fn cache_url(host: &str, code: &str) -> String {
    format!("https://{host}/__admin__/cache/{code}")
}

/// A moment in whole Unix seconds.
pub fn seconds(now: Timestamp) -> i64 {
    now.ms().div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{CacheEntry, NegativeEntry};
    use crate::d1_sql::Row;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_900);

    fn entry(expires_at: Option<i64>) -> CacheEntry {
        let row = Row {
            id: 1,
            slug: "ok".to_owned(),
            target: "https://a.example/".to_owned(),
            status: 302,
            expires_at,
            visit_count: 0,
            created_at: 1,
            updated_at: 7,
        };
        CacheEntry::from_row(&row, NOW)
    }

    #[test]
    fn entry_json_matches_the_documented_format() {
        let json = entry(Some(1_900_000_000)).json();
        assert_eq!(
            json,
            r#"{"target":"https://a.example/","status":302,"expiresAt":1900000000,"version":7,"cached":1800000000}"#
        );
        assert_eq!(CacheEntry::parse(&json), Some(entry(Some(1_900_000_000))));
    }

    #[test]
    fn malformed_entry_is_ignored() {
        for json in [
            "",
            "null",
            "{",
            "[]",
            r#"{"target":"https://a.example/","status":302}"#,
            r#"{"target":"https://a.example/","status":200,"version":1,"cached":1}"#,
            r#"{"target":"javascript:1","status":302,"version":1,"cached":1}"#,
            r#"{"target":"https://a.example/","status":302,"version":1,"cached":1,"expiresAt":"soon"}"#,
        ] {
            assert_eq!(CacheEntry::parse(json), None, "{json}");
        }
    }

    #[test]
    fn cache_lifetimes_respect_the_kv_minimum_and_the_link_expiry() {
        assert_eq!(entry(None).kv_ttl_seconds(NOW), 86_400);
        assert_eq!(entry(Some(1_800_000_010)).kv_ttl_seconds(NOW), 60);
        assert_eq!(entry(Some(1_800_000_500)).kv_ttl_seconds(NOW), 500);
        assert_eq!(entry(Some(1)).kv_ttl_seconds(NOW), 60);
        assert_eq!(entry(None).cache_ttl_seconds(NOW), 300);
        assert_eq!(entry(Some(1_800_000_010)).cache_ttl_seconds(NOW), 10);
        assert_eq!(entry(Some(1)).cache_ttl_seconds(NOW), 0);
    }

    #[test]
    fn entries_and_negative_entries_expire() {
        assert!(entry(None).is_fresh(300, NOW.plus_ms(300_000)));
        assert!(!entry(None).is_fresh(300, NOW.plus_ms(301_000)));
        assert!(!entry(None).is_fresh(300, NOW.plus_ms(-120_000)), "a clock that went back");
        let json = NegativeEntry::new(NOW).json();
        assert_eq!(json, r#"{"notFound":true,"cached":1800000000}"#);
        assert!(
            NegativeEntry::is_in_force(&json, NOW.plus_ms(60_000))
                && !NegativeEntry::is_in_force(&json, NOW.plus_ms(61_000))
        );
        assert!(!NegativeEntry::is_in_force("{}", NOW) && !NegativeEntry::is_in_force("x", NOW));
    }
}
