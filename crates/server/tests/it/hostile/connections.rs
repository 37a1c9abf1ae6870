//! How many connections there may be, and what they may be busy with.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rlinks_server::ConnectionSettings;

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::server::{RunningServer, UnstartedServer, create};

/// A form of which the server waits for the rest.
const UNFINISHED_FORM: &str = "POST /admin/login HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\n\
     Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nemail=";

fn server_with(connections: ConnectionSettings) -> RunningServer {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(create(&unstarted.store, "ok", "https://example.com/"));
    unstarted.serve(|config| config.connections = connections)
}

/// A connection from another address of this machine.
fn connect_from(address: Ipv4Addr, server: SocketAddr) -> RawConnection {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((address, 0)).into()).expect("loopback is all of 127.0.0.0/8");
    socket.connect(&server.into()).expect("the server accepts");
    RawConnection::from_socket(TcpStream::from(socket))
}

fn is_served(mut connection: RawConnection) -> bool {
    connection.send(get("/ok"));
    connection.next_response().is_some_and(|response| response.status == 301)
}

#[test]
fn pages_and_api_cannot_starve_redirects() {
    let server = server_with(ConnectionSettings {
        max: Some(32),
        per_address: Some(32),
        reserved_for_redirects: Some(24),
    });
    let mut waiting: Vec<RawConnection> = (0..8).map(|_| RawConnection::new(server.address)).collect();
    for connection in &mut waiting {
        connection.send(UNFINISHED_FORM);
    }
    wait_until("all slots of pages are taken", || server.get("/admin/login").status == 503);
    for path in ["/admin/login", "/api/openapi.json", "/metrics"] {
        let refused = server.get(path);
        assert_eq!((refused.status, refused.header("connection")), (503, vec!["close"]), "{path}");
    }
    assert_eq!((server.get("/ok").status, server.get("/health").status), (301, 200));
    drop(waiting);
    wait_until("pages are served again", || server.get("/admin/login").status != 503);
}

#[test]
fn connections_kept_open_between_pages_leave_room_for_redirects() {
    let server = server_with(ConnectionSettings {
        max: Some(16),
        per_address: Some(16),
        reserved_for_redirects: Some(8),
    });
    let mut kept: Vec<RawConnection> = Vec::new();
    for _ in 0..16 {
        let mut connection = RawConnection::new(server.address);
        connection.send(get("/api/openapi.json"));
        let response = connection.next_response().expect("a response");
        assert_eq!(response.status, 200);
        if response.header("connection") != ["close"] {
            kept.push(connection);
        }
    }
    assert!(!kept.is_empty() && kept.len() <= 8, "{} are kept", kept.len());
    assert_eq!(server.get("/ok").status, 301);
}

#[test]
fn one_address_cannot_hold_every_connection() {
    let server = server_with(ConnectionSettings { max: Some(32), ..ConnectionSettings::default() });
    let (greedy, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let held: Vec<RawConnection> = (0..4).map(|_| connect_from(greedy, server.address)).collect();
    // The kernel accepts more before the server closes them.
    wait_until("an eighth is all it gets", || !is_served(connect_from(greedy, server.address)));
    assert!(is_served(connect_from(other, server.address)));
    drop(held);
    wait_until("it is served again", || is_served(connect_from(greedy, server.address)));
}

#[test]
fn trusted_proxy_may_hold_every_connection() {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(create(&unstarted.store, "ok", "https://example.com/"));
    let server = unstarted.serve(|config| {
        config.connections = ConnectionSettings { max: Some(32), ..ConnectionSettings::default() };
        config.reloadable.trusted_proxies = vec!["127.0.0.2/32".parse().unwrap()];
    });
    let proxy = Ipv4Addr::new(127, 0, 0, 2);
    let mut held: Vec<RawConnection> = (0..16).map(|_| connect_from(proxy, server.address)).collect();
    for connection in &mut held {
        connection.send(get("/ok"));
        assert_eq!(connection.next_response().map(|response| response.status), Some(301));
    }
}
