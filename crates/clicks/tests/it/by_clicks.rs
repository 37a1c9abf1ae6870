//! Links in the order of their clicks.

use rlinks_core::Id;
use rlinks_store::Order;

use crate::database::{Place, at, contract};
use crate::desk::{Desk, MAIN, click};

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
