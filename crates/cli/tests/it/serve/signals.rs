//! Signals: the end, the abrupt end, a pause, and a configuration read again.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use rlinks_store::clock::monotonic_ms;
use rustix::process::Signal;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::sandbox::{Sandbox, block_on};
use crate::support::server_process::{ServerProcess, serve};

/// For how long a server goes by what the feed has told it last.
const FEED_COUNTS_MS: u64 = 2_000;

/// A client that asks and asks and reads nothing, until neither side takes another byte.
fn never_reads(server: &ServerProcess) -> TcpStream {
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

/// Faults, row 3.
#[test]
fn sigterm_fails_readiness_finishes_requests_and_exits() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let mut server = serve(&sandbox, "--threads 1");
    let _never_reads = never_reads(&server);
    let _silent = TcpStream::connect(server.address).unwrap();
    let mut half_sent = RawConnection::new(server.address);
    half_sent.send("GET /go HTTP/1.1\r\nHost: rm");
    let mut in_flight = RawConnection::new(server.address);
    in_flight.send("GET /go HTTP/1.1\r\nHost: rmax.to\r\n");
    let mut idle = RawConnection::new(server.address);
    idle.send(get("/go"));
    assert_eq!(idle.next_response().unwrap().status, 301);
    let mut balancer = RawConnection::new(server.address);
    balancer.send(get("/ready"));
    assert_eq!(balancer.next_response().unwrap().status, 200);

    let began = monotonic_ms();
    server.signal(Signal::TERM);
    // On the connection that was open: readiness changes while requests are still answered.
    let draining = loop {
        balancer.send(get("/ready"));
        let answer = balancer.next_response().expect("readiness goes before the connections do");
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((draining.status, draining.body.contains("draining")), (503, true), "{draining:?}");
    wait_until("the listener is closed", || server.is_closed());
    in_flight.send("\r\n");
    let answer = in_flight.next_response().expect("what was begun is finished");
    assert_eq!((answer.status, answer.location()), (301, Some("https://example.com/")));
    assert!(in_flight.next_response().is_none(), "and then the connection is closed");
    assert!(idle.next_response().is_none(), "an idle connection is closed");
    assert!(
        half_sent.remaining_responses().iter().all(|answer| answer.status != 301),
        "half a request is no request"
    );
    let status = server.ends_within(11_000);
    let took = monotonic_ms() - began;
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert!(took < 10_000, "ended after {took} ms:\n{}", server.log());
    sandbox.ok("audit verify");
}

/// Faults, row 4.
#[test]
fn second_sigterm_stops_at_once() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let mut server = serve(&sandbox, "--threads 1");
    let _never_reads = never_reads(&server);
    server.signal(Signal::TERM);
    wait_until("it drains", || server.says("draining"));
    server.signal(Signal::TERM);
    assert_eq!(server.ends_within(2_000).code(), Some(0), "{}", server.log());
    assert!(server.says("stopping at once"), "{}", server.log());
    sandbox.ok("audit verify");
    assert_eq!(serve(&sandbox, "").status("/go"), 301);
}

#[test]
fn sigint_drains_and_an_idle_server_exits_quickly() {
    let sandbox = Sandbox::new();
    let mut server = serve(&sandbox, "");
    // At once: who reads that it serves may signal it.
    server.signal(Signal::INT);
    assert_eq!(server.ends_within(10_000).code(), Some(0), "{}", server.log());
}

/// Faults, row 1.
#[test]
fn killed_server_serves_at_once_after_a_restart() {
    let sandbox = Sandbox::new();
    let mut server = serve(&sandbox, "");
    for number in 0..5 {
        sandbox.ok(&format!("links set go-{number} https://example.com/{number}"));
    }
    server.signal(Signal::KILL);
    assert_eq!(server.ends_within(5_000).code(), None);
    let server = serve(&sandbox, "");
    // The first request there is, without waiting for readiness.
    for number in 0..5 {
        assert_eq!(
            server.get(&format!("/go-{number}")).location(),
            Some(&*format!("https://example.com/{number}"))
        );
    }
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
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

/// Faults, row 5.
#[test]
fn paused_and_resumed_server_serves_as_before() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    // Between two of its writes: what is stopped inside one keeps everybody else from writing, and that is SQLite's to say.
    wait_until("it is stopped while nobody writes", || {
        server.signal(Signal::STOP);
        wait_until("it is stopped", || server.state() == 'T');
        let may_write = can_be_written(&sandbox.path("rlinks-data/rlinks.db"));
        if !may_write {
            server.signal(Signal::CONT);
        }
        may_write
    });
    sandbox.ok("links set meanwhile https://example.com/meanwhile");
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

/// Whether a proxy on this machine is believed: after this machine has guessed too often, a fresh address may still guess.
fn believes_proxy(server: &ServerProcess, address: &str) -> bool {
    let mut connection = RawConnection::new(server.address);
    let request =
        |from: &str| format!("GET /unknown HTTP/1.1\r\nHost: rmax.to\r\nX-Forwarded-For: {from}\r\n\r\n");
    for _ in 0..25 {
        connection.send(request("127.0.0.1").repeat(100));
        (0..100).for_each(|_| drop(connection.next_response().unwrap()));
    }
    // A few tokens trickle back all the time, so some of many requests are refused, and not each of them.
    connection.send(request(address).repeat(100));
    (0..100).all(|_| connection.next_response().unwrap().status == 404)
}

/// Faults, row 12.
#[test]
fn sighup_reloads_the_configuration_and_ignores_a_broken_one() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    sandbox.write("rmax.toml", "trusted_proxies = []\n");
    let server = serve(&sandbox, "--threads 1");
    assert!(!believes_proxy(&server, "203.0.113.1"), "no proxy is trusted");

    sandbox.write("rmax.toml", "trusted_proxies = [\"127.0.0.0/8\"]\n");
    server.signal(Signal::HUP);
    wait_until("it has read", || server.says("the configuration was read again"));
    assert!(believes_proxy(&server, "203.0.113.1"));

    let kept = |times: usize| server.log().matches("the old configuration stays in force").count() == times;
    let broken =
        ["trusted_proxies = [\"nonsense\"]\n", "trusted_proxies = [\n", "trusted_proxy = []\n", "\u{0}"];
    for (number, text) in broken.into_iter().enumerate() {
        sandbox.write("rmax.toml", text);
        server.signal(Signal::HUP);
        wait_until("it says that the old stays in force", || kept(number + 1));
        assert!(server.says("rmax.toml"), "and which file is broken: {}", server.log());
    }
    std::fs::remove_file(sandbox.path("rmax.toml")).unwrap();
    std::fs::create_dir(sandbox.path("rmax.toml")).unwrap();
    server.signal(Signal::HUP);
    wait_until("a folder is no file", || kept(broken.len() + 1));
    assert!(believes_proxy(&server, "198.51.100.1"), "the old configuration is in force");
    assert_eq!(server.status("/go"), 301);
    assert_eq!(server.status("/ready"), 200);

    std::fs::remove_dir(sandbox.path("rmax.toml")).unwrap();
    sandbox.write("rmax.toml", "");
    server.signal(Signal::HUP);
    wait_until("it has read", || server.log().matches("the configuration was read again").count() == 2);
    assert!(!believes_proxy(&server, "192.0.2.1"), "no proxy is trusted any more");
    server.stop();
}
