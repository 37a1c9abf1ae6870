//! Signals: the end, the abrupt end, a pause, and a configuration read again.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use rlinks_store::clock::monotonic_ms;
use rustix::process::Signal;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::served::{Served, serve};
use crate::client::{Talk, get, wait_until};
use crate::place::{Place, block_on};

/// For how long a server goes by what the feed has told it last.
const FEED_COUNTS_MS: u64 = 2_000;

/// A client that asks and asks and reads nothing, until neither side takes another byte.
fn never_reads(server: &Served) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let requests = get("/go").repeat(1000);
    let (mut at, mut taken) = (0, monotonic_ms());
    while monotonic_ms() - taken < 300 {
        match socket.write(&requests.as_bytes()[at..]) {
            Ok(count) => (at, taken) = ((at + count) % requests.len(), monotonic_ms()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    socket
}

#[test]
fn row_3_sigterm_tells_the_balancer_finishes_what_was_begun_and_ends() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let mut server = serve(&place, "--threads 1");
    let _never_reads = never_reads(&server);
    let _silent = TcpStream::connect(server.address).unwrap();
    let mut half_sent = Talk::new(server.address);
    half_sent.send("GET /go HTTP/1.1\r\nHost: rm");
    let mut in_flight = Talk::new(server.address);
    in_flight.send("GET /go HTTP/1.1\r\nHost: rmax.to\r\n");
    let mut idle = Talk::new(server.address);
    idle.send(get("/go"));
    assert_eq!(idle.answer().unwrap().status, 301);
    let mut balancer = Talk::new(server.address);
    balancer.send(get("/ready"));
    assert_eq!(balancer.answer().unwrap().status, 200);

    let began = monotonic_ms();
    server.signal(Signal::TERM);
    // On the connection that was open: readiness changes while requests are still answered.
    let draining = loop {
        balancer.send(get("/ready"));
        let answer = balancer.answer().expect("readiness goes before the connections do");
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((draining.status, draining.body.contains("draining")), (503, true), "{draining:?}");
    wait_until("the listener is closed", || server.is_closed());
    in_flight.send("\r\n");
    let answer = in_flight.answer().expect("what was begun is finished");
    assert_eq!((answer.status, answer.location()), (301, Some("https://example.com/")));
    assert!(in_flight.answer().is_none(), "and then the connection is closed");
    assert!(idle.answer().is_none(), "an idle connection is closed");
    assert!(half_sent.rest().iter().all(|answer| answer.status != 301), "half a request is no request");
    let status = server.ends_within(11_000);
    let took = monotonic_ms() - began;
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert!(took < 10_000, "ended after {took} ms:\n{}", server.log());
    place.ok("audit verify");
}

#[test]
fn row_4_a_second_sigterm_ends_it_at_once() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let mut server = serve(&place, "--threads 1");
    let _never_reads = never_reads(&server);
    server.signal(Signal::TERM);
    wait_until("it drains", || server.says("draining"));
    server.signal(Signal::TERM);
    assert_eq!(server.ends_within(2_000).code(), Some(0), "{}", server.log());
    assert!(server.says("stopping at once"), "{}", server.log());
    place.ok("audit verify");
    assert_eq!(serve(&place, "").status("/go"), 301);
}

#[test]
fn sigint_drains_too_and_an_idle_server_ends_soon() {
    let place = Place::new();
    let mut server = serve(&place, "");
    // At once: who reads that it serves may signal it.
    server.signal(Signal::INT);
    assert_eq!(server.ends_within(5_000).code(), Some(0), "{}", server.log());
}

#[test]
fn row_1_killed_and_started_again_it_serves_at_once() {
    let place = Place::new();
    let mut server = serve(&place, "");
    for number in 0..5 {
        place.ok(&format!("links set go-{number} https://example.com/{number}"));
    }
    server.signal(Signal::KILL);
    assert_eq!(server.ends_within(5_000).code(), None);
    let server = serve(&place, "");
    // The first request there is, without waiting for readiness.
    for number in 0..5 {
        assert_eq!(
            server.get(&format!("/go-{number}")).location(),
            Some(&*format!("https://example.com/{number}"))
        );
    }
    place.ok("audit verify");
    place.ok("doctor");
}

/// Whether nobody else is in the middle of a write.
fn can_be_written(file: &Path) -> bool {
    block_on(async {
        let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::ZERO);
        let Ok(mut connection) = options.connect().await else { return false };
        let begun = sqlx::raw_sql("begin immediate; rollback").execute(&mut connection).await;
        connection.close().await.unwrap();
        begun.is_ok()
    })
}

#[test]
fn row_5_after_a_pause_it_serves_as_before() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    // Between two of its writes: what is stopped inside one keeps everybody else from writing, and that is SQLite's to say.
    wait_until("it is stopped while nobody writes", || {
        server.signal(Signal::STOP);
        wait_until("it is stopped", || server.state() == 'T');
        let may_write = can_be_written(&place.path("rlinks-data/rlinks.db"));
        if !may_write {
            server.signal(Signal::CONT);
        }
        may_write
    });
    place.ok("links set meanwhile https://example.com/meanwhile");
    let stopped_ms = monotonic_ms();
    wait_until("the feed's last word counts no longer", || monotonic_ms() - stopped_ms > FEED_COUNTS_MS);
    server.signal(Signal::CONT);
    assert_eq!(server.status("/go"), 301, "the first request after the pause");
    assert_eq!(server.status("/unknown"), 404, "an unknown code is asked of the store, not refused");
    assert_eq!(server.status("/meanwhile"), 301, "and so is one made during the pause");
    wait_until("it is ready again", || server.get("/ready").body.contains("\"ready\""));
    assert!(!server.says("ERROR"), "{}", server.log());
    server.stop();
}

/// How the last of many guesses from one address behind a proxy is answered.
fn guesses(server: &Served, address: &str) -> u16 {
    let mut talk = Talk::new(server.address);
    let mut last = 0;
    for _ in 0..25 {
        let request = format!("GET /unknown HTTP/1.1\r\nHost: rmax.to\r\nX-Forwarded-For: {address}\r\n\r\n");
        talk.send(request.repeat(100));
        (0..100).for_each(|_| last = talk.answer().unwrap().status);
    }
    last
}

#[test]
fn row_12_sighup_reads_the_configuration_again_and_a_broken_one_changes_nothing() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    place.write("rmax.toml", "trusted_proxies = []\n");
    let server = serve(&place, "--threads 1");
    assert_eq!(guesses(&server, "203.0.113.1"), 404, "nobody is trusted: this machine guesses, and may");

    place.write("rmax.toml", "trusted_proxies = [\"127.0.0.0/8\"]\n");
    server.signal(Signal::HUP);
    wait_until("it has read", || server.says("the configuration was read again"));
    assert_eq!(guesses(&server, "203.0.113.1"), 429, "the proxy is believed");

    let kept = |times: usize| server.log().matches("the old configuration stays in force").count() == times;
    let broken =
        ["trusted_proxies = [\"nonsense\"]\n", "trusted_proxies = [\n", "trusted_proxy = []\n", "\u{0}"];
    for (number, text) in broken.into_iter().enumerate() {
        place.write("rmax.toml", text);
        server.signal(Signal::HUP);
        wait_until("it says that the old stays in force", || kept(number + 1));
        assert!(server.says("rmax.toml"), "and which file is broken: {}", server.log());
    }
    std::fs::remove_file(place.path("rmax.toml")).unwrap();
    std::fs::create_dir(place.path("rmax.toml")).unwrap();
    server.signal(Signal::HUP);
    wait_until("a folder is no file", || kept(broken.len() + 1));
    assert_eq!(guesses(&server, "198.51.100.1"), 429, "the proxy is still believed");
    assert_eq!(server.status("/go"), 301);
    assert_eq!(server.status("/ready"), 200);

    std::fs::remove_dir(place.path("rmax.toml")).unwrap();
    place.write("rmax.toml", "");
    server.signal(Signal::HUP);
    wait_until("it has read", || server.log().matches("the configuration was read again").count() == 2);
    assert_eq!(guesses(&server, "192.0.2.1"), 404, "nobody is trusted any more");
    server.stop();
}
