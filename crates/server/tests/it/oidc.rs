//! OpenID: tokens made by hand against a stand-in for an issuer that can misbehave as no real one would, and in `outside_provider` a
//! real one.

mod accounts;
mod flow;
mod issuer;
mod keys;
mod outside_provider;
mod outside_sign_in;
mod provider;
mod tokens;

use rlinks_core::{Policy, Preset, Role};
use rlinks_server::auth::oidc::provision::{ClaimRule, ProvisionRule};
use rlinks_server::auth::oidc::{Algorithm, OidcSettings};

use self::issuer::Stub;
use crate::api::house::House;
use crate::database::Place;

pub(crate) const CLIENT: &str = "rlinks-web";
pub(crate) const AUDIENCE: &str = "rlinks-api";

pub(crate) fn settings(issuer: &str, provision: Vec<ProvisionRule>) -> OidcSettings {
    OidcSettings {
        issuer: issuer.to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: None,
        audience: Some(AUDIENCE.to_owned()),
        algorithms: Algorithm::DEFAULTS.to_vec(),
        scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
        redirect_uri: None,
        provision,
    }
}

/// Everybody becomes a member of `main`.
pub(crate) fn everybody(role: Role) -> Vec<ProvisionRule> {
    vec![rule("main", role, None, None)]
}

pub(crate) fn rule(
    workspace: &str,
    role: Role,
    domain: Option<&str>,
    claim: Option<(&str, &str)>,
) -> ProvisionRule {
    ProvisionRule {
        workspace: workspace.to_owned(),
        role,
        email_domain: domain.map(str::to_owned),
        claim: claim.map(|(name, value)| ClaimRule { name: name.to_owned(), value: value.to_owned() }),
    }
}

/// A house that trusts a stub.
pub(crate) fn house(stub: &Stub, rules: Vec<ProvisionRule>) -> House {
    house_at(Place::sqlite(), Policy::preset(Preset::Platform), stub, rules)
}

pub(crate) fn house_at(place: Place, policy: Policy, stub: &Stub, rules: Vec<ProvisionRule>) -> House {
    let settings = settings(&stub.issuer, rules);
    House::at(place, policy, |config| config.oidc = Some(settings))
}
