//! Workspaces and domains.

use rlinks_core::{Actor, Domain, Id, Policy, Preset, Workspace};
use rlinks_store::StoreError;

use crate::support::store::{MAIN, TestStore, assert_sound, at, contract, host, make, max, slug, workspace};

contract!(
    workspace_is_created_changed_and_deleted_and_its_name_stays_taken,
    stale_workspace_update_is_a_conflict,
    workspace_update_keeps_immutable_fields,
    first_domain_is_primary_and_the_oldest_succeeds_it,
    a_domain_belongs_to_one_workspace,
    domain_requires_an_existing_workspace,
    served_hosts_include_every_domain,
);

async fn workspace_is_created_changed_and_deleted_and_its_name_stays_taken(test_store: TestStore) {
    let store = test_store.open().await;
    let made = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    assert_eq!(store.workspace(&slug("team")).await.unwrap().as_ref(), Some(&made));
    assert_eq!(store.workspace(&slug("nobody")).await.unwrap(), None);
    let next = Workspace { name: "Équipe".to_owned(), policy: Policy::preset(Preset::Edge), ..made.clone() };
    let next = store.update_workspace(&made, next, "workspace.update", &max(), at(5)).await.unwrap();
    assert_eq!((next.name.as_str(), next.updated_at, next.created_at), ("Équipe", at(5), at(0)));
    assert_eq!(store.workspace(&slug("team")).await.unwrap().as_ref(), Some(&next));
    let heads = store.heads().await.unwrap();
    let same = store.update_workspace(&next, next.clone(), "workspace.update", &max(), at(6)).await.unwrap();
    assert_eq!((same, store.heads().await.unwrap()), (next.clone(), heads), "no change, no entry");
    let gone = Workspace { deleted_at: Some(at(7)), ..next.clone() };
    let gone = store.update_workspace(&next, gone, "workspace.delete", &max(), at(7)).await.unwrap();
    assert_eq!(store.workspaces().await.unwrap().last(), Some(&gone));
    for taken in ["team", "main"] {
        let again = store
            .create_workspace(slug(taken), "Again".to_owned(), Policy::preset(Preset::Team), &max(), at(8))
            .await;
        assert!(matches!(&again, Err(StoreError::NameTaken(name)) if name == taken), "{again:?}");
    }
    let log = store.audit_after(gone.id, 0, 10).await.unwrap();
    let log: Vec<_> = log.iter().map(|entry| (entry.action.as_str(), entry.subject.as_str())).collect();
    let subject = "workspace:team";
    assert_eq!(
        log,
        [("workspace.create", subject), ("workspace.update", subject), ("workspace.delete", subject)]
    );
    assert_sound(&store).await;
}

async fn stale_workspace_update_is_a_conflict(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let seen = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    let named = |name: &str| Workspace { name: name.to_owned(), ..seen.clone() };
    let actor = max();
    let (a, b) = tokio::join!(
        store.update_workspace(&seen, named("a"), "workspace.update", &actor, at(1)),
        other.update_workspace(&seen, named("b"), "workspace.update", &actor, at(1))
    );
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    assert!(matches!(lost, Err(StoreError::Conflict)), "{lost:?}");
    assert_eq!(store.workspace(&seen.slug).await.unwrap(), Some(won.unwrap()));
    let nobody = Workspace { id: Id::from_i64(4711), ..seen.clone() };
    let error = store.update_workspace(&nobody, named("c"), "workspace.update", &actor, at(2)).await;
    assert!(matches!(error, Err(StoreError::Conflict)), "{error:?}");
}

async fn workspace_update_keeps_immutable_fields(test_store: TestStore) {
    let store = test_store.open().await;
    let seen = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    let forged =
        Workspace { id: MAIN, slug: slug("main"), name: "x".to_owned(), created_at: at(99), ..seen.clone() };
    let next = store.update_workspace(&seen, forged, "workspace.update", &max(), at(1)).await.unwrap();
    assert_eq!(next, Workspace { name: "x".to_owned(), updated_at: at(1), ..seen });
}

async fn first_domain_is_primary_and_the_oldest_succeeds_it(test_store: TestStore) {
    let store = test_store.open().await;
    let actor = max();
    let mut added = Vec::new();
    for (name, ms) in [("one.example", 1), ("two.example", 3), ("three.example", 2)] {
        added.push(store.add_domain(MAIN, host(name), &actor, at(ms)).await.unwrap());
    }
    assert_eq!(added.iter().map(|domain| domain.primary).collect::<Vec<_>>(), [true, false, false]);
    let heads = store.heads().await.unwrap();
    let again = store.add_domain(MAIN, host("two.example"), &actor, at(9)).await.unwrap();
    assert_eq!(
        (&again, &store.heads().await.unwrap()),
        (&added[1], &heads),
        "one's own again changes nothing"
    );
    let same = store.set_primary_domain(MAIN, &host("one.example"), &actor, at(9)).await.unwrap();
    assert_eq!((&same, &store.heads().await.unwrap()), (&added[0], &heads));
    let two = store.set_primary_domain(MAIN, &host("two.example"), &actor, at(10)).await.unwrap();
    assert_eq!(two, Domain { primary: true, ..added[1].clone() });
    let primaries = async || {
        let domains = store.domains().await.unwrap();
        domains
            .into_iter()
            .filter(|domain| domain.primary)
            .map(|domain| domain.host.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(primaries().await, ["two.example"]);
    store.remove_domain(MAIN, &host("three.example"), &actor, at(11)).await.unwrap();
    assert_eq!(primaries().await, ["two.example"]);
    store.add_domain(MAIN, host("three.example"), &actor, at(12)).await.unwrap();
    store.remove_domain(MAIN, &host("two.example"), &actor, at(13)).await.unwrap();
    assert_eq!(primaries().await, ["one.example"], "the oldest of the rest");
    let log = store.audit_before(MAIN, i64::MAX, 2).await.unwrap();
    let log: Vec<_> = log.iter().map(|entry| (entry.action.as_str(), entry.subject.as_str())).collect();
    assert_eq!(log, [("domain.primary", "domain:one.example"), ("domain.remove", "domain:two.example")]);
    for name in ["one.example", "three.example"] {
        store.remove_domain(MAIN, &host(name), &actor, at(14)).await.unwrap();
    }
    assert!(store.domains().await.unwrap().is_empty());
    for outcome in [
        store.remove_domain(MAIN, &host("one.example"), &actor, at(15)).await,
        store.set_primary_domain(MAIN, &host("one.example"), &actor, at(15)).await.map(drop),
    ] {
        assert!(matches!(outcome, Err(StoreError::NotFound(_))), "{outcome:?}");
    }
    assert_sound(&store).await;
}

async fn a_domain_belongs_to_one_workspace(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await.id;
    let actor = max();
    let (a, b) = tokio::join!(
        store.add_domain(MAIN, host("one.example"), &actor, at(1)),
        other.add_domain(space, host("ONE.example."), &actor, at(1))
    );
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    assert!(matches!(&lost, Err(StoreError::NameTaken(name)) if name == "one.example"), "{lost:?}");
    let owner = won.unwrap().workspace;
    let stranger = if owner == MAIN { space } else { MAIN };
    let not_theirs = store.remove_domain(stranger, &host("one.example"), &actor, at(2)).await;
    assert!(matches!(not_theirs, Err(StoreError::NotFound(_))), "{not_theirs:?}");
    let not_theirs = store.set_primary_domain(stranger, &host("one.example"), &actor, at(2)).await;
    assert!(matches!(not_theirs, Err(StoreError::NotFound(_))), "{not_theirs:?}");
    // Given up by one, free for the other.
    store.remove_domain(owner, &host("one.example"), &actor, at(3)).await.unwrap();
    let taken = store.add_domain(stranger, host("one.example"), &actor, at(4)).await.unwrap();
    assert_eq!((taken.workspace, taken.primary), (stranger, true));
    assert_sound(&store).await;
}

async fn domain_requires_an_existing_workspace(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    store.add_domain(space.id, host("old.example"), &max(), at(1)).await.unwrap();
    let gone = Workspace { deleted_at: Some(at(1)), ..space.clone() };
    store.update_workspace(&space, gone, "workspace.delete", &max(), at(1)).await.unwrap();
    for id in [space.id, Id::from_i64(4711)] {
        let outcome = store.add_domain(id, host("new.example"), &max(), at(2)).await;
        assert!(matches!(outcome, Err(StoreError::NotFound(_))), "{outcome:?}");
    }
    store.remove_domain(space.id, &host("old.example"), &max(), at(3)).await.unwrap();
    assert!(store.domains().await.unwrap().is_empty());
}

async fn served_hosts_include_every_domain(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    store.add_domain(MAIN, host("rmax.to"), &max(), at(2)).await.unwrap();
    let served = store.served_hosts(Some(&host("links.example"))).await.unwrap();
    assert!(served.contains("rmax.to") && served.contains("main.links.example"));
    assert!(!served.contains("example.com"));
    assert!(!store.served_hosts(None).await.unwrap().contains("main.links.example"));
    // What a workspace says of itself counts for nobody else; what the operator says does, and `main` is the operator's.
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await.id;
    let key = Actor::from_key(Id::from_i64(7));
    for (workspace, name, actor) in
        [(MAIN, "go.example", &key), (space, "claimed.example", &key), (space, "given.example", &max())]
    {
        store.add_domain(workspace, host(name), actor, at(3)).await.unwrap();
    }
    let ours = ["rmax.to", "go.example", "given.example"].map(host);
    assert_eq!(store.operator_hosts().await.unwrap(), ours.into());
    // The last word counts.
    store.remove_domain(space, &host("given.example"), &key, at(4)).await.unwrap();
    store.add_domain(space, host("given.example"), &key, at(5)).await.unwrap();
    assert!(!store.served_hosts(None).await.unwrap().contains("given.example"));
}
