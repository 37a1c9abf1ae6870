//! `/keys`: what a key may do, how long, and what is kept of it.

use rlinks_core::access::api_key::ApiKeySecret;
use rlinks_core::{Preset, Role, Scope, Scopes};
use rlinks_ops::api_keys::OnCreated;
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse};
use crate::support::database::{TestStore, contract};
use crate::support::files::files_with;
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;
use crate::support::server::operator_in;

contract!(
    key_is_shown_once_and_stops_working_when_revoked,
    key_revoked_by_another_process_is_refused_soon,
    rotated_key_works_for_another_day,
    suspended_member_is_locked_out_at_once,
    key_use_is_counted_within_seconds,
);

fn with(server: &TestServer, made: &Value) -> ApiClient {
    ApiClient { address: server.address, key: Some(made["key"].as_str().unwrap().to_owned()) }
}

async fn key_is_shown_once_and_stops_working_when_revoked(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let body = json!({"name": "Deploys", "scopes": ["links:read", "links:write"], "expires_at": "2099-01-01"});
        let made = member.post("/keys", &body).expect(201).json();
        let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
        assert!(ApiKeySecret::parse(key).is_some_and(|secret| secret.prefix() == made["prefix"]), "{made}");
        let expected = json!({
            "name": "Deploys", "scopes": ["links:read", "links:write"], "user": member.user_id(), "status": "active",
            "expires_at": "2099-01-01T00:00:00Z", "last_used_at": null, "usage_count": 0,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&made[name], value, "{name}");
        }
        let caller = with(&server, &made);
        let me = caller.get("/me").expect(200).json();
        assert_eq!((&me["key"], &me["scopes"]), (&made["id"], &made["scopes"]));
        assert_eq!(me["user"]["id"], member.user_id());
        caller.post("/links", &json!({"target": "https://example.com/"})).expect(201);
        caller.get("/stats").refused(403, "FORBIDDEN");

        let list = member.get("/keys").expect(200);
        let keys = list.json();
        assert_eq!(keys["data"].as_array().unwrap().len(), 2, "their own: {keys}");
        assert!(!list.answer.body.contains(key) && keys["data"][0].get("key").is_none(), "{keys}");
        assert!(keys["data"].as_array().unwrap().iter().all(|key| key.get("hash").is_none()));

        member.delete(&format!("/keys/{id}")).expect(204);
        caller.get("/me").refused(401, "UNAUTHENTICATED");
        member.delete(&format!("/keys/{id}")).expect(204);
        let keys = member.get("/keys").expect(200).json();
        assert_eq!((&keys["data"][0]["id"], &keys["data"][0]["status"]), (&json!(id), &json!("revoked")));
        member.request("POST", &format!("/keys/{id}/rotate")).send().refused(400, "VALIDATION_FAILED");
        // The key one calls with, too.
        member.delete(&format!("/keys/{}", member.key_id())).expect(204);
        member.get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

async fn key_revoked_by_another_process_is_refused_soon(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let root = server.root();
        root.get("/me").expect(200);
        let by = operator_in(&server.main);
        server
            .runtime
            .block_on(server.ops.revoke_key(&by, &root.key.id.to_string(), OnCreated::Revoke))
            .unwrap();
        wait_until("the feed tells of it", || root.get("/me").status() == 401);
        root.get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

async fn rotated_key_works_for_another_day(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let made =
            member.request("POST", &format!("/keys/{}/rotate", member.key_id())).send().expect(201).json();
        assert_ne!(made["id"], member.key_id());
        assert_eq!(
            (&made["name"], &made["user"], &made["expires_at"]),
            (&json!("a key"), &json!(member.user_id()), &Value::Null)
        );
        let successor = with(&server, &made);
        successor.get("/me").expect(200);
        member.get("/me").expect(200);
        server.advance_ms(24 * 3_600_000);
        member.get("/me").expect(200);
        server.advance_ms(1);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        successor.get("/me").expect(200);
        let keys = successor.get("/keys").expect(200).json();
        assert_eq!(keys["data"][1]["status"], "expired");
    })
    .await;
}

async fn suspended_member_is_locked_out_at_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let (admin, member) = (server.admin(), server.member());
        member.post("/links", &json!({"code": "theirs", "target": "https://example.com/"})).expect(201);
        let user = format!("/users/{}", member.user_id());
        admin.patch(&user, &json!({"status": "suspended"})).expect(200);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        assert_eq!(server.visit("/theirs").status, 301, "their links go on");
        admin.patch(&user, &json!({"status": "active"})).expect(200);
        member.get("/me").expect(200);
        // A role is what it is now, whatever the key was made with.
        admin.patch(&user, &json!({"role": "viewer"})).expect(200);
        member.get("/links/theirs").expect(200);
        member.delete("/links/theirs").refused(403, "FORBIDDEN");
        member.get("/keys").refused(403, "FORBIDDEN");
        admin.delete(&user).expect(204);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        assert_eq!(
            server.visit("/theirs").status,
            301,
            "elsewhere than in platform they stay the workspace's"
        );
    })
    .await;
}

async fn key_use_is_counted_within_seconds(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let (root, reader) = (server.root(), server.reader());
        for _ in 0..3 {
            reader.get("/links").expect(200);
        }
        reader.post("/links", &json!({})).refused(403, "FORBIDDEN");
        let key = || {
            let keys = root.get("/keys").expect(200).json();
            keys["data"].as_array().unwrap().iter().find(|key| key["id"] == reader.key_id()).unwrap().clone()
        };
        wait_until("the use is written", || key()["usage_count"] == 4);
        assert_eq!(key()["last_used_at"], server.now().to_string());
        assert!(!server.actions().iter().any(|action| action == "key.use"), "use is no change");
    })
    .await;
}

#[test]
fn new_key_cannot_have_wider_scopes_than_its_creator() {
    let server = TestServer::new(Preset::Fabric);
    let (member, admin) = (server.member(), server.admin());
    let make = |caller: &ApiClient, body: &Value| caller.post("/keys", body);
    let narrow = make(&member, &json!({"name": "n", "scopes": ["links:write"]})).expect(201).json();
    let narrow = with(&server, &narrow);
    make(&narrow, &json!({"name": "wider", "scopes": ["links:read", "links:write"]}))
        .refused(403, "FORBIDDEN");
    make(&narrow, &json!({"name": "same", "scopes": ["links:write"]})).expect(201);
    assert_eq!(
        make(&narrow, &json!({"name": "default"})).expect(201).json()["scopes"],
        json!(["links:write"])
    );
    make(&member, &json!({"name": "x", "scopes": ["workspace:admin"]})).refused(403, "FORBIDDEN");
    make(&member, &json!({"name": "x", "user": admin.user_id()})).refused(403, "FORBIDDEN");
    make(&member, &json!({"name": "x", "user": member.user_id()})).expect(201);

    // An admin makes keys for others, and such a key can do no more than its owner.
    let theirs = make(
        &admin,
        &json!({"name": "for", "user": member.user_id(), "scopes": ["workspace:admin", "links:read"]}),
    )
    .expect(201)
    .json();
    let theirs = with(&server, &theirs);
    assert_eq!(theirs.get("/me").expect(200).json()["scopes"], json!(["links:read"]));
    theirs.get("/users").refused(403, "FORBIDDEN");
    // And a key whose maker may do nothing that keys may do by default can do something or is not made.
    let only_admin = server.key(&server.main, admin.user.as_ref(), Scopes::new(&[Scope::WorkspaceAdmin]));
    assert_eq!(make(&only_admin, &json!({"name": "nothing"})).fields(), ["scopes: required"]);
    make(&only_admin, &json!({"name": "x", "scopes": ["links:read"]})).refused(403, "FORBIDDEN");
    // A key of another is not rotated by who may do less.
    let strong = server.key(&server.main, None, Scopes::ALL);
    only_admin.request("POST", &format!("/keys/{}/rotate", strong.key_id())).send().refused(403, "FORBIDDEN");

    // No key outlives its maker.
    let until = server.now().plus_ms(3_600_000);
    let short = server.key_expiring_at(&server.main, admin.user.as_ref(), Scopes::ALL, Some(until));
    let shorter = make(&short, &json!({"name": "x"})).expect(201).json();
    assert_eq!(shorter["expires_at"], until.to_string());
    let later = json!({"name": "x", "expires_at": until.plus_ms(1000).to_string()});
    assert_eq!(make(&short, &later).fields(), ["expires_at: too_long"]);
    short.request("POST", &format!("/keys/{}/rotate", admin.key_id())).send().refused(403, "FORBIDDEN");
    short.request("POST", &format!("/keys/{}/rotate", short.key_id())).send().expect(201);

    // A reader makes none, a viewer keeps none, and a member does not see another's.
    make(&server.reader(), &json!({"name": "x"})).refused(403, "FORBIDDEN");
    make(&server.viewer(), &json!({"name": "x"})).refused(403, "FORBIDDEN");
    server.member().delete(&format!("/keys/{}", member.key_id())).refused(404, "NOT_FOUND");
    server
        .member()
        .request("POST", &format!("/keys/{}/rotate", member.key_id()))
        .send()
        .refused(404, "NOT_FOUND");
}

#[test]
fn narrow_or_expiring_key_grants_no_role_beyond_itself() {
    let server = TestServer::new(Preset::Team);
    let (owner, target) = (server.user(&server.main, Role::Admin), server.user(&server.main, Role::Viewer));
    let narrow = server.key(&server.main, Some(&owner), Scopes::new(&[Scope::WorkspaceAdmin]));
    let until = server.now().plus_ms(3_600_000);
    let expiring = server.key_expiring_at(&server.main, Some(&owner), Scopes::ALL, Some(until));
    let wide = server.key(&server.main, Some(&owner), Scopes::ALL);
    let user = format!("/users/{}", target.id);
    for (key, role) in [(&narrow, "admin"), (&narrow, "viewer"), (&expiring, "viewer")] {
        let email = format!("new-{role}@example.com");
        key.post("/users", &json!({"email": email, "role": role})).refused(403, "FORBIDDEN");
        let other = if role == "admin" { "admin" } else { "member" };
        key.patch(&user, &json!({"role": other})).refused(403, "FORBIDDEN");
    }
    // What grants nothing is still allowed, and a key with all scopes and no end grants what it has.
    narrow.patch(&user, &json!({"full_name": "Vera"})).expect(200);
    narrow.patch(&user, &json!({"status": "suspended"})).expect(200);
    for key in [&narrow, &expiring] {
        key.patch(&user, &json!({"status": "active"})).refused(403, "FORBIDDEN");
    }
    wide.patch(&user, &json!({"status": "active"})).expect(200);
    wide.patch(&user, &json!({"role": "admin"})).expect(200);
    wide.post("/users", &json!({"email": "new@example.com", "role": "admin"})).expect(201);
}

#[test]
fn key_wider_than_its_owners_role_is_not_rotated() {
    let server = TestServer::new(Preset::Fabric);
    let (admin, member) = (server.admin(), server.user(&server.main, Role::Member));
    let wide = server.key(&server.main, Some(&member), Scopes::ALL);
    let rotate = format!("/keys/{}/rotate", wide.key_id());
    wide.request("POST", &rotate).send().refused(403, "FORBIDDEN");
    admin.request("POST", &rotate).send().expect(201);
}

#[test]
fn key_revokes_only_keys_within_its_own_scopes() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let narrow = server.key(&server.main, member.user.as_ref(), Scopes::DEFAULT);
    narrow.delete(&format!("/keys/{}", member.key_id())).refused(403, "FORBIDDEN");
    member.get("/me").expect(200);
    let equal = server.key(&server.main, member.user.as_ref(), Scopes::DEFAULT);
    narrow.delete(&format!("/keys/{}", equal.key_id())).expect(204);
    member.delete(&format!("/keys/{}", narrow.key_id())).expect(204);
}

#[test]
fn invalid_key_fields_are_reported() {
    let server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    let refused = |body: Value, fields: &[&str]| {
        let mut found = admin.post("/keys", &body).fields();
        found.sort();
        assert_eq!(found, fields, "{body}");
    };
    refused(json!({}), &["name: required"]);
    refused(json!({"name": ""}), &["name: required"]);
    refused(json!({"name": "x".repeat(101)}), &["name: too_long"]);
    refused(json!({"name": "a\nb"}), &["name: control_character"]);
    refused(json!({"name": 1}), &["name: bad_characters"]);
    refused(json!({"name": "x", "scopes": []}), &["scopes: required"]);
    refused(json!({"name": "x", "scopes": ["links:all"]}), &["scopes: bad_characters"]);
    refused(json!({"name": "x", "scopes": "links:read"}), &["scopes: bad_characters"]);
    refused(json!({"name": "x", "expires_at": "2001-01-01"}), &["expires_at: past"]);
    refused(json!({"name": "x", "expires_at": true}), &["expires_at: not_a_time"]);
    refused(json!({"name": "x", "key": "rmx_mine"}), &["key: unknown_field"]);
    refused(
        json!({"name": "x", "role": "admin", "id": "1", "usage_count": 7}),
        &["id: immutable", "role: unknown_field", "usage_count: unknown_field"],
    );
    admin.post("/keys", &json!({"name": "x", "user": "12345"})).refused(404, "NOT_FOUND");
    assert_eq!(
        admin
            .post("/keys", &json!({"name": "x", "scopes": null, "user": null, "expires_at": null}))
            .expect(201)
            .json()["scopes"],
        json!(["links:read", "links:write"])
    );
}

/// Whatever comes instead of a key is 401, and one that is right but for a letter is no better than one that is wrong.
#[test]
fn request_without_a_valid_key_is_401() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    let secret = root.secret();
    let other = |at: usize| {
        let mut letters = secret.as_bytes().to_vec();
        letters[at] = if letters[at] == b'a' { b'b' } else { b'a' };
        String::from_utf8(letters).unwrap()
    };
    let ask = |value: &str| -> ApiResponse {
        server.anonymous().request("GET", "/me").header("Authorization", value).send()
    };
    ask(&format!("Bearer {secret}")).expect(200);
    ask(&format!("bearer {secret}")).expect(200);
    ask(&format!("BEARER  {secret}")).expect(200);
    let wrong = [
        format!("Bearer {}", other(14)),
        format!("Bearer {}", other(secret.len() - 1)),
        format!("Bearer {}", other(5)),
        format!("Bearer {}", &secret[..secret.len() - 1]),
        format!("Bearer {secret}x"),
        format!("Bearer {}", &secret[..12]),
        format!("Basic {secret}"),
        secret.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer null".to_owned(),
        format!("Bearer {secret} {secret}"),
        format!("Bearer \"{secret}\""),
        format!("Bearer {secret},"),
        "Bearer ' OR 1=1 --".to_owned(),
        format!("Bearer {}", "x".repeat(10_000)),
        "Bearer \u{e4}\u{f6}".to_owned(),
    ];
    for value in &wrong {
        ask(value).refused(401, "UNAUTHENTICATED");
    }
    let twice = server.anonymous().request("GET", "/me").header("Authorization", &format!("Bearer {secret}"));
    twice.header("Authorization", &format!("Bearer {secret}")).send().refused(401, "UNAUTHENTICATED");
    // Nowhere else either.
    server
        .anonymous()
        .request("GET", "/me")
        .header("Cookie", &format!("key={secret}"))
        .send()
        .refused(401, "UNAUTHENTICATED");
    server.anonymous().get(&format!("/me?key={secret}")).refused(401, "UNAUTHENTICATED");
    // A megabyte of it is more than a head may have.
    let huge = server
        .anonymous()
        .request("GET", "/me")
        .header("Authorization", &format!("Bearer {}", "x".repeat(1 << 20)));
    let answer = huge.send_unchecked().answer;
    assert!([401, 431, 0].contains(&answer.status), "{}", answer.status);
    ask(&format!("Bearer {secret}")).expect(200);
}

/// Whoever reads the disk or the database finds hashes.
#[test]
fn no_file_holds_a_key_or_an_invitation() {
    let mut server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    let made = admin.post("/keys", &json!({"name": "seen once"})).expect(201).json();
    let invited = admin.post("/users", &json!({"email": "new@example.com"})).expect(201).json();
    let rotated =
        admin.request("POST", &format!("/keys/{}/rotate", admin.key_id())).send().expect(201).json();
    let token = invited["invite_url"].as_str().unwrap().rsplit('/').next().unwrap();
    assert_eq!(token.len(), 43, "{invited}");
    with(&server, &made).post("/links", &json!({"target": "https://example.com/"})).expect(201);
    let folder = server.test_store.folder().to_owned();
    assert!(!files_with(&folder, made["prefix"].as_str().unwrap()).is_empty(), "the prefix is kept");
    let secrets = [made["key"].as_str().unwrap(), rotated["key"].as_str().unwrap(), admin.secret(), token];
    for stopped in [false, true] {
        if stopped {
            server.stop();
        }
        for secret in secrets {
            assert_eq!(files_with(&folder, secret), [""; 0]);
            assert_eq!(files_with(&folder, &secret[secret.len() - 43..]), [""; 0], "nor its random part");
        }
    }
}

#[test]
fn key_is_refused_where_the_policy_forbids_keys() {
    let mut policy = preset(Preset::Fabric);
    let server = TestServer::at(TestStore::sqlite(), policy.clone(), |_| ());
    let member = server.member();
    member.get("/me").expect(200);
    policy.sign_in.retain(|way| *way != rlinks_core::workspace::policy::SignInMethod::Keys);
    server.workspace("main", policy, &[]);
    wait_until("the feed tells of it", || member.get("/me").status() == 401);
    member.get("/me").refused(401, "UNAUTHENTICATED");
    assert_eq!(server.person(&server.main, Role::Admin).get("/me").status(), 401);
}
