//! What the rollups answer.

mod calendar;
mod raw;
mod recent;

use rlinks_clicks::events::Codes;
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{
    Bots, Interval, MAX_POINTS, Point, Statistics, StatsError, StatsQuery, Totals, Zone,
};
use rlinks_clicks::time::{HOUR_MS, day_of};
use rlinks_core::{Actor, FieldCode, Id, Timestamp};
use serde_json::json;

use crate::support::clicks::{ClickFixture, GOOGLEBOT, IPHONE, MAIN, click, moment};
use crate::support::database::{TestStore, contract};
use crate::support::rollups::{change, recompute_at};

contract!(
    statistics_match_the_documented_json,
    bots_are_counted_separately,
    unclicked_link_has_a_series_of_zeros,
    invalid_ranges_are_rejected,
    late_clicks_count_like_timely_ones,
    changed_month_is_not_served_from_the_cache,
    top_links_are_ranked_within_the_range,
    totals_cover_all_time,
    values_beyond_the_name_limit_are_counted_as_other,
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

fn about(link: Id, from: &str, to: &str) -> StatsQuery {
    let question = StatsQuery::for_subject(RollupSubject::link(MAIN, link));
    StatsQuery { from: Some(moment(from)), to: Some(moment(to)), ..question }
}

impl ClickFixture {
    async fn ask(&self, question: &StatsQuery) -> Statistics {
        self.clicks.statistics(question, now()).await.unwrap()
    }

    async fn refusal(&self, question: &StatsQuery) -> (String, FieldCode) {
        match self.clicks.statistics(question, now()).await {
            Err(StatsError::InvalidQuery(error)) => (error.field, error.code),
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
    let something = |point: &&Point| point.totals != Totals::default();
    let shown = |point: &Point| {
        (point.start.to_string(), point.totals.clicks, point.totals.visitors, point.totals.bots)
    };
    answer.series.iter().filter(something).map(shown).collect()
}

fn point(start: &str, clicks: u64, visitors: u64, bots: u64) -> (String, u64, u64, u64) {
    (start.to_owned(), clicks, visitors, bots)
}

fn sum(clicks: u64, visitors: u64, bots: u64) -> Totals {
    Totals { clicks, visitors, bots }
}

fn bot(link: Id, ts: Timestamp) -> JournalEntry<'static> {
    JournalEntry { bot: true, agent: UserAgentBytes::Raw(GOOGLEBOT), ua_hash: 2, ..click(link, ts, 99) }
}

// ---- the contract ----

async fn statistics_match_the_documented_json(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    for minute in 0..5 {
        let ts = november(15, &format!("10:{minute:02}"));
        fixture.record(&[JournalEntry {
            country: Some(*b"DE"),
            referrer: b"https://www.news.example/today",
            utm_campaign: "autumn",
            ..click(link, ts, 1)
        }]);
    }
    for hour in ["03", "12", "23"] {
        let agent = UserAgentBytes::Raw(IPHONE);
        let ts = november(15, &format!("{hour}:30"));
        fixture.record(&[JournalEntry { agent, ua_hash: 3, country: Some(*b"FR"), ..click(link, ts, 2) }]);
        fixture.store_all().await;
    }
    let answer = fixture.ask(&about(link, "2026-11-15", "2026-11-17")).await;
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

    let hourly = StatsQuery { interval: Interval::Hour, ..about(link, "2026-11-15", "2026-11-16") };
    let answer = fixture.ask(&hourly).await;
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
    fixture.close().await;
}

async fn bots_are_counted_separately(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let referrer = "https://a.example/";
    fixture.record(&[
        JournalEntry { referrer: referrer.as_bytes(), ..click(link, november(10, "10:00"), 1) },
        JournalEntry { referrer: referrer.as_bytes(), ..bot(link, november(10, "10:00")) },
        JournalEntry { referrer: b"https://b.example/", ..bot(link, november(10, "11:00")) },
        bot(link, november(11, "10:00")),
    ]);
    fixture.store_all().await;
    let people = about(link, "2026-11-10", "2026-11-12");
    let answer = fixture.ask(&people).await;
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
    let all = fixture.ask(&StatsQuery { bots: Bots::Include, ..people.clone() }).await;
    assert_eq!(all.total, sum(4, 1, 3));
    assert_eq!(
        points(&all),
        [point("2026-11-10T00:00:00Z", 3, 1, 2), point("2026-11-11T00:00:00Z", 1, 0, 1)]
    );
    assert_eq!(shown(&all.referrers), [("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
    assert_eq!(shown(&all.devices), [("bot".to_owned(), 3), ("desktop".to_owned(), 1)]);
    // By the hours it is the same.
    let berlin = StatsQuery { bots: Bots::Include, tz: zone("Europe/Berlin"), ..people };
    assert_eq!(fixture.ask(&berlin).await.total, sum(4, 1, 3));
    fixture.close().await;
}

async fn unclicked_link_has_a_series_of_zeros(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let other = fixture.link("b").await;
    fixture.record(&[click(other, november(10, "10:00"), 1)]);
    fixture.store_all().await;
    for tz in ["UTC", "Asia/Tokyo"] {
        for interval in [Interval::Hour, Interval::Day, Interval::Week, Interval::Month] {
            let question = StatsQuery { interval, tz: zone(tz), ..about(link, "2026-11-01", "2026-11-15") };
            let answer = fixture.ask(&question).await;
            assert_eq!(answer.total, Totals::default());
            assert_eq!(points(&answer), []);
            assert!(!answer.series.is_empty());
            assert!(answer.referrers.is_empty() && answer.devices.is_empty());
        }
    }
    // A link of another workspace is nobody's.
    let stranger = StatsQuery::for_subject(RollupSubject::link(Id::from_i64(2), other));
    assert_eq!(fixture.ask(&stranger).await.devices, []);
    let mut codes = Codes::new(fixture.store.reader());
    assert_eq!(fixture.clicks.recent(MAIN, Some(link), None, 10, &mut codes).await.unwrap(), (vec![], None));
    assert_eq!(
        fixture.clicks.recent(Id::from_i64(2), Some(other), None, 10, &mut codes).await.unwrap(),
        (vec![], None)
    );
    fixture.close().await;
}

async fn invalid_ranges_are_rejected(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let refused = |from, to| about(link, from, to);
    for question in [refused("2026-11-10", "2026-11-10"), refused("2026-11-11", "2026-11-10")] {
        assert_eq!(fixture.refusal(&question).await, ("from".to_owned(), FieldCode::TooShort));
    }
    let to = StatsQuery { from: None, ..about(link, "1970-01-01", "1970-01-01") };
    assert_eq!(fixture.refusal(&to).await, ("to".to_owned(), FieldCode::TooShort));
    let from = StatsQuery { to: None, ..about(link, "9999-12-31T23:59:59.999Z", "9999-12-31") };
    assert_eq!(fixture.refusal(&from).await, ("from".to_owned(), FieldCode::TooShort));

    let hours = StatsQuery { interval: Interval::Hour, ..about(link, "2025-01-01", "2026-11-16") };
    assert_eq!(fixture.refusal(&hours).await, ("interval".to_owned(), FieldCode::TooLong));
    let from = moment("2026-11-16").plus_ms(-i64::try_from(MAX_POINTS).unwrap() * HOUR_MS);
    let most = StatsQuery { from: Some(from), ..hours.clone() };
    assert_eq!(fixture.ask(&most).await.series.len(), MAX_POINTS);
    let one_more = StatsQuery { from: Some(from.plus_ms(-1)), ..hours };
    assert_eq!(fixture.refusal(&one_more).await, ("interval".to_owned(), FieldCode::TooLong));
    let ever = about(link, "1970-01-01", "9999-12-31T23:59:59Z");
    for interval in [Interval::Hour, Interval::Day, Interval::Week, Interval::Month] {
        let ever = StatsQuery { interval, tz: zone("Asia/Kolkata"), ..ever.clone() };
        assert_eq!(fixture.refusal(&ever).await, ("interval".to_owned(), FieldCode::TooLong));
    }
    // As long as there are few points, a range may be long, and reach anywhere.
    let months = StatsQuery { interval: Interval::Month, ..about(link, "1970-01-01", "2600-01-01") };
    assert_eq!(fixture.ask(&months).await.series.len(), 630 * 12);
    let end = about(link, "9999-12-01", "9999-12-31T23:59:59.999Z");
    for tz in ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"] {
        assert_eq!(fixture.ask(&StatsQuery { tz: zone(tz), ..end.clone() }).await.total, Totals::default());
    }
    // Days to come have nothing, of a link that was clicked too.
    fixture.record(&[click(link, november(10, "10:00"), 1)]);
    fixture.store_all().await;
    for (from, to) in
        [("2026-11-18", "2026-11-20"), ("2030-01-01", "2030-02-01"), ("9999-12-01", "9999-12-31")]
    {
        for subject in [RollupSubject::link(MAIN, link), RollupSubject::workspace(MAIN)] {
            let to_come = StatsQuery { subject, ..about(link, from, to) };
            let answer = fixture.ask(&to_come).await;
            assert_eq!((answer.total, answer.devices), (Totals::default(), vec![]), "{from}");
        }
    }
    assert_eq!(Zone::parse("Europe/Atlantis"), None);
    assert_eq!(Zone::parse("Etc/Unknown"), None);
    assert_eq!(Interval::parse("year"), None);
    assert_eq!(Bots::parse("include"), Some(Bots::Include));
    fixture.close().await;
}

async fn late_clicks_count_like_timely_ones(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let [late, early] = [fixture.link("late").await, fixture.link("early").await];
    let times = ["21:30", "22:30", "23:30"];
    // One link's clicks are stored from the last to the first, the other's in order.
    for time in times.iter().rev() {
        fixture.record(&[click(late, november(10, time), 1)]);
        fixture.store_all().await;
    }
    for time in times {
        fixture.record(&[click(early, november(10, time), 1)]);
    }
    fixture.store_all().await;
    let berlin = StatsQuery {
        tz: zone("Europe/Berlin"),
        ..about(late, "2026-11-09T23:00:00Z", "2026-11-11T23:00:00Z")
    };
    for interval in [Interval::Hour, Interval::Day, Interval::Week] {
        let late_one = fixture.ask(&StatsQuery { interval, ..berlin.clone() }).await;
        let early_one = fixture
            .ask(&StatsQuery { interval, subject: RollupSubject::link(MAIN, early), ..berlin.clone() })
            .await;
        assert_eq!(late_one, early_one);
        assert_eq!(late_one.total, sum(3, 1, 0));
    }
    assert_eq!(
        points(&fixture.ask(&berlin).await),
        // Midnight in Berlin was 23:00. The visitor arrived before it, and was there after it.
        [point("2026-11-09T23:00:00Z", 2, 1, 0), point("2026-11-10T23:00:00Z", 1, 1, 0)]
    );
    fixture.close().await;
}

async fn changed_month_is_not_served_from_the_cache(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let from = |country: &[u8; 2], ts| JournalEntry { country: Some(*country), ..click(link, ts, 1) };
    fixture.record(&[from(b"DE", november(3, "10:00")), bot(link, moment("2026-10-20T10:00:00Z"))]);
    fixture.store_all().await;
    let year = about(link, "2026-01-01", "2026-12-01");
    let countries = |answer: Statistics| {
        answer.countries.into_iter().map(|country| (country.value, country.clicks)).collect::<Vec<_>>()
    };
    let some = |values: &[(&str, u64)]| {
        values.iter().map(|(value, clicks)| ((*value).to_owned(), *clicks)).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(countries(fixture.ask(&year).await), some(&[("DE", 1)]));
    }
    // A click of last month comes late.
    fixture.record(&[from(b"FR", moment("2026-10-20T11:00:00Z"))]);
    fixture.store_all().await;
    assert_eq!(countries(fixture.ask(&year).await), some(&[("DE", 1), ("FR", 1)]));
    // What was remembered without bots has them all the same.
    let with_bots = fixture.ask(&StatsQuery { bots: Bots::Include, ..year.clone() }).await;
    assert_eq!(with_bots.devices.iter().map(|device| device.clicks).sum::<u64>(), 3);
    // Somebody's damage that no sum shows is seen once it was mended.
    let damage = "update day_values set dimensions = '[{},{\"XX\":[9,0]},{},{},{},{},{}]' where kind = 0";
    change(&fixture.clicks, damage).await;
    fixture.record(&[from(b"FR", moment("2026-10-20T12:00:00Z"))]);
    fixture.store_all().await;
    assert!(countries(fixture.ask(&year).await).contains(&("XX".to_owned(), 18)));
    recompute_at(&fixture, None, now()).await;
    assert_eq!(countries(fixture.ask(&year).await), some(&[("FR", 2), ("DE", 1)]));
    fixture.close().await;
}

async fn top_links_are_ranked_within_the_range(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let mut links = Vec::new();
    for code in ["a", "b", "c", "d"] {
        links.push(fixture.link(code).await);
    }
    let [a, b, c, d] = links[..] else { panic!() };
    fixture.record(&[click(a, november(9, "10:00"), 1), click(a, november(9, "10:00"), 2)]);
    fixture.record(&[click(a, november(10, "10:00"), 1), click(b, november(10, "10:00"), 1)]);
    fixture.record(&[
        click(c, november(11, "10:00"), 1),
        click(c, november(10, "10:00"), 1),
        bot(d, november(10, "10:00")),
    ]);
    fixture.record(&[bot(b, november(10, "11:00")), bot(b, november(10, "12:00"))]);
    fixture.store_all().await;
    let days = day_of(november(10, "00:00"))..day_of(november(12, "00:00"));
    let top = async |days, bots, limit| fixture.clicks.top_links(MAIN, days, bots, limit).await.unwrap();
    assert_eq!(top(days.clone(), Bots::Exclude, 20).await, [(c, 2), (a, 1), (b, 1)]);
    assert_eq!(top(days.clone(), Bots::Include, 20).await, [(b, 3), (c, 2), (a, 1), (d, 1)]);
    assert_eq!(top(days.clone(), Bots::Include, 1).await, [(b, 3)]);
    assert_eq!(top(days.start - 1..days.end, Bots::Exclude, 1).await, [(a, 3)]);
    assert_eq!(top(days.end..days.end + 1, Bots::Include, 20).await, []);
    let whole = fixture.ask(&StatsQuery::for_subject(RollupSubject::workspace(MAIN))).await;
    assert_eq!(whole.total, sum(6, 4, 3));
    fixture.close().await;
}

async fn totals_cover_all_time(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let (link, quiet) = (fixture.link("a").await, fixture.link("b").await);
    let owned = fixture.link_by("c", Actor::from_stored("user:77".to_owned())).await;
    fixture.record(&[
        click(link, moment("2020-01-01"), 1),
        click(link, november(10, "10:00"), 1),
        bot(link, november(11, "10:00")),
        bot(owned, november(9, "10:00")),
    ]);
    fixture.store_all().await;
    let user = RollupSubject::user(MAIN, Id::from_i64(77));
    let (link, owned) = (RollupSubject::link(MAIN, link), RollupSubject::link(MAIN, owned));
    let (quiet, stranger) = (RollupSubject::link(MAIN, quiet), RollupSubject::link(Id::from_i64(2), link.id));
    let totals = fixture.clicks.totals(&[link, quiet, owned, user, stranger]).await.unwrap();
    assert_eq!(totals.len(), 3);
    let of_link = totals[&link];
    assert_eq!((of_link.clicks, of_link.bots), (2, 1));
    assert_eq!(of_link.last_click, Some(november(10, "10:00")));
    assert_eq!(of_link.last_hit, Some(november(11, "10:00")));
    assert_eq!((totals[&owned].clicks, totals[&owned].bots, totals[&owned].last_click), (0, 1, None));
    assert_eq!(totals[&user], totals[&owned]);
    assert!(fixture.clicks.totals(&[]).await.unwrap().is_empty());
    fixture.close().await;
}

async fn values_beyond_the_name_limit_are_counted_as_other(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let hosts: Vec<String> = (0..600).map(|n| format!("https://r{n:03}.example/")).collect();
    for day in [10, 11] {
        let mut records: Vec<_> = hosts
            .iter()
            .map(|referrer| JournalEntry {
                referrer: referrer.as_bytes(),
                ..click(link, november(day, "10:00"), 1)
            })
            .collect();
        // Those that have names gain; so do those that have none.
        for (host, times) in [(0, 3), (7, 2), (550, 4)] {
            let again =
                JournalEntry { referrer: hosts[host].as_bytes(), ..click(link, november(day, "11:00"), 1) };
            records.extend(std::iter::repeat_n(again, times));
        }
        fixture.record(&records);
        fixture.store_all().await;
    }
    let answer = fixture.ask(&about(link, "2026-11-10", "2026-11-12")).await;
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
    fixture.close().await;
}
