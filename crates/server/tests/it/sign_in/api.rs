//! The API with the dashboard's session.

use rlinks_core::{Preset, Role};

use crate::support::browser::{Browser, signed_in};
use crate::support::database::TestStore;
use crate::support::members::{TestServer, ann, member, preset};
use crate::support::raw_client::Response;

fn call(browser: &Browser, method: &str, path: &str, lines: &[(&str, &str)], body: Option<&str>) -> Response {
    let with = lines.iter().fold(browser.clone(), |browser, (name, value)| browser.with(name, value));
    with.with("Content-Type", "application/json").send(method, &format!("/api/v1{path}"), body)
}

#[test]
fn session_may_do_what_the_role_allows() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let user = member(&server, &server.main, Role::Member, "bob@example.com");
    let mut bob = signed_in(server.address, "bob@example.com");
    let csrf = bob.token("/admin/account");
    let me = call(&bob, "GET", "/me", &[], None);
    assert_eq!(me.status, 200, "{me:?}");
    let me: serde_json::Value = serde_json::from_str(&me.body).unwrap();
    assert_eq!((&me["user"]["email"], &me["key"]), (&"bob@example.com".into(), &serde_json::Value::Null));
    let link = r#"{"target": "https://example.com/", "code": "bobs"}"#;
    let made = call(&bob, "POST", "/links", &[("X-CSRF-Token", &csrf)], Some(link));
    assert_eq!(made.status, 201, "{made:?}");
    let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    assert_eq!((&made["created_by"], &made["source"]), (&format!("user:{}", user.id).into(), &"web".into()));
    assert_eq!(call(&bob, "GET", "/users", &[], None).status, 403);
    assert_eq!(call(&bob, "DELETE", "/links/bobs", &[("X-CSRF-Token", &csrf)], None).status, 204);
}

/// Hostile inputs, S23.
#[test]
fn session_change_without_csrf_token_is_refused() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut ann = signed_in(server.address, "ann@example.com");
    let csrf = ann.token("/admin/account");
    let link = r#"{"target": "https://example.com/", "code": "x"}"#;
    let origin = format!("http://{}", ann.host);
    for (lines, status) in [
        (vec![], 403),
        (vec![("X-CSRF-Token", "")], 403),
        (vec![("X-CSRF-Token", "0000")], 403),
        (vec![("Origin", origin.as_str())], 403),
        (vec![("X-CSRF-Token", csrf.as_str()), ("Origin", "http://evil.example")], 403),
        (vec![("X-CSRF-Token", csrf.as_str()), ("Origin", "null")], 403),
        (vec![("X-CSRF-Token", csrf.as_str()), ("Sec-Fetch-Site", "cross-site")], 403),
        (vec![("X-CSRF-Token", csrf.as_str()), ("Sec-Fetch-Site", "same-site")], 403),
        (vec![("X-CSRF-Token", csrf.as_str()), ("Origin", origin.as_str())], 201),
    ] {
        let answer = call(&ann, "POST", "/links", &lines, Some(link));
        assert_eq!(answer.status, status, "{lines:?} {answer:?}");
    }
    for method in ["PATCH", "DELETE"] {
        assert_eq!(call(&ann, method, "/links/x", &[], Some("{}")).status, 403);
    }
    // Looking needs none.
    assert_eq!(call(&ann, "GET", "/links/x", &[("Sec-Fetch-Site", "cross-site")], None).status, 200);
}

#[test]
fn authorization_header_wins_over_the_session_cookie() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let (ann, reader) = (signed_in(server.address, "ann@example.com"), server.reader());
    let key = format!("Bearer {}", reader.secret());
    assert_eq!(call(&ann, "GET", "/users", &[], None).status, 200);
    assert_eq!(call(&ann, "GET", "/users", &[("Authorization", &key)], None).status, 403, "the key may not");
    assert_eq!(call(&ann, "GET", "/users", &[("Authorization", "Bearer x")], None).status, 401);
    assert_eq!(call(&ann, "GET", "/users", &[("Authorization", "")], None).status, 401);
    let mut browser = Browser::new(server.address);
    browser.cookies = vec![("rlinks".to_owned(), reader.secret().to_owned())];
    assert_eq!(call(&browser, "GET", "/links", &[], None).status, 401);
    let bearer = format!("Bearer {}", ann.session());
    assert_eq!(
        call(&Browser::new(server.address), "GET", "/links", &[("Authorization", &bearer)], None).status,
        401
    );
}

#[test]
fn session_requests_count_towards_the_limit_of_the_member() {
    let mut policy = preset(Preset::Team);
    policy.limits.requests_per_hour = Some(5);
    let server = TestServer::at(TestStore::sqlite(), policy, |_| ());
    ann(&server);
    let browsers =
        [signed_in(server.address, "ann@example.com"), signed_in(server.address, "ann@example.com")];
    for number in 0..5 {
        let answer = call(&browsers[number % 2], "GET", "/me", &[], None);
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, vec!["5"]), "{number}");
    }
    for browser in &browsers {
        let answer = call(browser, "GET", "/me", &[], None);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(answer.header("retry-after").len(), 1, "{answer:?}");
    }
}
