//! What is kept how long: raw clicks go by whole days, and no total ever sinks.

use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::retention::{Kept, PruneMode, Pruned};
use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::Dialect;

use crate::support::clicks::{ClickFixture, IPHONE, MAIN, click, moment};
use crate::support::database::{TestStore, contract};
use crate::support::rollups::{change, dump, dump_table, recompute_at};

contract!(
    raw_clicks_are_pruned_by_whole_days_and_totals_kept,
    pruned_days_are_not_recomputed,
    expired_day_rollups_are_not_recreated_or_counted_twice,
    each_workspace_has_its_own_retention,
    dry_run_reports_what_would_be_pruned_and_changes_nothing,
    late_click_is_kept_until_it_has_been_exported,
    user_agent_is_deleted_with_its_last_click,
    visitors_are_deleted_two_days_after_their_day,
    hourly_rollups_are_deleted_after_thirty_days,
    large_prune_runs_in_many_steps,
    event_partitions_are_created_ahead_and_dropped_when_empty,
);

const NOW: &str = "2026-11-13T15:00:00Z";
const OTHER: Id = Id::from_i64(2);

fn raw(days: u32) -> Kept {
    Kept { raw_days: Some(days), daily_days: None }
}

async fn prune(fixture: &ClickFixture, workspaces: &[(Id, Kept)], now: Timestamp) -> Pruned {
    let upto = fixture.clicks.last_event().await.unwrap();
    fixture.clicks.prune(workspaces, upto, now, PruneMode::Delete).await.unwrap()
}

/// A click at noon of each day from the 1st to the 13th, in two workspaces, by another visitor and user agent each day.
async fn two_weeks(fixture: &mut ClickFixture) -> Id {
    let link = fixture.link("a").await;
    for day in 1..=13 {
        let noon = moment(&format!("2026-11-{day:02}T12:00:00Z"));
        let agent = format!("Unheard/{day}.0");
        let of_day = JournalEntry {
            agent: UserAgentBytes::Raw(agent.as_bytes()),
            ua_hash: 100 + day,
            ..click(link, noon, day)
        };
        fixture.record(&[
            of_day,
            of_day,
            JournalEntry { workspace: OTHER, link: Id::from_i64(99), ..of_day },
        ]);
    }
    fixture.store_all_at(moment(NOW)).await;
    link
}

async fn close(fixture: ClickFixture) {
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn raw_clicks_are_pruned_by_whole_days_and_totals_kept(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let midnight = moment("2026-11-10T00:00:00Z");
    fixture.record(&[
        click(link, midnight.plus_ms(-86_400_001), 1),
        click(link, midnight.plus_ms(-1), 1),
        click(link, midnight, 1),
        click(link, moment("2026-11-13T14:00:00Z"), 1),
    ]);
    fixture.store_all_at(moment(NOW)).await;
    let before = dump(&fixture.clicks).await;
    // Three whole days before today are kept: the 10th, 11th and 12th.
    assert_eq!(prune(&fixture, &[(MAIN, raw(4))], moment(NOW)).await.clicks, 1);
    let pruned = prune(&fixture, &[(MAIN, raw(3))], moment(NOW)).await;
    assert_eq!((pruned.clicks, pruned.days, pruned.hours), (1, 0, 0));
    assert_eq!(fixture.count("select count(*) from events").await, 2);
    assert_eq!(fixture.count("select min(ts) from events").await, midnight.ms());
    assert_eq!(fixture.count("select before_day from frozen").await, midnight.ms() / 86_400_000);
    assert_eq!(fixture.count("select min(day) from event_days").await, midnight.ms() / 86_400_000);
    assert_eq!(dump(&fixture.clicks).await, before);
    // Whoever wants to keep more from now on does not get back what is gone.
    assert_eq!(prune(&fixture, &[(MAIN, raw(100))], moment(NOW)).await.clicks, 0);
    assert_eq!(fixture.count("select before_day from frozen").await, midnight.ms() / 86_400_000);
    // Today is always kept.
    assert_eq!(prune(&fixture, &[(MAIN, raw(0))], moment(NOW)).await.clicks, 1);
    assert_eq!(fixture.count("select count(*) from events").await, 1);
    assert_eq!(dump(&fixture.clicks).await, before);
    close(fixture).await;
}

async fn pruned_days_are_not_recomputed(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = two_weeks(&mut fixture).await;
    prune(&fixture, &[(MAIN, raw(3))], moment(NOW)).await;
    // A late click of a day that is frozen counts, and is not kept for long.
    fixture.record(&[click(link, moment("2026-11-05T01:00:00Z"), 77)]);
    fixture.store_all_at(moment(NOW)).await;
    let before = dump(&fixture.clicks).await;
    assert_eq!(fixture.count("select clicks from totals where kind = 0 and workspace_id = 1").await, 27);
    let done = recompute_at(&fixture, None, moment(NOW)).await;
    assert_eq!(done.subjects_changed, 0, "{done:?}");
    assert_eq!(recompute_at(&fixture, Some(MAIN), moment(NOW)).await.days, 4);
    assert_eq!(dump(&fixture.clicks).await, before);
    assert_eq!(prune(&fixture, &[(MAIN, raw(3))], moment(NOW)).await.clicks, 1);
    assert_eq!(recompute_at(&fixture, None, moment(NOW)).await.subjects_changed, 0);
    assert_eq!(dump(&fixture.clicks).await, before);
    // The days after it are.
    change(&fixture.clicks, "delete from day_values").await;
    recompute_at(&fixture, Some(MAIN), moment(NOW)).await;
    assert_eq!(fixture.count("select count(*) from day_values where kind = 0").await, 4);
    close(fixture).await;
}

async fn expired_day_rollups_are_not_recreated_or_counted_twice(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    two_weeks(&mut fixture).await;
    let [months, totals] = [
        ("months", "kind, subject, month, clicks, bots, visitors"),
        ("totals", "kind, subject, clicks, bots, last_click, last_hit"),
    ];
    let sums = async |fixture: &ClickFixture| {
        let mut rows = dump_table(&fixture.clicks, months.0, months.1).await;
        rows.extend(dump_table(&fixture.clicks, totals.0, totals.1).await);
        rows
    };
    let before = sums(&fixture).await;
    // Raw clicks are kept longer than what they add up to, as in `platform`.
    let kept = Kept { raw_days: Some(1000), daily_days: Some(5) };
    let pruned = prune(&fixture, &[(MAIN, kept)], moment(NOW)).await;
    // Seven days of a link and of its workspace.
    assert_eq!((pruned.clicks, pruned.days), (0, 14));
    assert_eq!(fixture.count("select count(*) from days where workspace_id = 1 and kind = 0").await, 6);
    assert_eq!(fixture.count("select count(*) from day_values where workspace_id = 1 and kind = 0").await, 6);
    assert_eq!(fixture.count("select count(*) from days where workspace_id = 2 and kind = 0").await, 13);
    assert_eq!(fixture.count("select count(*) from events").await, 39);
    assert_eq!(sums(&fixture).await, before);
    assert_eq!(recompute_at(&fixture, None, moment(NOW)).await.subjects_changed, 0);
    assert_eq!(sums(&fixture).await, before);
    assert_eq!(fixture.count("select count(*) from days where workspace_id = 1 and kind = 0").await, 6);
    close(fixture).await;
}

async fn each_workspace_has_its_own_retention(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    two_weeks(&mut fixture).await;
    let before = dump(&fixture.clicks).await;
    let pruned = prune(&fixture, &[(MAIN, raw(3)), (OTHER, raw(10))], moment(NOW)).await;
    assert_eq!(pruned.clicks, 2 * 9 + 2);
    assert_eq!(fixture.count("select count(*) from events where workspace_id = 1").await, 8);
    assert_eq!(fixture.count("select count(*) from events where workspace_id = 2").await, 11);
    // Days of which an event is left can still be found.
    assert_eq!(fixture.count("select count(*) from event_days").await, 11);
    assert_eq!(dump(&fixture.clicks).await, before);
    // For ever is for ever.
    assert_eq!(prune(&fixture, &[(MAIN, raw(3)), (OTHER, Kept::default())], moment(NOW)).await.clicks, 0);
    assert_eq!(recompute_at(&fixture, None, moment(NOW)).await.subjects_changed, 0);
    assert_eq!(dump(&fixture.clicks).await, before);
    close(fixture).await;
}

async fn dry_run_reports_what_would_be_pruned_and_changes_nothing(test_store: TestStore) {
    async fn all(fixture: &ClickFixture) -> Vec<String> {
        let mut rows = dump(&fixture.clicks).await;
        for (table, columns) in [
            ("events", "n, ts, link_id, workspace_id"),
            ("event_days", "day, first_event, last_event"),
            ("agents", "id, user_agent, last_day"),
            ("seen", "day, kind, subject, visitor, hours"),
            ("frozen", "workspace_id, before_day"),
        ] {
            rows.extend(dump_table(&fixture.clicks, table, columns).await);
        }
        rows
    }
    let mut fixture = ClickFixture::new(test_store).await;
    two_weeks(&mut fixture).await;
    let before = all(&fixture).await;
    let kept = [(MAIN, Kept { raw_days: Some(3), daily_days: Some(5) }), (OTHER, raw(1))];
    let upto = fixture.clicks.last_event().await.unwrap();
    let now = moment("2026-12-03T00:00:00Z");
    let said = fixture.clicks.prune(&kept, upto, now, PruneMode::DryRun).await.unwrap();
    assert_eq!(all(&fixture).await, before);
    assert!(said.clicks > 0 && said.days > 0 && said.hours > 0 && said.seen > 0, "{said:?}");
    let done = fixture.clicks.prune(&kept, upto, now, PruneMode::Delete).await.unwrap();
    assert_eq!(Pruned { agents: 0, partitions: 0, ..done }, said);
    assert_ne!(all(&fixture).await, before);
    close(fixture).await;
}

async fn late_click_is_kept_until_it_has_been_exported(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = two_weeks(&mut fixture).await;
    let now = moment(NOW);
    let upto = fixture.clicks.last_event().await.unwrap();
    assert_eq!(fixture.clicks.prunable(MAIN, Kept::default(), upto, now).await.unwrap(), None);
    assert_eq!(fixture.clicks.prunable(MAIN, raw(12), upto, now).await.unwrap(), None);
    assert_eq!(fixture.clicks.prunable(Id::from_i64(3), raw(1), upto, now).await.unwrap(), None);
    let due = fixture.clicks.prunable(MAIN, raw(3), upto, now).await.unwrap().unwrap();
    assert_eq!(due.clicks, 18);
    assert_eq!(due.during, moment("2026-11-01T00:00:00Z")..moment("2026-11-10T00:00:00Z"));
    let filter = EventFilter { workspace: MAIN, link: None, during: due.during.clone() };
    let mut codes = Codes::new(fixture.store.reader());
    let span = due.upto - due.after;
    let (exported, _) = fixture.clicks.events_after(&filter, due.after, span, &mut codes).await.unwrap();
    assert_eq!(exported.len(), 18);
    // Now one more turns up that nobody has exported.
    fixture.record(&[click(link, moment("2026-11-04T01:00:00Z"), 77)]);
    fixture.store_all_at(now).await;
    let pruned = fixture.clicks.prune(&[(MAIN, raw(3))], upto, now, PruneMode::Delete).await.unwrap();
    assert_eq!(pruned.clicks, 18);
    assert_eq!(fixture.count("select count(*) from events where workspace_id = 1 and visitor = 77").await, 1);
    let upto = fixture.clicks.last_event().await.unwrap();
    assert_eq!(fixture.clicks.prunable(MAIN, raw(3), upto, now).await.unwrap().unwrap().clicks, 1);
    assert_eq!(prune(&fixture, &[(MAIN, raw(3))], now).await.clicks, 1);
    assert_eq!(fixture.clicks.prunable(MAIN, raw(3), upto, now).await.unwrap(), None);
    close(fixture).await;
}

async fn user_agent_is_deleted_with_its_last_click(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = two_weeks(&mut fixture).await;
    let phone =
        JournalEntry { agent: UserAgentBytes::Raw(IPHONE), ua_hash: 2, ..click(link, moment(NOW), 9) };
    // Named on the 2nd and today.
    fixture.record(&[JournalEntry { ts: moment("2026-11-02T01:00:00Z"), ..phone }, phone]);
    fixture.store_all_at(moment(NOW)).await;
    assert_eq!(prune(&fixture, &[(MAIN, raw(3))], moment(NOW)).await.agents, 0);
    let pruned = prune(&fixture, &[(OTHER, raw(0))], moment(NOW)).await;
    // The clicks of the 10th and later name theirs.
    assert_eq!(pruned.agents, 9);
    let texts = "select count(*) from agents where user_agent like 'Unheard/%'";
    assert_eq!(fixture.count(texts).await, 4);
    assert_eq!(fixture.count("select count(*) from agents where user_agent = 'Unheard/9.0'").await, 0);
    assert_eq!(fixture.count("select count(*) from agents where user_agent = 'Unheard/10.0'").await, 1);
    // One of yesterday may be in a batch on its way, whether a stored click names it or not.
    let pruned = prune(&fixture, &[(MAIN, raw(0))], moment(NOW)).await;
    assert_eq!((pruned.clicks, pruned.agents), (6, 1));
    let lost = "select count(*) from events where agent not in (select id from agents)";
    assert_eq!(fixture.count(lost).await, 0);
    assert_eq!(recompute_at(&fixture, None, moment(NOW)).await.subjects_changed, 0);
    close(fixture).await;
}

async fn visitors_are_deleted_two_days_after_their_day(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    fixture.record(&[
        click(link, moment("2026-11-10T23:00:00Z"), 1),
        click(link, moment("2026-11-11T00:00:00Z"), 1),
    ]);
    fixture.store_all_at(moment(NOW)).await;
    assert_eq!(fixture.clicks.forget_seen(moment("2026-11-13T00:00:00Z")).await.unwrap(), 0);
    assert_eq!(fixture.clicks.forget_seen(moment("2026-11-13T00:00:00.001Z")).await.unwrap(), 2);
    assert_eq!(fixture.count("select count(*) from seen").await, 2);
    close(fixture).await;
}

async fn hourly_rollups_are_deleted_after_thirty_days(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    two_weeks(&mut fixture).await;
    assert_eq!(prune(&fixture, &[], moment("2026-12-01T23:59:59Z")).await.hours, 0);
    // Of two links and two workspaces.
    assert_eq!(prune(&fixture, &[], moment("2026-12-02T00:00:00Z")).await.hours, 4);
    assert_eq!(fixture.count("select count(*) from hours").await, 4 * 12);
    assert_eq!(fixture.count("select count(*) from days").await, 4 * 13);
    assert_eq!(recompute_at(&fixture, None, moment("2026-12-02T00:00:00Z")).await.subjects_changed, 0);
    close(fixture).await;
}

async fn large_prune_runs_in_many_steps(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let start = moment("2026-11-01T00:00:00Z");
    for nth in 0..12_000_u32 {
        let ts = start.plus_ms(i64::from(nth) * 60_000);
        let workspace = if nth % 3 == 0 { OTHER } else { MAIN };
        // Hours of many subjects, so that they take several pages.
        let link = if nth % 3 == 0 { Id::from_i64(1000 + i64::from(nth)) } else { link };
        fixture.record(&[JournalEntry { workspace, ..click(link, ts, u64::from(nth)) }]);
    }
    fixture.store_all_at(moment(NOW)).await;
    let totals = "select cast(sum(clicks) as bigint) from totals where kind = 1";
    assert_eq!(fixture.count(totals).await, 12_000);
    let days = Kept { raw_days: Some(5), daily_days: Some(5) };
    let pruned = prune(&fixture, &[(MAIN, days), (OTHER, days)], moment(NOW)).await;
    // Seven days of 1440 minutes.
    assert_eq!(pruned.clicks, 7 * 1440);
    assert_eq!(pruned.days, 7 * 480 + 7 + 7 + 7);
    assert_eq!(
        fixture.count("select count(*) from days where kind = 0 and workspace_id = 2").await,
        4000 - 7 * 480
    );
    assert_eq!(
        fixture.count("select count(*) from seen").await,
        fixture.count("select count(*) from seen where day >= 20768").await
    );
    assert_eq!(fixture.count(totals).await, 12_000);
    let pruned = prune(&fixture, &[], moment("2026-12-31T00:00:00Z")).await;
    assert!(pruned.hours > 4000, "{pruned:?}");
    assert_eq!(fixture.count("select count(*) from hours").await, 0);
    assert_eq!(fixture.count("select count(*) from seen").await, 0);
    close(fixture).await;
}

async fn event_partitions_are_created_ahead_and_dropped_when_empty(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let postgres = fixture.clicks.dialect() == Dialect::Postgres;
    let link = fixture.link("a").await;
    for _ in 0..2 {
        fixture.clicks.make_partitions(moment("2026-11-13T15:00:00Z")).await.unwrap();
    }
    let months = "select count(*) from pg_class where relkind = 'r' and relname like 'events\\_2%'";
    if postgres {
        assert_eq!(fixture.count(months).await, 3);
    }
    let far = moment("2090-01-01T00:00:00Z");
    fixture.record(&[
        click(link, moment("1971-01-01T00:00:00Z"), 1),
        click(link, moment("2026-11-30T23:59:59.999Z"), 1),
        click(link, moment("2026-12-01T00:00:00Z"), 1),
        click(link, far, 1),
    ]);
    fixture.store_all_at(far).await;
    if postgres {
        assert_eq!(fixture.count("select count(*) from events_2026_11").await, 1);
        assert_eq!(fixture.count("select count(*) from events_2026_12").await, 1);
        assert_eq!(fixture.count("select count(*) from events_other").await, 2);
    }
    assert_eq!(fixture.count("select clicks from totals where kind = 1").await, 4);
    assert_eq!(recompute_at(&fixture, None, far).await.subjects_changed, 0);
    // A month whose rows are elsewhere already cannot be made, and nothing is lost.
    fixture.clicks.make_partitions(moment("2089-12-13T15:00:00Z")).await.unwrap();
    if postgres {
        assert_eq!(fixture.count(months).await, 5);
    }
    assert_eq!(fixture.count("select count(*) from events").await, 4);
    // November goes with its last click, December has one, January is not over.
    let pruned = prune(&fixture, &[(MAIN, raw(1))], moment("2026-12-02T00:00:00Z")).await;
    assert_eq!((pruned.clicks, pruned.partitions), (2, u64::from(postgres)));
    if postgres {
        assert_eq!(fixture.count(months).await, 4);
        assert_eq!(fixture.count("select count(*) from events_2026_12").await, 1);
    }
    // A click of a month that was dropped is kept with the others of no month.
    fixture.record(&[click(link, moment("2026-11-30T01:00:00Z"), 2)]);
    fixture.store_all_at(far).await;
    assert_eq!(fixture.count("select count(*) from events").await, 3);
    assert_eq!(fixture.count("select clicks from totals where kind = 1").await, 5);
    close(fixture).await;
}
