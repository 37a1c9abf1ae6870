//! How Cloudflare's key-value API is asked: deadlines, pages, bulk, and what is tried again.
//!
//! The token goes to the API's address and nowhere else: no redirect is followed, nothing prints or logs a header, and a message
//! that repeats it is masked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, StatusCode};
use rlinks_core::error_code::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::ApiAccess;
use super::errors::{KEY_NOT_FOUND, error_code, rate_limited};
use super::request::{ApiResponse, Envelope, KvRequest};
use super::retry::{TransientError, retry_delay};
use crate::backend::api_client::{http_client, root_cause};
use crate::environment::Environment;
use crate::error::CliError;
use crate::output::Output;

/// Keys on one page of a list: the most there are.
const KEYS_PER_PAGE: usize = 1000;
/// Values read at once: the most the API gives.
pub(crate) const MAX_KEYS_PER_READ: usize = 100;
/// Pairs written, or keys deleted, at once: the most the API takes.
const MAX_PAIRS_PER_WRITE: usize = 10_000;
/// The API takes 100 MB; less of it is there within the deadline on a slow line too.
const MAX_WRITE_BYTES: usize = 16 * 1024 * 1024;
/// Larger answers are not read.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const MAX_LISTED_KEYS: usize = 5_000_000;
/// A pause worth a word.
const NOTED_DELAY: Duration = Duration::from_secs(2);

/// An account of Cloudflare's and the token to it.
pub(crate) struct KvClient {
    http: reqwest::Client,
    access: ApiAccess,
    output: Output,
    /// How long this command has waited, in milliseconds.
    waited: AtomicU64,
}

/// A namespace of keys and values.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub(crate) id: String,
    /// What it holds, for people.
    pub(crate) name: &'static str,
}

/// Where a page of keys begins; the first one where nothing is known yet.
#[derive(Default)]
pub(crate) struct Cursor(String);

/// A pair as the bulk endpoint takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Deserialize)]
struct KeyName {
    name: String,
}

#[derive(Deserialize)]
struct BulkValues {
    values: HashMap<String, Option<Value>>,
}

#[derive(Deserialize)]
struct BulkResult {
    #[serde(default)]
    unsuccessful_keys: Vec<String>,
}

impl KvClient {
    pub(crate) fn open(
        account: &str,
        environment: &Environment,
        env: &str,
        output: Output,
    ) -> Result<Self, CliError> {
        let access = ApiAccess::open(account, environment, env)?;
        Ok(Self { http: http_client(&access.base_url)?, access, output, waited: AtomicU64::default() })
    }

    // ---- values ----

    /// The value of a key.
    pub(crate) async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Vec<u8>>, CliError> {
        let request = self.request(Method::GET, namespace, &["values", key]);
        let answer = self.send(&request).await?;
        // Only Cloudflare's own word: a proxy that finds nothing does not say that there is no link.
        if answer.status == StatusCode::NOT_FOUND && error_code(&answer.body) == Some(KEY_NOT_FOUND) {
            return Ok(None);
        }
        Ok(Some(self.access.check_status(&request, answer)?.body))
    }

    pub(crate) async fn put(&self, namespace: &Namespace, key: &str, value: String) -> Result<(), CliError> {
        let mut request = self.request(Method::PUT, namespace, &["values", key]);
        request.body = Some(("text/plain; charset=utf-8", value.into_bytes()));
        let answer = self.send(&request).await?;
        self.access.check_status(&request, answer).map(drop)
    }

    pub(crate) async fn delete(&self, namespace: &Namespace, key: &str) -> Result<(), CliError> {
        let request = self.request(Method::DELETE, namespace, &["values", key]);
        let answer = self.send(&request).await?;
        // A try whose answer got lost may have done it.
        if answer.status == StatusCode::NOT_FOUND && error_code(&answer.body) == Some(KEY_NOT_FOUND) {
            return Ok(());
        }
        self.access.check_status(&request, answer).map(drop)
    }

    /// The keys that begin so, in their order.
    pub(crate) async fn keys(&self, namespace: &Namespace, prefix: &str) -> Result<Vec<String>, CliError> {
        let (mut keys, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(at) = cursor {
            let (page, next) = self.page(namespace, prefix, at).await?;
            keys.extend(page);
            if keys.len() > MAX_LISTED_KEYS {
                let about = self.request(Method::GET, namespace, &[]).description;
                return Err(CliError::failed(format!(
                    "{about} has more than {MAX_LISTED_KEYS} keys that begin with {prefix}"
                )));
            }
            cursor = next;
        }
        Ok(keys)
    }

    /// A page of them, and where the next one begins.
    pub(crate) async fn page(
        &self,
        namespace: &Namespace,
        prefix: &str,
        Cursor(cursor): Cursor,
    ) -> Result<(Vec<String>, Option<Cursor>), CliError> {
        let mut request = self.request(Method::GET, namespace, &["keys"]);
        request
            .url
            .query_pairs_mut()
            .append_pair("prefix", prefix)
            .append_pair("limit", &KEYS_PER_PAGE.to_string());
        if !cursor.is_empty() {
            request.url.query_pairs_mut().append_pair("cursor", &cursor);
        }
        let page: Envelope<Vec<KeyName>> = self.read(&request).await?;
        let keys = page.result.unwrap_or_default().into_iter().map(|key| key.name).collect();
        let next = page.result_info.and_then(|info| info.cursor).unwrap_or_default();
        Ok((keys, (!next.is_empty() && next != cursor).then_some(Cursor(next))))
    }

    /// The values of several keys; those that are gone are left out.
    pub(crate) async fn get_all(
        &self,
        namespace: &Namespace,
        keys: &[String],
    ) -> Result<HashMap<String, String>, CliError> {
        let mut found = HashMap::new();
        for some in keys.chunks(MAX_KEYS_PER_READ) {
            let mut request = self.request(Method::POST, namespace, &["bulk", "get"]);
            request.body = Some(json_body(&json!({ "keys": some, "type": "text" })));
            let answer: Envelope<BulkValues> = self.read(&request).await?;
            for (key, value) in answer.result.map(|result| result.values).unwrap_or_default() {
                match value {
                    Some(Value::String(text)) => drop(found.insert(key, text)),
                    None | Some(Value::Null) => {}
                    Some(other) => drop(found.insert(key, other.to_string())),
                }
            }
        }
        Ok(found)
    }

    pub(crate) async fn put_all(&self, namespace: &Namespace, pairs: &[KeyValue]) -> Result<(), CliError> {
        for some in chunks_within_limits(pairs) {
            let mut request = self.request(Method::PUT, namespace, &["bulk"]);
            request.body = Some(json_body(&some));
            self.send_bulk(&request).await?;
        }
        Ok(())
    }

    pub(crate) async fn delete_all(&self, namespace: &Namespace, keys: &[String]) -> Result<(), CliError> {
        for some in keys.chunks(MAX_PAIRS_PER_WRITE) {
            let mut request = self.request(Method::POST, namespace, &["bulk", "delete"]);
            request.body = Some(json_body(&some));
            self.send_bulk(&request).await?;
        }
        Ok(())
    }

    /// A bulk request, until Cloudflare names no key that it did not manage. Asking for all again is the same as for the rest.
    async fn send_bulk(&self, request: &KvRequest) -> Result<(), CliError> {
        let mut tried = 0;
        loop {
            let done: Envelope<BulkResult> = self.read(request).await?;
            let left = done.result.map(|done| done.unsuccessful_keys).unwrap_or_default();
            let Some(first) = left.first() else { return Ok(()) };
            tried += 1;
            if !self.wait_to_retry(TransientError::ServerError, tried).await {
                let message =
                    format!("{} did not take {} keys, {first} among them", request.description, left.len());
                return Err(CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null));
            }
        }
    }

    // ---- asking ----

    fn request(&self, method: Method, namespace: &Namespace, path: &[&str]) -> KvRequest {
        let mut url = self.access.base_url.clone();
        url.path_segments_mut()
            .expect("an http address has a path")
            .pop_if_empty()
            .extend(["accounts", &self.access.account, "storage", "kv", "namespaces", &namespace.id])
            .extend(path);
        KvRequest {
            method,
            url,
            body: None,
            description: format!("Cloudflare's namespace {} ({})", namespace.id, namespace.name),
        }
    }

    async fn read<T: DeserializeOwned>(&self, request: &KvRequest) -> Result<Envelope<T>, CliError> {
        let answer = self.send(request).await?;
        let answer = self.access.check_status(request, answer)?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            tracing::debug!(%error, "an answer cannot be read");
            self.access.unexpected_response(&answer)
        })
    }

    /// An answer that is no passing trouble. What is passing is waited out as long as patience lasts.
    async fn send(&self, request: &KvRequest) -> Result<ApiResponse, CliError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let (transient, failure) = match self.try_once(request).await {
                Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                    (TransientError::RateLimited(answer.retry_after), rate_limited(answer.retry_after))
                }
                Ok(answer) if answer.status.is_server_error() => {
                    let said = self
                        .access
                        .error_message(&answer.body)
                        .map(|said| format!(": {said}"))
                        .unwrap_or_default();
                    let status = answer.status.as_u16();
                    let message =
                        format!("{} cannot answer now (status {status}{said})", request.description);
                    (
                        TransientError::ServerError,
                        CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null),
                    )
                }
                Ok(answer) => return Ok(answer),
                Err(TransportError::BodyTooLarge) => {
                    let most = MAX_BODY_BYTES / 1024 / 1024;
                    return Err(CliError::failed(format!(
                        "{} answers with more than {most} MiB",
                        request.description
                    )));
                }
                Err(TransportError::Http(error)) => {
                    let host = self.access.base_url.host_str().unwrap_or_default();
                    let message =
                        format!("Cloudflare's API at {host} cannot be reached: {}", root_cause(&error));
                    (
                        TransientError::NoResponse,
                        CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null),
                    )
                }
            };
            if !self.wait_to_retry(transient, tried).await {
                return Err(failure);
            }
        }
    }

    /// Waits, or says that it is time to give up.
    async fn wait_to_retry(&self, transient: TransientError, tried: u32) -> bool {
        let so_far = self.waited.load(Ordering::Relaxed);
        let Some(pause) = retry_delay(transient, tried, Duration::from_millis(so_far)) else { return false };
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.waited.store(so_far.saturating_add(ms), Ordering::Relaxed);
        if matches!(transient, TransientError::RateLimited(_)) && pause >= NOTED_DELAY {
            self.output.note(&format!("Cloudflare wants a pause: going on in {} seconds", pause.as_secs()));
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// For a command that never ends, or goes on page by page: patience begins anew.
    pub(crate) fn reset_backoff(&self) {
        self.waited.store(0, Ordering::Relaxed);
    }

    async fn try_once(&self, request: &KvRequest) -> Result<ApiResponse, TransportError> {
        let mut builder = self.http.request(request.method.clone(), request.url.clone());
        builder = builder.header(AUTHORIZATION, self.access.header.clone());
        if let Some((kind, body)) = &request.body {
            builder = builder.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let mut response = builder.send().await.map_err(TransportError::Http)?;
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let mut answer = ApiResponse {
            status: response.status(),
            retry_after: seconds.and_then(|seconds| seconds.trim().parse().ok()),
            body: Vec::new(),
        };
        while let Some(chunk) = response.chunk().await.map_err(TransportError::Http)? {
            if answer.body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(TransportError::BodyTooLarge);
            }
            answer.body.extend_from_slice(&chunk);
        }
        tracing::debug!(method = %request.method, path = request.url.path(), status = answer.status.as_u16(), "asked Cloudflare");
        Ok(answer)
    }
}

/// Why there is no answer.
enum TransportError {
    Http(reqwest::Error),
    BodyTooLarge,
}

fn json_body(body: &impl Serialize) -> (&'static str, Vec<u8>) {
    ("application/json", serde_json::to_vec(body).expect("what we send is JSON"))
}

/// Pieces the API takes: not too many pairs, and not too many bytes.
fn chunks_within_limits(mut pairs: &[KeyValue]) -> impl Iterator<Item = &[KeyValue]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |pair: &&KeyValue| {
            bytes += pair.key.len() + pair.value.len();
            bytes <= MAX_WRITE_BYTES
        };
        let count = pairs.iter().take(MAX_PAIRS_PER_WRITE).take_while(fits).count().max(1);
        let (piece, rest) = pairs.split_at_checked(count)?;
        pairs = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use url::Url;

    use super::*;

    fn pair(bytes: usize) -> KeyValue {
        KeyValue { key: "k".to_owned(), value: "x".repeat(bytes) }
    }

    #[test]
    fn bulk_writes_are_split_at_the_api_limits() {
        let sizes =
            |pairs: &[KeyValue]| chunks_within_limits(pairs).map(<[KeyValue]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&vec![pair(1); 20_001]), [10_000, 10_000, 1]);
        let third = MAX_WRITE_BYTES / 3;
        assert_eq!(sizes(&[pair(third), pair(third), pair(third), pair(1)]), [2, 2]);
        // What is too large alone is sent alone, and refused by Cloudflare with its own words.
        assert_eq!(sizes(&[pair(1), pair(MAX_WRITE_BYTES), pair(1)]), [1, 1, 1]);
    }

    #[test]
    fn urls_are_escaped_and_error_messages_mask_the_token() {
        let base = Url::parse("https://api.example/client/v4/").unwrap();
        let api = KvClient {
            http: http_client(&base).unwrap(),
            access: ApiAccess {
                base_url: base,
                account: "acc".to_owned(),
                header: HeaderValue::from_static("Bearer t"),
                token: "secret".to_owned(),
            },
            output: Output::json(&Environment::read()),
            waited: AtomicU64::default(),
        };
        let namespace = Namespace { id: "ns".to_owned(), name: "links" };
        let request = api.request(Method::GET, &namespace, &["values", "route:a/b?c#d%"]);
        assert_eq!(
            request.url.as_str(),
            "https://api.example/client/v4/accounts/acc/storage/kv/namespaces/ns/values/route:a%2Fb%3Fc%23d%25"
        );
        let body = br#"{"success":false,"errors":[{"code":10000,"message":"no secret here"}],"result":null}"#;
        assert_eq!(api.access.error_message(body).unwrap(), "10000 no *** here");
        assert_eq!(error_code(body), Some(10_000));
        assert_eq!(error_code(b"<html>"), None);
    }
}
