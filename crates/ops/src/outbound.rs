//! Asking the issuer. Deadlines, a limit on what is read, and no redirect is followed: what an issuer says, it says at its own address.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer answers are not read.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Why the issuer gave no answer we can use.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OutboundError {
    /// It did not answer in time, or not at all.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It answered with something else.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// It answered with more than we read.
    #[error("its answer is longer than 1 MB")]
    TooLong,
    /// What it answered has no meaning here.
    #[error("{0}")]
    Malformed(&'static str),
}

/// A client for one issuer.
#[derive(Clone)]
pub struct OutboundClient {
    client: reqwest::Client,
    /// Only an issuer on this machine may speak plain HTTP.
    is_local_issuer: bool,
}

impl OutboundClient {
    /// For an issuer at this address.
    pub fn new(issuer: &Url) -> Result<Self, OutboundError> {
        let is_local_issuer = is_loopback(issuer);
        // The client takes the process's TLS provider and panics without one. If one was chosen before, it stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .redirect(Policy::none())
            .user_agent(concat!("rlinks/", env!("CARGO_PKG_VERSION")));
        if is_local_issuer {
            // What does not leave this machine has no business with a proxy.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| unreachable_because(&error))?;
        Ok(Self { client, is_local_issuer })
    }

    /// An address the issuer named. Plain HTTP is for issuers on this machine.
    pub fn parse_url(&self, text: &str) -> Result<Url, OutboundError> {
        let url =
            Url::parse(text).map_err(|_| OutboundError::Malformed("it names an address that is none"))?;
        let is_safe =
            url.scheme() == "https" || url.scheme() == "http" && self.is_local_issuer && is_loopback(&url);
        if is_safe && url.fragment().is_none() {
            Ok(url)
        } else {
            Err(OutboundError::Malformed("it names an address that is not https"))
        }
    }

    /// What is at an address.
    pub async fn get(&self, url: &Url, bearer: Option<&str>) -> Result<Vec<u8>, OutboundError> {
        let mut request = self.client.get(url.clone()).header(ACCEPT, "application/json");
        if let Some(token) = bearer {
            request = request.header(AUTHORIZATION, sensitive_header(&format!("Bearer {token}"))?);
        }
        let (status, body) = send(request).await?;
        if status == StatusCode::OK { Ok(body) } else { Err(OutboundError::Status(status)) }
    }

    /// Sends a form, and gives the answer whatever its status.
    pub async fn post(
        &self,
        url: &Url,
        form: String,
        authorization: Option<&str>,
    ) -> Result<(StatusCode, Vec<u8>), OutboundError> {
        let mut request = self
            .client
            .post(url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        if let Some(text) = authorization {
            request = request.header(AUTHORIZATION, sensitive_header(text)?);
        }
        send(request).await
    }
}

/// A header nobody prints.
fn sensitive_header(text: &str) -> Result<HeaderValue, OutboundError> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| OutboundError::Malformed("its token is no header"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn send(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), OutboundError> {
    let mut response = request.send().await.map_err(|error| unreachable_because(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable_because(&error))? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(OutboundError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

/// The innermost reason. The outer ones repeat the address, whose query may hold what is nobody's business.
fn unreachable_because(error: &reqwest::Error) -> OutboundError {
    if error.is_timeout() {
        return OutboundError::Unreachable("it did not answer in time".to_owned());
    }
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    OutboundError::Unreachable(reason.to_string())
}

/// Whether an address is this machine's own.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
