//! The statistics of the workspace: what the API answers to `GET /stats`, drawn. Bars are SVG, and every number is in a table too.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_clicks::stats::{Bots, Interval, Question, Statistics, StatsError, Zone};
use rlinks_clicks::time::day_of;
use rlinks_core::envelope::ErrorCode;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Timestamp};

use super::super::chart::{Chart, Share, number, shares};
use super::super::visit::{Looking, Visit};
use super::super::{Problem, Web, page};
use crate::api::caller::{AnalyticsRead, Caller};
use crate::api::stats::{WorkspaceStatistics, gather, workspace_subject};
use crate::auth::session::Signed;
use crate::ops::sweep::kept;
use crate::ops::{OpsError, Sees};

const DAY_MS: i64 = 86_400_000;
/// Ranges to choose from: their name in the address, in words, and how many days they are.
const RANGES: [(&str, &str, i64); 4] =
    [("7", "7 days", 7), ("30", "30 days", 30), ("90", "90 days", 90), ("365", "a year", 365)];

/// What the form says.
struct Asked {
    range: String,
    from: String,
    to: String,
    tz: String,
    bots: Bots,
    /// What the script says of where they are; else UTC.
    lives_in: Zone,
}

/// What was counted, ready to be drawn.
struct Shown {
    found: WorkspaceStatistics,
    figures: [(&'static str, String); 3],
    chart: Chart,
    parts: Vec<(&'static str, Vec<Share>)>,
    top: Vec<Share>,
    missed: Vec<Share>,
}

#[derive(Template)]
#[template(path = "space/stats.html")]
struct StatsPage<'a> {
    signed: &'a Signed,
    asked: Asked,
    errors: FieldErrors,
    /// Only one's own links are counted.
    is_own: bool,
    shown: Option<Shown>,
}

impl Asked {
    fn of(visit: &Visit) -> Self {
        let text = |name: &str| {
            visit.parameter(name).unwrap_or_default().trim().chars().take(64).collect::<String>()
        };
        let (from, to) = (text("from"), text("to"));
        let range = if from.is_empty() && to.is_empty() { text("range") } else { String::new() };
        let known = RANGES.iter().any(|(name, _, _)| *name == range);
        let range = if known || !(from.is_empty() && to.is_empty()) { range } else { "30".to_owned() };
        let lives_in = visit
            .cookie(&visit.way.cookie_name("tz"))
            .and_then(|name| Zone::parse(&name.replace("%2F", "/")));
        let bots = Bots::parse(&text("bots")).unwrap_or_default();
        Self { range, from, to, tz: text("tz"), bots, lives_in: lives_in.unwrap_or_default() }
    }

    /// The address of the same question about another range.
    fn with_range(&self, range: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("range", range);
        if !self.tz.is_empty() {
            query.append_pair("tz", &self.tz);
        }
        if self.bots == Bots::Include {
            query.append_pair("bots", self.bots.as_str());
        }
        format!("/admin/stats?{}", query.finish())
    }

    fn question(&self, caller: &Caller, now: Timestamp) -> Result<Question, FieldErrors> {
        let mut errors = FieldErrors::default();
        let unknown = || {
            FieldError::new("tz", FieldCode::BadCharacters, "is no time zone; write it like Europe/Berlin")
        };
        let tz = match self.tz.as_str() {
            "" => self.lives_in.clone(),
            name => errors.take(Zone::parse(name).ok_or_else(unknown)).unwrap_or(Zone::UTC),
        };
        let mut moment = |name: &str, text: &str| {
            let read = |text| {
                tz.moment(text).map_err(|error| FieldError::new(name, FieldCode::NotATime, error.to_string()))
            };
            (!text.is_empty()).then(|| errors.take(read(text))).flatten()
        };
        let (mut from, to) = (moment("from", &self.from), moment("to", &self.to));
        errors.none()?;
        if let Some((_, _, days)) = RANGES.iter().find(|(name, _, _)| *name == self.range) {
            // Whole days of the zone, today's included.
            from = tz.moment(&tz.label(Interval::Day, now.plus_ms((1 - days) * DAY_MS))).ok();
        }
        let days = from.map_or(30, |from| (to.unwrap_or(now).ms() - from.ms()) / DAY_MS);
        let interval = match days {
            ..=2 => Interval::Hour,
            3..=92 => Interval::Day,
            93..=400 => Interval::Week,
            _ => Interval::Month,
        };
        let policy = &caller.workspace.policy;
        Ok(Question {
            from,
            to,
            interval,
            tz,
            bots: self.bots,
            days_kept_from: kept(policy).daily_days.map(|days| day_of(now) - i64::from(days)),
            ..Question::about(workspace_subject(caller))
        })
    }
}

/// The numbers of a range.
pub async fn show(
    State(web): State<Arc<Web>>,
    Looking { visit, signed, caller, .. }: Looking<AnalyticsRead>,
) -> Result<Response, Problem> {
    let asked = Asked::of(&visit);
    let question = asked.question(&caller, web.clock.now());
    let empty = StatsPage {
        signed: &signed,
        asked,
        errors: FieldErrors::default(),
        is_own: caller.by.sees == Sees::Own,
        shown: None,
    };
    let found = match question {
        Ok(question) => match gather(&web.api, &caller, &question).await {
            Ok(found) => Ok(found),
            Err(StatsError::Question(error)) => Err(error.into()),
            Err(StatsError::Store(error)) => return Err(Problem::from(OpsError::Store(error))),
        },
        Err(errors) => Err(errors),
    };
    match found {
        Ok(found) => page(&StatsPage { shown: Some(Shown::new(found)), ..empty }),
        Err(errors) => {
            let again = StatsPage { errors, ..empty };
            Err(Problem::new(ErrorCode::ValidationFailed).in_page(&again, None))
        }
    }
}

impl Shown {
    fn new(found: WorkspaceStatistics) -> Self {
        let statistics = &found.statistics;
        let plain = |values: &[rlinks_clicks::stats::Value]| {
            values.iter().map(|value| (value.value.clone(), value.clicks)).collect::<Vec<_>>()
        };
        let countries = statistics.countries.iter().map(|country| {
            (country.name.map_or_else(|| country.value.clone(), str::to_owned), country.clicks)
        });
        let parts = vec![
            ("Referrers", shares(plain(&statistics.referrers))),
            ("Countries", shares(countries.collect())),
            ("Devices", shares(plain(&statistics.devices))),
            ("Browsers", shares(plain(&statistics.browsers))),
            ("Systems", shares(plain(&statistics.systems))),
            ("Campaigns", shares(plain(&statistics.campaigns))),
            // Last, for few have a file that knows them.
            ("Cities", shares(plain(&statistics.cities))),
        ];
        let total = &statistics.total;
        let figures = [("Clicks", total.clicks), ("Visitors", total.visitors), ("Bots", total.bots)];
        let top = found.top_links.iter().map(|link| (link.code.clone(), link.clicks)).collect();
        let missed = found.misses.iter().map(|miss| (miss.code.clone(), miss.misses)).collect();
        Self {
            figures: figures.map(|(name, value)| (name, number(value))),
            chart: chart(statistics),
            parts,
            top: shares(top),
            missed: shares(missed),
            found,
        }
    }
}

fn chart(statistics: &Statistics) -> Chart {
    Chart::of(statistics.series.iter().map(|point| {
        let label = statistics.tz.label(statistics.interval, point.start);
        (label, [point.sum.clicks, point.sum.visitors, point.sum.bots])
    }))
}
