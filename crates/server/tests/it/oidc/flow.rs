//! Leaving for the provider, as far as that needs no provider.

use rlinks_core::{Policy, Preset, Role};
use rlinks_ops::shared_keys::{InstallationKey, OldSignatures};
use serde_json::{Value, json};

use crate::support::browser::{Browser, hidden};
use crate::support::database::TestStore;
use crate::support::members::{PASSWORD, TestServer, ann};
use crate::support::oidc_issuer::{CLIENT, SigningKey, StubIssuer, everybody, rule, settings};
use crate::support::raw_client::{Response, wait_until};
use crate::support::server::operator_in;

fn oidc_server(stub: &StubIssuer, preset: Preset) -> TestServer {
    let mut settings = settings(&stub.issuer, everybody(Role::Member));
    settings.redirect_uri = Some("http://localhost/admin/oidc/callback".to_owned());
    TestServer::at(TestStore::sqlite(), Policy::preset(preset), |config| config.oidc = Some(settings))
}

fn browser(server: &TestServer) -> Browser {
    Browser { host: "localhost".to_owned(), ..Browser::new(server.address) }
}

#[test]
fn each_login_has_its_own_state_nonce_and_challenge() {
    let stub = StubIssuer::with(&[SigningKey::ec("ec").public()]);
    let server = oidc_server(&stub, Preset::Platform);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let mut browser = browser(&server);
        let answer = browser.get("/admin/oidc/start?next=https://evil.example/");
        assert_eq!(answer.status, 303, "{answer:?}");
        let location = answer.location().unwrap();
        assert!(
            location.starts_with(&format!("{}/authorize?response_type=code&", stub.issuer)),
            "{location}"
        );
        for name in ["state", "nonce", "code_challenge"] {
            let value = crate::support::oidc_provider::parameter(location, name).unwrap();
            assert_eq!(value.len(), 43, "{name}");
            // What the browser keeps tells neither the nonce nor the verifier.
            if name != "state" {
                assert!(!browser.cookie("rlinks-oidc").unwrap().contains(&value));
            }
            assert!(seen.insert(value), "{name} twice");
        }
        let cookie = answer.header("set-cookie").join("\n");
        assert!(cookie.contains("Max-Age=600; HttpOnly; SameSite=Lax"), "{cookie}");
    }
}

#[test]
fn login_page_offers_the_available_methods() {
    let stub = StubIssuer::with(&[SigningKey::ec("ec").public()]);
    let server = oidc_server(&stub, Preset::Team);
    let page = browser(&server).get("/admin/login?next=/admin/account");
    assert!(
        page.body.contains("action=\"/admin/oidc/start\"") && page.body.contains("type=\"password\""),
        "{page:?}"
    );
    // Who sends a form takes the last step by a link: a form of ours leads to our own pages only.
    let leave = browser(&server).get("/admin/oidc/start?via=form&workspace=main&next=/admin/account");
    assert_eq!((leave.status, leave.location()), (200, None), "{leave:?}");
    assert!(leave.body.contains(&format!("href=\"{}/authorize?", stub.issuer)), "{leave:?}");
    // On another host than the provider's, the trip begins where it will end.
    let mut other = Browser::new(server.address);
    let moved = other.get("/admin/oidc/start?workspace=main");
    assert_eq!(
        moved.location(),
        Some("http://localhost/admin/oidc/start?workspace=main&moved=1"),
        "{moved:?}"
    );
    assert_eq!(other.cookie("rlinks-oidc"), None);

    let without = TestServer::new(Preset::Team);
    let mut browser = browser(&without);
    assert!(!browser.get("/admin/login").body.contains("/admin/oidc/start"));
    assert_eq!(browser.get("/admin/oidc/start").status, 404);
    assert_eq!(browser.get("/admin/oidc/callback?code=x&state=y").status, 404);
}

/// Where a page that ends a form leads to.
#[track_caller]
fn leads_to(page: &Response) -> String {
    let (_, after) = page.body.split_once("<p><a href=\"").unwrap_or_else(|| panic!("{page:?}"));
    after.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&")
}

#[test]
fn invitation_opened_while_signed_in_asks_before_the_session_moves() {
    let stub = StubIssuer::with(&[SigningKey::ec("ec").public()]);
    let server = oidc_server(&stub, Preset::Team);
    ann(&server);
    let own = server.workspace("own", Policy::preset(Preset::Platform), &[]);
    let email = rlinks_core::Email::parse("ann@elsewhere.example").unwrap();
    let by = operator_in(&own);
    let invite = server.ops.invite(&by, email, String::new(), Role::Admin);
    let (_, invitation) = server.runtime.block_on(invite).unwrap();
    let token = invitation.url.rsplit('/').next().unwrap();
    let mut browser = browser(&server);
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
    let session = browser.session();
    // Neither the address, nor the page's own link of earlier versions, nor looking at the page leads to the provider.
    for path in [format!("/admin/invite/{token}"), format!("/admin/oidc/start?invitation={token}")] {
        let mut answer = browser.get(&path);
        while let Some(location) = answer.location().map(str::to_owned) {
            assert!(location.starts_with("/admin/invite"), "{answer:?}");
            answer = browser.get(&location);
        }
        for words in
            ["signed in as <strong>ann@example.com</strong>", "(main)", "(own)", "Stay signed in as you are"]
        {
            assert!(answer.body.contains(words), "{words}: {answer:?}");
        }
    }
    assert_eq!((browser.session(), browser.cookie("rlinks-oidc")), (session, None));
    let page = browser.get("/admin/invite");
    let forged = browser.post("/admin/oidc/start", &[("csrf", "00"), ("invitation", "yes")]);
    assert_eq!(forged.status, 403, "{forged:?}");
    let csrf = hidden(&page, "csrf");
    let confirmed = browser.post("/admin/oidc/start", &[("csrf", &csrf), ("invitation", "yes")]);
    assert!(leads_to(&confirmed).starts_with(&format!("{}/authorize?", stub.issuer)), "{confirmed:?}");
    assert!(browser.cookie("rlinks-oidc").is_some());
    assert!(browser.is_signed_in(), "until they come back");
}

#[test]
fn sign_in_link_to_another_workspace_asks_before_the_session_moves() {
    let stub = StubIssuer::with(&[SigningKey::ec("ec").public()]);
    let server = oidc_server(&stub, Preset::Team);
    ann(&server);
    let mut browser = browser(&server);
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
    // Whether there is such a workspace is not said.
    for workspace in ["own", "nowhere"] {
        let page = browser.get(&format!("/admin/oidc/start?workspace={workspace}"));
        assert_eq!((page.status, browser.cookie("rlinks-oidc")), (200, None), "{page:?}");
        assert!(
            page.body.contains("(main)") && page.body.contains(&format!("Sign in to {workspace}")),
            "{page:?}"
        );
    }
    let page = browser.get("/admin/oidc/start?workspace=own&next=/admin/account");
    let fields = ["csrf", "workspace", "next"].map(|name| (name, hidden(&page, name)));
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let confirmed = browser.post("/admin/oidc/start", &fields);
    assert!(leads_to(&confirmed).starts_with(&format!("{}/authorize?", stub.issuer)), "{confirmed:?}");
    // To one's own workspace it leads at once.
    let again = browser.get("/admin/oidc/start?workspace=main");
    assert!(again.location().unwrap().starts_with(&stub.issuer), "{again:?}");
}

#[test]
fn callback_without_a_matching_login_is_refused() {
    let stub = StubIssuer::with(&[SigningKey::ec("ec").public()]);
    let server = oidc_server(&stub, Preset::Platform);
    let mut browser = browser(&server);
    let long = "x".repeat(10_000 / 5);
    for query in
        ["", "?", "?code=x", "?code=x&state=y", "?error=access_denied", &format!("?code={long}&state={long}")]
    {
        let answer = browser.get(&format!("/admin/oidc/callback{query}"));
        assert_eq!(answer.status, 403, "{query}: {answer:?}");
    }
    for cookie in ["x", "x.y", ".", "e30.AAAA"] {
        browser.cookies = vec![("rlinks-oidc".to_owned(), cookie.to_owned())];
        assert_eq!(browser.get("/admin/oidc/callback?code=x&state=y").status, 403, "{cookie}");
    }
    // Of a script in an error only the word is left, and without a state nothing at all.
    let location = browser.get("/admin/oidc/start").location().unwrap().to_owned();
    let state = crate::support::oidc_provider::parameter(&location, "state").unwrap();
    let answer =
        browser.get(&format!("/admin/oidc/callback?error=%3Cscript%3Ealert(1)%3C/script%3E&state={state}"));
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("refused: scriptalert1script") && !answer.body.contains("alert("),
        "{answer:?}"
    );
}

/// There and back again: the ID token has the usual claims and these.
fn sign_in(
    server: &TestServer,
    (stub, key): (&StubIssuer, &SigningKey),
    subject: &str,
    more: &Value,
    userinfo: Value,
) -> (crate::support::raw_client::Response, Browser) {
    let mut browser = browser(server);
    let location = browser.get("/admin/oidc/start").location().unwrap().to_owned();
    let said = |name: &str| crate::support::oidc_provider::parameter(&location, name).unwrap();
    let mut claims = stub.claims(subject);
    claims["aud"] = json!(CLIENT);
    claims["nonce"] = json!(said("nonce"));
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let header = json!({"alg": key.alg(), "kid": key.kid, "typ": "JWT"});
    stub.grants(key.token_with(&header, &claims), userinfo);
    let answer = browser.get(&format!("/admin/oidc/callback?code=x&state={}", said("state")));
    (answer, browser)
}

/// Row 21c: a rotation leaves sign-ins under way alone, unless somebody else may have the old key.
#[test]
fn sign_in_under_way_survives_a_rotation_of_its_key_unless_the_old_one_is_refused() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let server = oidc_server(&stub, Preset::Platform);
    let rotate = |old: OldSignatures| {
        let operator = operator_in(&server.main);
        let rotated = server.ops.rotate_shared_key(&operator, InstallationKey::Oidc, old);
        server.runtime.block_on(rotated).unwrap();
    };
    let begin = |subject: &str| {
        let mut browser = browser(&server);
        let location = browser.get("/admin/oidc/start").location().unwrap().to_owned();
        let said = |name: &str| crate::support::oidc_provider::parameter(&location, name).unwrap();
        let mut claims = stub.claims(subject);
        claims["aud"] = json!(CLIENT);
        claims["nonce"] = json!(said("nonce"));
        let header = json!({"alg": key.alg(), "kid": key.kid, "typ": "JWT"});
        (browser, said("state"), key.token_with(&header, &claims))
    };
    let finish = |(mut browser, state, token): (Browser, String, String)| {
        stub.grants(token, Value::Null);
        browser.get(&format!("/admin/oidc/callback?code=x&state={state}")).status
    };
    let (ann, bob) = (begin("ann"), begin("bob"));
    rotate(OldSignatures::AcceptForAWhile);
    // What a login derives from its key is derived from the one it began with.
    assert_eq!(finish(ann), 303);
    rotate(OldSignatures::Refuse);
    // All keys are looked at in one go; what a form says shows when. The second time the first is over.
    for _ in 0..2 {
        let mut visitor = browser(&server);
        let before = visitor.token("/admin/login");
        let operator = operator_in(&server.main);
        let old = OldSignatures::AcceptForAWhile;
        let rotated = server.ops.rotate_shared_key(&operator, InstallationKey::Form, old);
        server.runtime.block_on(rotated).unwrap();
        wait_until("the server has looked", || visitor.token("/admin/login") != before);
    }
    assert_eq!(finish(bob), 403);
    assert_eq!(finish(begin("carl")), 303);
}

#[test]
fn claims_from_userinfo_count() {
    let key = SigningKey::ec("ec");
    let stub = StubIssuer::with(&[key.public()]);
    let mut settings = settings(&stub.issuer, Vec::new());
    settings.redirect_uri = Some("http://localhost/admin/oidc/callback".to_owned());
    settings.provision = vec![
        rule("main", Role::Admin, None, Some(("groups", "admins"))),
        rule("main", Role::Member, Some("example.com"), None),
    ];
    let server = TestServer::at(TestStore::sqlite(), Policy::preset(Preset::Team), |config| {
        config.oidc = Some(settings);
    });
    let role = |browser: &mut Browser| {
        let me = browser.send("GET", "/api/v1/me", None);
        let me: Value = serde_json::from_str(&me.body).unwrap();
        me["user"]["role"].as_str().unwrap().to_owned()
    };
    let both = (&stub, &key);
    let admins = json!({"sub": "ann", "groups": ["admins"]});
    let (answer, mut ann) = sign_in(&server, both, "ann", &json!({}), admins);
    assert_eq!((answer.status, stub.userinfo_asked()), (303, 1), "{answer:?}");
    assert_eq!(role(&mut ann), "admin");
    // Nobody asks for what the ID token says already.
    let (answer, mut bob) = sign_in(&server, both, "bob", &json!({"groups": ["staff"]}), Value::Null);
    assert_eq!((answer.status, stub.userinfo_asked()), (303, 0), "{answer:?}");
    assert_eq!(role(&mut bob), "member");
    // What is about nobody counts for nothing.
    let (answer, mut dan) = sign_in(&server, both, "dan", &json!({}), json!({"groups": ["admins"]}));
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(role(&mut dan), "member");
    // What is about somebody else is refused.
    let (answer, _) = sign_in(&server, both, "eve", &json!({}), json!({"sub": "ann", "groups": ["admins"]}));
    assert_eq!(answer.status, 403, "{answer:?}");
    // And that one address is verified says nothing of another.
    let unverified = json!({"email": "boss@example.com", "email_verified": null});
    let other =
        json!({"sub": "carl", "groups": ["admins"], "email": "carl@evil.example", "email_verified": true});
    let (answer, _) = sign_in(&server, both, "carl", &unverified, other);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("verified"), "{answer:?}");
}
