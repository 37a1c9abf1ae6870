//! Counting: which hours, days and months a question needs, and where in its answer each counts. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Bots, HourRow, Interval, Totals};
use crate::time::{HOUR_MS, HOURLY_DAYS, first_day_of, month_of};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) people: i64,
    pub(super) bots: i64,
    pub(super) visitors: i64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.people += other.people;
        self.bots += other.bots;
        self.visitors += other.visitors;
    }

    fn take(&mut self, other: Self) {
        self.people -= other.people;
        self.bots -= other.bots;
        self.visitors -= other.visitors;
    }

    pub(super) fn sum(self, bots: Bots) -> Totals {
        let whole = |count: i64| u64::try_from(count).unwrap_or_default();
        Totals {
            clicks: bots.clicks(whole(self.people), whole(self.bots)),
            visitors: whole(self.visitors),
            bots: whole(self.bots),
        }
    }
}

/// What a question is about, in the units of the rollups.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) hours: Range<i64>,
    /// The UTC days that count, some of them in part.
    pub(super) days: Range<i64>,
    /// Hours are kept from this day on.
    exact_from: i64,
    /// Days are kept from this day on.
    kept_from: i64,
    /// No day after this one can have clicks.
    last: i64,
}

impl Scope {
    pub(super) fn new(hours: Range<i64>, today: i64, days_kept_from: Option<i64>) -> Self {
        let exact_from = today - HOURLY_DAYS;
        let kept_from = days_kept_from.unwrap_or(i64::MIN).min(exact_from);
        let mut first = hours.start.div_euclid(24);
        // A day that is known only as a whole counts where it begins. But a range inside of such a day has the day.
        if first < exact_from && hours.start > first * 24 && hours.end > (first + 1) * 24 {
            first += 1;
        }
        let days = first..(hours.end + 23).div_euclid(24);
        // One more than today: another node's clock may be ahead.
        Self { hours, days, exact_from, kept_from, last: today + 1 }
    }

    /// The day from which on parts of days are known, where the range begins before it and that makes a difference: in another
    /// zone, hour by hour, or when the range begins or ends inside of a day.
    pub(super) fn exact_from(&self, shifted: bool) -> Option<i64> {
        let exact = self.exact_from * 24;
        let cut = |hour: i64| hour < exact && hour.rem_euclid(24) != 0;
        let matters = shifted || cut(self.hours.start) || cut(self.hours.end);
        (self.hours.start < exact && matters).then_some(self.exact_from)
    }

    /// The days that count, and those by which the oldest month is known in part.
    pub(super) fn days_to_read(&self) -> Range<i64> {
        let days = self.days_so_far();
        match self.torn_month() {
            Some(month) if self.months_to_read().is_some_and(|months| months.contains(&month)) => {
                self.kept_from..days.end.max(first_day_of(month + 1).min(self.last + 1))
            }
            _ => days,
        }
    }

    /// The days that are broken down: those that count and are kept.
    pub(super) fn days_with_values(&self) -> Range<i64> {
        self.days.start.max(self.kept_from).min(self.days.end)..self.days.end
    }

    /// The same without days to come; none where all of them are.
    pub(super) fn days_so_far(&self) -> Range<i64> {
        let Range { start, end } = self.days_with_values();
        start..end.min(self.last + 1).max(start)
    }

    /// The months of which not all days are kept, and whose first day counts.
    pub(super) fn months_to_read(&self) -> Option<Range<i64>> {
        if self.days.start >= self.kept_from {
            return None;
        }
        let first = month_of(self.days.start);
        let first = first + i64::from(first_day_of(first) * 24 < self.hours.start);
        let end = month_of(self.kept_from.min(self.days.end) - 1) + 1;
        (first < end).then_some(first..end)
    }

    /// The month of which only the last days are kept.
    fn torn_month(&self) -> Option<i64> {
        let month = month_of(self.kept_from.max(0));
        (first_day_of(month) < self.kept_from).then_some(month)
    }

    fn is_whole(&self, day: i64) -> bool {
        day < self.exact_from || (self.hours.start <= day * 24 && (day + 1) * 24 <= self.hours.end)
    }
}

/// A part of a UTC day.
#[derive(Clone, Copy, Default)]
struct Part {
    count: Count,
    busiest: i64,
}

impl Part {
    fn add(&mut self, row: &HourRow) {
        self.count.add(Count { people: row.clicks, bots: row.bots, visitors: row.arrivals });
        self.busiest = self.busiest.max(row.visitors);
    }

    /// Somebody who came before the part began did not arrive in it, but was there.
    fn finish(mut self) -> Count {
        self.count.visitors = self.count.visitors.max(self.busiest);
        self.count
    }
}

/// Puts rollups where they belong.
pub(super) struct Counter<'a> {
    scope: &'a Scope,
    interval: Interval,
    points: &'a [i64],
    total: Count,
    series: Vec<Count>,
    /// Parts of days by point.
    parts: BTreeMap<(usize, i64), Part>,
    /// Parts of days in the range: at its beginning and its end.
    edges: BTreeMap<i64, Part>,
}

impl<'a> Counter<'a> {
    /// `points` are where those of the series begin, in milliseconds.
    pub(super) fn new(scope: &'a Scope, interval: Interval, points: &'a [i64]) -> Self {
        Self {
            scope,
            interval,
            points,
            total: Count::default(),
            series: vec![Count::default(); points.len()],
            parts: BTreeMap::new(),
            edges: BTreeMap::new(),
        }
    }

    /// The hours that are needed: all that are kept, if any day is not in one piece in the range and in the series.
    pub(super) fn hours_to_read(&self) -> Option<Range<i64>> {
        let Scope { hours, days, exact_from, last, .. } = self.scope;
        let mut exact = days.start.max(*exact_from)..days.end.min(last + 1);
        let hours = hours.start.max(exact.start * 24)..hours.end.min(exact.end * 24);
        exact.any(|day| self.is_by_hours(day)).then_some(hours)
    }

    pub(super) fn add_day(&mut self, day: i64, count: Count) {
        if !self.scope.days.contains(&day) {
            // Read only to know the rest of its month.
            self.take_from_month(day, count);
            return;
        }
        self.take_from_month(day, count);
        if self.scope.is_whole(day) {
            self.total.add(count);
        }
        if !self.is_by_hours(day) {
            let point = self.point_of(day * 24);
            self.series[point].add(count);
        }
    }

    /// A month of which not all days are kept counts on its first.
    pub(super) fn add_month(&mut self, month: i64, count: Count) {
        let point = self.point_of(first_day_of(month) * 24);
        self.total.add(count);
        self.series[point].add(count);
    }

    pub(super) fn add_hour(&mut self, row: &HourRow) {
        let day = row.hour.div_euclid(24);
        if !self.scope.is_whole(day) {
            self.edges.entry(day).or_default().add(row);
        }
        let point = self.point_of(row.hour);
        if self.interval == Interval::Hour {
            let count = Count { people: row.clicks, bots: row.bots, visitors: row.visitors };
            self.series[point].add(count);
        } else if self.is_by_hours(day) {
            self.parts.entry((point, day)).or_default().add(row);
        }
    }

    /// The whole, and each point.
    pub(super) fn finish(mut self) -> (Count, Vec<Count>) {
        for part in self.edges.into_values() {
            self.total.add(part.finish());
        }
        for ((point, _), part) in self.parts {
            self.series[point].add(part.finish());
        }
        (self.total, self.series)
    }

    /// The rows of a month hold what its days hold too.
    fn take_from_month(&mut self, day: i64, count: Count) {
        let torn = self.scope.torn_month().filter(|month| *month == month_of(day));
        if let (Some(month), Some(months)) = (torn, self.scope.months_to_read())
            && months.contains(&month)
        {
            let point = self.point_of(first_day_of(month) * 24);
            self.total.take(count);
            self.series[point].take(count);
        }
    }

    /// Whether the series has a day's hours instead of the day.
    fn is_by_hours(&self, day: i64) -> bool {
        day >= self.scope.exact_from
            && (self.interval == Interval::Hour
                || !self.scope.is_whole(day)
                || self.point_of(day * 24) != self.point_of(day * 24 + 23))
    }

    /// The point an hour counts at, by its beginning.
    fn point_of(&self, hour: i64) -> usize {
        let hour = hour.max(self.scope.hours.start);
        self.points.partition_point(|start| *start <= hour * HOUR_MS).saturating_sub(1)
    }
}
