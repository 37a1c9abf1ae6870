//! Numbers over a range, of a link or of the workspace: what the address asks for, what was counted, how that compares with the time
//! before, and where it comes from. `range` reads the address; what is drawn is in `chart`.

use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{Bots, Interval, Statistics, StatsError, StatsQuery, Totals, Value, Zone};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, day_of};
use rlinks_core::{FieldCode, Timestamp};

use super::chart::{Chart, Share, format_number, shares};
use crate::web::extract::WebRequest;
pub use crate::web::statistics::range::RANGE_OPTIONS;
use crate::web::statistics::range::{RangeError, RangeQuery, TimeSpan, is_day};
use crate::web::{PageError, Web};
use rlinks_ops::Caller;
use rlinks_ops::sweep::click_retention;

/// What a page shows.
pub struct StatsPanel {
    /// One of [`RANGE_OPTIONS`], or nothing for one's own.
    pub range: &'static str,
    /// What the form says: days, and the zone where one was chosen.
    pub from: String,
    pub to: String,
    pub tz: String,
    pub bots: bool,
    /// What is wrong with it, and in which field. The last 30 days are shown then.
    pub error: Option<RangeError>,
    /// The days in words, and whose they are.
    pub span: String,
    pub zone: String,
    pub interval: &'static str,
    pub metrics: Vec<Metric>,
    /// What was counted elsewhere besides, of all time.
    pub external_clicks: Option<String>,
    pub chart: Chart,
    pub breakdowns: Vec<(&'static str, Vec<Share>)>,
    /// What the breakdowns count, where that is not what the figures count.
    pub breakdowns_note: Option<String>,
}

/// A number, and how it compares with the time before.
pub struct Metric {
    pub name: &'static str,
    pub value: String,
    pub change: Option<String>,
}

impl StatsPanel {
    /// The address of the same question about another range.
    pub fn with_range(&self, range: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("range", range);
        if !self.tz.is_empty() {
            query.append_pair("tz", &self.tz);
        }
        if self.bots {
            query.append_pair("bots", Bots::Include.as_str());
        }
        format!("?{}#usage", query.finish())
    }

    /// Whether this field is the one that is wrong.
    pub fn has_error(&self, field: &str) -> bool {
        self.error.as_ref().is_some_and(|error| error.field == field)
    }
}

/// Points that a drawing of this width can still show apart.
const fn interval(from: Timestamp, to: Timestamp) -> Interval {
    match (to.ms() - from.ms()) / DAY_MS {
        ..=2 => Interval::Hour,
        3..=120 => Interval::Day,
        121..=900 => Interval::Week,
        _ => Interval::Month,
    }
}

impl Web {
    /// The numbers of something that was made at some moment, and what they were taken from.
    pub(crate) async fn stats_panel(
        &self,
        request: &WebRequest,
        caller: &Caller,
        subject: RollupSubject,
        created_at: Timestamp,
    ) -> Result<(StatsPanel, Statistics), PageError> {
        let now = self.clock.now();
        let mut query = RangeQuery::from_request(request);
        let clicks = self.front_end.clicks().await?;
        let base = StatsQuery {
            tz: query.zone.clone(),
            bots: query.bots,
            days_kept_from: click_retention(&caller.workspace.policy)
                .daily_days
                .map(|days| day_of(now) - i64::from(days)),
            ..StatsQuery::for_subject(subject)
        };
        // Clicks that were imported may be older than the link they were imported for.
        let counted_from =
            clicks.first_click_day(&base).await?.map_or(created_at, |first| first.min(created_at)).min(now);
        let about = |(from, to): TimeSpan| {
            let start = from.unwrap_or_else(|| now.plus_ms(-30 * DAY_MS));
            StatsQuery { from, to, interval: interval(start, to.unwrap_or(now)), ..base.clone() }
        };
        let found = match query.span(counted_from, now) {
            Some(span) => clicks.statistics(&about(span), now).await,
            None => clicks.statistics(&base, now).await,
        };
        let found = match found {
            Err(StatsError::InvalidQuery(error)) => {
                let words = match error.code {
                    FieldCode::TooShort => "From must not be after today",
                    _ => "This range is too long",
                };
                query.error = Some(RangeError::new("from", words));
                clicks.statistics(&base, now).await
            }
            found => found,
        };
        let found = found.map_err(stats_error)?;
        let length = found.to.ms() - found.from.ms();
        let before = if counted_from < found.from {
            let earlier = (Some(found.from.plus_ms(-length)), Some(found.from));
            Some(clicks.statistics(&about(earlier), now).await.map_err(stats_error)?.total)
        } else {
            None
        };
        let elsewhere = match query.range {
            "all" => clicks.external_total(subject).await?,
            _ => (0, 0),
        };
        let panel = build_panel(query, &found, before);
        Ok((StatsPanel { external_clicks: external_clicks_text(found.bots, elsewhere), ..panel }, found))
    }
}

fn build_panel(query: RangeQuery, found: &Statistics, before: Option<Totals>) -> StatsPanel {
    let zone = &found.tz;
    // An hour counts where it begins, and in some zones a day begins inside of one.
    let last = found.to.plus_ms(-HOUR_MS).max(found.from);
    let point = |point: &rlinks_clicks::stats::Point| {
        let Totals { clicks, visitors, bots } = point.totals;
        let label = zone.label(found.interval, point.start);
        (label, zone.short_label(found.interval, point.start), [clicks, visitors, bots])
    };
    let is_wrong = query.error.is_some();
    // What was typed stays in the form, as far as a field for a day can hold it.
    let day = |typed: Option<String>, at| {
        let typed = typed.filter(|text| is_wrong && is_day(text));
        typed.unwrap_or_else(|| zone.label(Interval::Day, at))
    };
    StatsPanel {
        range: if is_wrong { "" } else { query.range },
        from: day(query.from, found.from),
        to: day(query.to, last),
        tz: query.tz.unwrap_or_default(),
        bots: found.bots == Bots::Include,
        error: query.error,
        span: zone.span(found.from, last),
        zone: zone.name().to_owned(),
        interval: found.interval.as_str(),
        metrics: metrics(found.total, before),
        external_clicks: None,
        chart: Chart::from_points(found.series.iter().map(point)),
        breakdowns: breakdowns(found),
        breakdowns_note: breakdowns_note(found),
    }
}

fn stats_error(error: StatsError) -> PageError {
    match error {
        StatsError::Store(error) => error.into(),
        StatsError::InvalidQuery(field) => PageError::with_message(
            rlinks_core::error_code::ErrorCode::ValidationFailed,
            format!("The range {}", field.message),
        ),
    }
}

fn metrics(now: Totals, before: Option<Totals>) -> Vec<Metric> {
    let metric = |name, of: fn(Totals) -> u64| Metric {
        name,
        value: format_number(of(now)),
        change: before.and_then(|before| change_text(of(now), of(before))),
    };
    vec![
        metric("Clicks", |sum| sum.clicks),
        metric("Visitors", |sum| sum.visitors),
        metric("Bots", |sum| sum.bots),
    ]
}

/// Clicks of which only a number came with the link are in its total, and on no day.
fn external_clicks_text(bots: Bots, (people, machines): (u64, u64)) -> Option<String> {
    let count = match bots {
        Bots::Exclude => people,
        Bots::Include => people + machines,
    };
    let were = if count == 1 { "click was" } else { "clicks were" };
    (count > 0).then(|| {
        format!(
            "{} more {were} counted before the link came here; on which days is not known.",
            format_number(count)
        )
    })
}

/// In words that need no colour; none where there was nothing then and now.
fn change_text(now: u64, before: u64) -> Option<String> {
    if before == now {
        return (now > 0).then(|| "as many as before".to_owned());
    }
    if before == 0 {
        return Some("none before".to_owned());
    }
    let (more, sign) = if now > before { (now - before, '+') } else { (before - now, '−') };
    Some(match (u128::from(more) * 100 + u128::from(before) / 2) / u128::from(before) {
        0 => format!("nearly as many ({} before)", format_number(before)),
        percent => format!("{sign}{percent} % ({} before)", format_number(before)),
    })
}

fn breakdowns(found: &Statistics) -> Vec<(&'static str, Vec<Share>)> {
    let plain =
        |values: &[Value]| shares(values.iter().map(|value| (value.value.clone(), value.clicks)).collect());
    let country = |country: &rlinks_clicks::stats::CountryValue| {
        (country.name.map_or_else(|| country.value.clone(), str::to_owned), country.clicks)
    };
    let mut all = vec![
        ("Referrers", plain(&found.referrers)),
        ("Countries", shares(found.countries.iter().map(country).collect())),
        ("Devices", plain(&found.devices)),
        ("Browsers", plain(&found.browsers)),
        ("Systems", plain(&found.systems)),
        ("Campaigns", plain(&found.campaigns)),
    ];
    // Few have a file that knows them.
    if !found.cities.is_empty() {
        all.push(("Cities", plain(&found.cities)));
    }
    all
}

/// Breakdowns are kept by whole UTC days, and a range may begin and end inside of one.
fn breakdowns_note(found: &Statistics) -> Option<String> {
    let clicks = found.breakdown_total.clicks;
    if clicks == found.total.clicks {
        return None;
    }
    let first = found.breakdown_from.unwrap_or(found.from);
    let last = found.breakdown_to.unwrap_or(found.to).plus_ms(-1);
    let days = Zone::UTC.span(first, last);
    let word = if clicks == 1 { "click" } else { "clicks" };
    Some(format!("The parts below count whole UTC days, {days}: {} {word}.", format_number(clicks)))
}
