//! `rmax doctor` and `rmax migrate`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use crate::place::Place;

/// The problems found, by the name of the check.
fn problems(place: &Place) -> Vec<String> {
    let ran = place.rmax("doctor --json");
    let findings = ran.json();
    let problems: Vec<String> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["ok"] == false)
        .map(|finding| finding["check"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ran.code, Some(i32::from(!problems.is_empty())), "{ran}");
    problems
}

#[test]
fn nothing_is_wrong_with_nothing_and_nothing_is_made() {
    let place = Place::new();
    assert_snapshot!(place.rmax("doctor"), @"
    exit 0
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is not there yet; the first command makes it
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db is not there yet; the first command makes it
    ");
    assert!(!place.path("rlinks-data").exists());
}

#[test]
fn all_is_well() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    assert_snapshot!(place.rmax("doctor"), @"
    exit 0
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is ours alone to write
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db opens
    ok       schema: up to date (1)
    ok       integrity: the database finds no damage
    ok       heads: 1 signed heads in rlinks-data/audit-heads.log
    ok       audit: 2 entries, none edited, removed or cut off
    ok       links: every link is what the audit log says
    ");
}

#[test]
fn each_trouble_is_named() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    place.ok("links set y https://example.com/");
    assert_eq!(problems(&place), Vec::<String>::new());

    place.tamper("update links set target = 'https://evil.example/' where code = 'x'");
    assert_eq!(problems(&place), ["links"]);
    place.tamper("update audit set actor = 'mallory' where seq = 2");
    assert_eq!(problems(&place), ["audit", "links"]);
    assert_snapshot!(place.rmax("doctor"), @"
    exit 1
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is ours alone to write
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db opens
    ok       schema: up to date (1)
    ok       integrity: the database finds no damage
    ok       heads: 2 signed heads in rlinks-data/audit-heads.log
    problem  audit: workspace main, entry 2: was edited: its hash does not match its contents
             compare with a backup or an export
    problem  links: changed past the audit log: x
             `rmax links history <code>` shows what the log knows
    --- stderr
    error: 2 problems were found
    ");
    place.write("rlinks-data/audit-heads.log", "{}\n");
    assert_eq!(problems(&place), ["heads", "audit", "links"]);

    place.write("rmax.toml", "nonsense = 1\n");
    assert_eq!(problems(&place), ["config"]);
}

#[test]
fn what_others_can_reach_is_named() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    let set = |name: &str, mode| {
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("rlinks-data", 0o777);
    assert_eq!(problems(&place), ["data"]);
    set("rlinks-data", 0o755);
    assert_eq!(problems(&place), Vec::<String>::new());
    set("rlinks-data/audit-key", 0o644);
    assert_eq!(problems(&place), ["data"]);
    place.rmax("doctor").says("one problem was found");
}

#[test]
fn a_clock_that_was_set_back_is_named() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    place.tamper("update heads set ts = 4073544000000");
    assert_eq!(problems(&place), ["clock"]);
}

#[test]
fn a_running_server_is_told() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(place.path("rlinks-data/serve.lock"))
        .unwrap();
    lock.try_lock().unwrap();
    assert!(place.ok("doctor").stdout.contains("one is running on this folder"));
    drop(lock);
    assert!(place.ok("doctor").stdout.contains("none is running on this folder"));
}

#[test]
fn a_damaged_database_is_told() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    std::fs::write(place.database(), "no database").unwrap();
    assert_eq!(problems(&place), ["store"]);
}

#[test]
fn migrate_says_which_schema_there_is() {
    let place = Place::new();
    assert_snapshot!(place.rmax("migrate up"), @"
    exit 0
    --- stdout
    the schema is up to date: 1
    ");
    assert_snapshot!(place.rmax("migrate status"), @"
    exit 0
    --- stdout
    schema 1; 1 applied, 0 waiting
    ");
    let schema = place.json("migrate status --json");
    assert_eq!(schema["known"], schema["applied"]);
}
