//! Where the API is, whose account is meant, and the token to it: from the environment and from nowhere else.

use http::HeaderValue;
use rlinks_ops::outbound::is_loopback;
use url::Url;

use crate::environment::Environment;
use crate::error::CliError;

pub(crate) const TOKEN_VARIABLE: &str = "CLOUDFLARE_API_TOKEN";
/// Where the API is, if not at Cloudflare: for stand-ins. wrangler knows it by the same name.
const BASE_URL_VARIABLE: &str = "CLOUDFLARE_API_BASE_URL";
const DEFAULT_BASE_URL: &str = "https://api.cloudflare.com/client/v4";

/// An account and the way to it.
pub(crate) struct ApiAccess {
    pub(crate) base_url: Url,
    pub(crate) account: String,
    /// The token, as a request carries it.
    pub(crate) header: HeaderValue,
    /// The token, to mask it in messages.
    pub(crate) token: String,
}

impl ApiAccess {
    pub(crate) fn open(account: &str, environment: &Environment, env: &str) -> Result<Self, CliError> {
        let (header, token) = token(environment, env)?;
        Ok(Self { base_url: base_url(environment)?, account: account.to_owned(), header, token })
    }
}

/// The token, from the environment and from nowhere else. Whatever is wrong with it, it is not shown.
fn token(environment: &Environment, env: &str) -> Result<(HeaderValue, String), CliError> {
    let Some(value) = environment.get(TOKEN_VARIABLE) else {
        return Err(CliError::usage(format!(
            "environment `{env}` points at Cloudflare, and {TOKEN_VARIABLE} with a token to it is not set"
        ))
        .hint("Cloudflare's dashboard makes one under My Profile > API Tokens; it needs Account > Workers KV Storage > Edit"));
    };
    let text = value.to_str().map(str::trim).filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    let header = text.and_then(|text| HeaderValue::from_str(&format!("Bearer {text}")).ok());
    let (Some(mut header), Some(text)) = (header, text) else {
        return Err(CliError::usage(format!(
            "{TOKEN_VARIABLE} is no token: it has characters that no token has"
        )));
    };
    header.set_sensitive(true);
    Ok((header, text.to_owned()))
}

/// Where the API is.
fn base_url(environment: &Environment) -> Result<Url, CliError> {
    let text = environment.text(BASE_URL_VARIABLE).unwrap_or(DEFAULT_BASE_URL);
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) =
        url.filter(|url| url.username().is_empty() && url.query().is_none() && url.fragment().is_none())
    else {
        return Err(CliError::usage(format!(
            "{BASE_URL_VARIABLE} must be an address like {DEFAULT_BASE_URL}"
        )));
    };
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(CliError::usage(format!(
            "{BASE_URL_VARIABLE} is http: the token would travel in the clear; use https"
        )));
    }
    Ok(url)
}
