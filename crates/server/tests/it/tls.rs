//! HTTPS from certificate files: what is served, what is refused at the start, what a replacement does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rlinks_server::TlsFiles;
use rlinks_store::clock::monotonic_ms;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::raw_client::{Response, wait_until};
use crate::support::server::{RunningServer, UnstartedServer, create};

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["rmax.to".to_owned()]).expect("a certificate")
}

/// Puts a certificate and its key where a server looks for them, each by one rename as certificate tools do.
fn install(folder: &Path, made: &CertifiedKey<KeyPair>) -> TlsFiles {
    let place = |name: &str, text: &str| -> PathBuf {
        let (fresh, path) = (folder.join(format!("{name}.new")), folder.join(name));
        std::fs::write(&fresh, text).expect("a file");
        std::fs::rename(&fresh, &path).expect("a rename");
        path
    };
    TlsFiles {
        cert: place("cert.pem", &made.cert.pem()),
        key: place("key.pem", &made.signing_key.serialize_pem()),
    }
}

/// An HTTPS server with the link `/ok`, and the certificate it presents.
fn server() -> (RunningServer, CertifiedKey<KeyPair>) {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(create(&unstarted.store, "ok", "https://example.com/"));
    let made = certificate();
    let files = install(unstarted.folder.path(), &made);
    let server = unstarted.try_serve(|config| config.tls = Some(files)).expect("the server starts");
    (server, made)
}

type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

/// A connection of a client that trusts nothing but this certificate.
fn connect(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<TlsConnection> {
    connect_and_send(address, trusted, "")
}

/// The same, with a request that travels with the last bytes of the handshake.
fn connect_and_send(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    request: &str,
) -> std::io::Result<TlsConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = "rmax.to".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    client.writer().write_all(request.as_bytes())?;
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(client, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

fn ask(stream: &mut TlsConnection, request: &str) -> Response {
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut bytes = Vec::new();
    // Only an end that was announced counts as one.
    stream.read_to_end(&mut bytes).expect("the server closes the session properly");
    Response::parse(&bytes)
}

#[test]
fn link_redirects_over_https() {
    let (server, made) = server();
    let mut stream = connect(server.address, made.cert.der()).expect("a handshake");
    assert_eq!(stream.conn.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let answer = ask(&mut stream, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.header("location")), (301, vec!["https://example.com/"]));
    let mut stream = connect(server.address, made.cert.der()).expect("a handshake");
    let answer = ask(&mut stream, "GET /health HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.status, 200);
}

/// Hostile inputs, S19.
#[test]
fn ambiguous_request_over_https_is_refused_also_behind_another() {
    let (server, made) = server();
    for ambiguous in [
        "GET /ok HTTP/1.1\nHost: rmax.to\n\n",
        "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        for before in
            ["", "GET /ok HTTP/1.1\r\nHost: rmax.to\r\n\r\n", "GET /%6fk HTTP/1.1\r\nHost: rmax.to\r\n\r\n"]
        {
            let mut stream = connect(server.address, made.cert.der()).expect("a handshake");
            let first = ask(&mut stream, &format!("{before}{ambiguous}"));
            let refused = if before.is_empty() { first } else { Response::parse(first.body.as_bytes()) };
            assert_eq!(refused.status, 400, "{before:?}, then {ambiguous:?}: {refused:?}");
        }
    }
}

#[test]
fn every_https_response_tells_browsers_to_stay_with_https() {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(create(&unstarted.store, "ok", "https://example.com/"));
    let made = certificate();
    let files = install(unstarted.folder.path(), &made);
    let server = unstarted.try_serve(|config| {
        config.tls = Some(files);
        config.hsts_seconds = 3600;
    });
    let server = server.expect("the server starts");
    // By the fast path, by hyper, from the control plane; a link, an error, a page.
    for request in [
        "/ok HTTP/1.1",
        "/ok HTTP/1.1\r\nContent-Length: 0",
        "/nobody HTTP/1.1",
        "/health HTTP/1.1",
        "/admin/login HTTP/1.1",
    ] {
        let mut stream = connect(server.address, made.cert.der()).expect("a handshake");
        let answer =
            ask(&mut stream, &format!("GET {request}\r\nHost: rmax.to\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.header("strict-transport-security"), ["max-age=3600"], "{request}: {answer:?}");
    }
}

#[test]
fn plain_http_on_the_https_port_gets_no_response() {
    let (server, _) = server();
    let answer = server.get("/ok");
    assert_eq!((answer.status, answer.header("location").len()), (0, 0), "{answer:?}");
}

#[test]
fn replaced_certificate_is_served_without_a_restart_and_a_broken_one_ignored() {
    let (server, first) = server();
    let folder = server.folder.path();
    let presents = |made: &CertifiedKey<KeyPair>| connect(server.address, made.cert.der()).is_ok();
    let mut old = connect(server.address, first.cert.der()).expect("a handshake");
    let second = certificate();
    install(folder, &second);
    wait_until("the second certificate is served", || presents(&second));
    assert!(!presents(&first));
    // A connection that was open goes on.
    let answer = ask(&mut old, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.status, 301);

    // The watcher looks every 2 s: for longer than that, a broken file must not make a difference.
    std::fs::write(folder.join("cert.pem"), "-----BEGIN CERTIFICATE-----\nnothing\n").expect("a file");
    let until = monotonic_ms() + 2_500;
    wait_until("the watcher has looked at the broken file", || {
        assert!(presents(&second), "a broken replacement leaves the old certificate in force");
        monotonic_ms() > until
    });
    let third = certificate();
    install(folder, &third);
    wait_until("the third certificate is served", || presents(&third));
}

/// Hostile inputs, S17.
#[test]
fn stalled_tls_handshakes_and_sessions_are_closed_while_others_are_served() {
    let (server, made) = server();
    let began = monotonic_ms();
    let stall = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(server.address).expect("the server accepts");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        socket.write_all(bytes).expect("a few bytes");
        socket
    };
    // Nothing at all, the first byte of a record, a record whose ClientHello never comes.
    let mut stalled: Vec<TcpStream> =
        [b"".as_slice(), b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
            .into_iter()
            .map(stall)
            .collect();
    let sessions = ["", "GET /ok HTTP/1.1\r\nHost: rmax.to\r\n\r\n", "GET /ok HTTP/1.1\r\nHo"]
        .map(|sent| connect_and_send(server.address, made.cert.der(), sent).expect("a handshake"));
    let mut stream = connect(server.address, made.cert.der()).expect("a handshake");
    let answer = ask(&mut stream, "GET /ok HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.status, 301);
    assert!(monotonic_ms() - began < 4_000, "others are served meanwhile");
    for socket in &mut stalled {
        let end = socket.read_to_end(&mut Vec::new());
        assert!(end.is_ok_and(|count| count < 64), "closed, with an alert at most");
    }
    for mut session in sessions {
        // It ends with or without a farewell.
        let end = session.read_to_end(&mut Vec::new());
        assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "never closed");
    }
    assert!((4_000..12_000).contains(&(monotonic_ms() - began)), "took {} ms", monotonic_ms() - began);
}

#[test]
fn unusable_tls_files_are_named_at_the_start() {
    #[track_caller]
    fn check(named: &str, spoil: impl FnOnce(&TlsFiles)) {
        let unstarted = UnstartedServer::new();
        let files = install(unstarted.folder.path(), &certificate());
        spoil(&files);
        let error =
            unstarted.try_serve(|config| config.tls = Some(files)).err().expect("a refusal").to_string();
        assert!(error.contains(named), "{named} is not named: {error}");
    }
    check("cert.pem", |files| std::fs::remove_file(&files.cert).expect("a file"));
    check("key.pem", |files| std::fs::remove_file(&files.key).expect("a file"));
    check("cert.pem", |files| std::fs::write(&files.cert, "").expect("a file"));
    check("cert.pem", |files| std::fs::write(&files.cert, [0xff; 4096]).expect("a file"));
    check("key.pem", |files| std::fs::write(&files.key, "not a key").expect("a file"));
    check("cert.pem", |files| {
        std::fs::copy(&files.key, &files.cert).expect("a file");
    });
    // Each fine, but not a pair.
    check("key.pem", |files| {
        std::fs::write(&files.key, certificate().signing_key.serialize_pem()).expect("a file");
    });
}
