//! A backup is all of it, and restoring never loses anything unasked.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

fn filled() -> Sandbox {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    sandbox.ok("links set a https://example.com/ --tag x --title T --note N --expires 2099-01-01");
    sandbox.ok("links set b https://example.com/b");
    sandbox.ok("links delete b --yes");
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("--workspace crew domains add crew.example");
    sandbox.ok("--workspace crew shorten https://example.com/page");
    sandbox
}

fn everything(sandbox: &Sandbox) -> Vec<String> {
    [
        "links list --json --show-deleted",
        "links list --json --workspace crew",
        "domains list --all --json",
        "workspaces list --json",
        "audit list --json",
        "links history b --json",
    ]
    .map(|line| sandbox.ok(line).stdout)
    .to_vec()
}

#[test]
fn backup_restores_all_data_into_another_folder() {
    let sandbox = filled();
    assert_snapshot!(sandbox.rmax("backup all.jsonl"), @"
    exit 0
    --- stdout
    saved: workspaces 2, domains 2, members 0, keys 0, links 3, audit entries 8
    --- stderr
    signed by key <fingerprint>
    ");
    let before = everything(&sandbox);
    let trust = sandbox.fingerprint("all.jsonl");
    assert_snapshot!(sandbox.rmax(&format!("--data other restore all.jsonl --trust {trust}")), @"
    exit 0
    --- stdout
    restored: workspaces 2, domains 2, members 0, keys 0, links 3, audit entries 8
    --- stderr
    signed by key <fingerprint>
    ");
    let sandbox = sandbox.with("RMAX_DATA", "other");
    assert_eq!(everything(&sandbox), before);
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
    // Ids and codes go on where they were.
    sandbox.ok("links set c https://example.com/c");
    sandbox.fails(4, "links set b https://example.com/again");
    assert_eq!(sandbox.ok("--workspace crew links list --search page").stdout.lines().count(), 2);
}

#[test]
fn backup_overwrites_a_file_only_with_force() {
    let sandbox = filled();
    sandbox.write("all.jsonl", "precious");
    assert_snapshot!(sandbox.rmax("backup all.jsonl"), @"
    exit 4
    --- stderr
    error: all.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(sandbox.read("all.jsonl"), "precious");
    sandbox.ok("backup all.jsonl --force");
    assert!(sandbox.read("all.jsonl").starts_with("{\"rlinks_backup\""));
    sandbox.fails(1, "backup nowhere/all.jsonl").says("nowhere/all.jsonl cannot be written");
    let left: Vec<_> =
        std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn restore_refuses_a_store_that_is_not_empty() {
    let sandbox = filled();
    sandbox.ok("backup all.jsonl");
    sandbox.ok("links set later https://example.com/later");
    let before = everything(&sandbox);
    assert_snapshot!(sandbox.rmax("restore all.jsonl"), @"
    exit 1
    --- stderr
    error: sqlite:rlinks-data/rlinks.db is not empty; nothing was changed
    hint: replace everything in it with --force, after a `rmax backup` of its own
    ");
    assert_eq!(everything(&sandbox), before);
    sandbox.ok("restore all.jsonl --force");
    sandbox.fails(3, "links get later");
    // The log of signed heads knows the entries that are gone, and knows that this was a restore.
    sandbox.ok("audit verify");
    sandbox.ok("links set later https://example.com/again");
    sandbox.ok("audit verify");
}

#[test]
fn restore_drops_workspaces_missing_from_the_backup() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/");
    sandbox.ok("backup all.jsonl");
    sandbox.ok("workspaces create crew");
    sandbox.ok("restore all.jsonl --force");
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}

#[test]
fn restore_rejects_damaged_or_incomplete_backups() {
    let sandbox = filled();
    sandbox.ok("backup all.jsonl");
    let before = everything(&sandbox);
    let text = sandbox.read("all.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    let check = |name: &str, text: String, message: &str| {
        sandbox.write(name, &text);
        let ran = sandbox.fails(1, &format!("restore {name} --force"));
        ran.says(message);
    };
    check("edited", text.replacen("example.com", "evil.com", 1), "not a whole rlinks backup");
    check("cut", lines[..lines.len() - 1].join("\n"), "it ends early");
    check("half", text[..text.len() / 2].to_owned(), "not a whole rlinks backup");
    check("empty", String::new(), "it ends early");
    check("other", "{\"some\":\"json\"}\n".to_owned(), "not a whole rlinks backup");
    check("longer", format!("{text}{}\n", lines[1]), "there is more after its end");
    check("newer", text.replacen("\"format\":3", "\"format\":4", 1), "a newer rmax");
    sandbox.fails(1, "restore missing.jsonl --force").says("missing.jsonl cannot be read");
    assert_eq!(everything(&sandbox), before);
}

#[test]
fn restore_refuses_while_a_server_holds_the_folder() {
    let sandbox = filled();
    sandbox.ok("backup all.jsonl");
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(sandbox.path("rlinks-data/serve.lock"))
        .unwrap();
    lock.try_lock().unwrap();
    assert_snapshot!(sandbox.rmax("restore all.jsonl --force"), @"
    exit 1
    --- stderr
    error: a server is running on rlinks-data; nothing was changed
    hint: stop it, restore, and start it again
    ");
    // Everything else shares the store with a server.
    sandbox.ok("backup again.jsonl");
    sandbox.ok("links set shared https://example.com/");
    drop(lock);
    sandbox.ok("restore all.jsonl --force");
}

#[test]
fn missing_store_is_restored_without_force() {
    let sandbox = filled();
    sandbox.ok("backup all.jsonl");
    for name in ["rlinks.db", "rlinks.db-wal", "rlinks.db-shm"] {
        let _ = std::fs::remove_file(sandbox.path("rlinks-data").join(name));
    }
    assert_eq!(sandbox.rmax("links list").code, Some(1));
    sandbox.ok("restore all.jsonl");
    sandbox.ok("audit verify");
}

#[test]
fn a_damaged_store_is_put_aside_and_restored_with_force() {
    let sandbox = filled();
    sandbox.ok("backup all.jsonl");
    std::fs::write(sandbox.database(), "this was a database").unwrap();
    let ran = sandbox.fails(1, "restore all.jsonl");
    ran.says("--force");
    assert_eq!(std::fs::read(sandbox.database()).unwrap(), b"this was a database");
    let ran = sandbox.ok("restore all.jsonl --force");
    ran.says("it was put aside as rlinks-data/rlinks.db.damaged-");
    ran.says("warning: rlinks-data/rlinks.db is not a readable database (file is not a database)\n");
    assert!(!ran.stderr.contains("nothing was changed"), "{ran}");
    sandbox.ok("audit verify");
    assert_eq!(sandbox.link("a")["title"], "T");
}

#[test]
fn backup_and_restore_print_counts_as_json() {
    let sandbox = filled();
    let counts = sandbox.json("backup all.jsonl --json");
    assert_eq!((&counts["links"], &counts["workspaces"]), (&3.into(), &2.into()));
    let trust = sandbox.fingerprint("all.jsonl");
    assert_eq!(counts["fingerprint"], trust.as_str());
    assert_eq!(sandbox.json(&format!("--data other --json restore all.jsonl --trust {trust}")), counts);
}
