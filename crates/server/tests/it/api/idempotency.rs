//! `Idempotency-Key`: a request that is repeated is done once.

use rlinks_core::{Policy, Preset, Scopes};
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse, at_once};
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};

contract!(
    repeated_request_replays_the_first_response,
    concurrent_repeats_make_one_link,
    replayed_response_survives_a_restart,
);

fn post(caller: &ApiClient, key: &str, body: &Value) -> ApiResponse {
    caller.request("POST", "/links").header("Idempotency-Key", key).json(body).send()
}

/// Whether it says that it is an answer given before.
fn is_replayed(reply: &ApiResponse) -> bool {
    reply.header("idempotency-replayed") == Some("true")
}

async fn repeated_request_replays_the_first_response(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let body = json!({"target": "https://example.com/", "title": "One", "expires_at": server.now().plus_ms(60_000).to_string()});
        let first = post(&member, "k1", &body).expect(201);
        assert!(!is_replayed(&first), "{first:?}");
        let code = first.json()["code"].as_str().unwrap().to_owned();
        // What happened since changes nothing about what was answered; nor do the order of fields and white space.
        member.patch(&format!("/links/{code}"), &json!({"title": "Two"})).expect(200);
        let other_order = format!("{{ \"title\":\"One\",  \"expires_at\":{}, \"target\":\"https://example.com/\" }}", body["expires_at"]);
        let again = [
            post(&member, "k1", &body),
            member.request("POST", "/links").header("Idempotency-Key", "k1").body("application/json", other_order.into_bytes()).send(),
        ];
        for again in again {
            let again = again.expect(201);
            assert!(is_replayed(&again), "{again:?}");
            assert_eq!(again.json(), first.json());
            assert_eq!((again.header("location"), again.header("etag")), (first.header("location"), first.header("etag")));
        }
        // Served as it is, not as it was answered.
        assert_eq!(member.get(&format!("/links/{code}")).expect(200).json()["title"], "Two");
        post(&member, "k1", &json!({"target": "https://example.com/other"})).refused(409, "CONFLICT");
        // A refused request is no answer to keep.
        post(&member, "k2", &json!({"target": "nowhere"})).refused(400, "VALIDATION_FAILED");
        post(&member, "k2", &json!({"target": "https://example.com/k2"})).expect(201);

        // Two callers may choose the same key.
        let made = post(&server.member(), "k1", &json!({"target": "https://example.com/theirs"})).expect(201);
        assert!(!is_replayed(&made), "{made:?}");
        // Two keys of one person are one caller.
        let second = server.key(&server.main, member.user.as_ref(), Scopes::ALL);
        assert!(is_replayed(&post(&second, "k1", &body).expect(201)));

        // The link has expired by now; the answer is still the first one's link.
        server.advance_ms(3_600_000);
        let late = post(&member, "k1", &body).expect(201);
        assert!(is_replayed(&late) && late.json()["id"] == first.json()["id"], "{late:?}");
        // After a day the key is free.
        server.advance_ms(24 * 3_600_000);
        let fresh = json!({"target": "https://example.com/"});
        let anew = post(&member, "k2", &fresh).expect(201);
        assert!(!is_replayed(&anew), "{anew:?}");
    })
    .await;
}

async fn concurrent_repeats_make_one_link(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let body = json!({"target": "https://example.com/"});
        let replies = at_once(20, |_| post(&member, "same", &body));
        assert!(replies.iter().all(|reply| reply.status() == 201), "{replies:?}");
        assert_eq!(replies.iter().filter(|reply| !is_replayed(reply)).count(), 1);
        let first = replies[0].json();
        assert!(replies.iter().all(|reply| reply.json() == first), "{replies:?}");
        assert_eq!(member.get("/links").expect(200).json()["total"], 1);
    })
    .await;
}

async fn replayed_response_survives_a_restart(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |mut server| {
        let mut member = server.member();
        let body = json!({"target": "https://example.com/"});
        let first = post(&member, "kept", &body).expect(201).json();
        server.restart();
        member.caller.address = server.address;
        let again = post(&member, "kept", &body).expect(201);
        assert!(is_replayed(&again) && again.json() == first, "{again:?}");
        post(&member, "kept", &json!({"target": "https://example.com/x"})).refused(409, "CONFLICT");
    })
    .await;
}

#[test]
fn malformed_idempotency_key_is_rejected() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let body = json!({"target": "https://example.com/"});
    for bad in ["", " ", &"k".repeat(256), "ä"] {
        assert_eq!(post(&member, bad, &body).fields(), ["Idempotency-Key: bad_characters"], "{bad:?}");
    }
    post(&member, &"k".repeat(255), &body).expect(201);
}

/// A repeated request is no creation, so it is not refused where creations are used up.
#[test]
fn repeated_request_is_replayed_over_the_rate_limit() {
    let mut policy = Policy::preset(Preset::Platform);
    policy.limits.creations_per_hour = Some(1);
    let server = TestServer::at(TestStore::sqlite(), policy, |_| ());
    let member = server.member();
    let body = json!({"target": "https://example.com/"});
    let first = post(&member, "k", &body).expect(201);
    member.post("/links", &body).refused(429, "RATE_LIMITED");
    let again = post(&member, "k", &body).expect(201);
    assert!(is_replayed(&again) && again.json() == first.json(), "{again:?}");
}
