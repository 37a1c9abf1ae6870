//! Many at once.

use rlinks_core::{Link, LinkState, Policy, Preset};
use rlinks_store::write::{Action, CodeChoice, LinkWrite, Written};
use rlinks_store::{Location, StoreError, StoreWriter};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, chosen, code, contract, create, draft, in_state, make, max, replace,
    slug, workspace,
};

contract!(
    concurrent_creations_of_one_code_make_one_link,
    concurrent_deletions_and_creations_of_a_code_keep_one_owner,
    live_link_limit_holds_under_concurrent_creations,
    concurrent_creations_in_several_workspaces_are_all_stored,
    failing_write_does_not_affect_others_of_its_group,
    cancelled_write_does_not_affect_others,
    concurrent_workspace_creations_all_succeed,
);

/// Sends all at once, through both stores in turn, and waits for all.
async fn all(stores: [&StoreWriter; 2], writes: Vec<LinkWrite>) -> Vec<Result<Written, StoreError>> {
    let sent: Vec<_> = writes
        .into_iter()
        .enumerate()
        .map(|(number, write)| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { store.write(write).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for one in sent {
        outcomes.push(one.await.unwrap());
    }
    outcomes
}

/// Hostile inputs, S33.
async fn concurrent_creations_of_one_code_make_one_link(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let writes =
        (0..50).map(|number| chosen("parity", &format!("https://example.com/{number}"), number)).collect();
    let (mut made, mut taken) = (0, 0);
    for outcome in all([&store, &other], writes).await {
        match outcome {
            Ok(Written::Created(_)) => made += 1,
            Err(StoreError::CodeTaken { deleted: false, .. }) => taken += 1,
            unexpected => panic!("{unexpected:?}"),
        }
    }
    assert_eq!((made, taken), (1, 49));
    assert_eq!(store.count_links(MAIN).await.unwrap(), 1);
    assert_sound(&store).await;
}

/// Hostile inputs, S33.
async fn concurrent_deletions_and_creations_of_a_code_keep_one_owner(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let mut writes = Vec::new();
    for number in 0..20 {
        writes.push(in_state(&link, LinkState::Deleted, number));
        writes.push(chosen("parity", "https://other.example/", number));
        writes.push(in_state(&link, LinkState::Disabled, number));
    }
    let mut changed = 0;
    for outcome in all([&store, &other], writes).await {
        match outcome {
            Ok(Written::Changed(_)) => changed += 1,
            Err(StoreError::CodeTaken { .. } | StoreError::Conflict) => {}
            unexpected => panic!("{unexpected:?}"),
        }
    }
    assert_eq!(changed, 1);
    assert_eq!(store.link(MAIN, &link.code).await.unwrap().unwrap().version, 2);
    assert_sound(&store).await;
}

async fn live_link_limit_holds_under_concurrent_creations(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let mut policy = Policy::preset(Preset::Edge);
    policy.limits.live_links = Some(10);
    let space = workspace(&store, "edge", policy).await.id;
    let writes = (0..50)
        .map(|number| {
            create(
                space,
                CodeChoice::Chosen(code(&format!("c{number}"))),
                draft("https://example.com/"),
                number,
            )
        })
        .collect();
    let (mut made, mut refused) = (0, 0);
    for outcome in all([&store, &other], writes).await {
        match outcome {
            Ok(Written::Created(_)) => made += 1,
            Err(StoreError::QuotaExceeded(10)) => refused += 1,
            unexpected => panic!("{unexpected:?}"),
        }
    }
    assert_eq!((made, refused), (10, 40));
    assert_eq!(store.count_links(space).await.unwrap(), 10);
    assert_sound(&store).await;
}

async fn concurrent_creations_in_several_workspaces_are_all_stored(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let mut spaces = vec![MAIN];
    for name in ["a", "b", "c"] {
        spaces.push(workspace(&store, name, Policy::preset(Preset::Platform)).await.id);
    }
    let writes = (0..1000_usize)
        .map(|number| {
            let choice = match number % 3 {
                0 => CodeChoice::FromId,
                1 => CodeChoice::Chosen(code(&format!("code-{number}"))),
                _ => CodeChoice::Candidates(vec![code("busy"), code(&format!("pick-{number}"))]),
            };
            create(spaces[number % 4], choice, draft(&format!("https://example.com/{number}")), 7)
        })
        .collect();
    let mut ids = std::collections::HashSet::new();
    for outcome in all([&store, &other], writes).await {
        let link = outcome.unwrap().link().clone();
        assert_eq!(store.link(link.workspace, &link.code).await.unwrap().as_ref(), Some(&link));
        ids.insert(link.id);
    }
    assert_eq!(ids.len(), 1000);
    for space in spaces {
        assert_eq!(store.count_links(space).await.unwrap(), 250);
    }
    assert_sound(&store).await;
}

async fn failing_write_does_not_affect_others_of_its_group(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "broken", Policy::preset(Preset::Fabric)).await;
    make(&store, "origin", "https://example.com/", 1).await;
    let first = make(&store, "first", "https://example.com/", 1).await;
    // One row nobody can read and the log does not know, one workspace nobody can read.
    test_store.raw("update links set state = 'nonsense', code = 'broken' where code = 'origin'").await;
    test_store.raw("update workspaces set policy = 'nonsense' where slug = 'broken'").await;
    let mut writes = Vec::new();
    for number in 0..20 {
        writes.push(chosen(&format!("good-{number}"), "https://example.com/", 2));
        writes.push(chosen("broken", "https://example.com/", 2));
        writes.push(create(space.id, CodeChoice::Chosen(code("x")), draft("https://example.com/"), 2));
        writes.push(replace(Link { version: 99, ..first.clone() }, Action::Update, 2));
    }
    let outcomes = all([&store, &store], writes).await;
    for four in outcomes.chunks(4) {
        assert!(matches!(four[0], Ok(Written::Created(_))), "{:?}", four[0]);
        assert!(matches!(four[1], Err(StoreError::Unreadable(_))), "{:?}", four[1]);
        assert!(matches!(four[2], Err(StoreError::Unreadable(_))), "{:?}", four[2]);
        assert!(matches!(four[3], Err(StoreError::Conflict)), "{:?}", four[3]);
    }
    assert_eq!(store.count_links(MAIN).await.unwrap(), 22);
    store.verify(&[]).await.unwrap().unwrap();
}

async fn cancelled_write_does_not_affect_others(test_store: TestStore) {
    let store = test_store.open().await;
    for number in 0..20 {
        let (left, stays) = (format!("left-{number}"), format!("stays-{number}"));
        let impatient = tokio::time::timeout(
            std::time::Duration::ZERO,
            store.write(chosen(&left, "https://example.com/", 1)),
        );
        let (_, patient) = tokio::join!(impatient, store.write(chosen(&stays, "https://example.com/", 1)));
        patient.unwrap();
    }
    assert_sound(&store).await;
}

async fn concurrent_workspace_creations_all_succeed(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let policy = || Policy::preset(Preset::Fabric);
    let actor = max();
    let make = |store: &StoreWriter, name: &str| {
        let (store, name, actor) = (store.clone(), name.to_owned(), actor.clone());
        async move { store.create_workspace(slug(&name), name, policy(), &actor, at(5)).await }
    };
    let (a, b, c, d) =
        tokio::join!(make(&store, "a"), make(&other, "b"), make(&other, "c"), make(&store, "c"));
    assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    let (winner, refused) = if c.is_ok() { (c, d) } else { (d, c) };
    winner.unwrap();
    assert!(matches!(refused, Err(StoreError::NameTaken(name)) if name == "c"));
    assert_eq!(store.workspaces().await.unwrap().len(), 4);
    assert_sound(&store).await;
}

/// A workspace that is deleted, or gets another limit, while a change waits for its lock: the change sees what is, not what was.
#[tokio::test]
async fn on_postgres_a_waiting_change_sees_the_current_policy() {
    crate::support::store::on_postgres(|test_store| async move {
        let store = test_store.open().await;
        let space = workspace(&store, "space", Policy::preset(Preset::Fabric)).await.id;
        let Location::Postgres(url) = &test_store.location else { panic!("a PostgreSQL test") };
        let mut foreign = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        let lock = format!("begin; select seq from heads where workspace_id = {space} for update");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut foreign).await.unwrap();
        let write = create(space, CodeChoice::Chosen(code("late")), draft("https://example.com/"), 2);
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.write(write).await }
        });
        while test_store.count("select count(*) from pg_locks where not granted").await == 0 {
            tokio::task::yield_now().await;
        }
        let delete = format!("update workspaces set deleted_at = 1 where id = {space}; commit");
        sqlx::raw_sql(sqlx::AssertSqlSafe(delete)).execute(&mut foreign).await.unwrap();
        foreign.close().await.unwrap();
        let outcome = waiting.await.unwrap();
        assert!(matches!(outcome, Err(StoreError::NotFound(_))), "{outcome:?}");
    })
    .await;
}
