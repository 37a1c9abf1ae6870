//! Links in the order of their clicks, and their totals.

use rlinks_clicks::ClickStore;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_core::Id;
use rlinks_store::Order;

use crate::support::clicks::{ClickFixture, MAIN, click};
use crate::support::database::{TestStore, at, contract, on_postgres};
use crate::support::rollups::change;

contract!(links_sorted_by_clicks_are_paged_completely);

async fn links_sorted_by_clicks_are_paged_completely(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let mut counted: Vec<(u64, Id)> = Vec::new();
    for number in 0..23 {
        let link = fixture.link(&format!("link-{number}")).await;
        let clicks = number % 5;
        for visitor in 0..clicks {
            fixture.record(&[click(link, at(i64::try_from(visitor).unwrap()), visitor + 1)]);
        }
        // A bot alone gives a row without clicks.
        let mut bot = click(link, at(9), 9);
        bot.bot = true;
        fixture.record(&[bot]);
        if clicks > 0 {
            counted.push((clicks, link));
        }
    }
    fixture.store_all().await;
    counted.sort_unstable();
    for order in [Order::Asc, Order::Desc] {
        for limit in [1, 4, 100] {
            let (mut read, mut after) = (Vec::new(), None);
            loop {
                let page = fixture.clicks.links_by_clicks(MAIN, order, after, limit).await.unwrap();
                let Some((link, total)) = page.last() else { break };
                assert!(i64::try_from(page.len()).unwrap() <= limit);
                after = Some((total.clicks.cast_unsigned(), *link));
                read.extend(page);
            }
            for (_, total) in &read {
                assert_eq!((total.last_click, total.last_hit), (Some(at(total.clicks - 1)), Some(at(9))));
                assert_eq!(total.bots, 1);
            }
            let read: Vec<_> =
                read.into_iter().map(|(link, total)| (total.clicks.cast_unsigned(), link)).collect();
            assert_eq!(read, counted, "{order:?} {limit}");
        }
        counted.reverse();
    }
    let nobody = fixture.clicks.links_by_clicks(Id::from_i64(2), Order::Desc, None, 10).await.unwrap();
    assert!(nobody.is_empty());
}

/// Right after a large import nobody has counted the table, and a database that guesses would rather read all totals of the
/// workspace in the order of their clicks, for each link anew.
#[tokio::test]
async fn totals_use_their_primary_key_before_postgres_has_analyzed_the_table() {
    on_postgres(|test_store| async move {
        let mut fixture = ClickFixture::new(test_store.clone()).await;
        // So many that the wrong way looks as cheap as the right one.
        change(
            &fixture.clicks,
            "alter table totals set (autovacuum_enabled = off);
             insert into totals (kind, subject, workspace_id, clicks, bots)
             select 0, number, 1, number, 0 from generate_series(1, 200000) as number",
        )
        .await;
        let asked: Vec<_> =
            (1..=50).map(|number| RollupSubject::link(MAIN, Id::from_i64(number * 4_000))).collect();
        assert_eq!(fixture.clicks.totals(&asked).await.unwrap().len(), asked.len());
        let elsewhere = RollupSubject::link(Id::from_i64(2), Id::from_i64(1));
        assert!(fixture.clicks.totals(&[elsewhere]).await.unwrap().is_empty(), "it is another workspace's");
        // What a connection has read is told when it ends.
        fixture.clicks.close().await;
        fixture.clicks = ClickStore::open(&test_store.location).await.unwrap();
        let read = fixture
            .count("select idx_tup_read from pg_stat_user_indexes where indexrelname = 'totals_by_clicks'")
            .await;
        assert_eq!(read, 0, "entries read in the order of clicks");
        fixture.clicks.close().await;
        fixture.store.close().await;
    })
    .await;
}
