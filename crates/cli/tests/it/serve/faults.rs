//! What breaks under a running server, and what it does not start with.

use std::net::TcpStream;
use std::process::Command;

use super::served::{serve, start};
use crate::client::{Talk, get, wait_until};
use crate::place::Place;

#[test]
fn row_20_a_store_that_is_gone_leaves_known_links() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    assert_eq!(server.status("/unknown"), 404);
    let aside = place.path("aside.db");
    std::fs::rename(place.database(), &aside).unwrap();
    wait_until("an unknown code is 503", || server.status("/unknown") == 503);
    assert_eq!(server.get("/go").location(), Some("https://example.com/"));
    let ready = server.get("/ready");
    assert_eq!((ready.status, ready.body.contains("degraded")), (200, true), "{ready:?}");
    assert!(!place.database().exists(), "no empty database takes its place");
    std::fs::rename(&aside, place.database()).unwrap();
    wait_until("an unknown code is 404 again", || server.status("/unknown") == 404);
    wait_until("it is ready again", || server.get("/ready").body.contains("\"ready\""));
    place.ok("links set later https://example.com/later");
    wait_until("changes are served again", || server.status("/later") == 301);
    server.stop();
}

/// Starts a server on a store that cannot be used: it says so, serves nothing and leaves every byte as it was.
#[track_caller]
fn refuses(place: &Place) {
    let before = std::fs::read(place.database()).unwrap();
    let mut refused = start(place, "serve --listen 127.0.0.1:0");
    let status = refused.ends_within(10_000);
    assert_eq!(status.code(), Some(1), "{}", refused.log());
    assert!(refused.says("rlinks.db"), "the file is named: {}", refused.log());
    assert!(!refused.says("serving redirects"), "{}", refused.log());
    assert!(std::fs::read(place.database()).unwrap() == before, "the file was changed");
}

#[test]
fn row_20_a_file_that_is_no_store_is_refused_and_left_alone() {
    for bytes in [b"This is not a database, it is a diary.".repeat(200), vec![0x55; 8192], vec![0; 8192]] {
        let place = Place::new();
        place.write("rlinks-data/rlinks.db", "");
        std::fs::write(place.database(), bytes).unwrap();
        refuses(&place);
    }
}

#[test]
fn row_20_a_store_with_a_corrupt_page_is_refused_and_left_alone() {
    let place = Place::new();
    for number in 0..3 {
        place.ok(&format!("links set go-{number} https://example.com/{number}"));
    }
    let mut bytes = std::fs::read(place.database()).unwrap();
    assert!(bytes.len() > 3 * 4096, "everything is in the file, not in its log");
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xa5);
    }
    std::fs::write(place.database(), bytes).unwrap();
    refuses(&place);
}

#[test]
fn row_20_a_store_cut_to_nothing_is_refused_and_not_begun_anew() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    std::fs::write(place.database(), "").unwrap();
    refuses(&place);
}

#[test]
fn row_8_without_file_descriptors_it_accepts_nobody_serves_who_is_there_and_recovers() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "--threads 1");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    let mut there = Talk::new(server.address);
    there.send(get("/go"));
    assert_eq!(there.answer().unwrap().status, 301);
    let pid = server.pid().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status().unwrap();
    assert!(limited.success());
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    wait_until("it cannot accept", || server.says("a connection could not be accepted"));
    there.send(get("/go"));
    assert_eq!(there.answer().unwrap().status, 301, "who is there is served");
    drop(crowd);
    wait_until("it accepts again", || server.status("/go") == 301);
    place.ok("links set later https://example.com/later");
    wait_until("changes are served", || server.status("/later") == 301);
    server.stop();
}
