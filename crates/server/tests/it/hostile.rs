//! What strangers send: requests that mean two things, that are too large, that never end, and too many of them.

mod connections;
mod framing;
mod slow;
mod uploads;

use std::fmt::Write as _;
use std::net::Shutdown;

use rlinks_core::{Code, Link, LinkState, Policy, Preset, Target};
use rlinks_store::StoreWriter;
use rlinks_store::clock::monotonic_ms;
use rlinks_store::write::{Action, LinkOp, LinkWrite};

use crate::support::raw_client::{RawConnection, Response, get};
use crate::support::server::{
    BIG, MAIN, NOW, RunningServer, UnstartedServer, big_target, create, operator, serve_more_than_fits,
    set_up_workspace,
};

const OK: &str = "https://example.com/path?keep=1#part";
const TWO: &str = "https://two.example/";
/// Where nobody gets who did not ask for it.
const PRIZE: &str = "https://prize.example/";

/// A server on `rmax.to` with the links `ok`, `two` and `prize`.
fn server() -> RunningServer {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(async {
        set_up_workspace(&unstarted.store, "main", Policy::preset(Preset::Fabric), &["rmax.to".to_owned()])
            .await;
        for (code, target) in [("ok", OK), ("two", TWO), ("prize", PRIZE)] {
            create(&unstarted.store, code, target).await;
        }
    });
    // Some tests open hundreds of connections, all from one address.
    unstarted.serve(|config| config.connections.per_address = Some(10_000))
}

/// One header, and one that takes the request out of the tight loop for plain ones: both ways must answer alike.
const WAYS: [&str; 2] = ["", "Connection: Keep-Alive\r\n"];

/// Hostile inputs, S1.
#[test]
fn nothing_but_the_code_decides_the_target() {
    let server = server();
    let mut connection = RawConnection::new(server.address);
    for way in WAYS {
        for query in [
            "?redir_url=https://evil.example/",
            "?url=https://evil.example/&next=//evil.example",
            "?x=1#@evil.example",
            "?",
            "?%0d%0aLocation:%20https://evil.example/",
            "?keep=2",
        ] {
            connection.send(format!("GET /ok{query} HTTP/1.1\r\nHost: rmax.to\r\n{way}\r\n"));
            let answer = connection.next_response().expect("an answer");
            assert_eq!((answer.status, answer.location()), (301, Some(OK)), "{query}");
        }
        for header in [
            "X-Original-URL: /prize",
            "X-Rewrite-URL: /prize",
            "X-Forwarded-Host: evil.example",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Prefix: /prize",
            "X-Host: evil.example",
            "X-HTTP-Method-Override: DELETE",
            "Forwarded: host=evil.example;proto=http",
            "Location: https://evil.example/",
            "Referer: https://evil.example/",
            "Origin: https://evil.example",
            "Destination: https://evil.example/",
            "Cookie: target=https://evil.example/",
            "Upgrade-Insecure-Requests: 1",
        ] {
            connection.send(format!("GET /ok HTTP/1.1\r\n{header}\r\nHost: rmax.to\r\n{way}\r\n"));
            let answer = connection.next_response().expect("an answer");
            assert_eq!((answer.status, answer.location()), (301, Some(OK)), "{header}");
        }
    }
    for path in [
        "/ok//evil.example",
        "/ok/%2f%2fevil.example",
        "//evil.example",
        "/ok/",
        "/ok%00",
        "/ok%20",
        "/\\evil",
    ] {
        connection.send(get(path));
        let answer = connection.next_response().expect("an answer");
        assert_eq!((answer.status, answer.location()), (404, None), "{path}");
        assert!(!answer.body.contains("evil"), "{path} is not repeated");
    }
}

/// Hostile inputs, S15.
#[test]
fn request_must_name_exactly_one_configured_host() {
    #[track_caller]
    fn check(server: &RunningServer, head: &str, status: u16) {
        let answer = server.send(&format!("{head}\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.status, status, "{head:?}");
        assert_eq!(answer.location(), (status == 301).then_some(OK), "{head:?}");
        assert!(!answer.body.contains("evil"), "the host is not repeated: {head:?}");
        if status != 301 && status != 200 {
            assert_eq!(answer.header("cache-control"), ["no-store"], "{head:?}");
        }
    }
    let server = server();
    for good in ["rmax.to", "RMAX.TO", "rmax.to.", "rmax.to:443", "Rmax.To.:80", "rmax.to:"] {
        check(&server, &format!("GET /ok HTTP/1.1\r\nHost: {good}"), 301);
        check(&server, &format!("GET /%6fk HTTP/1.1\r\nHost: {good}"), 301);
    }
    for strange in ["evil.example", "rmax.to.evil.example", "evilrmax.to", "127.0.0.1", "[::1]", "localhost"]
    {
        check(&server, &format!("GET /ok HTTP/1.1\r\nHost: {strange}"), 404);
        check(&server, &format!("GET / HTTP/1.1\r\nHost: {strange}"), 404);
        check(&server, &format!("GET /health HTTP/1.1\r\nHost: {strange}"), 200);
    }
    for bad in [
        "rmax.to:99999",
        "rmax.to:8a",
        "",
        "rmax.to, evil",
        "rmax.to/evil",
        "evil@rmax.to",
        "rmax.to evil",
        "r\u{e9}max.to",
    ] {
        check(&server, &format!("GET /ok HTTP/1.1\r\nHost: {bad}"), 400);
    }
    check(&server, "GET /ok HTTP/1.1\r\nAccept: */*", 400);
    check(&server, "GET /ok HTTP/1.0\r\nAccept: */*", 400);
    check(&server, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nHost: rmax.to", 400);
    check(&server, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nHost: evil", 400);
    check(&server, "GET http://evil.example/ok HTTP/1.1\r\nHost: rmax.to", 400);
    check(&server, "GET http://rmax.to/ok HTTP/1.1\r\nHost: evil.example", 400);
    check(&server, "GET http://evil@rmax.to/ok HTTP/1.1\r\nHost: rmax.to", 400);
    check(&server, "GET http://rmax.to/ok HTTP/1.1\r\nHost: rmax.to", 301);
    check(&server, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nX-Forwarded-Host: evil.example", 301);
    check(&server, "GET /ok HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: rmax.to", 404);
}

/// Hostile inputs, S16.
#[test]
fn oversized_headers_and_paths_are_refused() {
    let server = server();
    let with =
        |headers: &str| format!("GET /ok HTTP/1.1\r\nHost: rmax.to\r\n{headers}Connection: close\r\n\r\n");
    let many = |count: usize| (0..count).fold(String::new(), |text, n| text + &format!("X-{n}: a\r\n"));
    assert_eq!(server.send(&with(&many(62))).status, 301, "64 headers are fine");
    assert_eq!(server.send(&with(&many(63))).status, 431);
    assert_eq!(server.send(&with(&many(1000))).status, 431);
    let long = |bytes: usize| format!("Cookie: {}\r\n", "c".repeat(bytes));
    assert_eq!(server.send(&with(&long(7 << 10))).status, 301);
    assert_eq!(server.send(&with(&long(15 << 10))).status, 301, "15 KB is unusual, and fine");
    for bytes in [20 << 10, 60 << 10, 300 << 10, 4 << 20] {
        assert_eq!(server.send(&with(&long(bytes))).status, 431, "{bytes} bytes");
    }
    assert_eq!(server.send(&with(&long(2 << 10).repeat(9))).status, 431, "18 KB in nine lines");
    let path = |bytes: usize| {
        format!("GET /{} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n", "p".repeat(bytes))
    };
    assert_eq!(server.send(&path(2047)).status, 404);
    for bytes in [2048, 8 << 10, 60 << 10] {
        assert_eq!(server.send(&path(bytes)).status, 414, "{bytes} bytes");
    }
    assert!(matches!(server.send(&path(300 << 10)).status, 414 | 431));
    assert_eq!(server.get("/ok").status, 301, "and the server goes on");
}

/// Hostile inputs, S19.
#[test]
fn request_bodies_are_never_answered_as_requests() {
    let server = server();
    let inner = get("/prize");
    let length = inner.len();
    let chunk = format!("{length:x}\r\n{inner}\r\n0\r\n\r\n");
    // After each comes a request that may be answered, or not when the connection is closed.
    let check = |name: &str, head: &str, body: &str, expected: &[u16]| {
        for line in ["GET /ok", "HEAD /ok", "POST /ok", "GET /health", "GET /unknown"] {
            let mut connection = RawConnection::new(server.address);
            connection.send(format!("{line} HTTP/1.1\r\nHost: rmax.to\r\n{head}\r\n{body}GET /two HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n"));
            let first = if line.starts_with("HEAD") {
                connection.next_head_response()
            } else {
                connection.next_response()
            };
            let first = first.unwrap_or_else(|| panic!("{name}: no answer to {line}"));
            let rest = connection.remaining_responses();
            let usual = match line {
                "GET /ok" | "HEAD /ok" => 301,
                "POST /ok" => 405,
                "GET /health" => 200,
                _ => 404,
            };
            let expected: Vec<u16> =
                expected.iter().map(|&status| if status == 0 { usual } else { status }).collect();
            assert!(expected.contains(&first.status), "{name}, {line}: {first:?}");
            assert!(rest.len() <= 1, "{name}, {line}: more answers than requests: {rest:?}");
            for answer in std::iter::once(&first).chain(&rest) {
                assert_ne!(answer.location(), Some(PRIZE), "{name}, {line}: smuggled");
            }
            if first.status == 400 {
                assert!(rest.is_empty(), "{name}, {line}: refused and yet answered again");
            }
        }
    };
    check("a body", &format!("Content-Length: {length}\r\n"), &inner, &[0]);
    check("chunks", "Transfer-Encoding: chunked\r\n", &chunk, &[0]);
    check("the same length twice", &format!("Content-Length: {length}\r\n").repeat(2), &inner, &[400]);
    check("two lengths", &format!("Content-Length: 0\r\nContent-Length: {length}\r\n"), &inner, &[400]);
    check("a list of lengths", &format!("Content-Length: 0, {length}\r\n"), &inner, &[400]);
    check("a signed length", &format!("Content-Length: +{length}\r\n"), &inner, &[400]);
    check("a negative length", "Content-Length: -1\r\n", &inner, &[400]);
    check("a hexadecimal length", &format!("Content-Length: 0x{length:x}\r\n"), &inner, &[400]);
    check("an endless length", "Content-Length: 99999999999999999999999\r\n", &inner, &[400]);
    check("an empty length", "Content-Length: \r\n", &inner, &[400]);
    check("an odd coding", "Transfer-Encoding: xchunked\r\n", &chunk, &[400]);
    check("chunked not last", "Transfer-Encoding: chunked, identity\r\n", &chunk, &[400]);
    check("a coding in a folded line", "Transfer-Encoding:\r\n chunked\r\n", &chunk, &[400]);
    check("a folded line", &format!("X-A: a\r\n b\r\nContent-Length: {length}\r\n"), &inner, &[400]);
    check("a space before the colon", "Transfer-Encoding : chunked\r\n", &chunk, &[400]);
    check("a header without a name", ": chunked\r\n", "", &[400]);
    check("a zero byte", "X-A: a\0b\r\n", "", &[400]);
    check("a lone carriage return", "X-A: a\rTransfer-Encoding: chunked\r\n", &chunk, &[400]);
    check("a length and chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", &chunk, &[400]);
    check("chunks and a length", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", &chunk, &[400]);
    check("chunked twice", &"Transfer-Encoding: chunked\r\n".repeat(2), &chunk, &[400]);
    check("chunked and more", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", &chunk, &[400]);
    check("a bad chunk", "Transfer-Encoding: chunked\r\n", &format!("zz\r\n{inner}"), &[0, 400]);
    check(
        "an endless chunk",
        "Transfer-Encoding: chunked\r\n",
        &format!("fffffffffffffffff\r\n{inner}"),
        &[0, 400],
    );
    check("a longer body than promised", "Content-Length: 4\r\n", "1234", &[0]);
    assert_eq!(server.get("/ok").status, 301, "and the server goes on");
}

/// Hostile inputs, S19.
#[test]
fn other_protocols_never_smuggle_a_request() {
    let server = server();
    for request in [
        "GET /ok\r\n\r\n",
        "GET  /ok HTTP/1.1\r\nHost: rmax.to\r\n\r\n",
        "GET /ok HTTP/9.9\r\nHost: rmax.to\r\n\r\n",
        "GET /ok http/1.1\r\nHost: rmax.to\r\n\r\n",
        "G\0T /ok HTTP/1.1\r\nHost: rmax.to\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0 no hello\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "{\"method\":\"GET\"}\r\n\r\n",
    ] {
        let mut connection = RawConnection::new(server.address);
        connection.send(format!("{request}{}", get("/prize")));
        let answers = connection.remaining_responses();
        assert!(answers.iter().all(|answer| answer.status == 400), "{request:?}: {answers:?}");
        assert!(answers.len() <= 1, "{request:?}: {answers:?}");
    }
}

/// Hostile inputs, S19.
#[test]
fn fast_and_slow_path_requests_on_one_connection_are_answered_in_order() {
    let server = server();
    let mut connection = RawConnection::new(server.address);
    let body = get("/prize");
    let unusual =
        format!("GET /two HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let requests = [
        get("/ok"),
        get("/%74wo"),
        get("/ok"),
        get("/unknown"),
        get("/two"),
        unusual,
        get("/health"),
        get("/ok"),
    ];
    connection.send(requests.concat());
    let answers: Vec<Response> = (0..requests.len()).map_while(|_| connection.next_response()).collect();
    let got: Vec<(u16, Option<&str>)> =
        answers.iter().map(|answer| (answer.status, answer.location())).collect();
    let expected = [
        (301, Some(OK)),
        (301, Some(TWO)),
        (301, Some(OK)),
        (404, None),
        (301, Some(TWO)),
        (301, Some(TWO)),
        (200, None),
        (301, Some(OK)),
    ];
    assert_eq!(got, expected);
}

/// 200 plain requests for two links in turn, and what must come back.
fn two_hundred() -> (String, Vec<&'static str>) {
    let mut requests = String::new();
    let expected = (0..200).map(|number| {
        let (code, target) = if number % 2 == 0 { ("ok", OK) } else { ("two", TWO) };
        let _ =
            write!(requests, "GET /{code} HTTP/1.1\r\nHost: rmax.to\r\nUser-Agent: test/{number}\r\n\r\n");
        target
    });
    let expected = expected.collect();
    (requests, expected)
}

#[track_caller]
fn in_order_with_ids_of_their_own(connection: &mut RawConnection, expected: &[&str]) {
    let mut ids = std::collections::HashSet::new();
    for (number, target) in expected.iter().enumerate() {
        let answer = connection.next_response().unwrap_or_else(|| panic!("no answer {number}"));
        assert_eq!((answer.status, answer.location()), (301, Some(*target)), "answer {number}");
        let id = answer.header("x-request-id").concat();
        assert!(id.len() == 16 && ids.insert(id), "answer {number}: {answer:?}");
    }
}

#[test]
fn two_hundred_requests_in_one_write_are_answered_in_order() {
    let server = server();
    let (requests, expected) = two_hundred();
    let mut connection = RawConnection::new(server.address);
    connection.send(&requests);
    in_order_with_ids_of_their_own(&mut connection, &expected);
    // The connection is still good.
    connection.send(get("/two"));
    assert_eq!(connection.next_response().as_ref().and_then(Response::location), Some(TWO));
}

#[test]
fn two_hundred_requests_byte_by_byte_are_answered_in_order() {
    let server = server();
    let (requests, expected) = two_hundred();
    let mut connection = RawConnection::new(server.address);
    for byte in requests.as_bytes().chunks(1) {
        connection.send(byte);
    }
    in_order_with_ids_of_their_own(&mut connection, &expected);
}

#[test]
fn two_hundred_requests_one_after_the_other_are_answered_on_one_connection() {
    let server = server();
    let (requests, expected) = two_hundred();
    let mut connection = RawConnection::new(server.address);
    for (request, target) in requests.split_inclusive("\r\n\r\n").zip(expected) {
        connection.send(request);
        assert_eq!(connection.next_response().as_ref().and_then(Response::location), Some(target));
    }
}

#[test]
fn half_closed_client_is_answered() {
    let server = server();
    for (path, status) in [("/ok", 301), ("/%6fk", 301), ("/unknown", 404), ("/health", 200), ("/ready", 200)]
    {
        let mut connection = RawConnection::new(server.address);
        connection.send(get(path));
        connection.socket.shutdown(Shutdown::Write).unwrap();
        let answers: Vec<u16> = connection.remaining_responses().iter().map(|answer| answer.status).collect();
        assert_eq!(answers, [status], "{path}");
    }
    for half in ["", "GET /o", "GET /ok HTTP/1.1\r\nHost: rmax.to\r\n"] {
        let mut connection = RawConnection::new(server.address);
        connection.send(half);
        connection.socket.shutdown(Shutdown::Write).unwrap();
        let began = monotonic_ms();
        assert!(connection.remaining_responses().iter().all(|answer| answer.status == 400), "{half:?}");
        assert!(monotonic_ms() - began < 3_000, "{half:?}: nothing more can come, so nothing is waited for");
    }
}

#[test]
fn head_is_get_without_the_body() {
    let server = server();
    let mut connection = RawConnection::new(server.address);
    for path in ["/ok", "/%6fk", "/unknown", "/", "/health", "/ready", "/robots.txt", "/ok+", "/a/b"] {
        connection.send(get(path));
        let answer = connection.next_response().expect("an answer");
        connection.send(get(path).replace("GET", "HEAD"));
        let head = connection.next_head_response().expect("an answer");
        assert_eq!(head.status, answer.status, "{path}");
        // A length may be left out, but not be another one.
        let without_length = |of: &Response| {
            let headers = comparable(of).into_iter().filter(|(name, _)| name != "content-length");
            headers.cloned().collect::<Vec<_>>()
        };
        assert_eq!(without_length(&head), without_length(&answer), "{path}");
        let length = head.header("content-length");
        assert!(length.is_empty() || length == answer.header("content-length"), "{path}");
    }
    connection.send(get("/ok"));
    assert_eq!(
        connection.next_response().map(|answer| answer.status),
        Some(301),
        "no byte of a body was left behind"
    );
}

/// The headers but for what differs between any two answers.
fn comparable(answer: &Response) -> Vec<&(String, String)> {
    answer.headers.iter().filter(|(name, _)| name != "x-request-id" && name != "date").collect()
}

async fn set_state(store: &StoreWriter, code: &str, state: LinkState) {
    let link =
        store.link(MAIN, &Code::from_path(code).expect("a code")).await.expect("an answer").expect("a link");
    let op = LinkOp::Replace { next: Box::new(Link { state, ..link }), action: Action::Update };
    store.write(LinkWrite::new(MAIN, operator(), NOW, op)).await.expect("a write");
}

/// `off` is disabled, `bad` leads to http though it must not, and the proxy on this machine is trusted or not.
fn guarded(trusted: &[&str]) -> RunningServer {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(async {
        for code in ["ok", "off", "bad"] {
            create(&unstarted.store, code, OK).await;
        }
        set_state(&unstarted.store, "off", LinkState::Disabled).await;
        let bad = unstarted.store.link(MAIN, &Code::from_path("bad").expect("a code")).await;
        let bad = bad.expect("an answer").expect("a link");
        let next = Link { target: Target::parse("http://example.com/", 2048).expect("a target"), ..bad };
        let op = LinkOp::Replace { next: Box::new(next), action: Action::Update };
        let write = LinkWrite::new(MAIN, operator(), NOW, op);
        unstarted.store.write(write).await.expect("a write");
    });
    let trusted = trusted.iter().map(|network| network.parse().expect("a network")).collect();
    unstarted.serve(|config| config.reloadable.trusted_proxies = trusted)
}

/// Hostile inputs, S32.
#[test]
fn disabled_link_is_indistinguishable_from_an_unknown_one() {
    let server = guarded(&[]);
    let mut connection = RawConnection::new(server.address);
    for accept in ["application/json", "text/html"] {
        for suffix in ["", "+"] {
            let mut ask = |code: &str| {
                let path = format!("/{code}{suffix}");
                connection.send(get(&path).replace("Host", &format!("Accept: {accept}\r\nHost")));
                connection.next_response().expect("an answer")
            };
            let unknown = ask("unk");
            assert_eq!(unknown.status, 404);
            for code in ["off", "bad"] {
                let answer = ask(code);
                assert_eq!((answer.status, &answer.body), (404, &unknown.body), "{code}{suffix}, {accept}");
                assert_eq!(comparable(&answer), comparable(&unknown), "{code}{suffix}, {accept}");
            }
        }
    }
}

/// Asks for unknown codes as `forwarded` says, and gives the statuses.
fn guess(server: &RunningServer, forwarded: &str, count: usize) -> Vec<Response> {
    let mut connection = RawConnection::new(server.address);
    let mut answers = Vec::new();
    for some in (0..count).collect::<Vec<_>>().chunks(100) {
        connection.send(some.iter().fold(String::new(), |text, n| {
            text + &format!("GET /guess-{n} HTTP/1.1\r\nHost: rmax.to\r\n{forwarded}\r\n")
        }));
        answers.extend(some.iter().map_while(|_| connection.next_response()));
    }
    assert_eq!(answers.len(), count);
    answers
}

/// Hostile inputs, S32.
#[test]
fn network_that_guesses_codes_is_limited_and_others_are_not() {
    let server = guarded(&["127.0.0.0/8"]);
    let guesser = "X-Forwarded-For: 203.0.113.9\r\n";
    let answers = guess(&server, guesser, 3_000);
    let allowed = answers.iter().filter(|answer| answer.status == 404).count();
    assert!((2_000..2_900).contains(&allowed), "{allowed} of 3000 allowed");
    let slowed = answers.iter().find(|answer| answer.status == 429).expect("some are slowed down");
    assert_eq!(slowed.header("retry-after"), ["1"]);
    assert_eq!(slowed.header("cache-control"), ["no-store"]);

    // A few tokens trickle back all the time, so of several requests in a row some are refused.
    let limited = |forwarded: &str| {
        guess(&server, guesser, 200);
        guess(&server, forwarded, 100).iter().any(|answer| answer.status == 429)
    };
    assert!(limited(guesser));
    assert!(limited("X-Forwarded-For: 203.0.113.200\r\n"), "the network counts, not the address");
    assert!(
        limited("X-Forwarded-For: 8.8.8.8, 203.0.113.9\r\n"),
        "what the client wrote itself does not count"
    );
    assert!(limited("X-Forwarded-For: 8.8.4.4\r\nX-Forwarded-For: 203.0.113.9, 127.0.0.9\r\n"));
    assert!(limited(
        "X-Forwarded-For: 203.0.113.9\r\nForwarded: for=8.8.8.8\r\nCF-Connecting-IP: 8.8.8.8\r\n"
    ));
    assert!(!limited("Forwarded: for=\"203.0.113.9:4711\"\r\n"), "only one header is read");
    assert!(!limited("X-Forwarded-For: 198.51.100.1\r\n"), "another network");
    assert!(!limited("X-Forwarded-For: 2001:db8::1\r\n"), "another kind of network");
    assert!(!limited(""), "this machine itself");
    assert!(!limited("X-Forwarded-For: 203.0.113.9, nonsense\r\n"), "what cannot be read is not believed");

    // Links that lead somewhere are served to everybody.
    let mut connection = RawConnection::new(server.address);
    connection.send(format!("GET /ok HTTP/1.1\r\nHost: rmax.to\r\n{guesser}\r\n"));
    assert_eq!(connection.next_response().map(|answer| answer.status), Some(301));
}

/// Hostile inputs, S32.
#[test]
fn rate_limit_does_not_reveal_disabled_links() {
    let server = guarded(&["127.0.0.0/8"]);
    let forwarded = "X-Forwarded-For: 203.0.113.9\r\n";
    guess(&server, forwarded, 2_500);
    for code in ["off", "bad", "unk"] {
        // On one connection and in one write, so that no token trickles back in between.
        let mut connection = RawConnection::new(server.address);
        let mut requests = String::new();
        for path in (0..100).map(|n| format!("guess-{n}")).chain([code.to_owned()]) {
            let _ = write!(requests, "GET /{path} HTTP/1.1\r\nHost: rmax.to\r\n{forwarded}\r\n");
        }
        connection.send(requests);
        let answers: Vec<u16> =
            (0..101).map_while(|_| connection.next_response()).map(|answer| answer.status).collect();
        assert_eq!(answers.last(), Some(&429), "{code}: {answers:?}");
    }
}

/// Hostile inputs, S9.
#[test]
fn forwarding_headers_of_an_untrusted_peer_are_ignored() {
    let server = guarded(&["10.0.0.0/8"]);
    // Whatever the header says, it is this machine, which is slowed down like any other.
    let statuses: Vec<u16> = ["X-Forwarded-For: 203.0.113.9\r\n", "X-Forwarded-For: 198.51.100.9\r\n"]
        .into_iter()
        .flat_map(|forwarded| guess(&server, forwarded, 1_500))
        .map(|answer| answer.status)
        .collect();
    assert!(statuses[..2_000].iter().all(|status| *status == 404), "{statuses:?}");
    assert!(statuses[2_000..].contains(&429), "the header changes nothing");
}

/// Faults, row 44.
#[test]
fn stampede_for_an_uncached_link_gets_one_answer() {
    let server = serve_more_than_fits();
    let stampede = |path: &str| -> Vec<(u16, Option<String>)> {
        let mut crowd: Vec<RawConnection> = (0..200).map(|_| RawConnection::new(server.address)).collect();
        for connection in &mut crowd {
            connection.send(get(path));
        }
        let answers = crowd.iter_mut().map(|connection| connection.next_response().expect("an answer"));
        answers.map(|answer| (answer.status, answer.location().map(str::to_owned))).collect()
    };
    // Some of these are in the table and some are not: nobody can tell from the answers.
    for number in (0..BIG).step_by(400) {
        let expected = (301, Some(big_target(number)));
        assert!(stampede(&format!("/big-{number}")).iter().all(|answer| *answer == expected), "big-{number}");
    }
    for unknown in ["/unknown-1", "/unknown-2"] {
        assert!(stampede(unknown).iter().all(|answer| *answer == (404, None)), "{unknown}");
    }
}
