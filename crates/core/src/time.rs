//! Moments, as milliseconds since 1970 in UTC. Core never asks what time it is: `now` is always an argument.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time, macros};

pub const HOUR_MS: i64 = 3_600_000;
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A moment in UTC with the precision of the store: one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text is not a time. Each maps to one field code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not RFC 3339, not a date, not Unix seconds.
    #[error("is not a time; write it like 2030-01-31T12:00:00Z, 2030-01-31, or as Unix seconds")]
    NotATime,
    /// A number so large that it can only be milliseconds.
    #[error("looks like Unix milliseconds; give whole seconds")]
    Milliseconds,
    /// Unix seconds with a fraction.
    #[error("has a fraction; give whole Unix seconds")]
    Fraction,
}

// Year 5138 in seconds, March 1973 in milliseconds: nothing plausible lies on the wrong side.
const FIRST_MILLISECONDS: i64 = 100_000_000_000;
// 9999-12-31T23:59:59.999Z, the last moment RFC 3339 can write.
const LAST_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    /// From milliseconds since 1970, kept inside the years RFC 3339 can write.
    pub const fn from_ms(ms: i64) -> Self {
        Self(if ms < 0 {
            0
        } else if ms > LAST_MS {
            LAST_MS
        } else {
            ms
        })
    }

    // Milliseconds since 1970.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// From whole Unix seconds, as programs send them.
    pub fn from_unix_seconds(seconds: i64) -> Result<Self, TimeError> {
        match seconds {
            FIRST_MILLISECONDS.. => Err(TimeError::Milliseconds),
            0.. => Ok(Self(seconds * 1000)),
            _ => Err(TimeError::NotATime),
        }
    }

    /// RFC 3339, the same without a zone (then it is UTC), a date (its first moment in UTC), or Unix seconds.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        // Four digits are a year somebody did not finish, not a moment in 1970.
        if !text.is_empty() && text.len() != 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Self::from_unix_seconds(text.parse().map_err(|_| TimeError::Milliseconds)?);
        }
        if let Some((whole, fraction)) = text.split_once('.')
            && !whole.is_empty()
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        {
            return Err(TimeError::Fraction);
        }
        let moment = OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .or_else(|| parse_without_zone(text).map(PrimitiveDateTime::assume_utc))
            .ok_or(TimeError::NotATime)?;
        let ms = i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000_000))
            .map_err(|_| TimeError::NotATime)?;
        if (0..=LAST_MS).contains(&ms) { Ok(Self(ms)) } else { Err(TimeError::NotATime) }
    }

    /// Whole seconds from `self` until `later`, never negative.
    pub const fn seconds_until(self, later: Self) -> i64 {
        let ms = later.0 - self.0;
        if ms < 0 { 0 } else { ms / 1000 }
    }

    /// This moment without its milliseconds.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// The moment `ms` milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// The UTC day as `YYYYMMDD`, the form of log keys.
    pub fn day(self) -> String {
        let date = self.moment().date();
        format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day())
    }

    fn moment(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .expect("a Timestamp lies between 1970 and 9999")
    }
}

fn parse_without_zone(text: &str) -> Option<PrimitiveDateTime> {
    const DATE: &[time::format_description::BorrowedFormatItem<'_>] =
        macros::format_description!("[year]-[month]-[day]");
    const MINUTES: &[time::format_description::BorrowedFormatItem<'_>] =
        macros::format_description!("[year]-[month]-[day]T[hour]:[minute]");
    const SECONDS: &[time::format_description::BorrowedFormatItem<'_>] =
        macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    const FRACTION: &[time::format_description::BorrowedFormatItem<'_>] =
        macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond]");
    if let Ok(date) = Date::parse(text, DATE) {
        return Some(date.with_time(Time::MIDNIGHT));
    }
    let text = text.replacen(' ', "T", 1);
    if let Ok(moment) = OffsetDateTime::parse(&text, &Rfc3339) {
        let utc = moment.to_offset(time::UtcOffset::UTC);
        return Some(utc.date().with_time(utc.time()));
    }
    // Only with seconds does RFC 3339 take a zone; people leave them out all the same.
    if let Some(minutes) = text.strip_suffix(['Z', 'z'])
        && let Ok(moment) = PrimitiveDateTime::parse(minutes, MINUTES)
    {
        return Some(moment);
    }
    [SECONDS, FRACTION, MINUTES].iter().find_map(|form| PrimitiveDateTime::parse(&text, form).ok())
}

/// RFC 3339 with `Z`; milliseconds only where there are some.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = self.moment();
        let (date, time) = (moment.date(), moment.time());
        write!(
            out,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        )?;
        match time.millisecond() {
            0 => out.write_str("Z"),
            ms => write!(out, ".{ms:03}Z"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{TimeError, Timestamp};

    #[track_caller]
    fn check(text: &str, shown: &str) {
        assert_eq!(Timestamp::parse(text).map(|at| at.to_string()), Ok(shown.to_owned()), "{text}");
    }

    #[test]
    fn common_time_formats_are_parsed() {
        check("2026-01-29T12:34:56Z", "2026-01-29T12:34:56Z");
        check("2026-01-29T12:34:56.5Z", "2026-01-29T12:34:56.500Z");
        check("2026-01-29T14:34:56+02:00", "2026-01-29T12:34:56Z");
        check("2026-01-29t12:34:56z", "2026-01-29T12:34:56Z");
        check("2026-01-29 12:34:56", "2026-01-29T12:34:56Z");
        check("2026-01-29 12:34:56Z", "2026-01-29T12:34:56Z");
        check("2026-01-29T12:34", "2026-01-29T12:34:00Z");
        check("2026-01-29", "2026-01-29T00:00:00Z");
        check("1735689600", "2025-01-01T00:00:00Z");
        check("0", "1970-01-01T00:00:00Z");
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in
            ["", "2030", "tomorrow", "2026-02-30", "2026-13-01", "-5", "12:00", "2026-01-29T25:00:00Z"]
        {
            assert_eq!(Timestamp::parse(text), Err(TimeError::NotATime), "{text}");
        }
        assert_eq!(Timestamp::parse("1735689600000"), Err(TimeError::Milliseconds));
        assert_eq!(Timestamp::parse("99999999999999999999999"), Err(TimeError::Milliseconds));
        assert_eq!(Timestamp::parse("1735689600.25"), Err(TimeError::Fraction));
    }

    #[test]
    fn days_are_utc_days() {
        assert_eq!(
            Timestamp::parse("2026-01-12T23:30:00-02:00").map(Timestamp::day).as_deref(),
            Ok("20260113")
        );
    }
}
