//! What an address asks for: from which day to which, in whose days, with bots or without.

use rlinks_clicks::stats::{Bots, Interval, Zone};
use rlinks_clicks::time::{DAY_MS, HOUR_MS};
use rlinks_core::Timestamp;

use crate::auth::cookies::Cookie;
use crate::web::extract::WebRequest;

/// Ranges to choose from: their name in the address, and in words.
pub const RANGE_OPTIONS: [(&str, &str); 6] = [
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("1y", "A year"),
    ("all", "All time"),
];
const DEFAULT_RANGE: &str = "30d";
/// No field of the form is longer.
const MAX_FIELD_CHARS: usize = 64;

/// What is wrong, and in which field.
pub struct RangeError {
    pub field: &'static str,
    pub message: String,
}

impl RangeError {
    pub(crate) fn new(field: &'static str, words: impl Into<String>) -> Self {
        Self { field, message: words.into() }
    }
}

/// From when to when. What is not said is for the question to choose.
pub(crate) type TimeSpan = (Option<Timestamp>, Option<Timestamp>);

/// What the address says.
pub(crate) struct RangeQuery {
    /// One of [`RANGE_OPTIONS`], or nothing for one's own.
    pub(crate) range: &'static str,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    /// The zone that was chosen; else it is where they live.
    pub(crate) tz: Option<String>,
    pub(crate) zone: Zone,
    pub(crate) bots: Bots,
    pub(crate) error: Option<RangeError>,
}

impl RangeQuery {
    pub(crate) fn from_request(request: &WebRequest) -> Self {
        let named = |name: &str| {
            let text: String = request.query_param(name)?.trim().chars().take(MAX_FIELD_CHARS).collect();
            Some(text).filter(|text| !text.is_empty())
        };
        let range = named("range");
        let range = RANGE_OPTIONS.iter().map(|(name, _)| *name).find(|name| Some(*name) == range.as_deref());
        let (from, to) = (named("from"), named("to"));
        let custom = range.is_none() && (from.is_some() || to.is_some());
        // The script tells in which zone they live; it is no secret, and what is no zone is UTC.
        let browser_zone = request.cookie(Cookie::TimeZone).map(|text| text.replace("%2F", "/"));
        let browser_zone = browser_zone.and_then(|name| Zone::parse(&name)).unwrap_or_default();
        let tz = named("tz");
        let (zone, error) = match tz.as_deref().map(Zone::parse) {
            None => (browser_zone, None),
            Some(Some(zone)) => (zone, None),
            Some(None) => {
                let words = "There is no such time zone; write it like Europe/Berlin";
                (browser_zone, Some(RangeError::new("tz", words)))
            }
        };
        Self {
            range: range.unwrap_or(if custom { "" } else { DEFAULT_RANGE }),
            from: from.filter(|_| custom),
            to: to.filter(|_| custom),
            tz,
            zone,
            bots: if named("bots").as_deref() == Some("include") { Bots::Include } else { Bots::Exclude },
            error,
        }
    }

    /// The first moment of this moment's day.
    fn midnight(&self, at: Timestamp) -> Option<Timestamp> {
        self.zone.moment(&self.zone.label(Interval::Day, at)).ok()
    }

    /// From when to when; nothing where something is wrong, which is said.
    pub(crate) fn span(&mut self, begun: Timestamp, now: Timestamp) -> Option<TimeSpan> {
        if self.error.is_some() {
            return None;
        }
        let back = |ms: i64| Some(now.plus_ms(-ms));
        // By way of noon, because a day has 23 hours now and then.
        let days = |days: i64| self.midnight(self.midnight(now)?.plus_ms(DAY_MS / 2 - days * DAY_MS));
        Some(match self.range {
            "24h" => (back(23 * HOUR_MS), Some(now.plus_ms(1))),
            "7d" => (days(6), None),
            "30d" => (days(29), None),
            "90d" => (days(89), None),
            "1y" => (days(364), None),
            "all" => (Some(begun), None),
            _ => match self.custom_span() {
                Ok(span) => span,
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            },
        })
    }

    /// Their own range. The last day is a whole day.
    fn custom_span(&self) -> Result<TimeSpan, RangeError> {
        let moment = |field, name: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            self.zone.moment(text).map(Some).map_err(|_| RangeError::new(field, invalid_day_text(name, text)))
        };
        let from = moment("from", "From", &self.from)?;
        let to = moment("to", "To", &self.to)?;
        let next_day = |to: Timestamp| self.midnight(to.plus_ms(DAY_MS + DAY_MS / 2)).unwrap_or(to);
        let to = to.map(|to| if self.to.as_deref().is_some_and(is_day) { next_day(to) } else { to });
        match (from, to) {
            (Some(from), Some(to)) if from >= to => Err(RangeError::new("from", "From must not be after To")),
            span => Ok(span),
        }
    }
}

/// Whether this is a day as a browser sends it, be it before 1970.
pub(crate) fn is_day(text: &str) -> bool {
    let digits =
        |(at, letter): (usize, u8)| if at == 4 || at == 7 { letter == b'-' } else { letter.is_ascii_digit() };
    text.len() == "2026-01-29".len() && text.bytes().enumerate().all(digits)
}

fn invalid_day_text(name: &str, text: &str) -> String {
    if is_day(text) && text < "1970" {
        return "Choose days since 1970".to_owned();
    }
    format!("{name} is not a day; write it like 2026-01-31")
}
