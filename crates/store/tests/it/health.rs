//! Opening, and whether the store is sound.

use rlinks_core::id::WorkerId;
use rlinks_store::{Dialect, LinkFilter, Location, Store, StoreError, StoreOptions};

use crate::support::store::{MAIN, TestStore, at, chosen, code, contract, make};

contract!(
    new_store_has_only_the_workspace_main,
    a_store_keeps_its_contents_when_closed_and_opened,
    closed_store_is_unavailable_and_never_empty,
    concurrent_opens_of_a_new_store_succeed,
    ids_contain_the_configured_worker,
    newer_schema_is_refused,
    integrity_check_reports_no_false_damage,
);

async fn new_store_has_only_the_workspace_main(test_store: TestStore) {
    let store = test_store.open().await;
    let expected = match test_store.location {
        Location::Sqlite(_) => Dialect::Sqlite,
        Location::Postgres(_) => Dialect::Postgres,
    };
    assert_eq!(store.dialect(), expected);
    store.ping().await.unwrap();
    store.quick_check().await.unwrap();
    assert!(store.integrity_check().await.unwrap().is_empty());
    let schema = store.schema().await.unwrap();
    assert_eq!(schema.known, schema.applied);
    assert!(!schema.known.is_empty());
    let workspaces = store.workspaces().await.unwrap();
    assert_eq!(workspaces.len(), 1);
    assert_eq!((workspaces[0].id, workspaces[0].slug.as_str()), (MAIN, "main"));
    assert!(store.is_empty().await.unwrap());
    assert_eq!(store.count_links(MAIN).await.unwrap(), 0);
    assert_eq!(store.link(MAIN, &code("nothing")).await.unwrap(), None);
}

async fn a_store_keeps_its_contents_when_closed_and_opened(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    store.close().await;
    let store = test_store.open().await;
    assert_eq!(store.link(MAIN, &code("parity")).await.unwrap(), Some(link));
    assert_eq!(store.heads().await.unwrap()[0].1.seq, 2, "opening again writes nothing");
}

async fn closed_store_is_unavailable_and_never_empty(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    store.close().await;
    let read = store.link(MAIN, &code("parity")).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let written = store.write(chosen("other", "https://example.com/", 2)).await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
}

async fn concurrent_opens_of_a_new_store_succeed(test_store: TestStore) {
    // On one thread: whoever waits for the other must not keep it from going on.
    let (a, b, c) = tokio::join!(
        Store::open(test_store.options()),
        Store::open(test_store.options()),
        Store::open(test_store.options())
    );
    for ((_, store), name) in [(a.unwrap(), "a"), (b.unwrap(), "b"), (c.unwrap(), "c")] {
        make(&store, name, "https://example.com/", 1).await;
        assert_eq!(store.workspaces().await.unwrap().len(), 1);
    }
    let store = test_store.open().await;
    assert_eq!(store.count_links(MAIN).await.unwrap(), 3);
    store.verify(&[]).await.unwrap().unwrap();
}

async fn ids_contain_the_configured_worker(test_store: TestStore) {
    let store =
        Store::open(StoreOptions { worker: WorkerId::new(23), ..test_store.options() }).await.unwrap().1;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    assert_eq!(link.id.as_i64() >> 12 & 1023, 23);
    let other =
        Store::open(StoreOptions { worker: WorkerId::new(23), ..test_store.options() }).await.unwrap().1;
    let next = make(&other, "next", "https://example.com/", 1).await;
    assert!(next.id > link.id, "two processes told to be one worker still share its last id");
}

async fn newer_schema_is_refused(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    store.close().await;
    test_store
        .raw("insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9999, 'later', true, '', 0)")
        .await;
    match Store::open(StoreOptions { now: at(9), ..test_store.options() }).await {
        Err(StoreError::Refused(message)) => assert!(message.contains("9999"), "{message}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(test_store.count("select count(*) from links").await, 1);
}

async fn integrity_check_reports_no_false_damage(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let words = LinkFilter { words: vec!["https".to_owned()], ..LinkFilter::default() };
    for number in 0..80 {
        // One searches, and then the other changes what was searched.
        let found = store.list(MAIN, &words, 1000).await.unwrap();
        assert_eq!(i64::try_from(found.len()).unwrap(), number);
        make(&other, &format!("c{number}"), "https://example.com/", number).await;
        store.quick_check().await.unwrap();
        assert_eq!(store.integrity_check().await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn refused_connection_names_the_server_without_its_password() {
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let location = Location::Postgres(format!("postgres://max:secret@127.0.0.1:{port}/rlinks"));
    let opening = Store::open(StoreOptions { location, ..TestStore::sqlite().options() });
    let opened = tokio::time::timeout(std::time::Duration::from_secs(2), opening).await.expect("at once");
    match opened {
        Err(StoreError::Unavailable(what)) => {
            assert_eq!(what, format!("PostgreSQL at 127.0.0.1:{port}: connection refused"));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}
