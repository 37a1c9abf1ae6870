//! What an address asks for: from which day to which, in whose days, with bots or without.

use rlinks_clicks::stats::{Bots, Interval, Zone};
use rlinks_clicks::time::{DAY_MS, HOUR_MS};
use rlinks_core::Timestamp;

use crate::web::extract::Visit;

/// Ranges to choose from: their name in the address, and in words.
pub const RANGES: [(&str, &str); 6] = [
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("1y", "A year"),
    ("all", "All time"),
];
const DEFAULT: &str = "30d";
/// No field of the form is longer.
const LONGEST: usize = 64;

/// What is wrong, and in which field.
pub struct Wrong {
    pub field: &'static str,
    pub words: String,
}

impl Wrong {
    pub(crate) fn new(field: &'static str, words: impl Into<String>) -> Self {
        Self { field, words: words.into() }
    }
}

/// From when to when. What is not said is for the question to choose.
pub(crate) type Span = (Option<Timestamp>, Option<Timestamp>);

/// What the address says.
pub(crate) struct Asked {
    /// One of [`RANGES`], or nothing for one's own.
    pub(crate) range: &'static str,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    /// The zone that was chosen; else it is where they live.
    pub(crate) tz: Option<String>,
    pub(crate) zone: Zone,
    pub(crate) bots: Bots,
    pub(crate) wrong: Option<Wrong>,
}

impl Asked {
    pub(crate) fn of(visit: &Visit) -> Self {
        let named = |name: &str| {
            let text: String = visit.parameter(name)?.trim().chars().take(LONGEST).collect();
            Some(text).filter(|text| !text.is_empty())
        };
        let range = named("range");
        let range = RANGES.iter().map(|(name, _)| *name).find(|name| Some(*name) == range.as_deref());
        let (from, to) = (named("from"), named("to"));
        let own = range.is_none() && (from.is_some() || to.is_some());
        // The script tells in which zone they live; it is no secret, and what is no zone is UTC.
        let lives_in = visit.cookie(&visit.way.cookie_name("tz")).map(|text| text.replace("%2F", "/"));
        let lives_in = lives_in.and_then(|name| Zone::parse(&name)).unwrap_or_default();
        let tz = named("tz");
        let (zone, wrong) = match tz.as_deref().map(Zone::parse) {
            None => (lives_in, None),
            Some(Some(zone)) => (zone, None),
            Some(None) => {
                let words = "There is no such time zone; write it like Europe/Berlin";
                (lives_in, Some(Wrong::new("tz", words)))
            }
        };
        Self {
            range: range.unwrap_or(if own { "" } else { DEFAULT }),
            from: from.filter(|_| own),
            to: to.filter(|_| own),
            tz,
            zone,
            bots: if named("bots").as_deref() == Some("include") { Bots::Include } else { Bots::Exclude },
            wrong,
        }
    }

    /// The first moment of this moment's day.
    fn midnight(&self, at: Timestamp) -> Option<Timestamp> {
        self.zone.moment(&self.zone.label(Interval::Day, at)).ok()
    }

    /// From when to when; nothing where something is wrong, which is said.
    pub(crate) fn span(&mut self, begun: Timestamp, now: Timestamp) -> Option<Span> {
        if self.wrong.is_some() {
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
            _ => match self.own() {
                Ok(span) => span,
                Err(wrong) => {
                    self.wrong = Some(wrong);
                    return None;
                }
            },
        })
    }

    /// Their own range. The last day is a whole day.
    fn own(&self) -> Result<Span, Wrong> {
        let moment = |field, name: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            self.zone.moment(text).map(Some).map_err(|_| Wrong::new(field, no_day(name, text)))
        };
        let from = moment("from", "From", &self.from)?;
        let to = moment("to", "To", &self.to)?;
        let next_day = |to: Timestamp| self.midnight(to.plus_ms(DAY_MS + DAY_MS / 2)).unwrap_or(to);
        let to = to.map(|to| if self.to.as_deref().is_some_and(is_day) { next_day(to) } else { to });
        match (from, to) {
            (Some(from), Some(to)) if from >= to => Err(Wrong::new("from", "From must not be after To")),
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

fn no_day(name: &str, text: &str) -> String {
    if is_day(text) && text < "1970" {
        return "Choose days since 1970".to_owned();
    }
    format!("{name} is not a day; write it like 2026-01-31")
}
