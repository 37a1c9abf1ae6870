//! From the journal to the database: each click once.

use rlinks_clicks::journal::{JOURNAL_FOLDER, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};

use crate::support::clicks::{ClickFixture, click, moment};
use crate::support::database::{TestStore, contract};

contract!(redelivered_clicks_are_stored_once, clicks_and_unique_visitors_are_counted_separately,);

async fn redelivered_clicks_are_stored_once(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store.clone()).await;
    let link = fixture.link("a").await;
    let noon = moment("2026-11-16T12:00:00Z");
    fixture.record(&[click(link, noon, 1), click(link, noon, 2), click(link, noon, 1)]);
    // Kept, so that it can be delivered again.
    let folder = test_store.folder().join(JOURNAL_FOLDER);
    let again = test_store.folder().join("again");
    std::fs::create_dir(&again).unwrap();
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, again.join(path.file_name().unwrap())).unwrap();
    }
    fixture.store_all().await;
    assert_eq!(fixture.count("select count(*) from events").await, 3);
    for _ in 0..2 {
        let control = tokio::runtime::Handle::current();
        let mut second = Ingest::new(
            fixture.store.reader(),
            control,
            Reader::abandoned(&again),
            None,
            MissCounter::default().into(),
        );
        let clicks = ClickStore::open(&test_store.location).await.unwrap();
        while second.ingest_next_batch(&clicks, noon).await.unwrap() > 0 {}
        clicks.close().await;
    }
    assert_eq!(fixture.count("select count(*) from events").await, 3);
    assert_eq!(fixture.count("select clicks from totals where kind = 0").await, 3);
    assert_eq!(fixture.count("select clicks from days where kind = 1").await, 3);
    fixture.record(&[click(link, noon, 3)]);
    fixture.store_all().await;
    assert_eq!(fixture.count("select clicks from totals where kind = 0").await, 4);
    assert_eq!(fixture.count("select visitors from days where kind = 0").await, 3);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn clicks_and_unique_visitors_are_counted_separately(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    for minute in 0..5 {
        fixture.record(&[click(link, moment(&format!("2026-11-16T10:{minute:02}:00Z")), 1)]);
    }
    for hour in [3, 12, 23] {
        fixture.record(&[click(link, moment(&format!("2026-11-16T{hour:02}:30:00Z")), 2)]);
        fixture.store_all().await;
    }
    assert_eq!(fixture.count("select clicks from days where kind = 0").await, 8);
    assert_eq!(fixture.count("select visitors from days where kind = 0").await, 2);
    assert_eq!(fixture.count("select visitors from days where kind = 1").await, 2);
    assert_eq!(fixture.count("select cast(sum(arrivals) as bigint) from hours where kind = 0").await, 2);
    assert_eq!(fixture.count("select cast(sum(visitors) as bigint) from hours where kind = 0").await, 4);
    fixture.clicks.close().await;
    fixture.store.close().await;
}
