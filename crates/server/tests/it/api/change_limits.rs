//! Limits on changes that hold whoever makes them: members and keys made for the purpose, removals, and accounts deleted with their links.

use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Preset, Role, Scope, Scopes};
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse};
use crate::support::browser::signed_in;
use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, TestServer, ann, owner, preset, with_configured_server};
use crate::support::raw_client::{RawConnection, wait_until};
use crate::support::server::operator_in;

contract!(
    invited_members_count_together_with_whoever_invited_them,
    keys_made_for_others_count_for_their_maker_too,
    workspace_is_limited_at_ten_times_the_figure,
    removals_over_the_limit_are_refused_and_audited_once,
    bulk_items_over_the_limit_get_429_in_their_result,
    key_without_links_delete_cannot_delete_a_platform_member,
    key_cannot_delete_an_account_with_more_links_than_it_may_remove,
    account_deletion_goes_on_when_the_client_hangs_up,
);

const LIMIT: u32 = 5;

fn limited(config: &mut rlinks_server::Config) {
    config.target_changes_per_minute = LIMIT;
    config.removals_per_minute = LIMIT;
}

fn links(server: &TestServer, count: usize) {
    let root = server.root();
    for number in 0..count {
        let body = json!({ "code": format!("link-{number}"), "target": "https://example.com/" });
        root.post("/links", &body).expect(201);
    }
}

fn point(person: &ApiUser, number: usize) -> ApiResponse {
    person.patch(&format!("/links/link-{number}"), &json!({ "target": "https://evil.example/" }))
}

fn disable(person: &ApiUser, number: usize) -> ApiResponse {
    person.patch(&format!("/links/link-{number}"), &json!({ "state": "disabled" }))
}

fn delete(person: &ApiUser, number: usize) -> ApiResponse {
    person.delete(&format!("/links/link-{number}"))
}

/// What the log says of stops, newest first.
fn stops(server: &TestServer) -> Vec<Value> {
    let entries = server.root().get("/audit?limit=100").expect(200).json();
    let entries = entries["data"].as_array().unwrap().clone();
    entries.into_iter().filter(|entry| entry["action"] == "auth.brake").collect()
}

/// Somebody whom an admin has invited, with a key of theirs.
fn invited_by(server: &TestServer, admin: &ApiUser, email: &str) -> ApiUser {
    let invited = admin.post("/users", &json!({ "email": email, "role": "admin" })).expect(201).json();
    let member = server.ops.member(&server.main, invited["id"].as_str().unwrap());
    let user = server.runtime.block_on(member).unwrap();
    server.key(&server.main, Some(&user), Scopes::ALL)
}

/// Hostile inputs, S43.
async fn invited_members_count_together_with_whoever_invited_them(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 10);
        let thief = server.admin();
        let child = invited_by(&server, &thief, "child@example.com");
        let grandchild = invited_by(&server, &child, "grandchild@example.com");
        for (number, person) in [&thief, &child, &grandchild, &child, &grandchild].into_iter().enumerate() {
            point(person, number).expect(200);
        }
        for person in [&grandchild, &child, &thief] {
            let refused = point(person, 9);
            refused.refused(429, "RATE_LIMITED");
            assert!(refused.header("retry-after").is_some(), "{refused:?}");
        }
        // It is one stop, of the one who began.
        let stops = stops(&server);
        assert_eq!(stops.len(), 1, "{stops:?}");
        assert_eq!(stops[0]["after"]["principal"], owner(&thief));
        // Whom the operator made counts for themselves.
        point(&server.admin(), 9).expect(200);
    })
    .await;
}

/// Hostile inputs, S43.
async fn keys_made_for_others_count_for_their_maker_too(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 10);
        let thief = server.admin();
        let keys: Vec<ApiUser> = (0..3)
            .map(|_| {
                let victim = server.member();
                let body = json!({ "name": "another", "user": victim.user_id() });
                let made = thief.post("/keys", &body).expect(201).json();
                let key = Some(made["key"].as_str().unwrap().to_owned());
                ApiUser { caller: ApiClient { key, ..victim.caller.clone() }, ..victim }
            })
            .collect();
        for number in 0..5 {
            point(&keys[number % 2], number).expect(200);
        }
        for person in [&keys[0], &keys[1], &keys[2], &thief] {
            point(person, 9).refused(429, "RATE_LIMITED");
        }
    })
    .await;
}

/// Hostile inputs, S43.
async fn workspace_is_limited_at_ten_times_the_figure(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 60);
        for person in 0..10 {
            let member = server.member();
            for number in 0..5 {
                point(&member, person * 5 + number).expect(200);
            }
        }
        let (eleventh, twelfth) = (server.member(), server.member());
        point(&eleventh, 55).refused(429, "RATE_LIMITED");
        let refused = point(&twelfth, 56);
        refused.refused(429, "RATE_LIMITED");
        assert!(refused.answer.body.contains("in this workspace together"), "{refused:?}");
        let stops = stops(&server);
        assert_eq!(stops.len(), 1, "{stops:?}");
        assert_eq!(
            (&stops[0]["subject"], &stops[0]["actor"]),
            (&json!("brake:workspace"), &json!(format!("key:{}", eleventh.key_id())),)
        );
        assert_eq!(stops[0]["after"]["target_changes_per_minute"], LIMIT * 10);
        // Nobody of them is stopped for themselves, so they may make keys.
        eleventh.post("/keys", &json!({ "name": "one more" })).expect(201);
        server.advance_ms(61_000);
        point(&eleventh, 55).expect(200);
    })
    .await;
}

/// Hostile inputs, S43.
async fn removals_over_the_limit_are_refused_and_audited_once(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 30);
        let (thief, other) = (server.member(), server.member());
        disable(&thief, 0).expect(200);
        // What is off already is no removal when it is switched off again; deleting it is one.
        disable(&thief, 0).expect(200);
        delete(&thief, 0).expect(204);
        for number in 1..4 {
            delete(&thief, number).expect(204);
        }
        let refused = delete(&thief, 4);
        refused.refused(429, "RATE_LIMITED");
        let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=61).contains(&seconds), "{refused:?}");
        disable(&thief, 5).refused(429, "RATE_LIMITED");
        // Letting it expire soon would take it away just as well; letting it expire some day doesn't.
        let (soon, later) = (server.now().plus_ms(60_000), server.now().plus_ms(40 * 24 * 3_600_000));
        thief.patch("/links/link-5", &json!({ "expires_at": soon })).refused(429, "RATE_LIMITED");
        thief.patch("/links/link-5", &json!({ "expires_at": later })).expect(200);
        let both = json!({ "state": "disabled", "target": "https://evil.example/" });
        thief.patch("/links/link-6", &both).refused(429, "RATE_LIMITED");
        // Everything else goes on, the targets with a count of their own.
        thief.request("POST", "/links/link-0/restore").send().expect(200);
        thief.patch("/links/link-0", &json!({ "state": "active" })).expect(200);
        for number in 10..15 {
            point(&thief, number).expect(200);
        }
        point(&thief, 15).refused(429, "RATE_LIMITED");
        delete(&other, 4).expect(204);
        let stops = stops(&server);
        assert_eq!(stops.len(), 2, "{stops:?}");
        assert_eq!(stops[1]["after"]["removals_per_minute"], LIMIT);
        assert_eq!(
            (&stops[1]["after"]["principal"], &stops[1]["actor"]),
            (&json!(owner(&thief)), &json!(format!("key:{}", thief.key_id())),)
        );
        // The operator is not limited, and after the minute nobody is.
        let operator = operator_in(&server.main);
        for number in 16..30 {
            let code = format!("link-{number}");
            let (state, mode) = (rlinks_core::LinkState::Deleted, rlinks_ops::WriteMode::Apply);
            let deleting = server.ops.change_state(&operator, &code, state, None, mode);
            server.runtime.block_on(deleting).unwrap();
        }
        server.advance_ms(61_000);
        disable(&thief, 5).expect(200);
    })
    .await;
}

async fn bulk_items_over_the_limit_get_429_in_their_result(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 7);
        let (thief, others) = (server.member(), [server.member(), server.member()]);
        for number in 0..7 {
            delete(&others[number % 2], number).expect(204);
        }
        let item = |number| json!({ "code": format!("link-{number}"), "target": "https://evil.example/", "recreate": true });
        let items: Vec<Value> = (0..7).map(item).collect();
        let made = thief.post("/links/bulk", &json!({ "links": items })).expect(200).json();
        let statuses: Vec<u64> =
            made["results"].as_array().unwrap().iter().map(|result| result["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [201, 201, 201, 201, 201, 429, 429], "{made}");
        let error = &made["results"][6]["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!("RATE_LIMITED"), &json!(429)), "{made}");
    })
    .await;
}

/// Somebody of a `platform` workspace with links of their own.
fn owner_of_links(server: &TestServer, name: &str, count: usize) -> ApiUser {
    let member = server.member();
    let items: Vec<Value> = (0..count)
        .map(|number| json!({ "code": format!("{name}-{number}"), "target": "https://example.com/" }))
        .collect();
    member.post("/links/bulk", &json!({ "links": items })).expect(200);
    member
}

async fn key_without_links_delete_cannot_delete_a_platform_member(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Platform), limited, |server| {
        let ann = owner_of_links(&server, "anns", 2);
        let account = format!("/users/{}", ann.user_id());
        let narrow = server.key(&server.main, None, Scopes::new(&[Scope::WorkspaceAdmin]));
        narrow.delete(&account).refused(403, "FORBIDDEN");
        assert_eq!(server.visit("/anns-1").status, 302);
        ann.get("/me").expect(200);
        let wide = Scopes::new(&[Scope::WorkspaceAdmin, Scope::LinksDelete]);
        server.key(&server.main, None, wide).delete(&account).expect(204);
        assert_eq!(server.visit("/anns-1").status, 410);
    })
    .await;
}

async fn key_cannot_delete_an_account_with_more_links_than_it_may_remove(test_store: TestStore) {
    let mut policy = preset(Preset::Platform);
    policy.sign_in.push(SignInMethod::Password);
    with_configured_server(test_store, policy, limited, |server| {
        let (root, boss) = (server.root(), server.root());
        let (many, few) = (owner_of_links(&server, "many", 6), owner_of_links(&server, "few", 3));
        let account = |member: &ApiUser| format!("/users/{}", member.user_id());
        let refused = root.delete(&account(&many));
        refused.refused(429, "RATE_LIMITED");
        assert!(refused.answer.body.contains("delete it from a session"), "{refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        // Nothing was done by halves, and nobody is stopped.
        assert_eq!((server.visit("/many-0").status, server.visit("/many-5").status), (302, 302));
        many.get("/me").expect(200);
        assert!(stops(&server).is_empty());
        // A smaller account goes, and its links count.
        root.delete(&account(&few)).expect(204);
        assert_eq!(server.visit("/few-2").status, 410);
        let next = owner_of_links(&server, "next", 3);
        root.delete(&account(&next)).refused(429, "RATE_LIMITED");
        boss.delete(&account(&next)).expect(204);
        // A session does it whatever the number, and it counts.
        ann(&server);
        let mut admin = signed_in(server.address, "ann@example.com");
        let done = admin.api("DELETE", &account(&many), None);
        assert_eq!(done.status, 204, "{done:?}");
        assert_eq!((server.visit("/many-0").status, server.visit("/many-5").status), (410, 410));
        let one = owner_of_links(&server, "one", 1);
        let refused = admin.api("DELETE", "/links/one-0", None);
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(one.get("/links/one-0").expect(200).json()["state"], "active");
    })
    .await;
}

async fn account_deletion_goes_on_when_the_client_hangs_up(test_store: TestStore) {
    let unlimited = |config: &mut rlinks_server::Config| config.removals_per_minute = 0;
    let mut policy = preset(Preset::Platform);
    policy.limits.creations_per_hour = None;
    with_configured_server(test_store, policy, unlimited, |server| {
        let (root, ann) = (server.person(&server.main, Role::Admin), owner_of_links(&server, "anns", 900));
        let account = format!("/users/{}", ann.user_id());
        let mut connection = RawConnection::new(server.address);
        connection.send(format!(
            "DELETE /api/v1{account} HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {}\r\nContent-Length: 0\r\n\r\n",
            root.secret()
        ));
        wait_until("the account is gone", || ann.get("/me").status() == 401);
        drop(connection);
        wait_until("every link is gone", || {
            root.get("/links?state=active").expect(200).json()["total"] == 0
        });
    })
    .await;
}
