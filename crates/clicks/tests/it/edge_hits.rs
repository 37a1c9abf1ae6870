//! Hits from elsewhere: each stored once, and added up like clicks of our own.

use rlinks_clicks::edge_hits::{Hit, HitImportReport, LinkedHit};
use rlinks_core::Id;
use rlinks_store::database::pool::run_in;

use crate::support::clicks::{ClickFixture, MAIN, click, moment};
use crate::support::database::{TestStore, contract};

contract!(imported_hits_are_stored_once_and_counted, hits_older_than_the_retention_are_skipped);

fn hit(n: u64, ts: &str) -> Hit {
    let value = format!(
        r#"{{"ts":"{ts}","country":"NL","ua_hash":"ff","referrer":"https://a.example/x?y","ip_prefix":"203.0.113.0/24"}}"#
    );
    Hit::parse("a", &format!("019c09bf-e495-7abc-8000-{n:012x}"), &value).unwrap()
}

fn linked_hits(link: Id, hits: &[Hit]) -> Vec<LinkedHit<'_>> {
    hits.iter().map(|hit| LinkedHit { hit, link, owner: None }).collect()
}

async fn imported_hits_are_stored_once_and_counted(test_store: TestStore) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let now = moment("2026-11-16T12:00:00Z");
    fixture.record(&[click(link, now, 1)]);
    fixture.store_all().await;
    let hits =
        [hit(1, "2026-11-15T10:00:00Z"), hit(2, "2026-11-16T10:00:00Z"), hit(1, "2026-11-15T10:00:00Z")];
    let done = fixture.clicks.import_hits(MAIN, &linked_hits(link, &hits), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 2, already_stored: 1, too_old: 0 });
    let more = [hit(2, "2026-11-16T10:00:00Z"), hit(3, "2027-01-01T00:00:00Z")];
    let done = fixture.clicks.import_hits(MAIN, &linked_hits(link, &more), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 1, already_stored: 1, too_old: 0 });
    assert_eq!(fixture.count("select count(*) from events").await, 4);
    assert_eq!(fixture.count("select clicks from totals where kind = 0").await, 4);
    // One of ours, one hit, and one whose clock ran ahead.
    assert_eq!(fixture.count("select clicks from days where kind = 0 and day = 20773").await, 3);
    assert_eq!(fixture.count("select visitors from days where kind = 0 and day = 20773").await, 1);
    assert_eq!(fixture.count("select max(n) from events").await, 4);
    let ids = hits.iter().map(|hit| hit.id.to_string()).chain(["nobody".to_owned()]).collect::<Vec<_>>();
    assert_eq!(fixture.clicks.stored_event_ids(&ids).await.unwrap().len(), 2);
    // Raw clicks add up to the same.
    let again = fixture.clicks.recompute(&fixture.store, None, now, |_| {}).await.unwrap();
    assert_eq!((again.days, again.subjects_changed), (2, 0));
    // And clicks of our own go on.
    fixture.record(&[click(link, now, 2)]);
    fixture.store_all().await;
    assert_eq!(fixture.count("select clicks from totals where kind = 0").await, 5);
    fixture.clicks.advance_watermark("hits:x", 5, now).await.unwrap();
    fixture.clicks.advance_watermark("hits:x", 3, now).await.unwrap();
    assert_eq!(fixture.clicks.watermark("hits:x").await.unwrap(), 5);
    fixture.clicks.close().await;
    fixture.store.close().await;
}

async fn hits_older_than_the_retention_are_skipped(test_store: TestStore) {
    let fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    let now = moment("2026-11-16T12:00:00Z");
    let mut tx = fixture.clicks.pool().begin().await.unwrap();
    run_in!(&mut tx, "insert into frozen (workspace_id, before_day) values (1, 20773)").unwrap();
    tx.commit().await.unwrap();
    let hits = [hit(1, "2026-11-15T10:00:00Z"), hit(2, "2026-11-16T10:00:00Z")];
    let done = fixture.clicks.import_hits(MAIN, &linked_hits(link, &hits), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 1, already_stored: 0, too_old: 1 });
    fixture.clicks.close().await;
    fixture.store.close().await;
}
