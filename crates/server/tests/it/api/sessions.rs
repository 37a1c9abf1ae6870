//! `/me/sessions` and `/users/{id}/sessions`: seen, and ended one at a time or all at once.

use rlinks_core::{Preset, Role, Scope, Scopes};
use serde_json::Value;

use crate::support::browser::{Browser, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{ann, member, preset, with_server};
use crate::support::raw_client::Response;

contract!(
    member_lists_sessions_and_ends_one_or_all,
    admin_lists_and_ends_the_sessions_of_a_member,
    keys_list_sessions_and_only_those_of_admins_end_them,
);

fn json(answer: &Response) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

fn ids(list: &Value) -> Vec<String> {
    list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Hostile inputs, S24.
async fn member_lists_sessions_and_ends_one_or_all(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        member(&server, &server.main, Role::Viewer, "bob@example.com");
        member(&server, &server.main, Role::Viewer, "eve@example.com");
        let mut laptop = Browser::new(server.address).with("User-Agent", "Laptop/1");
        assert_eq!(laptop.sign_in("bob@example.com", crate::support::members::PASSWORD).status, 303);
        server.advance_ms(60_000);
        let mut phone = signed_in(server.address, "bob@example.com");
        server.advance_ms(60_000);
        let mut tablet = signed_in(server.address, "bob@example.com");
        let mut eve = signed_in(server.address, "eve@example.com");

        let list = json(&phone.api("GET", "/me/sessions", None));
        let sessions = list["data"].as_array().unwrap();
        let current: Vec<_> = sessions.iter().map(|one| one["current"].as_bool().unwrap()).collect();
        assert_eq!(current, [false, true, false], "newest first: {list}");
        let first = &sessions[2];
        assert_eq!((&first["agent"], &first["method"]), (&"Laptop/1".into(), &"password".into()), "{list}");
        for field in ["network", "created_at", "last_used_at", "expires_at"] {
            assert!(first[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {list}");
        }
        assert_eq!(list["next_cursor"], Value::Null);
        let hash = rlinks_core::access::api_key::hash_secret(&laptop.session());
        assert!(!list.to_string().contains(&hash[11..27]), "an id tells nothing of the token");
        let page = json(&phone.api("GET", "/me/sessions?limit=2", None));
        let cursor = page["next_cursor"].as_str().unwrap();
        let rest = json(&phone.api("GET", &format!("/me/sessions?limit=2&cursor={cursor}"), None));
        assert_eq!([ids(&page), ids(&rest)].concat(), ids(&list));

        let one = format!("/me/sessions/{}", ids(&list)[2]);
        assert_eq!(json(&phone.api("GET", &one, None))["agent"], "Laptop/1");
        assert_eq!(eve.api("GET", &one, None).status, 404, "another's");
        assert_eq!(eve.api("DELETE", &one, None).status, 404);
        assert!(laptop.is_signed_in());
        let other = server.second(|_| ());
        assert!(laptop.at(other.address).is_signed_in());
        assert_eq!(phone.api("DELETE", &one, None).status, 204);
        assert!(!laptop.is_signed_in() && !laptop.at(other.address).is_signed_in(), "on every node");
        assert!(phone.is_signed_in() && tablet.is_signed_in());
        assert_eq!(phone.api("DELETE", &one, None).status, 404);
        assert_eq!(server.actions().iter().filter(|action| *action == "auth.sign_out").count(), 1);

        assert_eq!(phone.api("DELETE", "/me/sessions?keep_current=true", None).status, 204);
        assert!(phone.is_signed_in() && !tablet.is_signed_in());
        assert_eq!(phone.api("DELETE", "/me/sessions", None).status, 204);
        assert!(!phone.is_signed_in() && eve.is_signed_in());
        let actions = server.actions();
        assert!(
            actions.ends_with(&["auth.sign_out_others".to_owned(), "auth.sign_out_everywhere".to_owned()])
        );
        other.stop();
    })
    .await;
}

/// Hostile inputs, S24.
async fn admin_lists_and_ends_the_sessions_of_a_member(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = ann(&server);
        let bob = member(&server, &server.main, Role::Member, "bob@example.com");
        let mut ann = signed_in(server.address, "ann@example.com");
        let mut laptop = signed_in(server.address, "bob@example.com");
        server.advance_ms(60_000);
        let mut phone = signed_in(server.address, "bob@example.com");
        let path = format!("/users/{}/sessions", bob.id);
        assert_eq!(phone.api("GET", &path, None).status, 403);
        assert_eq!(phone.api("DELETE", &format!("/users/{}/sessions", admin.id), None).status, 403);
        let list = json(&ann.api("GET", &path, None));
        assert_eq!(ids(&list).len(), 2);
        assert!(list["data"].as_array().unwrap().iter().all(|one| one["current"] == false));

        let one = format!("{path}/{}", ids(&list)[1]);
        assert_eq!(ann.api("DELETE", &one, None).status, 204);
        assert!(!laptop.is_signed_in() && phone.is_signed_in());
        assert_eq!(ann.api("DELETE", &path, None).status, 204);
        assert!(!phone.is_signed_in() && ann.is_signed_in());
        assert_eq!(ids(&json(&ann.api("GET", &path, None))).len(), 0);
        let entries =
            server.runtime.block_on(server.store().audit_before(server.main.id, i64::MAX, 2)).unwrap();
        for (entry, action) in entries.iter().zip(["auth.sign_out_everywhere", "auth.sign_out"]) {
            assert_eq!((entry.action.as_str(), entry.subject.clone()), (action, format!("user:{}", bob.id)));
            assert_eq!(entry.actor.as_str(), format!("user:{}", admin.id), "an admin's act");
        }
    })
    .await;
}

/// Hostile inputs, S43.
///
/// A stolen key must not keep its owner from signing in and revoking it.
async fn keys_list_sessions_and_only_those_of_admins_end_them(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let bob = member(&server, &server.main, Role::Member, "bob@example.com");
        let mut browser = signed_in(server.address, "bob@example.com");
        let key = server.key(&server.main, Some(&bob), Role::Member.scopes());
        let list = key.get("/me/sessions").expect(200).json();
        assert_eq!((ids(&list).len(), &list["data"][0]["current"]), (1, &Value::Bool(false)));
        let one = format!("/me/sessions/{}", ids(&list)[0]);
        key.get(&one).expect(200);
        key.delete(&one).refused(403, "FORBIDDEN");
        key.delete("/me/sessions").refused(403, "FORBIDDEN");
        let root = server.root();
        root.get("/me/sessions").refused(403, "FORBIDDEN");
        root.delete("/me/sessions").refused(403, "FORBIDDEN");
        assert!(browser.is_signed_in());
        let admin = ann(&server);
        let key = server.key(&server.main, Some(&admin), Scopes::new(&[Scope::WorkspaceAdmin]));
        let mut browser = signed_in(server.address, "ann@example.com");
        key.delete("/me/sessions").expect(204);
        assert!(!browser.is_signed_in());
    })
    .await;
}
