//! What was made with a key: listed, ended with it, kept where somebody says so.

use rlinks_core::access::api_key::hash_secret;
use rlinks_core::{Preset, Role, Scope, Scopes};
use serde_json::{Value, json};

use crate::support::api_client::ApiClient;
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};

contract!(
    revoking_a_key_ends_the_keys_and_open_invitations_made_with_it,
    what_was_made_with_a_key_is_kept_where_asked,
    rotated_key_keeps_what_its_predecessor_made,
);

const ALL: [&str; 5] = ["links:read", "links:write", "links:delete", "analytics:read", "workspace:admin"];

/// A key made with another.
struct Made {
    client: ApiClient,
    id: String,
}

fn make(server: &TestServer, maker: &ApiClient, name: &str) -> Made {
    let body = json!({"name": name, "scopes": ALL});
    made(server, &maker.post("/keys", &body).expect(201).json())
}

fn made(server: &TestServer, body: &Value) -> Made {
    let key = Some(body["key"].as_str().unwrap().to_owned());
    Made { client: ApiClient { address: server.address, key }, id: body["id"].as_str().unwrap().to_owned() }
}

fn rotate(server: &TestServer, caller: &ApiClient, id: &str) -> Made {
    made(server, &caller.request("POST", &format!("/keys/{id}/rotate")).send().expect(201).json())
}

/// Type and name of what a key made, newest first.
fn created(caller: &ApiClient, id: &str) -> Vec<(String, String)> {
    let page = caller.get(&format!("/keys/{id}/created")).expect(200).json();
    assert_eq!(page["next_cursor"], Value::Null);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().map(|one| (text(&one["type"]), text(&one["name"]))).collect()
}

fn is_open(server: &TestServer, invited: &Value) -> bool {
    let url = invited["invite_url"].as_str().unwrap();
    let hash = hash_secret(url.rsplit('/').next().unwrap());
    server.runtime.block_on(server.store().invitation(&hash, server.now())).unwrap().is_some()
}

/// Hostile inputs, S43.
async fn revoking_a_key_ends_the_keys_and_open_invitations_made_with_it(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        let stolen = server.key(&server.main, admin.user.as_ref(), Scopes::ALL);
        let child = make(&server, &stolen, "child");
        let grandchild = make(&server, &child.client, "grandchild");
        let invited = child
            .client
            .post("/users", &json!({"email": "eve@example.com", "role": "admin"}))
            .expect(201)
            .json();
        // A thief replaces the key they stole, and takes over one they did not make.
        let successor = rotate(&server, &stolen, &stolen.key_id());
        let bystander = server.key(&server.main, None, Scopes::DEFAULT);
        let taken_over = rotate(&server, &grandchild.client, &bystander.key_id());
        let unrelated = make(&server, &admin, "unrelated");

        let listed = created(&admin, &stolen.key_id());
        let expected = [
            ("key", "a key"),
            ("key", "a key"),
            ("invitation", "eve@example.com"),
            ("key", "grandchild"),
            ("key", "child"),
        ];
        assert_eq!(listed, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
        let path = format!("/keys/{}/created?limit=2", stolen.key_id());
        let first = admin.get(&path).expect(200).json();
        let cursor = first["next_cursor"].as_str().unwrap();
        let second = admin.get(&format!("{path}&cursor={cursor}")).expect(200).json();
        assert_eq!(second["data"][0]["name"], "eve@example.com");
        assert_eq!(second["data"][0]["id"], invited["id"]);
        child.client.get("/me").expect(200);

        let before = server.actions().len();
        admin.delete(&format!("/keys/{}", stolen.key_id())).expect(204);
        for ended in [&child, &grandchild, &successor, &taken_over] {
            ended.client.get("/me").refused(401, "UNAUTHENTICATED");
        }
        assert!(!is_open(&server, &invited));
        for lives in [&admin.caller, &bystander.caller, &unrelated.client] {
            lives.get("/me").expect(200);
        }
        // The member is still there, as one who has never signed in: to be invited again, or deleted.
        let users = admin.get("/users").expect(200).json();
        let eve = users["data"].as_array().unwrap().iter().find(|user| user["id"] == invited["id"]).unwrap();
        assert_eq!((&eve["status"], &eve["last_login_at"]), (&json!("active"), &Value::Null));

        let log = admin.get("/audit?limit=100").expect(200).json();
        let log: Vec<_> =
            log["data"].as_array().unwrap().iter().take(server.actions().len() - before).collect();
        let of = |action: &str| log.iter().filter(|entry| entry["action"] == action).count();
        assert_eq!((log.len(), of("key.revoke"), of("user.withdraw_invitation")), (6, 5, 1), "{log:?}");
        assert!(log.iter().all(|entry| entry["actor"] == format!("key:{}", admin.key_id())), "{log:?}");
        assert!(created(&admin, &stolen.key_id()).is_empty());
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn what_was_made_with_a_key_is_kept_where_asked(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        let retired = server.key(&server.main, admin.user.as_ref(), Scopes::ALL);
        let child = make(&server, &retired, "child");
        let invited = retired.post("/users", &json!({"email": "eve@example.com"})).expect(201).json();
        let path = format!("/keys/{}", retired.key_id());
        assert_eq!(
            admin.delete(&format!("{path}?keep_created=maybe")).fields(),
            ["keep_created: bad_characters"]
        );
        retired.get("/me").expect(200);
        admin.delete(&format!("{path}?keep_created=true")).expect(204);
        retired.get("/me").refused(401, "UNAUTHENTICATED");
        child.client.get("/me").expect(200);
        assert!(is_open(&server, &invited));
        // Who thinks better of it revokes the key once more.
        assert_eq!(created(&admin, &retired.key_id()).len(), 2);
        admin.delete(&path).expect(204);
        child.client.get("/me").refused(401, "UNAUTHENTICATED");
        assert!(!is_open(&server, &invited));
    })
    .await;
}

async fn rotated_key_keeps_what_its_predecessor_made(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        let first = make(&server, &admin, "first");
        let early = make(&server, &first.client, "early");
        let second = rotate(&server, &admin, &first.id);
        let late = make(&server, &second.client, "late");
        assert_eq!(created(&admin, &second.id).len(), 2);
        // Who replaces a key and revokes the old one keeps the new one, and what that made.
        let replaced = make(&server, &admin, "replaced");
        let ended = make(&server, &replaced.client, "ended");
        let successor = rotate(&server, &admin, &replaced.id);
        let kept = make(&server, &successor.client, "kept");
        admin.delete(&format!("/keys/{}", replaced.id)).expect(204);
        ended.client.get("/me").refused(401, "UNAUTHENTICATED");
        successor.client.get("/me").expect(200);
        kept.client.get("/me").expect(200);

        admin.delete(&format!("/keys/{}", second.id)).expect(204);
        early.client.get("/me").refused(401, "UNAUTHENTICATED");
        late.client.get("/me").refused(401, "UNAUTHENTICATED");
        first.client.get("/me").expect(200);

        // A program that replaces its own key and revokes the old one with the new one goes on.
        let own = make(&server, &admin, "own");
        let renewed = rotate(&server, &own.client, &own.id);
        renewed.client.delete(&format!("/keys/{}", own.id)).expect(204);
        renewed.client.get("/me").expect(200);
        // And what the admin revokes reaches keys made with its successor.
        let latest = make(&server, &renewed.client, "latest");
        admin.delete(&format!("/keys/{}", admin.key_id())).expect(204);
        latest.client.get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

/// Hostile inputs, S43.
#[test]
fn revocation_reaches_only_what_the_caller_may_end() {
    let server = TestServer::new(Preset::Fabric);
    let (boss, admin, member) = (server.admin(), server.admin(), server.member());
    let wide = server.key(&server.main, admin.user.as_ref(), Scopes::ALL);
    let body = json!({"name": "for a member", "user": member.user_id()});
    let others = made(&server, &wide.post("/keys", &body).expect(201).json());
    let own = make(&server, &wide, "own");
    let invited = wide.post("/users", &json!({"email": "eve@example.com"})).expect(201).json();
    let admins = server.key(&server.main, admin.user.as_ref(), Scopes::new(&[Scope::WorkspaceAdmin]));
    admins.delete(&format!("/keys/{}", wide.key_id())).refused(403, "FORBIDDEN");
    boss.patch(&format!("/users/{}", admin.user_id()), &json!({"role": "member"})).expect(200);

    assert_eq!(created(&admin, &wide.key_id()), [("key".to_owned(), "own".to_owned())]);
    admin.delete(&format!("/keys/{}", wide.key_id())).expect(204);
    own.client.get("/me").refused(401, "UNAUTHENTICATED");
    others.client.get("/me").expect(200);
    assert!(is_open(&server, &invited));
    boss.delete(&format!("/keys/{}", wide.key_id())).expect(204);
    others.client.get("/me").refused(401, "UNAUTHENTICATED");
    assert!(!is_open(&server, &invited));
    assert!(server.user(&server.main, Role::Viewer).last_login_at.is_none());
}
