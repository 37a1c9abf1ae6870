//! Hostile inputs, S11 and S13: what is no access token of the issuer for us.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use rlinks_core::{Role, Scopes};
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse};
use crate::support::members::TestServer;
use crate::support::oidc_issuer::{
    AUDIENCE, CLIENT, SigningKey, StubIssuer, everybody, oidc_server, settings, unsigned,
};

fn with_token(server: &TestServer, token: &str) -> ApiResponse {
    ApiClient { address: server.address, key: Some(token.to_owned()) }.get("/me")
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[test]
fn valid_access_token_opens_the_api() {
    let (rsa, ec) = (SigningKey::rsa("rsa"), SigningKey::ec("ec"));
    let stub = StubIssuer::with(&[rsa.public(), ec.public()]);
    let server = oidc_server(&stub, everybody(Role::Member));
    for key in [&rsa, &ec] {
        let me = with_token(&server, &key.token(&stub.claims("ann"))).expect(200).json();
        assert_eq!(
            (&me["user"]["email"], &me["workspace"]),
            (&json!("ann@example.com"), &json!("main")),
            "{me}"
        );
        // Plain `JWT` and nothing are what issuers write that do not know RFC 9068.
        for typ in ["JWT", "application/at+jwt", "AT+JWT"] {
            let header = json!({"alg": key.alg(), "kid": key.kid, "typ": typ});
            with_token(&server, &key.token_with(&header, &stub.claims("ann"))).expect(200);
        }
        let header = json!({"alg": key.alg(), "kid": key.kid});
        with_token(&server, &key.token_with(&header, &stub.claims("ann"))).expect(200);
        let several = with(stub.claims("ann"), "aud", json!(["web", AUDIENCE]));
        with_token(&server, &key.token(&several)).expect(200);
    }
    // Keys go on beside it.
    server.key(&server.main, None, Scopes::ALL).get("/me").expect(200);
}

#[test]
fn token_with_another_algorithm_than_its_key_is_refused() {
    let (rsa, ec) = (SigningKey::rsa("rsa"), SigningKey::ec("ec"));
    let stub = StubIssuer::with(&[rsa.public(), ec.public()]);
    let server = oidc_server(&stub, everybody(Role::Member));
    let claims = stub.claims("ann");
    let good = rsa.token(&claims);
    with_token(&server, &good).expect(200);
    let (head, signature) = good.rsplit_once('.').unwrap();

    let mut bad = vec![
        // No signature, with and without its last dot.
        format!("{}.", unsigned(&json!({"alg": "none", "kid": "rsa"}), &claims.to_string())),
        unsigned(&json!({"alg": "none", "kid": "rsa"}), &claims.to_string()),
        format!("{}.{signature}", unsigned(&json!({"alg": "none", "kid": "rsa"}), &claims.to_string())),
        // No algorithm at all, and one by another spelling.
        format!("{}.{signature}", unsigned(&json!({"kid": "rsa"}), &claims.to_string())),
        format!("{head}."),
        head.to_owned(),
        format!("{good}.{signature}"),
        format!("{good}="),
        String::from(".."),
        String::from("a.b.c"),
    ];
    // The public key as a shared secret, in every form somebody might try.
    let public = rsa.public();
    let modulus = URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let secrets =
        [modulus, public.to_string().into_bytes(), public["n"].as_str().unwrap().as_bytes().to_vec()];
    for secret in &secrets {
        for alg in ["HS256", "hs256"] {
            let signed = unsigned(&json!({"alg": alg, "kid": "rsa"}), &claims.to_string());
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
            bad.push(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)));
        }
    }
    for header in [
        json!({"alg": "rs256", "kid": "rsa"}),
        json!({"alg": "RS384", "kid": "rsa"}),
        json!({"alg": "PS256", "kid": "rsa"}),
        // Another key's algorithm, and another key.
        json!({"alg": "ES256", "kid": "rsa"}),
        json!({"alg": "RS256", "kid": "ec"}),
        json!({"alg": ["RS256"], "kid": "rsa"}),
        json!({"alg": null, "kid": "rsa"}),
        json!({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}),
        json!({"alg": "RS256", "kid": "rsa", "crit": []}),
        json!({"alg": "RS256", "kid": "rsa", "b64": false, "crit": ["b64"]}),
        json!({"alg": "RS256", "kid": "rsa", "b64": false}),
        json!([]),
    ] {
        bad.push(rsa.token_with(&header, &claims));
    }
    for token in bad {
        with_token(&server, &token).refused(401, "UNAUTHENTICATED");
    }
    // One changed letter of each part.
    for at in [3, head.len() - 3, good.len() - 9] {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        with_token(&server, &String::from_utf8(changed).unwrap()).refused(401, "UNAUTHENTICATED");
    }
    // A token brings no keys of its own.
    let own = SigningKey::ec("mine");
    let evil = StubIssuer::with(&[own.public()]);
    for extra in [
        json!({"alg": "ES256", "kid": "mine", "jwk": own.public()}),
        json!({"alg": "ES256", "kid": "ec", "jwk": own.public()}),
        json!({"alg": "ES256", "kid": "mine", "jku": format!("{}/keys", evil.issuer)}),
        json!({"alg": "ES256", "kid": "ec", "x5u": format!("{}/keys", evil.issuer)}),
        json!({"alg": "ES256", "jwk": own.public()}),
    ] {
        with_token(&server, &own.token_with(&extra, &claims)).refused(401, "UNAUTHENTICATED");
    }
    assert_eq!(evil.asked(), 0, "an address in a token was asked");
}

#[test]
fn only_configured_algorithms_are_accepted() {
    let (rsa, ec) = (SigningKey::rsa("rsa"), SigningKey::ec("ec"));
    let stub = StubIssuer::with(&[rsa.public(), ec.public()]);
    let mut only = settings(&stub.issuer, everybody(Role::Member));
    only.algorithms = vec!["ES256".parse().unwrap()];
    let server = TestServer::at(
        crate::support::database::TestStore::sqlite(),
        rlinks_core::Policy::preset(rlinks_core::Preset::Team),
        |config| config.oidc = Some(only),
    );
    with_token(&server, &ec.token(&stub.claims("ann"))).expect(200);
    with_token(&server, &rsa.token(&stub.claims("ann"))).refused(401, "UNAUTHENTICATED");
}

#[test]
fn every_claim_is_checked() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = oidc_server(&stub, everybody(Role::Member));
    let good = || stub.claims("ann");
    let now = good()["iat"].as_i64().unwrap();
    with_token(&server, &key.token(&good())).expect(200);

    let bad = [
        without(good(), "aud"),
        with(good(), "aud", json!(["web"])),
        with(good(), "aud", json!([])),
        with(good(), "aud", json!({"x": AUDIENCE})),
        with(good(), "aud", json!([[AUDIENCE]])),
        with(good(), "aud", json!(format!("{AUDIENCE} web"))),
        // Another client's token.
        with(good(), "aud", json!("somebody-elses-api")),
        with(good(), "aud", json!(CLIENT)),
        without(good(), "iss"),
        with(good(), "iss", json!("https://idp.evil")),
        with(good(), "iss", json!(format!("{}/", stub.issuer))),
        with(good(), "iss", json!([stub.issuer])),
        without(good(), "sub"),
        with(good(), "sub", json!("")),
        with(good(), "sub", json!(7)),
        with(good(), "sub", json!("x".repeat(256))),
        with(good(), "sub", json!("a\u{0}b")),
        without(good(), "exp"),
        with(good(), "exp", json!((now + 3600).to_string())),
        with(good(), "exp", json!(-1)),
        with(good(), "exp", json!(1e308)),
        with(good(), "exp", json!(null)),
        with(good(), "exp", json!(now - 31)),
        with(good(), "nbf", json!(now + 60)),
        with(good(), "nbf", json!("soon")),
        with(good(), "iat", json!(now + 60)),
        with(good(), "iat", json!(1e300)),
    ];
    for claims in bad {
        with_token(&server, &key.token(&claims)).refused(401, "UNAUTHENTICATED");
    }
    // Clocks differ a little.
    for (name, at) in [("exp", now - 20), ("nbf", now + 20), ("iat", now + 20)] {
        with_token(&server, &key.token(&with(good(), name, json!(at)))).expect(200);
    }
    // And a token ends while it is used.
    let short = key.token(&with(good(), "exp", json!(now + 60)));
    with_token(&server, &short).expect(200);
    server.advance_ms(91_000);
    with_token(&server, &short).refused(401, "UNAUTHENTICATED");
}

#[test]
fn id_token_is_refused_as_an_access_token() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = oidc_server(&stub, everybody(Role::Member));
    let jwt = json!({"alg": "ES256", "kid": "ec", "typ": "JWT"});
    // As Zitadel writes them: the project is an audience of both kinds.
    let id = with(stub.claims("ann"), "aud", json!([CLIENT, AUDIENCE]));
    for (name, value) in [
        ("nonce", json!("n")),
        ("at_hash", json!("h")),
        ("c_hash", json!("h")),
        ("typ", json!("ID")),
        ("token_use", json!("id")),
        ("events", json!({})),
        // Bound to a key we cannot see.
        ("cnf", json!({"jkt": "x"})),
    ] {
        with_token(&server, &key.token_with(&jwt, &with(id.clone(), name, value)))
            .refused(401, "UNAUTHENTICATED");
    }
    for typ in ["logout+jwt", "dpop+jwt", "secevent+jwt", "JWE", ""] {
        let header = json!({"alg": "ES256", "kid": "ec", "typ": typ});
        with_token(&server, &key.token_with(&header, &stub.claims("ann"))).refused(401, "UNAUTHENTICATED");
    }
    with_token(&server, &key.token_with(&jwt, &id)).expect(200);
    with_token(&server, &key.token_with(&jwt, &with(id, "typ", json!("Bearer")))).expect(200);

    // Where both have one name, a token must say what it is.
    let mut same = settings(&stub.issuer, everybody(Role::Member));
    same.audience = Some(CLIENT.to_owned());
    let server = TestServer::at(
        crate::support::database::TestStore::sqlite(),
        rlinks_core::Policy::preset(rlinks_core::Preset::Team),
        |config| config.oidc = Some(same),
    );
    let claims = with(stub.claims("ann"), "aud", json!(CLIENT));
    with_token(&server, &key.token_with(&jwt, &claims)).refused(401, "UNAUTHENTICATED");
    with_token(&server, &key.token(&claims)).expect(200);
}

#[test]
fn audience_is_required_and_token_length_is_limited() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let mut none = settings(&stub.issuer, everybody(Role::Member));
    none.audience = None;
    let closed = TestServer::at(
        crate::support::database::TestStore::sqlite(),
        rlinks_core::Policy::preset(rlinks_core::Preset::Team),
        |config| config.oidc = Some(none),
    );
    for claims in [stub.claims("ann"), without(stub.claims("ann"), "aud")] {
        with_token(&closed, &key.token(&claims)).refused(401, "UNAUTHENTICATED");
    }
    let server = oidc_server(&stub, everybody(Role::Member));
    let long = with(stub.claims("ann"), "padding", json!("x".repeat(5_000)));
    with_token(&server, &key.token(&long)).expect(200);
    let longer = with(stub.claims("ann"), "padding", json!("x".repeat(6_500)));
    with_token(&server, &key.token(&longer)).refused(401, "UNAUTHENTICATED");
}
