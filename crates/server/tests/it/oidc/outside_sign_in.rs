//! S14 and seed 003's account rules: a browser goes to the real provider and comes back.

use rlinks_core::{Policy, Preset, Role};
use rlinks_server::auth::oidc::{ClientSecret, OidcSettings};
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

use super::provider::{Provider, REDIRECT, Trip, parameter};
use super::{everybody, rule, settings};
use crate::api::house::House;
use crate::client::{Answer, wait_until};
use crate::database::Place;
use crate::sign_in::browser::Browser;

const SECRET: &str = "the-secret-of-the-web-client";

/// A house that trusts the provider, and whose clock shows the provider's time.
fn house_at(
    place: Place,
    provider: &Provider,
    preset: Preset,
    change: impl FnOnce(&mut OidcSettings),
) -> House {
    let mut settings = settings(&provider.issuer, everybody(Role::Member));
    settings.redirect_uri = Some(REDIRECT.to_owned());
    settings.client_secret = Some(ClientSecret::new(SECRET.to_owned()));
    change(&mut settings);
    let house = House::at(place, Policy::preset(preset), |config| config.oidc = Some(settings));
    house.advance_ms(Clock::system().now().ms() - house.now().ms());
    house
}

fn house(provider: &Provider, preset: Preset) -> House {
    house_at(Place::sqlite(), provider, preset, |_| ())
}

/// A browser at the address the provider knows.
fn browser(house: &House) -> Browser {
    Browser { host: "localhost".to_owned(), ..Browser::new(house.address) }
}

/// Leaves for the provider: where to.
#[track_caller]
fn leave(browser: &mut Browser, query: &str) -> String {
    let answer = browser.get(&format!("/admin/oidc/start{query}"));
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.location().unwrap().to_owned()
}

/// Comes back from there.
fn come_back(browser: &mut Browser, back: &str) -> Answer {
    browser.get(back.strip_prefix("http://localhost").unwrap())
}

/// There and back again.
#[track_caller]
fn sign_in(browser: &mut Browser, provider: &Provider, login: &str) -> Answer {
    let location = leave(browser, "");
    let back = Trip::default().visit(provider, &location, login);
    come_back(browser, &back)
}

/// The same, for somebody who is let in.
#[track_caller]
fn signed_in(house: &House, provider: &Provider, login: &str) -> Browser {
    let mut browser = browser(house);
    let answer = sign_in(&mut browser, provider, login);
    assert_eq!((answer.status, answer.location()), (303, Some("/admin")), "{answer:?}");
    assert!(browser.is_signed_in());
    browser
}

#[track_caller]
fn call(browser: &mut Browser, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let csrf = browser.token("/admin/account");
    let with = browser.clone().with("X-CSRF-Token", &csrf).with("Content-Type", "application/json");
    let answer = with.clone().send(method, &format!("/api/v1{path}"), body);
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

#[track_caller]
fn me(browser: &mut Browser) -> Value {
    let (status, me) = call(browser, "GET", "/me", None);
    assert_eq!(status, 200, "{me}");
    me["user"].clone()
}

#[track_caller]
fn refused(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.body.contains(words), "{words}: {answer:?}");
    assert!(!answer.header("set-cookie").iter().any(|cookie| cookie.starts_with("rlinks=")), "{answer:?}");
}

#[test]
fn sign_in_create_delete_the_account_and_sign_in_again() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    let mut ann = signed_in(&house, &provider, "ann");
    let first = me(&mut ann);
    assert_eq!((&first["email"], &first["role"]), (&json!("ann@example.com"), &json!("member")));
    assert_eq!(first["last_login_at"], house.now().to_string());
    assert_eq!(first["last_sync_at"], house.now().to_string());
    let link = r#"{"target": "https://example.com/anns", "code": "anns"}"#;
    let (status, made) = call(&mut ann, "POST", "/links", Some(link));
    assert_eq!(
        (status, &made["created_by"]),
        (201, &json!(format!("user:{}", first["id"].as_str().unwrap())))
    );
    let (status, key) = call(&mut ann, "POST", "/keys", Some(r#"{"name": "mine"}"#));
    assert_eq!(status, 201, "{key}");
    assert_eq!(house.visit("/anns").status, 302);
    // Another member of the same provider sees nothing of it.
    let mut bob = signed_in(&house, &provider, "bob");
    assert_eq!(call(&mut bob, "GET", "/links/anns", None).0, 404);

    house.advance_ms(1000);
    assert_eq!(call(&mut ann, "DELETE", "/me", None).0, 204);
    assert!(!ann.is_signed_in());
    let key =
        crate::api::caller::Caller { address: house.address, key: key["key"].as_str().map(str::to_owned) };
    key.get("/me").refused(401, "UNAUTHENTICATED");
    wait_until("the link is gone", || house.visit("/anns").status == 410);

    let mut again = signed_in(&house, &provider, "ann");
    let second = me(&mut again);
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["email"], "ann@example.com");
    assert_eq!(call(&mut again, "GET", "/links", None).1["data"], json!([]));
    assert_eq!(house.visit("/anns").status, 410);
    // Nobody else gets the code either.
    assert_eq!(call(&mut again, "POST", "/links", Some(link)).0, 409);

    let actions = house.actions();
    let count = |wanted: &str| actions.iter().filter(|action| *action == wanted).count();
    assert_eq!((count("user.create"), count("auth.sign_in"), count("user.delete")), (3, 3, 1), "{actions:?}");
    let said = house.runtime.block_on(house.store().audit_before(house.main.id, i64::MAX, 1000)).unwrap();
    let said = format!("{said:?}");
    for secret in ["ann@example.com", "of the provider"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn the_provider_says_who_somebody_is() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Team);
    let mut ann = signed_in(&house, &provider, "ann");
    let before = me(&mut ann);
    provider.account(&json!({"sub": "ann", "email": "Ann@New.example", "name": "Ann <b>New</b>"}));
    house.advance_ms(60_000);
    let mut ann = signed_in(&house, &provider, "ann");
    let after = me(&mut ann);
    assert_eq!(after["id"], before["id"]);
    assert_eq!((&after["email"], &after["full_name"]), (&json!("ann@new.example"), &json!("Ann <b>New</b>")));
    assert_eq!(after["last_sync_at"], house.now().to_string());
    let page = ann.get("/admin/account").body;
    assert!(!page.contains("<b>New"), "{page}");
    // An address that is not verified, or that another member has, does not become theirs.
    house.user_called(&house.main, Role::Admin, "boss@example.com");
    for (email, verified) in [("other@new.example", false), ("boss@example.com", true)] {
        provider.account(&json!({"sub": "ann", "email": email, "email_verified": verified}));
        let mut ann = signed_in(&house, &provider, "ann");
        assert_eq!((&me(&mut ann)["email"], &me(&mut ann)["id"]), (&json!("ann@new.example"), &before["id"]));
    }
}

#[test]
fn s14_a_callback_is_good_once_in_the_browser_that_began_and_for_ten_minutes() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    let again = "please begin again";
    let mut ann = browser(&house);
    let location = leave(&mut ann, "?next=/admin/account");
    for (name, value) in
        [("response_type", "code"), ("code_challenge_method", "S256"), ("redirect_uri", REDIRECT)]
    {
        assert_eq!(parameter(&location, name).as_deref(), Some(value));
    }
    let back = Trip::default().visit(&provider, &location, "ann");
    let state = parameter(&back, "state").unwrap();
    // Another browser, with nothing and with a trip of its own.
    refused(&come_back(&mut browser(&house), &back), 403, again);
    let mut mallory = browser(&house);
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
    let mut thief = browser(&house);
    thief.cookies = kept;
    refused(&come_back(&mut thief, &back), 403, again);
    // And not after ten minutes.
    let mut late = browser(&house);
    let location = leave(&mut late, "");
    let back = Trip::default().visit(&provider, &location, "ann");
    house.advance_ms(601_000);
    refused(&come_back(&mut late, &back), 403, again);
}

#[test]
fn s14_nobody_is_let_in_by_somebody_elses_code_nonce_or_issuer() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    // A code of another trip, used or fresh: PKCE binds it to the browser that asked.
    let mut mallory = browser(&house);
    let location = leave(&mut mallory, "");
    let stolen = Trip::default().visit(&provider, &location, "ann");
    let mut ann = browser(&house);
    let location = leave(&mut ann, "");
    let back = Trip::default().visit(&provider, &location, "ann");
    let code = |url: &str| parameter(url, "code").unwrap();
    let injected = back.replace(&code(&back), &code(&stolen));
    refused(&come_back(&mut ann, &injected), 403, "did not confirm");

    // A replayed code.
    let mut bob = browser(&house);
    let location = leave(&mut bob, "");
    let first = Trip::default().visit(&provider, &location, "bob");
    assert_eq!(come_back(&mut bob, &first).status, 303);
    let location = leave(&mut bob, "");
    let second = Trip::default().visit(&provider, &location, "bob");
    refused(&come_back(&mut bob, &second.replace(&code(&second), &code(&first))), 403, "did not confirm");

    // Another nonce than ours in the ID token.
    let mut carol = browser(&house);
    let location = leave(&mut carol, "");
    let nonce = parameter(&location, "nonce").unwrap();
    let back = Trip::default().visit(&provider, &location.replace(&nonce, "another"), "carol");
    refused(&come_back(&mut carol, &back), 403, "cannot be believed");

    // Another PKCE challenge.
    let location = leave(&mut carol, "");
    let challenge = parameter(&location, "code_challenge").unwrap();
    let other = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let back = Trip::default().visit(&provider, &location.replace(&challenge, other), "carol");
    refused(&come_back(&mut carol, &back), 403, "did not confirm");

    // The answer of another issuer, or of one that does not say who it is though it should.
    for mixed_up in ["https%3A%2F%2Fidp.evil", ""] {
        let location = leave(&mut carol, "");
        let back = Trip::default().visit(&provider, &location, "carol");
        let (before, _) = back.split_once("&iss=").unwrap();
        let iss = if mixed_up.is_empty() { String::new() } else { format!("&iss={mixed_up}") };
        refused(&come_back(&mut carol, &format!("{before}{iss}")), 403, "another sign-in provider");
    }
    // The provider sends nobody to a longer address, and there is none.
    let location = leave(&mut carol, "");
    let longer = location.replace("callback", "callback%2Felsewhere");
    let answer = crate::client::ask(
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

#[test]
fn s14_an_address_alone_makes_nobody_an_admin() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Team);
    let admin = house.user_called(&house.main, Role::Admin, "admin@example.com");
    for verified in [false, true] {
        provider
            .account(&json!({"sub": "mallory", "email": "admin@example.com", "email_verified": verified}));
        let mut mallory = browser(&house);
        let (status, words) =
            if verified { (409, "already has your e-mail address") } else { (403, "verified") };
        refused(&sign_in(&mut mallory, &provider, "mallory"), status, words);
        assert!(!mallory.is_signed_in());
    }
    let still = house.runtime.block_on(house.store().user(house.main.id, admin.id)).unwrap().unwrap();
    assert_eq!((still.email.as_str(), still.last_login_at), ("admin@example.com", None));
    // The admin's own invitation links the account, by whatever address the provider knows them.
    let by = rlinks_ops::Requester::operator(crate::support::operator());
    let email = rlinks_core::Email::parse("carol@example.com").unwrap();
    let invite = house.ops.invite(&by, &house.main, email, String::new(), Role::Admin);
    let (carol, invitation) = house.runtime.block_on(invite).unwrap();
    let token = invitation.url.rsplit('/').next().unwrap().to_owned();
    provider.account(&json!({"sub": "carol", "email": "carol@work.example"}));
    let mut browser = browser(&house);
    let page = browser.get(&format!("/admin/invite/{token}"));
    assert!(page.body.contains(&format!("/admin/oidc/start?invitation={token}")), "{page:?}");
    let location = leave(&mut browser, &format!("?invitation={token}"));
    let back = Trip::default().visit(&provider, &location, "carol");
    assert_eq!(come_back(&mut browser, &back).status, 303);
    assert_eq!(me(&mut browser)["id"], carol.id.to_string());
    assert_eq!(me(&mut browser)["role"], "admin");
    assert!(house.actions().contains(&"auth.invitation_accepted".to_owned()));
    // Once.
    assert_eq!(browser.get(&format!("/admin/oidc/start?invitation={token}")).status, 404);
    let mut again = signed_in(&house, &provider, "carol");
    assert_eq!(me(&mut again)["id"], carol.id.to_string());
}

#[test]
fn every_kind_of_client_signs_people_in() {
    let provider = Provider::start();
    for (client, secret) in [("rlinks-web", Some(SECRET)), ("rlinks-public", None)] {
        let house = house_at(Place::sqlite(), &provider, Preset::Platform, |settings| {
            settings.client_id = client.to_owned();
            settings.client_secret = secret.map(|secret| ClientSecret::new(secret.to_owned()));
        });
        signed_in(&house, &provider, "ann");
    }
    let house = house_at(Place::sqlite(), &provider, Preset::Platform, |settings| {
        settings.client_secret = Some(ClientSecret::new("another".to_owned()));
    });
    refused(&sign_in(&mut browser(&house), &provider, "ann"), 403, "did not confirm");
}

#[test]
fn a_workspace_says_who_comes_in_and_how() {
    let provider = Provider::start();
    let rules = vec![rule("main", Role::Admin, Some("corp.example"), Some(("groups", "links-admins")))];
    let house = house_at(Place::sqlite(), &provider, Preset::Platform, |settings| settings.provision = rules);
    house.workspace("closed", Policy::preset(Preset::Edge), &[]);
    provider
        .account(&json!({"sub": "boss", "email": "boss@corp.example", "groups": ["staff", "links-admins"]}));
    let mut boss = signed_in(&house, &provider, "boss");
    assert_eq!(me(&mut boss)["role"], "admin");
    refused(&sign_in(&mut browser(&house), &provider, "ann"), 403, "no account for you");
    for query in ["?workspace=closed", "?workspace=nowhere", "?workspace=%00"] {
        refused(
            &browser(&house).get(&format!("/admin/oidc/start{query}")),
            403,
            "does not let people sign in this way",
        );
    }
    // The page of a host that names the workspace offers what its policy has: no password in `platform`.
    let page = Browser { host: "rmax.to".to_owned(), ..Browser::new(house.address) };
    let page = page.with("X-Forwarded-Proto", "https").get("/admin/login");
    assert!(!page.body.contains("type=\"password\"") || page.status == 403, "{page:?}");
    // A suspended member is locked out at once, and does not get in again.
    let admin = house.admin();
    let id = me(&mut boss)["id"].as_str().unwrap().to_owned();
    admin.patch(&format!("/users/{id}"), &json!({"status": "suspended"})).expect(200);
    assert!(!boss.is_signed_in());
    refused(&sign_in(&mut browser(&house), &provider, "boss"), 403, "suspended");
}

#[test]
fn row_46_sessions_outlive_the_provider() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    let mut ann = signed_in(&house, &provider, "ann");
    drop(provider);
    house.advance_ms(3 * 24 * 3_600_000);
    assert!(ann.is_signed_in());
    assert_eq!(call(&mut ann, "GET", "/links", None).0, 200);
    let answer = browser(&house).get("/admin/oidc/start");
    refused(&answer, 503, "cannot be reached");
}
