//! Backup and restore, also from one database into the other.

use std::fs;
use std::path::{Path, PathBuf};

use rlinks_core::{Email, LinkPatch, LinkSource, LinkState, Policy, Preset, Role, Scopes, Workspace, hex};
use rlinks_store::backup::{BackupCounts, verify};
use rlinks_store::write::{CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{LinkFilter, NewKey, NewUser, OidcIdentity, StoreError, StoreWriter};
use sha2::{Digest as _, Sha256};

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, changed, chosen, code, contract, create, created, draft, host,
    in_state, make, max, object, recreate, signer, trust, workspace,
};

contract!(
    restored_backup_has_the_same_contents,
    backup_under_load_is_a_consistent_snapshot,
    invalid_backup_is_refused_and_changes_nothing,
    backup_that_contradicts_its_log_is_refused_and_changes_nothing,
    backup_of_a_tampered_store_holds_what_the_log_says,
    unreadable_audit_entry_of_a_member_or_key_fails_the_backup,
    failed_restore_changes_nothing,
    restored_store_accepts_new_writes,
    restore_and_concurrent_writes_do_not_mix,
    large_backups_are_read_and_written_in_pages,
    swapped_credential_is_a_finding_and_refused_in_a_backup,
);

/// Everything a store has, of every kind and state.
async fn fill(store: &StoreWriter) {
    let team = workspace(store, "team", Policy::preset(Preset::Team)).await;
    let gone = workspace(store, "gone", Policy::preset(Preset::Platform)).await;
    for (name, ms) in [("rmax.to", 1), ("two.example", 2)] {
        store.add_domain(MAIN, host(name), &max(), at(ms)).await.unwrap();
    }
    store.add_domain(team.id, host("team.example"), &max(), at(3)).await.unwrap();
    let mut rich = draft("https://example.com/ü?q=\"x\"#'");
    rich.title = Some("漢字 \"quoted\" \\ 🦀".to_owned());
    rich.notes = Some("a\nb\tc".to_owned());
    rich.tags = vec!["Ärger".to_owned(), "b".to_owned()];
    rich.expires_at = Some(at(7));
    rich.metadata = object(
        serde_json::json!({ "n": 1.5, "big": u64::MAX, "fine": [0.1 + 0.2, 5e-324, f64::MAX, 1.0 / 3.0], "deep": [{ "a": null }] }),
    );
    let rich = created(store.write(create(MAIN, CodeChoice::Chosen(code("rich")), rich, 4)).await);
    changed(store.write(in_state(&rich, LinkState::Disabled, 5)).await);
    let old = make(store, "deleted", "https://old.example/", 6).await;
    let old = changed(store.write(in_state(&old, LinkState::Deleted, 7)).await);
    let new = created(store.write(recreate(old.code.as_str(), "https://new.example/", 8)).await);
    changed(store.write(in_state(&new, LinkState::Deleted, 9)).await);
    created(store.write(create(gone.id, CodeChoice::FromId, draft("https://example.com/"), 10)).await);
    store.write(shorten(team.id, "https://example.com/?b=1&a=2", 11)).await.unwrap();
    let deleted = Workspace { deleted_at: Some(at(12)), ..gone.clone() };
    store.update_workspace(&gone, deleted, "workspace.delete", &max(), at(12)).await.unwrap();
}

fn shorten(space: rlinks_core::Id, url: &str, ms: i64) -> LinkWrite {
    let draft = draft(url);
    let existing =
        OnConflict::Reuse { normalized: draft.target.normalized(), sent: Box::new(LinkPatch::default()) };
    let choice = CodeChoice::Candidates(vec![code("generated")]);
    let op = LinkOp::Create { draft, code: choice, source: LinkSource::Api, on_conflict: existing };
    LinkWrite::new(space, max(), at(ms), op)
}

async fn backup(store: &StoreWriter, file: &Path) -> BackupCounts {
    store.backup(fs::File::create(file).unwrap(), &signer(), at(99)).await.unwrap()
}

/// The lines that say what is in a store; who leases ids is not of it.
async fn contents(store: &StoreWriter, file: &Path) -> Vec<String> {
    backup(store, file).await;
    let kinds = ["{\"workspace\"", "{\"domain\"", "{\"head\"", "{\"link\"", "{\"audit\""];
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| kinds.iter().any(|kind| line.starts_with(kind))).map(str::to_owned).collect()
}

/// Faults, row 48.
async fn restored_backup_has_the_same_contents(test_store: TestStore) {
    // From this database into SQLite, and from there back into this one.
    let (store, elsewhere) = (test_store.open().await, TestStore::sqlite());
    assert!(store.is_empty().await.unwrap());
    fill(&store).await;
    assert!(!store.is_empty().await.unwrap());
    let (first, second, third) = (
        test_store.folder().join("first"),
        test_store.folder().join("second"),
        test_store.folder().join("third"),
    );
    let before = contents(&store, &first).await;
    let counts = verify(&first).unwrap().counts;
    let expected = BackupCounts {
        workspaces: 3,
        domains: 3,
        links: 4,
        audit: before.len() as u64 - 3 - 3 - 3 - 4,
        ..BackupCounts::default()
    };
    assert_eq!(counts, expected);

    let other = elsewhere.open().await;
    make(&other, "in-the-way", "https://example.com/", 1).await;
    assert_eq!(other.restore(&first, &trust()).await.unwrap(), expected);
    assert_eq!(contents(&other, &second).await, before);
    assert_sound(&other).await;
    assert_eq!(other.heads().await.unwrap(), store.heads().await.unwrap());
    assert_eq!(other.domains().await.unwrap(), store.domains().await.unwrap());
    assert_eq!(other.workspaces().await.unwrap(), store.workspaces().await.unwrap());
    assert_eq!(other.link(MAIN, &code("in-the-way")).await.unwrap(), None);

    make(&store, "in-the-way", "https://example.com/", 50).await;
    store.restore(&second, &trust()).await.unwrap();
    assert_eq!(contents(&store, &third).await, before);
    assert_sound(&store).await;
    for store in [&store, &other] {
        let found = |filter: LinkFilter| async move { store.list(MAIN, &filter, 10).await.unwrap().len() };
        let words = |text: &str| LinkFilter {
            words: rlinks_core::link::search::parse_query(text),
            ..LinkFilter::default()
        };
        assert_eq!(found(words("漢字 quoted")).await, 1);
        assert_eq!(found(words("way")).await, 0);
        assert_eq!(found(LinkFilter { tag: Some("Ärger".to_owned()), ..LinkFilter::default() }).await, 1);
    }
}

/// Faults, row 48.
async fn backup_under_load_is_a_consistent_snapshot(test_store: TestStore) {
    let store = test_store.open().await;
    let writing: Vec<_> = (0..300)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(
                async move { make(&store, &format!("c{number}"), "https://example.com/", number).await },
            )
        })
        .collect();
    let mut files = Vec::new();
    for number in 0..5 {
        let file = test_store.folder().join(format!("backup-{number}"));
        backup(&store, &file).await;
        files.push(file);
    }
    for one in writing {
        one.await.unwrap();
    }
    for file in files {
        let counts = verify(&file).unwrap().counts;
        assert_eq!(counts.audit, counts.links + 1, "as many links as the log says");
        let test_store = TestStore::sqlite();
        let restored = test_store.open().await;
        restored.restore(&file, &trust()).await.unwrap();
        assert_sound(&restored).await;
        assert_eq!(restored.count_links(MAIN).await.unwrap(), i64::try_from(counts.links).unwrap());
    }
}

/// A backup whose last line says the truth about lines somebody changed who has the key.
fn resealed(folder: &Path, name: &str, lines: &[String]) -> PathBuf {
    let mut hash = Sha256::new();
    let mut text = String::new();
    for line in lines {
        hash.update(format!("{line}\n").as_bytes());
        text.push_str(line);
        text.push('\n');
    }
    let sha256 = hex::encode(&hash.finalize());
    let signature = signer().seal_backup(lines.len() as u64, &sha256);
    let end =
        serde_json::json!({ "end": { "lines": lines.len(), "sha256": sha256, "signature": signature } });
    let file = folder.join(name);
    fs::write(&file, format!("{text}{end}\n")).unwrap();
    file
}

async fn invalid_backup_is_refused_and_changes_nothing(test_store: TestStore) {
    let store = test_store.open().await;
    fill(&store).await;
    let (good, bad) = (test_store.folder().join("good"), test_store.folder().join("bad"));
    let before = contents(&store, &good).await;
    let bytes = fs::read(&good).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let mut broken: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\n".to_vec(),
        b"garbage".to_vec(),
        b"SQLite format 3\0".to_vec(),
        vec![0xff; 3_000_000],
        b"{}\n".to_vec(),
        [bytes.clone(), b"\n".to_vec()].concat(),
        [bytes.clone(), bytes.clone()].concat(),
        text.replace("\"format\":3", "\"format\":4").into_bytes(),
        text.replace("https://new.example/", "https://bad.example/").into_bytes(),
        [&lines[..3], &lines[4..]].concat().join("\n").into_bytes(),
        lines[..lines.len() - 1].join("\n").into_bytes(),
        lines[1..].join("\n").into_bytes(),
    ];
    for cut in (0..bytes.len() - 1).step_by(bytes.len() / 40) {
        broken.push(bytes[..cut].to_vec());
    }
    for flip in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut flipped = bytes.clone();
        flipped[flip] ^= 1;
        broken.push(flipped);
    }
    for (number, broken) in broken.into_iter().enumerate() {
        fs::write(&bad, broken).unwrap();
        let outcome = store.restore(&bad, &trust()).await;
        assert!(matches!(outcome, Err(StoreError::Refused(_))), "number {number}: {outcome:?}");
        assert!(verify(&bad).is_err());
    }
    // Whoever edits the log and counts and hashes anew is caught by the chain.
    let body = &lines[..lines.len() - 1];
    let edited: Vec<_> =
        body.iter().map(|line| line.replace("\"link.disable\"", "\"link.enable\"")).collect();
    let shorter: Vec<_> = {
        let last = body.iter().rposition(|line| line.starts_with("{\"audit\"")).unwrap();
        body.iter().enumerate().filter(|(at, _)| *at != last).map(|(_, line)| line.clone()).collect()
    };
    for (name, lines) in [("edited", edited), ("shorter", shorter)] {
        let outcome = store.restore(&resealed(test_store.folder(), name, &lines), &trust()).await;
        assert!(
            matches!(&outcome, Err(StoreError::Refused(why)) if why.contains("audit log")),
            "{name}: {outcome:?}"
        );
    }
    let missing = store.restore(&test_store.folder().join("nothing"), &trust()).await;
    assert!(matches!(missing, Err(StoreError::Unavailable(_))), "{missing:?}");
    assert_eq!(contents(&store, &bad).await, before);
    store.restore(&resealed(test_store.folder(), "same", body), &trust()).await.unwrap();
    assert_eq!(contents(&store, &bad).await, before);
}

async fn backup_that_contradicts_its_log_is_refused_and_changes_nothing(test_store: TestStore) {
    let store = test_store.open().await;
    fill(&store).await;
    let file = test_store.folder().join("backup");
    let before = contents(&store, &file).await;
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.pop();
    let restored = async |name: &str, lines: &[String]| {
        let outcome = store.restore(&resealed(test_store.folder(), "edited", lines), &trust()).await;
        assert!(
            matches!(&outcome, Err(StoreError::Refused(why)) if why.ends_with("nothing was changed")),
            "{name}: {outcome:?}"
        );
        assert_eq!(contents(&store, &file).await, before, "{name}");
    };
    let at_kind =
        |kind: &str| lines.iter().position(|line| line.starts_with(&format!("{{\"{kind}\""))).unwrap();
    // Each kind of line left out, or there twice.
    for kind in ["workspace", "domain", "head", "worker", "link", "audit"] {
        let at = at_kind(kind);
        let without = [&lines[..at], &lines[at + 1..]].concat();
        restored(kind, &without).await;
        let twice = [&lines[..=at], &lines[at..]].concat();
        restored(kind, &twice).await;
    }
    // A field of each edited.
    let null = serde_json::Value::Null;
    for (kind, field, value) in [
        ("workspace", "name", "Evil".into()),
        ("workspace", "deleted_at", "2027-01-15T08:00:00.000Z".into()),
        ("workspace", "id", "77".into()),
        ("domain", "host", "evil.example".into()),
        ("domain", "primary", false.into()),
        ("head", "links", 99.into()),
        ("head", "ts", "2028-01-15T08:00:00.000Z".into()),
        ("head", "seq", 1.into()),
        ("head", "workspace", "team".into()),
        ("worker", "last_id", "0".into()),
        ("link", "target", "https://evil.example/".into()),
        ("link", "code", "other".into()),
        ("link", "state", "active".into()),
        ("link", "metadata", serde_json::json!({})),
        ("link", "notes", null),
    ] {
        let mut edited = lines.clone();
        let line = &mut edited[at_kind(kind)];
        let mut object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_ne!(object[kind][field], value, "{kind} {field}");
        object[kind][field] = value;
        *line = object.to_string();
        restored(&format!("{kind} {field}"), &edited).await;
    }
    let policy: Vec<_> = lines
        .iter()
        .map(
            |line| if line.starts_with("{\"workspace\"") { line.replace("301", "302") } else { line.clone() },
        )
        .collect();
    restored("policy", &policy).await;
    // A link the log never heard of.
    let mut more = lines.clone();
    let link = at_kind("link");
    more.insert(link, lines[link].replace("\"code\":\"rich\"", "\"code\":\"poor\""));
    restored("more", &more).await;
    assert_sound(&store).await;
}

async fn backup_of_a_tampered_store_holds_what_the_log_says(test_store: TestStore) {
    let store = test_store.open().await;
    fill(&store).await;
    let file = test_store.folder().join("backup");
    let mut before = contents(&store, &file).await;
    for edit in [
        "update links set target = 'https://evil.example/' where code = 'rich'",
        "delete from links where code = 'deleted'",
        "update links set code = 'stranger' where code = 'generated'",
        "update heads set links = 77",
        "update workers set last_id = 0",
        "update workspaces set name = 'Evil' where slug = 'team'",
        "update domains set is_primary = not is_primary",
        "delete from domains where host = 'two.example'",
        "insert into domains (host, workspace_id, is_primary, created_at) values ('evil.example', 1, false, 1)",
    ] {
        assert!(test_store.raw(edit).await > 0, "{edit}");
    }
    let mut after = contents(&store, &file).await;
    // What a link is found by is not in the log.
    for lines in [&mut before, &mut after] {
        for line in lines.iter_mut().filter(|line| line.contains("\"target_normalized\"")) {
            let mut link: serde_json::Value = serde_json::from_str(line).unwrap();
            link["link"]["target_normalized"] = serde_json::Value::Null;
            *line = link.to_string();
        }
        lines.sort();
    }
    assert_eq!(after, before);
    store.restore(&file, &trust()).await.unwrap();
    assert_sound(&store).await;
}

/// A member or a key that the backup can't describe must not be missing from it.
async fn unreadable_audit_entry_of_a_member_or_key_fails_the_backup(test_store: TestStore) {
    let store = test_store.open().await;
    let email = Email::parse("ann@example.com").unwrap();
    let new = NewUser { workspace: MAIN, email, full_name: String::new(), role: Role::Admin };
    let ann = store.create_user(new, &max(), at(1)).await.unwrap();
    let new = NewKey {
        workspace: MAIN,
        user: Some(ann.id),
        name: "a key".to_owned(),
        prefix: "rmx_00000000".to_owned(),
        hash: "blake2b256:00".to_owned(),
        scopes: Scopes::ALL,
        expires_at: None,
    };
    let key = store.create_key(new, None, &max(), at(2)).await.unwrap();
    let before = backup(&store, &test_store.folder().join("before")).await;
    assert_eq!((before.users, before.keys), (1, 1));
    for (subject, field) in [(format!("user:{}", ann.id), "role"), (format!("key:{}", key.id), "scopes")] {
        let rename = |from: &str, to: &str| {
            format!(
                "update audit set after = replace(after, '\"{from}\"', '\"{to}\"') where subject = '{subject}'"
            )
        };
        assert_eq!(test_store.raw(&rename(field, "other")).await, 1);
        let refused = store.backup(Vec::new(), &signer(), at(99)).await;
        match refused {
            Err(StoreError::Unreadable(message)) => assert!(message.contains(&subject), "{message}"),
            other => panic!("{subject}: {other:?}"),
        }
        test_store.raw(&rename("other", field)).await;
    }
    backup(&store, &test_store.folder().join("after")).await;
}

async fn failed_restore_changes_nothing(test_store: TestStore) {
    let store = test_store.open().await;
    fill(&store).await;
    let file = test_store.folder().join("backup");
    let before = contents(&store, &file).await;
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.pop();
    // Each is well-formed and sealed.
    let link = lines.iter().position(|line| line.starts_with("{\"link\"")).unwrap();
    let domain = lines.iter().position(|line| line.starts_with("{\"domain\"")).unwrap();
    let workspace = lines.iter().position(|line| line.starts_with("{\"workspace\"")).unwrap();
    let twice = |at: usize| {
        let mut bad = lines.clone();
        bad.insert(at, lines[at].clone());
        bad
    };
    // What a link is found by is not in the log; that two cannot have the same shows only while they are loaded.
    let same: Vec<_> = lines
        .iter()
        .map(|line| line.replace("\"target_normalized\":null", "\"target_normalized\":\"x\""))
        .collect();
    verify(&resealed(test_store.folder(), "found", &same)).unwrap();
    for (name, bad) in
        [("link", twice(link)), ("domain", twice(domain)), ("workspace", twice(workspace)), ("found", same)]
    {
        let outcome = store.restore(&resealed(test_store.folder(), name, &bad), &trust()).await;
        assert!(outcome.is_err(), "{name}: {outcome:?}");
        assert_eq!(contents(&store, &file).await, before, "{name}");
    }
    assert_sound(&store).await;
    make(&store, "after", "https://example.com/", 60).await;
}

async fn restored_store_accepts_new_writes(test_store: TestStore) {
    // Two processes, and a backup that knows only one of their workers.
    let elsewhere = TestStore::sqlite();
    let source = elsewhere.open().await;
    fill(&source).await;
    let file = test_store.folder().join("backup");
    backup(&source, &file).await;
    let (store, other) = (test_store.open().await, test_store.open().await);
    make(&other, "lost", "https://example.com/", 1).await;
    store.restore(&file, &trust()).await.unwrap();
    let newest =
        store.list(MAIN, &LinkFilter::default(), 100).await.unwrap().iter().map(|link| link.id).max();
    for (store, name) in [(&store, "one"), (&other, "two")] {
        let link = make(store, name, "https://example.com/", 20).await;
        assert!(Some(link.id) > newest);
    }
    let taken = store.write(chosen("deleted", "https://example.com/", 21)).await;
    assert!(matches!(taken, Err(StoreError::CodeTaken { deleted: true, .. })), "{taken:?}");
    let team = store.workspace(&crate::support::store::slug("team")).await.unwrap().unwrap();
    let again = store.write(shorten(team.id, "https://example.com/?a=2&b=1", 22)).await.unwrap();
    assert!(matches!(again, Written::Reused(_)), "{again:?}");
    assert_sound(&store).await;
    // The same store once more, over what it has become.
    store.restore(&file, &trust()).await.unwrap();
    assert_eq!(store.heads().await.unwrap(), source.heads().await.unwrap());
}

async fn restore_and_concurrent_writes_do_not_mix(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    make(&store, "kept", "https://example.com/", 1).await;
    let file = test_store.folder().join("backup");
    backup(&store, &file).await;
    let writing: Vec<_> = (0..100)
        .map(|number| {
            let store = if number % 2 == 0 { store.clone() } else { other.clone() };
            tokio::spawn(async move {
                store.write(chosen(&format!("c{number}"), "https://example.com/", 2)).await
            })
        })
        .collect();
    store.restore(&file, &trust()).await.unwrap();
    for one in writing {
        one.await.unwrap().unwrap();
    }
    assert_sound(&store).await;
    let links = test_store.count("select count(*) from links").await;
    assert_eq!(test_store.count("select count(*) from link_search").await, links);
    assert_eq!(store.count_links(MAIN).await.unwrap(), links);
}

async fn large_backups_are_read_and_written_in_pages(test_store: TestStore) {
    let store = test_store.open().await;
    let sent: Vec<_> = (0..2500)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { make(&store, &format!("c{number}"), "https://example.com/", 1).await })
        })
        .collect();
    for one in sent {
        one.await.unwrap();
    }
    let file = test_store.folder().join("backup");
    let before = contents(&store, &file).await;
    assert_eq!(
        verify(&file).unwrap().counts,
        BackupCounts { workspaces: 1, links: 2500, audit: 2501, ..BackupCounts::default() }
    );
    store.restore(&file, &trust()).await.unwrap();
    assert_eq!(contents(&store, &file).await, before);
    assert_sound(&store).await;
}

fn identity(subject: &str) -> OidcIdentity {
    OidcIdentity { issuer: "https://login.example.com".to_owned(), subject: subject.to_owned() }
}

fn member(name: &str) -> NewUser {
    let email = Email::parse(&format!("{name}@example.com")).unwrap();
    NewUser { workspace: MAIN, email, full_name: String::new(), role: Role::Admin }
}

/// Even whoever has the key, and so could sign a backup, contradicts the log; and a row swapped in the store is found.
async fn swapped_credential_is_a_finding_and_refused_in_a_backup(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = store.create_user(member("ann"), &max(), at(1)).await.unwrap();
    store.set_password(&ann, "$argon2id$one", None, None, &max(), at(2)).await.unwrap();
    store.set_password(&ann, "$argon2id$two", None, None, &max(), at(3)).await.unwrap();
    let bob = store.create_oidc_user(member("bob"), &identity("bob"), &max(), at(4)).await.unwrap();
    let eve = store.create_user(member("eve"), &max(), at(5)).await.unwrap();
    assert_sound(&store).await;

    let file = test_store.folder().join("backup");
    backup(&store, &file).await;
    let text = fs::read_to_string(&file).unwrap();
    // No log tells how anybody signs in, or lets it be tried.
    for line in text.lines().filter(|line| line.starts_with("{\"audit\"")) {
        assert!(!line.contains("argon2id") && !line.contains("login.example.com"), "{line}");
        assert!(!line.contains("credential_salt"), "{line}");
    }
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let body = &lines[..lines.len() - 1];
    let edits = [
        ("\"password_hash\":\"$argon2id$two\"", "\"password_hash\":\"$argon2id$evil\""),
        ("\"password_hash\":\"$argon2id$two\"", "\"password_hash\":\"$argon2id$one\""),
        ("\"oidc_subject\":\"bob\"", "\"oidc_subject\":\"mallory\""),
        ("\"password_hash\":null", "\"password_hash\":\"$argon2id$evil\""),
    ];
    for (from, to) in edits {
        let edited: Vec<_> = body.iter().map(|line| line.replacen(from, to, 1)).collect();
        assert_ne!(edited, body, "{from}");
        let outcome = store.restore(&resealed(test_store.folder(), "edited", &edited), &trust()).await;
        assert!(
            matches!(&outcome, Err(StoreError::Refused(why)) if why.contains("signs in")),
            "{to}: {outcome:?}"
        );
    }
    // Entries of versions that recorded no digest: nothing to compare with.
    store.restore(&file, &trust()).await.unwrap();
    assert_sound(&store).await;

    for (edit, user) in [
        (format!("update users set password_hash = '$argon2id$evil' where id = {}", ann.id), &ann),
        (format!("update users set oidc_subject = 'mallory' where id = {}", bob.id), &bob),
        (format!("update users set password_hash = '$argon2id$evil' where id = {}", eve.id), &eve),
    ] {
        assert_eq!(test_store.raw(&edit).await, 1);
        let differing = store.records_differing_from_log().await.unwrap();
        assert_eq!(differing, [format!("credentials of user {}", user.id)]);
        // The backup of it opens nothing that the log doesn't know.
        let tampered = test_store.folder().join("tampered");
        backup(&store, &tampered).await;
        assert!(!fs::read_to_string(&tampered).unwrap().contains("evil"));
        store.restore(&file, &trust()).await.unwrap();
    }
    store.delete_user(&ann, "deleted-1", &max(), at(9)).await.unwrap();
    assert_sound(&store).await;
    assert_eq!(test_store.count("select count(*) from users where credential_salt is null").await, 2);
}
