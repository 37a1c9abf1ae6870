//! What breaks under a running server, and what it does not start with.

use std::net::TcpStream;
use std::process::Command;

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::{serve, start};

/// Faults, row 20.
#[test]
fn known_links_redirect_while_store_is_missing() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    assert_eq!(server.status("/unknown"), 404);
    let aside = sandbox.path("aside.db");
    std::fs::rename(sandbox.database(), &aside).unwrap();
    wait_until("an unknown code is 503", || server.status("/unknown") == 503);
    assert_eq!(server.get("/go").location(), Some("https://example.com/"));
    let ready = server.get("/ready");
    assert_eq!((ready.status, ready.body.contains("degraded")), (200, true), "{ready:?}");
    assert!(!sandbox.database().exists(), "no empty database takes its place");
    std::fs::rename(&aside, sandbox.database()).unwrap();
    wait_until("an unknown code is 404 again", || server.status("/unknown") == 404);
    wait_until("it is ready again", || server.get("/ready").body.contains("\"ready\""));
    sandbox.ok("links set later https://example.com/later");
    wait_until("changes are served again", || server.status("/later") == 301);
    server.stop();
}

/// Starts a server on a store that cannot be used: it says so, serves nothing and leaves every byte as it was.
#[track_caller]
fn refuses(sandbox: &Sandbox) {
    let before = std::fs::read(sandbox.database()).unwrap();
    let mut refused = start(sandbox, "serve --listen 127.0.0.1:0");
    let status = refused.ends_within(10_000);
    assert_eq!(status.code(), Some(1), "{}", refused.log());
    assert!(refused.says("rlinks.db"), "the file is named: {}", refused.log());
    assert!(!refused.says("serving redirects"), "{}", refused.log());
    assert!(std::fs::read(sandbox.database()).unwrap() == before, "the file was changed");
}

/// Faults, row 20.
#[test]
fn garbage_store_file_is_refused_and_left_alone() {
    for bytes in [b"This is not a database, it is a diary.".repeat(200), vec![0x55; 8192], vec![0; 8192]] {
        let sandbox = Sandbox::new();
        sandbox.write("rlinks-data/rlinks.db", "");
        std::fs::write(sandbox.database(), bytes).unwrap();
        refuses(&sandbox);
    }
}

/// Faults, row 20.
#[test]
fn store_with_a_corrupt_page_is_refused_and_left_alone() {
    let sandbox = Sandbox::new();
    for number in 0..3 {
        sandbox.ok(&format!("links set go-{number} https://example.com/{number}"));
    }
    let mut bytes = std::fs::read(sandbox.database()).unwrap();
    assert!(bytes.len() > 3 * 4096, "everything is in the file, not in its log");
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xa5);
    }
    std::fs::write(sandbox.database(), bytes).unwrap();
    refuses(&sandbox);
}

/// Faults, row 20.
#[test]
fn emptied_store_file_is_refused_and_not_recreated() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    std::fs::write(sandbox.database(), "").unwrap();
    refuses(&sandbox);
}

/// Faults, row 8.
#[test]
fn exhausted_file_descriptors_pause_accepting_and_recover() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "--threads 1");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    let mut there = RawConnection::new(server.address);
    there.send(get("/go"));
    assert_eq!(there.next_response().unwrap().status, 301);
    let pid = server.pid().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status().unwrap();
    assert!(limited.success());
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    wait_until("it cannot accept", || server.says("a connection could not be accepted"));
    there.send(get("/go"));
    assert_eq!(there.next_response().unwrap().status, 301, "who is there is served");
    drop(crowd);
    wait_until("it accepts again", || server.status("/go") == 301);
    sandbox.ok("links set later https://example.com/later");
    wait_until("changes are served", || server.status("/later") == 301);
    server.stop();
}
