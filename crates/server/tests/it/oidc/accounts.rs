//! Who comes in with a token, where, and as what.

use rlinks_core::{Policy, Preset, Role, UserStatus};
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, EventStream};
use crate::support::database::{TestStore, contract};
use crate::support::members::TestServer;
use crate::support::oidc_issuer::{SigningKey, StubIssuer, everybody, oidc_server, oidc_server_at, rule};
use crate::support::raw_client::wait_until;
use crate::support::server::operator;

contract!(deleted_member_returns_as_a_new_account, token_with_a_matching_email_grants_no_access);

fn caller(server: &TestServer, key: &SigningKey, claims: &Value) -> ApiClient {
    ApiClient { address: server.address, key: Some(key.token(claims)) }
}

/// Runs a test that blocks from one that does not.
async fn blocking(test: impl FnOnce() + Send + 'static) {
    if let Err(failed) = tokio::task::spawn_blocking(test).await {
        std::panic::resume_unwind(failed.into_panic());
    }
}

async fn deleted_member_returns_as_a_new_account(test_store: TestStore) {
    blocking(move || {
        let key = SigningKey::ec("ec");
        let stub = StubIssuer::with(&[key.public()]);
        let server =
            oidc_server_at(test_store, Policy::preset(Preset::Platform), &stub, everybody(Role::Member));
        let ann = caller(&server, &key, &stub.claims("ann"));
        let first = ann.get("/me").expect(200).json()["user"]["id"].clone();
        assert_eq!(ann.get("/me").expect(200).json()["user"]["id"], first);
        let link = ann
            .post("/links", &json!({"target": "https://example.com/mine", "code": "mine"}))
            .expect(201)
            .json();
        assert_eq!(link["created_by"], format!("user:{}", first.as_str().unwrap()));
        let bob = caller(&server, &key, &stub.claims("bob"));
        bob.get("/links/mine").refused(404, "NOT_FOUND");

        server.advance_ms(1000);
        ann.delete("/me").refused(403, "FORBIDDEN");
        server.admin().delete(&format!("/users/{}", first.as_str().unwrap())).expect(204);
        wait_until("the link is gone", || server.visit("/mine").status == 410);
        // The token is still good, and a rule makes whoever has it a member: somebody new, who has nothing.
        let second = ann.get("/me").expect(200).json()["user"]["id"].clone();
        assert_ne!(second, first);
        ann.get("/links/mine").refused(404, "NOT_FOUND");
        assert_eq!(server.visit("/mine").status, 410);
        assert_eq!(ann.get("/links").expect(200).json()["data"], json!([]));
        let actions = server.actions();
        assert_eq!(actions.iter().filter(|action| *action == "user.create").count(), 4, "{actions:?}");
        let said =
            server.runtime.block_on(server.store().audit_before(server.main.id, i64::MAX, 1000)).unwrap();
        let said = format!("{said:?}");
        assert!(!said.contains("ann@example.com") && !said.contains("Ann Example"), "{said}");
    })
    .await;
}

async fn token_with_a_matching_email_grants_no_access(test_store: TestStore) {
    blocking(move || {
        let key = SigningKey::ec("ec");
        let stub = StubIssuer::with(&[key.public()]);
        let server = oidc_server_at(test_store, Policy::preset(Preset::Team), &stub, everybody(Role::Member));
        let admin = server.user_with_email(&server.main, Role::Admin, "admin@example.com");
        // Verified or not: the address is the admin's, and the account stays the admin's.
        for verified in [json!(true), json!(false), json!(null), json!("true")] {
            let mut claims = stub.claims("mallory");
            claims["email"] = json!("Admin@Example.com");
            claims["email_verified"] = verified;
            caller(&server, &key, &claims).get("/me").refused(401, "UNAUTHENTICATED");
        }
        let still = server.runtime.block_on(server.store().user(server.main.id, admin.id)).unwrap().unwrap();
        assert_eq!((still.role, still.status, still.last_sync_at), (Role::Admin, UserStatus::Active, None));
        // The same subject of another issuer is somebody else, whatever the address.
        let other = StubIssuer::with(&[key.public()]);
        let mut claims = other.claims("ann");
        claims["iss"] = json!(other.issuer);
        caller(&server, &key, &claims).get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

#[test]
fn provisioning_rule_matches_workspace_role_domain_and_claim() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let rules = vec![
        rule("main", Role::Admin, Some("corp.example"), Some(("groups", "links-admins"))),
        rule("main", Role::Member, Some("corp.example"), None),
        rule("main", Role::Viewer, None, Some(("urn:zitadel:iam:org:project:roles", "guest"))),
    ];
    let server = oidc_server(&stub, rules);
    let claims = |subject: &str, email: &str, extra: Value| {
        let mut claims = stub.claims(subject);
        claims["email"] = json!(email);
        for (name, value) in extra.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let role = |claims: &Value| {
        let reply = caller(&server, &key, claims).get("/me");
        if reply.status() == 200 {
            reply.json()["user"]["role"].as_str().unwrap().to_owned()
        } else {
            reply.status().to_string()
        }
    };
    assert_eq!(role(&claims("a", "a@corp.example", json!({"groups": ["staff", "links-admins"]}))), "admin");
    assert_eq!(role(&claims("b", "b@CORP.example", json!({"groups": ["staff"]}))), "member");
    assert_eq!(role(&claims("c", "c@corp.example", json!({"groups": "links-admins"}))), "admin");
    let guest = json!({"urn:zitadel:iam:org:project:roles": {"guest": {"1": "corp.example"}}});
    assert_eq!(role(&claims("d", "d@elsewhere.example", guest)), "viewer");
    for (subject, email, extra) in [
        ("e", "e@elsewhere.example", json!({})),
        ("f", "f@corp.example", json!({"email_verified": false})),
        ("g", "g@notcorp.example", json!({})),
        ("h", "h@corp.example.evil", json!({})),
        ("i", "i@sub.corp.example", json!({})),
        ("j", "x@evil@corp.example", json!({})),
        ("k", "k@elsewhere.example", json!({"groups": ["links-admins"]})),
        ("l", "", json!({"urn:zitadel:iam:org:project:roles": {"guest": {}}})),
    ] {
        assert_eq!(role(&claims(subject, email, extra)), "401", "{subject}");
    }
    // A rule is for the first time; later an admin's word counts.
    let admin = server.admin();
    let b = caller(&server, &key, &claims("b", "b@corp.example", json!({})));
    let id = b.get("/me").expect(200).json()["user"]["id"].as_str().unwrap().to_owned();
    admin.patch(&format!("/users/{id}"), &json!({"role": "viewer"})).expect(200);
    assert_eq!(role(&claims("b", "b@corp.example", json!({"groups": ["links-admins"]}))), "viewer");
    b.post("/links", &json!({"target": "https://example.com"})).refused(403, "FORBIDDEN");
    admin.patch(&format!("/users/{id}"), &json!({"status": "suspended"})).expect(200);
    b.get("/me").refused(401, "UNAUTHENTICATED");
}

#[test]
fn token_opens_the_workspace_of_its_member_or_the_named_one() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let rules = vec![
        rule("main", Role::Member, None, None),
        rule("second", Role::Admin, None, Some(("team", "second"))),
        rule("closed", Role::Admin, None, None),
        rule("nowhere", Role::Admin, None, Some(("team", "nowhere"))),
    ];
    let server = oidc_server(&stub, rules);
    server.workspace("second", Policy::preset(Preset::Team), &[]);
    // `edge` has no OpenID.
    server.workspace("closed", Policy::preset(Preset::Edge), &[]);
    let mut claims = stub.claims("ann");
    claims["team"] = json!("second");
    let ann = caller(&server, &key, &claims);
    let named = |slug: &str| ann.request("GET", "/me").header("X-Workspace", slug).send();
    // Three rules fit, so somebody must choose.
    ann.get("/me").refused(400, "BAD_REQUEST");
    assert_eq!(named("second").expect(200).json()["workspace"], "second");
    // Now there is one account, and it is theirs.
    assert_eq!(ann.get("/me").expect(200).json()["workspace"], "second");
    assert_eq!(named("main").expect(200).json()["workspace"], "main");
    ann.get("/me").refused(400, "BAD_REQUEST");
    for slug in ["closed", "nowhere", "", "no such", "../main"] {
        named(slug).refused(401, "UNAUTHENTICATED");
    }
    // A key has its own workspace, whatever the header says.
    let me = server.admin().request("GET", "/me").header("X-Workspace", "second").send().expect(200).json();
    assert_eq!(me["workspace"], "main");
}

#[test]
fn token_is_refused_without_a_provider() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = TestServer::new(Preset::Platform);
    caller(&server, &key, &stub.claims("ann")).get("/me").refused(401, "UNAUTHENTICATED");
    assert_eq!(stub.asked(), 0);
}

#[test]
fn rate_limit_of_keys_applies_to_tokens() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let mut policy = Policy::preset(Preset::Platform);
    policy.limits.requests_per_hour = Some(3);
    let server = oidc_server_at(TestStore::sqlite(), policy, &stub, everybody(Role::Member));
    let ann = caller(&server, &key, &stub.claims("ann"));
    for _ in 0..3 {
        ann.get("/me").expect(200);
    }
    ann.get("/me").refused(429, "RATE_LIMITED");
    // Another token is the same person.
    server.advance_ms(1000);
    caller(&server, &key, &stub.claims("ann")).get("/me").refused(429, "RATE_LIMITED");
    caller(&server, &key, &stub.claims("bob")).get("/me").expect(200);
}

#[test]
fn live_stream_of_a_token_ends_when_access_is_withdrawn() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let closings: [fn(&mut rlinks_core::Workspace); 2] = [
        |workspace| workspace.policy.sign_in = vec![rlinks_core::workspace::policy::SignInMethod::Keys],
        |workspace| workspace.deleted_at = Some(workspace.updated_at),
    ];
    for close in closings {
        let server =
            oidc_server_at(TestStore::sqlite(), Policy::preset(Preset::Team), &stub, everybody(Role::Member));
        let mut listener = EventStream::new(&caller(&server, &key, &stub.claims("ann")));
        let mut next = server.main.clone();
        close(&mut next);
        server.runtime.block_on(async {
            let (store, now) = (server.store(), server.now());
            store.update_workspace(&server.main, next, "workspace.policy", &operator(), now).await.unwrap();
        });
        assert_eq!(listener.click(), None, "the stream ends");
    }
}
