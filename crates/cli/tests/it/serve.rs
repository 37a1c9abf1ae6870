//! `rmax serve` as an operator meets it: a process with a folder, a port, signals and a log.

mod faults;
mod logs;
pub(crate) mod served;
mod signals;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rlinks_store::clock::{Clock, monotonic_ms};

use self::served::{address_in, serve, start};
use crate::client::{Talk, get, wait_until};
use crate::place::Place;

#[test]
fn an_empty_folder_serves() {
    let place = Place::new();
    let server = serve(&place, "");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    for (path, status) in [("/health", 200), ("/", 200), ("/unknown", 404), ("/robots.txt", 200)] {
        assert_eq!(server.status(path), status, "{path}");
    }
    let mut talk = Talk::new(server.address);
    talk.send(get("/").replace("GET", "HEAD") + &get("/health"));
    assert_eq!(talk.answer_to_head().unwrap().status, 200);
    assert!(talk.answer().unwrap().body.contains("\"ok\""));
    assert!(place.database().exists());
    server.stop();
}

#[test]
fn a_change_made_by_another_process_is_served_within_its_time() {
    #[track_caller]
    fn soon(what: &str, condition: impl FnMut() -> bool) {
        let began = monotonic_ms();
        wait_until(what, condition);
        let took = monotonic_ms() - began;
        assert!(took < 2_000, "{what}: only after {took} ms");
    }
    let place = Place::new();
    let server = serve(&place, "");
    let leads_to = |target: &str| server.get("/go").location() == Some(target);
    assert_eq!(server.status("/go"), 404);
    place.ok("links set go https://one.example/");
    soon("a new link is served", || leads_to("https://one.example/"));
    place.ok("links set go https://two.example/");
    soon("a changed link is served", || leads_to("https://two.example/"));
    place.ok("links disable go");
    soon("a disabled link is 404", || server.status("/go") == 404);
    place.ok("links enable go");
    soon("an enabled link is served", || leads_to("https://two.example/"));
    place.ok("links delete go --yes");
    soon("a deleted link is 404", || server.status("/go") == 404);
    place.ok("links restore go");
    soon("a restored link is served", || leads_to("https://two.example/"));
    let second = Clock::system().now().ms() / 1000 + 2;
    place.ok(&format!("links set go https://two.example/ --expires {second}"));
    wait_until("an expired link is 410", || server.status("/go") == 410);
    assert!(Clock::system().now().ms() >= second * 1000, "not before its time");
    place.ok("links set go https://two.example/ --no-expiry");
    soon("a link without expiry is served", || leads_to("https://two.example/"));
    place.ok("domains add rmax.to");
    place.ok("domains add short.example");
    place.ok("domains remove rmax.to");
    soon("a host that is no longer ours is 404", || server.status("/go") == 404);
    place.ok("audit verify");
}

#[test]
fn the_first_requests_of_all_are_answered_like_any_other() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    for _ in 0..10 {
        // In the moment in which the follower takes its first look.
        let server = serve(&place, "--threads 1");
        let mut talk = Talk::new(server.address);
        talk.send((get("/unknown") + &get("/go")).repeat(300));
        for number in 0..300 {
            let answers = [talk.answer().unwrap().status, talk.answer().unwrap().status];
            assert_eq!(answers, [404, 301], "request {number}: {}", server.log());
        }
    }
}

#[test]
fn row_22_a_second_server_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "");
    let refused = place.fails(1, "serve --listen 127.0.0.1:0");
    refused.says("another rmax serve is using");
    refused.says("--data");
    assert_eq!(server.status("/go"), 301);
    server.stop();
    // The lock goes with the process.
    assert_eq!(serve(&place, "").status("/go"), 301);
}

#[test]
fn a_port_that_is_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let place = Place::new();
    let refused = place.fails(1, &format!("serve --listen {address}"));
    refused.says(&format!("{address} is in use by another program"));
    refused.says("--listen");
    let refused = place.fails(1, &format!("serve --listen 127.0.0.1:0 --control-listen {address}"));
    refused.says(&format!("{address} is in use by another program"));
    assert!(!refused.stderr.contains("serving redirects"), "{refused}");
}

#[test]
fn what_is_not_for_the_public_can_be_elsewhere_or_nowhere() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let apart = serve(&place, "--control-listen 127.0.0.1:0");
    let control = address_in(&apart.log(), "serving what is not for the public on").unwrap();
    assert_ne!(control, apart.address);
    let mut talk = Talk::new(control);
    talk.send(get("/health"));
    assert_eq!(talk.answer().unwrap().status, 200);
    let check = |server: &served::Served| {
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
    place.write("rmax.toml", "serve_admin = false\n");
    check(&serve(&place, ""));
}

#[test]
fn the_printed_configuration_has_no_passwords() {
    let place = Place::new().with("RMAX_STORE", "postgres://user:hunter2@db.example/links?password=hunter2");
    for flags in ["", "--json"] {
        let printed = place.ok(&format!("serve --print-config {flags}"));
        assert!(!printed.to_string().contains("hunter2"), "{printed}");
        assert!(printed.stdout.contains("db.example") && printed.stdout.contains("RMAX_STORE"), "{printed}");
    }
    // Neither has what is said when it cannot be used.
    let place = place.with("RMAX_STORE", "postgres://user:hunter2@127.0.0.1:1/links");
    let refused = place.rmax("serve --listen 127.0.0.1:0");
    assert!(refused.code != Some(0) && !refused.to_string().contains("hunter2"), "{refused}");
}

#[test]
fn https_is_served_from_the_files_of_the_configuration() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["rmax.to".to_owned()]).unwrap();
    place.write("cert.pem", &made.cert.pem());
    place.write("key.pem", &made.signing_key.serialize_pem());
    place.write("rmax.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    let server = serve(&place, "");
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

    std::fs::remove_file(place.path("key.pem")).unwrap();
    place.fails(1, "serve --listen 127.0.0.1:0").says("key.pem");
    place.write("rmax.toml", "[tls]\ncert = \"cert.pem\"\n");
    place.fails(2, "serve --listen 127.0.0.1:0").says("tls.key");
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

#[test]
fn row_43_a_flood_of_random_codes_does_not_grow_the_process() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "--threads 1");
    let mut number: u64 = 1;
    let mut flood = |count: usize| {
        let mut talk = Talk::new(server.address);
        for _ in 0..count / 500 {
            let mut requests = String::new();
            for _ in 0..500 {
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                requests += &get(&format!("/{:x}", number >> 8));
            }
            talk.send(requests);
            (0..500).for_each(|_| assert_eq!(talk.answer().map(|answer| answer.status), Some(404)));
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
fn a_line_that_cannot_be_meant_serves_nothing() {
    let place = Place::new();
    for line in ["serve --listen nonsense", "serve --threads 0", "serve --listen 127.0.0.1:99999"] {
        place.fails(2, line);
    }
    let mut stopped = start(&place, "serve --listen 192.0.2.1:80");
    assert_eq!(stopped.ends_within(10_000).code(), Some(1), "an address of another machine");
}
