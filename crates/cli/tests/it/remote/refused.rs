//! What a key may not do, what cannot be done from elsewhere, and servers that are away or are none.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;

use super::{ALL_SCOPES, StoreAndServer, elsewhere, key};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

/// Somebody who answers every request with the same bytes, and remembers what was asked.
fn stranger(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&asked);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            into.lock().unwrap().push(head(&socket));
            let _ = (&socket).write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

fn head(mut socket: &TcpStream) -> String {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        match socket.read(&mut chunk) {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn api_key_is_not_sent_to_another_machine_over_plain_http() {
    let sandbox = Sandbox::new()
        .with("RMAX_SERVER", "http://links.invalid/")
        .with("RMAX_API_KEY", "rmx_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_snapshot!(sandbox.rmax("links list"), @"
    exit 2
    --- stderr
    error: http://links.invalid/ is plain http: the API key and all answers travel in the clear
    hint: use https, or --insecure on a network you trust
    ");
    // Asked for, it is tried: there is no such host.
    sandbox.fails(6, "--insecure links list").says("warning: http://links.invalid/ is plain http");
    let near = Sandbox::new().with("RMAX_SERVER", "http://localhost:1").with("RMAX_API_KEY", "rmx_k");
    assert!(!near.fails(6, "links list").stderr.contains("plain http"));
}

#[test]
fn missing_permission_is_explained() {
    let both = StoreAndServer::new();
    let stranger = both.holding("rmx_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_snapshot!(stranger.rmax("links list"), @"
    exit 7
    --- stderr
    error: A valid credential is needed
    hint: the server does not accept the key in RMAX_API_KEY: it is another server's, or expired, revoked or mistyped
    ");
    assert_eq!(stranger.fails(7, "links list --json").error()["code"], "UNAUTHENTICATED");
    let reader = both.holding(&key(&both.local, "links:read"));
    reader.ok("links get first");
    assert_snapshot!(reader.rmax("links set first https://example.com/other"), @"
    exit 7
    --- stderr
    error: This credential does not allow links:write
    hint: `rmax keys create --scope <scopes>` makes a key that may do more, for whoever may do that
    ");
    for line in [
        "links delete first --yes",
        "links stats first",
        "users list",
        "keys list",
        "audit list",
        "domains list",
    ] {
        reader.fails(7, line);
    }
    assert_eq!(both.local.link("first")["target"], "https://example.com/first");
}

#[test]
fn workspace_comes_from_the_key() {
    let both = StoreAndServer::new();
    both.local.ok("workspaces create other --preset edge");
    both.remote.ok("--workspace main links get first");
    assert_snapshot!(both.remote.rmax("--workspace other links get first"), @"
    exit 7
    --- stderr
    error: the key in RMAX_API_KEY is of workspace `main`, not of `other`
    hint: on a server the key decides the workspace; leave --workspace out, or use a key of that one
    ");
    let other = both.local.json("--workspace other keys create --name o --json");
    let other = both.holding(other["key"].as_str().unwrap());
    other.fails(3, "links get first");
    other.ok("links set mine https://example.com/mine").says("no domain reaches workspace other");
    both.local.ok("--workspace other links get mine");
}

#[test]
fn rate_limited_request_names_the_retry_time() {
    let both = StoreAndServer::new();
    both.local.ok("workspaces policy --set limits.requests_per_hour=2");
    both.remote.ok("links get first");
    both.remote.ok("links get first");
    let refused = both.remote.fails(6, "links get first");
    refused.says("Rate limit reached for this API key; try again in ");
    let error = both.remote.fails(6, "links get first --json").error();
    assert_eq!(error["code"], "RATE_LIMITED");
    assert!(error["details"]["retry_after"].as_u64().is_some_and(|seconds| seconds <= 3600), "{error}");
}

#[test]
fn unreachable_server_exits_as_unavailable() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sandbox = elsewhere(nobody, "rmx_k");
    let refused = sandbox.fails(6, "links list");
    refused.says("cannot be reached: Connection refused");
    assert_eq!(sandbox.fails(6, "links list --json").error()["code"], "KV_UNAVAILABLE");
    // So it is when only a proxy is there; what may be repeated is, and a key is not made twice.
    let (address, asked) =
        stranger("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let sandbox = elsewhere(address, "rmx_k");
    sandbox.fails(6, "links get x").says("cannot answer now (status 503)");
    assert_eq!(asked.lock().unwrap().len(), 3);
    sandbox.fails(6, "shorten https://example.com/");
    let keys: Vec<String> =
        asked.lock().unwrap()[3..].iter().map(|head| idempotency_key(head).unwrap()).collect();
    assert_eq!(
        (keys.len(), keys.iter().all(|key| *key == keys[0])),
        (3, true),
        "one thing, asked for three times"
    );
    sandbox.fails(6, "keys create --name once");
    assert_eq!(asked.lock().unwrap().len(), 7);
}

fn idempotency_key(head: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("idempotency-key:"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[test]
fn unexpected_response_names_another_program() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 13\r\n\r\n<html></html>",
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 13\r\n\r\n<html></html>",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 11\r\n\r\n{\"data\":{}}",
        "HTTP/1.1 401 No\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    ] {
        let (address, _) = stranger(answer);
        let sandbox = elsewhere(address, "rmx_k");
        for line in [
            "links list",
            "links get x",
            "links set x https://example.com/",
            "keys list",
            "users list --json",
        ] {
            sandbox.fails(1, line).says("does not answer like an rlinks server");
        }
    }
    // Nor is what says more than there can be.
    let (address, _) = stranger("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nx");
    let ran = elsewhere(address, "rmx_k").rmax("links list");
    assert!(matches!(ran.code, Some(1 | 6)), "{ran}");
}

#[test]
fn https_requires_a_valid_certificate() {
    let local = Sandbox::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    local.write("cert.pem", &made.cert.pem());
    local.write("key.pem", &made.signing_key.serialize_pem());
    local.write("rmax.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    local.ok("links set x https://example.com/");
    let server = serve(&local, "");
    let remote = elsewhere(server.address, &key(&local, "links:read"));
    let remote = remote.with("RMAX_SERVER", &format!("https://localhost:{}", server.address.port()));
    remote.fails(6, "links get x").says("invalid peer certificate");
    let trusted = remote.with("SSL_CERT_FILE", local.path("cert.pem").to_str().unwrap());
    assert_eq!(trusted.link("x"), local.link("x"));
}

#[test]
fn redirect_is_not_followed_and_the_key_is_not_sent_on() {
    let (elsewhere_address, seen) =
        stranger("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{elsewhere_address}/api/v1/links\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let (address, asked) = stranger(answer.leak());
    let ran = elsewhere(address, "rmx_secret").fails(1, "links list");
    ran.says(&format!("answers with a redirect to http://{elsewhere_address}, which is not followed"));
    assert_eq!((asked.lock().unwrap().len(), seen.lock().unwrap().len()), (1, 0));
}

#[test]
fn api_key_is_never_printed() {
    let both = StoreAndServer::new();
    let secret = key(&both.local, ALL_SCOPES);
    let sandbox = both.holding(&secret);
    let nobody = elsewhere(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(), &secret);
    let odd = both.holding("rmx_odd\u{e9}secret");
    for line in [
        "links list",
        "links get nobody",
        "-vv links set x https://example.com/",
        "-vv --json keys list",
        "serve --print-config",
        "doctor",
    ] {
        for (sandbox, secret) in [(&sandbox, secret.as_str()), (&nobody, &secret), (&odd, "secret")] {
            let ran = sandbox.rmax(line);
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{line}\n{ran}");
        }
    }
    assert_snapshot!(odd.rmax("links list"), @"
    exit 2
    --- stderr
    error: RMAX_API_KEY is no API key: it has characters that no key has
    ");
    assert!(sandbox.ok("-vv links get first").stderr.contains("asked the server"));
    assert!(!both.server.says(&secret), "{}", both.server.log());
}

#[test]
fn commands_that_need_the_store_are_refused_remotely() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "[env.production]\nserver = \"https://links.example.com\"\n");
    assert_snapshot!(sandbox.rmax("backup file"), @"
    exit 2
    --- stderr
    error: this needs the store itself, and environment `production` points at a server (https://links.example.com/)
    hint: run it where the store is, or choose with --env an environment of rmax.toml that has a `store` (or set RMAX_STORE)
    ");
    for line in [
        "serve",
        "doctor",
        "restore file",
        "migrate up",
        "migrate status",
        "sweep",
        "audit verify",
        "clicks export -",
        "clicks recompute",
        "clicks prune",
        "clicks misses",
        "workspaces list",
        "workspaces show",
        "dev seed",
    ] {
        sandbox.fails(2, line).says("needs the store itself");
    }
    assert!(!sandbox.path("rlinks-data").exists(), "nothing is made here");
}
