//! Whatever is asked of the rollups, they answer what the raw clicks say.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{Bots, Interval, Statistics, StatsQuery, Totals};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, HOURLY_DAYS, day_of};
use rlinks_core::Timestamp;

use super::zone;
use crate::support::clicks::{ClickFixture, FIREFOX, GOOGLEBOT, MAIN, click, moment};
use crate::support::database::TestStore;

/// A click of the property: link, hour since the first, minute, visitor, bot, referrer.
type GeneratedClick = (usize, i64, i64, u64, bool, usize);

const DRAWN_DAYS: i64 = 6;
const REFERRERS: [&str; 3] = ["", "https://a.example/x", "https://b.example/"];

/// Visitors of a part of a UTC day: those whose first click of the day lies in it, and at least those of its busiest hour.
fn visitors_of_part(day: &[(i64, u64)], part: impl Fn(i64) -> bool) -> u64 {
    let mut first = BTreeMap::new();
    let mut by_hour = BTreeMap::<i64, BTreeSet<u64>>::new();
    for (hour, visitor) in day {
        let known = first.entry(*visitor).or_insert(*hour);
        *known = (*known).min(*hour);
        by_hour.entry(*hour).or_default().insert(*visitor);
    }
    let arrived = first.values().filter(|hour| part(**hour)).count();
    let busiest = by_hour.iter().filter(|(hour, _)| part(**hour)).map(|(_, seen)| seen.len()).max();
    arrived.max(busiest.unwrap_or(0)) as u64
}

/// Checks an answer against the clicks themselves. Hours are known from the day `exact` on.
fn check(answer: &Statistics, clicks: &[(Timestamp, u64, bool, usize)], exact: i64) {
    let hour_of = |ts: Timestamp| ts.ms().div_euclid(HOUR_MS);
    let (from, to) = (answer.from.ms() / HOUR_MS, answer.to.ms() / HOUR_MS);
    let starts: Vec<i64> = answer.series.iter().map(|point| point.start.ms()).collect();
    let point_of = |hour: i64| starts.partition_point(|start| *start <= hour * HOUR_MS) - 1;
    let in_range = |hour: i64| from <= hour && hour < to;
    let inside_one_day = from.div_euclid(24) == (to - 1).div_euclid(24);
    let mut total = Totals::default();
    let mut series = vec![Totals::default(); starts.len()];
    let mut referrers = BTreeMap::<&str, u64>::new();
    let days: BTreeSet<i64> = clicks.iter().map(|(ts, ..)| day_of(*ts)).collect();
    for day in days {
        let of_day: Vec<_> = clicks.iter().filter(|(ts, ..)| day_of(*ts) == day).collect();
        let people: Vec<(i64, u64)> = of_day
            .iter()
            .filter(|click| !click.2)
            .map(|(ts, visitor, ..)| (hour_of(*ts), *visitor))
            .collect();
        let old = day < exact;
        // An old day counts as a whole, where it begins; or where the range begins, if that lies within the day.
        let start_hour = if inside_one_day && day == from.div_euclid(24) { from } else { day * 24 };
        let mut counts = |hour: i64, bot: bool| {
            let hour = if old { start_hour } else { hour };
            if !in_range(hour) {
                return false;
            }
            for sum in [&mut total, &mut series[point_of(hour)]] {
                sum.bots += u64::from(bot);
                sum.clicks += u64::from(answer.bots == Bots::Include || !bot);
            }
            true
        };
        let mut touched = false;
        for (ts, _, bot, _) in &of_day {
            touched |= counts(hour_of(*ts), *bot);
        }
        if old && touched {
            let visitors = visitors_of_part(&people, |_| true);
            total.visitors += visitors;
            series[point_of(start_hour)].visitors += visitors;
        } else if !old {
            total.visitors += visitors_of_part(&people, in_range);
            for (point, sum) in series.iter_mut().enumerate() {
                if answer.interval == Interval::Hour {
                    let hour = starts[point] / HOUR_MS;
                    let seen: BTreeSet<u64> =
                        people.iter().filter(|(at, _)| *at == hour).map(|(_, visitor)| *visitor).collect();
                    sum.visitors += seen.len() as u64;
                } else {
                    sum.visitors +=
                        visitors_of_part(&people, |hour| in_range(hour) && point_of(hour) == point);
                }
            }
        }
        let first = if old { start_hour } else { day * 24 };
        if first < to && (in_range(first) || (!old && day * 24 + 24 > from)) {
            for (_, _, bot, referrer) in &of_day {
                if *referrer > 0 && (answer.bots == Bots::Include || !bot) {
                    *referrers.entry(["", "a.example", "b.example"][*referrer]).or_default() += 1;
                }
            }
        }
    }
    assert_eq!(answer.total, total);
    assert_eq!(answer.series.iter().map(|point| point.totals).collect::<Vec<_>>(), series);
    let shown: BTreeMap<&str, u64> =
        answer.referrers.iter().map(|value| (value.value.as_str(), value.clicks)).collect();
    assert_eq!(shown, referrers);
}

#[test]
fn rollup_statistics_match_the_raw_clicks() {
    let drawn = (0..2_usize, 0..DRAWN_DAYS * 24, 0..60_i64, 0..4_u64, prop::bool::weighted(0.2), 0..3_usize);
    let batches = prop::collection::vec(prop::collection::vec(drawn, 1..25), 1..4);
    let question = (0..5_usize, 0..4_usize, prop::bool::ANY, -12..DRAWN_DAYS * 24, 1..200_i64);
    let questions = prop::collection::vec(question, 24);
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runner.run(&(batches, questions), |(batches, questions)| {
        runtime.block_on(count_and_compare(&batches, &questions));
        Ok(())
    });
    if let Err(failed) = outcome {
        panic!("{failed}");
    }
}

async fn count_and_compare(batches: &[Vec<GeneratedClick>], questions: &[(usize, usize, bool, i64, i64)]) {
    let mut fixture = ClickFixture::new(TestStore::sqlite()).await;
    let links = [fixture.link("a").await, fixture.link("b").await];
    let first = moment("2026-10-23");
    let mut clicks: [Vec<_>; 3] = Default::default();
    for batch in batches {
        for (link, hour, minute, visitor, bot, referrer) in batch {
            let ts = first.plus_ms(hour * HOUR_MS + minute * 60_000);
            let agent = if *bot { GOOGLEBOT } else { FIREFOX };
            fixture.record(&[JournalEntry {
                bot: *bot,
                agent: UserAgentBytes::Raw(agent),
                ua_hash: u64::from(*bot),
                referrer: REFERRERS[*referrer].as_bytes(),
                ..click(links[*link], ts, *visitor)
            }]);
            clicks[*link].push((ts, *visitor, *bot, *referrer));
            clicks[2].push((ts, *visitor, *bot, *referrer));
        }
        fixture.store_all().await;
    }
    // The first two days are older than the hours that are kept.
    let exact = day_of(first) + 2;
    let now = Timestamp::from_ms((exact + HOURLY_DAYS) * DAY_MS + HOUR_MS);
    let zones = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"].map(zone);
    let intervals = [Interval::Hour, Interval::Day, Interval::Week, Interval::Month];
    for (number, (tz, interval, bots, from, length)) in questions.iter().enumerate() {
        let subject = [
            RollupSubject::link(MAIN, links[0]),
            RollupSubject::link(MAIN, links[1]),
            RollupSubject::workspace(MAIN),
        ];
        let from = first.plus_ms(from * HOUR_MS);
        let question = StatsQuery {
            from: Some(from),
            to: Some(from.plus_ms(length * HOUR_MS)),
            interval: intervals[*interval],
            tz: zones[*tz].clone(),
            bots: if *bots { Bots::Include } else { Bots::Exclude },
            ..StatsQuery::for_subject(subject[number % 3])
        };
        let answer = fixture.clicks.statistics(&question, now).await.unwrap();
        check(&answer, &clicks[number % 3], exact);
    }
    fixture.close().await;
}
