//! `rmax serve` as an operator meets it: a process with a folder, a port, signals and a log.

mod faults;
mod logs;
mod signals;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rlinks_store::clock::{Clock, monotonic_ms};

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::{address_in, serve, start};

#[test]
fn server_starts_in_an_empty_folder() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    for (path, status) in [("/health", 200), ("/", 200), ("/unknown", 404), ("/robots.txt", 200)] {
        assert_eq!(server.status(path), status, "{path}");
    }
    let mut connection = RawConnection::new(server.address);
    connection.send(get("/").replace("GET", "HEAD") + &get("/health"));
    assert_eq!(connection.next_head_response().unwrap().status, 200);
    assert!(connection.next_response().unwrap().body.contains("\"ok\""));
    assert!(sandbox.database().exists());
    server.stop();
}

#[test]
fn change_by_another_process_is_served_within_two_seconds() {
    #[track_caller]
    fn soon(what: &str, condition: impl FnMut() -> bool) {
        let began = monotonic_ms();
        wait_until(what, condition);
        let took = monotonic_ms() - began;
        assert!(took < 2_000, "{what}: only after {took} ms");
    }
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "");
    let leads_to = |target: &str| server.get("/go").location() == Some(target);
    assert_eq!(server.status("/go"), 404);
    sandbox.ok("links set go https://one.example/");
    soon("a new link is served", || leads_to("https://one.example/"));
    sandbox.ok("links set go https://two.example/");
    soon("a changed link is served", || leads_to("https://two.example/"));
    sandbox.ok("links disable go");
    soon("a disabled link is 404", || server.status("/go") == 404);
    sandbox.ok("links enable go");
    soon("an enabled link is served", || leads_to("https://two.example/"));
    sandbox.ok("links delete go --yes");
    soon("a deleted link is 404", || server.status("/go") == 404);
    sandbox.ok("links restore go");
    soon("a restored link is served", || leads_to("https://two.example/"));
    let second = Clock::system().now().ms() / 1000 + 2;
    sandbox.ok(&format!("links set go https://two.example/ --expires {second}"));
    wait_until("an expired link is 410", || server.status("/go") == 410);
    assert!(Clock::system().now().ms() >= second * 1000, "not before its time");
    sandbox.ok("links set go https://two.example/ --no-expiry");
    soon("a link without expiry is served", || leads_to("https://two.example/"));
    sandbox.ok("domains add rmax.to");
    sandbox.ok("domains add short.example");
    sandbox.ok("domains remove rmax.to");
    soon("a host that is no longer ours is 404", || server.status("/go") == 404);
    sandbox.ok("audit verify");
}

#[test]
fn first_requests_after_the_start_are_answered_correctly() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    for _ in 0..10 {
        // In the moment in which the follower takes its first look.
        let server = serve(&sandbox, "--threads 1");
        let mut connection = RawConnection::new(server.address);
        connection.send((get("/unknown") + &get("/go")).repeat(300));
        for number in 0..300 {
            let answers =
                [connection.next_response().unwrap().status, connection.next_response().unwrap().status];
            assert_eq!(answers, [404, 301], "request {number}: {}", server.log());
        }
    }
}

/// Faults, row 22.
#[test]
fn second_server_on_the_same_folder_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "");
    let refused = sandbox.fails(1, "serve --listen 127.0.0.1:0");
    refused.says("another rmax serve is using");
    refused.says("--data");
    assert_eq!(server.status("/go"), 301);
    server.stop();
    // The lock goes with the process.
    assert_eq!(serve(&sandbox, "").status("/go"), 301);
}

#[test]
fn a_port_that_is_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let sandbox = Sandbox::new();
    let refused = sandbox.fails(1, &format!("serve --listen {address}"));
    refused.says(&format!("{address} is in use by another program"));
    refused.says("--listen");
    let refused = sandbox.fails(1, &format!("serve --listen 127.0.0.1:0 --control-listen {address}"));
    refused.says(&format!("{address} is in use by another program"));
    assert!(!refused.stderr.contains("serving redirects"), "{refused}");
}

#[test]
fn control_plane_can_have_its_own_listener_or_be_off() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let apart = serve(&sandbox, "--control-listen 127.0.0.1:0");
    let control = address_in(&apart.log(), "serving what is not for the public on").unwrap();
    assert_ne!(control, apart.address);
    let mut connection = RawConnection::new(control);
    connection.send(get("/health"));
    assert_eq!(connection.next_response().unwrap().status, 200);
    let check = |server: &crate::support::server_process::ServerProcess| {
        for (path, status) in [("/go", 301), ("/health", 200), ("/ready", 200)] {
            assert_eq!(server.status(path), status, "{path}");
        }
        for path in ["/admin", "/admin/login", "/api/v1/links", "/metrics", "/api/openapi.json"] {
            assert_eq!(server.status(path), 404, "{path} is not for the public");
        }
    };
    check(&apart);
    apart.stop();
    assert!(TcpStream::connect(control).is_err(), "both listeners are closed");
    sandbox.write("rmax.toml", "serve_admin = false\n");
    check(&serve(&sandbox, ""));
}

#[test]
fn the_printed_configuration_has_no_passwords() {
    let sandbox =
        Sandbox::new().with("RMAX_STORE", "postgres://user:hunter2@db.example/links?password=hunter2");
    for flags in ["", "--json"] {
        let printed = sandbox.ok(&format!("serve --print-config {flags}"));
        assert!(!printed.to_string().contains("hunter2"), "{printed}");
        assert!(printed.stdout.contains("db.example") && printed.stdout.contains("RMAX_STORE"), "{printed}");
    }
    // Neither has what is said when it cannot be used.
    let sandbox = sandbox.with("RMAX_STORE", "postgres://user:hunter2@127.0.0.1:1/links");
    let refused = sandbox.rmax("serve --listen 127.0.0.1:0");
    assert!(refused.code != Some(0) && !refused.to_string().contains("hunter2"), "{refused}");
}

#[test]
fn https_is_served_with_the_configured_certificate() {
    let sandbox = Sandbox::new();
    let made = rcgen::generate_simple_self_signed(["rmax.to".to_owned()]).unwrap();
    sandbox.write("cert.pem", &made.cert.pem());
    sandbox.write("key.pem", &made.signing_key.serialize_pem());
    sandbox.write("rmax.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    let server = serve(&sandbox, "");
    assert!(server.says("serving redirects on https://"), "{}", server.log());
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(&client_hello()).unwrap();
    let mut record = [0; 6];
    socket.read_exact(&mut record).unwrap();
    // A handshake record of TLS 1.2 that holds a ServerHello.
    assert_eq!((record[0], record[1], record[5]), (22, 3, 2), "{record:?}");
    let setup = format!("https://{}/admin/setup?token=", server.address);
    wait_until("the first admin is made over TLS too", || server.says(&setup));
    server.stop();

    std::fs::remove_file(sandbox.path("key.pem")).unwrap();
    sandbox.fails(1, "serve --listen 127.0.0.1:0").says("key.pem");
    sandbox.write("rmax.toml", "[tls]\ncert = \"cert.pem\"\n");
    sandbox.fails(2, "serve --listen 127.0.0.1:0").says("tls.key");
}

/// The first words of a TLS 1.2 client: one cipher suite, P-256 and ECDSA.
fn client_hello() -> Vec<u8> {
    let extensions: &[&[u8]] =
        &[&[0, 10, 0, 4, 0, 2, 0, 23], &[0, 11, 0, 2, 1, 0], &[0, 13, 0, 4, 0, 2, 4, 3]];
    let extensions = extensions.concat();
    let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
    let hello =
        [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0xc0, 0x2b], &[1, 0], &length(extensions.len()), &extensions]
            .concat();
    let handshake = [&[1, 0][..], &length(hello.len()), &hello].concat();
    [&[22, 3, 1][..], &length(handshake.len()), &handshake].concat()
}

/// Faults, row 43.
#[test]
fn flood_of_random_codes_does_not_grow_memory() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "--threads 1");
    let mut number: u64 = 1;
    let mut flood = |count: usize| {
        let mut connection = RawConnection::new(server.address);
        for _ in 0..count / 500 {
            let mut requests = String::new();
            for _ in 0..500 {
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                requests += &get(&format!("/{:x}", number >> 8));
            }
            connection.send(requests);
            // Most of them come too fast: they are looked up all the same.
            for _ in 0..500 {
                let status = connection.next_response().map(|answer| answer.status);
                assert!(matches!(status, Some(404 | 429)), "{status:?}");
            }
        }
    };
    flood(5_000);
    let before = server.resident_bytes();
    flood(100_000);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "grown by {grown} bytes");
    assert_eq!(server.status("/go"), 301);
}

#[test]
fn invalid_serve_flags_are_rejected() {
    let sandbox = Sandbox::new();
    for line in ["serve --listen nonsense", "serve --threads 0", "serve --listen 127.0.0.1:99999"] {
        sandbox.fails(2, line);
    }
    let mut stopped = start(&sandbox, "serve --listen 192.0.2.1:80");
    assert_eq!(stopped.ends_within(10_000).code(), Some(1), "an address of another machine");
}
