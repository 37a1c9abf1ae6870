//! Counting anew: what is right stays, what is wrong becomes what the clicks say.

use rlinks_clicks::ClickStore;
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::recompute::Recomputed;
use rlinks_clicks::rollup::{RollupSubject, Total};
use rlinks_core::{Actor, Id};
use rlinks_store::database::pool::Dialect;

use crate::support::clicks::{ClickFixture, GOOGLEBOT, IPHONE, MAIN, click, moment};
use crate::support::database::{TestStore, contract};
use crate::support::rollups::{change, dump, recompute_at};

contract!(
    correct_rollups_are_not_rewritten,
    damaged_rollups_are_repaired,
    late_click_of_a_forgotten_visitor_is_counted_as_one_visitor,
    one_workspace_is_recomputed_without_the_others,
    expired_hours_are_not_recreated,
    clicks_stored_during_recompute_are_counted_once,
    external_totals_are_never_changed,
);

const NOW: &str = "2026-11-17T12:00:00Z";
/// The UTC day 2026-11-12.
const DAY: i64 = 20_769;

/// From here on nobody can store anything: whoever writes takes the lock of ingest first.
async fn forbid_writes(clicks: &ClickStore) {
    let sql = match clicks.dialect() {
        Dialect::Sqlite => {
            "create trigger forbidden before update on ingest begin select raise(abort, 'written'); end"
        }
        Dialect::Postgres => {
            "create function forbidden() returns trigger language plpgsql as $$ begin raise exception 'written'; end $$;
             create trigger forbidden before update on ingest for each row execute function forbidden()"
        }
    };
    change(clicks, sql).await;
}

async fn recompute(fixture: &ClickFixture, workspace: Option<Id>) -> Recomputed {
    recompute_at(fixture, workspace, moment(NOW)).await
}

/// Some days of two workspaces: people and bots, owners, late clicks, more referrers than have names.
async fn busy_week(fixture: &mut ClickFixture) -> [Id; 3] {
    let links = [
        fixture.link("a").await,
        fixture.link_by("b", Actor::from_stored("user:77".to_owned())).await,
        fixture.link_by("c", Actor::from_stored("user:78".to_owned())).await,
    ];
    let start = moment("2026-11-10T00:00:00Z");
    for day in 0..6 {
        for nth in 0..40 {
            let ts = start.plus_ms(day * 86_400_000 + nth * 2_000_000);
            let referrer = format!("https://www.site{}.example/path", nth % 7);
            let country = [*b"DE", *b"FR", *b"US"][usize::try_from(nth % 3).unwrap()];
            fixture.record(&[JournalEntry {
                referrer: referrer.as_bytes(),
                country: Some(country),
                utm_campaign: if nth % 5 == 0 { "launch" } else { "" },
                agent: UserAgentBytes::Raw(if nth % 4 == 0 {
                    IPHONE
                } else {
                    crate::support::clicks::FIREFOX
                }),
                ua_hash: if nth % 4 == 0 { 2 } else { 1 },
                ..click(links[usize::try_from(nth % 3).unwrap()], ts, (nth % 11).unsigned_abs())
            }]);
        }
        let noon = start.plus_ms(day * 86_400_000 + 43_200_000);
        fixture.record(&[
            JournalEntry { agent: UserAgentBytes::Raw(GOOGLEBOT), ua_hash: 3, ..click(links[0], noon, 500) },
            JournalEntry { workspace: Id::from_i64(2), ..click(Id::from_i64(99), noon, 1) },
            // Earlier than those stored before: the day's first click of a visitor moves.
            click(links[1], start.plus_ms(day / 2 * 86_400_000 + 100), 5),
        ]);
        fixture.store_all_at(moment(NOW)).await;
    }
    for nth in 0..1200 {
        let referrer = format!("https://r{:03}.example/", (nth * 7) % 600);
        fixture.record(&[JournalEntry {
            referrer: referrer.as_bytes(),
            ..click(links[0], moment("2026-11-13T05:06:07Z"), nth)
        }]);
        if nth % 290 == 0 {
            fixture.store_all_at(moment(NOW)).await;
        }
    }
    fixture.store_all_at(moment(NOW)).await;
    links
}

async fn correct_rollups_are_not_rewritten(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    busy_week(&mut fixture).await;
    let before = dump(&fixture.clicks).await;
    assert!(before.iter().any(|row| row.starts_with("day_values") && row.contains("(other)")));
    assert!(before.iter().any(|row| row.starts_with("totals 2 77 1 ")));
    forbid_writes(&fixture.clicks).await;
    let mut steps = Vec::new();
    let done =
        fixture.clicks.recompute(&fixture.store, None, moment(NOW), |step| steps.push(step)).await.unwrap();
    assert_eq!(done, Recomputed { days: 6, days_changed: 0, subjects_changed: 0 });
    assert_eq!((steps.len(), steps[5].done, steps[5].days), (6, 5, 6));
    assert_eq!(dump(&fixture.clicks).await, before);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn damaged_rollups_are_repaired(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let [a, b, c] = busy_week(&mut fixture).await.map(Id::as_i64);
    let before = dump(&fixture.clicks).await;
    let damage = [
        // What lies beside totals may be anything.
        format!("delete from hours where subject = {a} and hour >= {DAY} * 24 and hour < {DAY} * 24 + 7"),
        format!("update hours set clicks = clicks + 3, arrivals = 0 where subject = {b}"),
        format!("insert into hours values (0, {c}, {DAY} * 24 + 240, 1, 1, 1, 1, 1, 1)"),
        format!("delete from day_values where day = {DAY}"),
        "update day_values set dimensions = 'nonsense' where kind = 2".to_owned(),
        format!("insert into day_values values (0, 1, {DAY}, 5, '[]')"),
        format!("update days set first_event = 1, last_event = 2 where day = {DAY} + 1"),
        // What was counted too often or not at all was so everywhere.
        format!(
            "update days set clicks = clicks + 7, bots = bots + 2 where kind = 1 and subject = 1 and day = {DAY}"
        ),
        "update months set clicks = clicks + 7, bots = bots + 2 where kind = 1 and subject = 1".to_owned(),
        "update totals set clicks = clicks + 7, bots = bots + 2 where kind = 1 and subject = 1".to_owned(),
        "update totals set clicks = clicks - (select sum(d.clicks) from days d where d.kind = 2 and d.subject = 78)
         where kind = 2 and subject = 78"
            .to_owned(),
        "delete from months where kind = 2 and subject = 78".to_owned(),
        "delete from days where kind = 2 and subject = 78".to_owned(),
        // Somebody who was never there.
        format!("insert into days values (2, 1, {DAY} + 90, 4242, 9, 0, 3, 1, 1)"),
        "insert into months values (2, 4242, 685, 9, 0, 3)".to_owned(),
        "insert into totals values (2, 4242, 1, 9, 0, 5, 5)".to_owned(),
        format!("update totals set last_click = null, last_hit = 4 where subject = {a}"),
    ];
    change(&fixture.clicks, &damage.join("; ")).await;
    let damaged = dump(&fixture.clicks).await;
    assert_ne!(damaged, before);
    let done = recompute(&fixture, None).await;
    assert!(done.subjects_changed > 20, "{done:?}");
    let after = dump(&fixture.clicks).await;
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after, before);
    }
    assert_eq!(after, before);
    assert_eq!(recompute(&fixture, None).await.subjects_changed, 0);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn late_click_of_a_forgotten_visitor_is_counted_as_one_visitor(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    fixture.record(&[click(link, moment("2026-11-12T10:00:00Z"), 1)]);
    fixture.store_all_at(moment(NOW)).await;
    assert_eq!(fixture.clicks.forget_seen(moment(NOW)).await.unwrap(), 2);
    fixture.record(&[click(link, moment("2026-11-12T08:00:00Z"), 1)]);
    fixture.store_all_at(moment(NOW)).await;
    assert_eq!(fixture.count("select visitors from days where kind = 0").await, 2);
    // The link and the workspace.
    assert_eq!(recompute(&fixture, None).await, Recomputed { days: 1, days_changed: 1, subjects_changed: 2 });
    assert_eq!(fixture.count("select visitors from days where kind = 0").await, 1);
    assert_eq!(fixture.count("select visitors from months where kind = 1").await, 1);
    assert_eq!(fixture.count("select cast(sum(arrivals) as bigint) from hours where kind = 0").await, 1);
    assert_eq!(fixture.count("select hour - 20769 * 24 from hours where kind = 0 and arrivals = 1").await, 8);
    assert_eq!(fixture.count("select clicks from totals where kind = 0").await, 2);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn one_workspace_is_recomputed_without_the_others(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    busy_week(&mut fixture).await;
    let before = dump(&fixture.clicks).await;
    change(&fixture.clicks, "delete from day_values").await;
    assert!(recompute(&fixture, Some(MAIN)).await.subjects_changed > 0);
    assert_eq!(fixture.count("select count(*) from day_values where workspace_id = 2").await, 0);
    assert_eq!(recompute(&fixture, Some(Id::from_i64(2))).await.days_changed, 6);
    assert_eq!(dump(&fixture.clicks).await, before);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn expired_hours_are_not_recreated(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    busy_week(&mut fixture).await;
    // 2026-11-10 is 30 days ago and is kept; at midnight it is not.
    let (kept, over) = (moment("2026-12-10T23:59:59Z"), moment("2026-12-11T00:00:00Z"));
    let before = dump(&fixture.clicks).await;
    change(&fixture.clicks, "delete from hours").await;
    recompute_at(&fixture, None, kept).await;
    assert_eq!(dump(&fixture.clicks).await, before);
    change(&fixture.clicks, "delete from hours; delete from day_values").await;
    recompute_at(&fixture, None, over).await;
    assert_eq!(fixture.count("select min(hour) from hours").await, (DAY - 1) * 24);
    assert_eq!(fixture.count("select min(day) from day_values").await, DAY - 2);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn clicks_stored_during_recompute_are_counted_once(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store.clone()).await;
    busy_week(&mut fixture).await;
    let link = fixture.link_by("d", Actor::from_stored("user:79".to_owned())).await;
    // Another process.
    let (store, clicks) = (test_store.open().await, ClickStore::open(&test_store.location).await.unwrap());
    let stored_before = fixture.count("select count(*) from events").await;
    let storing = async {
        for nth in 0..60 {
            for minute in 0..20 {
                let ts = moment("2026-11-12T09:00:00Z").plus_ms(nth * 600_000 + minute * 60_000);
                fixture.record(&[click(link, ts, (nth * 7 + minute).unsigned_abs() % 100)]);
            }
            fixture.store_all_at(moment(NOW)).await;
        }
        fixture
    };
    let recomputing = async {
        let mut changed = 0;
        for _ in 0..6 {
            let damage = format!(
                "update hours set clicks = clicks + 1, arrivals = 0 where hour >= {DAY} * 24;
                 update days set visitors = visitors + 5, clicks = clicks + 3 where kind <> 0 and day = {DAY};
                 update months set visitors = visitors + 5, clicks = clicks + 3 where kind <> 0 and exists (
                     select 1 from days d where d.kind = months.kind and d.day = {DAY} and d.subject = months.subject);
                 update totals set clicks = clicks + 3 where kind <> 0 and exists (
                     select 1 from days d where d.kind = totals.kind and d.day = {DAY} and d.subject = totals.subject);
                 delete from day_values where day = {DAY}"
            );
            // As ingest would: after whoever stores.
            change(&clicks, &format!("update ingest set next_event = next_event; {damage}")).await;
            changed += clicks.recompute(&store, None, moment(NOW), |_| ()).await.unwrap().subjects_changed;
        }
        changed
    };
    let (fixture, changed) = tokio::join!(storing, recomputing);
    assert!(changed > 6);
    // As if nothing had ever been wrong.
    assert_eq!(recompute(&fixture, None).await.subjects_changed, 0);
    assert_eq!(fixture.count("select count(*) from events").await, stored_before + 1200);
    let counted = "select cast(sum(clicks + bots) as bigint) from totals where kind = 1";
    assert_eq!(fixture.count(counted).await, stored_before + 1200);
    let counted = "select cast(sum(clicks + bots) as bigint) from months where kind = 0";
    assert_eq!(fixture.count(counted).await, stored_before + 1200);
    assert_eq!(fixture.count("select clicks from totals where kind = 2 and subject = 79").await, 1200);
    assert_eq!(fixture.count("select visitors from months where kind = 2 and subject = 79").await, 100);
    clicks.close().await;
    store.close().await;
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn external_totals_are_never_changed(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let [a, b, _] = busy_week(&mut fixture).await;
    let subjects = [RollupSubject::link(MAIN, a), RollupSubject::link(MAIN, b)];
    let before = fixture.clicks.totals(&subjects).await.unwrap();
    let elsewhere = Total { clicks: 1_000, bots: 7, last_click: None, last_hit: Some(moment("2020-01-01")) };
    // However often it is said, it is counted once; and what is said last counts.
    for clicks in [500, 1_000, 1_000] {
        let said = Total { clicks, ..elsewhere };
        fixture.clicks.set_external_totals(MAIN, &[(a, said), (b, elsewhere)]).await.unwrap();
    }
    let with = |subject| Total {
        clicks: before[&subject].clicks + 1_000,
        bots: before[&subject].bots + 7,
        ..before[&subject]
    };
    let expected = subjects.map(with);
    let now = fixture.clicks.totals(&subjects).await.unwrap();
    assert_eq!(subjects.map(|subject| now[&subject]), expected);
    // Wrong days are put right, and the totals with them, but for what came from elsewhere.
    let id = a.as_i64();
    change(
        &fixture.clicks,
        &format!(
            "update days set clicks = clicks + 9 where kind = 0 and subject = {id} and day = {DAY};
             update months set clicks = clicks + 9 where kind = 0 and subject = {id};
             update totals set clicks = clicks + 9 where kind = 0 and subject = {id}"
        ),
    )
    .await;
    assert!(recompute(&fixture, None).await.subjects_changed > 0);
    let now = fixture.clicks.totals(&subjects).await.unwrap();
    assert_eq!(subjects.map(|subject| now[&subject]), expected);
    // A link that did not come to be leaves nothing.
    let nobody = Id::from_i64(4_242);
    fixture.clicks.set_external_totals(MAIN, &[(nobody, elsewhere)]).await.unwrap();
    fixture.clicks.remove_external_totals(&[nobody]).await.unwrap();
    assert_eq!(fixture.count("select count(*) from totals where subject = 4242").await, 0);
    assert_eq!(fixture.count("select count(*) from imported").await, 2);
    fixture.clicks.close().await;
    fixture.store.close().await;
}
