//! A running server, asked through its REST API.
//!
//! This file is how it is asked: deadlines, what is tried again, what an answer may be, and what its errors mean here. What is asked is
//! in [`links`] and [`members`]; both give the values a store would give, so that commands print them by the same code.
//!
//! The key goes to the configured address and nowhere else: no redirect is followed, and nothing here prints or logs a header.

pub(crate) mod import_export;
mod links;
pub(crate) mod members;

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, IF_MATCH, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::hex;
use rlinks_ops::outbound::{self, client_builder, is_loopback};
use rlinks_store::clock::Random;
use rlinks_wire::Page;
use rlinks_wire::error::Envelope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::config::{Config, PlainHttp};
use crate::environment::Environment;
use crate::error::CliError;
use crate::output::Output;

const CONNECT_TIMEOUT_SECONDS: u64 = 5;
const REQUEST_TIMEOUT_SECONDS: u64 = 30;
/// For a whole file, in or out.
const TRANSFER_TIMEOUT_SECONDS: u64 = 600;
/// Tries of a request that may be repeated.
const MAX_ATTEMPTS: u32 = 3;
/// Before the second try; before the third it is twice as long.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Larger answers are not read.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Items of a list asked for at once: the most the API gives.
const PAGE_SIZE: usize = 100;
/// Items of a list that are held here.
const MAX_LISTED_ITEMS: usize = 100_000;
const API_KEY_VARIABLE: &str = "RMAX_API_KEY";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A server and the key to it.
pub(crate) struct ApiClient {
    http: reqwest::Client,
    server: Url,
    key: HeaderValue,
    random: Random,
    pub(crate) output: Output,
}

/// Who we are there.
#[derive(Deserialize)]
struct Me {
    workspace: String,
}

impl ApiClient {
    /// Nothing is asked yet but, where a workspace was named, whether it is the key's.
    pub(crate) async fn open(
        server: &Url,
        config: &Config,
        environment: &Environment,
        output: Output,
    ) -> Result<Self, CliError> {
        let key = key_header(environment, &config.env)?;
        if server.scheme() == "http" && !is_loopback(server) {
            let message = format!("{server} is plain http: the API key and all answers travel in the clear");
            if config.plain_http == PlainHttp::Refuse {
                return Err(CliError::usage(message).hint("use https, or --insecure on a network you trust"));
            }
            output.warning(&message);
        }
        let client = http_client(server)?;
        let client = Self { http: client, server: server.clone(), key, random: Random::system(), output };
        if config.workspace_named {
            client.ensure_workspace(&config.workspace).await?;
        }
        Ok(client)
    }

    async fn ensure_workspace(&self, named: &str) -> Result<(), CliError> {
        let actual = self.workspace().await?;
        if actual == named {
            return Ok(());
        }
        let message = format!("the key in {API_KEY_VARIABLE} is of workspace `{actual}`, not of `{named}`");
        Err(CliError::from_server(ErrorCode::Forbidden, message, Value::Null).hint(
            "on a server the key decides the workspace; leave --workspace out, or use a key of that one",
        ))
    }

    /// The slug of the key's workspace.
    pub(crate) async fn workspace(&self) -> Result<String, CliError> {
        Ok(self.get(&["me"]).read::<Me>().await?.workspace)
    }

    // ---- asking ----

    fn get(&self, path: &[&str]) -> Request<'_> {
        self.request(Method::GET, path)
    }

    /// A path below the API. Its parts are escaped.
    fn request(&self, method: Method, path: &[&str]) -> Request<'_> {
        let mut url = self.server.clone();
        url.path_segments_mut()
            .expect("an http address has a path")
            .pop_if_empty()
            .extend(["api", "v1"])
            .extend(path);
        Request { client: self, method, url, headers: Vec::new(), body: None, idempotent: false, slow: false }
    }

    /// The items of a list, `most` at most, page by page.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        most: usize,
    ) -> Result<Vec<T>, CliError> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        while items.len() < most {
            let limit = PAGE_SIZE.min(most - items.len());
            let mut request = self.get(path).query("limit", &limit.to_string());
            for (name, value) in query {
                request = request.query(name, value);
            }
            if let Some(cursor) = &cursor {
                request = request.query("cursor", cursor);
            }
            let page: Page<T> = request.read().await?;
            let is_empty = page.data.is_empty();
            items.extend(page.data);
            cursor = page.next_cursor;
            if cursor.is_none() || is_empty {
                break;
            }
        }
        items.truncate(most);
        Ok(items)
    }

    /// All items of a list that people look through.
    async fn whole_list<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Vec<T>, CliError> {
        let items = self.list(path, &[], MAX_LISTED_ITEMS + 1).await?;
        if items.len() > MAX_LISTED_ITEMS {
            return Err(CliError::failed(format!("the server lists more than {MAX_LISTED_ITEMS} of them")));
        }
        Ok(items)
    }

    // ---- what an answer means ----

    fn unreachable(&self, error: &reqwest::Error) -> CliError {
        let message = format!("{} cannot be reached: {}", self.server, root_cause(error));
        CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null)
            .hint("is it running there, and is the address right? It is `server` of the environment, or RMAX_SERVER")
    }

    fn unexpected_response(&self, answer: &ApiResponse) -> CliError {
        let kind = if answer.content_type.is_empty() { "no content type" } else { &answer.content_type };
        CliError::failed(format!(
            "{} does not answer like an rlinks server (status {}, {kind})",
            self.server,
            answer.status.as_u16()
        ))
        .hint("`server` must be where its API is: with `control_listen` that is another address than the links have")
    }

    /// The body of an answer that is one.
    fn check_status(&self, answer: ApiResponse) -> Result<ApiResponse, CliError> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        if answer.status.is_redirection() {
            return Err(CliError::failed(format!(
                "{} answers with a redirect{}, which is not followed: the key goes nowhere but to the configured address",
                self.server, answer.redirect_origin
            ))
            .hint("set `server` to the address the server really has"));
        }
        let Ok(Envelope { error }) = serde_json::from_slice::<Envelope>(&answer.body) else {
            // A proxy speaks for a server that does not.
            return Err(match answer.status.as_u16() {
                status @ (429 | 502..=504) => {
                    let message = format!("{} cannot answer now (status {status})", self.server);
                    CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null)
                }
                _ => self.unexpected_response(&answer),
            });
        };
        let code = ErrorCode::from_name(&error.code).unwrap_or_else(|| error_code_from_status(answer.status));
        if let (ErrorCode::RateLimited, Some(seconds)) = (code, answer.retry_after) {
            // Some messages say how long by themselves.
            let message = if [" seconds", "try again in "].iter().any(|words| error.message.contains(words)) {
                error.message
            } else {
                format!("{}; try again in {seconds} seconds", error.message)
            };
            return Err(CliError::from_server(code, message, json!({ "retry_after": seconds })));
        }
        let failure = CliError::from_server(code, error.message, error.details);
        Err(match code {
            ErrorCode::Unauthenticated => failure.hint(format!(
                "the server does not accept the key in {API_KEY_VARIABLE}: it is another server's, or expired, revoked or mistyped"
            )),
            ErrorCode::Forbidden => failure.hint(
                "`rmax keys create --scope <scopes>` makes a key that may do more, for whoever may do that",
            ),
            _ => failure,
        })
    }
}

/// One thing to ask.
struct Request<'a> {
    client: &'a ApiClient,
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Vec<u8>>,
    /// However often it is sent, it is done once.
    idempotent: bool,
    /// It may take a while.
    slow: bool,
}

struct ApiResponse {
    status: StatusCode,
    content_type: String,
    /// Where a redirect leads, in words.
    redirect_origin: String,
    retry_after: Option<u64>,
    body: Vec<u8>,
}

/// Why there is no answer.
enum TransportError {
    Http(reqwest::Error),
    /// It is longer than anything we ask for.
    BodyTooLarge,
}

impl Request<'_> {
    fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    /// A file as it is.
    fn file(mut self, file: Vec<u8>) -> Self {
        self.body = Some(file);
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")));
        self.slow = true;
        self
    }

    fn body(mut self, body: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_vec(body).expect("what we send is JSON"));
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        self
    }

    /// Only if this is still its version.
    fn if_version(mut self, version: i64) -> Self {
        let tag = HeaderValue::from_str(&format!("\"{version}\"")).expect("a number is a header value");
        self.headers.push((IF_MATCH, tag));
        self
    }

    /// Done once, however often it is sent.
    fn idempotent(mut self) -> Self {
        let name = HeaderValue::from_str(&hex::encode(&self.client.random.bytes::<16>()))
            .expect("digits are a header value");
        self.headers.push((IDEMPOTENCY_KEY, name));
        self.idempotent = true;
        self
    }

    async fn read<T: DeserializeOwned>(self) -> Result<T, CliError> {
        let client = self.client;
        let answer = self.send().await?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            tracing::debug!(%error, "an answer cannot be read");
            client.unexpected_response(&answer)
        })
    }

    /// Done, with nothing to read.
    async fn expect_no_content(self) -> Result<(), CliError> {
        let client = self.client;
        let answer = self.send().await?;
        if answer.status == StatusCode::NO_CONTENT {
            Ok(())
        } else {
            Err(client.unexpected_response(&answer))
        }
    }

    async fn send(self) -> Result<ApiResponse, CliError> {
        let mut tried = 1;
        loop {
            match self.try_once().await {
                Ok(answer) if answer.status != StatusCode::SERVICE_UNAVAILABLE => {
                    return self.client.check_status(answer);
                }
                Ok(answer) if tried >= MAX_ATTEMPTS || !self.is_repeatable() => {
                    return self.client.check_status(answer);
                }
                Err(TransportError::BodyTooLarge) => {
                    return Err(CliError::failed(format!(
                        "{} answers with more than {} MiB",
                        self.client.server,
                        MAX_BODY_BYTES / 1024 / 1024
                    )));
                }
                Err(TransportError::Http(error)) if tried >= MAX_ATTEMPTS || !self.may_retry(&error) => {
                    return Err(self.client.unreachable(&error));
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(RETRY_DELAY * tried).await;
            tried += 1;
        }
    }

    /// Whether doing it twice is the same as doing it once. A key or an invitation made twice would be two.
    fn is_repeatable(&self) -> bool {
        self.method != Method::POST || self.idempotent
    }

    /// Whether to try again after this. A request that never left can always follow; one whose answer got lost only where the
    /// next answer would be the same.
    fn may_retry(&self, error: &reqwest::Error) -> bool {
        error.is_connect() || (!error.is_timeout() && (self.method == Method::GET || self.idempotent))
    }

    async fn try_once(&self) -> Result<ApiResponse, TransportError> {
        let mut request = self.client.http.request(self.method.clone(), self.url.clone());
        request = request.header(AUTHORIZATION, self.client.key.clone());
        for (name, value) in &self.headers {
            request = request.header(name, value.clone());
        }
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        if self.slow {
            request = request.timeout(Duration::from_secs(TRANSFER_TIMEOUT_SECONDS));
        }
        let mut response = request.send().await.map_err(TransportError::Http)?;
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let mut answer = ApiResponse {
            status: response.status(),
            content_type: text(CONTENT_TYPE).unwrap_or_default().to_owned(),
            redirect_origin: text(LOCATION)
                .and_then(|place| redirect_origin(&self.url, place))
                .unwrap_or_default(),
            retry_after: text(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok()),
            body: Vec::new(),
        };
        while let Some(chunk) = response.chunk().await.map_err(TransportError::Http)? {
            if answer.body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(TransportError::BodyTooLarge);
            }
            answer.body.extend_from_slice(&chunk);
        }
        // The path alone: a query may hold an address somebody asks about.
        tracing::debug!(method = %self.method, path = self.url.path(), status = answer.status.as_u16(), "asked the server");
        Ok(answer)
    }
}

/// The key, from the environment and from nowhere else. Whatever is wrong with it, it is not shown.
fn key_header(environment: &Environment, env: &str) -> Result<HeaderValue, CliError> {
    let Some(value) = environment.get(API_KEY_VARIABLE) else {
        return Err(CliError::usage(format!(
            "environment `{env}` points at a server, and {API_KEY_VARIABLE} with a key to it is not set"
        ))
        .hint("`rmax keys create --name <name>`, run where the store is, makes a key"));
    };
    let text = value.to_str().map(str::trim).filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    let header = text.and_then(|text| HeaderValue::from_str(&format!("Bearer {text}")).ok());
    let mut header = header.ok_or_else(|| {
        CliError::usage(format!("{API_KEY_VARIABLE} is no API key: it has characters that no key has"))
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// A client with deadlines that follows no redirect.
pub(crate) fn http_client(server: &Url) -> Result<reqwest::Client, CliError> {
    client_builder(server)
        .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
        .timeout(Duration::from_secs(REQUEST_TIMEOUT_SECONDS))
        .build()
        .map_err(|error| CliError::failed(format!("no client can be made: {}", root_cause(&error))))
}

/// Where a redirect leads: the host is enough.
fn redirect_origin(asked: &Url, place: &str) -> Option<String> {
    let host = asked.join(place).ok()?.origin().ascii_serialization();
    Some(format!(" to {host}"))
}

/// What an error of the client is about, in its innermost words: those around it only repeat the address.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return if error.is_connect() {
            format!("no connection within {CONNECT_TIMEOUT_SECONDS} seconds")
        } else {
            format!("no whole answer within {REQUEST_TIMEOUT_SECONDS} seconds")
        };
    }
    outbound::root_cause(error)
}

/// An error of a server that is newer than this program.
fn error_code_from_status(status: StatusCode) -> ErrorCode {
    match status.as_u16() {
        401 => ErrorCode::Unauthenticated,
        403 => ErrorCode::Forbidden,
        404 | 410 => ErrorCode::NotFound,
        409 => ErrorCode::Conflict,
        412 => ErrorCode::PreconditionFailed,
        400 | 422 => ErrorCode::ValidationFailed,
        429 => ErrorCode::RateLimited,
        502..=504 => ErrorCode::KvUnavailable,
        _ => ErrorCode::Internal,
    }
}
