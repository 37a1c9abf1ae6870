//! The audit log, its chains, and what tampering looks like.

use rlinks_core::audit::{AuditEntry, Head};
use rlinks_core::{Link, LinkState, Policy, Preset};
use rlinks_store::write::CodeChoice;
use rlinks_store::{AuditFilter, StoreWriter};

use crate::support::store::{
    MAIN, TestStore, at, changed, code, contract, create, created, draft, host, in_state, make, max,
    workspace,
};

contract!(
    entry_records_actor_action_and_both_states,
    log_is_paged_in_both_directions,
    log_is_filtered_within_a_range,
    chains_of_all_workspaces_verify_against_earlier_heads,
    long_chains_verify_page_by_page,
    edited_entry_is_reported,
    removed_entry_is_reported,
    truncated_log_is_reported,
    swapped_entries_are_reported,
    rewritten_log_fails_against_an_earlier_head,
    edited_or_missing_head_is_reported,
    link_row_changed_behind_the_log_is_reported,
    workspace_or_domain_changed_behind_the_log_is_reported,
);

async fn entry_records_actor_action_and_both_states(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let off = changed(store.write(in_state(&link, LinkState::Disabled, 2)).await);
    let history = store.history(MAIN, &link.code).await.unwrap();
    assert_eq!(history.len(), 2);
    let entry = &history[1];
    assert_eq!((entry.seq, entry.ts, entry.workspace.as_str()), (3, at(2), "main"));
    assert_eq!((entry.actor.as_str(), entry.action.as_str()), ("max@rmax.to", "link.disable"));
    assert_eq!(entry.subject, "link:parity");
    let side = |raw: &Option<Box<serde_json::value::RawValue>>| -> Link {
        serde_json::from_str(raw.as_ref().unwrap().get()).unwrap()
    };
    assert_eq!((side(&entry.before), side(&entry.after)), (link, off));
    assert!(history[0].before.is_none());
    assert_eq!(entry.prev_hash, history[0].hash);
}

async fn log_is_paged_in_both_directions(test_store: TestStore) {
    let store = test_store.open().await;
    for number in 0..9 {
        make(&store, &format!("c{number}"), "https://example.com/", number).await;
    }
    let seqs = |entries: Vec<AuditEntry>| entries.into_iter().map(|entry| entry.seq).collect::<Vec<_>>();
    assert_eq!(seqs(store.audit_after(MAIN, 0, 4).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(seqs(store.audit_after(MAIN, 8, 4).await.unwrap()), [9, 10]);
    assert_eq!(seqs(store.audit_after(MAIN, 10, 4).await.unwrap()), [0_i64; 0]);
    assert_eq!(seqs(store.audit_before(MAIN, i64::MAX, 3).await.unwrap()), [10, 9, 8]);
    assert_eq!(seqs(store.audit_before(MAIN, 3, 4).await.unwrap()), [2, 1]);
    assert_eq!(seqs(store.audit_before(MAIN, 1, 4).await.unwrap()), [0_i64; 0]);
}

async fn log_is_filtered_within_a_range(test_store: TestStore) {
    let store = test_store.open().await;
    let other = workspace(&store, "other", Policy::preset(Preset::Fabric)).await;
    for number in 1..6 {
        let link = make(&store, &format!("c{number}"), "https://example.com/", number).await;
        changed(store.write(in_state(&link, LinkState::Disabled, number + 10)).await);
    }
    let all = store.audit_before(MAIN, i64::MAX, 100).await.unwrap();
    let found = async |filter: AuditFilter, between, limit| {
        let entries = store.audit_filtered(MAIN, &filter, between, limit).await.unwrap();
        entries.into_iter().map(|entry| entry.seq).collect::<Vec<_>>()
    };
    let whole = (0, i64::MAX);
    let seqs = |wanted: &dyn Fn(&AuditEntry) -> bool| {
        all.iter().filter(|entry| wanted(entry)).map(|entry| entry.seq).collect::<Vec<_>>()
    };
    let none = AuditFilter::default;
    assert_eq!(found(none(), whole, 100).await, seqs(&|_| true));
    assert_eq!(found(none(), (2, 6), 100).await, [5, 4, 3]);
    assert_eq!(found(none(), (2, 6), 2).await, [5, 4]);
    let action = |action: &str| AuditFilter { action: action.to_owned(), ..none() };
    assert_eq!(
        found(action("link.disable"), whole, 100).await,
        seqs(&|entry| entry.action == "link.disable")
    );
    assert_eq!(found(action("link"), whole, 100).await, seqs(&|entry| entry.action.starts_with("link.")));
    for nothing in ["lin", "link.", "%", "link_create", "LINK", "' or 1=1 --"] {
        assert_eq!(found(action(nothing), whole, 100).await, [0_i64; 0], "{nothing}");
    }
    let subject = AuditFilter { subject: "link:c3".to_owned(), ..none() };
    assert_eq!(found(subject, whole, 100).await, seqs(&|entry| entry.subject == "link:c3"));
    let actor = |actor: &str| AuditFilter { actor: actor.to_owned(), ..none() };
    assert_eq!(found(actor("max@rmax.to"), whole, 100).await, seqs(&|entry| entry.actor == "max@rmax.to"));
    assert_eq!(found(actor("max"), whole, 100).await, [0_i64; 0]);
    let during = AuditFilter { during: at(2)..at(4), ..action("link.create") };
    let wanted = |entry: &AuditEntry| entry.action == "link.create" && (at(2)..at(4)).contains(&entry.ts);
    assert_eq!(found(during, whole, 100).await, seqs(&wanted));
    let theirs = store.audit_filtered(other.id, &action("link"), whole, 100).await.unwrap();
    assert!(theirs.is_empty(), "{theirs:?}");
}

async fn chains_of_all_workspaces_verify_against_earlier_heads(test_store: TestStore) {
    let store = test_store.open().await;
    let space = workspace(&store, "team", Policy::preset(Preset::Team)).await.id;
    let mut marks = Vec::new();
    for number in 0..5 {
        make(&store, &format!("c{number}"), "https://example.com/", number).await;
        let write = create(
            space,
            CodeChoice::Chosen(code(&format!("c{number}"))),
            draft("https://a.example/"),
            number,
        );
        created(store.write(write).await);
        marks.extend(store.heads().await.unwrap().into_iter().map(|(_, head)| head));
    }
    let verified = store.verify(&marks).await.unwrap().unwrap();
    assert_eq!(verified, store.heads().await.unwrap().into_iter().map(|(_, head)| head).collect::<Vec<_>>());
    // A checkpoint of a workspace that is not there at all.
    marks.push(Head { workspace: "vanished".to_owned(), seq: 3, hash: "00".to_owned() });
    let fault = store.verify(&marks).await.unwrap().unwrap_err();
    assert_eq!((fault.workspace.as_str(), fault.seq), ("vanished", 1));
}

async fn long_chains_verify_page_by_page(test_store: TestStore) {
    let store = test_store.open().await;
    let sent: Vec<_> = (0..2100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { make(&store, &format!("c{number}"), "https://example.com/", 1).await })
        })
        .collect();
    for one in sent {
        one.await.unwrap();
    }
    assert_eq!(store.verify(&[]).await.unwrap().unwrap()[0].seq, 2101);
    assert!(store.links_differing_from_log().await.unwrap().is_empty());
    test_store.raw("update audit set actor = 'mallory' where seq = 2050").await;
    assert_eq!(store.verify(&[]).await.unwrap().unwrap_err().seq, 2050);
}

/// A store with nine entries in `main` (the first made `main` itself), and the heads it had on the way.
async fn nine(test_store: &TestStore) -> (StoreWriter, Vec<Head>) {
    let store = test_store.open().await;
    let mut heads = Vec::new();
    for number in 2..=9 {
        make(&store, &format!("c{number}"), "https://example.com/", number).await;
        heads.push(store.heads().await.unwrap().remove(0).1);
    }
    store.verify(&heads).await.unwrap().unwrap();
    (store, heads)
}

#[track_caller]
fn named(verified: Result<Vec<Head>, rlinks_core::audit::ChainError>, seq: i64) {
    let fault = verified.expect_err("the log was tampered with");
    assert_eq!((fault.workspace.as_str(), fault.seq), ("main", seq), "{fault}");
}

/// Faults, row 49.
async fn edited_entry_is_reported(test_store: TestStore) {
    let (store, _) = nine(&test_store).await;
    for edit in [
        "actor = 'mallory'",
        "action = 'link.delete'",
        "subject = 'link:other'",
        "ts = ts + 1",
        "before = '{}'",
        "after = null",
        "after = 'not json'",
        "after = after || ' '",
        "after = ' ' || after",
        "after = replace(after, 'example.com', 'evil.example')",
        "hash = prev_hash",
    ] {
        test_store.raw("create table kept as select * from audit where workspace_id = 1 and seq = 5").await;
        test_store.raw(&format!("update audit set {edit} where workspace_id = 1 and seq = 5")).await;
        named(store.verify(&[]).await.unwrap(), 5);
        test_store.raw("delete from audit where workspace_id = 1 and seq = 5; insert into audit select * from kept; drop table kept").await;
        store.verify(&[]).await.unwrap().unwrap_or_else(|fault| panic!("{edit} was taken back: {fault}"));
    }
    test_store.raw("update audit set prev_hash = hash where workspace_id = 1 and seq = 7").await;
    named(store.verify(&[]).await.unwrap(), 7);
}

/// Faults, row 49.
async fn removed_entry_is_reported(test_store: TestStore) {
    let (store, _) = nine(&test_store).await;
    test_store.raw("delete from audit where workspace_id = 1 and seq = 4").await;
    named(store.verify(&[]).await.unwrap(), 4);
    // Closing the gap does not help.
    test_store.raw("update audit set seq = 4 where workspace_id = 1 and seq = 5").await;
    named(store.verify(&[]).await.unwrap(), 4);
}

/// Faults, row 49.
async fn truncated_log_is_reported(test_store: TestStore) {
    let (store, heads) = nine(&test_store).await;
    test_store.raw("delete from audit where workspace_id = 1 and seq > 7").await;
    named(store.verify(&[]).await.unwrap(), 8);
    // Whoever sets the head back too leaves a sound chain, but not one that reaches the heads published before.
    let seventh = &heads[5];
    assert_eq!(seventh.seq, 7);
    test_store
        .raw(&format!("update heads set seq = 7, hash = '{}' where workspace_id = 1", seventh.hash))
        .await;
    store.verify(&[]).await.unwrap().unwrap();
    store.verify(&heads[..6]).await.unwrap().unwrap();
    named(store.verify(&heads).await.unwrap(), 8);
}

/// Faults, row 49.
async fn swapped_entries_are_reported(test_store: TestStore) {
    let (store, _) = nine(&test_store).await;
    for step in [
        "seq = -1 where workspace_id = 1 and seq = 3",
        "seq = 3 where workspace_id = 1 and seq = 6",
        "seq = 6 where workspace_id = 1 and seq = -1",
    ] {
        test_store.raw(&format!("update audit set {step}")).await;
    }
    named(store.verify(&[]).await.unwrap(), 3);
}

/// Faults, row 49.
async fn rewritten_log_fails_against_an_earlier_head(test_store: TestStore) {
    let (store, heads) = nine(&test_store).await;
    let mut entries = store.audit_after(MAIN, 0, 100).await.unwrap();
    "mallory".clone_into(&mut entries[4].actor);
    for at in 4..entries.len() {
        let before = entries[at - 1].hash.clone();
        entries[at].prev_hash = before;
        entries[at].hash = entries[at].compute_hash();
        let AuditEntry { seq, actor, prev_hash, hash, .. } = &entries[at];
        test_store.raw(&format!("update audit set actor = '{actor}', prev_hash = '{prev_hash}', hash = '{hash}' where workspace_id = 1 and seq = {seq}")).await;
    }
    test_store.raw(&format!("update heads set hash = '{}' where workspace_id = 1", entries[8].hash)).await;
    store.verify(&[]).await.unwrap().unwrap();
    store.verify(&heads[..3]).await.unwrap().unwrap();
    named(store.verify(&heads[..4]).await.unwrap(), 5);
    named(store.verify(&heads[5..]).await.unwrap(), 7);
}

/// Faults, row 49.
async fn edited_or_missing_head_is_reported(test_store: TestStore) {
    let (store, heads) = nine(&test_store).await;
    test_store.raw("update heads set seq = 12 where workspace_id = 1").await;
    named(store.verify(&[]).await.unwrap(), 10);
    test_store.raw("update heads set seq = 6 where workspace_id = 1").await;
    named(store.verify(&[]).await.unwrap(), 9);
    test_store.raw("update heads set seq = 9, hash = 'ff' where workspace_id = 1").await;
    named(store.verify(&[]).await.unwrap(), 9);
    test_store.raw(&format!("update heads set hash = '{}' where workspace_id = 1", heads[7].hash)).await;
    store.verify(&heads).await.unwrap().unwrap();
    test_store.raw("delete from heads where workspace_id = 1").await;
    named(store.verify(&[]).await.unwrap(), 9);
}

async fn link_row_changed_behind_the_log_is_reported(test_store: TestStore) {
    let (store, _) = nine(&test_store).await;
    assert!(store.links_differing_from_log().await.unwrap().is_empty());
    test_store.raw("update links set target = 'https://evil.example/' where code = 'c3'").await;
    test_store.raw("update links set version = 7 where code = 'c4'").await;
    test_store.raw("delete from links where code = 'c5'").await;
    test_store.raw("update links set code = 'stranger' where code = 'c6'").await;
    test_store.raw("update links set target = 'javascript:alert(1)' where code = 'c7'").await;
    let mut strangers = store.links_differing_from_log().await.unwrap();
    strangers.sort();
    assert_eq!(strangers, ["c3", "c4", "c5", "c6", "c7", "stranger"]);
    store.verify(&[]).await.unwrap().expect("the log itself is whole");
}

async fn workspace_or_domain_changed_behind_the_log_is_reported(test_store: TestStore) {
    let store = test_store.open().await;
    let team = workspace(&store, "team", Policy::preset(Preset::Team)).await;
    for (space, name) in
        [(MAIN, "one.example"), (MAIN, "two.example"), (MAIN, "three.example"), (team.id, "team.example")]
    {
        store.add_domain(space, host(name), &max(), at(1)).await.unwrap();
    }
    store.set_primary_domain(MAIN, &host("two.example"), &max(), at(2)).await.unwrap();
    store.remove_domain(MAIN, &host("two.example"), &max(), at(3)).await.unwrap();
    let named = async || store.records_differing_from_log().await.unwrap();
    assert_eq!(named().await, Vec::<String>::new());
    for (edit, back, expected) in [
        (
            "update workspaces set name = 'x' where slug = 'main'",
            "update workspaces set name = 'Main' where slug = 'main'",
            "workspace main",
        ),
        (
            "update workspaces set deleted_at = 5 where slug = 'team'",
            "update workspaces set deleted_at = null where slug = 'team'",
            "workspace team",
        ),
        (
            "update workspaces set policy = replace(policy, '301', '302') where slug = 'main'",
            "update workspaces set policy = replace(policy, '302', '301') where slug = 'main'",
            "workspace main",
        ),
        (
            "update workspaces set policy = 'x' || policy where slug = 'main'",
            "update workspaces set policy = substr(policy, 2) where slug = 'main'",
            "workspace main",
        ),
        (
            "insert into domains (host, workspace_id, is_primary, created_at) values ('evil.example', 1, false, 1)",
            "delete from domains where host = 'evil.example'",
            "domain evil.example",
        ),
        (
            "update domains set workspace_id = 1 where host = 'team.example'",
            "update domains set workspace_id = (select max(id) from workspaces) where host = 'team.example'",
            "domain team.example",
        ),
    ] {
        assert_eq!(test_store.raw(edit).await, 1);
        assert_eq!(named().await, [expected], "{edit}");
        test_store.raw(back).await;
        assert_eq!(named().await, Vec::<String>::new(), "{back}");
    }
    test_store.raw("update domains set is_primary = not is_primary where workspace_id = 1").await;
    test_store.raw("delete from domains where host = 'team.example'").await;
    assert_eq!(named().await, ["domain one.example", "domain team.example", "domain three.example"]);
    store.verify(&[]).await.unwrap().expect("the log itself is whole");
}
