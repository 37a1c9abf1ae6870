//! Signed heads and their log.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rlinks_core::audit::Head;
use rlinks_store::audit::checkpoints::{
    CHECKPOINT_LOG_FILE, Checkpoint, append_checkpoints, effective_heads, read_checkpoints,
};
use rlinks_store::audit::key_statements::{KeyChange, KeyStanding, KeyStatement, TrustedKeys};
use rlinks_store::audit::signing_key::{Signer, SigningKey, SigningKeySource};
use rlinks_store::backup::RestoreTrust;
use rlinks_store::{StoreError, StoreWriter};

use crate::support::store::{TestStore, at, make};

fn head(workspace: &str, seq: i64) -> Head {
    Head { workspace: workspace.to_owned(), seq, hash: format!("{seq:064}") }
}

#[test]
fn signing_key_is_created_once_and_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let key = SigningKey::new(&data, SigningKeySource::DataFolder);
    assert!(key.load().unwrap().is_none(), "looking makes no key");
    assert!(!data.exists());
    let first = key.load_or_create([7; 32]).unwrap().public_key();
    assert_eq!(
        key.load_or_create([8; 32]).unwrap().public_key(),
        first,
        "the seed counts the first time only"
    );
    let mode = fs::metadata(data.join("audit-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for garbage in ["", "zz", "00", &"0".repeat(63)] {
        fs::write(data.join("audit-key"), garbage).unwrap();
        assert!(matches!(key.load_or_create([7; 32]), Err(StoreError::Refused(_))), "{garbage}");
    }
}

#[test]
fn configured_signing_key_is_never_created_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("elsewhere.key");
    let key = SigningKey::new(folder.path(), SigningKeySource::File(file.clone()));
    match key.load_or_create([7; 32]) {
        Err(StoreError::Refused(why)) => {
            assert!(why.contains("rmax keys rotate-installation audit"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!file.exists());
    fs::write(&file, format!("{}\n", "07".repeat(32))).unwrap();
    let made = key.load_or_create([8; 32]).unwrap().public_key();
    let command = |text: String| SigningKey::new(folder.path(), SigningKeySource::Command(text));
    let printed = command(format!("cat {}", file.display())).load().unwrap().unwrap();
    assert_eq!(printed.public_key(), made);
    for (text, why) in [("exit 3", "failed"), ("echo nonsense", "is not a key"), ("true", "is not a key")] {
        match command(text.to_owned()).load() {
            Err(StoreError::Refused(said)) => assert!(said.contains(why), "{said}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn only_keys_that_a_trusted_key_vouches_for_count() {
    let [first, second, third, stranger] = [1, 2, 3, 4].map(signer);
    let statements = [
        KeyStatement::rotated(&first, &second, at(10)),
        KeyStatement::rotated(&second, &third, at(20)),
        // Says of itself that it follows the first, and nobody who counts says so.
        KeyStatement::rotated(&first, &stranger, at(30)),
        KeyStatement::new(KeyChange::Restored, &stranger.public_key(), &stranger, at(30)),
    ];
    assert!(statements.iter().all(KeyStatement::has_valid_signatures));
    let keys = TrustedKeys::from_statements(&third.public_key(), &statements);
    let standing = |key: &Signer, ms| keys.standing(&key.public_key(), at(ms));
    assert_eq!(standing(&third, 1), KeyStanding::Trusted);
    assert_eq!(standing(&second, 20), KeyStanding::Trusted);
    assert_eq!(standing(&first, 10), KeyStanding::Trusted);
    assert_eq!(standing(&first, 10 + 3_600_000), KeyStanding::Retired);
    assert_eq!(standing(&stranger, 1), KeyStanding::Unknown);
    let forged = KeyStatement { former: stranger.public_key(), ..statements[1].clone() };
    assert!(!forged.has_valid_signatures());
    let keys = TrustedKeys::from_statements(&third.public_key(), &[forged]);
    assert!(!keys.contains(&stranger.public_key()));
}

fn signer(seed: u8) -> Signer {
    Signer::from_seed(&[seed; 32]).unwrap()
}

#[test]
fn modified_checkpoint_fails_its_signature() {
    let signer = self::signer(7);
    let good = signer.sign(head("main", 5), at(1), false);
    assert!(good.has_valid_signature());
    let text = serde_json::to_string(&good).unwrap();
    assert_eq!(serde_json::from_str::<Checkpoint>(&text).unwrap(), good);
    let stranger = self::signer(8);
    for forged in [
        Checkpoint { head: head("main", 6), ..good.clone() },
        Checkpoint { head: head("team", 5), ..good.clone() },
        Checkpoint { ts: at(2), ..good.clone() },
        Checkpoint { restored: true, ..good.clone() },
        Checkpoint { key: stranger.public_key(), ..good.clone() },
        Checkpoint { key: String::new(), ..good.clone() },
        Checkpoint { signature: stranger.sign(head("main", 5), at(1), false).signature, ..good.clone() },
        Checkpoint { signature: "xyz".to_owned(), ..good.clone() },
    ] {
        assert!(!forged.has_valid_signature(), "{forged:?}");
    }
}

#[test]
fn only_changed_heads_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let signer = self::signer(7);
    let append =
        |heads: &[Head], ms| append_checkpoints(folder.path(), &signer, heads, at(ms), false).unwrap();
    let log = folder.path().join(CHECKPOINT_LOG_FILE);
    append(&[], 0);
    assert!(!log.exists(), "nothing to say, no file");
    append(&[head("main", 1), head("team", 1)], 1);
    append(&[head("main", 1), head("team", 1)], 2);
    append(&[head("main", 2), head("team", 1)], 3);
    append(&[head("team", 1)], 4);
    let read: Vec<_> =
        read_checkpoints(&log).unwrap().checkpoints.into_iter().map(|one| (one.head, one.ts)).collect();
    assert_eq!(read, [(head("main", 1), at(1)), (head("team", 1), at(1)), (head("main", 2), at(3))]);
    // A head that went back is news too.
    append(&[head("main", 1)], 5);
    assert_eq!(read_checkpoints(&log).unwrap().checkpoints.len(), 4);
}

#[test]
fn edited_checkpoint_log_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let signer = self::signer(7);
    for seq in 1..=3 {
        append_checkpoints(folder.path(), &signer, &[head("main", seq)], at(seq), false).unwrap();
    }
    let log = folder.path().join(CHECKPOINT_LOG_FILE);
    let text = fs::read_to_string(&log).unwrap();
    for bad in [text.replacen("\"seq\":2", "\"seq\":9", 1), text.replacen("\n{", "\nx{", 1)] {
        fs::write(&log, bad).unwrap();
        match read_checkpoints(&log) {
            Err(StoreError::Refused(why)) => assert!(why.contains("line 2"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(read_checkpoints(&folder.path().join("none")), Err(StoreError::Unavailable(_))));
}

#[test]
fn torn_line_does_not_affect_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let signer = self::signer(7);
    append_checkpoints(folder.path(), &signer, &[head("main", 1)], at(1), false).unwrap();
    append_checkpoints(folder.path(), &signer, &[head("main", 2)], at(2), false).unwrap();
    let log = folder.path().join(CHECKPOINT_LOG_FILE);
    let length = fs::metadata(&log).unwrap().len();
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(length - 20).unwrap();
    append_checkpoints(folder.path(), &signer, &[head("main", 2)], at(3), false).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let last: Checkpoint = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(last.has_valid_signature() && last.head.seq == 2, "{text}");
}

#[test]
fn restore_invalidates_every_earlier_head() {
    let folder = tempfile::tempdir().unwrap();
    let signer = self::signer(7);
    let append = |heads: &[Head], ms, restored| {
        append_checkpoints(folder.path(), &signer, heads, at(ms), restored).unwrap();
        effective_heads(&read_checkpoints(&folder.path().join(CHECKPOINT_LOG_FILE)).unwrap().checkpoints)
    };
    append(&[head("main", 5), head("team", 5), head("late", 1)], 1, false);
    assert_eq!(append(&[head("main", 8)], 2, false).len(), 4);
    // The backup was older than the workspace `late`, and said again what the log already says of `team`.
    assert_eq!(append(&[head("main", 3), head("team", 5)], 3, true), [head("main", 3), head("team", 5)]);
    assert_eq!(append(&[head("main", 4)], 4, false), [head("main", 3), head("team", 5), head("main", 4)]);
    assert_eq!(append(&[head("main", 1)], 5, true), [head("main", 1)]);
}

/// Faults, row 49.
#[tokio::test]
async fn checkpoint_log_detects_truncation_and_accepts_a_restore() {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    let data = test_store.file().parent().unwrap().to_owned();
    let signer = self::signer(7);
    let record = async |store: &StoreWriter, ms, restored| {
        let heads: Vec<_> = store.heads().await.unwrap().into_iter().map(|(_, head)| head).collect();
        append_checkpoints(&data, &signer, &heads, at(ms), restored).unwrap();
    };
    let marks = || effective_heads(&read_checkpoints(&data.join(CHECKPOINT_LOG_FILE)).unwrap().checkpoints);
    make(&store, "one", "https://example.com/", 1).await;
    record(&store, 1, false).await;
    let file = test_store.folder().join("backup");
    store.backup(fs::File::create(&file).unwrap(), &signer, at(2)).await.unwrap();
    make(&store, "two", "https://example.com/", 3).await;
    record(&store, 3, false).await;
    store.verify(&marks()).await.unwrap().unwrap();
    // The older backup is a sound chain, and shorter than what was signed.
    store.restore(&file, &RestoreTrust::Key(signer.public_key())).await.unwrap();
    store.verify(&[]).await.unwrap().unwrap();
    assert_eq!(store.verify(&marks()).await.unwrap().unwrap_err().seq, 3);
    // Restored by us, and said so.
    record(&store, 4, true).await;
    store.verify(&marks()).await.unwrap().unwrap();
    make(&store, "other", "https://example.com/", 5).await;
    record(&store, 5, false).await;
    store.verify(&marks()).await.unwrap().unwrap();
}
