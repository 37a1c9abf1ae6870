//! `rmax doctor` and `rmax migrate`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::sandbox::{Sandbox, block_on};

/// The problems found, by the name of the check.
fn problems(sandbox: &Sandbox) -> Vec<String> {
    let ran = sandbox.rmax("doctor --json");
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
fn doctor_without_a_data_folder_is_healthy_and_creates_nothing() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("doctor"), @"
    exit 0
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is not there yet; the first command makes it
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db is not there yet; the first command makes it
    ");
    assert!(!sandbox.path("rlinks-data").exists());
}

#[test]
fn doctor_on_a_healthy_store_reports_no_problem() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("doctor"), @"
    exit 0
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is ours alone to write
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db opens
    ok       schema: up to date (14)
    ok       integrity: the database finds no damage
    ok       heads: 1 signed heads in rlinks-data/audit-heads.log; the key is <fingerprint>
    ok       audit: 2 entries, none edited, removed or cut off
    ok       links: every link is what the audit log says
    ok       clicks: none were stored yet
    ");
}

#[test]
fn doctor_names_each_problem() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    sandbox.ok("links set y https://example.com/");
    assert_eq!(problems(&sandbox), Vec::<String>::new());

    sandbox.tamper("update links set target = 'https://evil.example/' where code = 'x'");
    assert_eq!(problems(&sandbox), ["links"]);
    sandbox.tamper("update audit set actor = 'mallory' where seq = 2");
    assert_eq!(problems(&sandbox), ["audit", "links"]);
    assert_snapshot!(sandbox.rmax("doctor"), @"
    exit 1
    --- stdout
    ok       config: no file, so defaults and variables
    ok       clock: it is <time>
    ok       data: rlinks-data is ours alone to write
    ok       server: none is running on this folder
    ok       store: sqlite:rlinks-data/rlinks.db opens
    ok       schema: up to date (14)
    ok       integrity: the database finds no damage
    ok       heads: 2 signed heads in rlinks-data/audit-heads.log; the key is <fingerprint>
    problem  audit: workspace main, entry 2: was edited: its hash does not match its contents
             compare with a backup or an export
    problem  links: changed past the audit log: x
             `rmax links history <code>` shows what the log knows
    ok       clicks: none were stored yet
    --- stderr
    error: 2 problems were found
    ");
    sandbox.write("rlinks-data/audit-heads.log", "{}\n");
    assert_eq!(problems(&sandbox), ["heads", "audit", "links"]);

    sandbox.write("rmax.toml", "nonsense = 1\n");
    assert_eq!(problems(&sandbox), ["config"]);
}

#[test]
fn doctor_reports_files_readable_by_others() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    let set = |name: &str, mode| {
        std::fs::set_permissions(sandbox.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("rlinks-data", 0o777);
    assert_eq!(problems(&sandbox), ["data"]);
    set("rlinks-data", 0o755);
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    set("rlinks-data/audit-key", 0o644);
    assert_eq!(problems(&sandbox), ["data"]);
    sandbox.rmax("doctor").says("one problem was found");
}

#[test]
fn doctor_names_keys_unchanged_for_a_year() {
    let sandbox = Sandbox::new();
    let made = sandbox.json("keys create --name veteran --json");
    sandbox.ok("keys create --name recruit");
    assert_eq!(problems(&sandbox), Vec::<String>::new());
    sandbox.tamper("update api_keys set created_at = created_at - 31536000000 where name = 'veteran'");
    assert_eq!(problems(&sandbox), ["keys"]);
    let prefix = made["prefix"].as_str().unwrap();
    let found = format!("keys: unchanged for a year: veteran ({prefix}, workspace main)\n");
    let shown = sandbox.rmax("doctor").stdout;
    assert!(shown.contains(&found) && !shown.contains("recruit"), "{shown}");
    sandbox.ok(&format!("keys revoke {}", made["id"].as_str().unwrap()));
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

#[test]
fn doctor_reports_a_clock_set_back() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    sandbox.tamper("update heads set ts = 4073544000000");
    assert_eq!(problems(&sandbox), ["clock"]);
}

#[test]
fn doctor_reports_a_running_server() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(sandbox.path("rlinks-data/serve.lock"))
        .unwrap();
    lock.try_lock().unwrap();
    assert!(sandbox.ok("doctor").stdout.contains("one is running on this folder"));
    drop(lock);
    assert!(sandbox.ok("doctor").stdout.contains("none is running on this folder"));
}

#[test]
fn doctor_reports_a_damaged_database() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    std::fs::write(sandbox.database(), "no database").unwrap();
    assert_eq!(problems(&sandbox), ["store"]);
}

#[test]
fn multi_line_sqlite_errors_are_printed_on_one_line() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    let (page, size): (i64, i64) = block_on(async {
        let mut database = SqliteConnectOptions::new().filename(sandbox.database()).connect().await.unwrap();
        let sql = "select rootpage, page_size from sqlite_schema, pragma_page_size where name = 'links'";
        let found = sqlx::query_as(sql).fetch_one(&mut database).await.unwrap();
        database.close().await.unwrap();
        found
    });
    // Where the first cells of that page are.
    let at = usize::try_from((page - 1) * size).unwrap() + 8;
    let mut bytes = std::fs::read(sandbox.database()).unwrap();
    bytes[at..at + 4].fill(0xff);
    std::fs::write(sandbox.database(), bytes).unwrap();
    let refused = sandbox.fails(1, "serve --listen 127.0.0.1:0");
    refused.says("is damaged (*** in database main ***; Tree");
    let ran = sandbox.rmax("doctor");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("problem  store: the database file is damaged"), "{ran}");
    assert!(!ran.stdout.contains("\\u000a") && !ran.stdout.contains("rmax doctor"), "{ran}");
}

#[test]
fn doctor_reports_an_unusable_data_folder() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    let told = |line: &str| sandbox.rmax(line).stdout;
    assert!(told("--data file doctor").contains("problem  data: file is not a folder"));
    assert!(
        told("--data file/x doctor").contains("problem  data: file/x cannot be made: file is not a folder")
    );
    assert!(!told("--data file doctor").contains("rmax doctor"));

    // As somebody who may not: to root nothing is closed.
    let closed = sandbox.path("closed");
    std::fs::create_dir(&closed).unwrap();
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&sandbox.path(""), 0o755);
    set(&closed, 0o555);
    let mut command = sandbox.command("--data closed/data doctor");
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
fn doctor_reports_a_workspace_without_a_domain() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew");
    sandbox.ok("--workspace crew links set x https://example.com/");
    assert_eq!(problems(&sandbox), ["domains"], "main answers on every host");
    assert!(sandbox.rmax("doctor").stdout.contains(
        "problem  domains: workspace main answers on every host, and it is not the only workspace\n         `rmax domains add <host>` gives it its own; from then on unknown hosts get 404\n"
    ));
    sandbox.ok("domains add rmax.to");
    assert_eq!(problems(&sandbox), ["domains"]);
    assert!(sandbox.rmax("doctor").stdout.contains(
        "problem  domains: workspace crew has links and no domain, so no host reaches them\n         `rmax domains add <host> --workspace crew` adds one\n"
    ));
    sandbox.ok("domains add crew.example --workspace crew");
    assert_eq!(problems(&sandbox), Vec::<String>::new());
}

#[test]
fn migrate_status_shows_the_schema_version() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("migrate up"), @"
    exit 0
    --- stdout
    the schema is up to date: 14
    ");
    assert_snapshot!(sandbox.rmax("migrate status"), @"
    exit 0
    --- stdout
    schema 14; 14 applied, 0 waiting
    ");
    let schema = sandbox.json("migrate status --json");
    assert_eq!(schema["known"], schema["applied"]);
}

#[test]
fn doctor_reports_unusable_configured_files() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    assert_eq!(problems(&sandbox), [""; 0]);
    sandbox.write("rmax.toml", "geoip_path = \"none.mmdb\"\n[safety]\nblocklist_path = \"none.txt\"\n[tls]\ncert = \"none.pem\"\nkey = \"none.pem\"\n");
    assert_eq!(problems(&sandbox), ["tls", "block list", "places"]);
    sandbox.write("none.txt", "evil.example\n");
    assert_eq!(problems(&sandbox), ["tls", "places"]);
    std::fs::remove_file(sandbox.path("rmax.toml")).unwrap();
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    assert_eq!(problems(&sandbox), ["heads"]);
}
