//! The real provider, as `scripts/with-oidc` installs it. Without it these tests fail.

use rlinks_core::{Policy, Preset, Role};
use rlinks_store::clock::Clock;
use serde_json::json;

use super::provider::Provider;
use super::{everybody, settings};
use crate::api::caller::Caller;
use crate::api::house::House;
use crate::database::Place;

const API: &str = "https://links.test/api";

/// A house that trusts the provider, and whose clock shows the provider's time.
fn house(provider: &Provider, preset: Preset) -> House {
    let mut settings = settings(&provider.issuer, everybody(Role::Member));
    settings.redirect_uri = Some(super::provider::REDIRECT.to_owned());
    let house = House::at(Place::sqlite(), Policy::preset(preset), |config| config.oidc = Some(settings));
    house.advance_ms(Clock::system().now().ms() - house.now().ms());
    house
}

fn with_token(house: &House, token: &serde_json::Value) -> Caller {
    Caller { address: house.address, key: Some(token.as_str().unwrap().to_owned()) }
}

#[test]
fn access_tokens_open_the_api_and_other_tokens_do_not() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    for resource in [API, "https://links.test/api-ec"] {
        let tokens = provider.tokens("ann", resource);
        let me = with_token(&house, &tokens["access_token"]).get("/me").expect(200).json();
        assert_eq!(me["user"]["email"], "ann@example.com");
        // The ID token is of the same issuer, about the same person, and signed with the same key.
        with_token(&house, &tokens["id_token"]).get("/me").refused(401, "UNAUTHENTICATED");
    }
    // For another API, and one only the provider can read.
    let other = provider.tokens("ann", "https://other.test/api");
    with_token(&house, &other["access_token"]).get("/me").refused(401, "UNAUTHENTICATED");
    with_token(&house, &json!("an-opaque-token")).get("/me").refused(401, "UNAUTHENTICATED");
    // An hour later it is over.
    let tokens = provider.tokens("ann", API);
    house.advance_ms(3_600_000 + 60_000);
    with_token(&house, &tokens["access_token"]).get("/me").refused(401, "UNAUTHENTICATED");
}

#[test]
fn new_keys_are_learned_from_the_provider() {
    let provider = Provider::start();
    let house = house(&provider, Preset::Platform);
    let before = provider.tokens("ann", API);
    with_token(&house, &before["access_token"]).get("/me").expect(200);
    provider.rotate();
    let after = provider.tokens("ann", API);
    house.advance_ms(31_000);
    with_token(&house, &after["access_token"]).get("/me").expect(200);
    with_token(&house, &before["access_token"]).get("/me").expect(200);
}
