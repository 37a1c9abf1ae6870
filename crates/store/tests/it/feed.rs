//! The change feed.

use std::time::Duration;

use rlinks_core::{LinkState, Policy, Preset, Workspace};
use rlinks_store::feed::{Changes, Feed};
use rlinks_store::write::CodeChoice;
use rlinks_store::{Location, StoreWriter};

use crate::support::store::{
    MAIN, TestStore, at, changed, code, contract, create, created, draft, host, in_state, make, max, replace,
    signer, trust, workspace,
};

contract!(
    first_poll_reports_everything_and_later_ones_only_changes,
    workspace_changes_are_reported_separately_from_links,
    changes_of_another_process_are_seen,
    each_follower_sees_every_change,
    restored_backup_makes_the_feed_report_everything,
    rewritten_chain_makes_the_feed_report_everything,
    vanished_workspace_makes_the_feed_report_everything,
    wait_ends_on_a_change_in_this_process,
    wait_ends_on_a_change_by_another_process,
    failed_poll_is_an_error_and_misses_no_change,
);

async fn look(feed: &mut Feed) -> Changes {
    feed.poll().await.unwrap()
}

fn only(codes: &[&str]) -> Changes {
    Changes { links: vec![(MAIN, codes.iter().map(|&code| code.to_owned()).collect())], ..Changes::default() }
}

fn everything() -> Changes {
    Changes { everything: true, ..Changes::default() }
}

async fn following(store: &StoreWriter) -> Feed {
    let mut feed = Feed::new(store);
    assert_eq!(look(&mut feed).await, everything());
    feed
}

async fn first_poll_reports_everything_and_later_ones_only_changes(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "before", "https://example.com/", 1).await;
    let mut feed = following(&store).await;
    for _ in 0..3 {
        assert!(look(&mut feed).await.is_empty());
    }
    make(&store, "b", "https://example.com/", 2).await;
    make(&store, "a", "https://example.com/", 3).await;
    let off = changed(store.write(in_state(&link, LinkState::Disabled, 4)).await);
    changed(store.write(in_state(&off, LinkState::Active, 5)).await);
    assert_eq!(look(&mut feed).await, only(&["a", "b", "before"]), "each once");
    assert!(look(&mut feed).await.is_empty());
    // What changes nothing, or fails, is no change.
    let now = store.link(MAIN, &link.code).await.unwrap().unwrap();
    store.write(replace(now, rlinks_store::write::Action::Update, 6)).await.unwrap();
    store.write(crate::support::store::chosen("a", "https://example.com/", 7)).await.unwrap_err();
    assert!(look(&mut feed).await.is_empty());
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await.id;
    created(
        store
            .write(create(space, CodeChoice::Chosen(code("theirs")), draft("https://example.com/"), 8))
            .await,
    );
    make(&store, "mine", "https://example.com/", 9).await;
    let mut changes = look(&mut feed).await;
    changes.links.sort();
    assert!(changes.directory && !changes.everything);
    assert_eq!(changes.links, [(MAIN, vec!["mine".to_owned()]), (space, vec!["theirs".to_owned()])]);
}

async fn workspace_changes_are_reported_separately_from_links(test_store: TestStore) {
    let store = test_store.open().await;
    let mut feed = following(&store).await;
    let directory = Changes { directory: true, ..Changes::default() };
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    assert_eq!(look(&mut feed).await, Changes { directory: true, rights: true, ..Changes::default() });
    store.add_domain(MAIN, host("one.example"), &max(), at(1)).await.unwrap();
    assert_eq!(look(&mut feed).await, directory);
    store.add_domain(MAIN, host("two.example"), &max(), at(1)).await.unwrap();
    store.set_primary_domain(MAIN, &host("two.example"), &max(), at(2)).await.unwrap();
    store.remove_domain(MAIN, &host("one.example"), &max(), at(2)).await.unwrap();
    assert_eq!(look(&mut feed).await, directory);
    let next = Workspace { policy: Policy::preset(Preset::Edge), ..space.clone() };
    store.update_workspace(&space, next, "workspace.update", &max(), at(3)).await.unwrap();
    make(&store, "parity", "https://example.com/", 4).await;
    assert_eq!(look(&mut feed).await, Changes { directory: true, rights: true, ..only(&["parity"]) });
}

async fn changes_of_another_process_are_seen(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let mut feed = following(&store).await;
    for number in 0..5 {
        let name = format!("c{number}");
        make(&other, &name, "https://example.com/", number).await;
        assert_eq!(look(&mut feed).await, only(&[&name]));
        assert!(look(&mut feed).await.is_empty());
    }
}

async fn each_follower_sees_every_change(test_store: TestStore) {
    let store = test_store.open().await;
    let (mut a, mut b) = (following(&store).await, following(&store).await);
    make(&store, "one", "https://example.com/", 1).await;
    assert_eq!(look(&mut a).await, only(&["one"]));
    make(&store, "two", "https://example.com/", 2).await;
    assert_eq!(look(&mut a).await, only(&["two"]));
    assert_eq!(look(&mut b).await, only(&["one", "two"]));
}

async fn restored_backup_makes_the_feed_report_everything(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "one", "https://example.com/", 1).await;
    let file = test_store.folder().join("backup");
    store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(2)).await.unwrap();
    make(&store, "two", "https://example.com/", 3).await;
    let mut feed = following(&store).await;
    store.restore(&file, &trust()).await.unwrap();
    assert!(look(&mut feed).await.everything);
    assert!(look(&mut feed).await.is_empty());
    // Also where nobody looked until the chain had grown past where it was.
    let mut feed = following(&store).await;
    make(&store, "three", "https://example.com/", 4).await;
    look(&mut feed).await;
    store.restore(&file, &trust()).await.unwrap();
    for number in 0..5 {
        make(&store, &format!("c{number}"), "https://example.com/", 5).await;
    }
    assert!(look(&mut feed).await.everything);
    make(&store, "after", "https://example.com/", 6).await;
    assert_eq!(look(&mut feed).await, only(&["after"]));
}

async fn rewritten_chain_makes_the_feed_report_everything(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "one", "https://example.com/", 1).await;
    let mut feed = following(&store).await;
    test_store.raw("update heads set hash = 'another' where workspace_id = 1").await;
    test_store.raw("update audit set hash = 'another' where workspace_id = 1 and seq = 2").await;
    assert!(look(&mut feed).await.everything);
}

async fn vanished_workspace_makes_the_feed_report_everything(test_store: TestStore) {
    let store = test_store.open().await;
    let file = test_store.folder().join("backup");
    workspace(&store, "kept", Policy::preset(Preset::Team)).await;
    store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(2)).await.unwrap();
    workspace(&store, "lost", Policy::preset(Preset::Team)).await;
    let mut feed = following(&store).await;
    // Restored, and another one made: as many workspaces as before, but not the same.
    store.restore(&file, &trust()).await.unwrap();
    let policy = Policy::preset(Preset::Team);
    store
        .create_workspace(crate::support::store::slug("new"), "New".to_owned(), policy, &max(), at(99))
        .await
        .unwrap();
    assert!(look(&mut feed).await.everything);
}

/// Long enough never to be what a test waits for.
const FOR_EVER: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_secs(20);

async fn wait_ends_on_a_change_in_this_process(test_store: TestStore) {
    let store = test_store.open().await;
    let mut feed = following(&store).await;
    feed.wait(Duration::from_millis(1)).await;
    let (_, waited) = tokio::join!(
        make(&store, "parity", "https://example.com/", 1),
        tokio::time::timeout(SOON, feed.wait(FOR_EVER))
    );
    waited.expect("a change in this process ends the waiting");
    assert_eq!(look(&mut feed).await, only(&["parity"]));
    let actor = max();
    let (_, waited) = tokio::join!(
        store.add_domain(MAIN, host("one.example"), &actor, at(2)),
        tokio::time::timeout(SOON, feed.wait(FOR_EVER))
    );
    waited.expect("a domain is a change too");
    assert!(look(&mut feed).await.directory);
    // What happened before the waiting began, but after the look, ends it as well.
    make(&store, "next", "https://example.com/", 3).await;
    tokio::time::timeout(SOON, feed.wait(FOR_EVER)).await.expect("a change between look and wait");
    assert_eq!(look(&mut feed).await, only(&["next"]));
}

async fn wait_ends_on_a_change_by_another_process(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let mut feed = following(&store).await;
    let until_seen = async {
        loop {
            // SQLite tells nobody: there the follower looks again after a while. PostgreSQL does tell.
            feed.wait(if matches!(test_store.location, Location::Sqlite(_)) {
                Duration::from_millis(20)
            } else {
                FOR_EVER
            })
            .await;
            let changes = feed.poll().await.unwrap();
            if !changes.is_empty() {
                return changes;
            }
        }
    };
    let writing = async {
        // The first ones may come before the follower listens; one of them will not.
        for number in 0..1000 {
            make(&other, &format!("c{number}"), "https://example.com/", number).await;
        }
    };
    let seen = tokio::select! {
        seen = until_seen => seen,
        () = writing => panic!("a thousand changes went by unnoticed"),
    };
    assert!(!seen.everything && seen.links.len() == 1, "{seen:?}");
}

async fn failed_poll_is_an_error_and_misses_no_change(test_store: TestStore) {
    let store = test_store.open().await;
    let mut feed = following(&store).await;
    make(&store, "one", "https://example.com/", 1).await;
    test_store.raw("alter table heads rename to away").await;
    feed.poll().await.unwrap_err();
    test_store.raw("alter table away rename to heads").await;
    assert_eq!(look(&mut feed).await, only(&["one"]));
}
