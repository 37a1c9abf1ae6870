//! The whole API once, on both databases: every operation succeeds for whom it is meant.

use std::collections::BTreeSet;

use rlinks_core::{Id, Preset, Role};
use serde_json::{Value, json};

use crate::support::browser::{Browser, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, PASSWORD, TestServer, member, preset, with_server};
use crate::support::raw_client::wait_until;

contract!(every_operation_succeeds_once);

async fn every_operation_succeeds_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| {
        let admin = server.admin();
        let mut done: BTreeSet<String> = BTreeSet::new();
        let mut get = |name: &'static str, path: &str| {
            done.insert(name.to_owned());
            admin.get(path).expect(200)
        };
        admin.post("/links", &json!({"code": "walk", "target": "https://example.com/"})).expect(201);
        server.visit("/walk");
        get("me_me", "/me");
        get("links_list", "/links?search=example&sort=clicks");
        get("links_get", "/links/walk");
        get("links_history", "/links/walk/history");
        get("links_qr_code", "/links/walk/qr");
        get("links_check", "/check/walk");
        get("links_explain", "/explain?url=walk");
        get("links_export", "/export?format=csv");
        get("statistics_of_link", "/links/walk/stats");
        get("statistics_of_workspace", "/stats");
        get("statistics_live", "/stats/live");
        get("audit_list", "/audit");
        get("keys_list", "/keys");
        get("users_list", "/users");
        get("workspace_show", "/workspace");
        get("domains_domains", "/domains");
        wait_until("the click is there", || {
            !admin.get("/links/walk/clicks").expect(200).json()["data"].as_array().unwrap().is_empty()
        });
        get("statistics_clicks", "/links/walk/clicks");

        admin.post("/links/bulk", &json!({"links": [{"target": "https://example.com/2"}]})).expect(200);
        admin.post("/import", &json!({"code": "in", "target": "https://example.com/in"})).expect(200);
        admin.patch("/links/walk", &json!({"title": "Walked", "tags": ["a", "b"]})).expect(200);
        admin.delete("/links/walk").expect(204);
        admin.request("POST", "/links/walk/restore").send().expect(200);
        get("me_sessions", "/me/sessions");
        get("users_sessions", &format!("/users/{}/sessions", admin.user_id()));
        get("keys_created", &format!("/keys/{}/created", admin.key_id()));
        let key = admin.post("/keys", &json!({"name": "walk"})).expect(201).json()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        admin.request("POST", &format!("/keys/{key}/rotate")).send().expect(201);
        admin.delete(&format!("/keys/{key}")).expect(204);
        let user = admin.post("/users", &json!({"email": "walk@example.com"})).expect(201).json()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        admin.patch(&format!("/users/{user}"), &json!({"role": "viewer"})).expect(200);
        admin.delete(&format!("/users/{user}")).expect(204);
        admin
            .patch("/workspace", &json!({"name": "Walked", "policy": {"cache": {"max_age": 9}}}))
            .expect(200);
        admin.post("/domains", &json!({"host": "walk.example"})).expect(201);
        admin.patch("/domains/walk.example", &json!({"primary": true})).expect(200);
        admin.post("/domains/walk.example/verify", &json!({})).expect(200);
        admin.delete("/domains/walk.example").expect(204);
        let leaving = member(&server, &server.main, Role::Viewer, "leaver@example.com");
        let mut leaver = Browser::new(server.address);
        leaver.sign_in("leaver@example.com", PASSWORD);
        walk_sessions(&server, &admin, &mut leaver, leaving.id);
        let body = json!({ "password": PASSWORD }).to_string();
        assert_eq!(leaver.api("DELETE", "/me", Some(&body)).status, 204);
        done.extend(
            [
                "links_create",
                "links_bulk",
                "links_import",
                "links_patch",
                "links_delete",
                "links_restore",
                "keys_create",
                "keys_rotate",
                "keys_revoke",
                "users_create",
                "users_change",
                "users_remove",
                "workspace_change",
                "domains_add_domain",
                "domains_change_domain",
                "domains_remove_domain",
                "domains_verify_domain",
                "me_leave",
                "me_session",
                "me_end_session",
                "me_end_sessions",
                "users_end_session",
                "users_end_sessions",
            ]
            .map(str::to_owned),
        );
        assert_eq!(done, described_operations());
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

/// The ids of the operations in the API's own description.
fn described_operations() -> BTreeSet<String> {
    let document = rlinks_server::api::openapi();
    document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| path.starts_with("/api/v1"))
        .flat_map(|(_, methods)| methods.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap().to_owned())
        .collect()
}

/// Sees and ends the sessions of somebody, by themselves and by an admin. In the end they are signed in.
fn walk_sessions(server: &TestServer, admin: &ApiUser, leaver: &mut Browser, id: Id) {
    let session = |browser: &mut Browser, current: bool| {
        let sessions = browser.api("GET", "/me/sessions", None).body;
        let sessions: Value = serde_json::from_str(&sessions).unwrap();
        let mut sessions = sessions["data"].as_array().unwrap().iter();
        let found = sessions.find(|session| session["current"] == current).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let own = session(leaver, true);
    assert_eq!(leaver.api("GET", &format!("/me/sessions/{own}"), None).status, 200);
    let mut elsewhere = signed_in(server.address, "leaver@example.com");
    let other = session(&mut elsewhere, false);
    assert_eq!(elsewhere.api("DELETE", &format!("/me/sessions/{other}"), None).status, 204);
    assert_eq!(elsewhere.api("DELETE", "/me/sessions", None).status, 204);
    leaver.sign_in("leaver@example.com", PASSWORD);
    let sessions = format!("/users/{id}/sessions");
    admin.delete(&format!("{sessions}/{}", session(leaver, true))).expect(204);
    admin.delete(&sessions).expect(204);
    leaver.sign_in("leaver@example.com", PASSWORD);
}
