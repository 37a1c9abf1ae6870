//! Clients that hold a connection and do nothing with it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rlinks_store::clock::monotonic_ms;

use super::server;
use crate::support::raw_client::{RawConnection, becomes_true_within, get};

/// Sockets of each kind.
const EACH: usize = 50;

/// A client of a kind that does not finish what it began.
struct SlowClient {
    kind: &'static str,
    socket: TcpStream,
    does: SlowBehavior,
}

/// What it does all the while.
enum SlowBehavior {
    /// It takes what comes, and sends nothing more.
    Read,
    /// It asks again and again and takes no answer. These are whole requests, and how far it is.
    Ask(Vec<u8>, usize),
}

impl SlowClient {
    fn new(kind: &'static str, socket: TcpStream, does: SlowBehavior) -> Self {
        socket.set_nonblocking(true).expect("an option");
        Self { kind, socket, does }
    }

    /// Does what it does, and sees whether the server has closed.
    fn is_closed(&mut self) -> bool {
        loop {
            let done = match &mut self.does {
                SlowBehavior::Read => self.socket.read(&mut [0; 4096]),
                SlowBehavior::Ask(requests, at) => self.socket.write(&requests[*at..]).inspect(|count| {
                    *at = (*at + count) % requests.len();
                }),
            };
            match done {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }
}

/// A connection that takes few bytes nobody reads: the server's side of it is sized by the segments we announce.
fn connect_with_little_room(address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option");
    socket.set_tcp_mss(536).expect("an option");
    socket.connect(&address.into()).expect("the server accepts");
    socket.into()
}

/// Hostile inputs, S17; faults, row 45.
#[test]
fn slow_clients_are_closed_at_their_limits_while_others_are_served() {
    let server = server();
    let plain = get("/ok");
    let asks = |text: &str| text.as_bytes().to_vec();
    let kinds = [
        ("silent", Vec::new()),
        ("half a request line", asks("GET /o")),
        ("half a header", asks("GET /ok HTTP/1.1\r\nHost: rm")),
        ("a head without its end", asks("GET /ok HTTP/1.1\r\nHost: rmax.to\r\n")),
        ("idle after an answer", asks(&plain)),
        ("idle after an unusual answer", asks(&get("/%6fk"))),
        ("idle after an error", asks(&get("/unknown"))),
        ("half a request after an answer", asks(&format!("{plain}GET /ok HT"))),
        ("a body that never comes", asks("GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: 9\r\n\r\n")),
        (
            "chunks that never come",
            asks("POST /health HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ),
        (
            "an expectation",
            asks("POST /api HTTP/1.1\r\nHost: rmax.to\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"),
        ),
        (
            "a form that never comes",
            asks(
                "POST /admin/login HTTP/1.1\r\nHost: rmax.to\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n",
            ),
        ),
    ];
    let endless =
        [("never reads", "/ok"), ("never reads errors", "/unknown"), ("never reads health", "/health")];
    let mut slow: Vec<SlowClient> = Vec::new();
    for _ in 0..EACH {
        let connect = || connect_with_little_room(server.address);
        slow.extend(kinds.iter().map(|(kind, bytes)| {
            let mut socket = connect();
            socket.write_all(bytes).expect("a few bytes");
            SlowClient::new(kind, socket, SlowBehavior::Read)
        }));
        slow.extend(endless.map(|(kind, path)| {
            SlowClient::new(kind, connect(), SlowBehavior::Ask(get(path).repeat(1000).into_bytes(), 0))
        }));
    }
    let mut slowest_ms = 0;
    // The limits are 5 s to 10 s; the rest is for a machine that has other things to do.
    let all_closed = becomes_true_within(25_000, || {
        slow.retain_mut(|slow| !slow.is_closed());
        let asked = monotonic_ms();
        assert_eq!(server.get("/ok").status, 301, "others are served");
        slowest_ms = slowest_ms.max(monotonic_ms() - asked);
        slow.is_empty()
    });
    let left: BTreeSet<&str> = slow.iter().map(|slow| slow.kind).collect();
    assert!(all_closed, "still open: {left:?}");
    assert!(slowest_ms < 3_000, "others were served at once: {slowest_ms} ms");
}

/// Hostile inputs, S17.
#[test]
fn client_that_falls_silent_after_long_activity_is_closed() {
    let server = server();
    let requests = get("/ok").repeat(20);
    let mut busy: Vec<RawConnection> = (0..EACH).map(|_| RawConnection::new(server.address)).collect();
    // Long enough for every timer of a connection to run out while there is something to read.
    let until = monotonic_ms() + 6_000;
    while monotonic_ms() < until {
        for connection in &mut busy {
            connection.send(&requests);
        }
        for connection in &mut busy {
            (0..20)
                .for_each(|_| assert_eq!(connection.next_response().map(|answer| answer.status), Some(301)));
        }
    }
    let mut silent: Vec<SlowClient> = busy
        .into_iter()
        .map(|connection| SlowClient::new("busy once", connection.socket, SlowBehavior::Read))
        .collect();
    becomes_true_within(13_000, || {
        silent.retain_mut(|slow| !slow.is_closed());
        silent.is_empty()
    });
    assert_eq!(silent.len(), 0, "still open");
}
