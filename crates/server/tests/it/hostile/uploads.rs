//! Uploads that never end, and how much of them is held.

use rlinks_core::{Policy, Preset, Role};
use serde_json::json;

use crate::support::api_client::{ApiClient, import_links};
use crate::support::browser::signed_in;
use crate::support::members::{ApiUser, TestServer, member};
use crate::support::raw_client::{RawConnection, send_request, wait_until};

/// The longest file there may be, less a byte.
const LENGTH: u64 = 16 * 1024 * 1024 - 1;

/// A file that is not small, of one link.
fn file() -> String {
    let link = json!({"code": "shared", "target": "https://example.com/"}).to_string();
    format!("{link}\n{}", "\n".repeat(100 * 1024))
}

/// An upload of which the last byte, and all others but one, never come.
fn unfinished_upload(client: &ApiClient, path: &str, kind: &str) -> RawConnection {
    let mut connection = RawConnection::new(client.address);
    connection.send(format!(
        "POST /api/v1/{path} HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\n\
         Content-Length: {LENGTH}\r\n\r\n{{",
        client.key.as_deref().unwrap_or("none"),
    ));
    connection
}

/// What the server says it holds.
fn held_bytes(root: &ApiUser) -> u64 {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        root.secret()
    );
    let metrics = send_request(root.address, request.as_bytes());
    let line = metrics.body.lines().find_map(|line| line.strip_prefix("rlinks_request_body_bytes "));
    line.expect("a number of bytes").parse().expect("a number")
}

/// Holds `LENGTH` more than before.
fn hold(connections: &mut Vec<RawConnection>, root: &ApiUser, client: &ApiClient, path: &str, kind: &str) {
    let mut connection = unfinished_upload(client, path, kind);
    let expected = (connections.len() as u64 + 1) * LENGTH;
    wait_until("the upload is counted", || held_bytes(root) == expected);
    // A body of which more has come may take longer.
    connection.send(vec![b' '; 2 << 20]);
    connections.push(connection);
}

#[test]
fn unfinished_uploads_hold_no_more_than_their_share_and_others_go_on() {
    const NDJSON: &str = "application/x-ndjson";
    const JSON: &str = "application/json";
    let server = TestServer::new(Preset::Fabric);
    let other = server.workspace("other", Policy::preset(Preset::Fabric), &["other.example"]);
    let third = server.workspace("third", Policy::preset(Preset::Fabric), &["third.example"]);
    let (root, greedy) = (server.root(), server.member());
    let mut held = Vec::new();
    hold(&mut held, &root, &greedy, "import", NDJSON);
    for path in [("import", NDJSON), ("links/bulk", JSON)].into_iter().cycle().take(23) {
        let refused = unfinished_upload(&greedy, path.0, path.1).remaining_responses();
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!((refused[0].status, refused[0].header("retry-after")), (429, vec!["10"]), "{refused:?}");
    }
    assert_eq!(held_bytes(&root), LENGTH, "what was refused holds nothing");
    let neighbour = server.member();
    import_links(&neighbour, "", NDJSON, file()).expect(200);

    // A workspace has half of it.
    hold(&mut held, &root, &neighbour, "links/bulk", JSON);
    hold(&mut held, &root, &server.member(), "import", NDJSON);
    assert_eq!(import_links(&server.member(), "", NDJSON, file()).answer.status, 429);
    let stranger = server.person(&other, Role::Member);
    import_links(&stranger, "", NDJSON, file()).expect(200);
    // When everything is held, the server is busy for all.
    for _ in 0..3 {
        hold(&mut held, &root, &server.person(&other, Role::Member), "import", NDJSON);
    }
    let late = server.person(&third, Role::Member);
    let busy = import_links(&late, "", NDJSON, file());
    assert_eq!((busy.answer.status, busy.header("retry-after")), (503, Some("10")), "{busy:?}");

    // Small bodies and redirects go on, and so does everything once the uploads have ended.
    greedy.post("/links", &json!({"code": "ok", "target": "https://example.com/"})).expect(201);
    assert_eq!(server.visit("/ok").status, 301);
    drop(held);
    wait_until("nothing is held", || held_bytes(&root) == 0);
    import_links(&late, "", NDJSON, file()).expect(200);
    import_links(&greedy, "", NDJSON, file()).expect(200);
}

#[test]
fn keys_and_session_of_a_member_share_what_they_may_upload() {
    let server = TestServer::new(Preset::Fabric);
    let user = member(&server, &server.main, Role::Member, "bob@example.com");
    let (root, key) = (server.root(), server.key(&server.main, Some(&user), Role::Member.scopes()));
    let mut browser = signed_in(server.address, "bob@example.com");
    let csrf = browser.token("/admin/import");
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--b\r\nContent-Disposition: \
         form-data; name=\"text\"\r\n\r\n{}\r\n--b--\r\n",
        file().repeat(100),
    );
    let upload = || {
        let mut browser = browser.clone().with("Origin", &format!("http://{}", browser.host));
        browser = browser.with("Content-Type", "multipart/form-data; boundary=b");
        browser.send("POST", "/admin/import", Some(&form))
    };
    assert_eq!(upload().status, 200);
    wait_until("the page was sent", || held_bytes(&root) == 0);
    let mut held = Vec::new();
    hold(&mut held, &root, &key, "import", "text/csv");
    let refused = upload();
    assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["10"]), "{refused:?}");
    drop(held);
    wait_until("nothing is held", || held_bytes(&root) == 0);
    assert_eq!(upload().status, 200);
}

#[test]
fn nothing_is_held_of_bodies_from_strangers() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    let refused = unfinished_upload(&server.anonymous(), "import", "text/csv").remaining_responses();
    assert_eq!(refused.iter().map(|answer| answer.status).collect::<Vec<_>>(), [401]);
    let mut connections: Vec<RawConnection> = Vec::new();
    for (path, kind, expected) in [
        ("/admin/import", "multipart/form-data; boundary=b", 303),
        ("/admin/login", "application/x-www-form-urlencoded", 413),
    ] {
        let mut connection = RawConnection::new(server.address);
        connection.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {LENGTH}\r\n\r\na"
        ));
        assert_eq!(connection.next_response().map(|answer| answer.status), Some(expected), "{path}");
        connections.push(connection);
    }
    assert_eq!(held_bytes(&root), 0);
}
