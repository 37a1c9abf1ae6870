//! `rmax links stats`: what a link's clicks add up to.

use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{Bots, Interval, Point, Statistics, StatsQuery, Totals, Value, Zone};
use rlinks_clicks::time::day_of;
use rlinks_core::link::route_object::ClickTotals as EdgeTotals;
use rlinks_core::{Code, FieldCode, FieldError, FieldErrors, Policy, Timestamp};
use rlinks_ops::sweep::click_retention;
use rlinks_store::StoreError;
use serde::Serialize;
use serde_json::json;

use super::time_error;
use crate::args::Stats;
use crate::backend::Backend;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::links::LinkStatistics;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{ChartStyle, clean};

/// The most characters a line of points or a bar takes.
const MAX_SPARKLINE_CHARS: usize = 60;
const MAX_BAR_CHARS: usize = 24;
const MAX_VALUE_CHARS: usize = 40;
/// Points in the table: two months of days.
const MAX_POINTS: usize = 62;
/// Eighths of a character, standing and lying.
const VERTICAL_EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HORIZONTAL_EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The statistics as programs see them.
#[derive(Serialize)]
struct StatsOutput<'a> {
    code: &'a Code,
    #[serde(flatten)]
    totals: EdgeTotals,
    #[serde(flatten)]
    statistics: &'a Statistics,
}

pub(super) async fn run(backend: &Backend, args: &Stats) -> Result<(), CliError> {
    let LinkStatistics { code, statistics, totals, last_click } = match backend {
        Backend::Store(local) => count(local, args).await?,
        Backend::Server(client) => client.statistics(&args.code, &args.query()).await?,
        Backend::Cloudflare(cloudflare) => return print_totals(cloudflare, args).await,
    };
    let output = backend.output();
    if output.json {
        return output.object(&StatsOutput { code: &code, totals, statistics: &statistics });
    }
    let last_click = match statistics.bots {
        Bots::Exclude => last_click,
        Bots::Include => totals.last_hit,
    };
    // A time that is none was refused before.
    let asked = |text: &Option<String>| text.as_deref().and_then(|text| statistics.tz.moment(text).ok());
    let asked = [asked(&args.from), asked(&args.to)];
    let seen = StatsHeader { code: &code, asked, last_click, hits: totals.hits };
    let text = text(&seen, &statistics, output.chart_style());
    output.raw(text.as_bytes())
}

/// At Cloudflare there are sums alone.
async fn print_totals(cloudflare: &Cloudflare, args: &Stats) -> Result<(), CliError> {
    if !args.is_about_everything() {
        return Err(CliError::usage(
            "at Cloudflare a link has its number of hits and its last hit alone; --from, --to, --interval, --tz and --bots need a store",
        )
        .hint("`rmax clicks import-hits`, run where a store is, brings the hits there"));
    }
    let (code, totals) = cloudflare.stats(&args.code).await?;
    if cloudflare.output.json {
        let EdgeTotals { hits, last_hit } = totals;
        return cloudflare.output.object(&json!({ "code": code, "hits": hits, "last_hit": last_hit }));
    }
    let last_hit = totals.last_hit.map_or_else(|| "never".to_owned(), |at| at.to_string());
    cloudflare.output.line(&format!("{code}"))?;
    cloudflare.output.line(&format!("hits      {}", totals.hits))?;
    cloudflare.output.line(&format!("last hit  {last_hit}"))?;
    cloudflare.output.note("as of the last `rmax clicks publish-stats`");
    Ok(())
}

async fn count(local: &LocalStore, args: &Stats) -> Result<LinkStatistics, CliError> {
    let workspace = local.workspace().await?;
    let link = local.ops.any_link(&local.caller_in(&workspace), &args.code).await?;
    let now = local.now();
    let question = args.question(RollupSubject::link(workspace.id, link.id), &workspace.policy, now)?;
    let clicks = local.clicks().await?;
    let statistics = clicks.statistics(&question, now).await?;
    let totals = local.stats(&[&link]).await.first().copied().unwrap_or_default();
    let subjects = clicks.totals(&[question.subject]).await.map_err(StoreError::for_clicks)?;
    let last_click = subjects.get(&question.subject).and_then(|total| total.last_click);
    Ok(LinkStatistics { code: link.code, statistics, totals, last_click })
}

impl Stats {
    /// Nothing was said about which clicks, or how they are shown.
    fn is_about_everything(&self) -> bool {
        self.from.is_none()
            && self.to.is_none()
            && !self.bots
            && (self.interval.as_str(), self.tz.as_str()) == ("day", "UTC")
    }

    /// The question as a server takes it.
    fn query(&self) -> Vec<(&'static str, &str)> {
        let asked = [
            ("from", self.from.as_deref()),
            ("to", self.to.as_deref()),
            ("interval", Some(self.interval.as_str())),
            ("tz", Some(self.tz.as_str())),
            ("bots", self.bots.then_some(Bots::Include.as_str())),
        ];
        asked.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn question(
        &self,
        subject: RollupSubject,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<StatsQuery, FieldErrors> {
        let mut errors = FieldErrors::default();
        let refused = |field, message: &str| FieldError::new(field, FieldCode::BadCharacters, message);
        let interval = errors.ok_or_push(
            Interval::parse(&self.interval)
                .ok_or_else(|| refused("interval", "is none of hour, day, week, month")),
        );
        let zone = Zone::parse(&self.tz)
            .ok_or_else(|| refused("tz", "is no time zone; write it like Europe/Berlin"));
        let tz = errors.ok_or_push(zone);
        let zone = tz.clone().unwrap_or_default();
        let mut moment = |field, text: Option<&str>| {
            text.and_then(|text| {
                errors.ok_or_push(zone.moment(text).map_err(|error| time_error(field, error)))
            })
        };
        let (from, to) = (moment("from", self.from.as_deref()), moment("to", self.to.as_deref()));
        errors.into_result()?;
        Ok(StatsQuery {
            from,
            to,
            interval: interval.unwrap_or_default(),
            tz: tz.unwrap_or_default(),
            bots: if self.bots { Bots::Include } else { Bots::Exclude },
            days_kept_from: click_retention(policy).daily_days.map(|days| day_of(now) - i64::from(days)),
            ..StatsQuery::for_subject(subject)
        })
    }
}

/// What is shown beside the statistics.
struct StatsHeader<'a> {
    code: &'a Code,
    /// The beginning and the end that were asked for.
    asked: [Option<Timestamp>; 2],
    last_click: Option<Timestamp>,
    hits: u64,
}

/// For people: the sums, the series where it can be drawn, and what is most.
fn text(seen: &StatsHeader<'_>, statistics: &Statistics, drawing: ChartStyle) -> String {
    let StatsHeader { code, last_click, hits, .. } = seen;
    let Statistics { from, to, interval, tz, total, series, .. } = statistics;
    let last_click = last_click.map_or_else(|| "never".to_owned(), |at| format!("{at} (all time)"));
    let mut lines = vec![format!("{code}  {from} to {to} ({tz})")];
    lines.extend(remarks(seen.asked, statistics));
    lines.extend([
        String::new(),
        format!("clicks      {}", total.clicks),
        format!("visitors    {}", total.visitors),
        format!("bots        {}", total.bots),
        format!("last click  {last_click}"),
        format!("hits        {hits} (all time, bots included)"),
    ]);
    if drawing == ChartStyle::Blocks && total.clicks > 0 {
        let most = series.iter().map(|point| point.totals.clicks).max().unwrap_or_default();
        lines.push(String::new());
        lines.push(format!(
            "{}  most in a{} {}: {most}",
            sparkline(series),
            article_suffix(*interval),
            interval.as_str()
        ));
    }
    lines.push(String::new());
    lines.extend(points(statistics));
    let countries: Vec<Value> = statistics
        .countries
        .iter()
        .map(|country| Value {
            value: country.name.map_or_else(|| country.value.clone(), str::to_owned),
            clicks: country.clicks,
        })
        .collect();
    let mut about = breakdown_remark(statistics);
    for (title, values) in [
        ("REFERRERS", &statistics.referrers),
        ("COUNTRIES", &countries),
        ("DEVICES", &statistics.devices),
        ("BROWSERS", &statistics.browsers),
        ("SYSTEMS", &statistics.systems),
        ("CAMPAIGNS", &statistics.campaigns),
        ("CITIES", &statistics.cities),
    ] {
        if !values.is_empty() {
            if let Some(remark) = about.take() {
                lines.extend([String::new(), remark]);
            }
            lines.push(String::new());
            lines.push(title.to_owned());
            lines.extend(bars(values, drawing));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// In what the answer differs from the question, a line each.
fn remarks(asked: [Option<Timestamp>; 2], statistics: &Statistics) -> Vec<String> {
    let Statistics { from, to, tz, tz_exact_from, tz_rounded, .. } = statistics;
    let mut lines = Vec::new();
    if asked[0].is_some_and(|asked| asked != *from) || asked[1].is_some_and(|asked| asked != *to) {
        lines.push("the range was rounded to whole hours".to_owned());
    }
    if let Some(exact) = tz_exact_from {
        lines.push(format!("before {exact} only whole UTC days are known, and each counts where it begins"));
    }
    if *tz_rounded {
        lines.push(format!(
            "days of {tz} begin inside of a UTC hour, and such an hour counts where it begins: days are approximate"
        ));
    }
    lines
}

/// The series as a table, or the end of a long one.
fn points(statistics: &Statistics) -> Vec<String> {
    let Statistics { interval, tz, series, .. } = statistics;
    let shown = &series[series.len().saturating_sub(MAX_POINTS)..];
    let name = interval.as_str().to_uppercase();
    let rows = shown.iter().map(|point| {
        let Totals { clicks, visitors, bots } = point.totals;
        [tz.label(*interval, point.start), clicks.to_string(), visitors.to_string(), bots.to_string()]
    });
    let header = [name.as_str(), "CLICKS", "VISITORS", "BOTS"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let [start, clicks, visitors, bots] = [0, 1, 2, 3].map(width);
    let mut lines: Vec<String> = rows
        .iter()
        .map(|[a, b, c, d]| format!("{a:start$}  {b:>clicks$}  {c:>visitors$}  {d:>bots$}"))
        .collect();
    if shown.len() < series.len() {
        let all = series.len();
        lines.push(format!("the last {MAX_POINTS} of {all} points; --json gives them all"));
    }
    lines
}

/// Which time the breakdowns are of, where it is not that of the sums.
fn breakdown_remark(statistics: &Statistics) -> Option<String> {
    let Statistics { from, to, breakdown_from, breakdown_to, .. } = statistics;
    if breakdown_from.is_none() && breakdown_to.is_none() {
        return None;
    }
    let (from, to) = (breakdown_from.unwrap_or(*from), breakdown_to.unwrap_or(*to));
    Some(format!("what follows is of whole UTC days, {from} to {to}"))
}

const fn article_suffix(interval: Interval) -> &'static str {
    match interval {
        Interval::Hour => "n",
        Interval::Day | Interval::Week | Interval::Month => "",
    }
}

/// Clicks over time, a character for each point, or for several where there are many.
fn sparkline(series: &[Point]) -> String {
    let at_once = series.len().div_ceil(MAX_SPARKLINE_CHARS).max(1);
    let sums: Vec<u64> =
        series.chunks(at_once).map(|some| some.iter().map(|point| point.totals.clicks).sum()).collect();
    let most = sums.iter().copied().max().unwrap_or_default().max(1);
    sums.iter()
        .map(|sum| if *sum == 0 { ' ' } else { VERTICAL_EIGHTHS[eighths(*sum, most, 8) - 1] })
        .collect()
}

/// Values with their clicks, and how they compare.
fn bars(values: &[Value], drawing: ChartStyle) -> Vec<String> {
    let named: Vec<(String, u64)> =
        values.iter().map(|value| (truncate(&value.value), value.clicks)).collect();
    let width = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let digits = named.iter().map(|(_, clicks)| clicks.to_string().len()).max().unwrap_or_default();
    let most = named.iter().map(|(_, clicks)| *clicks).max().unwrap_or_default().max(1);
    let line = |(name, clicks): &(String, u64)| {
        let bar = match drawing {
            ChartStyle::Blocks => format!("  {}", bar(*clicks, most)),
            ChartStyle::Plain => String::new(),
        };
        format!("  {name:width$}  {clicks:digits$}{bar}")
    };
    named.iter().map(line).collect()
}

fn bar(clicks: u64, most: u64) -> String {
    let eighths = eighths(clicks, most, MAX_BAR_CHARS * 8);
    let mut bar: String = std::iter::repeat_n('█', eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        bar.push(HORIZONTAL_EIGHTHS[eighths % 8 - 1]);
    }
    bar
}

/// A share of so many parts: at least one, so that a little is not nothing.
fn eighths(part: u64, whole: u64, parts: usize) -> usize {
    let share = u128::from(part) * parts as u128 / u128::from(whole.max(1));
    usize::try_from(share).unwrap_or(parts).clamp(1, parts)
}

fn truncate(value: &str) -> String {
    let value = clean(value);
    if value.chars().count() <= MAX_VALUE_CHARS {
        return value.into_owned();
    }
    value.chars().take(MAX_VALUE_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(clicks: &[u64]) -> Vec<Point> {
        let point = |clicks: &u64| Point {
            start: Timestamp::from_ms(0),
            totals: Totals { clicks: *clicks, ..Totals::default() },
        };
        clicks.iter().map(point).collect()
    }

    #[test]
    fn sparkline_fits_its_width_and_shows_small_values() {
        assert_eq!(sparkline(&series(&[0, 1, 400, 800])), " ▁▄█");
        assert_eq!(sparkline(&series(&[5])), "█");
        assert_eq!(sparkline(&series(&[])), "");
        assert_eq!(sparkline(&series(&vec![1; 1000])).chars().count(), 59);
    }

    #[test]
    fn bar_length_is_proportional_to_clicks() {
        assert_eq!(bar(48, 48).chars().count(), MAX_BAR_CHARS);
        assert_eq!(bar(1, 48), "▌");
        assert_eq!(bar(1, 1_000_000), "▏");
        let values =
            [("a", 10), ("long", 5)].map(|(value, clicks)| Value { value: value.to_owned(), clicks });
        assert_eq!(bars(&values, ChartStyle::Plain), ["  a     10", "  long   5"]);
    }
}
