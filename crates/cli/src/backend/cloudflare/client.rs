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

use super::access::Access;
use super::errors::{NO_KEY, error_code, too_many};
use super::request::{Answer, Ask, Envelope};
use super::retry::{Trouble, pause};
use crate::backend::api_client::{client, why};
use crate::environment::Environment;
use crate::error::Failure;
use crate::output::Output;

/// Keys on one page of a list: the most there are.
const PAGE: usize = 1000;
/// Values read at once: the most the API gives.
pub(crate) const READ_AT_ONCE: usize = 100;
/// Pairs written, or keys deleted, at once: the most the API takes.
const WRITTEN_AT_ONCE: usize = 10_000;
/// The API takes 100 MB; less of it is there within the deadline on a slow line too.
const WRITTEN_BYTES: usize = 16 * 1024 * 1024;
/// Larger answers are not read.
const LONGEST_BODY: usize = 64 * 1024 * 1024;
/// Keys held here.
const MOST_KEYS: usize = 5_000_000;
/// A pause worth a word.
const LONG_PAUSE: Duration = Duration::from_secs(2);

/// An account of Cloudflare's and the token to it.
pub(crate) struct Api {
    client: reqwest::Client,
    access: Access,
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
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Deserialize)]
struct Key {
    name: String,
}

#[derive(Deserialize)]
struct Values {
    values: HashMap<String, Option<Value>>,
}

#[derive(Deserialize)]
struct BulkDone {
    #[serde(default)]
    unsuccessful_keys: Vec<String>,
}

impl Api {
    pub(crate) fn open(
        account: &str,
        environment: &Environment,
        env: &str,
        output: Output,
    ) -> Result<Self, Failure> {
        let access = Access::open(account, environment, env)?;
        Ok(Self { client: client(&access.base)?, access, output, waited: AtomicU64::default() })
    }

    // ---- values ----

    /// The value of a key.
    pub(crate) async fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let ask = self.ask(Method::GET, namespace, &["values", key]);
        let answer = self.send(&ask).await?;
        // Only Cloudflare's own word: a proxy that finds nothing does not say that there is no link.
        if answer.status == StatusCode::NOT_FOUND && error_code(&answer.body) == Some(NO_KEY) {
            return Ok(None);
        }
        Ok(Some(self.access.checked(&ask, answer)?.body))
    }

    pub(crate) async fn put(&self, namespace: &Namespace, key: &str, value: String) -> Result<(), Failure> {
        let mut ask = self.ask(Method::PUT, namespace, &["values", key]);
        ask.body = Some(("text/plain; charset=utf-8", value.into_bytes()));
        let answer = self.send(&ask).await?;
        self.access.checked(&ask, answer).map(drop)
    }

    pub(crate) async fn delete(&self, namespace: &Namespace, key: &str) -> Result<(), Failure> {
        let ask = self.ask(Method::DELETE, namespace, &["values", key]);
        let answer = self.send(&ask).await?;
        // A try whose answer got lost may have done it.
        if answer.status == StatusCode::NOT_FOUND && error_code(&answer.body) == Some(NO_KEY) {
            return Ok(());
        }
        self.access.checked(&ask, answer).map(drop)
    }

    /// The keys that begin so, in their order.
    pub(crate) async fn keys(&self, namespace: &Namespace, prefix: &str) -> Result<Vec<String>, Failure> {
        let (mut keys, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(at) = cursor {
            let (page, next) = self.page(namespace, prefix, at).await?;
            keys.extend(page);
            if keys.len() > MOST_KEYS {
                let about = self.ask(Method::GET, namespace, &[]).about;
                return Err(Failure::failed(format!(
                    "{about} has more than {MOST_KEYS} keys that begin with {prefix}"
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
    ) -> Result<(Vec<String>, Option<Cursor>), Failure> {
        let mut ask = self.ask(Method::GET, namespace, &["keys"]);
        ask.url.query_pairs_mut().append_pair("prefix", prefix).append_pair("limit", &PAGE.to_string());
        if !cursor.is_empty() {
            ask.url.query_pairs_mut().append_pair("cursor", &cursor);
        }
        let page: Envelope<Vec<Key>> = self.read(&ask).await?;
        let keys = page.result.unwrap_or_default().into_iter().map(|key| key.name).collect();
        let next = page.result_info.and_then(|info| info.cursor).unwrap_or_default();
        Ok((keys, (!next.is_empty() && next != cursor).then_some(Cursor(next))))
    }

    /// The values of several keys; those that are gone are left out.
    pub(crate) async fn get_all(
        &self,
        namespace: &Namespace,
        keys: &[String],
    ) -> Result<HashMap<String, String>, Failure> {
        let mut found = HashMap::new();
        for some in keys.chunks(READ_AT_ONCE) {
            let mut ask = self.ask(Method::POST, namespace, &["bulk", "get"]);
            ask.body = Some(json_body(&json!({ "keys": some, "type": "text" })));
            let answer: Envelope<Values> = self.read(&ask).await?;
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

    /// Writes many pairs.
    pub(crate) async fn put_all(&self, namespace: &Namespace, pairs: &[Pair]) -> Result<(), Failure> {
        for some in in_pieces(pairs) {
            let mut ask = self.ask(Method::PUT, namespace, &["bulk"]);
            ask.body = Some(json_body(&some));
            self.all_done(&ask).await?;
        }
        Ok(())
    }

    /// Deletes many keys.
    pub(crate) async fn delete_all(&self, namespace: &Namespace, keys: &[String]) -> Result<(), Failure> {
        for some in keys.chunks(WRITTEN_AT_ONCE) {
            let mut ask = self.ask(Method::POST, namespace, &["bulk", "delete"]);
            ask.body = Some(json_body(&some));
            self.all_done(&ask).await?;
        }
        Ok(())
    }

    /// A bulk request, until Cloudflare names no key that it did not manage. Asking for all again is the same as for the rest.
    async fn all_done(&self, ask: &Ask) -> Result<(), Failure> {
        let mut tried = 0;
        loop {
            let done: Envelope<BulkDone> = self.read(ask).await?;
            let left = done.result.map(|done| done.unsuccessful_keys).unwrap_or_default();
            let Some(first) = left.first() else { return Ok(()) };
            tried += 1;
            if !self.waited_out(Trouble::Failing, tried).await {
                let message = format!("{} did not take {} keys, {first} among them", ask.about, left.len());
                return Err(Failure::of_server(ErrorCode::KvUnavailable, message, Value::Null));
            }
        }
    }

    // ---- asking ----

    fn ask(&self, method: Method, namespace: &Namespace, path: &[&str]) -> Ask {
        let mut url = self.access.base.clone();
        url.path_segments_mut()
            .expect("an http address has a path")
            .pop_if_empty()
            .extend(["accounts", &self.access.account, "storage", "kv", "namespaces", &namespace.id])
            .extend(path);
        Ask {
            method,
            url,
            body: None,
            about: format!("Cloudflare's namespace {} ({})", namespace.id, namespace.name),
        }
    }

    async fn read<T: DeserializeOwned>(&self, ask: &Ask) -> Result<Envelope<T>, Failure> {
        let answer = self.send(ask).await?;
        let answer = self.access.checked(ask, answer)?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            tracing::debug!(%error, "an answer cannot be read");
            self.access.stranger(&answer)
        })
    }

    /// An answer that is no passing trouble. What is passing is waited out as long as patience lasts.
    async fn send(&self, ask: &Ask) -> Result<Answer, Failure> {
        let mut tried = 0;
        loop {
            tried += 1;
            let (trouble, failure) = match self.try_once(ask).await {
                Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                    (Trouble::TooMany(answer.retry_after), too_many(answer.retry_after))
                }
                Ok(answer) if answer.status.is_server_error() => {
                    let said =
                        self.access.said(&answer.body).map(|said| format!(": {said}")).unwrap_or_default();
                    let status = answer.status.as_u16();
                    let message = format!("{} cannot answer now (status {status}{said})", ask.about);
                    (Trouble::Failing, Failure::of_server(ErrorCode::KvUnavailable, message, Value::Null))
                }
                Ok(answer) => return Ok(answer),
                Err(Lost::TooLong) => {
                    let most = LONGEST_BODY / 1024 / 1024;
                    return Err(Failure::failed(format!("{} answers with more than {most} MiB", ask.about)));
                }
                Err(Lost::Transport(error)) => {
                    let host = self.access.base.host_str().unwrap_or_default();
                    let message = format!("Cloudflare's API at {host} cannot be reached: {}", why(&error));
                    (Trouble::Lost, Failure::of_server(ErrorCode::KvUnavailable, message, Value::Null))
                }
            };
            if !self.waited_out(trouble, tried).await {
                return Err(failure);
            }
        }
    }

    /// Waits, or says that it is time to give up.
    async fn waited_out(&self, trouble: Trouble, tried: u32) -> bool {
        let so_far = self.waited.load(Ordering::Relaxed);
        let Some(pause) = pause(trouble, tried, Duration::from_millis(so_far)) else { return false };
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.waited.store(so_far.saturating_add(ms), Ordering::Relaxed);
        if matches!(trouble, Trouble::TooMany(_)) && pause >= LONG_PAUSE {
            self.output.note(&format!("Cloudflare wants a pause: going on in {} seconds", pause.as_secs()));
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// For a command that never ends, or goes on page by page: patience begins anew.
    pub(crate) fn rest(&self) {
        self.waited.store(0, Ordering::Relaxed);
    }

    async fn try_once(&self, ask: &Ask) -> Result<Answer, Lost> {
        let mut request = self.client.request(ask.method.clone(), ask.url.clone());
        request = request.header(AUTHORIZATION, self.access.header.clone());
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let mut response = request.send().await.map_err(Lost::Transport)?;
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let mut answer = Answer {
            status: response.status(),
            retry_after: seconds.and_then(|seconds| seconds.trim().parse().ok()),
            body: Vec::new(),
        };
        while let Some(chunk) = response.chunk().await.map_err(Lost::Transport)? {
            if answer.body.len() + chunk.len() > LONGEST_BODY {
                return Err(Lost::TooLong);
            }
            answer.body.extend_from_slice(&chunk);
        }
        tracing::debug!(method = %ask.method, path = ask.url.path(), status = answer.status.as_u16(), "asked Cloudflare");
        Ok(answer)
    }
}

/// Why there is no answer.
enum Lost {
    Transport(reqwest::Error),
    TooLong,
}

fn json_body(body: &impl Serialize) -> (&'static str, Vec<u8>) {
    ("application/json", serde_json::to_vec(body).expect("what we send is JSON"))
}

/// Pieces the API takes: not too many pairs, and not too many bytes.
fn in_pieces(mut pairs: &[Pair]) -> impl Iterator<Item = &[Pair]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |pair: &&Pair| {
            bytes += pair.key.len() + pair.value.len();
            bytes <= WRITTEN_BYTES
        };
        let count = pairs.iter().take(WRITTEN_AT_ONCE).take_while(fits).count().max(1);
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

    fn pair(bytes: usize) -> Pair {
        Pair { key: "k".to_owned(), value: "x".repeat(bytes) }
    }

    #[test]
    fn pieces_have_no_more_than_the_api_takes_and_nothing_is_lost() {
        let sizes = |pairs: &[Pair]| in_pieces(pairs).map(<[Pair]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&vec![pair(1); 20_001]), [10_000, 10_000, 1]);
        let third = WRITTEN_BYTES / 3;
        assert_eq!(sizes(&[pair(third), pair(third), pair(third), pair(1)]), [2, 2]);
        // What is too large alone is sent alone, and refused by Cloudflare with its own words.
        assert_eq!(sizes(&[pair(1), pair(WRITTEN_BYTES), pair(1)]), [1, 1, 1]);
    }

    #[test]
    fn an_address_is_built_of_escaped_parts() {
        let base = Url::parse("https://api.example/client/v4/").unwrap();
        let api = Api {
            client: client(&base).unwrap(),
            access: Access {
                base,
                account: "acc".to_owned(),
                header: HeaderValue::from_static("Bearer t"),
                token: "secret".to_owned(),
            },
            output: Output::json(&Environment::read()),
            waited: AtomicU64::default(),
        };
        let namespace = Namespace { id: "ns".to_owned(), name: "links" };
        let ask = api.ask(Method::GET, &namespace, &["values", "route:a/b?c#d%"]);
        assert_eq!(
            ask.url.as_str(),
            "https://api.example/client/v4/accounts/acc/storage/kv/namespaces/ns/values/route:a%2Fb%3Fc%23d%25"
        );
        let body = br#"{"success":false,"errors":[{"code":10000,"message":"no secret here"}],"result":null}"#;
        assert_eq!(api.access.said(body).unwrap(), "10000 no *** here");
        assert_eq!(error_code(body), Some(10_000));
        assert_eq!(error_code(b"<html>"), None);
    }
}
