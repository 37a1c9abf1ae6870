//! Hits from elsewhere: each stored once, and added up like clicks of our own.

use rlinks_clicks::edge_hits::{Hit, HitImportReport, LinkedHit};
use rlinks_core::Id;
use rlinks_store::database::pool::run_in;

use crate::database::{Place, contract};
use crate::desk::{Desk, MAIN, click, moment};

contract!(hits_are_stored_once_and_add_up, days_that_are_not_kept_take_no_hits);

fn hit(n: u64, ts: &str) -> Hit {
    let value = format!(
        r#"{{"ts":"{ts}","country":"NL","ua_hash":"ff","referrer":"https://a.example/x?y","ip_prefix":"203.0.113.0/24"}}"#
    );
    Hit::parse("a", &format!("019c09bf-e495-7abc-8000-{n:012x}"), &value).unwrap()
}

fn linked_hits(link: Id, hits: &[Hit]) -> Vec<LinkedHit<'_>> {
    hits.iter().map(|hit| LinkedHit { hit, link, owner: None }).collect()
}

async fn hits_are_stored_once_and_add_up(place: Place) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let now = moment("2026-11-16T12:00:00Z");
    desk.record(&[click(link, now, 1)]);
    desk.store_all().await;
    let hits =
        [hit(1, "2026-11-15T10:00:00Z"), hit(2, "2026-11-16T10:00:00Z"), hit(1, "2026-11-15T10:00:00Z")];
    let done = desk.clicks.import_hits(MAIN, &linked_hits(link, &hits), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 2, already_stored: 1, too_old: 0 });
    let more = [hit(2, "2026-11-16T10:00:00Z"), hit(3, "2027-01-01T00:00:00Z")];
    let done = desk.clicks.import_hits(MAIN, &linked_hits(link, &more), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 1, already_stored: 1, too_old: 0 });
    assert_eq!(desk.count("select count(*) from events").await, 4);
    assert_eq!(desk.count("select clicks from totals where kind = 0").await, 4);
    // One of ours, one hit, and one whose clock ran ahead.
    assert_eq!(desk.count("select clicks from days where kind = 0 and day = 20773").await, 3);
    assert_eq!(desk.count("select visitors from days where kind = 0 and day = 20773").await, 1);
    assert_eq!(desk.count("select max(n) from events").await, 4);
    let ids = hits.iter().map(|hit| hit.id.to_string()).chain(["nobody".to_owned()]).collect::<Vec<_>>();
    assert_eq!(desk.clicks.stored_event_ids(&ids).await.unwrap().len(), 2);
    // Raw clicks add up to the same.
    let again = desk.clicks.recompute(&desk.store, None, now, |_| {}).await.unwrap();
    assert_eq!((again.days, again.subjects_changed), (2, 0));
    // And clicks of our own go on.
    desk.record(&[click(link, now, 2)]);
    desk.store_all().await;
    assert_eq!(desk.count("select clicks from totals where kind = 0").await, 5);
    desk.clicks.advance_watermark("hits:x", 5, now).await.unwrap();
    desk.clicks.advance_watermark("hits:x", 3, now).await.unwrap();
    assert_eq!(desk.clicks.watermark("hits:x").await.unwrap(), 5);
    desk.clicks.close().await;
    desk.store.close().await;
}

async fn days_that_are_not_kept_take_no_hits(place: Place) {
    let desk = Desk::new(place).await;
    let link = desk.link("a").await;
    let now = moment("2026-11-16T12:00:00Z");
    let mut tx = desk.clicks.pool().begin().await.unwrap();
    run_in!(&mut tx, "insert into frozen (workspace_id, before_day) values (1, 20773)").unwrap();
    tx.commit().await.unwrap();
    let hits = [hit(1, "2026-11-15T10:00:00Z"), hit(2, "2026-11-16T10:00:00Z")];
    let done = desk.clicks.import_hits(MAIN, &linked_hits(link, &hits), now).await.unwrap();
    assert_eq!(done, HitImportReport { stored: 1, already_stored: 0, too_old: 1 });
    desk.clicks.close().await;
    desk.store.close().await;
}
