//! Custody of hosts: what is claimed, proven, suspended and given up, and what the log says of it.

use std::fs;

use rlinks_core::workspace::domain_verification::{DomainCheck, PointsTo, RecordState};
use rlinks_core::{Actor, DomainStatus, DomainVerification, Id, Policy, Preset, Timestamp};
use rlinks_store::feed::{Changes, Feed};
use rlinks_store::{DomainRecord, StoreError, StoreWriter};

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, contract, host, max, signer, trust, workspace,
};

contract!(
    claimed_domain_is_not_served_until_verified,
    stale_domain_update_is_a_conflict,
    readded_domain_starts_unverified,
    domain_enabled_behind_the_log_is_reported,
    restored_store_serves_no_unverified_domain,
);

const HOUR_MS: i64 = 3_600_000;

fn hours(hours: i64) -> Timestamp {
    at(hours * HOUR_MS)
}

async fn team(store: &StoreWriter) -> Id {
    workspace(store, "team", Policy::preset(Preset::Team)).await.id
}

async fn held(store: &StoreWriter, name: &str) -> DomainRecord {
    store.domain_record(&host(name)).await.unwrap().unwrap()
}

/// Looks, as the daily job would.
async fn look(store: &StoreWriter, name: &str, found: RecordState, now: Timestamp) -> DomainStatus {
    let held = held(store, name).await;
    let seen = DomainCheck {
        record: Some(found),
        points_to: Some(PointsTo::Elsewhere("nowhere".to_owned())),
        registry: Some(Some(now)),
    };
    let (next, events) = held.verification.observe(&seen, now);
    store.record_domain_check(&held, &next, &events, &Actor::system(), now).await.unwrap();
    let again = self::held(store, name).await;
    assert_eq!((again.verification, again.domain), (next.clone(), held.domain), "all of it is kept");
    next.status()
}

async fn silent(store: &StoreWriter) -> Vec<String> {
    let mut silent: Vec<_> =
        store.unverified_hosts().await.unwrap().into_iter().map(|it| it.to_string()).collect();
    silent.sort();
    silent
}

async fn actions(store: &StoreWriter, space: Id) -> Vec<String> {
    let log = store.audit_after(space, 0, 100).await.unwrap();
    let log = log.into_iter().map(|entry| entry.action);
    log.filter(|action| action.starts_with("domain.")).collect()
}

async fn claimed_domain_is_not_served_until_verified(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let claimed = store.claim_domain(space, host("one.example"), &max(), hours(0)).await.unwrap();
    assert!(claimed.primary);
    let heads = store.heads().await.unwrap();
    let again = store.claim_domain(space, host("one.example"), &max(), hours(1)).await.unwrap();
    assert_eq!((again, store.heads().await.unwrap()), (claimed, heads), "one's own again changes nothing");
    store.add_domain(MAIN, host("two.example"), &max(), hours(0)).await.unwrap();
    assert_eq!(silent(&store).await, ["one.example"]);
    assert_eq!(held(&store, "two.example").await.verification, DomainVerification::default());
    let taken = store.claim_domain(MAIN, host("one.example"), &max(), hours(1)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken(_))), "{taken:?}");
    let nobody = store.claim_domain(Id::from_i64(4711), host("x.example"), &max(), hours(1)).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))), "{nobody:?}");
    let mut feed = Feed::new(&store);
    feed.poll().await.unwrap();
    assert_eq!(look(&store, "one.example", RecordState::Present, hours(1)).await, DomainStatus::Active);
    assert_eq!(silent(&store).await, [""; 0]);
    let directory = Changes { directory: true, ..Changes::default() };
    assert_eq!(feed.poll().await.unwrap(), directory, "servers learn of it");
    look(&store, "one.example", RecordState::Absent, hours(2)).await;
    assert_eq!(feed.poll().await.unwrap(), Changes::default(), "nothing changed for anybody");
    assert_eq!(look(&store, "one.example", RecordState::Absent, hours(75)).await, DomainStatus::Suspended);
    assert_eq!(feed.poll().await.unwrap(), directory);
    assert_eq!(silent(&store).await, ["one.example"]);
    look(&store, "one.example", RecordState::Present, hours(76)).await;
    assert_eq!(
        actions(&store, space).await,
        [
            "domain.add",
            "domain.unproven",
            "domain.verify",
            "domain.points_away",
            "domain.expiring",
            "domain.suspend",
            "domain.resume"
        ]
    );
    assert_eq!(store.domain_records().await.unwrap().len(), 2);
    assert_eq!(store.records_differing_from_log().await.unwrap(), [""; 0]);
    assert_sound(&store).await;
}

async fn stale_domain_update_is_a_conflict(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    store.claim_domain(space, host("one.example"), &max(), hours(0)).await.unwrap();
    let before = held(&store, "one.example").await;
    look(&store, "one.example", RecordState::Present, hours(1)).await;
    let heads = store.heads().await.unwrap();
    let proven = DomainVerification { proven_at: Some(hours(9)), ..before.verification.clone() };
    for outcome in [
        store.record_domain_check(&before, &proven, &[], &max(), hours(9)).await,
        store.release_domain(&before, &max(), hours(9)).await,
        store.trust_domain(&before, &max(), hours(9)).await,
    ] {
        assert!(matches!(outcome, Err(StoreError::Conflict)), "{outcome:?}");
    }
    assert_eq!(store.heads().await.unwrap(), heads);
    let now = held(&store, "one.example").await;
    store.remove_domain(space, &host("one.example"), &max(), hours(10)).await.unwrap();
    let gone = store.record_domain_check(&now, &proven, &[], &max(), hours(11)).await;
    assert!(matches!(gone, Err(StoreError::Conflict)), "{gone:?}");
    assert_sound(&store).await;
}

async fn readded_domain_starts_unverified(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    store.claim_domain(space, host("one.example"), &max(), hours(0)).await.unwrap();
    look(&store, "one.example", RecordState::Present, hours(1)).await;
    store.remove_domain(space, &host("one.example"), &max(), hours(2)).await.unwrap();
    assert_eq!(store.domain_record(&host("one.example")).await.unwrap(), None);
    store.claim_domain(space, host("one.example"), &max(), hours(3)).await.unwrap();
    assert_eq!(held(&store, "one.example").await.verification, DomainVerification::unverified());
    // The operator's word is enough, and a claim that is over leaves nothing.
    store.trust_domain(&held(&store, "one.example").await, &max(), hours(4)).await.unwrap();
    assert_eq!(held(&store, "one.example").await.verification, DomainVerification::default());
    store.claim_domain(space, host("two.example"), &max(), hours(3)).await.unwrap();
    let waiting = held(&store, "two.example").await;
    store.release_domain(&waiting, &Actor::system(), hours(99)).await.unwrap();
    store.add_domain(MAIN, host("two.example"), &max(), hours(100)).await.unwrap();
    assert_eq!(silent(&store).await, [""; 0]);
    assert_eq!(store.records_differing_from_log().await.unwrap(), [""; 0]);
    assert_sound(&store).await;
}

async fn domain_enabled_behind_the_log_is_reported(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    store.claim_domain(space, host("one.example"), &max(), hours(0)).await.unwrap();
    let named = async || store.records_differing_from_log().await.unwrap();
    assert_eq!(named().await, [""; 0]);
    for (edit, back) in [
        ("update custody set proven_at = 1", "update custody set proven_at = null"),
        ("update custody set suspended_at = 1", "update custody set suspended_at = null"),
        ("update custody set needs_proof = false", "update custody set needs_proof = true"),
    ] {
        test_store.raw(edit).await;
        assert_eq!(named().await, ["domain one.example"], "{edit}");
        test_store.raw(back).await;
        assert_eq!(named().await, [""; 0], "{back}");
    }
    test_store.raw("delete from custody").await;
    assert_eq!(named().await, ["domain one.example"]);
}

async fn restored_store_serves_no_unverified_domain(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    for name in ["waits.example", "gone.example", "proven.example", "trusted.example", "left.example"] {
        store.claim_domain(space, host(name), &max(), hours(0)).await.unwrap();
    }
    for name in ["gone.example", "proven.example"] {
        look(&store, name, RecordState::Present, hours(1)).await;
    }
    look(&store, "gone.example", RecordState::Absent, hours(2)).await;
    look(&store, "gone.example", RecordState::Absent, hours(75)).await;
    store.trust_domain(&held(&store, "trusted.example").await, &max(), hours(76)).await.unwrap();
    store.remove_domain(space, &host("left.example"), &max(), hours(76)).await.unwrap();
    let file = test_store.folder().join("backup.jsonl");
    store.backup(fs::File::create(&file).unwrap(), &signer(), hours(77)).await.unwrap();
    let there = |all: Vec<DomainRecord>| -> Vec<_> {
        let pair = |held: DomainRecord| {
            (held.domain.host, held.verification.needs_proof, held.verification.status())
        };
        all.into_iter().map(pair).collect()
    };
    let before = there(store.domain_records().await.unwrap());
    // Elsewhere, and over what has become of it here.
    store.trust_domain(&held(&store, "waits.example").await, &max(), hours(78)).await.unwrap();
    let other = TestStore::sqlite();
    for store in [store, other.open().await] {
        store.restore(&file, &trust()).await.unwrap();
        assert_eq!(there(store.domain_records().await.unwrap()), before);
        assert_eq!(silent(&store).await, ["gone.example", "waits.example"]);
        assert_eq!(store.records_differing_from_log().await.unwrap(), [""; 0]);
        assert_sound(&store).await;
        assert_eq!(look(&store, "gone.example", RecordState::Present, hours(79)).await, DomainStatus::Active);
    }
}
