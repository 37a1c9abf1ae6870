//! Integrity data that is kept apart from what it protects: signed backups, keys outside the data folder, heads sent elsewhere, and keys
//! that are rotated.

mod outside_s3;
mod push;
mod rotation;

use insta::assert_snapshot;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::sandbox::Sandbox;

/// A store with an admin who has a password.
fn with_password() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/a");
    let mut create = sandbox.command("users create --email ann@example.com --role admin --password-stdin");
    let mut child = create.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a password nobody guesses\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    sandbox
}

/// What somebody does who can edit the file and knows the format: other lines, and a last line that is true of them.
fn forged(sandbox: &Sandbox, edit: impl Fn(&mut Value)) -> String {
    let text = sandbox.read("all.jsonl");
    let mut lines: Vec<&str> = text.lines().collect();
    let mut end: Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
    let mut body = String::new();
    for line in lines {
        let before: Value = serde_json::from_str(line).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        // What isn't edited keeps its bytes.
        body.push_str(&if before == after { line.to_owned() } else { after.to_string() });
        body.push('\n');
    }
    end["end"]["sha256"] = rlinks_core::hex::encode(&Sha256::digest(body.as_bytes())).into();
    format!("{body}{end}\n")
}

fn swap_password(line: &mut Value) {
    if line["user"]["password_hash"].is_string() {
        line["user"]["password_hash"] = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$ZXZpbA".into();
    }
}

/// Row 9.
#[test]
fn backup_with_a_swapped_password_hash_is_refused() {
    let sandbox = with_password();
    sandbox.ok("backup all.jsonl");
    assert!(sandbox.read("all.jsonl").contains("\"password_hash\":\"$argon2id$"));
    sandbox.write("forged", &forged(&sandbox, swap_password));
    let trust = sandbox.fingerprint("all.jsonl");
    for flags in ["--force", &format!("--force --trust {trust}"), "--force --unsigned"] {
        sandbox.fails(1, &format!("restore forged {flags}")).says("the backup's signature is wrong");
    }
    // As a version 2 backup it has no signature to be wrong. Its log knows the password all the same.
    let downgrade = |line: &mut Value| {
        if let Some(header) = line.get_mut("rlinks_backup").and_then(Value::as_object_mut) {
            header.insert("format".to_owned(), json!(2));
            header.retain(|name, _| !["key", "fingerprint", "encryption"].contains(&name.as_str()));
        }
    };
    let swapped = forged(&sandbox, |line| {
        swap_password(line);
        downgrade(line);
    });
    sandbox.write("swapped", &swapped);
    for flags in ["--force", "--force --unsigned"] {
        let ran = sandbox.fails(1, &format!("restore swapped {flags}"));
        ran.says("signs in is not what the backup's own audit log says");
    }
    sandbox.write("unsigned", &forged(&sandbox, downgrade));
    sandbox.fails(1, "restore unsigned --force").says("unsigned is not signed");
    sandbox.ok("restore unsigned --force --unsigned").says("nobody can tell whether it was changed");
    sandbox.ok("restore all.jsonl --force");
    sandbox.ok("audit verify");
}

/// Row 9.
#[test]
fn restoring_another_installations_backup_needs_its_fingerprint() {
    let sandbox = with_password();
    sandbox.ok("backup all.jsonl");
    let trust = sandbox.fingerprint("all.jsonl");
    assert!(sandbox.ok("doctor").stdout.contains(&trust), "where it was written it can be looked up");
    assert_snapshot!(sandbox.rmax("--data other restore all.jsonl"), @"
    exit 1
    --- stderr
    error: all.jsonl was written by another installation, on <time>. Its key is <fingerprint>; nothing was changed
    hint: compare that with what `rmax backup` or `rmax doctor` says there, and restore it with --trust <fingerprint>
    ");
    assert!(!sandbox.path("other").exists(), "not even a folder was made");
    let wrong = "0000-0000-0000-0000-0000-0000-0000-0000";
    sandbox
        .fails(1, &format!("--data other restore all.jsonl --trust {wrong}"))
        .says(&format!("is signed by key {trust}, not by {wrong}"));
    sandbox.fails(1, "--data other restore all.jsonl --unsigned").says("another installation");
    let typed = trust.replace('-', "").to_uppercase();
    sandbox.ok(&format!("--data other restore all.jsonl --trust {typed}"));

    // There it has a key of its own, which no backup carries; what the old key signed before still verifies.
    let secret = sandbox.read("rlinks-data/audit-key");
    assert!(!sandbox.read("all.jsonl").contains(secret.trim()));
    assert_ne!(sandbox.read("other/audit-key"), secret);
    sandbox.ok("audit export log.jsonl --checkpoint before");
    let elsewhere = sandbox.ok("--data other audit verify --checkpoint before");
    assert!(!elsewhere.stderr.contains("another installation"), "{elsewhere}");
    // And its own backups need no question.
    sandbox.ok("--data other backup again.jsonl");
    sandbox.ok("--data other restore again.jsonl --force");
    sandbox.ok("--data other restore all.jsonl --force");
}

/// Row 9.
#[test]
fn encrypted_or_keyless_header_is_refused() {
    let sandbox = with_password();
    sandbox.ok("backup all.jsonl");
    let header = |name: &'static str, value: Value| {
        forged(&sandbox, move |line| {
            if line["rlinks_backup"].is_object() {
                line["rlinks_backup"][name] = value.clone();
            }
        })
    };
    sandbox.write("encrypted", &header("encryption", json!({ "scheme": "age" })));
    sandbox.fails(1, "restore encrypted --force").says("it is encrypted in a way this rmax doesn't know");
    sandbox.write("keyless", &header("key", Value::Null));
    sandbox.fails(1, "restore keyless --force --unsigned").says("its header names no key");
}

/// Row 9.
#[test]
fn credential_swapped_in_the_store_is_a_finding() {
    let sandbox = with_password();
    sandbox.ok("audit verify");
    sandbox.tamper("update users set password_hash = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$ZXZpbA'");
    let ran = sandbox.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says("changed past it: credentials of user");
    assert_eq!(sandbox.rmax("doctor").code, Some(1));
}

/// Row 9: entries of earlier versions have no digest, and a missing one is no mismatch.
#[test]
fn credential_that_was_never_recorded_is_no_finding() {
    let sandbox = with_password();
    sandbox.tamper(
        "update users set credential_salt = null;
         update audit set after = replace(after, '\"credential\":', '\"was_not_there\":')",
    );
    // The chain is broken by that edit, and nothing else is found.
    let found = sandbox.rmax("--json audit verify").stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["directory_beside_the_log"], json!([]), "{found}");
}

/// Row 10.
#[test]
fn missing_head_log_or_key_is_a_finding_and_is_not_made_anew() {
    let sandbox = with_password();
    let (log, key) = (sandbox.path("rlinks-data/audit-heads.log"), sandbox.path("rlinks-data/audit-key"));
    let verify = |why: &[&str]| {
        let ran = sandbox.rmax("audit verify");
        assert_eq!(ran.code, Some(1), "{ran}");
        for why in why {
            ran.says(why);
        }
    };
    let kept = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    verify(&["there is no rlinks-data/audit-heads.log yet, though heads of this store were signed"]);
    // The next change doesn't begin a new log, which would hide that the old one is gone.
    sandbox
        .ok("links set c https://example.com/c")
        .says("audit-heads.log is gone, though heads of this store were signed");
    verify(&["there is no rlinks-data/audit-heads.log yet, though heads of this store were signed"]);
    std::fs::remove_file(&key).unwrap();
    verify(&["the audit key was there and is gone", "though heads of this store were signed"]);
    assert!(!log.exists() && !key.exists(), "looking makes nothing");
    std::fs::write(&log, &kept).unwrap();
    verify(&["the audit key was there and is gone: rlinks-data/audit-key"]);
    // Neither is it replaced in passing.
    sandbox.ok("links set b https://example.com/b").says("the audit heads were not signed");
    assert!(!key.exists());
    sandbox.fails(1, "backup all.jsonl").says("`rmax keys rotate-installation audit`");
    assert_eq!(sandbox.rmax("doctor").code, Some(1));
    // Only when somebody says so.
    sandbox.ok("keys rotate-installation audit");
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}

/// Row 10: whoever can write the data folder, but not read the key that is kept elsewhere, can only sign with one of their own.
#[test]
fn heads_signed_by_a_key_that_does_not_count_are_a_finding() {
    let sandbox = Sandbox::new().with("RMAX_AUDIT_KEY", "audit.key");
    sandbox.ok("keys rotate-installation audit");
    sandbox.ok("links set a https://example.com/a");
    sandbox.ok("audit verify");
    let sandbox = sandbox.with("RMAX_AUDIT_KEY", "");
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    // Who can write the data folder can also make the store forget that heads were signed.
    sandbox.tamper("delete from audit_keys");
    sandbox.write("rlinks-data/audit-key", &"42".repeat(32));
    sandbox.ok("links set a https://evil.example/");
    let sandbox = sandbox.with("RMAX_AUDIT_KEY", "audit.key");
    let ran = sandbox.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says("audit-heads.log is signed by another installation's key");
}

/// Row 10.
#[test]
fn fresh_store_without_signed_heads_is_no_finding() {
    let sandbox = Sandbox::new();
    sandbox.ok("audit verify").says("there is no rlinks-data/audit-heads.log yet");
    assert!(!sandbox.path("rlinks-data/audit-key").exists(), "looking makes no key");
}

/// Row 10.
#[test]
fn audit_key_can_be_a_file_or_a_command_outside_the_data_folder() {
    let sandbox = Sandbox::new().with("RMAX_AUDIT_KEY", "secret/audit.key");
    // A configured key is never made in passing: a typing error would otherwise be a new key.
    sandbox.ok("links set a https://example.com/a").says("`rmax keys rotate-installation audit` makes one");
    sandbox.fails(1, "serve --listen 127.0.0.1:0").says("there is no audit key at secret/audit.key");
    std::fs::create_dir(sandbox.path("secret")).unwrap();
    sandbox.ok("keys rotate-installation audit");
    assert!(!sandbox.path("rlinks-data/audit-key").exists());
    sandbox.ok("links set b https://example.com/b");
    sandbox.ok("audit verify");
    sandbox.ok("backup all.jsonl");
    let trust = sandbox.fingerprint("all.jsonl");
    assert!(sandbox.ok("doctor").stdout.contains(&trust));

    let sandbox = sandbox.with("RMAX_AUDIT_KEY", "command:cat secret/audit.key");
    sandbox.ok("links set c https://example.com/c");
    sandbox.ok("audit verify");
    sandbox.ok("restore all.jsonl --force");
    let sandbox = sandbox.with("RMAX_AUDIT_KEY", "command:echo nothing; exit 1");
    let ran = sandbox.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says("the audit key can't be read: the command of `audit.key`: failed");
    sandbox
        .with("RMAX_AUDIT_KEY", "command: ")
        .fails(2, "audit verify")
        .says("must be a file, or `command:`");
}
