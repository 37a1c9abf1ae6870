//! `/metrics`: what it counts, and who may see it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rlinks_core::{Policy, Preset, Scope, Scopes};
use serde_json::json;

use crate::support::database::TestStore;
use crate::support::members::{TestServer, preset};
use crate::support::raw_client::{Response, send_request, wait_until};

fn scrape(address: SocketAddr, lines: &str) -> Response {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n{lines}\r\n");
    send_request(address, request.as_bytes())
}

/// What is said of each series.
fn series(page: &str) -> BTreeMap<&str, f64> {
    let sample =
        |line: &'_ str| line.rsplit_once(' ').map(|(name, value)| (name.len(), value.parse().unwrap()));
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = sample(line).unwrap();
            (&line[..name], value)
        })
        .collect()
}

/// A server that shows this machine its metrics.
fn open_server() -> TestServer {
    TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.reloadable.metrics_loopback = true;
    })
}

fn house_with_a_link() -> TestServer {
    let server = open_server();
    server.root().post("/links", &json!({"code": "go", "target": "https://example.com/"})).expect(201);
    wait_until("the link is served", || server.visit("/go+").status == 200);
    server
}

#[test]
fn responses_and_clicks_are_counted() {
    let server = house_with_a_link();
    let before = scrape(server.address, "").body;
    let before = series(&before);
    for _ in 0..3 {
        assert_eq!(server.visit("/go").status, 301);
    }
    // The same by the other way, for a body is nothing plain; and one that is no click.
    assert_eq!(server.visit_with("/go", "Content-Length: 0\r\n").status, 301);
    assert_eq!(
        send_request(server.address, b"HEAD /go HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n")
            .status,
        301
    );
    assert_eq!(server.visit("/nobody-has-this").status, 404);
    assert_eq!(server.visit("/health").status, 200);
    let gained = |page: &str, name: &str| {
        let now = series(page).get(name).copied().unwrap_or_default();
        now - before.get(name).copied().unwrap_or_default()
    };
    let mut page = String::new();
    wait_until("the clicks are stored", || {
        page = scrape(server.address, "").body;
        gained(&page, "rlinks_clicks_stored_total") >= 4.0
    });
    for (name, expected) in [
        (r#"rlinks_http_responses_total{kind="link",status="301"}"#, 5.0),
        (r#"rlinks_http_responses_total{kind="link",status="404"}"#, 1.0),
        ("rlinks_clicks_recorded_total", 4.0),
        ("rlinks_clicks_stored_total", 4.0),
        ("rlinks_clicks_dropped_total", 0.0),
        ("rlinks_config_reload_failures_total", 0.0),
    ] {
        assert!(
            (gained(&page, name) - expected).abs() < 0.5,
            "{name} gained {}\n{page}",
            gained(&page, name)
        );
    }
    // Health, and at least the page we compare with.
    assert!(gained(&page, r#"rlinks_http_responses_total{kind="control",status="200"}"#) >= 2.0, "{page}");
    let now = series(&page);
    for (name, expected) in [
        (r#"rlinks_component_up{component="store"}"#, 1.0),
        (r#"rlinks_component_up{component="clicks"}"#, 1.0),
        ("rlinks_route_table_links", 1.0),
        ("rlinks_route_table_complete", 1.0),
        ("rlinks_draining", 0.0),
    ] {
        assert!((now[name] - expected).abs() < 0.5, "{name}\n{page}");
    }
    for name in
        ["rlinks_open_connections", "process_resident_memory_bytes", "process_open_fds", "process_threads"]
    {
        assert!(now[name] >= 1.0, "{name}\n{page}");
    }
}

#[test]
fn visitor_input_adds_no_metric() {
    let server = house_with_a_link();
    server.visit("/unknown");
    let lines = |page: &Response| page.body.lines().count();
    scrape(server.address, "");
    let before = lines(&scrape(server.address, ""));
    for number in 0..50 {
        server.visit_with(
            &format!("/unknown-{number}?utm_source={number}"),
            &format!("User-Agent: u{number}\r\n"),
        );
    }
    let page = scrape(server.address, "");
    assert_eq!(lines(&page), before, "{}", page.body);
    assert!(!page.body.contains("unknown"), "{}", page.body);
}

#[test]
fn metrics_on_a_shared_listener_are_for_admins_unless_this_machine_is_trusted() {
    // A proxy on this machine may add no header that says so.
    let closed = TestServer::new(Preset::Fabric);
    assert_eq!(scrape(closed.address, "").status, 401);
    let root = closed.root();
    assert_eq!(scrape(closed.address, &format!("Authorization: Bearer {}\r\n", root.secret())).status, 200);
    let server = open_server();
    let page = scrape(server.address, "");
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.header("content-type"), ["text/plain; version=0.0.4; charset=utf-8"]);
    assert_eq!(page.header("cache-control"), ["no-store"]);
    let (root, member, reader) = (server.root(), server.member(), server.reader());
    let admins = server.key(&server.main, None, Scopes::new(&[Scope::WorkspaceAdmin]));
    for said in [
        "X-Forwarded-For: 203.0.113.9",
        "Forwarded: for=203.0.113.9",
        "X-Real-IP: ::1",
        "Via: 1.1 proxy",
        "X-Forwarded-Proto: https",
    ] {
        let with = |key: &str| scrape(server.address, &format!("{said}\r\n{key}")).status;
        let bearer = |key: &str| with(&format!("Authorization: Bearer {key}\r\n"));
        assert_eq!(with(""), 401, "{said}: somebody else is asking");
        assert_eq!(bearer("rmx_nobody"), 401);
        assert_eq!(bearer(reader.secret()), 403);
        assert_eq!(bearer(member.secret()), 403, "a member's role allows less than the key");
        assert_eq!(bearer(root.secret()), 200);
        assert_eq!(bearer(admins.secret()), 200);
    }
    let posted = send_request(
        server.address,
        b"POST /metrics HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(posted.status, 405);
    assert_eq!(server.visit("/metrics/more").status, 404);
}

#[test]
fn metrics_on_a_separate_listener_need_no_key_and_the_public_one_has_none() {
    let apart =
        |config: &mut rlinks_server::Config| config.control_listen = Some("127.0.0.1:0".parse().unwrap());
    let server = TestServer::at(TestStore::sqlite(), Policy::preset(Preset::Fabric), apart);
    let admin = format!("Authorization: Bearer {}\r\n", server.root().secret());
    assert_eq!(scrape(server.control.unwrap(), "X-Forwarded-For: 203.0.113.9\r\n").status, 200);
    assert_eq!(scrape(server.address, "").status, 404);
    assert_eq!(scrape(server.address, &admin).status, 404);
}

/// The tool of those who read it: every name and help text as they should be.
#[test]
fn outside_promtool_accepts_the_metrics() {
    let server = house_with_a_link();
    server.visit("/go");
    server.visit("/nobody-has-this");
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: scripts/stage/00-fetch installs it");
    check.stdin.take().unwrap().write_all(scrape(server.address, "").body.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.is_empty(), "{}: {said}", checked.status);
}
