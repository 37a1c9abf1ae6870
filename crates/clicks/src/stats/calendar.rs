//! Zones and intervals: where the points of a series begin. Pure; the zones are part of the program.

use std::fmt;
use std::ops::Range;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Zoned};
use rlinks_core::Timestamp;
use rlinks_core::time::TimeError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::HOUR_MS;

/// How far apart the points of a series are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// Hours. They are the same in every zone.
    Hour,
    /// Days of the zone.
    #[default]
    Day,
    /// Weeks of the zone, from Monday.
    Week,
    /// Months of the zone.
    Month,
}

impl Interval {
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Hour, Self::Day, Self::Week, Self::Month].into_iter().find(|known| known.as_str() == name)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The first date of the day, week or month a date lies in.
    fn first(self, date: Date) -> Option<Date> {
        match self {
            Self::Hour | Self::Day => Some(date),
            Self::Week => date.checked_sub(Span::new().days(date.weekday().to_monday_zero_offset())).ok(),
            Self::Month => Some(date.first_of_month()),
        }
    }

    fn next(self, first: Date) -> Option<Date> {
        let step = match self {
            Self::Hour | Self::Day => Span::new().days(1),
            Self::Week => Span::new().weeks(1),
            Self::Month => Span::new().months(1),
        };
        first.checked_add(step).ok()
    }
}

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Where nothing is shifted.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// By its IANA name, such as `Europe/Berlin`, in upper or lower case.
    pub fn parse(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown()).map(Self)
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// A moment as people write it. A date is its first moment in the zone; all else is read as everywhere.
    pub fn moment(&self, text: &str) -> Result<Timestamp, TimeError> {
        let moment = Timestamp::parse(text)?;
        let is_date = text.len() == 10 && text.as_bytes()[4] == b'-';
        let date = text.parse::<Date>().ok().filter(|_| is_date);
        Ok(date.and_then(|date| self.first_ms(date)).map_or(moment, Timestamp::from_ms))
    }

    /// Whether its days are the UTC days, and always were.
    pub(super) fn is_utc(&self) -> bool {
        self.0.to_offset(jiff::Timestamp::UNIX_EPOCH).is_zero()
            && self.0.following(jiff::Timestamp::UNIX_EPOCH).next().is_none()
    }

    /// Whether all of its days begin with a UTC hour between two moments.
    pub(super) fn has_whole_hours(&self, from: Timestamp, to: Timestamp) -> bool {
        let is_whole = |offset: jiff::tz::Offset| offset.seconds() % 3600 == 0;
        let jiff_of =
            |at: Timestamp| jiff::Timestamp::from_millisecond(at.ms()).unwrap_or(jiff::Timestamp::MAX);
        let (from, to) = (jiff_of(from), jiff_of(to));
        is_whole(self.0.to_offset(from))
            && self
                .0
                .following(from)
                .take_while(|change| change.timestamp() < to)
                .all(|change| is_whole(change.offset()))
    }

    /// A point of a series as people of the zone call it: an hour, a date, or a month. A week is called by its Monday.
    pub fn label(&self, interval: Interval, start: Timestamp) -> String {
        let form = match interval {
            Interval::Hour => "%Y-%m-%d %H:%M",
            Interval::Day | Interval::Week => "%Y-%m-%d",
            Interval::Month => "%Y-%m",
        };
        self.zoned(start).strftime(form).to_string()
    }

    /// The same where there is little room. What the year is goes without saying, as far as it can.
    pub fn short_label(&self, interval: Interval, start: Timestamp) -> String {
        let form = match interval {
            Interval::Hour => "%-d %b, %H:%M",
            Interval::Day => "%-d %b",
            Interval::Week => "%-d %b %Y",
            Interval::Month => "%b %Y",
        };
        self.zoned(start).strftime(form).to_string()
    }

    /// From one day to another, both included, as people write it: `18 Oct to 16 Nov 2026`.
    pub fn span(&self, first: Timestamp, last: Timestamp) -> String {
        let (first, last) = (self.zoned(first), self.zoned(last));
        let end = last.strftime("%-d %b %Y");
        if first.date() == last.date() {
            return end.to_string();
        }
        let form = if first.year() == last.year() { "%-d %b" } else { "%-d %b %Y" };
        format!("{} to {end}", first.strftime(form))
    }

    /// The first moment of the day after this moment's.
    pub(super) fn tomorrow(&self, now: Timestamp) -> Timestamp {
        let tomorrow = self.zoned(now).date().tomorrow().ok();
        Timestamp::from_ms(tomorrow.and_then(|date| self.first_ms(date)).unwrap_or(i64::MAX))
    }

    /// The same time of day so many days later, or earlier.
    pub(super) fn plus_days(&self, at: Timestamp, days: i64) -> Timestamp {
        let shifted = self.zoned(at).checked_add(Span::new().days(days));
        let end = if days < 0 { 0 } else { i64::MAX };
        Timestamp::from_ms(shifted.map_or(end, |shifted| shifted.timestamp().as_millisecond()))
    }

    /// Whether a day of the zone begins at this moment.
    pub(super) fn is_midnight(&self, at: Timestamp) -> bool {
        self.first_ms(self.zoned(at).date()) == Some(at.ms())
    }

    /// Where the points of a series over some hours begin, in milliseconds; nothing when they are more than `most`. The first
    /// may begin before the hours do, when they begin inside of a day, a week or a month.
    pub(super) fn points(&self, interval: Interval, hours: &Range<i64>, most: usize) -> Option<Vec<i64>> {
        if interval == Interval::Hour {
            let few = usize::try_from(hours.end - hours.start).is_ok_and(|points| points <= most);
            return few.then(|| hours.clone().map(|hour| hour * HOUR_MS).collect());
        }
        let (from, last) = (hours.start * HOUR_MS, (hours.end - 1) * HOUR_MS);
        let mut date = interval.first(self.zoned(Timestamp::from_ms(from)).date());
        let mut points = Vec::new();
        while let Some(first) = date {
            let start = self.first_ms(first).unwrap_or(i64::MAX);
            // A point has at least one hour, by the hour's beginning.
            if start > last && !points.is_empty() {
                break;
            }
            // A day that a zone has left out begins where the next one does.
            if points.last().is_none_or(|last| *last < start) {
                if points.len() == most {
                    return None;
                }
                points.push(start);
            }
            date = interval.next(first);
        }
        Some(points)
    }

    fn zoned(&self, at: Timestamp) -> Zoned {
        let last = jiff::Timestamp::MAX;
        jiff::Timestamp::from_millisecond(at.ms()).unwrap_or(last).to_zoned(self.0.clone())
    }

    fn first_ms(&self, date: Date) -> Option<i64> {
        let day = date.to_zoned(self.0.clone()).ok()?;
        Some(day.start_of_day().ok()?.timestamp().as_millisecond())
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("{name} is no time zone")))
    }
}
