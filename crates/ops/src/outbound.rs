//! The server's own requests to others: the OpenID provider, Safe Browsing, registries. One client with one set of rules: a deadline, a
//! limit on what is read, no redirect followed unless said, no proxy for what does not leave this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Action, Attempt, Policy};
use rlinks_core::host::is_loopback_host;
use url::{Host, Url};

/// What requests of one kind may do.
#[derive(Clone, Copy, Debug)]
pub struct OutboundRules {
    pub connect_timeout: Duration,
    /// For all of it: connection, redirects and body.
    pub timeout: Duration,
    /// Longer answers are not read.
    pub max_response_bytes: usize,
    /// Zero where an answer counts only from the address that was asked.
    pub max_redirects: usize,
    pub addresses: AddressRule,
}

/// Which addresses may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// For URLs that users supply: only addresses of the public internet. What a name resolved to is checked and then connected to, so a
    /// name cannot point elsewhere in between; hence no proxy, which would resolve it again.
    PublicOnly,
    /// For URLs from the configuration, which may be internal.
    OperatorConfigured,
}

/// Why there is no answer we can use.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("it cannot be reached: it did not answer in time")]
    TimedOut,
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It redirects to where we don't go.
    #[error("it cannot be reached: {0}")]
    RefusedRedirect(String),
    #[error("its address is not public")]
    AddressNotPublic,
    /// It answered with something else.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// It answered with more than we read.
    #[error("its answer is longer than {}", size(*.max_bytes))]
    TooLong { max_bytes: usize },
    /// What it answered has no meaning here.
    #[error("{0}")]
    Malformed(&'static str),
}

fn size(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MB", bytes >> 20) } else { format!("{} KB", bytes >> 10) }
}

/// A client for one service.
#[derive(Clone)]
pub struct OutboundClient {
    client: reqwest::Client,
    rules: OutboundRules,
    /// Only a service on this machine may speak plain HTTP.
    is_local: bool,
}

impl OutboundClient {
    /// For a service at this address.
    pub fn new(service: &Url, rules: OutboundRules) -> Result<Self, OutboundError> {
        let is_local = is_loopback(service) && rules.addresses == AddressRule::OperatorConfigured;
        let mut builder =
            client_builder(service).connect_timeout(rules.connect_timeout).timeout(rules.timeout);
        if rules.max_redirects > 0 {
            builder = builder.redirect(Policy::custom(move |attempt| follow(attempt, &rules, is_local)));
        }
        if rules.addresses == AddressRule::PublicOnly {
            builder = builder.no_proxy().dns_resolver(Arc::new(PublicResolver));
        }
        let client = builder.build().map_err(|error| classify(&error))?;
        Ok(Self { client, rules, is_local })
    }

    /// An address the service named. Plain HTTP is for services on this machine.
    pub fn parse_url(&self, text: &str) -> Result<Url, OutboundError> {
        let url =
            Url::parse(text).map_err(|_| OutboundError::Malformed("it names an address that is none"))?;
        if is_safe(&url, self.is_local) && url.fragment().is_none() {
            Ok(url)
        } else {
            Err(OutboundError::Malformed("it names an address that is not https"))
        }
    }

    /// The JSON at an address.
    pub async fn get_json(&self, url: &Url, bearer: Option<&str>) -> Result<Vec<u8>, OutboundError> {
        let mut headers = vec![(ACCEPT, HeaderValue::from_static("application/json"))];
        if let Some(token) = bearer {
            headers.push((AUTHORIZATION, sensitive_header(&format!("Bearer {token}"))?));
        }
        let response = self.get(url, headers).await?;
        if response.status() != StatusCode::OK {
            return Err(OutboundError::Status(response.status()));
        }
        response.body().await
    }

    /// What is at an address, whatever its status.
    pub async fn get(
        &self,
        url: &Url,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<OutboundResponse, OutboundError> {
        self.send(url, self.client.get(url.clone()).headers(headers.into_iter().collect())).await
    }

    /// Sends a form, and gives the answer whatever its status.
    pub async fn post_form(
        &self,
        url: &Url,
        form: String,
        authorization: Option<&str>,
    ) -> Result<OutboundResponse, OutboundError> {
        let mut request = self
            .client
            .post(url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        if let Some(text) = authorization {
            request = request.header(AUTHORIZATION, sensitive_header(text)?);
        }
        self.send(url, request).await
    }

    /// Sends JSON, and gives the answer whatever its status.
    pub async fn post_json(&self, url: &Url, json: String) -> Result<OutboundResponse, OutboundError> {
        let request = self.client.post(url.clone()).header(CONTENT_TYPE, "application/json").body(json);
        self.send(url, request).await
    }

    async fn send(
        &self,
        url: &Url,
        request: reqwest::RequestBuilder,
    ) -> Result<OutboundResponse, OutboundError> {
        if !may_ask(url, self.rules.addresses) {
            return Err(OutboundError::AddressNotPublic);
        }
        let response = request.send().await.map_err(|error| classify(&error))?;
        Ok(OutboundResponse { response, max_bytes: self.rules.max_response_bytes })
    }
}

/// An answer whose body has not been read yet.
pub struct OutboundResponse {
    response: reqwest::Response,
    max_bytes: usize,
}

impl OutboundResponse {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub async fn body(mut self) -> Result<Vec<u8>, OutboundError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.response.chunk().await.map_err(|error| classify(&error))? {
            if body.len() + chunk.len() > self.max_bytes {
                return Err(OutboundError::TooLong { max_bytes: self.max_bytes });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// What all our clients have in common, also those of the command line.
pub fn client_builder(service: &Url) -> reqwest::ClientBuilder {
    // The client takes the process's TLS provider and panics without one. If one was chosen before, it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("rmax/", env!("CARGO_PKG_VERSION")));
    // What does not leave this machine has no business with a proxy.
    if is_loopback(service) { builder.no_proxy() } else { builder }
}

/// Whether a URL leads to this machine itself.
pub fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// The innermost reason of an error. Those around it repeat the address, whose query may hold what is nobody's business.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}

fn classify(error: &reqwest::Error) -> OutboundError {
    if error.is_timeout() {
        OutboundError::TimedOut
    } else if error.is_redirect() {
        OutboundError::RefusedRedirect(root_cause(error))
    } else if has_source::<NotPublicError>(error) {
        OutboundError::AddressNotPublic
    } else {
        OutboundError::Unreachable(root_cause(error))
    }
}

fn has_source<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<E>)
}

/// A header nobody prints.
fn sensitive_header(text: &str) -> Result<HeaderValue, OutboundError> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| OutboundError::Malformed("its token is no header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn follow(attempt: Attempt<'_>, rules: &OutboundRules, is_local: bool) -> Action {
    if attempt.previous().len() > rules.max_redirects {
        attempt.error("too many redirects")
    } else if !is_safe(attempt.url(), is_local) {
        attempt.error("a redirect away from https")
    } else if !may_ask(attempt.url(), rules.addresses) {
        attempt.error("a redirect to an address that is not public")
    } else {
        attempt.follow()
    }
}

/// Whether nobody on the way can read or change what is said there.
fn is_safe(url: &Url, is_local: bool) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_local && is_loopback(url)
}

/// Whether a URL is allowed as far as it says itself. Names are looked at once they are resolved.
fn may_ask(url: &Url, rule: AddressRule) -> bool {
    match (rule, url.host()) {
        (AddressRule::OperatorConfigured, _) | (AddressRule::PublicOnly, Some(Host::Domain(_))) => true,
        (AddressRule::PublicOnly, Some(Host::Ipv4(address))) => is_public(address.into()),
        (AddressRule::PublicOnly, Some(Host::Ipv6(address))) => is_public(address.into()),
        (AddressRule::PublicOnly, None) => false,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("its address is not public")]
struct NotPublicError;

/// Resolves names to their public addresses alone.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(NotPublicError.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is one of the public internet, by IANA's registries of special addresses.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || matches!(
            (a, b, c),
            (0 | 224.., _, _) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _)
        );
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // What a network without IPv4 reaches IPv4 by.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Protocols, documentation and IPv4 in IPv6.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use url::Url;

    use super::{AddressRule, OutboundClient, OutboundError, OutboundRules, is_public};

    fn client(service: &Url, addresses: AddressRule, max_redirects: usize) -> OutboundClient {
        let timeout = Duration::from_secs(5);
        let rules = OutboundRules {
            connect_timeout: timeout,
            timeout,
            max_response_bytes: 1 << 10,
            max_redirects,
            addresses,
        };
        OutboundClient::new(service, rules).unwrap()
    }

    /// A server on this machine that gives every request the same answer.
    async fn service(answer: String) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        url.parse().unwrap()
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn internal_addresses_are_refused_only_for_urls_that_users_supply() {
        let url = service(ok("hello")).await;
        let port = url.port().unwrap();
        let operator = client(&url, AddressRule::OperatorConfigured, 0);
        assert_eq!(operator.get(&url, Vec::new()).await.unwrap().body().await.unwrap(), b"hello");
        let public = client(&url, AddressRule::PublicOnly, 0);
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"] {
            let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
            let refused = public.get(&url, Vec::new()).await.map(|response| response.status());
            assert!(matches!(refused, Err(OutboundError::AddressNotPublic)), "{host}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn redirect_is_followed_only_where_the_rules_say_so() {
        let target = service(ok("there")).await;
        let moved = format!(
            "HTTP/1.1 302 Found\r\nlocation: {target}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let url = service(moved).await;
        let stays = client(&url, AddressRule::OperatorConfigured, 0);
        assert_eq!(stays.get(&url, Vec::new()).await.unwrap().status(), StatusCode::FOUND);
        let follows = client(&url, AddressRule::OperatorConfigured, 1);
        assert_eq!(follows.get(&url, Vec::new()).await.unwrap().body().await.unwrap(), b"there");

        let away = "HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let url = service(away.to_owned()).await;
        let refused = client(&url, AddressRule::OperatorConfigured, 1).get(&url, Vec::new()).await;
        assert!(matches!(refused.map(|_| ()), Err(OutboundError::RefusedRedirect(_))));
    }

    #[tokio::test]
    async fn long_answer_is_not_read() {
        let url = service(ok(&"x".repeat(1025))).await;
        let response = client(&url, AddressRule::OperatorConfigured, 0).get(&url, Vec::new()).await.unwrap();
        let error = response.body().await.unwrap_err();
        assert_eq!(error.to_string(), "its answer is longer than 1 KB");
    }

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.0.1",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in
            ["1.1.1.1", "100.128.0.1", "172.32.0.1", "::ffff:1.1.1.1", "64:ff9b::101:101", "2606:4700::1111"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
