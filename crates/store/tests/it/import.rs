//! Links that were made elsewhere, many at a time: what goes with a link is there with it and never without it.

use rlinks_core::draft::LinkIdentity;
use rlinks_core::{Id, Link, LinkSource, Policy, Preset};
use rlinks_store::write::{LinkOp, LinkWrite, PreparedBatch, Written};
use rlinks_store::{LinkFilter, StoreError, StoreWriter};

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, code, codes, contract, draft, make, max, on_postgres, workspace,
};

contract!(
    imported_links_are_found_by_their_words_and_tags,
    refused_links_leave_no_rows,
    code_taken_meanwhile_refuses_only_that_link,
    prepared_batch_blocks_no_other_write_and_vanishes_if_dropped,
    concurrent_imports_with_ids_write_each_link_once,
);

/// Links called `texts`, each about itself and tagged `moved`, with ids set aside.
async fn imports(store: &StoreWriter, workspace: Id, texts: &[&str]) -> Vec<LinkWrite> {
    let ids = store.reserve_ids(texts.len(), at(1)).await.unwrap();
    let write = |(text, id): (&&str, Id)| {
        let mut wanted = draft(&format!("https://example.com/about-{text}"));
        wanted.tags = vec!["moved".to_owned()];
        let link = wanted.to_link(LinkIdentity {
            id,
            workspace,
            code: code(text),
            generated: false,
            source: LinkSource::Import,
            created_by: max(),
            created_at: at(1),
            version: 1,
        });
        LinkWrite::new(workspace, max(), at(1), LinkOp::Import { link: Box::new(link), updated: None })
    };
    texts.iter().zip(ids).map(write).collect()
}

async fn import(store: &StoreWriter, writes: Vec<LinkWrite>) -> Vec<Result<Written, StoreError>> {
    store.write_prepared(store.prepare(writes).await.unwrap()).await
}

/// As many rows of words and of tags as there are links, each of a link that is there.
async fn assert_nothing_without_its_link(test_store: &TestStore, links: i64) {
    for rows in ["link_search", "link_tags"] {
        assert_eq!(test_store.count(&format!("select count(*) from {rows}")).await, links, "{rows}");
    }
    let strays = "select count(*) from link_tags where link_id not in (select id from links)";
    assert_eq!(test_store.count(strays).await, 0);
}

async fn imported_links_are_found_by_their_words_and_tags(test_store: TestStore) {
    let store = test_store.open().await;
    let written = import(&store, imports(&store, MAIN, &["one", "two", "three"]).await).await;
    let links: Vec<Link> = written.into_iter().map(|written| written.unwrap().link().clone()).collect();
    assert_eq!(codes(&links), ["one", "two", "three"]);
    let by_word =
        LinkFilter { words: rlinks_core::link::search::parse_query("about two"), ..LinkFilter::default() };
    assert_eq!(codes(&store.list(MAIN, &by_word, 10).await.unwrap()), ["two"]);
    let by_tag = LinkFilter { tag: Some("moved".to_owned()), ..LinkFilter::default() };
    assert_eq!(store.list(MAIN, &by_tag, 10).await.unwrap().len(), 3);
    assert_nothing_without_its_link(&test_store, 3).await;
    assert_sound(&store).await;
}

async fn refused_links_leave_no_rows(test_store: TestStore) {
    let store = test_store.open().await;
    let mut policy = Policy::preset(Preset::Edge);
    policy.limits.live_links = Some(2);
    let space = workspace(&store, "edge", policy).await.id;
    let written = import(&store, imports(&store, space, &["a", "b", "c", "d"]).await).await;
    let outcome = |result: &Result<Written, StoreError>| match result {
        Ok(_) => "written",
        Err(StoreError::QuotaExceeded(2)) => "no room",
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(written.iter().map(outcome).collect::<Vec<_>>(), ["written", "written", "no room", "no room"]);
    assert_nothing_without_its_link(&test_store, 2).await;
    let none = import(&store, imports(&store, space, &["e", "f"]).await).await;
    assert_eq!(none.iter().map(outcome).collect::<Vec<_>>(), ["no room", "no room"]);
    assert_nothing_without_its_link(&test_store, 2).await;
    assert_sound(&store).await;
}

async fn code_taken_meanwhile_refuses_only_that_link(test_store: TestStore) {
    let store = test_store.open().await;
    let prepared = store.prepare(imports(&store, MAIN, &["one", "two", "three"]).await).await.unwrap();
    make(&store, "two", "https://elsewhere.example/", 2).await;
    let written = store.write_prepared(prepared).await;
    assert!(matches!(&written[0], Ok(Written::Created(_))), "{:?}", written[0]);
    assert!(
        matches!(&written[1], Err(StoreError::CodeTaken { code, deleted: false }) if code == "two"),
        "{:?}",
        written[1]
    );
    assert!(matches!(&written[2], Ok(Written::Created(_))), "{:?}", written[2]);
    assert_eq!(test_store.count("select count(*) from link_search").await, 3);
    assert_eq!(test_store.count("select count(*) from link_tags").await, 2);
    assert_sound(&store).await;
}

async fn prepared_batch_blocks_no_other_write_and_vanishes_if_dropped(test_store: TestStore) {
    let store = test_store.open().await;
    let first = store.prepare(imports(&store, MAIN, &["one"]).await).await.unwrap();
    let second = store.prepare(imports(&store, MAIN, &["two"]).await).await.unwrap();
    // Each is only prepared: neither the other nor anybody's change waits for it.
    make(&store, "three", "https://example.com/", 2).await;
    assert!(store.write_prepared(second).await.pop().unwrap().is_ok());
    drop(first);
    assert_eq!(store.count_links(MAIN).await.unwrap(), 2);
    assert_eq!(test_store.count("select count(*) from link_search").await, 2);
    assert_eq!(test_store.count("select count(*) from link_tags").await, 1);
    assert_sound(&store).await;
}

async fn concurrent_imports_with_ids_write_each_link_once(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let texts: Vec<String> = (0..50).map(|number| format!("link-{number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let writes = imports(&store, MAIN, &texts).await;
    let (one, two) = tokio::join!(
        store.write_prepared(PreparedBatch::from(writes.clone())),
        other.write_prepared(PreparedBatch::from(writes)),
    );
    for outcome in one.iter().zip(&two) {
        let written_once = matches!(
            outcome,
            (Ok(Written::Created(_)), Err(StoreError::CodeTaken { .. }))
                | (Err(StoreError::CodeTaken { .. }), Ok(Written::Created(_)))
        );
        assert!(written_once, "{outcome:?}");
    }
    assert_nothing_without_its_link(&test_store, 50).await;
    assert_sound(&store).await;
}

/// What a database has not counted it may look for by reading everything.
#[tokio::test]
async fn postgres_tables_are_analyzed_after_a_large_import() {
    on_postgres(|test_store| async move {
        let store = test_store.open().await;
        test_store.raw("alter table links set (autovacuum_enabled = off)").await;
        let counted = "select cast(reltuples as bigint) from pg_class where relname = 'links'";
        import(&store, imports(&store, MAIN, &["one", "two", "three"]).await).await;
        assert_eq!(test_store.count(counted).await, -1, "nobody has yet");
        store.analyze().await;
        assert_eq!(test_store.count(counted).await, 3);
        store.close().await;
    })
    .await;
}
