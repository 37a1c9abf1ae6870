//! `Idempotency-Key`: a request that is repeated is done once.

use rlinks_core::{Policy, Preset, Scopes};
use serde_json::{Value, json};

use super::caller::{Caller, Reply, at_once};
use super::house::{House, in_house, preset};
use crate::database::{Place, contract};

contract!(
    the_same_request_gets_the_first_answer_again,
    twenty_at_once_make_one_link,
    the_first_answer_outlives_the_server,
);

fn post(caller: &Caller, key: &str, body: &Value) -> Reply {
    caller.ask("POST", "/links").header("Idempotency-Key", key).json(body).send()
}

/// Whether it says that it is an answer given before.
fn is_replayed(reply: &Reply) -> bool {
    reply.header("idempotency-replayed") == Some("true")
}

async fn the_same_request_gets_the_first_answer_again(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
        let body = json!({"target": "https://example.com/", "title": "One", "expires_at": house.now().plus_ms(60_000).to_string()});
        let first = post(&member, "k1", &body).expect(201);
        assert!(!is_replayed(&first), "{first:?}");
        let code = first.json()["code"].as_str().unwrap().to_owned();
        // What happened since changes nothing about what was answered; nor do the order of fields and white space.
        member.patch(&format!("/links/{code}"), &json!({"title": "Two"})).expect(200);
        let other_order = format!("{{ \"title\":\"One\",  \"expires_at\":{}, \"target\":\"https://example.com/\" }}", body["expires_at"]);
        let again = [
            post(&member, "k1", &body),
            member.ask("POST", "/links").header("Idempotency-Key", "k1").body("application/json", other_order.into_bytes()).send(),
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
        let made = post(&house.member(), "k1", &json!({"target": "https://example.com/theirs"})).expect(201);
        assert!(!is_replayed(&made), "{made:?}");
        // Two keys of one person are one caller.
        let second = house.key(&house.main, member.user.as_ref(), Scopes::ALL);
        assert!(is_replayed(&post(&second, "k1", &body).expect(201)));

        // The link has expired by now; the answer is still the first one's link.
        house.advance_ms(3_600_000);
        let late = post(&member, "k1", &body).expect(201);
        assert!(is_replayed(&late) && late.json()["id"] == first.json()["id"], "{late:?}");
        // After a day the key is free.
        house.advance_ms(24 * 3_600_000);
        let fresh = json!({"target": "https://example.com/"});
        let anew = post(&member, "k2", &fresh).expect(201);
        assert!(!is_replayed(&anew), "{anew:?}");
    })
    .await;
}

async fn twenty_at_once_make_one_link(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
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

async fn the_first_answer_outlives_the_server(place: Place) {
    in_house(place, preset(Preset::Fabric), |mut house| {
        let mut member = house.member();
        let body = json!({"target": "https://example.com/"});
        let first = post(&member, "kept", &body).expect(201).json();
        house.restart();
        member.caller.address = house.address;
        let again = post(&member, "kept", &body).expect(201);
        assert!(is_replayed(&again) && again.json() == first, "{again:?}");
        post(&member, "kept", &json!({"target": "https://example.com/x"})).refused(409, "CONFLICT");
    })
    .await;
}

#[test]
fn a_key_is_a_short_text() {
    let house = House::new(Preset::Fabric);
    let member = house.member();
    let body = json!({"target": "https://example.com/"});
    for bad in ["", " ", &"k".repeat(256), "ä"] {
        assert_eq!(post(&member, bad, &body).fields(), ["Idempotency-Key: bad_characters"], "{bad:?}");
    }
    post(&member, &"k".repeat(255), &body).expect(201);
}

/// A repeated request is no creation, so it is not refused where creations are used up.
#[test]
fn a_repeated_request_is_answered_though_the_limit_is_reached() {
    let mut policy = Policy::preset(Preset::Platform);
    policy.limits.creations_per_hour = Some(1);
    let house = House::at(Place::sqlite(), policy, |_| ());
    let member = house.member();
    let body = json!({"target": "https://example.com/"});
    let first = post(&member, "k", &body).expect(201);
    member.post("/links", &body).refused(429, "RATE_LIMITED");
    let again = post(&member, "k", &body).expect(201);
    assert!(is_replayed(&again) && again.json() == first.json(), "{again:?}");
}
