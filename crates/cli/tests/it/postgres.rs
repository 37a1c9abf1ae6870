//! The family of links on a PostgreSQL store. Needs a server: `scripts/with-postgres cargo test -p rmax -- postgres`.

use serde_json::json;

use crate::support::postgres::Database;
use crate::support::sandbox::Sandbox;

#[test]
fn every_links_command_works() {
    let database = Database::create();
    let sandbox = database.sandbox();
    sandbox.ok("domains add rmax.to");
    assert!(
        sandbox
            .ok("links set parity https://example.com/ --tag a --title T --expires 2099-01-01")
            .stdout
            .starts_with("created https://rmax.to/parity")
    );
    assert!(sandbox.ok("links set parity https://example.com/ --tag a").stdout.starts_with("unchanged "));
    assert!(
        sandbox.ok("links set parity https://example.com/2 --untag a --tag b").stdout.starts_with("updated ")
    );
    assert_eq!(sandbox.link("PARITY")["meta"]["tags"], json!(["b"]));
    sandbox.fails(5, "links set Parity http://rmax.to/x");
    sandbox.fails(5, "links set other https://rmax.to/parity");
    sandbox.ok("links disable parity");
    assert_eq!(sandbox.json("links list --json"), json!([]));
    sandbox.ok("links enable parity");
    assert_eq!(
        sandbox.json("links list --json --prefix par --search example --tag b").as_array().unwrap().len(),
        1
    );
    sandbox.ok("links delete parity --yes");
    sandbox.fails(3, "links get parity");
    sandbox.fails(4, "links set parity https://example.com/");
    sandbox.ok("links restore parity");
    sandbox.ok("links delete parity --yes");
    sandbox.ok("links set parity https://example.com/3 --recreate");
    assert_eq!(sandbox.json("links history parity --json").as_array().unwrap().len(), 8);
    assert_eq!(sandbox.json("explain https://rmax.to/parity --json")["status"], 301);
    assert!(sandbox.ok("shorten https://example.com/").stdout.starts_with("https://rmax.to/"));
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}

#[test]
fn backup_round_trips_between_both_databases() {
    let (first, second) = (Database::create(), Database::create());
    let sandbox = first.sandbox();
    sandbox.ok("links set a https://example.com/ --tag x --title 'Größe'");
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("--workspace crew shorten https://example.com/page");
    sandbox.ok("backup all.jsonl");

    let embedded = Sandbox::new();
    let file = sandbox.path("all.jsonl").to_string_lossy().into_owned();
    embedded.ok(&format!("restore {file} --trust {}", sandbox.fingerprint("all.jsonl")));
    assert_eq!(embedded.link("a"), sandbox.link("a"));
    embedded.ok("audit verify");
    embedded.ok("backup back.jsonl");

    let file = embedded.path("back.jsonl").to_string_lossy().into_owned();
    let trust = embedded.fingerprint("back.jsonl");
    second.sandbox().ok(&format!("restore {file} --trust {trust}"));
    second.sandbox().fails(1, &format!("restore {file} --trust {trust}"));
    assert_eq!(second.sandbox().link("a"), sandbox.link("a"));
    second.sandbox().ok("audit verify");
    assert_eq!(second.sandbox().ok("audit list --json").stdout, sandbox.ok("audit list --json").stdout);
}

#[test]
fn concurrent_writers_never_mix_fields() {
    let database = Database::create();
    let sandbox = database.sandbox();
    sandbox.ok("links set x https://example.com/0");
    let lines: Vec<String> =
        (1..=4).map(|n| format!("links set x https://example.com/{n} --title t{n}")).collect();
    let ran = sandbox.together(&lines);
    assert!(ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "{ran:#?}");
    let link = sandbox.link("x");
    let n = link["target"].as_str().unwrap().rsplit('/').next().unwrap();
    assert_eq!(link["title"], format!("t{n}"));
    sandbox.ok("audit verify");
}

#[test]
fn export_round_trips_between_both_databases() {
    let database = Database::create();
    let sandbox = crate::support::import_files::varied_store();
    sandbox.ok("links export all.jsonl");
    sandbox.ok("links export all.csv");
    let there = database.sandbox();
    let file = sandbox.path("all.csv").to_string_lossy().into_owned();
    there.ok(&format!("links import {file} --exact"));
    assert_eq!(there.ok("links export").stdout, sandbox.read("all.jsonl"));
    assert_eq!(there.ok("links export --format csv").stdout, sandbox.read("all.csv"));
    assert_eq!(
        there.ok("links export --format nginx").stdout,
        sandbox.ok("links export --format nginx").stdout
    );
    there.ok("clicks recompute");
    assert_eq!(there.ok("links export").stdout, sandbox.read("all.jsonl"));
    there.ok("links set new https://example.com/new");
    there.ok("audit verify");
    there.ok("doctor");
    there.ok("links export back.jsonl");

    let back = Sandbox::new();
    let file = there.path("back.jsonl").to_string_lossy().into_owned();
    back.ok(&format!("links import {file} --exact"));
    assert_eq!(back.ok("links export").stdout, there.read("back.jsonl"));
}

#[test]
fn foreign_formats_are_imported() {
    let database = Database::create();
    let sandbox = database.sandbox();
    let report = sandbox
        .rmax(&format!("links import {} --json", crate::support::import_files::import_file("kutt.json")))
        .json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(2), &json!(1)));
    sandbox.ok(&format!("links import {}", crate::support::import_files::import_file("yourls.sql")));
    sandbox.ok(&format!("links import {}", crate::support::import_files::import_file("yourls.sql")));
    assert_eq!(sandbox.link("ozh")["stats"]["hits"], 98765);
    let file = crate::support::import_files::import_file("yourls.csv");
    let changed = sandbox.json(&format!("links import {file} --overwrite --yes --json"));
    assert_eq!((&changed["updated"], &changed["created"]), (&json!(1), &json!(1)));
    assert_eq!(sandbox.link("ozh")["stats"]["hits"], 98765);
    let ran =
        sandbox.together(&[format!("links import {file} --json"), format!("links import {file} --json")]);
    assert!(ran.iter().all(|ran| ran.json()["skipped"] == 2), "{ran:#?}");
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}

#[test]
fn rollback_restores_a_workspace() {
    let database = Database::create();
    let sandbox = database.sandbox();
    sandbox.ok("links set changed https://example.com/1 --tag a");
    sandbox.ok("links set gone https://example.com/gone");
    let then = rlinks_store::clock::Clock::system().now();
    crate::support::raw_client::wait_until("time goes on", || {
        rlinks_store::clock::Clock::system().now() > then
    });
    sandbox.ok("links set changed https://example.com/2 --untag a");
    sandbox.ok("links delete gone --yes");
    sandbox.ok("links set gone https://example.com/other --recreate");
    sandbox.ok("links set new https://example.com/new");
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["deleted"]), (&json!(2), &json!(1)), "{done:#}");
    assert_eq!(sandbox.link("changed")["target"], "https://example.com/1");
    assert_eq!(sandbox.link("changed")["meta"]["tags"], json!(["a"]));
    assert_eq!(sandbox.link("gone")["target"], "https://example.com/gone");
    sandbox.fails(3, "links get new");
    sandbox.ok(&format!("workspaces rollback --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(sandbox.link("new")["status"], "active");
    assert_eq!(sandbox.link("gone")["target"], "https://example.com/other");
    sandbox.ok("doctor");
}

#[test]
fn concurrent_imports_of_one_file_import_it_once() {
    let source = Sandbox::new();
    let rows: Vec<String> =
        (0..3_000).map(|n| format!("c{n},https://example.com/{n},Page {n},\"a,b\",{}", n % 7)).collect();
    source.write("plain.csv", &format!("code,target,title,tags,clicks\n{}\n", rows.join("\n")));
    source.ok("links import plain.csv");
    source.ok("links export exact.jsonl");
    for (file, flags) in [("plain.csv", ""), ("exact.jsonl", "--exact")] {
        let database = Database::create();
        let sandbox = database.sandbox();
        sandbox.ok("links list");
        let file = source.path(file).to_string_lossy().into_owned();
        let line = format!("links import {file} {flags} --json");
        let ran = sandbox.together(&[line.clone(), line]);
        let counted = |name: &str| -> u64 { ran.iter().map(|ran| ran.json()[name].as_u64().unwrap()).sum() };
        assert!(ran.iter().all(|ran| ran.code == Some(0)), "{ran:#?}");
        assert_eq!((counted("created"), counted("skipped")), (3_000, 3_000), "{ran:#?}");
        sandbox.ok("links export here.jsonl");
        if flags == "--exact" {
            assert!(sandbox.read("here.jsonl") == source.read("exact.jsonl"), "every byte is as it was");
        }
        assert_eq!(
            sandbox.json("links list --search page --tag b --limit 9999 --json").as_array().unwrap().len(),
            3_000
        );
        let clicks_in =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["clicks"].as_u64().unwrap();
        let clicks: u64 = sandbox.read("here.jsonl").lines().map(clicks_in).sum();
        assert_eq!(clicks, (0..3_000_u64).map(|n| n % 7).sum::<u64>());
        sandbox.ok("audit verify");
        sandbox.ok("doctor");
    }
}
