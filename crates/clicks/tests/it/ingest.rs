//! From the journal to the database: each click once.

use rlinks_clicks::journal::{JOURNAL_FOLDER, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};

use crate::database::{Place, contract};
use crate::desk::{Desk, click, moment};

contract!(
    clicks_are_stored_once_however_often_they_are_delivered,
    eight_clicks_by_two_visitors_are_eight_clicks_and_two_visitors,
);

async fn clicks_are_stored_once_however_often_they_are_delivered(place: Place) {
    let mut desk = Desk::new(place.clone()).await;
    let link = desk.link("a").await;
    let noon = moment("2026-11-16T12:00:00Z");
    desk.record(&[click(link, noon, 1), click(link, noon, 2), click(link, noon, 1)]);
    // Kept, so that it can be delivered again.
    let folder = place.folder().join(JOURNAL_FOLDER);
    let again = place.folder().join("again");
    std::fs::create_dir(&again).unwrap();
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, again.join(path.file_name().unwrap())).unwrap();
    }
    desk.store_all().await;
    assert_eq!(desk.count("select count(*) from events").await, 3);
    for _ in 0..2 {
        let control = tokio::runtime::Handle::current();
        let mut second = Ingest::new(
            desk.store.clone(),
            control,
            Reader::abandoned(&again),
            None,
            MissCounter::default().into(),
        );
        let clicks = ClickStore::open(&place.location).await.unwrap();
        while second.ingest_next_batch(&clicks, noon).await.unwrap() > 0 {}
        clicks.close().await;
    }
    assert_eq!(desk.count("select count(*) from events").await, 3);
    assert_eq!(desk.count("select clicks from totals where kind = 0").await, 3);
    assert_eq!(desk.count("select clicks from days where kind = 1").await, 3);
    desk.record(&[click(link, noon, 3)]);
    desk.store_all().await;
    assert_eq!(desk.count("select clicks from totals where kind = 0").await, 4);
    assert_eq!(desk.count("select visitors from days where kind = 0").await, 3);
    desk.clicks.close().await;
    desk.store.close().await;
}

async fn eight_clicks_by_two_visitors_are_eight_clicks_and_two_visitors(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    for minute in 0..5 {
        desk.record(&[click(link, moment(&format!("2026-11-16T10:{minute:02}:00Z")), 1)]);
    }
    for hour in [3, 12, 23] {
        desk.record(&[click(link, moment(&format!("2026-11-16T{hour:02}:30:00Z")), 2)]);
        desk.store_all().await;
    }
    assert_eq!(desk.count("select clicks from days where kind = 0").await, 8);
    assert_eq!(desk.count("select visitors from days where kind = 0").await, 2);
    assert_eq!(desk.count("select visitors from days where kind = 1").await, 2);
    assert_eq!(desk.count("select cast(sum(arrivals) as bigint) from hours where kind = 0").await, 2);
    assert_eq!(desk.count("select cast(sum(visitors) as bigint) from hours where kind = 0").await, 4);
    desk.clicks.close().await;
    desk.store.close().await;
}
