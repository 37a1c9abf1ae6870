//! The clicks themselves, the newest first, page by page.

use rlinks_clicks::events::Codes;
use rlinks_clicks::journal::entry::JournalEntry;
use rlinks_clicks::time::HOUR_MS;
use rlinks_core::{Id, Timestamp};

use super::november;
use crate::support::clicks::{ClickFixture, MAIN, click, moment};
use crate::support::database::{TestStore, contract};

contract!(
    recent_clicks_are_paged_newest_first,
    clicks_of_several_threads_are_sorted_by_time,
    rare_clicks_among_many_are_found,
);

impl ClickFixture {
    /// All clicks, page by page: their visitors, and how many pages it took.
    async fn pages(&self, link: Option<Id>, limit: usize) -> (Vec<u64>, usize) {
        let mut codes = Codes::new(self.store.reader());
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

async fn recent_clicks_are_paged_newest_first(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let (a, b) = (fixture.link("a").await, fixture.link("b").await);
    for visitor in 0..60_u64 {
        let link = if visitor % 3 == 0 { b } else { a };
        let ts = november(1 + u32::try_from(visitor / 6).unwrap(), "10:00")
            .plus_ms(visitor.cast_signed() * HOUR_MS / 7);
        fixture.record(&[click(link, ts, visitor)]);
        if visitor % 7 == 0 {
            fixture.store_all().await;
        }
    }
    fixture.store_all().await;
    // These come late: the newest by number, among the oldest by time.
    fixture.record(&[
        click(a, november(1, "03:00"), 100),
        click(a, moment("2025-01-01"), 101),
        click(b, moment("2025-01-01"), 102),
    ]);
    fixture.store_all().await;
    let newest = |wanted: fn(u64) -> bool, late: &[u64]| -> Vec<u64> {
        (0..60).rev().filter(|visitor| wanted(*visitor)).chain(late.iter().copied()).collect()
    };
    let of_a = newest(|visitor| visitor % 3 != 0, &[100, 101]);
    let of_b = newest(|visitor| visitor % 3 == 0, &[102]);
    let all = newest(|_| true, &[100, 102, 101]);
    for limit in [1, 7, 100] {
        let pages = |clicks: &[u64]| clicks.len().div_ceil(limit);
        assert_eq!(fixture.pages(Some(a), limit).await, (of_a.clone(), pages(&of_a)));
        assert_eq!(fixture.pages(Some(b), limit).await, (of_b.clone(), pages(&of_b)));
        assert_eq!(fixture.pages(None, limit).await, (all.clone(), pages(&all)));
    }
    // A click that comes meanwhile changes no later page.
    let mut codes = Codes::new(fixture.store.reader());
    let (_, next) = fixture.clicks.recent(MAIN, Some(a), None, 10, &mut codes).await.unwrap();
    fixture.record(&[click(a, november(15, "10:00"), 200)]);
    fixture.store_all().await;
    let (page, _) = fixture.clicks.recent(MAIN, Some(a), next, 10, &mut codes).await.unwrap();
    assert_eq!(page.iter().map(|click| click.visitor.unwrap()).collect::<Vec<_>>(), of_a[10..20]);
    assert_eq!(page[0].code, "a");
    fixture.close().await;
}

async fn clicks_of_several_threads_are_sorted_by_time(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let start = november(10, "10:00");
    // One thread's clicks are stored before another's that came in between, within a batch and over several.
    let mut stored: Vec<u64> = Vec::new();
    for batch in 0..4_u64 {
        for thread in [1, 0] {
            let of_thread = (0..30).map(|n| batch * 55 + n * 2 + thread).filter(|n| !stored.contains(n));
            let of_thread: Vec<u64> = of_thread.collect();
            let clicks: Vec<_> =
                of_thread.iter().map(|n| click(link, start.plus_ms(n.cast_signed()), *n)).collect();
            fixture.record(&clicks);
            stored.extend(of_thread);
            if batch % 2 == 0 {
                fixture.store_all().await;
            }
        }
    }
    fixture.store_all().await;
    stored.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    for limit in [1, 10, 33, 100] {
        let (visitors, _) = fixture.pages(Some(link), limit).await;
        assert_eq!(visitors, stored, "{limit}");
    }
    fixture.close().await;
}

async fn rare_clicks_among_many_are_found(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let (rare, busy) = (fixture.link("rare").await, fixture.link("busy").await);
    let crowd = |from: Timestamp| -> Vec<JournalEntry<'static>> {
        (0..3000).map(|n| click(busy, from.plus_ms(n), 1)).collect()
    };
    // One click in an hour, two in another, five in a third, each among thousands; and one long ago.
    fixture.record(&[click(rare, moment("2025-03-01"), 1)]);
    for (day, clicks) in [(10, 1), (11, 2), (12, 5)] {
        for _ in 0..clicks {
            fixture.record(&crowd(november(day, "10:00")));
            fixture.record(&[click(rare, november(day, "10:30"), u64::from(day))]);
        }
        fixture.record(&crowd(november(day, "10:40")));
        fixture.store_all().await;
    }
    let expected = [12, 12, 12, 12, 12, 11, 11, 10, 1];
    assert_eq!(fixture.pages(Some(rare), 100).await, (expected.to_vec(), 1));
    assert_eq!(fixture.pages(Some(rare), 4).await, (expected.to_vec(), 3));
    // Where hours are kept no longer, days lead there too.
    fixture.forget_hours().await;
    assert_eq!(fixture.pages(Some(rare), 4).await, (expected.to_vec(), 3));
    fixture.close().await;
}

impl ClickFixture {
    async fn forget_hours(&self) {
        use rlinks_store::database::pool::Pool;
        let sql = "delete from hours";
        match self.clicks.pool() {
            Pool::Sqlite { writer, .. } => drop(sqlx::query(sql).execute(writer).await.unwrap()),
            Pool::Postgres(pool) => drop(sqlx::query(sql).execute(pool).await.unwrap()),
        }
    }
}
