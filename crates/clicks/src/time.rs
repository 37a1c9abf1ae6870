//! Hours, days and months as rollups count them: from 1970, in UTC, whatever the zone of the machine.

use rlinks_core::Timestamp;
pub use rlinks_core::time::{DAY_MS, HOUR_MS};

/// Rollups by hour are kept for so many days before today.
pub const HOURLY_DAYS: i64 = 30;

/// The UTC day of a moment, counted from 1970.
pub const fn day_of(at: Timestamp) -> i64 {
    at.ms().div_euclid(DAY_MS)
}

/// The hour of a moment, counted from 1970.
pub const fn hour_of(at: Timestamp) -> i64 {
    at.ms().div_euclid(HOUR_MS)
}

/// The month of a UTC day, counted from January 1970.
pub const fn month_of(day: i64) -> i64 {
    // Days to a civil date, counting years from March so that the leap day is a year's last.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (year, month) = if from_march < 10 {
        (year_of_era + era * 400, from_march + 2)
    } else {
        (year_of_era + era * 400 + 1, from_march - 10)
    };
    (year - 1970) * 12 + month
}

/// The first UTC day of a month.
pub const fn first_day_of(month: i64) -> i64 {
    let (year, month) = (1970 + month.div_euclid(12), month.rem_euclid(12) + 1);
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{day_of, first_day_of, month_of};

    #[test]
    fn month_numbers_change_on_the_first_day() {
        let day = |text: &str| day_of(Timestamp::parse(text).unwrap());
        for (first, last, month) in [
            ("1970-01-01", "1970-01-31", 0),
            ("1972-02-01", "1972-02-29", 25),
            ("1999-12-01", "1999-12-31", 359),
            ("2000-02-01", "2000-02-29", 361),
            ("2026-11-01", "2026-11-30", 682),
            ("2100-02-01", "2100-02-28", 1561),
        ] {
            assert_eq!((month_of(day(first)), month_of(day(last))), (month, month), "{first}");
            assert_eq!(first_day_of(month), day(first));
            assert_eq!(month_of(day(last) + 1), month + 1);
        }
        for day in -1000..60_000 {
            let month = month_of(day);
            assert!(first_day_of(month) <= day && day < first_day_of(month + 1), "{day}");
        }
    }
}
