//! A backup is all of it, and restoring never loses anything unasked.

use insta::assert_snapshot;

use crate::place::Place;

fn filled() -> Place {
    let place = Place::new().with("RMAX_DOMAIN", "rmax.to");
    place.ok("links set a https://example.com/ --tag x --title T --note N --expires 2099-01-01");
    place.ok("links set b https://example.com/b");
    place.ok("links delete b --yes");
    place.ok("workspaces create crew --preset team");
    place.ok("--workspace crew domains add crew.example");
    place.ok("--workspace crew shorten https://example.com/page");
    place
}

fn everything(place: &Place) -> Vec<String> {
    [
        "links list --json --show-deleted",
        "links list --json --workspace crew",
        "domains list --all --json",
        "workspaces list --json",
        "audit list --json",
        "links history b --json",
    ]
    .map(|line| place.ok(line).stdout)
    .to_vec()
}

#[test]
fn a_backup_restores_everything_elsewhere() {
    let place = filled();
    assert_snapshot!(place.rmax("backup all.jsonl"), @"
    exit 0
    --- stdout
    saved: workspaces 2, domains 2, members 0, keys 0, links 3, audit entries 8
    ");
    let before = everything(&place);
    assert_snapshot!(place.rmax("--data other restore all.jsonl"), @"
    exit 0
    --- stdout
    restored: workspaces 2, domains 2, members 0, keys 0, links 3, audit entries 8
    ");
    let place = place.with("RMAX_DATA", "other");
    assert_eq!(everything(&place), before);
    place.ok("audit verify");
    place.ok("doctor");
    // Ids and codes go on where they were.
    place.ok("links set c https://example.com/c");
    place.fails(4, "links set b https://example.com/again");
    assert_eq!(place.ok("--workspace crew links list --search page").stdout.lines().count(), 2);
}

#[test]
fn backup_never_replaces_a_file_unasked() {
    let place = filled();
    place.write("all.jsonl", "precious");
    assert_snapshot!(place.rmax("backup all.jsonl"), @"
    exit 4
    --- stderr
    error: all.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(place.read("all.jsonl"), "precious");
    place.ok("backup all.jsonl --force");
    assert!(place.read("all.jsonl").starts_with("{\"rlinks_backup\""));
    place.fails(1, "backup nowhere/all.jsonl").says("nowhere/all.jsonl cannot be written");
    let left: Vec<_> =
        std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn restore_refuses_a_store_that_is_not_empty() {
    let place = filled();
    place.ok("backup all.jsonl");
    place.ok("links set later https://example.com/later");
    let before = everything(&place);
    assert_snapshot!(place.rmax("restore all.jsonl"), @"
    exit 1
    --- stderr
    error: sqlite:rlinks-data/rlinks.db is not empty; nothing was changed
    hint: replace everything in it with --force, after a `rmax backup` of its own
    ");
    assert_eq!(everything(&place), before);
    place.ok("restore all.jsonl --force");
    place.fails(3, "links get later");
    // The log of signed heads knows the entries that are gone, and knows that this was a restore.
    place.ok("audit verify");
    place.ok("links set later https://example.com/again");
    place.ok("audit verify");
}

#[test]
fn a_workspace_the_backup_does_not_have_is_not_missed() {
    let place = Place::new();
    place.ok("links set a https://example.com/");
    place.ok("backup all.jsonl");
    place.ok("workspaces create crew");
    place.ok("restore all.jsonl --force");
    place.ok("audit verify");
    place.ok("doctor");
}

#[test]
fn restore_refuses_what_is_not_a_whole_backup() {
    let place = filled();
    place.ok("backup all.jsonl");
    let before = everything(&place);
    let text = place.read("all.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    let check = |name: &str, text: String, message: &str| {
        place.write(name, &text);
        let ran = place.fails(1, &format!("restore {name} --force"));
        ran.says(message);
    };
    check("edited", text.replacen("example.com", "evil.com", 1), "not a whole rlinks backup");
    check("cut", lines[..lines.len() - 1].join("\n"), "it ends early");
    check("half", text[..text.len() / 2].to_owned(), "not a whole rlinks backup");
    check("empty", String::new(), "it ends early");
    check("other", "{\"some\":\"json\"}\n".to_owned(), "not a whole rlinks backup");
    check("longer", format!("{text}{}\n", lines[1]), "there is more after its end");
    check("newer", text.replacen("\"format\":2", "\"format\":3", 1), "a newer rmax");
    place.fails(1, "restore missing.jsonl --force").says("missing.jsonl cannot be read");
    assert_eq!(everything(&place), before);
}

#[test]
fn restore_refuses_while_a_server_holds_the_folder() {
    let place = filled();
    place.ok("backup all.jsonl");
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(place.path("rlinks-data/serve.lock"))
        .unwrap();
    lock.try_lock().unwrap();
    assert_snapshot!(place.rmax("restore all.jsonl --force"), @"
    exit 1
    --- stderr
    error: a server is running on rlinks-data; nothing was changed
    hint: stop it, restore, and start it again
    ");
    // Everything else shares the store with a server.
    place.ok("backup again.jsonl");
    place.ok("links set shared https://example.com/");
    drop(lock);
    place.ok("restore all.jsonl --force");
}

#[test]
fn a_lost_store_is_restored_without_force() {
    let place = filled();
    place.ok("backup all.jsonl");
    for name in ["rlinks.db", "rlinks.db-wal", "rlinks.db-shm"] {
        let _ = std::fs::remove_file(place.path("rlinks-data").join(name));
    }
    assert_eq!(place.rmax("links list").code, Some(1));
    place.ok("restore all.jsonl");
    place.ok("audit verify");
}

#[test]
fn a_damaged_store_is_put_aside_and_restored_with_force() {
    let place = filled();
    place.ok("backup all.jsonl");
    std::fs::write(place.database(), "this was a database").unwrap();
    let ran = place.fails(1, "restore all.jsonl");
    ran.says("--force");
    assert_eq!(std::fs::read(place.database()).unwrap(), b"this was a database");
    let ran = place.ok("restore all.jsonl --force");
    ran.says("it was put aside as rlinks-data/rlinks.db.damaged-");
    ran.says("warning: rlinks-data/rlinks.db is not a readable database (file is not a database)\n");
    assert!(!ran.stderr.contains("nothing was changed"), "{ran}");
    place.ok("audit verify");
    assert_eq!(place.link("a")["title"], "T");
}

#[test]
fn counts_as_json() {
    let place = filled();
    let counts = place.json("backup all.jsonl --json");
    assert_eq!((&counts["links"], &counts["workspaces"]), (&3.into(), &2.into()));
    assert_eq!(place.json("--data other --json restore all.jsonl"), counts);
}
