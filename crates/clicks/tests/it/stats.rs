//! What the rollups answer, whatever zone asks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rlinks_clicks::events::Codes;
use rlinks_clicks::record::{AgentBytes, Record};
use rlinks_clicks::roll::Subject;
use rlinks_clicks::stats::{Bots, Interval, MOST_POINTS, Point, Question, Statistics, StatsError, Sum, Zone};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, HOURLY_DAYS, day_of};
use rlinks_core::{Actor, FieldCode, Id, Timestamp};
use serde_json::json;

use crate::database::{Place, contract};
use crate::desk::{Desk, FIREFOX, GOOGLEBOT, IPHONE, MAIN, click, moment};
use crate::recompute::{change, recompute_at};

contract!(
    eight_clicks_of_two_visitors_are_answered_to_the_letter,
    a_day_is_a_utc_day_until_a_zone_is_asked_for,
    days_follow_the_clock_of_their_zone,
    an_hour_belongs_to_the_day_it_begins_in,
    without_a_range_it_is_the_last_thirty_days,
    weeks_begin_on_monday_and_months_on_their_first,
    bots_are_counted_apart,
    a_link_nobody_clicked_has_a_series_of_nothing,
    ranges_that_make_no_sense_are_refused,
    a_part_of_a_day_has_its_hours,
    late_clicks_count_as_if_they_had_come_in_time,
    a_month_that_changes_is_not_remembered,
    old_days_count_where_they_begin,
    old_months_count_on_their_first_day,
    the_busiest_links_are_those_of_the_range,
    totals_are_for_ever,
    the_newest_clicks_come_first_page_by_page,
    clicks_of_several_threads_are_in_the_order_of_time,
    rare_clicks_among_many_are_found,
    what_has_no_name_is_counted_together,
);

// ---- asking ----

/// A moment of November 2026, in UTC.
fn november(day: u32, time: &str) -> Timestamp {
    moment(&format!("2026-11-{day:02}T{time}:00Z"))
}

/// When the questions are asked, unless the test says otherwise.
fn now() -> Timestamp {
    november(16, "12:00")
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

fn about(link: Id, from: &str, to: &str) -> Question {
    let question = Question::about(Subject::link(MAIN, link));
    Question { from: Some(moment(from)), to: Some(moment(to)), ..question }
}

impl Desk {
    async fn ask(&self, question: &Question) -> Statistics {
        self.clicks.statistics(question, now()).await.unwrap()
    }

    async fn refusal(&self, question: &Question) -> (String, FieldCode) {
        match self.clicks.statistics(question, now()).await {
            Err(StatsError::Question(error)) => (error.field, error.code),
            other => panic!("not refused: {other:?}"),
        }
    }

    async fn close(self) {
        self.clicks.close().await;
        self.store.close().await;
    }
}

/// The points that have something: start, clicks, visitors, bots.
fn points(answer: &Statistics) -> Vec<(String, u64, u64, u64)> {
    let something = |point: &&Point| point.sum != Sum::default();
    let shown =
        |point: &Point| (point.start.to_string(), point.sum.clicks, point.sum.visitors, point.sum.bots);
    answer.series.iter().filter(something).map(shown).collect()
}

fn point(start: &str, clicks: u64, visitors: u64, bots: u64) -> (String, u64, u64, u64) {
    (start.to_owned(), clicks, visitors, bots)
}

fn sum(clicks: u64, visitors: u64, bots: u64) -> Sum {
    Sum { clicks, visitors, bots }
}

fn bot(link: Id, ts: Timestamp) -> Record<'static> {
    Record { bot: true, agent: AgentBytes::Text(GOOGLEBOT), ua_hash: 2, ..click(link, ts, 99) }
}

// ---- the contract ----

async fn eight_clicks_of_two_visitors_are_answered_to_the_letter(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    for minute in 0..5 {
        let ts = november(15, &format!("10:{minute:02}"));
        desk.record(&[Record {
            country: Some(*b"DE"),
            referrer: b"https://www.news.example/today",
            utm_campaign: "autumn",
            ..click(link, ts, 1)
        }]);
    }
    for hour in ["03", "12", "23"] {
        let agent = AgentBytes::Text(IPHONE);
        let ts = november(15, &format!("{hour}:30"));
        desk.record(&[Record { agent, ua_hash: 3, country: Some(*b"FR"), ..click(link, ts, 2) }]);
        desk.store_all().await;
    }
    let answer = desk.ask(&about(link, "2026-11-15", "2026-11-17")).await;
    let expected = json!({
        "from": "2026-11-15T00:00:00Z",
        "to": "2026-11-17T00:00:00Z",
        "interval": "day",
        "tz": "UTC",
        "bots": "exclude",
        "total": {"clicks": 8, "visitors": 2, "bots": 0},
        "series": [
            {"start": "2026-11-15T00:00:00Z", "clicks": 8, "visitors": 2, "bots": 0},
            {"start": "2026-11-16T00:00:00Z", "clicks": 0, "visitors": 0, "bots": 0},
        ],
        "referrers": [{"value": "news.example", "clicks": 5}],
        "countries": [
            {"value": "DE", "name": "Germany", "clicks": 5},
            {"value": "FR", "name": "France", "clicks": 3},
        ],
        "cities": [],
        "devices": [{"value": "desktop", "clicks": 5}, {"value": "mobile", "clicks": 3}],
        "browsers": [{"value": "Firefox", "clicks": 5}, {"value": "Safari", "clicks": 3}],
        "systems": [{"value": "Linux", "clicks": 5}, {"value": "iOS", "clicks": 3}],
        "campaigns": [{"value": "autumn", "clicks": 5}],
    });
    assert_eq!(serde_json::to_value(&answer).unwrap(), expected);

    let hourly = Question { interval: Interval::Hour, ..about(link, "2026-11-15", "2026-11-16") };
    let answer = desk.ask(&hourly).await;
    assert_eq!(answer.total, sum(8, 2, 0));
    assert_eq!(answer.series.len(), 24);
    assert_eq!(
        points(&answer),
        [
            point("2026-11-15T03:00:00Z", 1, 1, 0),
            point("2026-11-15T10:00:00Z", 5, 1, 0),
            point("2026-11-15T12:00:00Z", 1, 1, 0),
            point("2026-11-15T23:00:00Z", 1, 1, 0),
        ]
    );
    desk.close().await;
}

async fn a_day_is_a_utc_day_until_a_zone_is_asked_for(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    desk.record(&[click(link, november(12, "23:30"), 1), click(link, november(12, "10:00"), 2)]);
    desk.store_all().await;
    let utc = about(link, "2026-11-10", "2026-11-16");
    let answer = desk.ask(&utc).await;
    assert_eq!(points(&answer), [point("2026-11-12T00:00:00Z", 2, 2, 0)]);
    assert_eq!((answer.breakdown_from, answer.breakdown_to), (None, None));

    let berlin = Question { tz: zone("europe/berlin"), ..utc.clone() };
    let answer = desk.ask(&berlin).await;
    assert_eq!(answer.tz.name(), "Europe/Berlin");
    assert_eq!(answer.tz_exact_from, None);
    assert_eq!(answer.total, sum(2, 2, 0));
    assert_eq!(
        points(&answer),
        [point("2026-11-11T23:00:00Z", 1, 1, 0), point("2026-11-12T23:00:00Z", 1, 1, 0)]
    );
    // A date is a date of the zone.
    let from = berlin.tz.moment("2026-11-13").unwrap();
    let to = berlin.tz.moment("2026-11-14").unwrap();
    assert_eq!(from, november(12, "23:00"));
    let answer = desk.ask(&Question { from: Some(from), to: Some(to), ..berlin }).await;
    assert_eq!(answer.total, sum(1, 1, 0));
    assert_eq!(points(&answer), [point("2026-11-12T23:00:00Z", 1, 1, 0)]);
    assert_eq!(answer.series.len(), 1);
    // What is broken down are whole UTC days, and the answer says which.
    assert_eq!(answer.breakdown_from, Some(november(12, "00:00")));
    assert_eq!(answer.breakdown_to, Some(november(14, "00:00")));
    assert_eq!(answer.devices[0].clicks, 2);
    desk.close().await;
}

async fn days_follow_the_clock_of_their_zone(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    // On 25 October the clocks of Berlin went back at 01:00 UTC: the day had 25 hours.
    for (visitor, time) in
        ["24T21:59", "24T22:00", "25T00:30", "25T01:30", "25T22:30", "25T23:00"].iter().enumerate()
    {
        desk.record(&[click(link, moment(&format!("2026-10-{time}:00Z")), visitor as u64)]);
    }
    desk.store_all().await;
    let berlin = Question { tz: zone("Europe/Berlin"), ..about(link, "2026-10-23", "2026-10-28") };
    let answer = desk.ask(&berlin).await;
    let starts: Vec<String> = answer.series.iter().map(|point| point.start.to_string()).collect();
    assert_eq!(
        starts,
        [
            "2026-10-22T22:00:00Z",
            "2026-10-23T22:00:00Z",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
            "2026-10-26T23:00:00Z",
            "2026-10-27T23:00:00Z"
        ]
    );
    assert_eq!(
        points(&answer),
        [
            point("2026-10-23T22:00:00Z", 1, 1, 0),
            point("2026-10-24T22:00:00Z", 4, 4, 0),
            point("2026-10-25T23:00:00Z", 1, 1, 0),
        ]
    );
    let week = desk.ask(&Question { interval: Interval::Week, ..berlin }).await;
    assert_eq!(
        points(&week),
        [point("2026-10-18T22:00:00Z", 5, 5, 0), point("2026-10-25T23:00:00Z", 1, 1, 0)]
    );
    // Samoa left 30 December 2011 out.
    let apia =
        Question { tz: zone("Pacific/Apia"), ..about(link, "2011-12-29T11:00:00Z", "2011-12-31T10:00:00Z") };
    let starts: Vec<String> =
        desk.ask(&apia).await.series.iter().map(|point| point.start.to_string()).collect();
    assert_eq!(starts, ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"]);
    desk.close().await;
}

async fn an_hour_belongs_to_the_day_it_begins_in(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    // Midnight in Kolkata is half past six in the evening. Hours are not kept by halves.
    for (visitor, time) in ["18:10", "18:40", "19:10"].iter().enumerate() {
        desk.record(&[click(link, november(10, time), visitor as u64)]);
    }
    desk.store_all().await;
    let kolkata = Question { tz: zone("Asia/Kolkata"), ..Question::about(Subject::link(MAIN, link)) };
    let answer = desk.ask(&kolkata).await;
    assert_eq!(answer.series.len(), 30);
    assert_eq!(answer.from.to_string(), "2026-10-17T19:00:00Z");
    assert_eq!(answer.to.to_string(), "2026-11-16T19:00:00Z");
    assert_eq!(
        points(&answer),
        [point("2026-11-09T18:30:00Z", 2, 2, 0), point("2026-11-10T18:30:00Z", 1, 1, 0)]
    );
    // Asked for what was answered, it answers the same.
    let again = Question { from: Some(answer.from), to: Some(answer.to), ..kolkata.clone() };
    assert_eq!(desk.ask(&again).await, answer);
    // And it says so, where that is so.
    assert!(answer.tz_rounded && serde_json::to_value(&answer).unwrap()["tz_rounded"] == true);
    for (name, interval, rounded) in [
        ("Asia/Kathmandu", Interval::Month, true),
        ("Asia/Kathmandu", Interval::Hour, false),
        ("Europe/Berlin", Interval::Day, false),
        ("UTC", Interval::Day, false),
        // Eleven hours ahead since October.
        ("Australia/Lord_Howe", Interval::Week, false),
    ] {
        let answer = desk.ask(&Question { tz: zone(name), interval, ..kolkata.clone() }).await;
        assert_eq!(answer.tz_rounded, rounded, "{name}");
    }
    let before = Question {
        tz: zone("Australia/Lord_Howe"),
        from: Some(moment("2026-10-01")),
        to: Some(moment("2026-11-01")),
        ..kolkata
    };
    assert!(desk.ask(&before).await.tz_rounded);
    desk.close().await;
}

async fn without_a_range_it_is_the_last_thirty_days(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    desk.record(&[
        click(link, moment("2026-10-17T23:59:59Z"), 1),
        click(link, moment("2026-10-18T00:00:00Z"), 1),
        click(link, november(16, "11:59"), 1),
    ]);
    desk.store_all().await;
    let question = Question::about(Subject::link(MAIN, link));
    let answer = desk.ask(&question).await;
    assert_eq!((answer.from, answer.to), (moment("2026-10-18"), moment("2026-11-17")));
    assert_eq!(answer.series.len(), 30);
    assert_eq!(answer.total, sum(2, 2, 0));
    assert_eq!(answer.days, day_of(moment("2026-10-18"))..day_of(moment("2026-11-17")));
    // One end gives the other, by the calendar of the zone.
    let tz = zone("Europe/Berlin");
    let to = Question { to: Some(tz.moment("2026-11-10").unwrap()), tz: tz.clone(), ..question.clone() };
    let answer = desk.ask(&to).await;
    assert_eq!((answer.from, answer.to), (moment("2026-10-10T22:00:00Z"), moment("2026-11-09T23:00:00Z")));
    assert_eq!(answer.series.len(), 30);
    // Without an end it is until today, however long that is.
    let from = Question { from: Some(tz.moment("2026-03-11").unwrap()), tz, ..question.clone() };
    let answer = desk.ask(&from).await;
    assert_eq!((answer.to, answer.series.len()), (moment("2026-11-16T23:00:00Z"), 251));
    let ahead = Question { from: Some(moment("2026-11-17")), ..question.clone() };
    assert_eq!(desk.refusal(&ahead).await, ("from".to_owned(), FieldCode::TooShort));
    // Today ends where it ends in the zone; and the last thirty days are exact in every zone.
    for (name, to) in [
        ("Pacific/Kiritimati", "2026-11-17T10:00:00Z"),
        ("Etc/GMT+12", "2026-11-17T12:00:00Z"),
        ("America/New_York", "2026-11-17T05:00:00Z"),
    ] {
        let answer = desk.ask(&Question { tz: zone(name), ..question.clone() }).await;
        assert_eq!(answer.to, moment(to), "{name}");
        assert_eq!((answer.series.len(), answer.tz_exact_from), (30, None), "{name}");
    }
    desk.close().await;
}

async fn weeks_begin_on_monday_and_months_on_their_first(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    // 1 November was a Sunday.
    for time in
        ["2026-10-31T12:00:00Z", "2026-11-01T23:59:59Z", "2026-11-02T00:00:00Z", "2026-11-09T01:00:00Z"]
    {
        desk.record(&[click(link, moment(time), 1)]);
    }
    desk.store_all().await;
    let days = about(link, "2026-10-28", "2026-11-16");
    let weeks = desk.ask(&Question { interval: Interval::Week, ..days.clone() }).await;
    assert_eq!(weeks.series.len(), 3);
    assert_eq!(
        points(&weeks),
        [
            point("2026-10-26T00:00:00Z", 2, 2, 0),
            point("2026-11-02T00:00:00Z", 1, 1, 0),
            point("2026-11-09T00:00:00Z", 1, 1, 0),
        ]
    );
    let months = desk.ask(&Question { interval: Interval::Month, ..days.clone() }).await;
    assert_eq!(
        points(&months),
        [point("2026-10-01T00:00:00Z", 1, 1, 0), point("2026-11-01T00:00:00Z", 3, 3, 0)]
    );
    assert_eq!(months.from, moment("2026-10-28"));
    // In Auckland, thirteen hours ahead, the click of Saturday noon is one of Sunday, 1 November.
    let months = Question { interval: Interval::Month, tz: zone("Pacific/Auckland"), ..days };
    assert_eq!(points(&desk.ask(&months).await), [point("2026-10-31T11:00:00Z", 4, 4, 0)]);
    desk.close().await;
}

async fn bots_are_counted_apart(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let referrer = "https://a.example/";
    desk.record(&[
        Record { referrer: referrer.as_bytes(), ..click(link, november(10, "10:00"), 1) },
        Record { referrer: referrer.as_bytes(), ..bot(link, november(10, "10:00")) },
        Record { referrer: b"https://b.example/", ..bot(link, november(10, "11:00")) },
        bot(link, november(11, "10:00")),
    ]);
    desk.store_all().await;
    let people = about(link, "2026-11-10", "2026-11-12");
    let answer = desk.ask(&people).await;
    assert_eq!(answer.total, sum(1, 1, 3));
    assert_eq!(
        points(&answer),
        [point("2026-11-10T00:00:00Z", 1, 1, 2), point("2026-11-11T00:00:00Z", 0, 0, 1)]
    );
    let shown = |values: &[rlinks_clicks::stats::Value]| -> Vec<(String, u64)> {
        values.iter().map(|value| (value.value.clone(), value.clicks)).collect()
    };
    assert_eq!(shown(&answer.referrers), [("a.example".to_owned(), 1)]);
    assert_eq!(shown(&answer.devices), [("desktop".to_owned(), 1)]);
    let all = desk.ask(&Question { bots: Bots::Include, ..people.clone() }).await;
    assert_eq!(all.total, sum(4, 1, 3));
    assert_eq!(
        points(&all),
        [point("2026-11-10T00:00:00Z", 3, 1, 2), point("2026-11-11T00:00:00Z", 1, 0, 1)]
    );
    assert_eq!(shown(&all.referrers), [("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
    assert_eq!(shown(&all.devices), [("bot".to_owned(), 3), ("desktop".to_owned(), 1)]);
    // By the hours it is the same.
    let berlin = Question { bots: Bots::Include, tz: zone("Europe/Berlin"), ..people };
    assert_eq!(desk.ask(&berlin).await.total, sum(4, 1, 3));
    desk.close().await;
}

async fn a_link_nobody_clicked_has_a_series_of_nothing(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let other = desk.link("b").await;
    desk.record(&[click(other, november(10, "10:00"), 1)]);
    desk.store_all().await;
    for tz in ["UTC", "Asia/Tokyo"] {
        for interval in [Interval::Hour, Interval::Day, Interval::Week, Interval::Month] {
            let question = Question { interval, tz: zone(tz), ..about(link, "2026-11-01", "2026-11-15") };
            let answer = desk.ask(&question).await;
            assert_eq!(answer.total, Sum::default());
            assert_eq!(points(&answer), []);
            assert!(!answer.series.is_empty());
            assert!(answer.referrers.is_empty() && answer.devices.is_empty());
        }
    }
    // A link of another workspace is nobody's.
    let stranger = Question::about(Subject::link(Id::from_i64(2), other));
    assert_eq!(desk.ask(&stranger).await.devices, []);
    let mut codes = Codes::new(desk.store.clone());
    assert_eq!(desk.clicks.recent(MAIN, Some(link), None, 10, &mut codes).await.unwrap(), (vec![], None));
    assert_eq!(
        desk.clicks.recent(Id::from_i64(2), Some(other), None, 10, &mut codes).await.unwrap(),
        (vec![], None)
    );
    desk.close().await;
}

async fn ranges_that_make_no_sense_are_refused(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let refused = |from, to| about(link, from, to);
    for question in [refused("2026-11-10", "2026-11-10"), refused("2026-11-11", "2026-11-10")] {
        assert_eq!(desk.refusal(&question).await, ("from".to_owned(), FieldCode::TooShort));
    }
    let to = Question { from: None, ..about(link, "1970-01-01", "1970-01-01") };
    assert_eq!(desk.refusal(&to).await, ("to".to_owned(), FieldCode::TooShort));
    let from = Question { to: None, ..about(link, "9999-12-31T23:59:59.999Z", "9999-12-31") };
    assert_eq!(desk.refusal(&from).await, ("from".to_owned(), FieldCode::TooShort));

    let hours = Question { interval: Interval::Hour, ..about(link, "2025-01-01", "2026-11-16") };
    assert_eq!(desk.refusal(&hours).await, ("interval".to_owned(), FieldCode::TooLong));
    let from = moment("2026-11-16").plus_ms(-i64::try_from(MOST_POINTS).unwrap() * HOUR_MS);
    let most = Question { from: Some(from), ..hours.clone() };
    assert_eq!(desk.ask(&most).await.series.len(), MOST_POINTS);
    let one_more = Question { from: Some(from.plus_ms(-1)), ..hours };
    assert_eq!(desk.refusal(&one_more).await, ("interval".to_owned(), FieldCode::TooLong));
    let ever = about(link, "1970-01-01", "9999-12-31T23:59:59Z");
    for interval in [Interval::Hour, Interval::Day, Interval::Week, Interval::Month] {
        let ever = Question { interval, tz: zone("Asia/Kolkata"), ..ever.clone() };
        assert_eq!(desk.refusal(&ever).await, ("interval".to_owned(), FieldCode::TooLong));
    }
    // As long as there are few points, a range may be long, and reach anywhere.
    let months = Question { interval: Interval::Month, ..about(link, "1970-01-01", "2600-01-01") };
    assert_eq!(desk.ask(&months).await.series.len(), 630 * 12);
    let end = about(link, "9999-12-01", "9999-12-31T23:59:59.999Z");
    for tz in ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"] {
        assert_eq!(desk.ask(&Question { tz: zone(tz), ..end.clone() }).await.total, Sum::default());
    }
    // Days to come have nothing, of a link that was clicked too.
    desk.record(&[click(link, november(10, "10:00"), 1)]);
    desk.store_all().await;
    for (from, to) in
        [("2026-11-18", "2026-11-20"), ("2030-01-01", "2030-02-01"), ("9999-12-01", "9999-12-31")]
    {
        for subject in [Subject::link(MAIN, link), Subject::workspace(MAIN)] {
            let to_come = Question { subject, ..about(link, from, to) };
            let answer = desk.ask(&to_come).await;
            assert_eq!((answer.total, answer.devices), (Sum::default(), vec![]), "{from}");
        }
    }
    assert_eq!(Zone::parse("Europe/Atlantis"), None);
    assert_eq!(Zone::parse("Etc/Unknown"), None);
    assert_eq!(Interval::parse("year"), None);
    assert_eq!(Bots::parse("include"), Some(Bots::Include));
    desk.close().await;
}

async fn a_part_of_a_day_has_its_hours(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    desk.record(&[
        click(link, november(10, "08:00"), 1),
        click(link, november(10, "10:59"), 1),
        click(link, november(10, "11:00"), 1),
        click(link, november(10, "11:30"), 2),
        click(link, november(10, "12:00"), 3),
    ]);
    desk.store_all().await;
    // Outward to whole hours. Visitor 1 came before, and was there.
    let question = about(link, "2026-11-10T10:30:00Z", "2026-11-10T11:00:00.001Z");
    let answer = desk.ask(&question).await;
    assert_eq!((answer.from, answer.to), (november(10, "10:00"), november(10, "12:00")));
    assert_eq!(answer.total, sum(3, 2, 0));
    assert_eq!(points(&answer), [point("2026-11-10T00:00:00Z", 3, 2, 0)]);
    assert_eq!(answer.breakdown_from, Some(november(10, "00:00")));
    assert_eq!(answer.breakdown_to, Some(november(11, "00:00")));
    let hourly = desk.ask(&Question { interval: Interval::Hour, ..question }).await;
    assert_eq!(hourly.total, sum(3, 2, 0));
    assert_eq!(
        points(&hourly),
        [point("2026-11-10T10:00:00Z", 1, 1, 0), point("2026-11-10T11:00:00Z", 2, 2, 0)]
    );
    let two_days = desk.ask(&about(link, "2026-11-09T11:00:00Z", "2026-11-10T11:00:00Z")).await;
    assert_eq!(two_days.total, sum(2, 1, 0));
    assert_eq!(two_days.series.len(), 2);
    desk.close().await;
}

async fn late_clicks_count_as_if_they_had_come_in_time(place: Place) {
    let mut desk = Desk::new(place).await;
    let [late, early] = [desk.link("late").await, desk.link("early").await];
    let times = ["21:30", "22:30", "23:30"];
    // One link's clicks are stored from the last to the first, the other's in order.
    for time in times.iter().rev() {
        desk.record(&[click(late, november(10, time), 1)]);
        desk.store_all().await;
    }
    for time in times {
        desk.record(&[click(early, november(10, time), 1)]);
    }
    desk.store_all().await;
    let berlin =
        Question { tz: zone("Europe/Berlin"), ..about(late, "2026-11-09T23:00:00Z", "2026-11-11T23:00:00Z") };
    for interval in [Interval::Hour, Interval::Day, Interval::Week] {
        let late_one = desk.ask(&Question { interval, ..berlin.clone() }).await;
        let early_one =
            desk.ask(&Question { interval, subject: Subject::link(MAIN, early), ..berlin.clone() }).await;
        assert_eq!(late_one, early_one);
        assert_eq!(late_one.total, sum(3, 1, 0));
    }
    assert_eq!(
        points(&desk.ask(&berlin).await),
        // Midnight in Berlin was 23:00. The visitor arrived before it, and was there after it.
        [point("2026-11-09T23:00:00Z", 2, 1, 0), point("2026-11-10T23:00:00Z", 1, 1, 0)]
    );
    desk.close().await;
}

async fn a_month_that_changes_is_not_remembered(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let from = |country: &[u8; 2], ts| Record { country: Some(*country), ..click(link, ts, 1) };
    desk.record(&[from(b"DE", november(3, "10:00")), bot(link, moment("2026-10-20T10:00:00Z"))]);
    desk.store_all().await;
    let year = about(link, "2026-01-01", "2026-12-01");
    let countries = |answer: Statistics| {
        answer.countries.into_iter().map(|country| (country.value, country.clicks)).collect::<Vec<_>>()
    };
    let some = |values: &[(&str, u64)]| {
        values.iter().map(|(value, clicks)| ((*value).to_owned(), *clicks)).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(countries(desk.ask(&year).await), some(&[("DE", 1)]));
    }
    // A click of last month comes late.
    desk.record(&[from(b"FR", moment("2026-10-20T11:00:00Z"))]);
    desk.store_all().await;
    assert_eq!(countries(desk.ask(&year).await), some(&[("DE", 1), ("FR", 1)]));
    // What was remembered without bots has them all the same.
    let with_bots = desk.ask(&Question { bots: Bots::Include, ..year.clone() }).await;
    assert_eq!(with_bots.devices.iter().map(|device| device.clicks).sum::<u64>(), 3);
    // Somebody's damage that no sum shows is seen once it was mended.
    let damage = "update day_values set dimensions = '[{},{\"XX\":[9,0]},{},{},{},{},{}]' where kind = 0";
    change(&desk.clicks, damage).await;
    desk.record(&[from(b"FR", moment("2026-10-20T12:00:00Z"))]);
    desk.store_all().await;
    assert!(countries(desk.ask(&year).await).contains(&("XX".to_owned(), 18)));
    recompute_at(&desk, None, now()).await;
    assert_eq!(countries(desk.ask(&year).await), some(&[("FR", 2), ("DE", 1)]));
    desk.close().await;
}

async fn old_days_count_where_they_begin(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    for time in
        ["2026-08-31T23:30:00Z", "2026-09-15T05:00:00Z", "2026-09-30T22:30:00Z", "2026-10-17T23:30:00Z"]
    {
        desk.record(&[click(link, moment(time), 1)]);
    }
    desk.store_all().await;
    let exact = now().plus_ms(-HOURLY_DAYS * DAY_MS);
    assert_eq!(exact.day(), "20261017");
    let utc = about(link, "2026-09-01", "2026-10-01");
    let answer = desk.ask(&utc).await;
    assert_eq!((answer.total, answer.tz_exact_from), (sum(2, 2, 0), None));

    // In Berlin, September began at 22:00 on 31 August. But hours are not known: a UTC day counts where it begins.
    let berlin =
        Question { tz: zone("Europe/Berlin"), ..about(link, "2026-08-31T22:00:00Z", "2026-09-30T22:00:00Z") };
    let answer = desk.ask(&berlin).await;
    assert_eq!(answer.tz_exact_from, Some(moment("2026-10-17")));
    assert_eq!(answer.total, sum(2, 2, 0));
    assert_eq!(
        points(&answer),
        [point("2026-09-14T22:00:00Z", 1, 1, 0), point("2026-09-29T22:00:00Z", 1, 1, 0)]
    );
    assert_eq!(answer.series.len(), 30);
    assert_eq!(answer.devices[0].clicks, 2);
    assert_eq!(answer.breakdown_from, Some(moment("2026-09-01")));
    // The hours of the last thirty days are known.
    let whole = Question { to: Some(november(1, "23:00")), ..berlin };
    let answer = desk.ask(&whole).await;
    assert_eq!(answer.total, sum(3, 3, 0));
    assert_eq!(points(&answer).last(), Some(&point("2026-10-17T22:00:00Z", 1, 1, 0)));
    // Hour by hour an old day stands at its first.
    let hourly = desk.ask(&Question { interval: Interval::Hour, ..utc }).await;
    assert_eq!(hourly.tz_exact_from, Some(moment("2026-10-17")));
    assert_eq!(
        points(&hourly),
        [point("2026-09-15T00:00:00Z", 1, 1, 0), point("2026-09-30T00:00:00Z", 1, 1, 0)]
    );
    // Of a part of an old day the day is known.
    let part = desk.ask(&about(link, "2026-09-15T10:00:00Z", "2026-09-15T12:00:00Z")).await;
    assert_eq!((part.total, part.tz_exact_from), (sum(1, 1, 0), Some(moment("2026-10-17"))));
    assert_eq!(points(&part), [point("2026-09-15T00:00:00Z", 1, 1, 0)]);
    // Adjoining ranges share nothing and lose nothing.
    for cut in
        ["2026-09-15T00:00:00Z", "2026-09-15T01:00:00Z", "2026-09-15T23:00:00Z", "2026-09-16T00:00:00Z"]
    {
        let before = desk.ask(&about(link, "2026-09-10T07:00:00Z", cut)).await;
        let after = desk.ask(&about(link, cut, "2026-09-20T07:00:00Z")).await;
        assert_eq!(before.total.clicks + after.total.clicks, 1, "{cut}");
    }
    desk.close().await;
}

async fn old_months_count_on_their_first_day(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    for time in ["2025-08-05", "2025-08-20", "2025-09-10", "2025-09-20", "2025-09-30", "2025-10-05"] {
        desk.record(&[click(link, moment(time), 1), bot(link, moment(time))]);
    }
    desk.store_all().await;
    let every_day = desk.ask(&about(link, "2025-08-01", "2025-11-01")).await;
    let kept = day_of(moment("2025-09-20"));
    let forgetful = Question { days_kept_from: Some(kept), ..about(link, "2025-08-01", "2025-11-01") };
    let answer = desk.ask(&forgetful).await;
    assert_eq!(answer.total, every_day.total);
    assert_eq!(
        points(&answer),
        [
            point("2025-08-01T00:00:00Z", 2, 2, 2),
            // What September has beyond the days that are kept.
            point("2025-09-01T00:00:00Z", 1, 1, 1),
            point("2025-09-20T00:00:00Z", 1, 1, 1),
            point("2025-09-30T00:00:00Z", 1, 1, 1),
            point("2025-10-05T00:00:00Z", 1, 1, 1),
        ]
    );
    assert_eq!(answer.devices[0].clicks, 3);
    assert_eq!(answer.breakdown_from, Some(moment("2025-09-20")));
    let months = desk.ask(&Question { interval: Interval::Month, ..forgetful.clone() }).await;
    let all = Question { days_kept_from: None, interval: Interval::Month, ..forgetful.clone() };
    assert_eq!(months.series, desk.ask(&all).await.series);
    // A range that ends before the days that are kept, one that begins inside of a month, and one of kept days alone.
    for (from, to, clicks) in [
        ("2025-09-01", "2025-09-15", 1),
        ("2025-08-15", "2025-09-15", 1),
        ("2025-08-15", "2025-09-01", 0),
        ("2025-09-02", "2025-09-25", 1),
        ("2025-09-20", "2025-10-01", 2),
        ("2025-08-01", "2025-08-02", 2),
    ] {
        let part = Question { from: Some(moment(from)), to: Some(moment(to)), ..forgetful.clone() };
        let answer = desk.ask(&part).await;
        assert_eq!(answer.total.clicks, clicks, "{from} {to}");
        assert_eq!(answer.series.iter().map(|point| point.sum.clicks).sum::<u64>(), clicks, "{from} {to}");
    }
    desk.close().await;
}

async fn the_busiest_links_are_those_of_the_range(place: Place) {
    let mut desk = Desk::new(place).await;
    let mut links = Vec::new();
    for code in ["a", "b", "c", "d"] {
        links.push(desk.link(code).await);
    }
    let [a, b, c, d] = links[..] else { panic!() };
    desk.record(&[click(a, november(9, "10:00"), 1), click(a, november(9, "10:00"), 2)]);
    desk.record(&[click(a, november(10, "10:00"), 1), click(b, november(10, "10:00"), 1)]);
    desk.record(&[
        click(c, november(11, "10:00"), 1),
        click(c, november(10, "10:00"), 1),
        bot(d, november(10, "10:00")),
    ]);
    desk.record(&[bot(b, november(10, "11:00")), bot(b, november(10, "12:00"))]);
    desk.store_all().await;
    let days = day_of(november(10, "00:00"))..day_of(november(12, "00:00"));
    let top = async |days, bots, limit| desk.clicks.top_links(MAIN, days, bots, limit).await.unwrap();
    assert_eq!(top(days.clone(), Bots::Exclude, 20).await, [(c, 2), (a, 1), (b, 1)]);
    assert_eq!(top(days.clone(), Bots::Include, 20).await, [(b, 3), (c, 2), (a, 1), (d, 1)]);
    assert_eq!(top(days.clone(), Bots::Include, 1).await, [(b, 3)]);
    assert_eq!(top(days.start - 1..days.end, Bots::Exclude, 1).await, [(a, 3)]);
    assert_eq!(top(days.end..days.end + 1, Bots::Include, 20).await, []);
    let whole = desk.ask(&Question::about(Subject::workspace(MAIN))).await;
    assert_eq!(whole.total, sum(6, 4, 3));
    desk.close().await;
}

async fn totals_are_for_ever(place: Place) {
    let mut desk = Desk::new(place).await;
    let (link, quiet) = (desk.link("a").await, desk.link("b").await);
    let owned = desk.link_by("c", Actor::stored("user:77".to_owned())).await;
    desk.record(&[
        click(link, moment("2020-01-01"), 1),
        click(link, november(10, "10:00"), 1),
        bot(link, november(11, "10:00")),
        bot(owned, november(9, "10:00")),
    ]);
    desk.store_all().await;
    let user = Subject::user(MAIN, Id::from_i64(77));
    let (link, owned) = (Subject::link(MAIN, link), Subject::link(MAIN, owned));
    let (quiet, stranger) = (Subject::link(MAIN, quiet), Subject::link(Id::from_i64(2), link.id));
    let totals = desk.clicks.totals(&[link, quiet, owned, user, stranger]).await.unwrap();
    assert_eq!(totals.len(), 3);
    let of_link = totals[&link];
    assert_eq!((of_link.clicks, of_link.bots), (2, 1));
    assert_eq!(of_link.last_click, Some(november(10, "10:00")));
    assert_eq!(of_link.last_hit, Some(november(11, "10:00")));
    assert_eq!((totals[&owned].clicks, totals[&owned].bots, totals[&owned].last_click), (0, 1, None));
    assert_eq!(totals[&user], totals[&owned]);
    assert!(desk.clicks.totals(&[]).await.unwrap().is_empty());
    desk.close().await;
}

// ---- raw clicks ----

impl Desk {
    /// All clicks, page by page: their visitors, and how many pages it took.
    async fn pages(&self, link: Option<Id>, limit: usize) -> (Vec<u64>, usize) {
        let mut codes = Codes::new(self.store.clone());
        let (mut visitors, mut before, mut pages) = (Vec::new(), None, 0);
        let mut last = (Timestamp::from_ms(i64::MAX), i64::MAX);
        loop {
            let (page, next) = self.clicks.recent(MAIN, link, before, limit, &mut codes).await.unwrap();
            assert!(page.len() <= limit);
            for click in &page {
                assert!((click.ts, click.n) < last, "not the newest first");
                assert!(!click.code.is_empty());
                last = (click.ts, click.n);
            }
            visitors.extend(page.iter().map(|click| click.visitor.unwrap()));
            pages += 1;
            if next.is_none() {
                return (visitors, pages);
            }
            assert_ne!(next, before);
            before = next;
        }
    }
}

async fn the_newest_clicks_come_first_page_by_page(place: Place) {
    let mut desk = Desk::new(place).await;
    let (a, b) = (desk.link("a").await, desk.link("b").await);
    for visitor in 0..60_u64 {
        let link = if visitor % 3 == 0 { b } else { a };
        let ts = november(1 + u32::try_from(visitor / 6).unwrap(), "10:00")
            .plus_ms(visitor.cast_signed() * HOUR_MS / 7);
        desk.record(&[click(link, ts, visitor)]);
        if visitor % 7 == 0 {
            desk.store_all().await;
        }
    }
    desk.store_all().await;
    // These come late: the newest by number, among the oldest by time.
    desk.record(&[
        click(a, november(1, "03:00"), 100),
        click(a, moment("2025-01-01"), 101),
        click(b, moment("2025-01-01"), 102),
    ]);
    desk.store_all().await;
    let newest = |wanted: fn(u64) -> bool, late: &[u64]| -> Vec<u64> {
        (0..60).rev().filter(|visitor| wanted(*visitor)).chain(late.iter().copied()).collect()
    };
    let of_a = newest(|visitor| visitor % 3 != 0, &[100, 101]);
    let of_b = newest(|visitor| visitor % 3 == 0, &[102]);
    let all = newest(|_| true, &[100, 102, 101]);
    for limit in [1, 7, 100] {
        let pages = |clicks: &[u64]| clicks.len().div_ceil(limit);
        assert_eq!(desk.pages(Some(a), limit).await, (of_a.clone(), pages(&of_a)));
        assert_eq!(desk.pages(Some(b), limit).await, (of_b.clone(), pages(&of_b)));
        assert_eq!(desk.pages(None, limit).await, (all.clone(), pages(&all)));
    }
    // A click that comes meanwhile changes no later page.
    let mut codes = Codes::new(desk.store.clone());
    let (_, next) = desk.clicks.recent(MAIN, Some(a), None, 10, &mut codes).await.unwrap();
    desk.record(&[click(a, november(15, "10:00"), 200)]);
    desk.store_all().await;
    let (page, _) = desk.clicks.recent(MAIN, Some(a), next, 10, &mut codes).await.unwrap();
    assert_eq!(page.iter().map(|click| click.visitor.unwrap()).collect::<Vec<_>>(), of_a[10..20]);
    assert_eq!(page[0].code, "a");
    desk.close().await;
}

async fn clicks_of_several_threads_are_in_the_order_of_time(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let start = november(10, "10:00");
    // One thread's clicks are stored before another's that came in between, within a batch and over several.
    let mut stored: Vec<u64> = Vec::new();
    for batch in 0..4_u64 {
        for thread in [1, 0] {
            let of_thread = (0..30).map(|n| batch * 55 + n * 2 + thread).filter(|n| !stored.contains(n));
            let of_thread: Vec<u64> = of_thread.collect();
            let clicks: Vec<_> =
                of_thread.iter().map(|n| click(link, start.plus_ms(n.cast_signed()), *n)).collect();
            desk.record(&clicks);
            stored.extend(of_thread);
            if batch % 2 == 0 {
                desk.store_all().await;
            }
        }
    }
    desk.store_all().await;
    stored.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    for limit in [1, 10, 33, 100] {
        let (visitors, _) = desk.pages(Some(link), limit).await;
        assert_eq!(visitors, stored, "{limit}");
    }
    desk.close().await;
}

async fn rare_clicks_among_many_are_found(place: Place) {
    let mut desk = Desk::new(place).await;
    let (rare, busy) = (desk.link("rare").await, desk.link("busy").await);
    let crowd = |from: Timestamp| -> Vec<Record<'static>> {
        (0..3000).map(|n| click(busy, from.plus_ms(n), 1)).collect()
    };
    // One click in an hour, two in another, five in a third, each among thousands; and one long ago.
    desk.record(&[click(rare, moment("2025-03-01"), 1)]);
    for (day, clicks) in [(10, 1), (11, 2), (12, 5)] {
        for _ in 0..clicks {
            desk.record(&crowd(november(day, "10:00")));
            desk.record(&[click(rare, november(day, "10:30"), u64::from(day))]);
        }
        desk.record(&crowd(november(day, "10:40")));
        desk.store_all().await;
    }
    let expected = [12, 12, 12, 12, 12, 11, 11, 10, 1];
    assert_eq!(desk.pages(Some(rare), 100).await, (expected.to_vec(), 1));
    assert_eq!(desk.pages(Some(rare), 4).await, (expected.to_vec(), 3));
    // Where hours are kept no longer, days lead there too.
    desk.forget_hours().await;
    assert_eq!(desk.pages(Some(rare), 4).await, (expected.to_vec(), 3));
    desk.close().await;
}

impl Desk {
    async fn forget_hours(&self) {
        use rlinks_store::pool::Pool;
        let sql = "delete from hours";
        match self.clicks.pool() {
            Pool::Sqlite { writer, .. } => drop(sqlx::query(sql).execute(writer).await.unwrap()),
            Pool::Postgres(pool) => drop(sqlx::query(sql).execute(pool).await.unwrap()),
        }
    }
}

// ---- many values ----

async fn what_has_no_name_is_counted_together(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let hosts: Vec<String> = (0..600).map(|n| format!("https://r{n:03}.example/")).collect();
    for day in [10, 11] {
        let mut records: Vec<_> = hosts
            .iter()
            .map(|referrer| Record {
                referrer: referrer.as_bytes(),
                ..click(link, november(day, "10:00"), 1)
            })
            .collect();
        // Those that have names gain; so do those that have none.
        for (host, times) in [(0, 3), (7, 2), (550, 4)] {
            let again = Record { referrer: hosts[host].as_bytes(), ..click(link, november(day, "11:00"), 1) };
            records.extend(std::iter::repeat_n(again, times));
        }
        desk.record(&records);
        desk.store_all().await;
    }
    let answer = desk.ask(&about(link, "2026-11-10", "2026-11-12")).await;
    assert_eq!(answer.total, sum(2 * 609, 2, 0));
    let shown: Vec<_> = answer.referrers.iter().map(|value| (value.value.as_str(), value.clicks)).collect();
    assert_eq!(
        shown[..4],
        [("r000.example", 8), ("r007.example", 6), ("r001.example", 2), ("r002.example", 2)]
    );
    assert_eq!(shown.len(), 11);
    assert_eq!(shown[10], ("(other)", 2 * (100 + 4)));
    // All together they are what was counted: 500 names and the rest.
    let named = 2 * (500 + 3 + 2);
    assert_eq!(named + shown[10].1, answer.total.clicks);
    assert_eq!(answer.browsers, [rlinks_clicks::stats::Value { value: "Firefox".to_owned(), clicks: 1218 }]);
    desk.close().await;
}

// ---- against the raw clicks ----

/// A click of the property: link, hour since the first, minute, visitor, bot, referrer.
type Drawn = (usize, i64, i64, u64, bool, usize);

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
    let mut total = Sum::default();
    let mut series = vec![Sum::default(); starts.len()];
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
        let place = if inside_one_day && day == from.div_euclid(24) { from } else { day * 24 };
        let mut counts = |hour: i64, bot: bool| {
            let hour = if old { place } else { hour };
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
            series[point_of(place)].visitors += visitors;
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
        let first = if old { place } else { day * 24 };
        if first < to && (in_range(first) || (!old && day * 24 + 24 > from)) {
            for (_, _, bot, referrer) in &of_day {
                if *referrer > 0 && (answer.bots == Bots::Include || !bot) {
                    *referrers.entry(["", "a.example", "b.example"][*referrer]).or_default() += 1;
                }
            }
        }
    }
    assert_eq!(answer.total, total);
    assert_eq!(answer.series.iter().map(|point| point.sum).collect::<Vec<_>>(), series);
    let shown: BTreeMap<&str, u64> =
        answer.referrers.iter().map(|value| (value.value.as_str(), value.clicks)).collect();
    assert_eq!(shown, referrers);
}

#[test]
fn answers_are_what_the_raw_clicks_say() {
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

async fn count_and_compare(batches: &[Vec<Drawn>], questions: &[(usize, usize, bool, i64, i64)]) {
    let mut desk = Desk::new(Place::sqlite()).await;
    let links = [desk.link("a").await, desk.link("b").await];
    let first = moment("2026-10-23");
    let mut clicks: [Vec<_>; 3] = Default::default();
    for batch in batches {
        for (link, hour, minute, visitor, bot, referrer) in batch {
            let ts = first.plus_ms(hour * HOUR_MS + minute * 60_000);
            let agent = if *bot { GOOGLEBOT } else { FIREFOX };
            desk.record(&[Record {
                bot: *bot,
                agent: AgentBytes::Text(agent),
                ua_hash: u64::from(*bot),
                referrer: REFERRERS[*referrer].as_bytes(),
                ..click(links[*link], ts, *visitor)
            }]);
            clicks[*link].push((ts, *visitor, *bot, *referrer));
            clicks[2].push((ts, *visitor, *bot, *referrer));
        }
        desk.store_all().await;
    }
    // The first two days are older than the hours that are kept.
    let exact = day_of(first) + 2;
    let now = Timestamp::from_ms((exact + HOURLY_DAYS) * DAY_MS + HOUR_MS);
    let zones = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"].map(zone);
    let intervals = [Interval::Hour, Interval::Day, Interval::Week, Interval::Month];
    for (number, (tz, interval, bots, from, length)) in questions.iter().enumerate() {
        let subject =
            [Subject::link(MAIN, links[0]), Subject::link(MAIN, links[1]), Subject::workspace(MAIN)];
        let from = first.plus_ms(from * HOUR_MS);
        let question = Question {
            from: Some(from),
            to: Some(from.plus_ms(length * HOUR_MS)),
            interval: intervals[*interval],
            tz: zones[*tz].clone(),
            bots: if *bots { Bots::Include } else { Bots::Exclude },
            ..Question::about(subject[number % 3])
        };
        let answer = desk.clicks.statistics(&question, now).await.unwrap();
        check(&answer, &clicks[number % 3], exact);
    }
    desk.close().await;
}
