//! `rmax doctor` and `rmax migrate`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::place::{Place, block_on};

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
    ok       schema: up to date (10)
    ok       integrity: the database finds no damage
    ok       heads: 1 signed heads in rlinks-data/audit-heads.log
    ok       audit: 2 entries, none edited, removed or cut off
    ok       links: every link is what the audit log says
    ok       clicks: none were stored yet
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
    ok       schema: up to date (10)
    ok       integrity: the database finds no damage
    ok       heads: 2 signed heads in rlinks-data/audit-heads.log
    problem  audit: workspace main, entry 2: was edited: its hash does not match its contents
             compare with a backup or an export
    problem  links: changed past the audit log: x
             `rmax links history <code>` shows what the log knows
    ok       clicks: none were stored yet
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
fn what_sqlite_says_in_several_lines_is_one() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    let (page, size): (i64, i64) = block_on(async {
        let mut database = SqliteConnectOptions::new().filename(place.database()).connect().await.unwrap();
        let sql = "select rootpage, page_size from sqlite_schema, pragma_page_size where name = 'links'";
        let found = sqlx::query_as(sql).fetch_one(&mut database).await.unwrap();
        database.close().await.unwrap();
        found
    });
    // Where the first cells of that page are.
    let at = usize::try_from((page - 1) * size).unwrap() + 8;
    let mut bytes = std::fs::read(place.database()).unwrap();
    bytes[at..at + 4].fill(0xff);
    std::fs::write(place.database(), bytes).unwrap();
    let refused = place.fails(1, "serve --listen 127.0.0.1:0");
    refused.says("is damaged (*** in database main ***; Tree");
    let ran = place.rmax("doctor");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("problem  store: the database file is damaged"), "{ran}");
    assert!(!ran.stdout.contains("\\u000a") && !ran.stdout.contains("rmax doctor"), "{ran}");
}

#[test]
fn a_folder_that_cannot_be_made_or_is_none_is_told() {
    let place = Place::new();
    place.write("file", "");
    let told = |line: &str| place.rmax(line).stdout;
    assert!(told("--data file doctor").contains("problem  data: file is not a folder"));
    assert!(
        told("--data file/x doctor").contains("problem  data: file/x cannot be made: file is not a folder")
    );
    assert!(!told("--data file doctor").contains("rmax doctor"));

    // As somebody who may not: to root nothing is closed.
    let closed = place.path("closed");
    std::fs::create_dir(&closed).unwrap();
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&place.path(""), 0o755);
    set(&closed, 0o555);
    let mut command = place.command("--data closed/data doctor");
    if rustix::process::geteuid().is_root() {
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
    }
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        stdout.contains("problem  data: closed/data cannot be made: closed cannot be written"),
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_workspace_no_domain_reaches_is_told() {
    let place = Place::new();
    place.ok("workspaces create crew");
    place.ok("--workspace crew links set x https://example.com/");
    assert_eq!(problems(&place), Vec::<String>::new(), "nobody has a domain");
    place.ok("domains add rmax.to");
    assert_eq!(problems(&place), ["domains"]);
    assert!(place.rmax("doctor").stdout.contains(
        "problem  domains: workspace crew has links and no domain, so no host reaches them\n         `rmax domains add <host> --workspace crew` adds one\n"
    ));
    place.ok("domains add crew.example --workspace crew");
    assert_eq!(problems(&place), Vec::<String>::new());
}

#[test]
fn migrate_says_which_schema_there_is() {
    let place = Place::new();
    assert_snapshot!(place.rmax("migrate up"), @"
    exit 0
    --- stdout
    the schema is up to date: 10
    ");
    assert_snapshot!(place.rmax("migrate status"), @"
    exit 0
    --- stdout
    schema 10; 10 applied, 0 waiting
    ");
    let schema = place.json("migrate status --json");
    assert_eq!(schema["known"], schema["applied"]);
}

#[test]
fn files_that_cannot_be_used_are_told() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    assert_eq!(problems(&place), [""; 0]);
    place.write("rmax.toml", "geoip_path = \"none.mmdb\"\n[safety]\nblocklist_path = \"none.txt\"\n[tls]\ncert = \"none.pem\"\nkey = \"none.pem\"\n");
    assert_eq!(problems(&place), ["tls", "block list", "places"]);
    place.write("none.txt", "evil.example\n");
    assert_eq!(problems(&place), ["tls", "places"]);
    std::fs::remove_file(place.path("rmax.toml")).unwrap();
    std::fs::remove_file(place.path("rlinks-data/audit-heads.log")).unwrap();
    assert_eq!(problems(&place), ["heads"]);
}
