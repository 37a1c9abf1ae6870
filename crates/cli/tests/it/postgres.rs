//! The family of links on a PostgreSQL store. Needs a server: `scripts/with-postgres cargo test -p rmax -- postgres`.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::place::{Place, block_on};

/// A place whose store is a database of its own, gone afterwards.
pub(crate) struct Database {
    name: String,
    place: Option<Place>,
}

impl Database {
    pub(crate) fn create() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rmax_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&format!("drop database if exists {name} with (force)"));
        run(&format!("create database {name}"));
        let place = Place::new().with("RMAX_STORE", &url_of(&name));
        Self { name, place: Some(place) }
    }

    pub(crate) fn url(&self) -> String {
        url_of(&self.name)
    }

    pub(crate) fn place(&self) -> &Place {
        self.place.as_ref().unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        run(&format!("drop database if exists {} with (force)", self.name));
    }
}

fn url_of(database: &str) -> String {
    let server: PgConnectOptions = server_url().parse().unwrap();
    server.database(database).to_url_lossy().to_string()
}

fn run(sql: &str) {
    let sql = sql.to_owned();
    block_on(async move {
        let mut connection = server_url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// The one place where these tests ask for the server.
#[expect(clippy::disallowed_methods, reason = "the server is started outside of cargo")]
fn server_url() -> String {
    std::env::var("RLINKS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("RLINKS_TEST_POSTGRES names no server; run `scripts/with-postgres cargo test -p rmax -- postgres`, or leave these tests out with `--skip postgres`")
    })
}

#[test]
fn the_family_of_links() {
    let database = Database::create();
    let place = database.place();
    place.ok("domains add rmax.to");
    assert!(
        place
            .ok("links set parity https://example.com/ --tag a --title T --expires 2099-01-01")
            .stdout
            .starts_with("created https://rmax.to/parity")
    );
    assert!(place.ok("links set parity https://example.com/ --tag a").stdout.starts_with("unchanged "));
    assert!(
        place.ok("links set parity https://example.com/2 --untag a --tag b").stdout.starts_with("updated ")
    );
    assert_eq!(place.link("PARITY")["meta"]["tags"], json!(["b"]));
    place.fails(5, "links set Parity http://rmax.to/x");
    place.fails(5, "links set other https://rmax.to/parity");
    place.ok("links disable parity");
    assert_eq!(place.json("links list --json"), json!([]));
    place.ok("links enable parity");
    assert_eq!(
        place.json("links list --json --prefix par --search example --tag b").as_array().unwrap().len(),
        1
    );
    place.ok("links delete parity --yes");
    place.fails(3, "links get parity");
    place.fails(4, "links set parity https://example.com/");
    place.ok("links restore parity");
    place.ok("links delete parity --yes");
    place.ok("links set parity https://example.com/3 --recreate");
    assert_eq!(place.json("links history parity --json").as_array().unwrap().len(), 8);
    assert_eq!(place.json("explain https://rmax.to/parity --json")["status"], 301);
    assert!(place.ok("shorten https://example.com/").stdout.starts_with("https://rmax.to/"));
    place.ok("audit verify");
    place.ok("doctor");
}

#[test]
fn a_backup_goes_from_one_database_to_the_other_and_back() {
    let (first, second) = (Database::create(), Database::create());
    let place = first.place();
    place.ok("links set a https://example.com/ --tag x --title 'Größe'");
    place.ok("workspaces create crew --preset team");
    place.ok("--workspace crew shorten https://example.com/page");
    place.ok("backup all.jsonl");

    let embedded = Place::new();
    let file = place.path("all.jsonl").to_string_lossy().into_owned();
    embedded.ok(&format!("restore {file}"));
    assert_eq!(embedded.link("a"), place.link("a"));
    embedded.ok("audit verify");
    embedded.ok("backup back.jsonl");

    let file = embedded.path("back.jsonl").to_string_lossy().into_owned();
    second.place().ok(&format!("restore {file}"));
    second.place().fails(1, &format!("restore {file}"));
    assert_eq!(second.place().link("a"), place.link("a"));
    second.place().ok("audit verify");
    assert_eq!(second.place().ok("audit list --json").stdout, place.ok("audit list --json").stdout);
}

#[test]
fn writers_at_once_never_mix() {
    let database = Database::create();
    let place = database.place();
    place.ok("links set x https://example.com/0");
    let lines: Vec<String> =
        (1..=4).map(|n| format!("links set x https://example.com/{n} --title t{n}")).collect();
    let ran = place.together(&lines);
    assert!(ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "{ran:#?}");
    let link = place.link("x");
    let n = link["target"].as_str().unwrap().rsplit('/').next().unwrap();
    assert_eq!(link["title"], format!("t{n}"));
    place.ok("audit verify");
}

#[test]
fn an_export_goes_from_one_database_to_the_other_and_back() {
    let database = Database::create();
    let place = crate::transfer::busy();
    place.ok("links export all.jsonl");
    place.ok("links export all.csv");
    let there = database.place();
    let file = place.path("all.csv").to_string_lossy().into_owned();
    there.ok(&format!("links import {file} --exact"));
    assert_eq!(there.ok("links export").stdout, place.read("all.jsonl"));
    assert_eq!(there.ok("links export --format csv").stdout, place.read("all.csv"));
    assert_eq!(
        there.ok("links export --format nginx").stdout,
        place.ok("links export --format nginx").stdout
    );
    there.ok("clicks recompute");
    assert_eq!(there.ok("links export").stdout, place.read("all.jsonl"));
    there.ok("links set new https://example.com/new");
    there.ok("audit verify");
    there.ok("doctor");
    there.ok("links export back.jsonl");

    let back = Place::new();
    let file = there.path("back.jsonl").to_string_lossy().into_owned();
    back.ok(&format!("links import {file} --exact"));
    assert_eq!(back.ok("links export").stdout, there.read("back.jsonl"));
}

#[test]
fn files_of_others_are_imported() {
    let database = Database::create();
    let place = database.place();
    let report = place.rmax(&format!("links import {} --json", crate::transfer::fixture("kutt.json"))).json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(2), &json!(1)));
    place.ok(&format!("links import {}", crate::transfer::fixture("yourls.sql")));
    place.ok(&format!("links import {}", crate::transfer::fixture("yourls.sql")));
    assert_eq!(place.link("ozh")["stats"]["hits"], 98765);
    let file = crate::transfer::fixture("yourls.csv");
    let changed = place.json(&format!("links import {file} --overwrite --yes --json"));
    assert_eq!((&changed["updated"], &changed["created"]), (&json!(1), &json!(1)));
    assert_eq!(place.link("ozh")["stats"]["hits"], 98765);
    let ran = place.together(&[format!("links import {file} --json"), format!("links import {file} --json")]);
    assert!(ran.iter().all(|ran| ran.json()["skipped"] == 2), "{ran:#?}");
    place.ok("audit verify");
    place.ok("doctor");
}

#[test]
fn a_workspace_is_put_back() {
    let database = Database::create();
    let place = database.place();
    place.ok("links set changed https://example.com/1 --tag a");
    place.ok("links set gone https://example.com/gone");
    let then = rlinks_store::clock::Clock::system().now();
    crate::client::wait_until("time goes on", || rlinks_store::clock::Clock::system().now() > then);
    place.ok("links set changed https://example.com/2 --untag a");
    place.ok("links delete gone --yes");
    place.ok("links set gone https://example.com/other --recreate");
    place.ok("links set new https://example.com/new");
    let done = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["deleted"]), (&json!(2), &json!(1)), "{done:#}");
    assert_eq!(place.link("changed")["target"], "https://example.com/1");
    assert_eq!(place.link("changed")["meta"]["tags"], json!(["a"]));
    assert_eq!(place.link("gone")["target"], "https://example.com/gone");
    place.fails(3, "links get new");
    place.ok(&format!("workspaces rollback --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(place.link("new")["status"], "active");
    assert_eq!(place.link("gone")["target"], "https://example.com/other");
    place.ok("doctor");
}

#[test]
fn a_file_imported_twice_at_once_is_imported_once() {
    let source = Place::new();
    let rows: Vec<String> =
        (0..3_000).map(|n| format!("c{n},https://example.com/{n},Page {n},\"a,b\",{}", n % 7)).collect();
    source.write("plain.csv", &format!("code,target,title,tags,clicks\n{}\n", rows.join("\n")));
    source.ok("links import plain.csv");
    source.ok("links export exact.jsonl");
    for (file, flags) in [("plain.csv", ""), ("exact.jsonl", "--exact")] {
        let database = Database::create();
        let place = database.place();
        place.ok("links list");
        let file = source.path(file).to_string_lossy().into_owned();
        let line = format!("links import {file} {flags} --json");
        let ran = place.together(&[line.clone(), line]);
        let counted = |name: &str| -> u64 { ran.iter().map(|ran| ran.json()[name].as_u64().unwrap()).sum() };
        assert!(ran.iter().all(|ran| ran.code == Some(0)), "{ran:#?}");
        assert_eq!((counted("created"), counted("skipped")), (3_000, 3_000), "{ran:#?}");
        place.ok("links export here.jsonl");
        if flags == "--exact" {
            assert!(place.read("here.jsonl") == source.read("exact.jsonl"), "every byte is as it was");
        }
        assert_eq!(
            place.json("links list --search page --tag b --limit 9999 --json").as_array().unwrap().len(),
            3_000
        );
        let clicks_in =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["clicks"].as_u64().unwrap();
        let clicks: u64 = place.read("here.jsonl").lines().map(clicks_in).sum();
        assert_eq!(clicks, (0..3_000_u64).map(|n| n % 7).sum::<u64>());
        place.ok("audit verify");
        place.ok("doctor");
    }
}
