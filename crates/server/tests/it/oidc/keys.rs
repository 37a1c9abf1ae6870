//! Hostile inputs, S12; faults, row 46: names of keys, rotation, an issuer that is away or talks nonsense, and a flood.

use rlinks_core::Role;
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse};
use crate::support::members::TestServer;
use crate::support::oidc_issuer::{IssuerBehavior, SigningKey, StubIssuer, everybody, oidc_server};
use crate::support::raw_client::wait_until;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

fn with_token(server: &TestServer, token: &str) -> ApiResponse {
    ApiClient { address: server.address, key: Some(token.to_owned()) }.get("/me")
}

/// A token that is good for a long time.
fn token(stub: &StubIssuer, key: &SigningKey) -> String {
    let mut claims = stub.claims("ann");
    claims["exp"] = json!(claims["iat"].as_i64().unwrap() + 40 * 24 * 3600);
    key.token(&claims)
}

/// A server that has asked for the keys.
fn ready(stub: &StubIssuer) -> TestServer {
    let server = oidc_server(stub, everybody(Role::Member));
    wait_until("the keys were asked for", || stub.asked() == 1);
    server
}

#[test]
fn hostile_kid_values_are_rejected() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = ready(&stub);
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
        with_token(&server, &token).refused(401, "UNAUTHENTICATED");
    }
    with_token(&server, &key.token_with(&json!({"alg": "ES256"}), &stub.claims("ann")))
        .refused(401, "UNAUTHENTICATED");
    with_token(&server, &token(&stub, &key)).expect(200);
    assert_eq!(stub.asked(), 1);
}

#[test]
fn unknown_kids_fetch_keys_at_most_twice_a_minute() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = ready(&stub);
    // One connection each would be the test's own flood, so the tokens go through one.
    let mut connection = crate::support::raw_client::RawConnection::new(server.address);
    let mut flood = |count: usize, batch: &str| {
        for number in 0..count {
            let kid = format!("{batch}-{number}");
            let header = json!({"alg": "ES256", "kid": kid});
            let token = format!("{}.AAAA", crate::support::oidc_issuer::unsigned(&header, "{}"));
            connection.send(format!(
                "GET /api/v1/me HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {token}\r\n\r\n"
            ));
            let answer = connection.next_response().unwrap_or_else(|| panic!("closed after {number}"));
            assert_eq!(answer.status, 401, "{answer:?}");
        }
    };
    flood(2500, "a");
    server.advance_ms(30 * SECOND);
    flood(2500, "b");
    assert!(stub.asked() <= 2, "{}", stub.asked());
    assert_eq!(server.key_fetches(), stub.asked());
    // And whoever has a good one never notices.
    with_token(&server, &token(&stub, &key)).expect(200);
}

#[test]
fn unknown_kid_is_not_fetched_again_for_a_while() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = ready(&stub);
    let stranger = SigningKey::ec("stranger");
    server.advance_ms(31 * SECOND);
    with_token(&server, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    assert_eq!(stub.asked(), 2);
    for _ in 0..4 {
        server.advance_ms(31 * SECOND);
        with_token(&server, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    }
    assert_eq!(stub.asked(), 2);
    server.advance_ms(5 * MINUTE);
    with_token(&server, &token(&stub, &stranger)).refused(401, "UNAUTHENTICATED");
    assert_eq!(stub.asked(), 3);
}

#[test]
fn rotated_key_is_learned_and_the_old_one_dropped() {
    let (old, new) = (SigningKey::ec("2026"), SigningKey::ec("2027"));
    let stub = StubIssuer::with(&[old.public()]);
    let server = ready(&stub);
    let (with_old, with_new) = (token(&stub, &old), token(&stub, &new));
    with_token(&server, &with_old).expect(200);
    stub.has_keys(&[new.public(), old.public()]);
    server.advance_ms(31 * SECOND);
    with_token(&server, &with_new).expect(200);
    with_token(&server, &with_old).expect(200);
    assert_eq!(stub.asked(), 2);
    // The issuer drops the old one: within ten minutes so do we, without anybody waiting for it.
    stub.has_keys(&[new.public()]);
    with_token(&server, &with_old).expect(200);
    server.advance_ms(10 * MINUTE);
    wait_until("the old key is forgotten", || with_token(&server, &with_old).status() == 401);
    with_token(&server, &with_new).expect(200);
    assert_eq!(stub.asked(), 3);
}

#[test]
fn provider_outage_is_bridged_for_a_day_and_never_reported_as_a_bad_token() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = ready(&stub);
    let good = token(&stub, &key);
    with_token(&server, &good).expect(200);
    stub.set_behavior(IssuerBehavior::Disconnects);
    for _ in 0..23 {
        server.advance_ms(HOUR);
        with_token(&server, &good).expect(200);
    }
    // An unknown name is refused meanwhile, and asked for again when the issuer may be back.
    let rotated = SigningKey::ec("rotated");
    let late = token(&stub, &rotated);
    server.advance_ms(31 * SECOND);
    with_token(&server, &late).refused(401, "UNAUTHENTICATED");
    server.advance_ms(2 * HOUR);
    with_token(&server, &good).refused(503, "KV_UNAVAILABLE");
    // Keys of ours need no issuer.
    server.admin().get("/me").expect(200);
    stub.has_keys(&[key.public(), rotated.public()]);
    server.advance_ms(31 * SECOND);
    with_token(&server, &good).expect(200);
    with_token(&server, &late).expect(200);
}

#[test]
fn provider_unreachable_at_the_start_is_used_once_available() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[]);
    stub.set_behavior(IssuerBehavior::Disconnects);
    let server = ready(&stub);
    let good = token(&stub, &key);
    wait_until("the first try has failed", || {
        with_token(&server, &good).refused(503, "KV_UNAVAILABLE");
        stub.asked() == 1
    });
    stub.has_keys(&[key.public()]);
    server.advance_ms(31 * SECOND);
    with_token(&server, &good).expect(200);
}

#[test]
fn malformed_key_sets_are_ignored() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = ready(&stub);
    let good = token(&stub, &key);
    let probe = SigningKey::ec("probe");
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
        IssuerBehavior::Raw("500 Internal Server Error", "", Vec::new()),
        IssuerBehavior::Raw("500 Internal Server Error", json_type, document.clone().into_bytes()),
        IssuerBehavior::Raw("302 Found", "Location: /.well-known/openid-configuration\r\n", Vec::new()),
        IssuerBehavior::Raw("200 OK", "Content-Type: text/html\r\n", b"<html>Sign in</html>".to_vec()),
        IssuerBehavior::Raw("200 OK", json_type, vec![b' '; 3 << 20]),
        IssuerBehavior::Raw("200 OK", json_type, document.as_bytes()[..document.len() / 2].to_vec()),
        IssuerBehavior::Json("{\"keys\":[]}".to_owned()),
        IssuerBehavior::Json("{\"keys\":{}}".to_owned()),
        IssuerBehavior::Json("[]".to_owned()),
        // Two keys of one name; not for signatures; for an algorithm that is not ours; not a point; a shared secret.
        IssuerBehavior::Json(json!({"keys": [probe.public(), SigningKey::ec("probe").public()]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [with("use", json!("enc"))]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [without_use]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [with("alg", json!("ES384"))]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [with("alg", json!("HS256"))]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [with("kty", json!("oct"))]}).to_string()),
        IssuerBehavior::Json(json!({"keys": [with("kid", json!("p".repeat(129)))]}).to_string()),
        IssuerBehavior::Json(
            json!({"keys": (0..65).map(|_| json!({"kty": "x"})).chain([probe.public()]).collect::<Vec<_>>()})
                .to_string(),
        ),
        IssuerBehavior::Disconnects,
    ];
    let token_of_probe = token(&stub, &probe);
    for behavior in moods {
        let before = stub.asked();
        let what = format!("{behavior:?}").chars().take(120).collect::<String>();
        stub.set_behavior(behavior);
        server.advance_ms(31 * SECOND);
        assert_eq!(with_token(&server, &token_of_probe).status(), 401, "{what}");
        assert_eq!(stub.asked(), before + 1, "{what}");
        assert_eq!(with_token(&server, &good).status(), 200, "{what}");
    }
    stub.has_keys(&[key.public(), probe.public()]);
    server.advance_ms(31 * SECOND);
    with_token(&server, &token_of_probe).expect(200);
}
