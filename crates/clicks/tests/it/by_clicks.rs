//! Links in the order of their clicks, and their totals.

use rlinks_clicks::ClickStore;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_core::Id;
use rlinks_store::Order;

use crate::database::{Place, at, contract, on_postgres};
use crate::desk::{Desk, MAIN, click};
use crate::recompute::change;

contract!(links_come_by_their_clicks_and_pages_are_whole);

async fn links_come_by_their_clicks_and_pages_are_whole(place: Place) {
    let mut desk = Desk::new(place).await;
    let mut counted: Vec<(u64, Id)> = Vec::new();
    for number in 0..23 {
        let link = desk.link(&format!("link-{number}")).await;
        let clicks = number % 5;
        for visitor in 0..clicks {
            desk.record(&[click(link, at(i64::try_from(visitor).unwrap()), visitor + 1)]);
        }
        // A bot alone gives a row without clicks.
        let mut bot = click(link, at(9), 9);
        bot.bot = true;
        desk.record(&[bot]);
        if clicks > 0 {
            counted.push((clicks, link));
        }
    }
    desk.store_all().await;
    counted.sort_unstable();
    for order in [Order::Asc, Order::Desc] {
        for limit in [1, 4, 100] {
            let (mut read, mut after) = (Vec::new(), None);
            loop {
                let page = desk.clicks.links_by_clicks(MAIN, order, after, limit).await.unwrap();
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
    let nobody = desk.clicks.links_by_clicks(Id::from_i64(2), Order::Desc, None, 10).await.unwrap();
    assert!(nobody.is_empty());
}

/// Right after a large import nobody has counted the table, and a database that guesses would rather read all totals of the
/// workspace in the order of their clicks, for each link anew.
#[tokio::test]
async fn totals_are_found_by_their_key_before_postgres_has_counted_them() {
    on_postgres(|place| async move {
        let mut desk = Desk::new(place.clone()).await;
        // So many that the wrong way looks as cheap as the right one.
        change(
            &desk.clicks,
            "alter table totals set (autovacuum_enabled = off);
             insert into totals (kind, subject, workspace_id, clicks, bots)
             select 0, number, 1, number, 0 from generate_series(1, 200000) as number",
        )
        .await;
        let asked: Vec<_> =
            (1..=50).map(|number| RollupSubject::link(MAIN, Id::from_i64(number * 4_000))).collect();
        assert_eq!(desk.clicks.totals(&asked).await.unwrap().len(), asked.len());
        let elsewhere = RollupSubject::link(Id::from_i64(2), Id::from_i64(1));
        assert!(desk.clicks.totals(&[elsewhere]).await.unwrap().is_empty(), "it is another workspace's");
        // What a connection has read is told when it ends.
        desk.clicks.close().await;
        desk.clicks = ClickStore::open(&place.location).await.unwrap();
        let read = desk
            .count("select idx_tup_read from pg_stat_user_indexes where indexrelname = 'totals_by_clicks'")
            .await;
        assert_eq!(read, 0, "entries read in the order of clicks");
        desk.clicks.close().await;
        desk.store.close().await;
    })
    .await;
}
