//! `oidc.*`: the OpenID provider people sign in with, and who of them becomes a member.

use rlinks_core::{Host, Role, Slug};
use rlinks_ops::outbound::is_loopback;
use rlinks_server::auth::oidc::provision::{ClaimRule, ProvisionRule};
use rlinks_server::auth::oidc::{Algorithm, CALLBACK_PATH, ClientSecret, OidcSettings};
use serde_json::{Map, Value};
use url::Url;

use super::layers::Layers;
use crate::error::CliError;

/// What is asked for where nothing is said.
const DEFAULT_SCOPES: [&str; 3] = ["openid", "email", "profile"];
/// The keys that mean nothing without `oidc.issuer`.
const DEPENDENT_KEYS: [&str; 7] = [
    "oidc.client_id",
    "oidc.client_secret",
    "oidc.audience",
    "oidc.algorithms",
    "oidc.scopes",
    "oidc.redirect_uri",
    "oidc.provision",
];

/// The provider, where one is configured.
pub(super) fn settings(layers: &mut Layers) -> Result<Option<OidcSettings>, CliError> {
    let Some(issuer) = layers.parsed("oidc.issuer", issuer)? else {
        return match DEPENDENT_KEYS.into_iter().find(|key| layers.get(key).is_some()) {
            None => Ok(None),
            Some(key) => Err(CliError::usage(format!("`{key}` is set and `oidc.issuer` is not"))),
        };
    };
    let Some(client_id) = layers.parsed("oidc.client_id", one_word)? else {
        return Err(CliError::usage("`oidc.issuer` is set and `oidc.client_id` is not; sign-in needs both"));
    };
    let mut algorithms = layers.list("oidc.algorithms", str::parse::<Algorithm>)?;
    if algorithms.is_empty() {
        algorithms = Algorithm::DEFAULTS.to_vec();
    }
    let mut scopes = layers.list("oidc.scopes", one_word)?;
    if scopes.is_empty() {
        scopes = DEFAULT_SCOPES.map(str::to_owned).to_vec();
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    Ok(Some(OidcSettings {
        issuer,
        client_id,
        client_secret: layers.secret("oidc.client_secret")?.map(ClientSecret::new),
        audience: layers.parsed("oidc.audience", one_word)?,
        algorithms,
        scopes,
        redirect_uri: layers.parsed("oidc.redirect_uri", redirect_uri)?,
        provision: layers.tables("oidc.provision", rule)?,
    }))
}

fn issuer(text: &str) -> Result<String, String> {
    let wrong = || {
        "must be the address the provider calls itself by, like https://login.example.com; plain http is for this machine only"
            .to_owned()
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
    let is_bare = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if is_safe && is_bare { Ok(text.to_owned()) } else { Err(wrong()) }
}

fn redirect_uri(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.path().ends_with(CALLBACK_PATH)
            && url.query().is_none()
            && url.fragment().is_none()
    });
    url.map(|_| text.to_owned()).ok_or_else(|| format!("must be a URL that ends in {CALLBACK_PATH}"))
}

fn one_word(text: &str) -> Result<String, String> {
    let is_word = (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_word { Ok(text.to_owned()) } else { Err("must be one word of at most 255 characters".to_owned()) }
}

fn rule(table: &Map<String, Value>) -> Result<ProvisionRule, String> {
    const RULE_KEYS: [&str; 4] = ["workspace", "role", "email_domain", "claim"];
    if let Some(key) = table.keys().find(|key| !RULE_KEYS.contains(&key.as_str())) {
        return Err(format!("has a rule with `{key}`; a rule has workspace, role, email_domain and claim"));
    }
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("has a rule whose `{key}` is not a text")),
    };
    let needed = |key: &str| text(key)?.ok_or_else(|| format!("has a rule without `{key}`"));
    let workspace = Slug::parse(needed("workspace")?)
        .map_err(|error| format!("has a rule whose workspace {}", error.message))?;
    let role: Role = needed("role")?
        .parse()
        .map_err(|_| "has a rule whose role is none of viewer, member, admin".to_owned())?;
    let host = |text: &str| {
        let host =
            Host::parse(text).map_err(|error| format!("has a rule whose email_domain {}", error.message))?;
        Ok::<_, String>(host.to_string())
    };
    let claim = |text: &str| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok(ClaimRule { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("has a rule whose claim is not `name=value`".to_owned()),
    };
    Ok(ProvisionRule {
        workspace: workspace.to_string(),
        role,
        email_domain: text("email_domain")?.map(host).transpose()?,
        claim: text("claim")?.map(claim).transpose()?,
    })
}
