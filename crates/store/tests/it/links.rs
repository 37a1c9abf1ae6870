//! Making and changing links.

use rlinks_core::draft::code_generator;
use rlinks_core::{Link, LinkSource, LinkState, Policy, Preset, RedirectStatus};
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{Dialect, LinkFilter, StoreError};
use serde_json::json;

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, changed, chosen, code, codes, contract, create, created, draft,
    in_state, make, max, object, recreate, replace, signer, target, workspace,
};

contract!(
    link_is_stored_with_all_its_fields,
    taken_code_error_says_whether_its_link_is_deleted,
    concurrent_updates_of_one_version_give_one_change_and_one_conflict,
    a_change_that_changes_nothing_writes_nothing,
    update_keeps_immutable_fields,
    state_changes_are_stored_and_counted,
    recreated_link_has_a_new_id_and_continues_the_version,
    only_a_deleted_link_is_recreated,
    write_in_order_applies_writes_one_after_another,
    first_free_candidate_code_is_used,
    code_from_an_id_skips_codes_already_taken,
    chosen_codes_are_unique_ignoring_case_where_the_policy_says_so,
    ids_and_entry_times_increase_when_the_clock_goes_back,
    a_workspace_cannot_touch_anothers_links,
    write_to_a_missing_workspace_is_not_found,
    links_are_read_in_pages_by_id_and_in_bulk_by_code,
    unreadable_row_is_an_error_and_hides_no_other,
    broken_row_is_read_from_the_log_and_repaired_by_any_change,
    links_that_target_a_host_are_found,
    routes_hold_only_what_a_redirect_needs,
    link_is_read_as_of_an_earlier_time,
    live_link_limit_counts_restored_links,
);

async fn link_is_stored_with_all_its_fields(test_store: TestStore) {
    let store = test_store.open().await;
    let mut wanted = draft("https://example.com/ü?q=\"a'b\\c\"&x=%00#frag");
    wanted.redirect_status = RedirectStatus::PermanentRedirect;
    wanted.expires_at = Some(at(10_000));
    wanted.title = Some("O'Reilly \"quoted\" \\ 漢字 🦀 {\"a\":[1]}".to_owned());
    wanted.notes = Some("line\nline\ttab\r\u{85}\u{2028}".to_owned());
    wanted.tags = vec!["Ärger".to_owned(), "a b".to_owned(), "a'b\"c".to_owned()];
    wanted.https_only = true;
    wanted.no_loop = false;
    wanted.metadata =
        object(json!({ "n": 1.5, "big": u64::MAX, "deep": { "list": [null, true, "\u{1f980}"] }, "": "" }));
    let write = LinkWrite::new(
        MAIN,
        max(),
        at(5),
        LinkOp::Create {
            draft: wanted.clone(),
            code: CodeChoice::Chosen(code("Everything_-1")),
            source: LinkSource::Import,
            on_conflict: OnConflict::Refuse,
        },
    );
    let link = created(store.write(write).await);
    assert_eq!(store.link(MAIN, &code("Everything_-1")).await.unwrap().as_ref(), Some(&link));
    assert_eq!((link.version, link.generated, link.state), (1, false, LinkState::Active));
    assert_eq!((link.created_at, link.updated_at, link.source), (at(5), at(5), LinkSource::Import));
    assert_eq!((link.target.clone(), link.redirect_status), (wanted.target, wanted.redirect_status));
    assert_eq!((link.title.clone(), link.notes.clone()), (wanted.title, wanted.notes));
    assert_eq!((link.tags.clone(), link.metadata.clone()), (wanted.tags, wanted.metadata));
    assert_eq!((link.https_only, link.no_loop, link.expires_at), (true, false, Some(at(10_000))));
    assert_eq!(link.created_by, max());
    assert_eq!(store.link(MAIN, &code("everything_-1")).await.unwrap(), None, "a code has its case");
    assert_eq!(store.link_at(MAIN, &link.code, at(5)).await.unwrap(), Some(link));
    assert_sound(&store).await;
}

async fn taken_code_error_says_whether_its_link_is_deleted(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let taken = |deleted| move |error: &StoreError| matches!(error, StoreError::CodeTaken { code, deleted: found } if code == "parity" && *found == deleted);
    let again = store.write(chosen("parity", "https://example.org/", 2)).await.unwrap_err();
    assert!(taken(false)(&again), "{again:?}");
    let link = changed(store.write(in_state(&link, LinkState::Deleted, 3)).await);
    let again = store.write(chosen("parity", "https://example.org/", 4)).await.unwrap_err();
    assert!(taken(true)(&again), "{again:?}");
    assert_eq!(store.link(MAIN, &code("parity")).await.unwrap(), Some(link));
    assert_eq!(store.heads().await.unwrap()[0].1.seq, 3, "a refusal leaves no entry");
}

async fn concurrent_updates_of_one_version_give_one_change_and_one_conflict(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let to = |url: &str| replace(Link { target: target(url), ..link.clone() }, Action::Update, 2);
    let (a, b) = tokio::join!(store.write(to("https://a.example/")), other.write(to("https://b.example/")));
    let winner = match (a, b) {
        (Ok(Written::Changed(link)), Err(StoreError::Conflict))
        | (Err(StoreError::Conflict), Ok(Written::Changed(link))) => link,
        both => panic!("{both:?}"),
    };
    assert_eq!(store.link(MAIN, &link.code).await.unwrap().as_ref(), Some(&winner));
    assert_eq!(winner.version, 2);
    // In one store too, where both are members of one group.
    let to = |url: &str| replace(Link { target: target(url), ..winner.clone() }, Action::Update, 3);
    let (a, b) = tokio::join!(store.write(to("https://c.example/")), store.write(to("https://d.example/")));
    assert!(
        matches!(
            (&a, &b),
            (Ok(Written::Changed(_)), Err(StoreError::Conflict))
                | (Err(StoreError::Conflict), Ok(Written::Changed(_)))
        ),
        "{a:?} {b:?}"
    );
    assert_eq!(store.history(MAIN, &link.code).await.unwrap().len(), 3);
    assert_sound(&store).await;
}

async fn a_change_that_changes_nothing_writes_nothing(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let heads = store.heads().await.unwrap();
    let written = store.write(replace(link.clone(), Action::Update, 99)).await.unwrap();
    assert_eq!(written, Written::Unchanged(link.clone()));
    assert_eq!(store.heads().await.unwrap(), heads);
    assert_eq!(store.link(MAIN, &link.code).await.unwrap(), Some(link));
}

async fn update_keeps_immutable_fields(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let forged = Link {
        id: rlinks_core::Id::from_i64(7),
        generated: true,
        source: LinkSource::Web,
        created_by: rlinks_core::Actor::operator("mallory"),
        created_at: at(900),
        updated_at: at(901),
        title: Some("new".to_owned()),
        ..link.clone()
    };
    let next = changed(store.write(replace(forged, Action::Update, 2)).await);
    let expected = Link { title: Some("new".to_owned()), version: 2, updated_at: at(2), ..link };
    assert_eq!(next, expected);
    assert_eq!(store.link(MAIN, &expected.code).await.unwrap(), Some(expected));
    let nobody = Link { code: code("nobody"), ..next };
    let error = store.write(replace(nobody, Action::Update, 3)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
}

async fn state_changes_are_stored_and_counted(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "other", "https://example.com/", 0).await;
    let mut link = make(&store, "parity", "https://example.com/", 1).await;
    let steps = [
        (LinkState::Disabled, 2),
        (LinkState::Active, 2),
        (LinkState::Deleted, 1),
        (LinkState::Active, 2),
        (LinkState::Disabled, 2),
        (LinkState::Deleted, 1),
        (LinkState::Disabled, 2),
    ];
    for ((state, count), ms) in steps.into_iter().zip(2..) {
        link = changed(store.write(in_state(&link, state, ms)).await);
        assert_eq!((link.state, store.count_links(MAIN).await.unwrap()), (state, count));
        assert_eq!(store.link(MAIN, &link.code).await.unwrap().as_ref(), Some(&link));
    }
    let actions: Vec<_> =
        store.history(MAIN, &link.code).await.unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        [
            "link.create",
            "link.disable",
            "link.enable",
            "link.delete",
            "link.restore",
            "link.disable",
            "link.delete",
            "link.restore"
        ]
    );
    let last = store.last_entry(MAIN, &link.code, "link.delete").await.unwrap().unwrap();
    assert!(last.before.unwrap().get().contains("disabled"), "the second deletion");
    assert!(store.last_entry(MAIN, &link.code, "link.recreate").await.unwrap().is_none());
    assert_eq!(store.last_change(MAIN).await.unwrap(), Some(at(8)));
    assert_sound(&store).await;
}

async fn recreated_link_has_a_new_id_and_continues_the_version(test_store: TestStore) {
    let store = test_store.open().await;
    let mut wanted = draft("https://old.example/");
    (wanted.tags, wanted.title) = (vec!["oldtag".to_owned()], Some("oldtitle".to_owned()));
    let old = created(store.write(create(MAIN, CodeChoice::Chosen(code("parity")), wanted, 1)).await);
    let old = changed(store.write(in_state(&old, LinkState::Deleted, 2)).await);
    let new = created(store.write(recreate("parity", "https://new.example/", 3)).await);
    assert!(new.id > old.id);
    assert_eq!((new.version, new.created_at, new.state), (3, at(3), LinkState::Active));
    assert_eq!((new.tags.len(), new.title.clone()), (0, None));
    let found = async |filter: LinkFilter| store.list(MAIN, &filter, 10).await.unwrap().len();
    let words = |text: &str| LinkFilter {
        words: rlinks_core::link::search::parse_query(text),
        ..LinkFilter::default()
    };
    assert_eq!(found(words("oldtitle")).await, 0);
    assert_eq!(found(words("old.example")).await, 0);
    assert_eq!(found(words("new.example")).await, 1);
    assert_eq!(found(LinkFilter { tag: Some("oldtag".to_owned()), ..LinkFilter::default() }).await, 0);
    assert_eq!(test_store.count("select count(*) from link_search").await, 1);
    assert_eq!(test_store.count("select count(*) from link_tags").await, 0);
    assert_eq!(store.count_links(MAIN).await.unwrap(), 1);
    let history = store.history(MAIN, &new.code).await.unwrap();
    assert_eq!(history.last().unwrap().action, "link.recreate");
    // The old one can no longer be changed by whoever still has it in hand.
    let stale = store.write(in_state(&old, LinkState::Active, 4)).await.unwrap_err();
    assert!(matches!(stale, StoreError::Conflict), "{stale:?}");
    assert_sound(&store).await;
}

async fn only_a_deleted_link_is_recreated(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    for state in [LinkState::Disabled, LinkState::Active] {
        let now = store.link(MAIN, &link.code).await.unwrap().unwrap();
        changed(store.write(in_state(&now, state, 2)).await);
        let error = store.write(recreate("parity", "https://new.example/", 3)).await.unwrap_err();
        assert!(matches!(error, StoreError::CodeTaken { deleted: false, .. }), "{error:?}");
    }
    // Where nothing was, it is a plain creation.
    let fresh = created(store.write(recreate("fresh", "https://new.example/", 4)).await);
    assert_eq!(fresh.version, 1);
    assert_eq!(store.history(MAIN, &fresh.code).await.unwrap()[0].action, "link.create");
}

async fn write_in_order_applies_writes_one_after_another(test_store: TestStore) {
    let store = test_store.open().await;
    // More than one commit takes.
    let writes = (0..600).map(|n| chosen(&format!("code-{}", n / 3), &format!("https://example.com/{n}"), 1));
    let results = store.write_in_order(writes.collect()).await;
    assert_eq!(results.len(), 600);
    for (n, result) in results.into_iter().enumerate() {
        match result {
            Ok(Written::Created(link)) if n % 3 == 0 => {
                assert_eq!(link.target.as_str(), format!("https://example.com/{n}"));
            }
            Err(StoreError::CodeTaken { deleted: false, .. }) if n % 3 > 0 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_sound(&store).await;
}

async fn first_free_candidate_code_is_used(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "aaaaaaa", "https://example.com/", 1).await;
    let gone = make(&store, "bbbbbbb", "https://example.com/", 1).await;
    changed(store.write(in_state(&gone, LinkState::Deleted, 1)).await);
    let pick = |list: &[&str]| CodeChoice::Candidates(list.iter().map(|text| code(text)).collect());
    let one =
        create(MAIN, pick(&["aaaaaaa", "bbbbbbb", "ccccccc", "ddddddd"]), draft("https://a.example/"), 2);
    let link = created(store.write(one).await);
    assert_eq!((link.code.as_str(), link.generated), ("ccccccc", true), "a deleted link's code is taken too");
    let none = create(MAIN, pick(&["aaaaaaa", "ccccccc"]), draft("https://a.example/"), 3);
    let error = store.write(none).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict), "{error:?}");
    // Members of one group see each other's choices.
    let same = || create(MAIN, pick(&["xxxxxxx", "yyyyyyy"]), draft("https://a.example/"), 4);
    let (a, b) = tokio::join!(store.write(same()), store.write(same()));
    let mut got = [created(a).code.to_string(), created(b).code.to_string()];
    got.sort();
    assert_eq!(got, ["xxxxxxx", "yyyyyyy"]);
}

async fn code_from_an_id_skips_codes_already_taken(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "platform", Policy::preset(Preset::Platform)).await.id;
    let from_id = |ms| create(space, CodeChoice::FromId, draft("https://example.com/"), ms);
    let first = created(store.write(from_id(100)).await);
    assert_eq!(first.code.as_str(), rlinks_core::base62::encode(first.id.as_u64()));
    assert!(first.generated);
    // Somebody chooses what the next two ids will spell, in a workspace of their own and in this one.
    let spelt =
        |step: i64| code_generator::from_id(rlinks_core::Id::from_i64(first.id.as_i64() + step)).unwrap();
    for step in [2, 3] {
        let alias = create(space, CodeChoice::Chosen(spelt(step)), draft("https://a.example/"), 1);
        created(store.write(alias).await);
    }
    let next = created(store.write(from_id(100)).await);
    assert_eq!(next.code.as_str(), rlinks_core::base62::encode(next.id.as_u64()));
    assert!(next.id > first.id && next.code != spelt(2) && next.code != spelt(3));
    // In a group too: each member falls back to looking ahead by itself.
    let ahead = code_generator::from_id(rlinks_core::Id::from_i64(next.id.as_i64() + 2)).unwrap();
    created(store.write(create(space, CodeChoice::Chosen(ahead), draft("https://a.example/"), 1)).await);
    let (a, b, c) =
        tokio::join!(store.write(from_id(100)), store.write(from_id(100)), store.write(from_id(100)));
    let made = [created(a), created(b), created(c)];
    for link in &made {
        assert_eq!(link.code.as_str(), rlinks_core::base62::encode(link.id.as_u64()));
    }
    assert_eq!(store.count_links(space).await.unwrap(), 8);
    assert_sound(&store).await;
}

async fn chosen_codes_are_unique_ignoring_case_where_the_policy_says_so(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "platform", Policy::preset(Preset::Platform)).await.id;
    let alias = |text: &str| create(space, CodeChoice::Chosen(code(text)), draft("https://example.com/"), 1);
    let link = created(store.write(alias("Promo")).await);
    let taken = |error: &StoreError| matches!(error, StoreError::CodeTaken { code, .. } if code == "Promo");
    assert!(taken(&store.write(alias("pROMO")).await.unwrap_err()));
    assert!(taken(&store.write(alias("Promo")).await.unwrap_err()));
    let (a, b) = tokio::join!(store.write(alias("Sale")), store.write(alias("SALE")));
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    changed(store.write(in_state(&link, LinkState::Deleted, 2)).await);
    assert!(
        taken(&store.write(alias("PROMO")).await.unwrap_err()),
        "a deleted alias keeps its name in any case"
    );
    // Compared with aliases only: a generated code may differ by case alone.
    let made = create(space, CodeChoice::Candidates(vec![code("abcDEF")]), draft("https://example.com/"), 3);
    created(store.write(made).await);
    created(store.write(alias("ABCdef")).await);
    // Elsewhere case is a difference.
    make(&store, "Promo", "https://example.com/", 4).await;
    make(&store, "promo", "https://example.com/", 4).await;
}

async fn ids_and_entry_times_increase_when_the_clock_goes_back(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let mut links = Vec::new();
    for (step, ms) in [5000, 4000, 4000, 0, 4999, 5000, 5001, 1].into_iter().enumerate() {
        let store = if matches!(test_store.location, rlinks_store::Location::Sqlite(_)) && step % 2 == 1 {
            &other
        } else {
            &store
        };
        links.push(make(store, &format!("code-{step}"), "https://example.com/", ms).await);
    }
    for pair in links.windows(2) {
        assert!(pair[1].id > pair[0].id, "{} then {}", pair[0].id, pair[1].id);
        assert!(pair[1].created_at >= pair[0].created_at);
    }
    let mut newest_first = store.list(MAIN, &LinkFilter::default(), 100).await.unwrap();
    newest_first.reverse();
    assert_eq!(newest_first, links, "the list has the order in which links were made");
    // Two processes have ids of their own even at the same moment.
    let (a, b) = tokio::join!(
        store.write(chosen("here", "https://example.com/", 0)),
        other.write(chosen("there", "https://example.com/", 0))
    );
    assert_ne!(created(a).id, created(b).id);
    assert_sound(&store).await;
}

async fn a_workspace_cannot_touch_anothers_links(test_store: TestStore) {
    let store = test_store.open().await;
    let theirs = make(&store, "parity", "https://example.com/", 1).await;
    let space = workspace(&store, "mallory", Policy::preset(Preset::Fabric)).await.id;
    assert_eq!(store.link(space, &theirs.code).await.unwrap(), None);
    assert!(store.links(space, &["parity".to_owned()]).await.unwrap().is_empty());
    assert!(store.history(space, &theirs.code).await.unwrap().is_empty());
    assert_eq!(store.link_at(space, &theirs.code, at(9)).await.unwrap(), None);
    let write = LinkWrite {
        workspace: space,
        ..replace(Link { target: target("https://evil.example/"), ..theirs.clone() }, Action::Update, 2)
    };
    let error = store.write(write).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    let own = created(
        store
            .write(create(space, CodeChoice::Chosen(code("parity")), draft("https://own.example/"), 3))
            .await,
    );
    assert_eq!(store.link(MAIN, &theirs.code).await.unwrap(), Some(theirs));
    assert_eq!(store.link(space, &own.code).await.unwrap(), Some(own));
}

async fn write_to_a_missing_workspace_is_not_found(test_store: TestStore) {
    let store = test_store.open().await;
    let nowhere = rlinks_core::Id::from_i64(4711);
    let write = create(nowhere, CodeChoice::Chosen(code("parity")), draft("https://example.com/"), 1);
    let error = store.write(write).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    let space = workspace(&store, "gone", Policy::preset(Preset::Fabric)).await;
    let next = rlinks_core::Workspace { deleted_at: Some(at(2)), ..space.clone() };
    store.update_workspace(&space, next, "workspace.delete", &max(), at(2)).await.unwrap();
    let write = create(space.id, CodeChoice::Chosen(code("parity")), draft("https://example.com/"), 3);
    let error = store.write(write).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    assert_eq!(store.count_links(nowhere).await.unwrap(), 0);
    assert_eq!(store.last_change(nowhere).await.unwrap(), None);
}

async fn links_are_read_in_pages_by_id_and_in_bulk_by_code(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "other", Policy::preset(Preset::Fabric)).await.id;
    let mut made = Vec::new();
    for number in 0..10 {
        let home = if number % 3 == 0 { space } else { MAIN };
        let write = create(
            home,
            CodeChoice::Chosen(code(&format!("c{number}"))),
            draft("https://example.com/"),
            number,
        );
        made.push(created(store.write(write).await));
    }
    let (mut read, mut after) = (Vec::new(), Some(rlinks_core::Id::from_i64(0)));
    while let Some(from) = after {
        let (page, next) = store.links_by_id(from, 4).await.unwrap();
        assert!(page.len() <= 4);
        read.extend(page);
        after = next;
    }
    assert_eq!(read, made);
    let wanted = ["c1", "c2", "c3", "c9", "nothing", "", "'; drop table links; --"].map(str::to_owned);
    let mut found = store.links(MAIN, &wanted).await.unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let found: Vec<_> = found.into_iter().map(|(code, link)| (code, link.unwrap())).collect();
    assert_eq!(found, [("c1".to_owned(), made[1].clone()), ("c2".to_owned(), made[2].clone())]);
    assert!(store.links(MAIN, &[]).await.unwrap().is_empty());
}

async fn unreadable_row_is_an_error_and_hides_no_other(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "good", "https://example.com/", 1).await;
    make(&store, "bad", "https://example.com/", 2).await;
    test_store.raw("update links set target = 'javascript:alert(1)' where code = 'bad'").await;
    // With the log broken too there is nothing left to read.
    test_store.raw("update audit set after = '{}' where subject = 'link:bad'").await;
    let error = store.link(MAIN, &code("bad")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unreadable(what) if what.contains("`bad`")), "{error:?}");
    let mut found = store.links(MAIN, &["good".to_owned(), "bad".to_owned()]).await.unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(matches!(found[0].1, Err(StoreError::Unreadable(_))));
    assert!(found[1].1.is_ok());
    let (page, _) = store.links_by_id(rlinks_core::Id::from_i64(0), 10).await.unwrap();
    assert_eq!(codes(&page), ["good"]);
    let first = store.list(MAIN, &LinkFilter::default(), 1).await.unwrap();
    assert_eq!(codes(&first), ["good"], "a page is as long as it was asked for while there is more");
    let (kept, broken) = tokio::join!(
        store.write(chosen("new", "https://example.com/", 3)),
        store.write(recreate("bad", "https://example.com/", 3))
    );
    created(kept);
    assert!(matches!(broken, Err(StoreError::Unreadable(_))), "{broken:?}");
    let saved = store.backup(std::io::sink(), &signer(), at(9)).await.unwrap();
    assert_eq!(saved.links, 2);
    assert_eq!(store.links_differing_from_log().await.unwrap(), ["bad"]);
}

async fn broken_row_is_read_from_the_log_and_repaired_by_any_change(test_store: TestStore) {
    let store = test_store.open().await;
    let good = make(&store, "good", "https://example.com/", 1).await;
    let mut bad = make(&store, "bad", "https://example.com/", 2).await;
    let mut edits = vec![
        "target = 'javascript:alert(1)'",
        "target = 'javascript:alert(1)', version = 77",
        "redirect_status = 200",
        "state = 'lost', tags = '[]'",
        "tags = 'none', metadata = ''",
    ];
    if store.dialect() == Dialect::Sqlite {
        edits.extend(["redirect_status = 'three'", "created_at = 'long ago', version = x'00'"]);
    }
    for (round, edit) in edits.into_iter().enumerate() {
        let ms = 10 + 10 * i64::try_from(round).unwrap();
        test_store.raw(&format!("update links set {edit} where code = 'bad'")).await;
        assert_eq!(store.links_differing_from_log().await.unwrap(), ["bad"], "{edit}");
        assert_eq!(store.link(MAIN, &bad.code).await.unwrap().as_ref(), Some(&bad), "{edit}");
        let found = store.links(MAIN, &["bad".to_owned()]).await.unwrap();
        assert_eq!(found[0].1.as_ref().unwrap(), &bad);
        let (page, _) = store.links_by_id(rlinks_core::Id::from_i64(0), 10).await.unwrap();
        assert_eq!(page, [good.clone(), bad.clone()]);
        assert_eq!(store.list(MAIN, &LinkFilter::default(), 10).await.unwrap().len(), 2);
        let file = test_store.folder().join("backup");
        store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(ms)).await.unwrap();
        assert_eq!(rlinks_store::backup::verify(&file).unwrap().counts.links, 2);
        // Also a change to what the log says already: the row is written, and followers hear of it.
        bad = changed(match round % 3 {
            0 => store.write(replace(bad.clone(), Action::Update, ms)).await,
            1 => store.write(in_state(&bad, LinkState::Disabled, ms)).await,
            _ => store.write(in_state(&bad, LinkState::Active, ms)).await,
        });
        assert_eq!(store.route(MAIN, "bad").await.unwrap().unwrap().version, bad.version);
        assert_eq!(store.link(MAIN, &bad.code).await.unwrap().as_ref(), Some(&bad));
        assert_sound(&store).await;
        let same = store.write(replace(bad.clone(), Action::Update, ms + 1)).await.unwrap();
        assert!(matches!(same, Written::Unchanged(_)), "{same:?}");
    }
    let gone = changed(store.write(in_state(&bad, LinkState::Deleted, 500)).await);
    test_store.raw("update links set target = '' where code = 'bad'").await;
    let new = created(store.write(recreate("bad", "https://new.example/", 501)).await);
    assert_eq!(new.version, gone.version + 1);
    assert_eq!(store.count_links(MAIN).await.unwrap(), 2);
    assert_sound(&store).await;
}

async fn links_that_target_a_host_are_found(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await.id;
    for (number, url) in [
        "https://rmax.to/a",
        "http://rmax.to:8080/?x",
        "https://rmax.to./b#c",
        "https://rmax.tools/",
        "https://www.rmax.to/",
        "https://example.com/?to=https://rmax.to/",
        "https://a_b.example/",
        "https://axb.example/",
    ]
    .into_iter()
    .enumerate()
    {
        make(&store, &format!("c{number}"), url, 1).await;
    }
    let gone = make(&store, "gone", "https://rmax.to/", 2).await;
    changed(store.write(in_state(&gone, LinkState::Deleted, 3)).await);
    let team = create(space, CodeChoice::Chosen(code("theirs")), draft("https://rmax.to/"), 4);
    created(store.write(team).await);
    let found = async |name: &str, limit| {
        let found =
            store.links_leading_to(&rlinks_core::Host::from_stored(name.to_owned()), limit).await.unwrap();
        found.into_iter().map(|(space, code)| (space, code.to_string())).collect::<Vec<_>>()
    };
    let main = |text: &str| (MAIN, text.to_owned());
    let all = [main("c0"), main("c1"), main("c2"), (space, "theirs".to_owned())];
    assert_eq!(found("rmax.to", 10).await, all);
    assert_eq!(found("rmax.to", 2).await, all[..2]);
    assert_eq!(found("a_b.example", 10).await, [main("c6")]);
    assert_eq!(found("nothing.example", 10).await, []);
}

async fn routes_hold_only_what_a_redirect_needs(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "other", Policy::preset(Preset::Fabric)).await.id;
    let mut made = Vec::new();
    for number in 0..7 {
        let mut wanted = draft(&format!("https://example.com/{number}"));
        wanted.redirect_status = RedirectStatus::TemporaryRedirect;
        (wanted.https_only, wanted.no_loop) = (number % 2 == 0, number % 2 == 1);
        wanted.expires_at = (number % 3 == 0).then(|| at(500 + number));
        let home = if number == 3 { space } else { MAIN };
        let write = create(home, CodeChoice::Chosen(code(&format!("c{number}"))), wanted, number);
        made.push(created(store.write(write).await));
    }
    made[1] = changed(store.write(in_state(&made[1], LinkState::Disabled, 10)).await);
    made[2] = changed(store.write(in_state(&made[2], LinkState::Deleted, 11)).await);
    test_store.raw("update links set redirect_status = 200 where code = 'c5'").await;
    let broken = store.route(MAIN, "c5").await.unwrap_err();
    assert!(matches!(broken, StoreError::Unreadable(_)), "{broken:?}");
    assert_eq!(store.route(MAIN, "c3").await.unwrap(), None, "it is another workspace's");
    assert_eq!(store.route(MAIN, "nothing").await.unwrap(), None);
    for link in made.iter().filter(|link| link.code.as_str() != "c5") {
        let route = store.route(link.workspace, link.code.as_str()).await.unwrap().unwrap();
        assert_eq!(format!("{:?}", route.route()), format!("{:?}", link.route()));
        assert_eq!((route.id, route.workspace, &route.code), (link.id, link.workspace, &link.code));
        assert_eq!(route.version, link.version);
    }
    let wanted = ["c0", "c3", "c5", "c6", "x"].map(str::to_owned);
    let mut routes: Vec<_> =
        store.routes(MAIN, &wanted).await.unwrap().into_iter().map(|route| route.id).collect();
    routes.sort();
    assert_eq!(routes, [made[0].id, made[6].id], "one that cannot be read hides no other");
    let (mut read, mut after) = (Vec::new(), Some(rlinks_core::Id::from_i64(0)));
    while let Some(from) = after {
        let (page, next) = store.routes_after(from, 3).await.unwrap();
        read.extend(page.into_iter().map(|route| route.id));
        after = next;
    }
    let expected: Vec<_> =
        made.iter().filter(|link| link.code.as_str() != "c5").map(|link| link.id).collect();
    assert_eq!(read, expected);
}

async fn link_is_read_as_of_an_earlier_time(test_store: TestStore) {
    let store = test_store.open().await;
    let one = make(&store, "parity", "https://one.example/", 100).await;
    let two = changed(
        store
            .write(replace(
                Link { target: target("https://two.example/"), ..one.clone() },
                Action::Update,
                200,
            ))
            .await,
    );
    let gone = changed(store.write(in_state(&two, LinkState::Deleted, 300)).await);
    let new = created(store.write(recreate("parity", "https://three.example/", 400)).await);
    let was = async |ms| store.link_at(MAIN, &code("parity"), at(ms)).await.unwrap();
    assert_eq!(was(0).await, None);
    assert_eq!(was(99).await, None);
    assert_eq!(was(100).await, Some(one.clone()));
    assert_eq!(was(199).await, Some(one));
    assert_eq!(was(200).await, Some(two.clone()));
    assert_eq!(was(299).await, Some(two));
    assert_eq!(was(300).await, Some(gone.clone()));
    assert_eq!(was(399).await, Some(gone));
    assert_eq!(was(400).await, Some(new.clone()));
    assert_eq!(was(1_000_000).await, Some(new));
    assert_eq!(store.link_at(MAIN, &code("other"), at(400)).await.unwrap(), None);
}

async fn live_link_limit_counts_restored_links(test_store: TestStore) {
    let store = test_store.open().await;
    let mut policy = Policy::preset(Preset::Edge);
    policy.limits.live_links = Some(2);
    let space = workspace(&store, "edge", policy).await.id;
    let new =
        |text: &str, ms| create(space, CodeChoice::Chosen(code(text)), draft("https://example.com/"), ms);
    let full = |outcome: Result<Written, StoreError>| {
        assert!(matches!(outcome, Err(StoreError::QuotaExceeded(2))), "{outcome:?}");
    };
    let mut short = draft("https://example.com/");
    short.expires_at = Some(at(100));
    let expiring = created(store.write(create(space, CodeChoice::Chosen(code("short")), short, 1)).await);
    let a = created(store.write(new("a", 1)).await);
    full(store.write(new("b", 100)).await);
    // Served at the instant of expiry, gone after it: then there is room.
    let b = created(store.write(new("b", 101)).await);
    full(store.write(new("c", 102)).await);
    let longer = Link { expires_at: Some(at(900)), ..expiring.clone() };
    full(store.write(replace(longer.clone(), Action::Update, 103)).await);
    // What is dead and stays dead may still be renamed, and a live one changed.
    let renamed = Link { title: Some("later".to_owned()), ..expiring.clone() };
    changed(store.write(replace(renamed, Action::Update, 104)).await);
    let a = changed(store.write(in_state(&a, LinkState::Disabled, 105)).await);
    full(store.write(new("c", 106)).await);
    let a = changed(store.write(in_state(&a, LinkState::Deleted, 107)).await);
    let c = created(store.write(new("c", 108)).await);
    full(store.write(in_state(&a, LinkState::Active, 109)).await);
    changed(store.write(in_state(&b, LinkState::Deleted, 110)).await);
    changed(store.write(in_state(&a, LinkState::Active, 111)).await);
    full(store.write(replace(Link { version: 2, ..longer.clone() }, Action::Update, 112)).await);
    changed(store.write(in_state(&c, LinkState::Deleted, 113)).await);
    changed(store.write(replace(Link { version: 2, ..longer }, Action::Update, 114)).await);
    assert_sound(&store).await;
}
