//! `/links` and what is below it, `/check`, `/explain`.

use rlinks_core::{LinkState, Preset, Scope, Scopes, Timestamp};
use rlinks_ops::WriteMode;
use serde_json::{Value, json};

use crate::support::api_client::at_once;
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, owner, preset, with_server};
use crate::support::server::operator_in;

contract!(
    link_is_created_changed_deleted_and_restored,
    a_deleted_code_stays_taken_until_it_is_recreated,
    change_with_a_stale_if_match_is_412,
    fifty_creations_of_one_code_make_one_link,
    bulk_creation_reports_each_link_separately,
    deletion_and_disabling_win_against_concurrent_changes,
);

/// A change of state names no version, so another change at the same time is no reason to refuse it, whoever asks.
async fn deletion_and_disabling_win_against_concurrent_changes(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let operator = operator_in(&server.main);
        let change = |code: &str, state: LinkState| {
            let changed = server.ops.change_state(&operator, code, state, None, WriteMode::Apply);
            server.runtime.block_on(changed).map(|done| done.link.state)
        };
        for round in 0..10 {
            let code = format!("busy-{round}");
            member.post("/links", &json!({"code": code, "target": "https://example.com/"})).expect(201);
            std::thread::scope(|scope| {
                for writer in 0..3 {
                    let (member, code) = (&member, &code);
                    scope.spawn(move || {
                        for number in 0..10 {
                            let body = json!({"notes": format!("{writer} {number}")});
                            member.patch(&format!("/links/{code}"), &body);
                        }
                    });
                }
                for state in [LinkState::Disabled, LinkState::Active, LinkState::Deleted] {
                    assert_eq!(change(&code, state).unwrap(), state, "{code}");
                }
            });
            member.get(&format!("/links/{code}")).refused(404, "NOT_FOUND");
        }
    })
    .await;
}

/// The seconds of an RFC 3339 text.
fn time(value: &Value) -> Timestamp {
    Timestamp::parse(value.as_str().unwrap()).unwrap()
}

async fn link_is_created_changed_deleted_and_restored(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let made = member
            .post(
                "/links",
                &json!({
                    "code": "parity", "target": "HTTPS://Example.com/a?b=1#c", "redirect_status": 308,
                    "expires_at": 1_900_000_000, "title": "Parity", "notes": "two\nlines", "tags": ["b", "a", "b"],
                    "https_only": false, "no_loop": false, "metadata": {"z": [1, {"y": null}]},
                }),
            )
            .expect(201);
        assert_eq!(made.header("location"), Some("/api/v1/links/parity"));
        assert_eq!(made.header("etag"), Some("\"1\""));
        let link = made.json();
        let expected = json!({
            "workspace": "main", "domain": "rmax.to", "code": "parity", "short_url": "https://rmax.to/parity",
            "target": "https://example.com/a?b=1#c", "state": "active", "expired": false, "redirect_status": 308,
            "https_only": false, "no_loop": false, "expires_at": "2030-03-17T17:46:40Z", "title": "Parity",
            "notes": "two\nlines", "tags": ["a", "b"], "metadata": {"z": [1, {"y": null}]}, "source": "api",
            "created_by": owner(&member), "version": 1, "clicks": 0, "last_clicked_at": null,
            "reused": false, "revived": false, "not_applied": [],
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&link[name], value, "{name}");
        }
        assert!(link["id"].is_string(), "{link}");
        assert_eq!(time(&link["created_at"]), time(&link["updated_at"]));

        let shown = member.get("/links/parity").expect(200);
        assert_eq!(shown.header("etag"), Some("\"1\""));
        let mut same = link.clone();
        for name in ["reused", "revived", "not_applied"] {
            same.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(shown.json(), same);
        assert_eq!(server.visit("/parity").status, 308, "it is served before its answer leaves");
        assert_eq!(member.get("/links/PARITY").expect(200).json()["code"], "parity", "read with folded case");

        server.advance_ms(1000);
        let born = time(&link["created_at"]);
        let changed = member
            .patch("/links/parity", &json!({"target": "https://example.com/new", "title": null, "expires_at": null}))
            .expect(200);
        assert_eq!(changed.header("etag"), Some("\"2\""));
        let changed = changed.json();
        assert_eq!(
            (&changed["title"], &changed["expires_at"], &changed["notes"]),
            (&Value::Null, &Value::Null, &json!("two\nlines"))
        );
        assert_eq!(server.visit("/parity").location(), Some("https://example.com/new"));
        let unchanged = member.patch("/links/parity", &json!({"target": "https://example.com/new"})).expect(200);
        assert_eq!(unchanged.header("etag"), Some("\"2\""), "what changes nothing is no version");

        let off = member.patch("/links/parity", &json!({"state": "disabled"})).expect(200).json();
        assert_eq!(off["state"], "disabled");
        assert_eq!(server.visit("/parity").status, 404);
        server.advance_ms(1000);
        member.delete("/links/parity").expect(204);
        for path in ["/links/parity", "/links/parity/qr"] {
            member.get(path).refused(404, "NOT_FOUND");
        }
        member.patch("/links/parity", &json!({"title": "x"})).refused(404, "NOT_FOUND");
        member.delete("/links/parity").refused(404, "NOT_FOUND");
        let history = member.get("/links/parity/history").expect(200).json();
        let actions: Vec<_> = history["data"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
        assert_eq!(actions, ["link.delete", "link.disable", "link.update", "link.create"]);
        assert_eq!(history["data"][0]["actor"], format!("key:{}", member.key_id()));
        assert_eq!(history["data"][0]["before"]["state"], "disabled");

        let back = member.request("POST", "/links/parity/restore").send().expect(200).json();
        assert_eq!((&back["state"], &back["id"]), (&json!("disabled"), &link["id"]), "as it was");
        member.request("POST", "/links/parity/restore").send().expect(200);
        assert_eq!(member.patch("/links/parity", &json!({"state": "active"})).expect(200).json()["state"], "active");
        assert_eq!(server.visit("/parity").status, 308);

        let then = |at: &str| member.get(&format!("/links/parity?at={at}"));
        assert_eq!(then(&born.to_string()).expect(200).json()["target"], "https://example.com/a?b=1#c");
        assert_eq!(then(&born.plus_ms(1000).to_string()).expect(200).json()["target"], "https://example.com/new");
        then(&born.plus_ms(-1000).to_string()).refused(404, "NOT_FOUND");
        assert_eq!(then("yesterday").fields(), ["at: not_a_time"]);
        assert_eq!(then("1800000000123").fields(), ["at: milliseconds"]);
    })
    .await;
}

async fn a_deleted_code_stays_taken_until_it_is_recreated(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let body = json!({"code": "gone", "target": "https://example.com/1"});
        let first = member.post("/links", &body).expect(201).json();
        let taken = member.post("/links", &body).refused(409, "CODE_TAKEN");
        assert_eq!(taken, json!({"deleted": false}));
        member
            .post("/links", &json!({"code": "gone", "target": "https://example.com/", "recreate": true}))
            .refused(409, "CODE_TAKEN");
        member.delete("/links/gone").expect(204);
        assert_eq!(member.post("/links", &body).refused(409, "CODE_TAKEN"), json!({"deleted": true}));
        let check = member.get("/check/gone").expect(200).json();
        assert_eq!(check, json!({"available": false, "reason": "belongs to a deleted link"}));
        let anew = json!({"code": "gone", "target": "https://example.com/2", "recreate": true});
        let made = member.post("/links", &anew).expect(201).json();
        assert_ne!(made["id"], first["id"]);
        assert_eq!((&made["target"], &made["version"]), (&json!("https://example.com/2"), &json!(3)));
        assert_eq!(server.visit("/gone").location(), Some("https://example.com/2"));
        let history = member.get("/links/gone/history?limit=1").expect(200).json();
        assert_eq!(history["data"][0]["action"], "link.recreate");
    })
    .await;
}

async fn change_with_a_stale_if_match_is_412(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        member.post("/links", &json!({"code": "seen", "target": "https://example.com/"})).expect(201);
        let change = |tag: &str, title: &str| {
            let asked = member.request("PATCH", "/links/seen").json(&json!({"title": title}));
            asked.header("If-Match", tag).send()
        };
        change("\"1\"", "one").expect(200);
        for stale in
            ["\"1\"", "\"0\"", "\"3\"", "W/\"2\"", "2", "\"two\"", "\"\"", "\"9999999999999999999999\""]
        {
            change(stale, "never").refused(412, "PRECONDITION_FAILED");
        }
        change("*", "any").expect(200);
        change("\"7\", \"3\"", "one of them").expect(200);
        member
            .request("DELETE", "/links/seen")
            .header("If-Match", "\"3\"")
            .send()
            .refused(412, "PRECONDITION_FAILED");

        // Of many who saw the same, one is first.
        let replies = at_once(20, |number| change("\"4\"", &format!("writer {number}")));
        let done = replies.iter().filter(|reply| reply.status() == 200).count();
        let late = replies.iter().filter(|reply| reply.status() == 412).count();
        assert_eq!((done, late), (1, 19), "{replies:?}");
        // Who names no version is never too late.
        let replies =
            at_once(10, |number| member.patch("/links/seen", &json!({"notes": format!("n{number}")})));
        assert!(replies.iter().all(|reply| reply.status() == 200), "{replies:?}");
        member.request("DELETE", "/links/seen").header("If-Match", "\"15\"").send().expect(204);
    })
    .await;
}

async fn fifty_creations_of_one_code_make_one_link(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let root = server.root();
        let replies = at_once(50, |number| {
            root.post("/links", &json!({"code": "one", "target": format!("https://example.com/{number}")}))
        });
        let count = |status| replies.iter().filter(|reply| reply.status() == status).count();
        assert_eq!((count(201), count(409)), (1, 49), "{replies:?}");
        for refused in replies.iter().filter(|reply| reply.status() == 409) {
            refused.refused(409, "CODE_TAKEN");
        }
        assert_eq!(server.actions().iter().filter(|action| *action == "link.create").count(), 1);
    })
    .await;
}

async fn bulk_creation_reports_each_link_separately(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let bulk = |links: Value| member.post("/links/bulk", &json!({"links": links}));
        let results = bulk(json!([
            {"code": "first", "target": "https://example.com/1", "title": "One"},
            {"code": "first", "target": "https://example.com/2"},
            {"code": "Upper", "target": "https://example.com/"},
            {"target": "ftp://example.com/"},
            "no link",
            {"target": "https://example.com/generated"},
            {"target": "https://example.com/", "workspace": "other", "owner": "me"},
        ]))
        .expect(200)
        .json();
        let results = results["results"].as_array().unwrap();
        let statuses: Vec<_> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [201, 409, 400, 400, 400, 201, 400]);
        assert!(results.iter().enumerate().all(|(at, result)| result["index"] == at));
        assert_eq!(results[0]["link"]["title"], "One");
        assert_eq!(results[1]["error"]["code"], "CODE_TAKEN");
        assert_eq!(results[3]["error"]["details"]["fields"][0]["code"], "scheme");
        assert!(results[0].get("error").is_none() && results[1].get("link").is_none());

        let many: Vec<_> = (0..1000).map(|n| json!({"target": format!("https://example.com/{n}")})).collect();
        let made = bulk(json!(many)).expect(200).json();
        assert!(made["results"].as_array().unwrap().iter().all(|result| result["status"] == 201));
        assert_eq!(member.get("/links?limit=1").expect(200).json()["total"], 1002);
        let too_many: Vec<_> = (0..1001).map(|_| json!({"target": "https://example.com/"})).collect();
        assert_eq!(bulk(json!(too_many)).fields(), ["links: too_long"]);
        assert_eq!(bulk(json!({})).fields(), ["links: bad_characters"]);
        assert_eq!(bulk(json!([])).expect(200).json(), json!({"results": []}));
        assert_eq!(member.post("/links/bulk", &json!({})).fields(), ["links: required"]);
        assert_eq!(
            member.post("/links/bulk", &json!({"links": [], "dry_run": true})).fields(),
            ["dry_run: unknown_field"]
        );
    })
    .await;
}

#[test]
fn every_invalid_field_is_reported_and_nothing_is_created() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let refused = |body: Value, fields: &[&str]| {
        let mut found = member.post("/links", &body).fields();
        found.sort();
        assert_eq!(found, fields, "{body}");
    };
    refused(json!({}), &["target: required"]);
    refused(json!({"target": null}), &["target: bad_characters"]);
    refused(json!({"target": ""}), &["target: required"]);
    refused(json!({"target": "example.com"}), &["target: not_absolute"]);
    refused(json!({"target": "javascript:alert(1)"}), &["target: scheme"]);
    refused(json!({"target": "http://example.com/"}), &["target: https_required"]);
    refused(json!({"target": "https://a@example.com/"}), &["target: userinfo"]);
    refused(json!({"target": "https://rmax.to/x"}), &["target: loop"]);
    refused(json!({"target": format!("https://example.com/{}", "x".repeat(2048))}), &["target: too_long"]);
    let good = |name: &str, value: Value| {
        let mut body = json!({"target": "https://example.com/"});
        body[name] = value;
        body
    };
    refused(good("code", json!("Parity")), &["code: bad_characters"]);
    refused(good("code", json!("admin")), &["code: reserved"]);
    refused(good("code", json!("")), &["code: required"]);
    refused(good("code", json!("x".repeat(65))), &["code: too_long"]);
    refused(good("code", json!(7)), &["code: bad_characters"]);
    refused(good("redirect_status", json!(303)), &["redirect_status: bad_status"]);
    refused(good("redirect_status", json!(301.5)), &["redirect_status: bad_status"]);
    refused(good("expires_at", json!("2020-01-01")), &["expires_at: past"]);
    refused(good("expires_at", json!("soon")), &["expires_at: not_a_time"]);
    refused(good("expires_at", json!(1_900_000_000_000_i64)), &["expires_at: milliseconds"]);
    refused(good("expires_at", json!(1_900_000_000.5)), &["expires_at: not_a_time"]);
    refused(good("expires_at", json!([])), &["expires_at: not_a_time"]);
    refused(good("title", json!("x".repeat(501))), &["title: too_long"]);
    refused(good("title", json!("two\nlines")), &["title: control_character"]);
    refused(good("notes", json!("x".repeat(10_001))), &["notes: too_long"]);
    refused(good("tags", json!(["a,b"])), &["tags: bad_characters"]);
    refused(good("tags", json!(["x".repeat(65)])), &["tags: too_long"]);
    refused(good("tags", json!("a")), &["tags: bad_characters"]);
    let tags: Vec<_> = (0..51).map(|n| format!("t{n}")).collect();
    refused(good("tags", json!(tags)), &["tags: too_long"]);
    refused(good("metadata", json!({"x": "y".repeat(16 * 1024)})), &["metadata: too_long"]);
    refused(good("metadata", json!([])), &["metadata: bad_characters"]);
    refused(good("https_only", json!("yes")), &["https_only: bad_characters"]);
    refused(good("state", json!("disabled")), &["state: immutable"]);
    refused(good("state", json!("deleted")), &["state: bad_characters"]);
    refused(good("__proto__", json!({})), &["__proto__: unknown_field"]);
    // Whatever the server sets is nobody's to send.
    for name in ["id", "workspace", "created_by", "created_at", "updated_at", "version", "source", "clicks"] {
        refused(good(name, json!("1")), &[&format!("{name}: immutable")]);
    }
    for name in [
        "role",
        "workspace_id",
        "click_count",
        "hits",
        "is_verified",
        "status",
        "short_url",
        "domain",
        "expired",
    ] {
        refused(good(name, json!("1")), &[&format!("{name}: unknown_field")]);
    }
    refused(
        json!({"target": "nowhere", "code": "UP", "redirect_status": 1, "what": 1}),
        &["what: unknown_field"],
    );
    assert_eq!(member.get("/links").expect(200).json()["total"], 0);

    member.post("/links", &json!({"code": "kept", "target": "https://example.com/"})).expect(201);
    for (name, code) in
        [("code", "immutable"), ("id", "immutable"), ("recreate", "unknown_field"), ("x", "unknown_field")]
    {
        let value = if name == "recreate" { json!(true) } else { json!("x") };
        let reply = member.patch("/links/kept", &json!({name: value}));
        assert_eq!(reply.fields(), [format!("{name}: {code}")]);
    }
    assert_eq!(member.patch("/links/kept", &json!({"state": "deleted"})).fields(), ["state: bad_characters"]);
    assert_eq!(member.get("/links/kept").expect(200).header("etag"), Some("\"1\""));
}

#[test]
fn ambiguous_json_bodies_are_rejected() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let send = |kind: &str, body: &[u8]| member.request("POST", "/links").body(kind, body.to_vec()).send();
    for body in [
        r#"{"target":"https://a.example/","target":"https://b.example/"}"#,
        r#"{"target":"https://a.example/","metadata":{"a":1,"a":2}}"#,
        r#"{"target":"https://a.example/"} {}"#,
        r#"{"target":"https://a.example/\u0000"}"#,
        r#"{"target":"https://a.example/",}"#,
        "",
        "null",
        "[]",
        "{",
        "\u{feff}{}",
    ] {
        send("application/json", body.as_bytes()).refused(400, "BAD_REQUEST");
    }
    send("application/json", b"{\"target\":\"https://a.example/\xff\"}").refused(400, "BAD_REQUEST");
    send("application/json", &vec![b'['; 100_000]).refused(400, "BAD_REQUEST");
    let good = br#"{"target":"https://a.example/"}"#;
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonp", "", "+json"]
    {
        send(kind, good).refused(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    member.request("POST", "/links").send().refused(415, "UNSUPPORTED_MEDIA_TYPE");
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"] {
        send(kind, good).expect(201);
    }
    let padded = |bytes: usize| {
        let text = r#"{"target":"https://a.example/"}"#;
        format!("{text}{}", " ".repeat(bytes - text.len())).into_bytes()
    };
    send("application/json", &padded(1 << 20)).expect(201);
    send("application/json", &padded((1 << 20) + 1)).refused(413, "PAYLOAD_TOO_LARGE");
    let bulk = |bytes| member.request("POST", "/links/bulk").body("application/json", padded(bytes)).send();
    bulk(2 << 20).refused(400, "VALIDATION_FAILED");
    bulk((16 << 20) + 1).refused(413, "PAYLOAD_TOO_LARGE");
    // The same without a length.
    let mut chunked = b"POST /api/v1/links HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n".to_vec();
    chunked.extend_from_slice(format!("Authorization: Bearer {}\r\n\r\n", member.secret()).as_bytes());
    for _ in 0..33 {
        chunked.extend_from_slice(b"8000\r\n");
        chunked.extend_from_slice(&vec![b' '; 0x8000]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer = crate::support::raw_client::send_request(server.address, &chunked);
    assert_eq!(answer.status, 413, "{answer:?}");
}

/// A misspelt parameter does nothing quietly.
#[test]
fn unknown_query_parameters_are_errors_everywhere() {
    let server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    admin.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
    let target = json!({"target": "https://example.com/"});
    let asks = [
        admin.request("GET", "/links?limt=1"),
        admin.request("GET", "/links/here?att=1"),
        admin.request("GET", "/links/here/stats?form=1"),
        admin.request("GET", "/links/here/clicks?x"),
        admin.request("GET", "/links/here/history?x"),
        admin.request("GET", "/links/here/qr?x"),
        admin.request("GET", "/check/here?x"),
        admin.request("GET", "/explain?url=here&x"),
        admin.request("GET", "/stats?x"),
        admin.request("GET", "/stats/live?x"),
        admin.request("GET", "/keys?x"),
        admin.request("GET", "/users?x"),
        admin.request("GET", "/me?x"),
        admin.request("GET", "/workspace?x"),
        admin.request("GET", "/domains?x"),
        admin.request("GET", "/audit?x"),
        admin.request("POST", "/links?dry_run=true").json(&target),
        admin.request("POST", "/links/bulk?dry_run=true").json(&json!({"links": []})),
        admin.request("PATCH", "/links/here?dry_run=true").json(&json!({"title": "x"})),
        admin.request("DELETE", "/links/here?dry_run=true"),
        admin.request("POST", "/links/here/restore?dry_run=true"),
        admin.request("DELETE", "/me?dry_run=true"),
    ];
    for asked in asks {
        let reply = asked.send();
        assert!(reply.fields()[0].ends_with(": unknown_field"), "{reply:?}");
    }
    let twice = admin.get("/links?limit=1&limit=2");
    assert_eq!(twice.fields(), ["limit: bad_characters"]);
    let many = (0..70).map(|n| format!("x{n}=1")).collect::<Vec<_>>().join("&");
    admin.get(&format!("/links?{many}")).refused(400, "BAD_REQUEST");
    admin.get("/links/here").expect(200);
}

#[test]
fn malformed_codes_are_never_a_server_error() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    for code in [
        "%FF",
        "%00",
        "a%00b",
        "%E2%80%AE",
        "..%2f..%2fetc",
        "%2e%2e",
        "a%20b",
        "x%0d%0aSet-Cookie:a",
        &"x".repeat(1500),
        "%f0%9f%98%80",
        "'--",
        "*",
    ] {
        for path in [
            format!("/links/{code}"),
            format!("/links/{code}/history"),
            format!("/links/{code}/stats"),
            format!("/keys/{code}"),
            format!("/users/{code}"),
            format!("/domains/{code}"),
        ] {
            let method = if path.starts_with("/links") { "GET" } else { "DELETE" };
            let reply = root.request(method, &path).send();
            assert!([400, 404].contains(&reply.status()), "{reply:?}");
        }
        let check = root.get(&format!("/check/{code}"));
        assert!([200, 404].contains(&check.status()), "{check:?}");
        assert_ne!(check.json()["available"], true, "{check:?}");
    }
    for id in ["0", "-1", "9223372036854775807", "9223372036854775808", "1e3", "+1"] {
        root.delete(&format!("/keys/{id}")).refused(404, "NOT_FOUND");
        root.delete(&format!("/users/{id}")).refused(404, "NOT_FOUND");
    }
}

#[test]
fn check_reports_whether_a_code_is_available() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    member.post("/links", &json!({"code": "taken", "target": "https://example.com/"})).expect(201);
    let check = |code: &str| member.get(&format!("/check/{code}")).expect(200).json();
    assert_eq!(check("free"), json!({"available": true, "reason": null}));
    assert_eq!(check("taken"), json!({"available": false, "reason": "is taken"}));
    for refused in ["admin", "API", "Upper", "no_line"] {
        let answer = check(refused);
        assert!(answer["available"] == false && answer["reason"].is_string(), "{refused}: {answer}");
    }
}

#[test]
fn explain_reports_the_redirect_and_counts_no_click() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    member.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
    let explain = |query: &str| member.get(&format!("/explain?{query}"));
    for url in ["here", "/here", "rmax.to/here", "https://rmax.to/here", "HERE"] {
        let told = explain(&format!("url={url}")).expect(200).json();
        assert_eq!(
            (&told["status"], &told["location"]),
            (&json!(301), &json!("https://example.com/")),
            "{url}"
        );
        assert!(told["steps"].as_array().unwrap().len() > 2 && told["error"].is_null(), "{told}");
    }
    assert_eq!(explain("url=nothing").expect(200).json()["error"], "NOT_FOUND");
    assert_eq!(explain("url=https://elsewhere.example/here").expect(200).json()["status"], 404);
    assert_eq!(explain("url=here&at=2020-01-01").expect(200).json()["status"], 404, "it was not there yet");
    assert_eq!(explain("").fields(), ["url: required"]);
    assert_eq!(explain("url=").fields(), ["url: required"]);
    assert_eq!(explain("url=here&at=never").fields(), ["at: not_a_time"]);
    for strange in ["%00", "%FF", "http://", "//", "https://[::1", "%20", "a%20b", "%7F"] {
        let reply = explain(&format!("url={strange}"));
        assert!([200, 400].contains(&reply.status()), "{reply:?}");
    }
}

#[test]
fn qr_code_is_svg_or_png() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    member.post("/links", &json!({"code": "drawn", "target": "https://example.com/"})).expect(201);
    let svg = member.get("/links/drawn/qr").expect(200);
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.answer.body.contains("<svg") && !svg.answer.body.contains("<script"), "{svg:?}");
    for asked in [
        member.request("GET", "/links/drawn/qr?format=png"),
        member.request("GET", "/links/drawn/qr").header("Accept", "image/png"),
        member.request("GET", "/links/drawn/qr?size=64&margin=0&format=png"),
    ] {
        let png = asked.send().expect(200);
        assert_eq!(png.header("content-type"), Some("image/png"));
        assert!(png.answer.body.contains("PNG"));
    }
    assert_eq!(member.get("/links/drawn/qr?format=gif").fields(), ["format: bad_characters"]);
    assert_eq!(member.get("/links/drawn/qr?size=63").fields(), ["size: too_short"]);
    assert_eq!(member.get("/links/drawn/qr?size=99999").fields(), ["size: too_long"]);
    assert_eq!(member.get("/links/drawn/qr?margin=-1").fields(), ["margin: too_short"]);
    member.get("/links/nothing/qr").refused(404, "NOT_FOUND");
}

/// Where the rest fails is a matter of scope, before anything about the object is said.
#[test]
fn missing_scope_is_403_before_a_missing_object_is_404() {
    let server = TestServer::new(Preset::Fabric);
    let none = server.key(&server.main, None, Scopes::new(&[Scope::LinksDelete]));
    none.get("/links/nothing").refused(403, "FORBIDDEN");
    none.get("/links?sort=nonsense").refused(403, "FORBIDDEN");
    none.post("/links", &json!({"what": 1})).refused(403, "FORBIDDEN");
    none.delete("/links/nothing").refused(404, "NOT_FOUND");
    none.get("/stats/live").refused(403, "FORBIDDEN");
    none.get("/audit").refused(403, "FORBIDDEN");
}
