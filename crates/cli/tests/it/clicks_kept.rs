//! What becomes of clicks when their file is gone, cannot be written, or is left by a server.

use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::Signal;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::client::{Talk, get, wait_until};
use crate::place::{Place, block_on};
use crate::serve::served::{Served, serve};

/// What is said of clicks by `rmax doctor`.
fn doctors_word(place: &Place) -> String {
    let ran = place.rmax("doctor");
    let after = ran.stdout.split_once("  clicks: ").unwrap_or_else(|| panic!("{ran}")).1;
    after.lines().next().unwrap().to_owned()
}

fn click(server: &Served, times: usize, referrer: &str) {
    let mut talk = Talk::new(server.address);
    let request =
        format!("GET /go HTTP/1.1\r\nHost: rmax.to\r\nReferer: https://example.com/{referrer}\r\n\r\n");
    for _ in 0..times {
        talk.send(&request);
        assert_eq!(talk.answer().unwrap().status, 301);
    }
}

fn hits(place: &Place) -> u64 {
    place.link("go")["stats"]["hits"].as_u64().unwrap()
}

/// Holds the clicks' file, so that nobody can write it.
async fn lock(place: &Place) -> SqliteConnection {
    let file = place.path("rlinks-data/clicks.db");
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(20));
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql("begin immediate").execute(&mut connection).await.unwrap();
    connection
}

fn with_a_link() -> Place {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    place
}

#[test]
fn a_file_of_clicks_that_is_gone_is_missed_and_not_replaced() {
    let place = with_a_link();
    place.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let (file, kept) = (place.path("rlinks-data/clicks.db"), place.path("kept.db"));
    std::fs::rename(&file, &kept).unwrap();
    assert_snapshot!(place.rmax("links stats go"), @"
    exit 1
    --- stderr
    error: rlinks-data/clicks.db is missing or empty, but rlinks-data/clicks.db.made shows that clicks were stored here; put the file back. To begin anew without them, remove rlinks-data/clicks.db.made
    ");
    for line in ["clicks export -", "clicks misses", "clicks recompute", "clicks prune", "sweep"] {
        place.fails(1, line).says("clicks.db is missing or empty");
    }
    place
        .ok("links get go")
        .says("warning: clicks cannot be read, so none are shown: rlinks-data/clicks.db is");
    let sick = place.rmax("doctor");
    assert_eq!(sick.code, Some(1), "{sick}");
    assert!(sick.stdout.contains("problem  clicks: rlinks-data/clicks.db is missing or empty"), "{sick}");
    assert!(!file.exists());
    // An empty one is as good as none.
    std::fs::write(&file, "").unwrap();
    place.fails(1, "clicks misses").says("clicks.db is missing or empty");

    // Back in its place all is well.
    std::fs::rename(&kept, &file).unwrap();
    assert_eq!(place.ok("clicks export -").stdout.lines().count(), 20);
    assert_eq!(doctors_word(&place), "20 were stored; lost since the beginning: none");

    // Who says so begins anew.
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(place.path("rlinks-data/clicks.db.made")).unwrap();
    assert_eq!(place.ok("clicks export -").stdout, "");
    assert!(file.exists() && place.path("rlinks-data/clicks.db.made").exists());
}

#[test]
fn a_folder_from_before_there_were_marks_gets_one() {
    let place = with_a_link();
    place.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let mark = place.path("rlinks-data/clicks.db.made");
    std::fs::remove_file(&mark).unwrap();
    place.ok("clicks misses");
    assert!(mark.exists());
}

#[test]
fn a_server_without_its_file_of_clicks_redirects_keeps_them_and_says_so() {
    let place = with_a_link();
    place.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    let (file, kept) = (place.path("rlinks-data/clicks.db"), place.path("kept.db"));
    std::fs::rename(&file, &kept).unwrap();
    let server = serve(&place, "");
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
    wait_until("they are stored", || hits(&place) == 10);
    wait_until("all is well", || server.get("/ready").body.contains("\"ready\""));
    server.stop();
    assert_eq!(place.ok("clicks export -").stdout.lines().count(), 30);
}

#[test]
fn clicks_that_had_to_be_dropped_are_said_and_never_forgotten() {
    let place = with_a_link();
    place.write("rmax.toml", "journal_mb = 1\n");
    let mut server = serve(&place, "");
    click(&server, 1, "");
    wait_until("its tables are there", || hits(&place) == 1);
    block_on(async {
        let mut held = lock(&place).await;
        let referrer = "x".repeat(400);
        while !server.says("the journal has used up journal_mb") {
            click(&server, 200, &referrer);
        }
        click(&server, 50, "");
        wait_until("it is degraded", || server.get("/ready").body.contains("clicks are not being recorded"));
        assert_eq!(server.get("/ready").status, 200);
        let sick = place.rmax("doctor");
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
    let before = dropped(&doctors_word(&place));
    assert!(before >= 50, "{before}");
    // Whoever looks next stores them, and nobody twice.
    hits(&place);
    assert_eq!(dropped(&doctors_word(&place)), before);
    for _ in 0..2 {
        serve(&place, "").stop();
        assert_eq!(dropped(&doctors_word(&place)), before);
    }
}

#[test]
fn a_locked_file_of_clicks_is_not_called_the_link_store() {
    let place = with_a_link();
    place.ok("dev seed --links 2 --clicks 20 --days 1 --yes");
    block_on(async {
        let held = lock(&place).await;
        let ran = place.rmax("clicks export x.jsonl --since-last");
        assert_eq!(ran.code, Some(6), "{ran}");
        ran.says("error: the clicks cannot be reached: database is locked");
        assert!(!place.path("x.jsonl").exists());
        held.close().await.unwrap();
    });
}

#[test]
fn a_server_that_stopped_in_order_leaves_no_log_beside_the_clicks() {
    let place = with_a_link();
    for round in 1..=3 {
        let server = serve(&place, "");
        click(&server, 100, "");
        // The daily jobs have the file open too, before long.
        wait_until("they are stored", || hits(&place) == (round - 1) * 100 + 100);
        server.stop();
        for name in ["clicks.db-wal", "rlinks.db-wal"] {
            let left = std::fs::metadata(place.path("rlinks-data").join(name)).map_or(0, |file| file.len());
            assert_eq!(left, 0, "{name}");
        }
    }
    let server = serve(&place, "");
    assert_eq!(Talk::new(server.address).socket.peer_addr().unwrap(), server.address);
    let mut talk = Talk::new(server.address);
    talk.send(get("/go"));
    talk.answer().unwrap();
    server.stop();
    let wal = place.path("rlinks-data/clicks.db-wal");
    assert!(std::fs::metadata(wal).map_or(0, |file| file.len()) == 0, "also when it stores as it stops");
    assert_eq!(hits(&place), 301);
}
