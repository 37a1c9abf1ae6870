//! What a log holds whatever strangers send, and what it never holds.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::raw_client::{RawConnection, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

/// What must never be written down, each in its own part of a request.
const CANARIES: [&str; 7] = [
    "canary-query",
    "canary-cookie",
    "canary-key",
    "canary-agent",
    "canary-referrer",
    "203.0.113.77",
    "canary-password",
];

/// Hostile inputs, S37.
#[test]
fn hostile_requests_leave_a_json_log_without_secrets() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/?secret=canary-query");
    sandbox.write("rmax.toml", "trusted_proxies = [\"127.0.0.0/8\"]\n[log]\nformat = \"json\"\n");
    let server = serve(&sandbox, "-vv");
    let evil: [&[u8]; 8] = [
        b"\x1b[2J\x1b]0;owned\x07",
        b"a\nb",
        b"a\r\n{\"level\":\"ERROR\",\"fields\":{\"message\":\"forged\"}}\r\n",
        b"a\0b\x7f",
        "\u{2028}\u{2029}\u{85}\u{202e}".as_bytes(),
        b"\xff\xfe\x80",
        b"%1b[2J%0a{\"level\":\"ERROR\"}",
        &[b'x'; 6000],
    ];
    let (mut ports, mut answered) = (Vec::new(), 0);
    for bytes in evil {
        for (method, path) in
            [("GET", "/go"), ("GET", "/unknown"), ("BREW", "/health"), ("GET", "/api/x"), ("GET", "/")]
        {
            for sandbox in 0..4 {
                let here = |number: usize| if sandbox == number { bytes } else { b"" };
                let request = [
                    method.as_bytes(),
                    b" ",
                    path.as_bytes(),
                    here(0),
                    b"?q=canary-query",
                    here(1),
                    b" HTTP/1.1\r\nConnection: close\r\nHost: rmax.to\r\nUser-Agent: canary-agent",
                    here(2),
                    b"\r\nReferer: https://x.example/canary-referrer",
                    here(3),
                    b"\r\nCookie: canary-cookie\r\nAuthorization: Bearer canary-key\r\nX-Forwarded-For: 203.0.113.77\r\n\r\n",
                ];
                let mut connection = RawConnection::new(server.address);
                ports.push(connection.socket.local_addr().unwrap().to_string());
                connection.send(request.concat());
                answered += connection.remaining_responses().len();
            }
        }
    }
    assert_eq!(answered, ports.len());
    // A configuration that cannot be read is somebody's text too.
    sandbox.write("rmax.toml", "\"a\\u001b[2J\\nb\" = \"canary-password\"\n");
    server.signal(Signal::HUP);
    wait_until("it says that the old stays in force", || server.says("the old configuration stays in force"));
    server.signal(Signal::TERM);
    wait_until("it has said all", || server.says("\"stopped\""));

    let log = server.log();
    assert!(log.lines().count() > 5, "{log}");
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert!(event["level"].is_string() && event["fields"]["message"].is_string(), "{line}");
        assert_ne!(event["fields"]["message"], "forged");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(line.len() < 2_000, "{line}");
    }
    for secret in CANARIES.into_iter().chain(ports.iter().map(String::as_str)) {
        assert!(!log.contains(secret), "{secret} in\n{log}");
    }
}

/// Hostile inputs, S37.
#[test]
fn text_log_has_one_line_per_event() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "");
    sandbox.write("rmax.toml", "\"a\\u001b[2J\\nb\" = 1\n");
    server.signal(Signal::HUP);
    wait_until("it says that the old stays in force", || server.says("the old configuration stays in force"));
    let log = server.log();
    for line in log.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(line.starts_with("20"), "each line begins with its moment: {line:?}");
    }
}
