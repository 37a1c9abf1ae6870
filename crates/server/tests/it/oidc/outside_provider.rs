//! The real provider, as `scripts/with-oidc` installs it. Without it these tests fail.

use rlinks_core::{Policy, Preset, Role};
use rlinks_store::clock::Clock;
use serde_json::json;

use crate::support::api_client::ApiClient;
use crate::support::database::TestStore;
use crate::support::members::TestServer;
use crate::support::oidc_issuer::{everybody, settings};
use crate::support::oidc_provider::Provider;

const API: &str = "https://links.test/api";

/// A server that trusts the provider, and whose clock shows the provider's time.
fn oidc_server(provider: &Provider, preset: Preset) -> TestServer {
    let mut settings = settings(&provider.issuer, everybody(Role::Member));
    settings.redirect_uri = Some(crate::support::oidc_provider::REDIRECT.to_owned());
    let server =
        TestServer::at(TestStore::sqlite(), Policy::preset(preset), |config| config.oidc = Some(settings));
    server.advance_ms(Clock::system().now().ms() - server.now().ms());
    server
}

fn with_token(server: &TestServer, token: &serde_json::Value) -> ApiClient {
    ApiClient { address: server.address, key: Some(token.as_str().unwrap().to_owned()) }
}

#[test]
fn only_access_tokens_open_the_api() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    for resource in [API, "https://links.test/api-ec"] {
        let tokens = provider.tokens("ann", resource);
        let me = with_token(&server, &tokens["access_token"]).get("/me").expect(200).json();
        assert_eq!(me["user"]["email"], "ann@example.com");
        // The ID token is of the same issuer, about the same person, and signed with the same key.
        with_token(&server, &tokens["id_token"]).get("/me").refused(401, "UNAUTHENTICATED");
    }
    // For another API, and one only the provider can read.
    let other = provider.tokens("ann", "https://other.test/api");
    with_token(&server, &other["access_token"]).get("/me").refused(401, "UNAUTHENTICATED");
    with_token(&server, &json!("an-opaque-token")).get("/me").refused(401, "UNAUTHENTICATED");
    // An hour later it is over.
    let tokens = provider.tokens("ann", API);
    server.advance_ms(3_600_000 + 60_000);
    with_token(&server, &tokens["access_token"]).get("/me").refused(401, "UNAUTHENTICATED");
}

#[test]
fn new_keys_are_learned_from_the_provider() {
    let provider = Provider::start();
    let server = oidc_server(&provider, Preset::Platform);
    let before = provider.tokens("ann", API);
    with_token(&server, &before["access_token"]).get("/me").expect(200);
    provider.rotate();
    let after = provider.tokens("ann", API);
    server.advance_ms(31_000);
    with_token(&server, &after["access_token"]).get("/me").expect(200);
    with_token(&server, &before["access_token"]).get("/me").expect(200);
}
