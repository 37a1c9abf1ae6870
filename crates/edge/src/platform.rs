//! The calls to Cloudflare, as `platform.js` makes them. What fails says so in words for the log.

use js_sys::{Array, Uint8Array};
use rlinks_core::Timestamp;
use rlinks_core::redirect::response::HttpResponse;
use serde_json::Value;
use wasm_bindgen::prelude::{JsCast as _, JsValue, wasm_bindgen};

use crate::request::EdgeRequest;
use crate::settings::{SettingError, Settings, VARIABLE_NAMES};

/// KV is asked for so long, where it is a cache.
const CACHE_TIMEOUT_MS: u32 = 1_000;
/// A store is asked for so long, where it is the truth.
const STORE_TIMEOUT_MS: u32 = 2_000;
/// The analytics API is asked for so long.
const ANALYTICS_TIMEOUT_MS: u32 = 10_000;

#[wasm_bindgen(module = "/src/platform.js")]
extern "C" {
    #[wasm_bindgen(js_name = now)]
    fn js_now() -> f64;
    #[wasm_bindgen(js_name = randomBytes)]
    fn js_random(count: u32) -> Vec<u8>;
    #[wasm_bindgen(js_name = logError)]
    pub(crate) fn log_error(text: &str);
    #[wasm_bindgen(js_name = edgeRequest)]
    fn js_edge_request(request: &JsValue) -> String;
    #[wasm_bindgen(js_name = settings)]
    fn js_settings(env: &JsValue, names: &str) -> String;
    #[wasm_bindgen(js_name = answer)]
    fn js_answer(status: u16, head: &str, body: &str) -> JsValue;
    #[wasm_bindgen(js_name = appendHit)]
    fn js_append_hit(env: &JsValue, context: &JsValue, key: &str, value: &str);
    #[wasm_bindgen(js_name = writePoint)]
    fn js_write_point(env: &JsValue, lines: &str);
    #[wasm_bindgen(catch, js_name = body)]
    async fn js_body(request: &JsValue, most: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = kvGet)]
    async fn js_kv_get(
        env: &JsValue,
        binding: &str,
        key: &str,
        ttl: u32,
        ms: u32,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = kvGetBoth)]
    async fn js_kv_get_both(
        env: &JsValue,
        binding: &str,
        first: &str,
        second: &str,
        ttl: u32,
        ms: u32,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = kvPut)]
    async fn js_kv_put(
        env: &JsValue,
        binding: &str,
        key: &str,
        value: &str,
        ttl: u32,
        ms: u32,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = kvDelete)]
    async fn js_kv_delete(env: &JsValue, binding: &str, key: &str, ms: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = d1)]
    async fn js_d1(env: &JsValue, statements: &str, ms: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = cacheGet)]
    async fn js_cache_get(url: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = cachePut)]
    async fn js_cache_put(url: &str, value: &str, seconds: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = cacheDelete)]
    async fn js_cache_delete(url: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = analytics)]
    async fn js_analytics(url: &str, token: &str, query: &str, ms: u32) -> Result<JsValue, JsValue>;
}

/// Something outside that did not work, in words for the log.
pub(crate) type PlatformError = String;

/// What a key held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KvValue {
    Missing,
    Text(String),
    /// Larger than anything of ours.
    TooLarge,
}

impl KvValue {
    fn from_js(value: &JsValue) -> Self {
        match value.as_string() {
            Some(text) => Self::Text(text),
            None if value.is_null() => Self::Missing,
            None => Self::TooLarge,
        }
    }
}

pub(crate) fn now() -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970 are far below 2^53")]
    Timestamp::from_ms(js_now() as i64)
}

/// Random bytes fit for codes and ids.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let bytes = js_random(u32::try_from(N).unwrap_or_default());
    std::array::from_fn(|index| bytes.get(index).copied().unwrap_or_default())
}

/// The facts of a request.
pub(crate) fn edge_request(request: &JsValue) -> EdgeRequest {
    EdgeRequest::parse(&js_edge_request(request))
}

/// What the operator set.
pub(crate) fn settings(env: &JsValue) -> Result<Settings, SettingError> {
    let values = js_settings(env, &VARIABLE_NAMES.join("\n"));
    Settings::parse(&values.split('\n').collect::<Vec<_>>())
}

/// The answer as a `Response`.
pub(crate) fn respond(answer: &HttpResponse, is_head: bool) -> worker::worker_sys::web_sys::Response {
    let mut head = String::new();
    for (name, value) in &answer.headers {
        for part in [name, ":", value, "\n"] {
            head.push_str(part);
        }
    }
    js_answer(answer.status, &head, if is_head { "" } else { &answer.body }).unchecked_into()
}

/// A request's body, or nothing when it is too long.
pub(crate) async fn body(request: &JsValue, most: u32) -> Result<Option<Vec<u8>>, PlatformError> {
    let bytes = js_body(request, most).await.map_err(|error| error_text(&error))?;
    Ok(bytes.dyn_into::<Uint8Array>().ok().map(|bytes| bytes.to_vec()))
}

/// What a key of `ROUTES` holds.
pub(crate) async fn kv_get_route(env: &JsValue, key: &str, ttl: u32) -> Result<KvValue, PlatformError> {
    let value =
        js_kv_get(env, "ROUTES", key, ttl, STORE_TIMEOUT_MS).await.map_err(|error| error_text(&error))?;
    Ok(KvValue::from_js(&value))
}

/// Records a hit once the answer has left.
pub(crate) fn append_hit(env: &JsValue, context: &worker::Context, key: &str, value: &str) {
    let context: &worker::worker_sys::Context = context.as_ref();
    js_append_hit(env, context.as_ref(), key, value);
}

/// What two keys of `CACHE_KV` hold.
pub(crate) async fn kv_get_pair(
    env: &JsValue,
    first: &str,
    second: &str,
    ttl: u32,
) -> Result<(KvValue, KvValue), PlatformError> {
    let both = js_kv_get_both(env, "CACHE_KV", first, second, ttl, CACHE_TIMEOUT_MS).await;
    let both: Array = both.map_err(|error| error_text(&error))?.unchecked_into();
    Ok((KvValue::from_js(&both.get(0)), KvValue::from_js(&both.get(1))))
}

/// Writes a key of `CACHE_KV`.
pub(crate) async fn kv_put(env: &JsValue, key: &str, value: &str, ttl: i64) -> Result<(), PlatformError> {
    let ttl = u32::try_from(ttl).unwrap_or_default();
    js_kv_put(env, "CACHE_KV", key, value, ttl, STORE_TIMEOUT_MS)
        .await
        .map(|_| ())
        .map_err(|error| error_text(&error))
}

/// Removes a key of `CACHE_KV`.
pub(crate) async fn kv_delete(env: &JsValue, key: &str) -> Result<(), PlatformError> {
    js_kv_delete(env, "CACHE_KV", key, STORE_TIMEOUT_MS).await.map(|_| ()).map_err(|error| error_text(&error))
}

/// Runs statements on D1 in one transaction; the rows of each.
pub(crate) async fn d1(env: &JsValue, statements: &[Value]) -> Result<Vec<Vec<Value>>, PlatformError> {
    let statements = serde_json::to_string(statements).map_err(|error| error.to_string())?;
    let rows = js_d1(env, &statements, STORE_TIMEOUT_MS).await.map_err(|error| error_text(&error))?;
    serde_json::from_str(&rows.as_string().unwrap_or_default()).map_err(|error| error.to_string())
}

/// What this data centre's cache holds.
pub(crate) async fn cache_get(url: &str) -> Result<KvValue, PlatformError> {
    js_cache_get(url).await.map(|value| KvValue::from_js(&value)).map_err(|error| error_text(&error))
}

/// Puts something into this data centre's cache.
pub(crate) async fn cache_put(url: &str, value: &str, seconds: i64) -> Result<(), PlatformError> {
    let seconds = u32::try_from(seconds).unwrap_or_default();
    js_cache_put(url, value, seconds).await.map(|_| ()).map_err(|error| error_text(&error))
}

/// Removes something from this data centre's cache.
pub(crate) async fn cache_delete(url: &str) -> Result<(), PlatformError> {
    js_cache_delete(url).await.map(|_| ()).map_err(|error| error_text(&error))
}

/// Sends an event to Analytics Engine. Nothing waits for it.
pub(crate) fn write_point(env: &JsValue, lines: &str) {
    js_write_point(env, lines);
}

/// Asks the analytics SQL API.
pub(crate) async fn analytics(url: &str, token: &str, query: &str) -> Result<String, PlatformError> {
    let text =
        js_analytics(url, token, query, ANALYTICS_TIMEOUT_MS).await.map_err(|error| error_text(&error))?;
    Ok(text.as_string().unwrap_or_default())
}

fn error_text(error: &JsValue) -> PlatformError {
    error.dyn_ref::<js_sys::Error>().map_or_else(
        || error.as_string().unwrap_or_else(|| "an error without words".to_owned()),
        |error| String::from(error.message()),
    )
}
