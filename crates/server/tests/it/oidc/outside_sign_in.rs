//! Hostile inputs, S14, and the rules of accounts: a browser goes to the real provider and comes back.

use rlinks_core::{Policy, Preset, Role};
use rlinks_server::auth::oidc::{ClientSecret, OidcSettings};
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

use crate::support::browser::{Browser, hidden};
use crate::support::database::TestStore;
use crate::support::members::TestServer;
use crate::support::oidc_issuer::{everybody, rule, settings};
use crate::support::oidc_provider::{Provider, ProviderBrowser, REDIRECT, parameter};
use crate::support::raw_client::{Response, wait_until};
use crate::support::server::operator_in;

const SECRET: &str = "the-secret-of-the-web-client";

/// A server that trusts the provider, and whose clock shows the provider's time.
fn oidc_server_at(
    test_store: TestStore,
    provider: &Provider,
    preset: Preset,
    change: impl FnOnce(&mut OidcSettings),
) -> TestServer {
    let mut settings = settings(&provider.issuer, everybody(Role::Member));
    settings.redirect_uri = Some(REDIRECT.to_owned());
    settings.client_secret = Some(ClientSecret::new(SECRET.to_owned()));
    change(&mut settings);
    let server = TestServer::at(test_store, Policy::preset(preset), |config| config.oidc = Some(settings));
    server.advance_ms(Clock::system().now().ms() - server.now().ms());
    server
}

fn oidc_server(provider: &Provider, preset: Preset) -> TestServer {
    oidc_server_at(TestStore::sqlite(), provider, preset, |_| ())
}

/// A browser at the address the provider knows.
fn browser(server: &TestServer) -> Browser {
    Browser { host: "localhost".to_owned(), ..Browser::new(server.address) }
}

/// Leaves for the provider: where to.
#[track_caller]
fn leave(browser: &mut Browser, query: &str) -> String {
    let answer = browser.get(&format!("/admin/oidc/start{query}"));
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.location().unwrap().to_owned()
}

/// The same with an invitation: opens it and sends its form.
#[track_caller]
fn leave_with_invitation(browser: &mut Browser, token: &str) -> String {
    let page = browser.open(&format!("/admin/invite/{token}"));
    let fields = [("csrf", hidden(&page, "csrf")), ("invitation", hidden(&page, "invitation"))];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let page = browser.post("/admin/oidc/start", &fields);
    let (_, after) = page.body.split_once("<p><a href=\"").unwrap_or_else(|| panic!("{page:?}"));
    after.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&")
}

/// Comes back from there.
fn come_back(browser: &mut Browser, back: &str) -> Response {
    browser.get(back.strip_prefix("http://localhost").unwrap())
}

/// There and back again.
#[track_caller]
fn sign_in(browser: &mut Browser, provider: &Provider, login: &str) -> Response {
    let location = leave(browser, "");
    let back = ProviderBrowser::default().visit(provider, &location, login);
    come_back(browser, &back)
}

/// The same, for somebody who is let in.
#[track_caller]
fn signed_in(server: &TestServer, provider: &Provider, login: &str) -> Browser {
    let mut browser = browser(server);
    let answer = sign_in(&mut browser, provider, login);
    assert_eq!((answer.status, answer.location()), (303, Some("/admin")), "{answer:?}");
    assert!(browser.is_signed_in());
    browser
}

#[track_caller]
fn call(browser: &mut Browser, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let answer = browser.api(method, path, body);
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

#[track_caller]
fn me(browser: &mut Browser) -> Value {
    let (status, me) = call(browser, "GET", "/me", None);
    assert_eq!(status, 200, "{me}");
    me["user"].clone()
}

#[track_caller]
fn refused(answer: &Response, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.body.contains(words), "{words}: {answer:?}");
    assert!(!answer.header("set-cookie").iter().any(|cookie| cookie.starts_with("rlinks=")), "{answer:?}");
}

#[test]
fn deleted_account_signs_in_again_as_a_new_one() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    let mut ann = signed_in(&server, &provider, "ann");
    let first = me(&mut ann);
    assert_eq!((&first["email"], &first["role"]), (&json!("ann@example.com"), &json!("member")));
    assert_eq!(first["last_login_at"], server.now().to_string());
    assert_eq!(first["last_sync_at"], server.now().to_string());
    let link = r#"{"target": "https://example.com/anns", "code": "anns"}"#;
    let (status, made) = call(&mut ann, "POST", "/links", Some(link));
    assert_eq!(
        (status, &made["created_by"]),
        (201, &json!(format!("user:{}", first["id"].as_str().unwrap())))
    );
    let (status, key) = call(&mut ann, "POST", "/keys", Some(r#"{"name": "mine"}"#));
    assert_eq!(status, 201, "{key}");
    assert_eq!(server.visit("/anns").status, 302);
    // Another member of the same provider sees nothing of it.
    let mut bob = signed_in(&server, &provider, "bob");
    assert_eq!(call(&mut bob, "GET", "/links/anns", None).0, 404);

    // Five minutes after the sign-in the provider has to be asked again.
    server.advance_ms(5 * 60_000 + 1);
    assert_eq!(call(&mut ann, "DELETE", "/me", None).0, 403);
    let mut ann = signed_in(&server, &provider, "ann");
    server.advance_ms(1000);
    assert_eq!(call(&mut ann, "DELETE", "/me", None).0, 204);
    assert!(!ann.is_signed_in());
    let key = crate::support::api_client::ApiClient {
        address: server.address,
        key: key["key"].as_str().map(str::to_owned),
    };
    key.get("/me").refused(401, "UNAUTHENTICATED");
    wait_until("the link is gone", || server.visit("/anns").status == 410);

    let mut again = signed_in(&server, &provider, "ann");
    let second = me(&mut again);
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["email"], "ann@example.com");
    assert_eq!(call(&mut again, "GET", "/links", None).1["data"], json!([]));
    assert_eq!(server.visit("/anns").status, 410);
    // Nobody else gets the code either.
    assert_eq!(call(&mut again, "POST", "/links", Some(link)).0, 409);

    let actions = server.actions();
    let count = |wanted: &str| actions.iter().filter(|action| *action == wanted).count();
    assert_eq!((count("user.create"), count("auth.sign_in"), count("user.delete")), (3, 4, 1), "{actions:?}");
    let said = server.runtime.block_on(server.store().audit_before(server.main.id, i64::MAX, 1000)).unwrap();
    let said = format!("{said:?}");
    for secret in ["ann@example.com", "of the provider"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn profile_is_synced_from_the_provider() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Team);
    let mut ann = signed_in(&server, &provider, "ann");
    let before = me(&mut ann);
    provider.account(&json!({"sub": "ann", "email": "Ann@New.example", "name": "Ann <b>New</b>"}));
    server.advance_ms(60_000);
    let mut ann = signed_in(&server, &provider, "ann");
    let after = me(&mut ann);
    assert_eq!(after["id"], before["id"]);
    assert_eq!((&after["email"], &after["full_name"]), (&json!("ann@new.example"), &json!("Ann <b>New</b>")));
    assert_eq!(after["last_sync_at"], server.now().to_string());
    let page = ann.get("/admin/account").body;
    assert!(!page.contains("<b>New"), "{page}");
    // An address that is not verified, or that another member has, does not become theirs.
    server.user_with_email(&server.main, Role::Admin, "boss@example.com");
    for (email, verified) in [("other@new.example", false), ("boss@example.com", true)] {
        provider.account(&json!({"sub": "ann", "email": email, "email_verified": verified}));
        let mut ann = signed_in(&server, &provider, "ann");
        assert_eq!((&me(&mut ann)["email"], &me(&mut ann)["id"]), (&json!("ann@new.example"), &before["id"]));
    }
}

/// Hostile inputs, S14.
#[test]
fn callback_works_once_in_its_own_browser_for_ten_minutes() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    let again = "please begin again";
    let mut ann = browser(&server);
    let location = leave(&mut ann, "?next=/admin/account");
    for (name, value) in
        [("response_type", "code"), ("code_challenge_method", "S256"), ("redirect_uri", REDIRECT)]
    {
        assert_eq!(parameter(&location, name).as_deref(), Some(value));
    }
    let back = ProviderBrowser::default().visit(&provider, &location, "ann");
    let state = parameter(&back, "state").unwrap();
    // Another browser, with nothing and with a trip of its own.
    refused(&come_back(&mut browser(&server), &back), 403, again);
    let mut mallory = browser(&server);
    leave(&mut mallory, "");
    refused(&come_back(&mut mallory, &back), 403, again);
    // Without a state, with another, with two.
    let kept = ann.cookies.clone();
    let without = back.replace(&format!("state={state}"), "");
    for bad in [without.clone(), format!("{without}&state=x"), format!("{back}&state={state}")] {
        ann.cookies.clone_from(&kept);
        refused(&come_back(&mut ann, &bad), 403, again);
    }
    // A cookie somebody changed.
    let mut changed = ann.clone();
    changed.cookies =
        kept.iter().map(|(name, value)| (name.clone(), value.replacen("ey", "fy", 1))).collect();
    refused(&come_back(&mut changed, &back), 403, again);
    // Now it works, once, though somebody kept the cookie.
    ann.cookies.clone_from(&kept);
    let answer = come_back(&mut ann, &back);
    assert_eq!((answer.status, answer.location()), (303, Some("/admin/account")), "{answer:?}");
    assert_eq!(ann.cookie("rlinks-oidc"), None);
    let mut thief = browser(&server);
    thief.cookies = kept;
    refused(&come_back(&mut thief, &back), 403, again);
    // And not after ten minutes.
    let mut late = browser(&server);
    let location = leave(&mut late, "");
    let back = ProviderBrowser::default().visit(&provider, &location, "ann");
    server.advance_ms(601_000);
    refused(&come_back(&mut late, &back), 403, again);
}

/// Hostile inputs, S14.
#[test]
fn code_nonce_or_issuer_of_another_login_is_refused() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    // A code of another trip, used or fresh: PKCE binds it to the browser that asked.
    let mut mallory = browser(&server);
    let location = leave(&mut mallory, "");
    let stolen = ProviderBrowser::default().visit(&provider, &location, "ann");
    let mut ann = browser(&server);
    let location = leave(&mut ann, "");
    let back = ProviderBrowser::default().visit(&provider, &location, "ann");
    let code = |url: &str| parameter(url, "code").unwrap();
    let injected = back.replace(&code(&back), &code(&stolen));
    refused(&come_back(&mut ann, &injected), 403, "did not confirm");

    // A replayed code.
    let mut bob = browser(&server);
    let location = leave(&mut bob, "");
    let first = ProviderBrowser::default().visit(&provider, &location, "bob");
    assert_eq!(come_back(&mut bob, &first).status, 303);
    let location = leave(&mut bob, "");
    let second = ProviderBrowser::default().visit(&provider, &location, "bob");
    refused(&come_back(&mut bob, &second.replace(&code(&second), &code(&first))), 403, "did not confirm");

    // Another nonce than ours in the ID token.
    let mut carol = browser(&server);
    let location = leave(&mut carol, "");
    let nonce = parameter(&location, "nonce").unwrap();
    let back = ProviderBrowser::default().visit(&provider, &location.replace(&nonce, "another"), "carol");
    refused(&come_back(&mut carol, &back), 403, "cannot be believed");

    // Another PKCE challenge.
    let location = leave(&mut carol, "");
    let challenge = parameter(&location, "code_challenge").unwrap();
    let other = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let back = ProviderBrowser::default().visit(&provider, &location.replace(&challenge, other), "carol");
    refused(&come_back(&mut carol, &back), 403, "did not confirm");

    // The answer of another issuer, or of one that does not say who it is though it should.
    for mixed_up in ["https%3A%2F%2Fidp.evil", ""] {
        let location = leave(&mut carol, "");
        let back = ProviderBrowser::default().visit(&provider, &location, "carol");
        let (before, _) = back.split_once("&iss=").unwrap();
        let iss = if mixed_up.is_empty() { String::new() } else { format!("&iss={mixed_up}") };
        refused(&come_back(&mut carol, &format!("{before}{iss}")), 403, "another sign-in provider");
    }
    // The provider sends nobody to a longer address, and there is none.
    let location = leave(&mut carol, "");
    let longer = location.replace("callback", "callback%2Felsewhere");
    let answer = crate::support::raw_client::send_request(
        provider.issuer.strip_prefix("http://").unwrap().parse().unwrap(),
        format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            longer.strip_prefix(&provider.issuer).unwrap()
        )
        .as_bytes(),
    );
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(carol.get("/admin/oidc/callback/elsewhere").status, 404);
    // Somebody who changed their mind.
    let location = leave(&mut carol, "");
    let state = parameter(&location, "state").unwrap();
    let issuer: String = url::form_urlencoded::byte_serialize(provider.issuer.as_bytes()).collect();
    let back = format!("{REDIRECT}?error=access_denied&state={state}&iss={issuer}");
    refused(&come_back(&mut carol, &back), 403, "refused: access_denied");
}

/// Hostile inputs, S14.
#[test]
fn matching_email_grants_no_access() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Team);
    let admin = server.user_with_email(&server.main, Role::Admin, "admin@example.com");
    for verified in [false, true] {
        provider
            .account(&json!({"sub": "mallory", "email": "admin@example.com", "email_verified": verified}));
        let mut mallory = browser(&server);
        let (status, words) =
            if verified { (409, "already has your e-mail address") } else { (403, "verified") };
        refused(&sign_in(&mut mallory, &provider, "mallory"), status, words);
        assert!(!mallory.is_signed_in());
    }
    let still = server.runtime.block_on(server.store().user(server.main.id, admin.id)).unwrap().unwrap();
    assert_eq!((still.email.as_str(), still.last_login_at), ("admin@example.com", None));
    // The admin's own invitation links the account, by whatever address the provider knows them.
    let by = operator_in(&server.main);
    let email = rlinks_core::Email::parse("carol@example.com").unwrap();
    let invite = server.ops.invite(&by, email, String::new(), Role::Admin);
    let (carol, invitation) = server.runtime.block_on(invite).unwrap();
    let token = invitation.url.rsplit('/').next().unwrap().to_owned();
    provider.account(&json!({"sub": "carol", "email": "carol@work.example"}));
    let mut browser = browser(&server);
    let location = leave_with_invitation(&mut browser, &token);
    let back = ProviderBrowser::default().visit(&provider, &location, "carol");
    assert_eq!(come_back(&mut browser, &back).status, 303);
    assert_eq!(me(&mut browser)["id"], carol.id.to_string());
    assert_eq!(me(&mut browser)["role"], "admin");
    assert!(server.actions().contains(&"auth.invitation_accepted".to_owned()));
    // Once.
    assert_eq!(browser.open(&format!("/admin/oidc/start?invitation={token}")).status, 404);
    let mut again = signed_in(&server, &provider, "carol");
    assert_eq!(me(&mut again)["id"], carol.id.to_string());
}

#[test]
fn confidential_and_public_clients_sign_in() {
    let provider = Provider::start();
    for (client, secret) in [("rlinks-web", Some(SECRET)), ("rlinks-public", None)] {
        let server = oidc_server_at(TestStore::sqlite(), &provider, Preset::Platform, |settings| {
            settings.client_id = client.to_owned();
            settings.client_secret = secret.map(|secret| ClientSecret::new(secret.to_owned()));
        });
        signed_in(&server, &provider, "ann");
    }
    let server = oidc_server_at(TestStore::sqlite(), &provider, Preset::Platform, |settings| {
        settings.client_secret = Some(ClientSecret::new("another".to_owned()));
    });
    refused(&sign_in(&mut browser(&server), &provider, "ann"), 403, "did not confirm");
}

#[test]
fn workspace_rules_decide_who_signs_in_and_how() {
    let provider = Provider::start();
    let rules = vec![rule("main", Role::Admin, Some("corp.example"), Some(("groups", "links-admins")))];
    let server = oidc_server_at(TestStore::sqlite(), &provider, Preset::Platform, |settings| {
        settings.provision = rules;
    });
    server.workspace("closed", Policy::preset(Preset::Edge), &[]);
    provider
        .account(&json!({"sub": "boss", "email": "boss@corp.example", "groups": ["staff", "links-admins"]}));
    let mut boss = signed_in(&server, &provider, "boss");
    assert_eq!(me(&mut boss)["role"], "admin");
    refused(&sign_in(&mut browser(&server), &provider, "ann"), 403, "no account for you");
    for query in ["?workspace=closed", "?workspace=nowhere", "?workspace=%00"] {
        // Before the provider has said who it is, every name is answered alike.
        let mut browser = browser(&server);
        let location = leave(&mut browser, query);
        let back = ProviderBrowser::default().visit(&provider, &location, "boss");
        refused(&come_back(&mut browser, &back), 403, "does not let people sign in this way");
    }
    // The page of a host that names the workspace offers what its policy has: no password in `platform`.
    let page = Browser { host: "rmax.to".to_owned(), ..Browser::new(server.address) };
    let page = page.with("X-Forwarded-Proto", "https").get("/admin/login");
    assert!(!page.body.contains("type=\"password\"") || page.status == 403, "{page:?}");
    // A suspended member is locked out at once, and does not get in again.
    let admin = server.admin();
    let id = me(&mut boss)["id"].as_str().unwrap().to_owned();
    admin.patch(&format!("/users/{id}"), &json!({"status": "suspended"})).expect(200);
    assert!(!boss.is_signed_in());
    refused(&sign_in(&mut browser(&server), &provider, "boss"), 403, "suspended");
}

/// Faults, row 46.
#[test]
fn sessions_survive_a_provider_outage() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    let mut ann = signed_in(&server, &provider, "ann");
    drop(provider);
    server.advance_ms(3 * 24 * 3_600_000);
    assert!(ann.is_signed_in());
    assert_eq!(call(&mut ann, "GET", "/links", None).0, 200);
    let answer = browser(&server).get("/admin/oidc/start");
    refused(&answer, 503, "cannot be reached");
}
