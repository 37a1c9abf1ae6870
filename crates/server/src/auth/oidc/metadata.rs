//! What an issuer says about itself, at `/.well-known/openid-configuration`.

use serde::Deserialize;
use url::Url;

use rlinks_ops::outbound::{OutboundClient, OutboundError};

/// Where the issuer's doors are.
#[derive(Clone, Debug)]
pub struct ProviderMetadata {
    /// Where people sign in.
    pub authorization_endpoint: Url,
    /// Where codes become tokens.
    pub token_endpoint: Url,
    /// Where a token tells more about its person.
    pub userinfo_endpoint: Option<Url>,
    /// Where the keys are.
    pub jwks_uri: Url,
    /// It says who it is when it sends people back.
    pub sends_issuer: bool,
    /// It takes our secret in the form only.
    pub secret_in_form: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
}

/// Asks the issuer. What calls itself otherwise is another issuer.
pub async fn discover(client: &OutboundClient, issuer: &str) -> Result<ProviderMetadata, OutboundError> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let body = client.get_json(&client.parse_url(&url)?, None).await?;
    let said: Document = serde_json::from_slice(&body)
        .map_err(|_| OutboundError::Malformed("it does not describe itself as OpenID says"))?;
    if said.issuer != issuer {
        return Err(OutboundError::Malformed("it calls itself by another name than `oidc.issuer`"));
    }
    if said.code_challenge_methods_supported.is_some_and(|methods| !methods.iter().any(|name| name == "S256"))
    {
        return Err(OutboundError::Malformed("it does not support PKCE with S256"));
    }
    let has = |wanted: &str| {
        let methods = said.token_endpoint_auth_methods_supported.as_ref();
        methods.map(|methods| methods.iter().any(|name| name == wanted))
    };
    Ok(ProviderMetadata {
        authorization_endpoint: client.parse_url(&said.authorization_endpoint)?,
        token_endpoint: client.parse_url(&said.token_endpoint)?,
        userinfo_endpoint: said.userinfo_endpoint.as_deref().map(|url| client.parse_url(url)).transpose()?,
        jwks_uri: client.parse_url(&said.jwks_uri)?,
        sends_issuer: said.authorization_response_iss_parameter_supported,
        // Where it does not say, the header is the rule.
        secret_in_form: has("client_secret_basic") == Some(false) && has("client_secret_post") == Some(true),
    })
}
