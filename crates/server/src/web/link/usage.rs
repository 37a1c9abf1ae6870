//! How a link is used: numbers over a range, what they were before it, where they come from, and the latest clicks.

use rlinks_clicks::Click;
use rlinks_clicks::events::Codes;
use rlinks_clicks::roll::Subject;
use rlinks_clicks::stats::{Bots, Interval, Question, Statistics, StatsError, Sum, Value, Zone};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, day_of};
use rlinks_core::{Link, Timestamp};

use crate::api::caller::Caller;
use crate::ops::sweep::kept;
use crate::web::chart::{Chart, Share, number, shares};
use crate::web::visit::Visit;
use crate::web::{Problem, Web};

/// The latest clicks that are shown.
const LATEST: usize = 10;
/// Ranges to choose from.
pub const RANGES: [(&str, &str); 5] =
    [("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days"), ("all", "All time")];

/// What the page shows of it.
pub struct Usage {
    /// One of [`RANGES`], or nothing for one's own.
    pub range: &'static str,
    pub from: String,
    pub to: String,
    pub zone: String,
    pub bots: bool,
    /// What is wrong with the range.
    pub problem: Option<String>,
    pub figures: Vec<Figure>,
    pub chart: Chart,
    pub breakdowns: Vec<(&'static str, Vec<Share>)>,
    pub latest: Vec<Latest>,
}

/// A number, and how it compares with the time before.
pub struct Figure {
    pub name: &'static str,
    pub value: String,
    pub change: Option<String>,
}

/// One of the latest clicks.
pub struct Latest {
    pub at: Timestamp,
    pub from: String,
    pub what: String,
    pub campaign: String,
    pub bot: bool,
}

/// What the address asks for.
struct Asked {
    range: &'static str,
    from: Option<String>,
    to: Option<String>,
    bots: Bots,
    zone: Zone,
}

impl Asked {
    fn of(visit: &Visit) -> Self {
        let named = |name: &str| visit.parameter(name).filter(|text| !text.trim().is_empty());
        let range = named("range");
        let range = RANGES.iter().map(|(name, _)| *name).find(|name| Some(*name) == range.as_deref());
        let (from, to) = (named("from"), named("to"));
        let own = range.is_none() && (from.is_some() || to.is_some());
        // The script tells in which zone they live; it is no secret, and what is no zone is UTC.
        let zone = visit.cookie(&visit.way.cookie_name("tz")).map(|text| text.replace("%2F", "/"));
        Self {
            range: range.unwrap_or(if own { "" } else { "30d" }),
            from: from.filter(|_| own),
            to: to.filter(|_| own),
            bots: if named("bots").as_deref() == Some("include") { Bots::Include } else { Bots::Exclude },
            zone: zone.and_then(|name| Zone::parse(&name)).unwrap_or_default(),
        }
    }

    /// The first moment of this moment's day.
    fn midnight(&self, at: Timestamp) -> Option<Timestamp> {
        self.zone.moment(&self.zone.label(Interval::Day, at)).ok()
    }

    /// From when to when; where nothing is said, the question's own answer.
    fn range(&self, link: &Link, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
        let back = |ms: i64| Some(Timestamp::from_ms(now.ms() - ms));
        // By way of noon, because a day has 23 hours now and then.
        let days = |days: i64| self.midnight(self.midnight(now)?.plus_ms(DAY_MS / 2 - days * DAY_MS));
        Ok(match self.range {
            "24h" => (back(23 * HOUR_MS), Some(now.plus_ms(1))),
            "7d" => (days(6), None),
            "30d" => (days(29), None),
            "90d" => (days(89), None),
            "all" => (Some(link.created_at.min(now)), None),
            _ => {
                let moment = |text: &Option<String>| {
                    text.as_deref().map(|text| self.zone.moment(text.trim())).transpose()
                };
                let from = moment(&self.from).map_err(|error| format!("The first day {error}"))?;
                let to = moment(&self.to).map_err(|error| format!("The last day {error}"))?;
                // A last day is a whole day.
                let next_day = |to: Timestamp| self.midnight(to.plus_ms(DAY_MS + DAY_MS / 2)).unwrap_or(to);
                let is_day = self.to.as_deref().is_some_and(|text| text.trim().len() == "2026-01-29".len());
                (from, to.map(|to| if is_day { next_day(to) } else { to }))
            }
        })
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
    /// How a link is used.
    pub(super) async fn usage(&self, visit: &Visit, caller: &Caller, link: &Link) -> Result<Usage, Problem> {
        let asked = Asked::of(visit);
        let now = self.clock.now();
        let clicks = self.api.clicks().await?;
        let (range, mut problem) = match asked.range(link, now) {
            Ok(range) => (range, None),
            Err(problem) => ((None, None), Some(problem)),
        };
        let about = |(from, to): (Option<Timestamp>, Option<Timestamp>)| {
            let start = from.unwrap_or_else(|| now.plus_ms(-30 * DAY_MS));
            Question {
                from,
                to,
                interval: interval(start, to.unwrap_or(now)),
                tz: asked.zone.clone(),
                bots: asked.bots,
                days_kept_from: kept(&caller.workspace.policy)
                    .daily_days
                    .map(|days| day_of(now) - i64::from(days)),
                ..Question::about(Subject::link(caller.workspace.id, link.id))
            }
        };
        let found = match clicks.statistics(&about(range), now).await {
            Err(StatsError::Question(error)) => {
                problem = Some(format!("The range {}", error.message));
                clicks.statistics(&about((None, None)), now).await
            }
            found => found,
        };
        let found = found.map_err(no_answer)?;
        let before = if asked.range == "all" {
            None
        } else {
            let length = found.to.ms() - found.from.ms();
            let earlier = (Some(found.from.plus_ms(-length)), Some(found.from));
            Some(clicks.statistics(&about(earlier), now).await.map_err(no_answer)?.total)
        };
        let mut codes = Codes::new(self.store.clone());
        let recent = clicks.recent(caller.workspace.id, Some(link.id), None, LATEST, &mut codes).await?;
        let point = |point: &rlinks_clicks::stats::Point| {
            let Sum { clicks, visitors, bots } = point.sum;
            (asked.zone.label(found.interval, point.start), [clicks, visitors, bots])
        };
        let day = |at: Timestamp| asked.zone.label(Interval::Day, at);
        Ok(Usage {
            range: asked.range,
            from: day(found.from),
            to: day(found.to.plus_ms(-1)),
            zone: asked.zone.name().to_owned(),
            bots: asked.bots == Bots::Include,
            problem,
            figures: figures(found.total, before),
            chart: Chart::of(found.series.iter().map(point)),
            breakdowns: breakdowns(found),
            latest: recent.0.iter().map(latest).collect(),
        })
    }
}

fn no_answer(error: StatsError) -> Problem {
    match error {
        StatsError::Store(error) => error.into(),
        StatsError::Question(field) => Problem::saying(
            rlinks_core::envelope::ErrorCode::ValidationFailed,
            format!("The range {}", field.message),
        ),
    }
}

fn figures(now: Sum, before: Option<Sum>) -> Vec<Figure> {
    let figure = |name, of: fn(Sum) -> u64| Figure {
        name,
        value: number(of(now)),
        change: before.map(|before| change(of(now), of(before))),
    };
    vec![
        figure("Clicks", |sum| sum.clicks),
        figure("Visitors", |sum| sum.visitors),
        figure("Bots", |sum| sum.bots),
    ]
}

/// In words that need no colour.
fn change(now: u64, before: u64) -> String {
    if before == now {
        return "as many as before".to_owned();
    }
    if before == 0 {
        return "none before".to_owned();
    }
    let (more, sign) = if now > before { (now - before, '+') } else { (before - now, '−') };
    match (u128::from(more) * 100 + u128::from(before) / 2) / u128::from(before) {
        0 => format!("nearly as many ({} before)", number(before)),
        percent => format!("{sign}{percent} % ({} before)", number(before)),
    }
}

fn breakdowns(found: Statistics) -> Vec<(&'static str, Vec<Share>)> {
    let plain =
        |values: Vec<Value>| shares(values.into_iter().map(|value| (value.value, value.clicks)).collect());
    let countries = found.countries.into_iter();
    let countries =
        countries.map(|country| (country.name.map_or(country.value, str::to_owned), country.clicks));
    vec![
        ("Referrers", plain(found.referrers)),
        ("Countries", shares(countries.collect())),
        ("Devices", plain(found.devices)),
        ("Browsers", plain(found.browsers)),
        ("Systems", plain(found.systems)),
        ("Campaigns", plain(found.campaigns)),
        // Last, for few have a file that knows them.
        ("Cities", plain(found.cities)),
    ]
}

fn latest(click: &Click) -> Latest {
    let parts = [Some(click.device.as_str()), click.browser.as_deref(), click.system.as_deref()];
    let campaign = [&click.utm_source, &click.utm_medium, &click.utm_campaign];
    Latest {
        at: click.ts,
        from: [click.country.as_deref(), click.referrer.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        what: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        campaign: campaign.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" / "),
        bot: click.bot,
    }
}
