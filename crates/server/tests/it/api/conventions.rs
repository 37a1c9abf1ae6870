//! What every answer has in common, the pages of the API itself, and on which listener they are.

use rlinks_core::Preset;
use serde_json::json;

use crate::support::api_client::ApiClient;
use crate::support::database::TestStore;
use crate::support::members::{TestServer, preset};

#[test]
fn every_api_error_uses_the_envelope() {
    let server = TestServer::new(Preset::Fabric);
    let (root, nobody) = (server.root(), server.anonymous());
    for path in [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v2/links",
        "/api/v1/links/",
        "/api/v1/links/a/b",
        "/api//v1/links",
        "/api/docs/x",
        "/api/v1/../health",
    ] {
        for caller in [&*root, &nobody] {
            for method in ["GET", "POST", "DELETE"] {
                let reply = caller.request(method, path).header("Accept", "text/html").send();
                assert!([401, 404].contains(&reply.status()), "{reply:?}");
            }
        }
        root.get(path).refused(404, "NOT_FOUND");
    }
    let reply = root.request("PUT", "/links").header("Accept", "text/html").send();
    reply.refused(405, "METHOD_NOT_ALLOWED");
    nobody.request("POST", "/api/docs").send().refused(405, "METHOD_NOT_ALLOWED");
    let said: serde_json::Value = reply.json();
    assert_eq!(said["error"]["ts"], server.now().whole_seconds().to_string(), "by the server's own clock");
    // Nothing of a request comes back as something else than JSON.
    let reply = root.get("/links/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    reply.refused(404, "NOT_FOUND");
    // HEAD is GET without a body.
    let head = root.request("HEAD", "/links").send().expect(200);
    assert!(head.answer.body.is_empty());
    let long = root.request("GET", &format!("/links/{}", "x".repeat(3000))).send();
    long.refused(414, "URI_TOO_LONG");
}

#[test]
fn openapi_document_and_docs_page_need_no_key() {
    let server = TestServer::new(Preset::Fabric);
    let nobody = server.anonymous();
    let description = nobody.get("/api/openapi.json").expect(200);
    assert_eq!(description.header("content-type"), Some("application/json"));
    assert_eq!(&description.json(), rlinks_server::api::openapi());
    assert!(description.json()["openapi"].as_str().unwrap().starts_with("3.1"));
    let page = nobody.get("/api/docs").expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-")
            && !policy.contains("unsafe")
            && !policy.contains("script-src"),
        "{policy}"
    );
    let text = page.answer.body.to_ascii_lowercase();
    for none in ["<script", "javascript:", " onclick=", " onload=", " style=", "src=\"http"] {
        assert!(!text.contains(none), "{none}");
    }
    for path in rlinks_server::api::openapi()["paths"].as_object().unwrap().keys() {
        let shown = path.replace('/', "<wbr>/");
        assert!(page.answer.body.contains(&shown), "{path} is not on the page");
    }
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
}

#[test]
fn api_is_served_on_the_configured_listener() {
    let apart = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.control_listen = Some("127.0.0.1:0".parse().unwrap());
    });
    let root = apart.root();
    let control = ApiClient { address: apart.control.unwrap(), ..root.caller.clone() };
    for path in ["/api/v1/links", "/api/v1/me", "/api/openapi.json", "/api/docs"] {
        let public = root.request("GET", path).send_unchecked();
        assert_eq!(public.status(), 404, "{path}");
        public.refused(404, "NOT_FOUND");
        control.get(path).expect(200);
    }
    control.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
    assert_eq!(apart.visit("/here").status, 301);

    let without =
        TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| config.serve_admin = false);
    let root = without.root();
    assert!(without.control.is_none());
    for path in ["/api/v1/links", "/api/openapi.json", "/api/docs", "/admin"] {
        assert_eq!(root.request("GET", path).send_unchecked().status(), 404, "{path}");
    }
    assert_eq!(without.visit("/health").status, 200);
}

/// The API's workspace is the credential's, whatever the Host.
#[test]
fn api_answers_on_every_host() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    for host in ["rmax.to", "unknown.example", "127.0.0.1"] {
        let request = format!(
            "GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            root.secret()
        );
        let answer = crate::support::raw_client::send_request(server.address, request.as_bytes());
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.body.contains("\"main\""), "{host}");
    }
}

/// Hostile inputs, S39.
///
/// Keys chosen to collide, or simply too many, cost no more than reading them, and the server goes on.
#[test]
fn body_with_too_many_keys_is_refused_and_others_are_served() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    let keys: Vec<String> = (0..60_000).map(|number| format!("\"k{number}\":0")).collect();
    let body = format!("{{\"target\":\"https://example.com/\",{}}}", keys.join(","));
    let many: serde_json::Value = serde_json::from_str(&body).unwrap();
    let refused = root.post("/links", &many);
    assert!([400, 413].contains(&refused.status()), "{}", refused.status());
    let query: Vec<String> = (0..300).map(|number| format!("k{number}=1")).collect();
    root.get(&format!("/links?{}", query.join("&"))).refused(400, "BAD_REQUEST");
    let tags: Vec<String> = (0..10_000).map(|number| format!("t{number}")).collect();
    root.post("/links", &json!({"target": "https://example.com/", "tags": tags}))
        .refused(400, "VALIDATION_FAILED");
    root.get("/links").expect(200);
}
