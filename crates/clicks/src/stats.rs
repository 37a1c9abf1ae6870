//! Statistics: what the rollups answer. No raw click is read here but by `recent`, and nothing is written.
//!
//! Hours, days and months are counted by UTC, and a question may come from any zone. So the days of a zone are put together from
//! hours, as far back as these are kept ([`HOURLY_DAYS`](crate::time::HOURLY_DAYS)). Before that a UTC day counts where it begins: it belongs to the point,
//! and to the range, in which its first moment lies. The same holds for a month whose days are no longer kept, and for an hour
//! that a zone such as `Asia/Kolkata` begins a day in the middle of. So what adjoining ranges count adds up.
//!
//! A visitor counts once in each UTC day, because nobody can be recognised the day after. Of a part of a day the visitors are
//! those whose first click of the day lies in it, and at least as many as in its busiest hour.

pub(crate) mod breakdowns;
mod calendar;
mod daily;
pub(crate) mod first_click;
pub(crate) mod range;
pub(crate) mod ranking;
mod recent;

use std::collections::HashMap;
use std::ops::Range;

use rlinks_core::{FieldCode, FieldError, Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Tx, read, read_in};
use rlinks_store::database::row::from_row;
use serde::{Deserialize, Serialize};

pub use self::calendar::{Interval, Zone};
pub use self::recent::RecentCursor;
use crate::bulk_lookup::{json, look_up};
use crate::database::ClickStore;
use crate::rollup::{RollupSubject, Total};
use crate::stats::breakdowns::take_top;
pub use crate::stats::breakdowns::{CountryValue, Value};
use crate::stats::first_click::first_day;
use crate::stats::range::{Count, Counter, Scope};
use crate::time::{DAY_MS, HOUR_MS, day_of};

/// Points in a series.
pub const MAX_POINTS: usize = 10_000;
/// Links among the busiest.
pub const MAX_TOP_LINKS: i64 = 20;

const DEFAULT_RANGE_DAYS: i64 = 30;
const MAX_TOP_VALUES: usize = 10;
const MAX_TOP_BROWSERS: usize = 5;

/// Whether bots' clicks are among the clicks. They are counted apart in any case, and are never visitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bots {
    #[default]
    Exclude,
    Include,
}

impl Bots {
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Exclude, Self::Include].into_iter().find(|known| known.as_str() == name)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclude => "exclude",
            Self::Include => "include",
        }
    }

    const fn clicks(self, people: u64, bots: u64) -> u64 {
        match self {
            Self::Exclude => people,
            Self::Include => people + bots,
        }
    }
}

/// What somebody wants to know.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    pub subject: RollupSubject,
    /// From this moment on; else 30 days before the end.
    pub from: Option<Timestamp>,
    /// Until before this moment; else the end of today in the zone.
    pub to: Option<Timestamp>,
    /// How far apart the points of the series are.
    pub interval: Interval,
    /// Whose days, weeks and months.
    pub tz: Zone,
    /// What counts as a click.
    pub bots: Bots,
    /// The first UTC day whose daily rollups are kept, where not all are. Months before it are known as a whole.
    pub days_kept_from: Option<i64>,
}

impl StatsQuery {
    /// The last 30 days of a subject, day by day in UTC, without bots.
    pub const fn for_subject(subject: RollupSubject) -> Self {
        Self {
            subject,
            from: None,
            to: None,
            interval: Interval::Day,
            tz: Zone::UTC,
            bots: Bots::Exclude,
            days_kept_from: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// From this moment on: the question's, or the beginning of its hour.
    pub from: Timestamp,
    /// Until before this moment: the question's, or the end of its hour.
    pub to: Timestamp,
    /// How far apart the points are.
    pub interval: Interval,
    /// Whose days, weeks and months.
    pub tz: Zone,
    /// Before this moment whole UTC days are counted where they begin. Only where that makes a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz_exact_from: Option<Timestamp>,
    /// Days of the zone begin inside of a UTC hour somewhere in the range. Such an hour counts as a whole, where it begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tz_rounded: bool,
    /// What counts as a click.
    pub bots: Bots,
    /// Over the whole range.
    pub total: Totals,
    /// Point by point, without gaps.
    pub series: Vec<Point>,
    /// Breakdowns are of whole UTC days: from this moment on, where it is not `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakdown_from: Option<Timestamp>,
    /// And until before this one, where it is not `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakdown_to: Option<Timestamp>,
    /// What the days of the breakdowns count as a whole.
    #[serde(skip)]
    pub breakdown_total: Totals,
    /// Hosts people came from.
    pub referrers: Vec<Value>,
    pub countries: Vec<CountryValue>,
    /// Cities, with their countries.
    pub cities: Vec<Value>,
    pub devices: Vec<Value>,
    pub browsers: Vec<Value>,
    pub systems: Vec<Value>,
    pub campaigns: Vec<Value>,
    /// The UTC days of the breakdowns, for [`ClickStore::top_links`] and [`ClickStore::misses`].
    #[serde(skip)]
    pub days: Range<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Clicks: people's, or all.
    pub clicks: u64,
    /// People, each once in a UTC day.
    pub visitors: u64,
    pub bots: u64,
}

/// What was counted between this point of a series and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// When the hour, day, week or month begins, be it before the range does.
    pub start: Timestamp,
    /// What was counted of it.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// The question makes no sense.
    #[error("{0}")]
    InvalidQuery(FieldError),
    /// The database did not answer.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for StatsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.for_clicks())
    }
}

impl From<FieldError> for StatsError {
    fn from(error: FieldError) -> Self {
        Self::InvalidQuery(error)
    }
}

impl ClickStore {
    /// Answers a question, from one state of the database.
    pub async fn statistics(&self, query: &StatsQuery, now: Timestamp) -> Result<Statistics, StatsError> {
        let StatsQuery { subject, interval, tz, bots, .. } = query;
        let scope = Scope::new(hours_of(query, now)?, day_of(now), query.days_kept_from);
        let points = tz.points(*interval, &scope.hours, MAX_POINTS).ok_or_else(|| {
            let message =
                format!("gives more than {MAX_POINTS} points; choose a longer one or a shorter range");
            FieldError::new("interval", FieldCode::TooLong, message)
        })?;
        let mut counter = Counter::new(&scope, *interval, &points);
        let mut tx = self.pool.snapshot().await?;
        let first = first_day(&mut tx, *subject).await?;
        let (days, mut broken_down) = (scope.days_with_values(), Count::default());
        for (day, count) in days_of(&mut tx, *subject, since(first, scope.days_to_read())).await? {
            counter.add_day(day, count);
            if days.contains(&day) {
                broken_down.add(count);
            }
        }
        if let Some(months) = scope.months_to_read() {
            for (month, count) in months_of(&mut tx, *subject, months).await? {
                counter.add_month(month, count);
            }
        }
        if let Some(hours) = counter.hours_to_read() {
            for row in hours_in(&mut tx, *subject, hours).await? {
                counter.add_hour(&row);
            }
        }
        let mut values = self.months.values(&mut tx, *subject, since(first, scope.days_so_far())).await?;
        tx.commit().await?;

        let (from, to) = (moment(scope.hours.start, HOUR_MS), moment(scope.hours.end, HOUR_MS));
        let breakdown = [moment(days.start, DAY_MS), moment(days.end, DAY_MS)];
        let (total, counts) = counter.finish();
        let point =
            |(start, count): (i64, Count)| Point { start: moment(start, 1), totals: count.sum(*bots) };
        let shifted = *interval == Interval::Hour || !tz.is_utc();
        Ok(Statistics {
            from,
            to,
            interval: *interval,
            tz: tz.clone(),
            tz_exact_from: scope.exact_from(shifted).map(|day| moment(day, DAY_MS)),
            // Hours are the same in every zone.
            tz_rounded: *interval != Interval::Hour && !tz.has_whole_hours(from, to),
            bots: *bots,
            total: total.sum(*bots),
            series: points.into_iter().zip(counts).map(point).collect(),
            breakdown_from: Some(breakdown[0]).filter(|start| *start != from),
            breakdown_to: Some(breakdown[1]).filter(|end| *end != to),
            breakdown_total: broken_down.sum(*bots),
            // In the order of `DIMENSIONS`.
            referrers: take_top(&mut values, 0, MAX_TOP_VALUES, *bots),
            countries: take_top(&mut values, 1, MAX_TOP_VALUES, *bots)
                .into_iter()
                .map(CountryValue::from)
                .collect(),
            cities: take_top(&mut values, 2, MAX_TOP_VALUES, *bots),
            devices: take_top(&mut values, 3, MAX_TOP_VALUES, *bots),
            browsers: take_top(&mut values, 4, MAX_TOP_BROWSERS, *bots),
            systems: take_top(&mut values, 5, MAX_TOP_VALUES, *bots),
            campaigns: take_top(&mut values, 6, MAX_TOP_VALUES, *bots),
            days,
        })
    }

    /// What each subject has counted for ever. One that was never clicked is not among them.
    pub async fn totals(
        &self,
        subjects: &[RollupSubject],
    ) -> Result<HashMap<RollupSubject, Total>, StoreError> {
        let keys: Vec<_> = subjects
            .iter()
            .map(|subject| (subject.kind as u8, subject.id.as_i64(), subject.workspace.as_i64()))
            .collect();
        // Not by workspace as well, though it is compared below: PostgreSQL could then take the index of clicks for as good as the key.
        let sql = look_up!(
            self.pool.dialect(),
            "d.kind, d.subject, d.workspace_id, d.clicks, d.bots, d.last_click, d.last_hit",
            "totals",
            "d.kind = cast(asked.value ->> 0 as bigint) and d.subject = cast(asked.value ->> 1 as bigint)"
        );
        let rows: Vec<TotalRow> = read!(&self.pool, fetch_all, sql, json(&keys))?;
        let by_key: HashMap<(i64, i64, i64), TotalRow> =
            rows.into_iter().map(|row| ((row.kind, row.subject, row.workspace_id), row)).collect();
        let total = |(key, subject): (&(u8, i64, i64), &RollupSubject)| {
            let row = by_key.get(&(key.0.into(), key.1, key.2))?;
            let [last_click, last_hit] = [row.last_click, row.last_hit].map(|ms| ms.map(Timestamp::from_ms));
            Some((*subject, Total { clicks: row.clicks, bots: row.bots, last_click, last_hit }))
        };
        Ok(keys.iter().zip(subjects).filter_map(total).collect())
    }

    /// The links of a workspace that were clicked most on some UTC days, the most first.
    pub async fn top_links(
        &self,
        workspace: Id,
        days: Range<i64>,
        bots: Bots,
        limit: i64,
    ) -> Result<Vec<(Id, u64)>, StoreError> {
        // One range of the primary key: the links of a workspace lie together day by day.
        const PEOPLE: &str = "select subject, cast(sum(clicks) as bigint) as clicked from days
             where kind = 0 and workspace_id = $1 and day >= $2 and day < $3
             group by subject having sum(clicks) > 0 order by clicked desc, subject limit $4";
        const ALL: &str = "select subject, cast(sum(clicks + bots) as bigint) as clicked from days
             where kind = 0 and workspace_id = $1 and day >= $2 and day < $3
             group by subject having sum(clicks + bots) > 0 order by clicked desc, subject limit $4";
        let sql = match bots {
            Bots::Exclude => PEOPLE,
            Bots::Include => ALL,
        };
        let rows: Vec<(i64, i64)> =
            read!(&self.pool, fetch_all, sql, workspace.as_i64(), days.start, days.end, limit)?;
        Ok(rows.into_iter().map(|(link, clicks)| (Id::from_i64(link), clicks.cast_unsigned())).collect())
    }
}

/// The whole hours a question is about.
fn hours_of(query: &StatsQuery, now: Timestamp) -> Result<Range<i64>, FieldError> {
    let tz = &query.tz;
    let (from, to, named) = match (query.from, query.to) {
        (Some(from), Some(to)) => (from, to, "from"),
        (Some(from), None) => (from, tz.tomorrow(now), "from"),
        (None, to) => {
            let to = to.unwrap_or_else(|| tz.tomorrow(now));
            (tz.plus_days(to, -DEFAULT_RANGE_DAYS), to, "to")
        }
    };
    if from >= to {
        let message = match named {
            "from" if query.to.is_none() => {
                "is after today, and the range ends with today unless `to` is given"
            }
            "from" => "must be before the end of the range",
            _ => "must be after the beginning of the range",
        };
        return Err(FieldError::new(named, FieldCode::TooShort, message));
    }
    let outward = from.ms().div_euclid(HOUR_MS);
    let inward = from.ms().div_euclid(HOUR_MS) + i64::from(from.ms() % HOUR_MS != 0);
    let end = to.ms().div_euclid(HOUR_MS) + i64::from(to.ms() % HOUR_MS != 0);
    // Where a day begins inside of an hour, that hour is the day before's.
    let start = if inward < end && tz.is_midnight(from) { inward } else { outward };
    Ok(start..end)
}

/// A row of `totals`.
struct TotalRow {
    kind: i64,
    subject: i64,
    workspace_id: i64,
    clicks: i64,
    bots: i64,
    last_click: Option<i64>,
    last_hit: Option<i64>,
}

from_row!(TotalRow { kind, subject, workspace_id, clicks, bots, last_click, last_hit });

/// A row of `hours`.
struct HourRow {
    hour: i64,
    clicks: i64,
    bots: i64,
    visitors: i64,
    arrivals: i64,
}

from_row!(HourRow { hour, clicks, bots, visitors, arrivals });

async fn days_of(
    tx: &mut Tx,
    subject: RollupSubject,
    days: Range<i64>,
) -> Result<Vec<(i64, Count)>, StoreError> {
    let list: Vec<(i64,)> = days.map(|day| (day,)).collect();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let sql = look_up!(
        tx.dialect(),
        "d.day, d.clicks, d.bots, d.visitors",
        "days",
        "d.kind = $2 and d.workspace_id = $3 and d.day = cast(asked.value ->> 0 as bigint) and d.subject = $4"
    );
    let rows: Vec<(i64, i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        sql,
        json(&list),
        subject.kind as i64,
        subject.workspace.as_i64(),
        subject.id.as_i64()
    )?;
    Ok(rows
        .into_iter()
        .map(|(day, people, bots, visitors)| (day, Count { people, bots, visitors }))
        .collect())
}

/// The days of these on which there may be something: one by one they are looked up, and 1970 is far away.
fn since(first: Option<i64>, days: Range<i64>) -> Range<i64> {
    first.map_or(days.end, |first| first.clamp(days.start, days.end))..days.end
}

async fn months_of(
    tx: &mut Tx,
    subject: RollupSubject,
    months: Range<i64>,
) -> Result<Vec<(i64, Count)>, StoreError> {
    let rows: Vec<(i64, i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "select month, clicks, bots, visitors from months where kind = $1 and subject = $2 and month >= $3 and month < $4",
        subject.kind as i64,
        subject.id.as_i64(),
        months.start,
        months.end
    )?;
    let count = |(month, people, bots, visitors)| (month, Count { people, bots, visitors });
    Ok(rows.into_iter().map(count).collect())
}

async fn hours_in(
    tx: &mut Tx,
    subject: RollupSubject,
    hours: Range<i64>,
) -> Result<Vec<HourRow>, StoreError> {
    Ok(read_in!(
        tx,
        fetch_all,
        "select hour, clicks, bots, visitors, arrivals from hours where kind = $1 and subject = $2 and hour >= $3 and hour < $4",
        subject.kind as i64,
        subject.id.as_i64(),
        hours.start,
        hours.end
    )?)
}

fn moment(units: i64, unit_ms: i64) -> Timestamp {
    Timestamp::from_ms(units.saturating_mul(unit_ms))
}
