//! What becomes of clicks when their file is gone, cannot be written, or is left by a server.

use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::Signal;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::sandbox::{Sandbox, block_on};
use crate::support::server_process::{ServerProcess, serve};

/// What is said of clicks by `rmax doctor`.
fn doctors_word(sandbox: &Sandbox) -> String {
    let ran = sandbox.rmax("doctor");
    let after = ran.stdout.split_once("  clicks: ").unwrap_or_else(|| panic!("{ran}")).1;
    after.lines().next().unwrap().to_owned()
}

fn click(server: &ServerProcess, times: usize, referrer: &str) {
    let mut connection = RawConnection::new(server.address);
    let request =
        format!("GET /go HTTP/1.1\r\nHost: rmax.to\r\nReferer: https://example.com/{referrer}\r\n\r\n");
    for _ in 0..times {
        connection.send(&request);
        assert_eq!(connection.next_response().unwrap().status, 301);
    }
}

fn hits(sandbox: &Sandbox) -> u64 {
    sandbox.link("go")["stats"]["hits"].as_u64().unwrap()
}

/// Holds the clicks' file, so that nobody can write it.
async fn lock(sandbox: &Sandbox) -> SqliteConnection {
    let file = sandbox.path("rlinks-data/clicks.db");
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(20));
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql("begin immediate").execute(&mut connection).await.unwrap();
    connection
}

fn with_a_link() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    sandbox
}

#[test]
fn missing_click_database_is_reported_and_not_recreated() {
    let sandbox = with_a_link();
    sandbox.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let (file, kept) = (sandbox.path("rlinks-data/clicks.db"), sandbox.path("kept.db"));
    std::fs::rename(&file, &kept).unwrap();
    assert_snapshot!(sandbox.rmax("links stats go"), @"
    exit 1
    --- stderr
    error: rlinks-data/clicks.db is missing or empty, but rlinks-data/clicks.db.made shows that clicks were stored here; put the file back. To begin anew without them, remove rlinks-data/clicks.db.made
    ");
    for line in ["clicks export -", "clicks misses", "clicks recompute", "clicks prune", "sweep"] {
        sandbox.fails(1, line).says("clicks.db is missing or empty");
    }
    sandbox
        .ok("links get go")
        .says("warning: clicks cannot be read, so none are shown: rlinks-data/clicks.db is");
    let sick = sandbox.rmax("doctor");
    assert_eq!(sick.code, Some(1), "{sick}");
    assert!(sick.stdout.contains("problem  clicks: rlinks-data/clicks.db is missing or empty"), "{sick}");
    assert!(!file.exists());
    // An empty one is as good as none.
    std::fs::write(&file, "").unwrap();
    sandbox.fails(1, "clicks misses").says("clicks.db is missing or empty");

    // Back in its place all is well.
    std::fs::rename(&kept, &file).unwrap();
    assert_eq!(sandbox.ok("clicks export -").stdout.lines().count(), 20);
    assert_eq!(doctors_word(&sandbox), "20 were stored; lost since the beginning: none");

    // Who says so begins anew.
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(sandbox.path("rlinks-data/clicks.db.made")).unwrap();
    assert_eq!(sandbox.ok("clicks export -").stdout, "");
    assert!(file.exists() && sandbox.path("rlinks-data/clicks.db.made").exists());
}

#[test]
fn data_folder_without_a_marker_file_gets_one() {
    let sandbox = with_a_link();
    sandbox.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let mark = sandbox.path("rlinks-data/clicks.db.made");
    std::fs::remove_file(&mark).unwrap();
    sandbox.ok("clicks misses");
    assert!(mark.exists());
}

#[test]
fn server_without_its_click_database_redirects_and_journals_clicks() {
    let sandbox = with_a_link();
    sandbox.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let (file, kept) = (sandbox.path("rlinks-data/clicks.db"), sandbox.path("kept.db"));
    std::fs::rename(&file, &kept).unwrap();
    let server = serve(&sandbox, "");
    click(&server, 10, "");
    wait_until("it says so", || server.says("clicks cannot be stored; the journal holds them"));
    assert!(server.says("clicks.db.made shows that clicks were stored here"), "{}", server.log());
    let ready = server.get("/ready");
    assert_eq!(ready.status, 200);
    assert!(
        ready.body.contains("degraded") && ready.body.contains("clicks cannot be stored"),
        "{}",
        ready.body
    );
    assert!(!file.exists());
    std::fs::rename(&kept, &file).unwrap();
    wait_until("they are stored", || hits(&sandbox) == 10);
    wait_until("all is well", || server.get("/ready").body.contains("\"ready\""));
    server.stop();
    assert_eq!(sandbox.ok("clicks export -").stdout.lines().count(), 30);
}

#[test]
fn dropped_clicks_are_reported_across_restarts() {
    let sandbox = with_a_link();
    sandbox.write("rmax.toml", "journal_mb = 1\n");
    let mut server = serve(&sandbox, "");
    click(&server, 1, "");
    wait_until("its tables are there", || hits(&sandbox) == 1);
    block_on(async {
        let mut held = lock(&sandbox).await;
        let referrer = "x".repeat(400);
        while !server.says("the journal has used up journal_mb") {
            click(&server, 200, &referrer);
        }
        click(&server, 50, "");
        wait_until("it is degraded", || server.get("/ready").body.contains("clicks are not being recorded"));
        assert_eq!(server.get("/ready").status, 200);
        let sick = sandbox.rmax("doctor");
        assert_eq!(sick.code, Some(1), "{sick}");
        assert!(
            sick.stdout.contains("problem  journal: rlinks-data/journal has used up journal_mb"),
            "{sick}"
        );
        assert!(!sick.stdout.contains("the journal holds"), "{sick}");
        assert!(!sick.stdout.contains("link store"), "{sick}");
        // It ends in order, and cannot count them: the file is still held.
        server.signal(Signal::TERM);
        assert_eq!(server.ends_within(20_000).code(), Some(0), "{}", server.log());
        sqlx::raw_sql("rollback").execute(&mut held).await.unwrap();
        held.close().await.unwrap();
    });
    let dropped = |word: &str| -> u64 {
        let (_, lost) = word.split_once("lost since the beginning: ").unwrap();
        lost.strip_suffix(" dropped").unwrap_or_else(|| panic!("{word}")).parse().unwrap()
    };
    let before = dropped(&doctors_word(&sandbox));
    assert!(before >= 50, "{before}");
    // Whoever looks next stores them, and nobody twice.
    hits(&sandbox);
    assert_eq!(dropped(&doctors_word(&sandbox)), before);
    for _ in 0..2 {
        serve(&sandbox, "").stop();
        assert_eq!(dropped(&doctors_word(&sandbox)), before);
    }
}

#[test]
fn locked_click_database_is_named_in_the_error() {
    let sandbox = with_a_link();
    sandbox.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    block_on(async {
        let held = lock(&sandbox).await;
        let ran = sandbox.rmax("clicks export x.jsonl --since-last");
        assert_eq!(ran.code, Some(6), "{ran}");
        ran.says("error: the clicks cannot be reached: database is locked");
        assert!(!sandbox.path("x.jsonl").exists());
        held.close().await.unwrap();
    });
}

#[test]
fn clean_shutdown_leaves_no_write_ahead_log_of_clicks() {
    let sandbox = with_a_link();
    for round in 1..=3 {
        let server = serve(&sandbox, "");
        click(&server, 100, "");
        // The daily jobs have the file open too, before long.
        wait_until("they are stored", || hits(&sandbox) == (round - 1) * 100 + 100);
        server.stop();
        for name in ["clicks.db-wal", "rlinks.db-wal"] {
            let left = std::fs::metadata(sandbox.path("rlinks-data").join(name)).map_or(0, |file| file.len());
            assert_eq!(left, 0, "{name}");
        }
    }
    let server = serve(&sandbox, "");
    assert_eq!(RawConnection::new(server.address).socket.peer_addr().unwrap(), server.address);
    let mut connection = RawConnection::new(server.address);
    connection.send(get("/go"));
    connection.next_response().unwrap();
    server.stop();
    let wal = sandbox.path("rlinks-data/clicks.db-wal");
    assert!(std::fs::metadata(wal).map_or(0, |file| file.len()) == 0, "also when it stores as it stops");
    assert_eq!(hits(&sandbox), 301);
}
