//! Requests that two readers of a connection could understand differently.

use super::{OK, PRIZE, TWO, server};
use crate::support::raw_client::{RawConnection, Response, get};

/// Heads without their end, of requests for `/ok`.
const AMBIGUOUS: [&str; 18] = [
    "\nGET /ok HTTP/1.1\r\nHost: rmax.to\r\n\r\n",
    "GET /ok HTTP/1.1\nHost: rmax.to\n\n",
    "GET /ok HTTP/1.1\nHost: rmax.to\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\n\n",
    "GET /ok HTTP/1.1\r\nX: a\nHost: rmax.to\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nX: a\r\n b\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: +1\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: 1, 1\r\n\r\n",
    "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    "GET /ok HTTP/1.0\r\nHost: rmax.to\r\nTransfer-Encoding: chunked\r\n\r\n",
];

/// A form without its token, which is read whole before it is refused.
fn chunked_request() -> String {
    let inner = get("/prize");
    format!(
        "POST /admin/login HTTP/1.1\r\nHost: rmax.to\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x};a=b\r\n{inner}\r\n1\r\nx\r\n0\r\nX: Content-Length\r\n\r\n",
        inner.len()
    )
}

fn request_with_length() -> String {
    let inner = get("/prize");
    format!("GET /two HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: {}\r\n\r\n{inner}", inner.len())
}

fn outcomes(responses: &[Response]) -> Vec<(u16, Option<&str>)> {
    responses.iter().map(|response| (response.status, response.location())).collect()
}

/// Hostile inputs, S19.
#[test]
fn ambiguous_request_is_refused_wherever_it_comes_on_a_connection() {
    let server = server();
    let (ok, two, refused) = ((301, Some(OK)), (301, Some(TWO)), (403, None));
    let (fast, length, chunked) = (get("/ok"), request_with_length(), chunked_request());
    let befores = [
        (String::new(), vec![]),
        (fast.clone(), vec![ok]),
        (length.clone(), vec![two]),
        (chunked.clone(), vec![refused]),
        ([fast.as_str(), &chunked, &length, &fast].concat(), vec![ok, refused, two, ok]),
    ];
    for (before, answered) in &befores {
        for ambiguous in AMBIGUOUS {
            let mut connection = RawConnection::new(server.address);
            connection.send(format!("{before}{ambiguous}0\r\n\r\n{}", get("/prize")));
            let responses = connection.remaining_responses();
            let expected = [answered.as_slice(), &[(400, None)]].concat();
            assert_eq!(outcomes(&responses), expected, "{before:?}, then {ambiguous:?}");
            assert_eq!(responses.last().map(|last| last.header("connection")), Some(vec!["close"]));
        }
    }
    assert_eq!(server.get("/ok").status, 301, "and the server goes on");
}

/// Hostile inputs, S19.
#[test]
fn ambiguous_request_is_refused_when_it_comes_byte_by_byte() {
    let server = server();
    for ambiguous in AMBIGUOUS {
        let mut connection = RawConnection::new(server.address);
        for byte in [get("/%74wo").as_bytes(), ambiguous.as_bytes()].concat().chunks(1) {
            connection.send(byte);
        }
        let responses = connection.remaining_responses();
        assert_eq!(outcomes(&responses), [(301, Some(TWO)), (400, None)], "{ambiguous:?}");
    }
}

/// Hostile inputs, S19.
#[test]
fn malformed_chunks_end_the_connection() {
    let server = server();
    for body in
        ["zz\r\n", "1\r\nab\r\n", "1\nX\r\n", "1;a\nb\r\nX\r\n", "1\r\nX\n", "0\r\n\n", "0\r\nA: b\n\r\n"]
    {
        let mut connection = RawConnection::new(server.address);
        connection.send(format!(
            "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n{}",
            get("/prize")
        ));
        let responses = connection.remaining_responses();
        assert!(outcomes(&responses).iter().all(|(_, location)| *location != Some(PRIZE)), "{body:?}");
        assert!(responses.len() <= 1, "{body:?}: {responses:?}");
    }
}

/// Hostile inputs, S19.
#[test]
fn requests_with_bodies_and_trailers_are_followed_by_others_on_the_connection() {
    let server = server();
    let (fast, length, chunked) = (get("/ok"), request_with_length(), chunked_request());
    let requests = [&fast, &chunked, &fast, &length, &chunked, &chunked, &fast].map(String::as_str).concat();
    let (ok, two, refused) = ((301, Some(OK)), (301, Some(TWO)), (403, None));
    let expected = [ok, refused, ok, two, refused, refused, ok];
    let mut connection = RawConnection::new(server.address);
    connection.send(requests);
    let responses: Vec<Response> = (0..7).map_while(|_| connection.next_response()).collect();
    assert_eq!(outcomes(&responses), expected);
}
