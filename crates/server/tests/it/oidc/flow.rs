//! Leaving for the provider, as far as that needs no provider.

use rlinks_core::{Policy, Preset, Role};

use super::issuer::{Signing, Stub};
use super::{everybody, settings};
use crate::api::house::House;
use crate::database::Place;
use crate::sign_in::browser::Browser;

fn house(stub: &Stub, preset: Preset) -> House {
    let mut settings = settings(&stub.issuer, everybody(Role::Member));
    settings.redirect_uri = Some("http://localhost/admin/oidc/callback".to_owned());
    House::at(Place::sqlite(), Policy::preset(preset), |config| config.oidc = Some(settings))
}

fn browser(house: &House) -> Browser {
    Browser { host: "localhost".to_owned(), ..Browser::new(house.address) }
}

#[test]
fn each_trip_has_a_state_a_nonce_and_a_challenge_of_its_own() {
    let stub = Stub::with(&[Signing::ec("ec").public()]);
    let house = house(&stub, Preset::Platform);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let mut browser = browser(&house);
        let answer = browser.get("/admin/oidc/start?next=https://evil.example/");
        assert_eq!(answer.status, 303, "{answer:?}");
        let location = answer.location().unwrap();
        assert!(
            location.starts_with(&format!("{}/authorize?response_type=code&", stub.issuer)),
            "{location}"
        );
        for name in ["state", "nonce", "code_challenge"] {
            let value = super::provider::parameter(location, name).unwrap();
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
fn the_login_page_offers_what_can_be_used() {
    let stub = Stub::with(&[Signing::ec("ec").public()]);
    let house = house(&stub, Preset::Team);
    let page = browser(&house).get("/admin/login?next=/admin/account");
    assert!(
        page.body.contains("action=\"/admin/oidc/start\"") && page.body.contains("type=\"password\""),
        "{page:?}"
    );
    // Who sends a form takes the last step by a link: a form of ours leads to our own pages only.
    let leave = browser(&house).get("/admin/oidc/start?via=form&workspace=main&next=/admin/account");
    assert_eq!((leave.status, leave.location()), (200, None), "{leave:?}");
    assert!(leave.body.contains(&format!("href=\"{}/authorize?", stub.issuer)), "{leave:?}");
    // On another host than the provider's, the trip begins where it will end.
    let mut other = Browser::new(house.address);
    let moved = other.get("/admin/oidc/start?workspace=main");
    assert_eq!(
        moved.location(),
        Some("http://localhost/admin/oidc/start?workspace=main&moved=1"),
        "{moved:?}"
    );
    assert_eq!(other.cookie("rlinks-oidc"), None);

    let without = House::new(Preset::Team);
    let mut browser = browser(&without);
    assert!(!browser.get("/admin/login").body.contains("/admin/oidc/start"));
    assert_eq!(browser.get("/admin/oidc/start").status, 404);
    assert_eq!(browser.get("/admin/oidc/callback?code=x&state=y").status, 404);
}

#[test]
fn nothing_comes_back_that_did_not_leave() {
    let stub = Stub::with(&[Signing::ec("ec").public()]);
    let house = house(&stub, Preset::Platform);
    let mut browser = browser(&house);
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
    let state = super::provider::parameter(&location, "state").unwrap();
    let answer =
        browser.get(&format!("/admin/oidc/callback?error=%3Cscript%3Ealert(1)%3C/script%3E&state={state}"));
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("refused: scriptalert1script") && !answer.body.contains("alert("),
        "{answer:?}"
    );
}
