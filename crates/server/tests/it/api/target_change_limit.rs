//! The brake: whoever changes too many targets within a minute is stopped, everywhere, and the log says so once.

use rlinks_core::draft::Input;
use rlinks_core::{Preset, Role, Scopes};
use rlinks_ops::{Caller, OpsError};
use rlinks_store::StoreError;
use serde_json::json;

use crate::support::api_client::{ApiClient, ApiResponse, at_once};
use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, TestServer, owner, preset, with_configured_server};
use crate::support::server::operator_in;

contract!(
    target_changes_over_the_limit_are_refused_and_audited_once,
    concurrent_target_changes_stop_at_the_limit,
    all_nodes_share_the_limit,
    recreating_links_counts_towards_the_limit,
    keys_created_by_a_key_share_its_limit,
);

const LIMIT: u32 = 5;

fn limited(config: &mut rlinks_server::Config) {
    config.target_changes_per_minute = LIMIT;
}

fn links(server: &TestServer, count: usize) {
    let root = server.root();
    for number in 0..count {
        let body = json!({ "code": format!("link-{number}"), "target": "https://example.com/" });
        root.post("/links", &body).expect(201);
    }
}

fn point(person: &ApiUser, number: usize, place: &str) -> ApiResponse {
    person.patch(&format!("/links/link-{number}"), &json!({ "target": format!("https://{place}.example/") }))
}

fn stops(server: &TestServer) -> usize {
    server.actions().iter().filter(|action| *action == "auth.brake").count()
}

async fn target_changes_over_the_limit_are_refused_and_audited_once(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 20);
        let (thief, other) = (server.member(), server.member());
        let user = thief.user.clone().unwrap();
        let second = server.key(&server.main, Some(&user), Scopes::ALL);
        for number in 0..5 {
            point(&thief, number, "evil").expect(200);
            // What changes nothing, and what changes something else, does not count.
            point(&thief, number, "evil").expect(200);
            thief.patch(&format!("/links/link-{number}"), &json!({"title": "x"})).expect(200);
        }
        let refused = point(&thief, 5, "evil");
        refused.refused(429, "RATE_LIMITED");
        let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=61).contains(&seconds), "{refused:?}");
        // Every further one, with every key of theirs; the rest of their work and that of others goes on.
        for number in 5..10 {
            point(&thief, number, "evil").refused(429, "RATE_LIMITED");
            point(&second, number, "evil").refused(429, "RATE_LIMITED");
        }
        thief.patch("/links/link-9", &json!({"title": "mine"})).expect(200);
        thief.post("/links", &json!({"target": "https://example.com/new"})).expect(201);
        point(&other, 9, "other").expect(200);
        assert_eq!(stops(&server), 1, "{:?}", server.actions());
        let admin = server.admin();
        let entries = admin.get("/audit").expect(200).json();
        let entry = entries["data"].as_array().unwrap().iter().find(|entry| entry["action"] == "auth.brake");
        let entry = entry.unwrap();
        assert_eq!(entry["actor"], format!("key:{}", thief.key_id()));
        assert_eq!(entry["subject"], format!("brake:{}", owner(&thief)));
        assert_eq!(entry["after"]["target_changes_per_minute"], LIMIT);
        // After the minute it begins anew; a second stop is a second entry.
        server.advance_ms(59_000);
        point(&thief, 5, "evil").refused(429, "RATE_LIMITED");
        server.advance_ms(1_500);
        for number in 5..10 {
            point(&thief, number, "late").expect(200);
        }
        point(&thief, 10, "late").refused(429, "RATE_LIMITED");
        assert_eq!(stops(&server), 2);
        // The minute slides: what was changed at its end counts in the next one.
        server.advance_ms(120_000);
        point(&thief, 10, "once").expect(200);
        server.advance_ms(50_000);
        for number in 11..15 {
            point(&thief, number, "slid").expect(200);
        }
        server.advance_ms(9_000);
        point(&thief, 15, "slid").refused(429, "RATE_LIMITED");
        server.runtime.block_on(async {
            server.store().verify(&[]).await.unwrap().unwrap();
        });
    })
    .await;
}

async fn concurrent_target_changes_stop_at_the_limit(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 40);
        let thief = server.root();
        let replies = at_once(40, |number| point(&thief, number, "evil"));
        let made = replies.iter().filter(|reply| reply.status() == 200).count();
        let refused = replies.iter().filter(|reply| reply.status() == 429).count();
        assert_eq!((made, refused), (5, 35), "{replies:?}");
        assert_eq!(stops(&server), 1);
        let listed = thief.get("/links?search=evil").expect(200).json();
        assert_eq!(listed["total"], 5);
    })
    .await;
}

async fn all_nodes_share_the_limit(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 20);
        let thief = server.person(&server.main, Role::Admin);
        for number in 0..3 {
            point(&thief, number, "evil").expect(200);
        }
        // What another server on the same store would do for them.
        let there = server.other_ops(|settings| settings.target_changes_per_minute = LIMIT);
        let user = thief.user.clone().unwrap();
        let theirs = Caller::from_token(user, server.main.clone(), server.now().plus_ms(60_000));
        let change = |by: &Caller, number: usize| {
            let input = Input { target: Some("https://evil.example/".to_owned()), ..Input::default() };
            let code = format!("link-{number}");
            server.runtime.block_on(there.patch(by, &code, &input, None))
        };
        change(&theirs, 3).unwrap();
        change(&theirs, 4).unwrap();
        let refused = change(&theirs, 5);
        assert!(matches!(refused, Err(OpsError::Store(StoreError::RateLimited { .. }))), "{refused:?}");
        point(&thief, 6, "evil").refused(429, "RATE_LIMITED");
        assert_eq!(stops(&server), 1);
        // The operator is not stopped.
        let operator = operator_in(&server.main);
        for number in 0..20 {
            change(&operator, number).unwrap();
        }
    })
    .await;
}

async fn recreating_links_counts_towards_the_limit(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 10);
        let thief = server.root();
        let anew = |number: usize| {
            let code = format!("link-{number}");
            thief.delete(&format!("/links/{code}")).expect(204);
            thief.post("/links", &json!({"code": code, "target": "https://evil.example/", "recreate": true}))
        };
        for number in 0..5 {
            anew(number).expect(201);
        }
        anew(5).refused(429, "RATE_LIMITED");
        assert_eq!(stops(&server), 1);
    })
    .await;
}

async fn keys_created_by_a_key_share_its_limit(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), limited, |server| {
        links(&server, 20);
        let made_by = |maker: &ApiUser| {
            let body = json!({"name": "another", "scopes": Scopes::ALL});
            let made = maker.post("/keys", &body).expect(201).json();
            let caller =
                ApiClient { key: Some(made["key"].as_str().unwrap().to_owned()), ..maker.caller.clone() };
            ApiUser { caller, ..maker.clone() }
        };
        let thief = server.root();
        let child = made_by(&thief);
        let grandchild = made_by(&child);
        for number in 0..2 {
            point(&thief, number, "evil").expect(200);
            point(&child, number + 2, "evil").expect(200);
        }
        point(&grandchild, 4, "evil").expect(200);
        for person in [&thief, &child, &grandchild] {
            point(person, 5, "evil").refused(429, "RATE_LIMITED");
            // Nor do they make keys now, for themselves or for others.
            let refused = person.post("/keys", &json!({"name": "one more"}));
            refused.refused(429, "RATE_LIMITED");
            assert!(refused.header("retry-after").is_some(), "{refused:?}");
            person.post(&format!("/keys/{}/rotate", thief.key_id()), &json!({})).refused(429, "RATE_LIMITED");
        }
        assert_eq!(stops(&server), 1);
        point(&server.root(), 5, "other").expect(200);
        server.advance_ms(61_000);
        point(&made_by(&grandchild), 5, "late").expect(200);
    })
    .await;
}

#[test]
fn limit_can_be_switched_off() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.target_changes_per_minute = 0;
    });
    links(&server, 1);
    let root = server.root();
    for number in 0..150 {
        point(&root, 0, &format!("place-{number}")).expect(200);
    }
    assert_eq!(stops(&server), 0);
}
