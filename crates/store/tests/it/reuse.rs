//! The same target gets the same generated code, where the policy says so.

use rlinks_core::draft::code_generator;
use rlinks_core::{Id, Link, LinkDraft, LinkPatch, LinkSource, LinkState, Policy, Preset, Slug};
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{StoreError, StoreWriter};

use crate::support::store::{
    TestStore, assert_sound, at, changed, code, contract, create, created, draft, in_state, max, replace,
    target, workspace,
};

contract!(
    live_link_is_reused_unchanged,
    broken_row_of_a_live_link_is_repaired_and_reused,
    inactive_link_is_revived_with_the_given_fields,
    chosen_code_makes_a_separate_link,
    retargeted_link_is_reused_for_its_new_target_and_may_not_clash,
    targets_of_any_length_are_distinguished,
    concurrent_requests_for_one_target_make_one_link,
    code_collision_uses_the_next_salt,
    links_older_than_the_reuse_policy_can_be_changed,
    reviving_a_disabled_link_needs_no_room_among_live_ones,
);

async fn team(store: &StoreWriter) -> Id {
    workspace(store, "team", Policy::preset(Preset::Team)).await.id
}

/// What `ops` does to shorten a target in a team.
fn shorten(space: Id, wanted: LinkDraft, sent: LinkPatch, ms: i64) -> LinkWrite {
    let normalized = wanted.target.normalized();
    let slug = Slug::parse("team").unwrap();
    let codes = (0..8).filter_map(|salt| code_generator::from_target(&slug, &normalized, salt)).collect();
    let op = LinkOp::Create {
        draft: wanted,
        code: CodeChoice::Candidates(codes),
        source: LinkSource::Api,
        on_conflict: OnConflict::Reuse { normalized, sent: Box::new(sent) },
    };
    LinkWrite::new(space, max(), at(ms), op)
}

fn plain(space: Id, url: &str, ms: i64) -> LinkWrite {
    shorten(space, draft(url), LinkPatch::default(), ms)
}

async fn live_link_is_reused_unchanged(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let link = created(store.write(plain(space, "https://example.com/a/?b=2&a=1&utm_source=x", 1)).await);
    assert!(link.generated);
    let heads = store.heads().await.unwrap();
    for same in ["https://EXAMPLE.com/a?a=1&b=2", "https://example.com:443/a/?b=2&a=1&fbclid=9"] {
        let sent = LinkPatch { title: Some(Some("other".to_owned())), ..LinkPatch::default() };
        let again = store.write(shorten(space, draft(same), sent, 2)).await.unwrap();
        assert_eq!(again, Written::Reused(link.clone()), "{same}");
    }
    assert_eq!(store.heads().await.unwrap(), heads, "handing back writes nothing");
    for other in
        ["http://example.com/a?a=1&b=2", "https://example.com/A?a=1&b=2", "https://example.com/a?a=1&b=2#x"]
    {
        created(store.write(plain(space, other, 3)).await);
    }
    assert_eq!(store.count_links(space).await.unwrap(), 4);
}

async fn broken_row_of_a_live_link_is_repaired_and_reused(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let mut wanted = draft("https://example.com/");
    wanted.expires_at = Some(at(500));
    let link = created(store.write(shorten(space, wanted, LinkPatch::default(), 1)).await);
    test_store.raw("update links set target = 'javascript:alert(1)'").await;
    let again = store.write(plain(space, "https://example.com/", 2)).await.unwrap();
    assert_eq!(again, Written::Reused(Link { version: 2, updated_at: at(2), ..link.clone() }));
    assert_eq!(store.route(space, link.code.as_str()).await.unwrap().unwrap().target, link.target);
    assert_sound(&store).await;
}

async fn inactive_link_is_revived_with_the_given_fields(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let mut wanted = draft("https://example.com/?utm_source=mail");
    (wanted.expires_at, wanted.title) = (Some(at(50)), Some("old".to_owned()));
    wanted.tags = vec!["kept".to_owned()];
    let link = created(store.write(shorten(space, wanted, LinkPatch::default(), 1)).await);
    let sent = LinkPatch {
        target: Some(target("https://example.com/?utm_source=web")),
        title: Some(Some("new".to_owned())),
        ..LinkPatch::default()
    };
    let again = |ms| shorten(space, draft("https://example.com/?utm_source=web"), sent.clone(), ms);
    assert_eq!(
        store.write(again(50)).await.unwrap(),
        Written::Reused(link.clone()),
        "alive at its last instant"
    );
    let Written::Revived(revived) = store.write(again(51)).await.unwrap() else {
        panic!("expired, so revived")
    };
    assert_eq!((revived.id, revived.code.clone(), revived.version), (link.id, link.code.clone(), 2));
    assert_eq!((revived.state, revived.expires_at), (LinkState::Active, None), "an expiry not sent is none");
    assert_eq!(revived.target.as_str(), "https://example.com/?utm_source=web");
    assert_eq!((revived.title.as_deref(), revived.tags.as_slice()), (Some("new"), &["kept".to_owned()][..]));
    for state in [LinkState::Disabled, LinkState::Deleted] {
        let now = store.link(space, &link.code).await.unwrap().unwrap();
        changed(store.write(in_state(&now, state, 60)).await);
        let Written::Revived(back) = store.write(again(61)).await.unwrap() else {
            panic!("{state}, so revived")
        };
        assert_eq!((back.id, back.state), (link.id, LinkState::Active));
        assert_eq!(store.link(space, &link.code).await.unwrap(), Some(back));
    }
    assert_eq!(store.count_links(space).await.unwrap(), 1);
    let actions: Vec<_> =
        store.history(space, &link.code).await.unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        ["link.create", "link.update", "link.disable", "link.update", "link.delete", "link.restore"]
    );
    assert_sound(&store).await;
}

async fn chosen_code_makes_a_separate_link(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let made = created(store.write(plain(space, "https://example.com/", 1)).await);
    let own = create(space, CodeChoice::Chosen(code("own")), draft("https://example.com/"), 2);
    let own = created(store.write(own).await);
    assert_ne!(own.id, made.id);
    assert_eq!(store.write(plain(space, "https://example.com/", 3)).await.unwrap(), Written::Reused(made));
    // And a chosen one alone is not what a request without a code gets.
    let alone = create(space, CodeChoice::Chosen(code("alone")), draft("https://alone.example/"), 4);
    created(store.write(alone).await);
    created(store.write(plain(space, "https://alone.example/", 5)).await);
}

async fn retargeted_link_is_reused_for_its_new_target_and_may_not_clash(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let a = created(store.write(plain(space, "https://a.example/", 1)).await);
    let b = created(store.write(plain(space, "https://b.example/", 2)).await);
    let to = |link: &Link, url: &str, ms| {
        replace(Link { target: target(url), ..link.clone() }, Action::Update, ms)
    };
    let clash = store.write(to(&a, "https://b.example/?utm_medium=x", 3)).await.unwrap_err();
    assert!(matches!(&clash, StoreError::TargetTaken(code) if *code == b.code.as_str()), "{clash:?}");
    let a = changed(store.write(to(&a, "https://c.example/", 4)).await);
    assert_eq!(store.write(plain(space, "https://c.example/", 5)).await.unwrap(), Written::Reused(a.clone()));
    let fresh = created(store.write(plain(space, "https://a.example/", 6)).await);
    assert_ne!(fresh.code, a.code, "the code stays with the link that had it");
    // A deleted link keeps its target.
    let b = changed(store.write(in_state(&b, LinkState::Deleted, 7)).await);
    let clash = store.write(to(&a, "https://b.example/", 8)).await.unwrap_err();
    assert!(matches!(&clash, StoreError::TargetTaken(code) if *code == b.code.as_str()), "{clash:?}");
    // In one group: one leaves a target, another takes it.
    let (left, taken) = tokio::join!(
        store.write(to(&a, "https://d.example/", 9)),
        store.write(plain(space, "https://c.example/", 9))
    );
    changed(left);
    assert!(matches!(taken, Ok(Written::Created(_) | Written::Reused(_))), "{taken:?}");
    // A chosen code in its place is not found by the target.
    let op = LinkOp::Create {
        draft: draft("https://b.example/"),
        code: CodeChoice::Chosen(b.code.clone()),
        source: LinkSource::Cli,
        on_conflict: OnConflict::Recreate,
    };
    let own = created(store.write(LinkWrite::new(space, max(), at(10), op)).await);
    let made = created(store.write(plain(space, "https://b.example/", 11)).await);
    assert_ne!(made.id, own.id);
    assert_sound(&store).await;
}

async fn targets_of_any_length_are_distinguished(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    // Not compressible: an index entry of it would be too large for PostgreSQL.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let noise: String = std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        char::from(rlinks_core::base62::ALPHABET[usize::try_from(seed % 62).unwrap()])
    })
    .take(60_000)
    .collect();
    for length in [2_600, 2_700, 2_800, 8_000, 60_000] {
        let url = format!("https://example.com/{}", &noise[..length]);
        let link = created(store.write(plain(space, &url, 1)).await);
        let other = created(store.write(plain(space, &format!("{url}x"), 2)).await);
        assert_eq!(store.write(plain(space, &url, 3)).await.unwrap(), Written::Reused(link.clone()));
        let clash = Link { target: target(&url), ..other };
        let error = store.write(replace(clash, Action::Update, 4)).await.unwrap_err();
        assert!(matches!(&error, StoreError::TargetTaken(code) if *code == link.code.as_str()), "{error:?}");
        assert_eq!(store.link(space, &link.code).await.unwrap(), Some(link));
    }
    assert_eq!(store.count_links(space).await.unwrap(), 10);
    assert_sound(&store).await;
}

async fn concurrent_requests_for_one_target_make_one_link(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let space = team(&store).await;
    let asked: Vec<_> = (0..100)
        .map(|number| {
            let store = if number % 2 == 0 { store.clone() } else { other.clone() };
            tokio::spawn(async move { store.write(plain(space, "https://example.com/", number)).await })
        })
        .collect();
    let (mut made, mut ids) = (0, std::collections::BTreeSet::new());
    for one in asked {
        let written = one.await.unwrap().unwrap();
        made += i32::from(matches!(written, Written::Created(_)));
        ids.insert(written.link().id);
    }
    assert_eq!((made, ids.len()), (1, 1));
    assert_eq!(store.count_links(space).await.unwrap(), 1);
    assert_sound(&store).await;
}

async fn code_collision_uses_the_next_salt(test_store: TestStore) {
    let store = test_store.open().await;
    let space = team(&store).await;
    let slug = Slug::parse("team").unwrap();
    let salted = |salt| code_generator::from_target(&slug, "https://example.com/", salt).unwrap();
    let squatter = create(space, CodeChoice::Chosen(salted(0)), draft("https://else.example/"), 1);
    created(store.write(squatter).await);
    let link = created(store.write(plain(space, "https://example.com/", 2)).await);
    assert_eq!(link.code, salted(1));
    assert_eq!(store.write(plain(space, "https://example.com/", 3)).await.unwrap(), Written::Reused(link));
}

async fn links_older_than_the_reuse_policy_can_be_changed(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "team", Policy::preset(Preset::Fabric)).await;
    let pick = |text: &str| {
        create(space.id, CodeChoice::Candidates(vec![code(text)]), draft("https://example.com/"), 1)
    };
    let (one, two) = (created(store.write(pick("one")).await), created(store.write(pick("two")).await));
    let next = rlinks_core::Workspace { policy: Policy::preset(Preset::Team), ..space.clone() };
    store.update_workspace(&space, next, "workspace.update", &max(), at(2)).await.unwrap();
    let found = store.write(plain(space.id, "https://example.com/", 3)).await.unwrap();
    for link in [&one, &two] {
        changed(store.write(in_state(link, LinkState::Disabled, 4)).await);
    }
    assert_eq!(
        store.write(plain(space.id, "https://example.com/", 5)).await.unwrap(),
        Written::Reused(found.link().clone())
    );
    // To a page that has its link already none of them may be led.
    let elsewhere = created(store.write(plain(space.id, "https://else.example/", 6)).await);
    let one = store.link(space.id, &one.code).await.unwrap().unwrap();
    let code = elsewhere.code.to_string();
    let error =
        store.write(replace(Link { target: elsewhere.target, ..one }, Action::Update, 7)).await.unwrap_err();
    assert!(matches!(&error, StoreError::TargetTaken(other) if *other == code), "{error:?}");
    assert_sound(&store).await;
}

async fn reviving_a_disabled_link_needs_no_room_among_live_ones(test_store: TestStore) {
    let store = test_store.open().await;
    let mut policy = Policy::preset(Preset::Team);
    policy.limits.live_links = Some(1);
    let space = workspace(&store, "team", policy).await.id;
    let link = created(store.write(plain(space, "https://example.com/", 1)).await);
    changed(store.write(in_state(&link, LinkState::Disabled, 2)).await);
    let back = store.write(plain(space, "https://example.com/", 3)).await;
    let Ok(Written::Revived(link)) = back else { panic!("{back:?}") };
    changed(store.write(in_state(&link, LinkState::Deleted, 4)).await);
    created(store.write(plain(space, "https://other.example/", 5)).await);
    let full = store.write(plain(space, "https://example.com/", 6)).await.unwrap_err();
    assert!(matches!(full, StoreError::QuotaExceeded(1)), "{full:?}");
}
