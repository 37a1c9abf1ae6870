//! Hours, days, weeks and months: whose they are, where they begin, and how exactly they are known when they are old.

use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{Interval, StatsQuery};
use rlinks_clicks::time::{DAY_MS, HOURLY_DAYS, day_of};
use rlinks_core::FieldCode;

use super::{about, bot, november, now, point, points, sum, zone};
use crate::support::clicks::{ClickFixture, MAIN, click, moment};
use crate::support::database::{TestStore, contract};

contract!(
    days_are_utc_unless_a_zone_is_given,
    days_follow_the_clock_changes_of_their_zone,
    hour_counts_on_the_day_it_begins_in_half_hour_zones,
    default_range_is_the_last_thirty_days,
    weeks_begin_on_monday_and_months_on_the_first,
    range_within_a_day_counts_whole_hours,
    days_without_hourly_data_count_at_their_utc_start,
    months_without_daily_data_count_on_their_first_day,
);

async fn days_are_utc_unless_a_zone_is_given(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    fixture.record(&[click(link, november(12, "23:30"), 1), click(link, november(12, "10:00"), 2)]);
    fixture.store_all().await;
    let utc = about(link, "2026-11-10", "2026-11-16");
    let answer = fixture.ask(&utc).await;
    assert_eq!(points(&answer), [point("2026-11-12T00:00:00Z", 2, 2, 0)]);
    assert_eq!((answer.breakdown_from, answer.breakdown_to), (None, None));

    let berlin = StatsQuery { tz: zone("europe/berlin"), ..utc.clone() };
    let answer = fixture.ask(&berlin).await;
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
    let answer = fixture.ask(&StatsQuery { from: Some(from), to: Some(to), ..berlin }).await;
    assert_eq!(answer.total, sum(1, 1, 0));
    assert_eq!(points(&answer), [point("2026-11-12T23:00:00Z", 1, 1, 0)]);
    assert_eq!(answer.series.len(), 1);
    // What is broken down are whole UTC days, and the answer says which.
    assert_eq!(answer.breakdown_from, Some(november(12, "00:00")));
    assert_eq!(answer.breakdown_to, Some(november(14, "00:00")));
    assert_eq!(answer.devices[0].clicks, 2);
    fixture.close().await;
}

async fn days_follow_the_clock_changes_of_their_zone(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    // On 25 October the clocks of Berlin went back at 01:00 UTC: the day had 25 hours.
    for (visitor, time) in
        ["24T21:59", "24T22:00", "25T00:30", "25T01:30", "25T22:30", "25T23:00"].iter().enumerate()
    {
        fixture.record(&[click(link, moment(&format!("2026-10-{time}:00Z")), visitor as u64)]);
    }
    fixture.store_all().await;
    let berlin = StatsQuery { tz: zone("Europe/Berlin"), ..about(link, "2026-10-23", "2026-10-28") };
    let answer = fixture.ask(&berlin).await;
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
    let week = fixture.ask(&StatsQuery { interval: Interval::Week, ..berlin }).await;
    assert_eq!(
        points(&week),
        [point("2026-10-18T22:00:00Z", 5, 5, 0), point("2026-10-25T23:00:00Z", 1, 1, 0)]
    );
    // Samoa left 30 December 2011 out.
    let apia = StatsQuery {
        tz: zone("Pacific/Apia"),
        ..about(link, "2011-12-29T11:00:00Z", "2011-12-31T10:00:00Z")
    };
    let starts: Vec<String> =
        fixture.ask(&apia).await.series.iter().map(|point| point.start.to_string()).collect();
    assert_eq!(starts, ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"]);
    fixture.close().await;
}

async fn hour_counts_on_the_day_it_begins_in_half_hour_zones(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    // Midnight in Kolkata is half past six in the evening. Hours are not kept by halves.
    for (visitor, time) in ["18:10", "18:40", "19:10"].iter().enumerate() {
        fixture.record(&[click(link, november(10, time), visitor as u64)]);
    }
    fixture.store_all().await;
    let kolkata =
        StatsQuery { tz: zone("Asia/Kolkata"), ..StatsQuery::for_subject(RollupSubject::link(MAIN, link)) };
    let answer = fixture.ask(&kolkata).await;
    assert_eq!(answer.series.len(), 30);
    assert_eq!(answer.from.to_string(), "2026-10-17T19:00:00Z");
    assert_eq!(answer.to.to_string(), "2026-11-16T19:00:00Z");
    assert_eq!(
        points(&answer),
        [point("2026-11-09T18:30:00Z", 2, 2, 0), point("2026-11-10T18:30:00Z", 1, 1, 0)]
    );
    // Asked for what was answered, it answers the same.
    let again = StatsQuery { from: Some(answer.from), to: Some(answer.to), ..kolkata.clone() };
    assert_eq!(fixture.ask(&again).await, answer);
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
        let answer = fixture.ask(&StatsQuery { tz: zone(name), interval, ..kolkata.clone() }).await;
        assert_eq!(answer.tz_rounded, rounded, "{name}");
    }
    let before = StatsQuery {
        tz: zone("Australia/Lord_Howe"),
        from: Some(moment("2026-10-01")),
        to: Some(moment("2026-11-01")),
        ..kolkata
    };
    assert!(fixture.ask(&before).await.tz_rounded);
    fixture.close().await;
}

async fn default_range_is_the_last_thirty_days(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    fixture.record(&[
        click(link, moment("2026-10-17T23:59:59Z"), 1),
        click(link, moment("2026-10-18T00:00:00Z"), 1),
        click(link, november(16, "11:59"), 1),
    ]);
    fixture.store_all().await;
    let question = StatsQuery::for_subject(RollupSubject::link(MAIN, link));
    let answer = fixture.ask(&question).await;
    assert_eq!((answer.from, answer.to), (moment("2026-10-18"), moment("2026-11-17")));
    assert_eq!(answer.series.len(), 30);
    assert_eq!(answer.total, sum(2, 2, 0));
    assert_eq!(answer.days, day_of(moment("2026-10-18"))..day_of(moment("2026-11-17")));
    // One end gives the other, by the calendar of the zone.
    let tz = zone("Europe/Berlin");
    let to = StatsQuery { to: Some(tz.moment("2026-11-10").unwrap()), tz: tz.clone(), ..question.clone() };
    let answer = fixture.ask(&to).await;
    assert_eq!((answer.from, answer.to), (moment("2026-10-10T22:00:00Z"), moment("2026-11-09T23:00:00Z")));
    assert_eq!(answer.series.len(), 30);
    // Without an end it is until today, however long that is.
    let from = StatsQuery { from: Some(tz.moment("2026-03-11").unwrap()), tz, ..question.clone() };
    let answer = fixture.ask(&from).await;
    assert_eq!((answer.to, answer.series.len()), (moment("2026-11-16T23:00:00Z"), 251));
    let ahead = StatsQuery { from: Some(moment("2026-11-17")), ..question.clone() };
    assert_eq!(fixture.refusal(&ahead).await, ("from".to_owned(), FieldCode::TooShort));
    // Today ends where it ends in the zone; and the last thirty days are exact in every zone.
    for (name, to) in [
        ("Pacific/Kiritimati", "2026-11-17T10:00:00Z"),
        ("Etc/GMT+12", "2026-11-17T12:00:00Z"),
        ("America/New_York", "2026-11-17T05:00:00Z"),
    ] {
        let answer = fixture.ask(&StatsQuery { tz: zone(name), ..question.clone() }).await;
        assert_eq!(answer.to, moment(to), "{name}");
        assert_eq!((answer.series.len(), answer.tz_exact_from), (30, None), "{name}");
    }
    fixture.close().await;
}

async fn weeks_begin_on_monday_and_months_on_the_first(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    // 1 November was a Sunday.
    for time in
        ["2026-10-31T12:00:00Z", "2026-11-01T23:59:59Z", "2026-11-02T00:00:00Z", "2026-11-09T01:00:00Z"]
    {
        fixture.record(&[click(link, moment(time), 1)]);
    }
    fixture.store_all().await;
    let days = about(link, "2026-10-28", "2026-11-16");
    let weeks = fixture.ask(&StatsQuery { interval: Interval::Week, ..days.clone() }).await;
    assert_eq!(weeks.series.len(), 3);
    assert_eq!(
        points(&weeks),
        [
            point("2026-10-26T00:00:00Z", 2, 2, 0),
            point("2026-11-02T00:00:00Z", 1, 1, 0),
            point("2026-11-09T00:00:00Z", 1, 1, 0),
        ]
    );
    let months = fixture.ask(&StatsQuery { interval: Interval::Month, ..days.clone() }).await;
    assert_eq!(
        points(&months),
        [point("2026-10-01T00:00:00Z", 1, 1, 0), point("2026-11-01T00:00:00Z", 3, 3, 0)]
    );
    assert_eq!(months.from, moment("2026-10-28"));
    // In Auckland, thirteen hours ahead, the click of Saturday noon is one of Sunday, 1 November.
    let months = StatsQuery { interval: Interval::Month, tz: zone("Pacific/Auckland"), ..days };
    assert_eq!(points(&fixture.ask(&months).await), [point("2026-10-31T11:00:00Z", 4, 4, 0)]);
    fixture.close().await;
}

async fn range_within_a_day_counts_whole_hours(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    fixture.record(&[
        click(link, november(10, "08:00"), 1),
        click(link, november(10, "10:59"), 1),
        click(link, november(10, "11:00"), 1),
        click(link, november(10, "11:30"), 2),
        click(link, november(10, "12:00"), 3),
    ]);
    fixture.store_all().await;
    // Outward to whole hours. Visitor 1 came before, and was there.
    let question = about(link, "2026-11-10T10:30:00Z", "2026-11-10T11:00:00.001Z");
    let answer = fixture.ask(&question).await;
    assert_eq!((answer.from, answer.to), (november(10, "10:00"), november(10, "12:00")));
    assert_eq!(answer.total, sum(3, 2, 0));
    assert_eq!(points(&answer), [point("2026-11-10T00:00:00Z", 3, 2, 0)]);
    assert_eq!(answer.breakdown_from, Some(november(10, "00:00")));
    assert_eq!(answer.breakdown_to, Some(november(11, "00:00")));
    let hourly = fixture.ask(&StatsQuery { interval: Interval::Hour, ..question }).await;
    assert_eq!(hourly.total, sum(3, 2, 0));
    assert_eq!(
        points(&hourly),
        [point("2026-11-10T10:00:00Z", 1, 1, 0), point("2026-11-10T11:00:00Z", 2, 2, 0)]
    );
    let two_days = fixture.ask(&about(link, "2026-11-09T11:00:00Z", "2026-11-10T11:00:00Z")).await;
    assert_eq!(two_days.total, sum(2, 1, 0));
    assert_eq!(two_days.series.len(), 2);
    fixture.close().await;
}

async fn days_without_hourly_data_count_at_their_utc_start(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    for time in
        ["2026-08-31T23:30:00Z", "2026-09-15T05:00:00Z", "2026-09-30T22:30:00Z", "2026-10-17T23:30:00Z"]
    {
        fixture.record(&[click(link, moment(time), 1)]);
    }
    fixture.store_all().await;
    let exact = now().plus_ms(-HOURLY_DAYS * DAY_MS);
    assert_eq!(exact.day(), "20261017");
    let utc = about(link, "2026-09-01", "2026-10-01");
    let answer = fixture.ask(&utc).await;
    assert_eq!((answer.total, answer.tz_exact_from), (sum(2, 2, 0), None));

    // In Berlin, September began at 22:00 on 31 August. But hours are not known: a UTC day counts where it begins.
    let berlin = StatsQuery {
        tz: zone("Europe/Berlin"),
        ..about(link, "2026-08-31T22:00:00Z", "2026-09-30T22:00:00Z")
    };
    let answer = fixture.ask(&berlin).await;
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
    let whole = StatsQuery { to: Some(november(1, "23:00")), ..berlin };
    let answer = fixture.ask(&whole).await;
    assert_eq!(answer.total, sum(3, 3, 0));
    assert_eq!(points(&answer).last(), Some(&point("2026-10-17T22:00:00Z", 1, 1, 0)));
    // Hour by hour an old day stands at its first.
    let hourly = fixture.ask(&StatsQuery { interval: Interval::Hour, ..utc }).await;
    assert_eq!(hourly.tz_exact_from, Some(moment("2026-10-17")));
    assert_eq!(
        points(&hourly),
        [point("2026-09-15T00:00:00Z", 1, 1, 0), point("2026-09-30T00:00:00Z", 1, 1, 0)]
    );
    // Of a part of an old day the day is known.
    let part = fixture.ask(&about(link, "2026-09-15T10:00:00Z", "2026-09-15T12:00:00Z")).await;
    assert_eq!((part.total, part.tz_exact_from), (sum(1, 1, 0), Some(moment("2026-10-17"))));
    assert_eq!(points(&part), [point("2026-09-15T00:00:00Z", 1, 1, 0)]);
    // Adjoining ranges share nothing and lose nothing.
    for cut in
        ["2026-09-15T00:00:00Z", "2026-09-15T01:00:00Z", "2026-09-15T23:00:00Z", "2026-09-16T00:00:00Z"]
    {
        let before = fixture.ask(&about(link, "2026-09-10T07:00:00Z", cut)).await;
        let after = fixture.ask(&about(link, cut, "2026-09-20T07:00:00Z")).await;
        assert_eq!(before.total.clicks + after.total.clicks, 1, "{cut}");
    }
    fixture.close().await;
}

async fn months_without_daily_data_count_on_their_first_day(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    for time in ["2025-08-05", "2025-08-20", "2025-09-10", "2025-09-20", "2025-09-30", "2025-10-05"] {
        fixture.record(&[click(link, moment(time), 1), bot(link, moment(time))]);
    }
    fixture.store_all().await;
    let every_day = fixture.ask(&about(link, "2025-08-01", "2025-11-01")).await;
    let kept = day_of(moment("2025-09-20"));
    let forgetful = StatsQuery { days_kept_from: Some(kept), ..about(link, "2025-08-01", "2025-11-01") };
    let answer = fixture.ask(&forgetful).await;
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
    let months = fixture.ask(&StatsQuery { interval: Interval::Month, ..forgetful.clone() }).await;
    let all = StatsQuery { days_kept_from: None, interval: Interval::Month, ..forgetful.clone() };
    assert_eq!(months.series, fixture.ask(&all).await.series);
    // A range that ends before the days that are kept, one that begins inside of a month, and one of kept days alone.
    for (from, to, clicks) in [
        ("2025-09-01", "2025-09-15", 1),
        ("2025-08-15", "2025-09-15", 1),
        ("2025-08-15", "2025-09-01", 0),
        ("2025-09-02", "2025-09-25", 1),
        ("2025-09-20", "2025-10-01", 2),
        ("2025-08-01", "2025-08-02", 2),
    ] {
        let part = StatsQuery { from: Some(moment(from)), to: Some(moment(to)), ..forgetful.clone() };
        let answer = fixture.ask(&part).await;
        assert_eq!(answer.total.clicks, clicks, "{from} {to}");
        assert_eq!(answer.series.iter().map(|point| point.totals.clicks).sum::<u64>(), clicks, "{from} {to}");
    }
    fixture.close().await;
}
