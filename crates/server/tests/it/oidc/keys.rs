//! S12 and row 46: names of keys, rotation, an issuer that is away or talks nonsense, and a flood.

use rlinks_core::Role;
use serde_json::{Value, json};

use super::issuer::{Mood, Signing, Stub};
use super::{everybody, house};
use crate::api::caller::{Caller, Reply};
use crate::api::house::House;
use crate::client::wait_until;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

fn with_token(house: &House, token: &str) -> Reply {
    Caller { address: house.address, key: Some(token.to_owned()) }.get("/me")
}

/// A token that is good for a long time.
fn token(stub: &Stub, key: &Signing) -> String {
    let mut claims = stub.claims("ann");
    claims["exp"] = json!(claims["iat"].as_i64().unwrap() + 40 * 24 * 3600);
    key.token(&claims)
}

/// A house that has asked for the keys.
fn ready(stub: &Stub) -> House {
    let house = house(stub, everybody(Role::Member));
    wait_until("the keys were asked for", || stub.asked() == 1);
    house
}

#[test]
fn names_of_keys_are_looked_up_and_nothing_else() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[key.public()]);
    let house = ready(&stub);
    let long = "k".repeat(10_000 / 2);
    for kid in [
        json!("../../etc/passwd"),
        json!("' OR 1=1"),
        json!("http://127.0.0.1/keys"),
        json!("ec\u{0}"),
        json!(""),
        json!(long),
        json!("k".repeat(129)),
        json!(null),
        json!(7),
        json!(["ec"]),
    ] {
        let token = key.token_with(&json!({"alg": "ES256", "kid": kid}), &stub.claims("ann"));
        with_token(&house, &token).refused(401, "UNAUTHENTICATED");
    }
    with_token(&house, &key.token_with(&json!({"alg": "ES256"}), &stub.claims("ann")))
        .refused(401, "UNAUTHENTICATED");
    with_token(&house, &token(&stub, &key)).expect(200);
    assert_eq!(stub.asked(), 1);
}

#[test]
fn five_thousand_unknown_names_ask_the_issuer_twice_a_minute_at_most() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[key.public()]);
    let house = ready(&stub);
    // One connection each would be the test's own flood, so the tokens go through one.
    let mut talk = crate::client::Talk::new(house.address);
    let mut flood = |count: usize, batch: &str| {
        for number in 0..count {
            let kid = format!("{batch}-{number}");
            let header = json!({"alg": "ES256", "kid": kid});
            let token = format!("{}.AAAA", super::issuer::unsigned(&header, "{}"));
            talk.send(format!(
                "GET /api/v1/me HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {token}\r\n\r\n"
            ));
            let answer = talk.answer().unwrap_or_else(|| panic!("closed after {number}"));
            assert_eq!(answer.status, 401, "{answer:?}");
        }
    };
    flood(2500, "a");
    house.advance_ms(30 * SECOND);
    flood(2500, "b");
    assert!(stub.asked() <= 2, "{}", stub.asked());
    assert_eq!(house.key_fetches(), stub.asked());
    // And whoever has a good one never notices.
    with_token(&house, &token(&stub, &key)).expect(200);
}

#[test]
fn a_name_the_issuer_did_not_know_is_not_asked_for_again_for_a_while() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[key.public()]);
    let house = ready(&stub);
    let stranger = Signing::ec("stranger");
    house.advance_ms(31 * SECOND);
    with_token(&house, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    assert_eq!(stub.asked(), 2);
    for _ in 0..4 {
        house.advance_ms(31 * SECOND);
        with_token(&house, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    }
    assert_eq!(stub.asked(), 2);
    house.advance_ms(5 * MINUTE);
    with_token(&house, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    assert_eq!(stub.asked(), 3);
}

#[test]
fn a_new_key_is_learned_and_an_old_one_forgotten() {
    let (old, new) = (Signing::ec("2026"), Signing::ec("2027"));
    let stub = Stub::with(&[old.public()]);
    let house = ready(&stub);
    let (with_old, with_new) = (token(&stub, &old), token(&stub, &new));
    with_token(&house, &with_old).expect(200);
    stub.has_keys(&[new.public(), old.public()]);
    house.advance_ms(31 * SECOND);
    with_token(&house, &with_new).expect(200);
    with_token(&house, &with_old).expect(200);
    assert_eq!(stub.asked(), 2);
    // The issuer drops the old one: within ten minutes so do we, without anybody waiting for it.
    stub.has_keys(&[new.public()]);
    with_token(&house, &with_old).expect(200);
    house.advance_ms(10 * MINUTE);
    wait_until("the old key is forgotten", || with_token(&house, &with_old).status() == 401);
    with_token(&house, &with_new).expect(200);
    assert_eq!(stub.asked(), 3);
}

#[test]
fn an_outage_is_lived_through_for_a_day_and_is_never_taken_for_a_bad_token() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[key.public()]);
    let house = ready(&stub);
    let good = token(&stub, &key);
    with_token(&house, &good).expect(200);
    stub.is(Mood::HangsUp);
    for _ in 0..23 {
        house.advance_ms(HOUR);
        with_token(&house, &good).expect(200);
    }
    // An unknown name is refused meanwhile, and asked for again when the issuer may be back.
    let rotated = Signing::ec("rotated");
    let late = token(&stub, &rotated);
    house.advance_ms(31 * SECOND);
    with_token(&house, &late).refused(401, "UNAUTHENTICATED");
    house.advance_ms(2 * HOUR);
    with_token(&house, &good).refused(503, "KV_UNAVAILABLE");
    // Keys of ours need no issuer.
    house.admin().get("/me").expect(200);
    stub.has_keys(&[key.public(), rotated.public()]);
    house.advance_ms(31 * SECOND);
    with_token(&house, &good).expect(200);
    with_token(&house, &late).expect(200);
}

#[test]
fn an_issuer_that_is_away_from_the_beginning_is_found_when_it_comes() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[]);
    stub.is(Mood::HangsUp);
    let house = ready(&stub);
    let good = token(&stub, &key);
    wait_until("the first try has failed", || {
        with_token(&house, &good).refused(503, "KV_UNAVAILABLE");
        stub.asked() == 1
    });
    stub.has_keys(&[key.public()]);
    house.advance_ms(31 * SECOND);
    with_token(&house, &good).expect(200);
}

#[test]
fn nonsense_instead_of_keys_changes_nothing() {
    let key = Signing::ec("ec");
    let stub = Stub::with(&[key.public()]);
    let house = ready(&stub);
    let good = token(&stub, &key);
    let probe = Signing::ec("probe");
    let with = |name: &str, value: Value| {
        let mut public = probe.public();
        public[name] = value;
        public
    };
    let without_use = {
        let mut public = probe.public();
        public.as_object_mut().unwrap().remove("use");
        public
    };
    let json_type = "Content-Type: application/json\r\n";
    let document = json!({"keys": [probe.public()]}).to_string();
    let moods = [
        Mood::Answers("500 Internal Server Error", "", Vec::new()),
        Mood::Answers("500 Internal Server Error", json_type, document.clone().into_bytes()),
        Mood::Answers("302 Found", "Location: /.well-known/openid-configuration\r\n", Vec::new()),
        Mood::Answers("200 OK", "Content-Type: text/html\r\n", b"<html>Sign in</html>".to_vec()),
        Mood::Answers("200 OK", json_type, vec![b' '; 3 << 20]),
        Mood::Answers("200 OK", json_type, document.as_bytes()[..document.len() / 2].to_vec()),
        Mood::Says("{\"keys\":[]}".to_owned()),
        Mood::Says("{\"keys\":{}}".to_owned()),
        Mood::Says("[]".to_owned()),
        // Two keys of one name; not for signatures; for an algorithm that is not ours; not a point; a shared secret.
        Mood::Says(json!({"keys": [probe.public(), Signing::ec("probe").public()]}).to_string()),
        Mood::Says(json!({"keys": [with("use", json!("enc"))]}).to_string()),
        Mood::Says(json!({"keys": [without_use]}).to_string()),
        Mood::Says(json!({"keys": [with("alg", json!("ES384"))]}).to_string()),
        Mood::Says(json!({"keys": [with("alg", json!("HS256"))]}).to_string()),
        Mood::Says(json!({"keys": [with("kty", json!("oct"))]}).to_string()),
        Mood::Says(json!({"keys": [with("kid", json!("p".repeat(129)))]}).to_string()),
        Mood::Says(
            json!({"keys": (0..65).map(|_| json!({"kty": "x"})).chain([probe.public()]).collect::<Vec<_>>()})
                .to_string(),
        ),
        Mood::HangsUp,
    ];
    let token_of_probe = token(&stub, &probe);
    for mood in moods {
        let before = stub.asked();
        let what = format!("{mood:?}").chars().take(120).collect::<String>();
        stub.is(mood);
        house.advance_ms(31 * SECOND);
        assert_eq!(with_token(&house, &token_of_probe).status(), 401, "{what}");
        assert_eq!(stub.asked(), before + 1, "{what}");
        assert_eq!(with_token(&house, &good).status(), 200, "{what}");
    }
    stub.has_keys(&[key.public(), probe.public()]);
    house.advance_ms(31 * SECOND);
    with_token(&house, &token_of_probe).expect(200);
}
