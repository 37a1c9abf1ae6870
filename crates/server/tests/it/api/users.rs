//! `/users` and `/me`: members, and that they can be forgotten.

use rlinks_core::{Email, Password, Preset, Role, Scopes};
use rlinks_store::NewUser;
use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::database::{TestStore, contract};
use crate::support::files::files_with;
use crate::support::members::{PASSWORD, TestServer, preset, with_server};
use crate::support::server::{operator, operator_in};

contract!(
    members_are_invited_changed_and_deleted,
    last_admin_cannot_be_removed,
    deleted_member_leaves_no_personal_data,
    links_of_a_deleted_owner_are_gone_at_once,
    new_account_needs_a_domain_with_an_ending_and_an_old_one_keeps_working,
);

async fn members_are_invited_changed_and_deleted(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        let invited = admin
            .post(
                "/users",
                &json!({"email": " Ann@Example.COM ", "full_name": "Ann Example", "role": "viewer"}),
            )
            .expect(201)
            .json();
        let expected = json!({
            "email": "ann@example.com", "full_name": "Ann Example", "role": "viewer", "status": "active",
            "last_login_at": null, "last_sync_at": null,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&invited[name], value, "{name}");
        }
        let url = invited["invite_url"].as_str().unwrap();
        assert!(url.contains("/admin/invite/"), "{url}");
        assert_eq!(invited["invite_expires_at"], server.now().plus_ms(7 * 24 * 3_600_000).to_string());
        for email in ["ann@example.com", "ANN@EXAMPLE.COM", "Ann@example.com"] {
            admin.post("/users", &json!({"email": email})).refused(409, "CONFLICT");
        }
        let id = invited["id"].as_str().unwrap();
        let at = format!("/users/{id}");
        server.advance_ms(1000);
        let changed = admin.patch(&at, &json!({"role": "member", "full_name": "Ann E."})).expect(200).json();
        assert_eq!(
            (&changed["role"], &changed["full_name"], &changed["email"]),
            (&json!("member"), &json!("Ann E."), &invited["email"])
        );
        assert_ne!(changed["updated_at"], invited["updated_at"]);
        let other = admin.post("/users", &json!({"email": "bob@example.com"})).expect(201).json();
        assert_eq!(other["role"], "member");
        admin.patch(&at, &json!({"email": "BOB@example.com"})).refused(409, "CONFLICT");
        admin.patch(&at, &json!({"email": "ann@new.example"})).expect(200);
        admin.post("/users", &json!({"email": "ann@example.com"})).expect(201);

        let refused = |body: Value, fields: &[&str]| {
            let mut found = admin.patch(&at, &body).fields();
            found.sort();
            assert_eq!(found, fields, "{body}");
        };
        refused(json!({"role": "owner"}), &["role: bad_characters"]);
        refused(json!({"status": "deleted"}), &["status: bad_characters"]);
        refused(json!({"email": "nobody"}), &["email: bad_characters"]);
        refused(json!({"full_name": "x".repeat(256)}), &["full_name: too_long"]);
        refused(
            json!({"id": "1", "workspace": "other", "password": "x"}),
            &["id: immutable", "password: unknown_field", "workspace: immutable"],
        );
        assert_eq!(admin.post("/users", &json!({"full_name": "x"})).fields(), ["email: required"]);
        assert_eq!(
            admin.post("/users", &json!({"email": "x@example.com", "role": "root"})).fields(),
            ["role: bad_characters"]
        );

        admin.delete(&at).expect(204);
        admin.delete(&at).refused(404, "NOT_FOUND");
        admin.patch(&at, &json!({"role": "admin"})).refused(404, "NOT_FOUND");
        let users = admin.get("/users").expect(200).json();
        let ids: Vec<_> =
            users["data"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap()).collect();
        assert!(!ids.contains(&id) && ids.len() == 3, "{users}");
        assert_eq!(ids[0], admin.user_id(), "oldest first");

        let me = admin.get("/me").expect(200).json();
        assert_eq!(
            (&me["workspace"], &me["user"]["id"], &me["key"]),
            (&json!("main"), &json!(admin.user_id()), &json!(admin.key_id()))
        );
        let root = server.root();
        assert_eq!(root.get("/me").expect(200).json()["user"], Value::Null);
        root.delete("/me").refused(403, "FORBIDDEN");
        server
            .key(&server.main, admin.user.as_ref(), Scopes::parse(&["links:read"]).unwrap())
            .delete("/me")
            .refused(403, "FORBIDDEN");
    })
    .await;
}

async fn last_admin_cannot_be_removed(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let (admin, root) = (server.admin(), server.root());
        let at = format!("/users/{}", admin.user_id());
        for caller in [&admin, &root] {
            for change in
                [json!({"role": "member"}), json!({"role": "viewer"}), json!({"status": "suspended"})]
            {
                caller.patch(&at, &change).refused(409, "CONFLICT");
            }
        }
        root.delete(&at).refused(409, "CONFLICT");
        // A suspended admin lets nobody in.
        let second = server.admin();
        root.patch(&format!("/users/{}", second.user_id()), &json!({"status": "suspended"})).expect(200);
        root.delete(&at).refused(409, "CONFLICT");
        root.patch(&format!("/users/{}", second.user_id()), &json!({"status": "active"})).expect(200);
        // Of two who are deleted at once, one stays.
        let replies = crate::support::api_client::at_once(2, |number| {
            root.delete(&format!("/users/{}", [&admin, &second][number].user_id()))
        });
        let mut statuses: Vec<_> =
            replies.iter().map(crate::support::api_client::ApiResponse::status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 409], "{replies:?}");
    })
    .await;
}

/// E-mail and name are in no entry of the log, and in nothing at all after the account is gone.
async fn deleted_member_leaves_no_personal_data(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |mut server| {
        let admin = server.admin();
        let (email, name) = ("zacharias.unforgettable@mail.example", "Zacharias Unforgettable");
        let user = server.user_with_email(&server.main, Role::Member, email);
        let at = format!("/users/{}", user.id);
        admin.patch(&at, &json!({"full_name": name})).expect(200);
        admin.patch(&at, &json!({"role": "admin"})).expect(200);
        admin.patch(&at, &json!({"status": "suspended"})).expect(200);
        admin.patch(&at, &json!({"status": "active"})).expect(200);
        let person = server.key(&server.main, Some(&user), Scopes::ALL);
        let made = person
            .post("/links", &json!({"target": "https://example.com/", "code": "theirs"}))
            .expect(201)
            .json();
        assert_eq!(made["created_by"], format!("user:{}", user.id));
        let log =
            |admin: &crate::support::members::ApiUser| admin.get("/audit?limit=100").expect(200).answer.body;
        for personal in [email, name, "unforgettable"] {
            assert!(!log(&admin).contains(personal), "{personal} is in the log");
        }
        let again = admin.post("/users", &json!({"email": email}));
        again.refused(409, "CONFLICT");
        admin.delete(&at).expect(204);
        person.get("/me").refused(401, "UNAUTHENTICATED");
        assert_eq!(admin.get("/links/theirs").expect(200).json()["created_by"], format!("user:{}", user.id));
        let actions = server.actions();
        for action in [
            "user.create",
            "user.update",
            "user.role",
            "user.suspend",
            "user.activate",
            "user.delete",
            "key.create",
            "key.delete",
        ] {
            assert!(actions.iter().any(|known| known == action), "{action}: {actions:?}");
        }
        // The chain holds though the person is gone.
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
        server.stop();
        server.runtime.block_on(server.store().close());
        for personal in [email, name, "unforgettable"] {
            assert_eq!(files_with(server.test_store.folder(), personal), [""; 0], "{personal}");
        }
    })
    .await;
}

async fn links_of_a_deleted_owner_are_gone_at_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Platform), |server| {
        let admin = server.admin();
        for round in 0..3 {
            let (ann, bob) = (server.member(), server.member());
            let links: Vec<_> = (0..20)
                .map(|n| json!({"code": format!("link-{round}-{n}"), "target": "https://example.com/"}))
                .collect();
            ann.post("/links/bulk", &json!({"links": links[..10]})).expect(200);
            bob.post("/links/bulk", &json!({"links": links[10..]})).expect(200);
            admin.delete(&format!("/users/{}", ann.user_id())).expect(204);
            admin.delete(&format!("/users/{}", bob.user_id())).expect(204);
            let status = |n: usize| server.visit(&format!("/link-{round}-{n}")).status;
            assert_eq!((0..20).map(status).collect::<Vec<_>>(), [410; 20]);
        }
    })
    .await;
}

async fn new_account_needs_a_domain_with_an_ending_and_an_old_one_keeps_working(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        for email in ["ann@localhost", "ann@example.c", "ann@example.c0m", "ann@192.0.2.1"] {
            let refused = admin.post("/users", &json!({"email": email}));
            assert_eq!(refused.fields(), ["email: bad_characters"], "{email}");
        }
        for email in ["ann@example.co", "ärger@büro.example", "ann@пример.рф", "ann@example.xn--p1ai"]
        {
            admin.post("/users", &json!({"email": email})).expect(201);
        }
        // As an earlier version let somebody in.
        let email = Email::parse("old@localhost").unwrap();
        let new = NewUser { workspace: server.main.id, email, full_name: String::new(), role: Role::Member };
        let actor = operator();
        let made = server.store().create_user(new, &actor, server.now());
        let old = server.runtime.block_on(made).unwrap();
        let set = async {
            let password = Password::parse(PASSWORD).unwrap();
            server.ops.set_password(&operator_in(&server.main), &old, password).await
        };
        server.runtime.block_on(set).unwrap();
        assert_eq!(Browser::new(server.address).sign_in("old@localhost", PASSWORD).status, 303);
        let path = format!("/users/{}", old.id);
        admin.patch(&path, &json!({"email": "old@localhost", "role": "viewer"})).expect(200);
        admin.patch(&path, &json!({"email": "other@localhost"})).refused(400, "VALIDATION_FAILED");
    })
    .await;
}

#[test]
fn deleted_member_can_be_invited_again() {
    let server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    let body = json!({"email": "back@example.com", "role": "admin"});
    let mut ids = Vec::new();
    for _ in 0..3 {
        let invited = admin.post("/users", &body).expect(201).json();
        let id = invited["id"].as_str().unwrap().to_owned();
        assert!(!ids.contains(&id));
        admin.delete(&format!("/users/{id}")).expect(204);
        ids.push(id);
    }
}

/// A stolen key or a browser left open must not be enough to lose an account.
#[test]
fn own_account_is_deleted_from_a_session_with_the_password_only() {
    let server = TestServer::new(Preset::Fabric);
    server.admin();
    let ann = crate::support::members::ann(&server);
    let key = server.key(&server.main, Some(&ann), Scopes::ALL);
    let own = format!("/users/{}", ann.id);
    for path in ["/me", own.as_str()] {
        key.delete(path).refused(403, "FORBIDDEN");
    }
    let mut browser = crate::support::browser::Browser::new(server.address);
    browser.sign_in("ann@example.com", PASSWORD);
    let body = |password: &str| json!({ "password": password }).to_string();
    for path in ["/me", own.as_str()] {
        assert_eq!(browser.api("DELETE", path, None).status, 403, "{path} without a password");
        let wrong = browser.api("DELETE", path, Some(&body("not my password!")));
        assert!(wrong.status == 403 && wrong.body.contains("Current password is incorrect"), "{wrong:?}");
        assert_eq!(browser.api("DELETE", path, Some("{\"pasword\":\"x\"}")).status, 400);
    }
    key.get("/me").expect(200);
    assert_eq!(browser.api("DELETE", &own, Some(&body(PASSWORD))).status, 204);
    key.get("/me").refused(401, "UNAUTHENTICATED");
}
