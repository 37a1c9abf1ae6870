//! Profile `edge`: D1 is the truth, and in front of it this data centre's cache, then KV. Look up, decide, record, respond.
//!
//! Whatever a cache says is only data: the decision is made on every request, and so is the record of it. When D1 is away the
//! caches serve what they have; when KV is away D1 is asked; when analytics are away nobody notices.

use std::cell::Cell;

use rlinks_core::error_code::ErrorCode;
use rlinks_core::redirect::response::HttpResponse;
use rlinks_core::workspace::policy::{InactiveResponse, UserAgentRetention};
use rlinks_core::{Code, Timestamp};
use serde_json::Value;
use wasm_bindgen::JsValue;

use crate::analytics;
use crate::cached_link::{self, CacheEntry, CachedLink, NegativeEntry};
use crate::context::RequestContext;
use crate::d1_sql::{self, Row};
use crate::platform::{self, KvValue, PlatformError};
use crate::routing::{self, ClickRecord, EdgeLinkRequest};
use crate::settings::Settings;

thread_local! {
    /// The minute, and how many absences were written in it.
    static NEGATIVE_WRITES: Cell<(i64, u32)> = const { Cell::new((0, 0)) };
}

enum Lookup {
    Link(CachedLink),
    NotFound,
    Deleted,
    Unavailable,
}

/// What the request for a link gets.
pub(crate) async fn handle(context: &RequestContext<'_>, asked: &EdgeLinkRequest<'_>) -> HttpResponse {
    let mut code = asked.code.to_string();
    let mut found = find(context, &code).await;
    if matches!(found, Lookup::NotFound)
        && let Some(folded) = context.settings.policy.code.folded(&code)
    {
        code = folded;
        found = find(context, &code).await;
    }
    let route = match &found {
        Lookup::Unavailable => return context.error(ErrorCode::KvUnavailable),
        Lookup::Deleted => return context.error(ErrorCode::Deleted),
        Lookup::Link(known) => Some(known.route(context.settings.policy.https_only)),
        Lookup::NotFound => None,
    };
    let (answer, click) = routing::respond(context.request, context.settings, asked, route, context.now);
    if let (ClickRecord::Write, Some(code)) = (click, Code::from_path(&code)) {
        let characters = match context.settings.policy.user_agent {
            UserAgentRetention::Truncated(characters) => usize::try_from(characters).unwrap_or(usize::MAX),
            UserAgentRetention::Hashed => 0,
        };
        platform::write_point(context.env, &analytics::event_lines(&code, context.request, characters));
    }
    answer
}

async fn find(context: &RequestContext<'_>, code: &str) -> Lookup {
    let (env, now) = (context.env, context.now);
    let url = cache_url(context, code);
    let cached = platform::cache_get(&url).await.unwrap_or(KvValue::Missing);
    if let Some(entry) = parse_entry(&cached)
        && entry.is_fresh(cached_link::CACHE_SECONDS, now)
        && let Some(known) = entry.link()
    {
        return Lookup::Link(known);
    }

    let (link, absent) = match platform::kv_get_pair(
        env,
        &cached_link::kv_key(code),
        &cached_link::negative_kv_key(code),
        cached_link::KV_CACHE_TTL_SECONDS,
    )
    .await
    {
        Ok(both) => both,
        Err(error) => {
            platform::log_error(&format!("KV cannot be read, D1 is asked: {error}"));
            (KvValue::Missing, KvValue::Missing)
        }
    };
    let entry = parse_entry(&link);
    let known = entry.as_ref().and_then(CacheEntry::link);
    match (&entry, known.clone()) {
        (Some(entry), Some(known)) if entry.is_fresh(cached_link::FRESH_SECONDS, now) => {
            let (json, life) = (entry.json(), entry.cache_ttl_seconds(now));
            // Its age goes along, or two caches in a row would believe it for longer than either may.
            if life > 0 && entry.is_fresh(cached_link::CACHE_SECONDS, now) {
                context
                    .execution
                    .wait_until(async move { log_failure(platform::cache_put(&url, &json, life).await) });
            }
            return Lookup::Link(known);
        }
        (None, _) if matches!(&absent, KvValue::Text(json) if NegativeEntry::is_in_force(json, now)) => {
            return deleted_or_not_found(context, code).await;
        }
        _ => {}
    }

    match load_row(env, code).await {
        Ok(Some(row)) => {
            let entry = CacheEntry::from_row(&row, now);
            let known = entry.link();
            let (env, code) = (env.clone(), code.to_owned());
            context.execution.wait_until(async move { fill_caches(&env, &code, &url, &entry, now).await });
            if let Some(known) = known {
                return Lookup::Link(known);
            }
            platform::log_error(&format!("{} is not served: its row is broken", row.slug));
            Lookup::NotFound
        }
        Ok(None) => {
            let (env, key) = (env.clone(), cached_link::negative_kv_key(code));
            let stale = entry.is_some().then(|| cached_link::kv_key(code));
            if stale.is_some() || may_write_negative_entry(now) {
                context.execution.wait_until(async move {
                    if let Some(stale) = stale {
                        log_failure(platform::kv_delete(&env, &stale).await);
                    }
                    log_failure(
                        platform::kv_put(
                            &env,
                            &key,
                            &NegativeEntry::new(now).json(),
                            cached_link::NEGATIVE_TTL_SECONDS,
                        )
                        .await,
                    );
                });
            }
            deleted_or_not_found(context, code).await
        }
        Err(error) => {
            platform::log_error(&format!("D1 cannot be read: {error}"));
            // Better an old answer than none, for a day.
            match (entry, known) {
                (Some(entry), Some(known)) if entry.is_fresh(cached_link::STALE_SECONDS, now) => {
                    Lookup::Link(known)
                }
                _ => Lookup::Unavailable,
            }
        }
    }
}

/// Nobody has the code. Whether somebody had is asked only where the policy would tell.
async fn deleted_or_not_found(context: &RequestContext<'_>, code: &str) -> Lookup {
    if context.settings.policy.answers.deleted == InactiveResponse::NotFound {
        return Lookup::NotFound;
    }
    match platform::d1(context.env, &[d1_sql::tombstone(code)]).await {
        Ok(rows) if rows.first().is_some_and(|rows| !rows.is_empty()) => Lookup::Deleted,
        Ok(_) => Lookup::NotFound,
        Err(_) => Lookup::Unavailable,
    }
}

/// Puts what D1 said into the caches, and takes it out again if D1 says otherwise by then: between our look and our write
/// somebody may have changed or deleted the link and cleaned up before us.
async fn fill_caches(env: &JsValue, code: &str, url: &str, entry: &CacheEntry, now: Timestamp) {
    if entry.link().is_none() {
        return;
    }
    log_failure(
        platform::kv_put(env, &cached_link::kv_key(code), &entry.json(), entry.kv_ttl_seconds(now)).await,
    );
    if entry.cache_ttl_seconds(now) > 0 {
        log_failure(platform::cache_put(url, &entry.json(), entry.cache_ttl_seconds(now)).await);
    }
    if !matches!(load_row(env, code).await, Ok(Some(row)) if row.updated_at == entry.version) {
        purge_caches(env, code, &[url.to_owned()]).await;
    }
}

/// Tells the caches what a link has become: KV gets it, this data centre asks anew.
pub(crate) async fn update_caches(context: &RequestContext<'_>, row: &Row) {
    let (entry, url) = (CacheEntry::from_row(row, context.now), cache_url(context, &row.slug));
    let (key, absent) = (cached_link::kv_key(&row.slug), cached_link::negative_kv_key(&row.slug));
    let written = platform::kv_put(context.env, &key, &entry.json(), entry.kv_ttl_seconds(context.now)).await;
    if let Err(error) = written {
        platform::log_error(&format!("KV did not take a change: {error}"));
        // What it holds is the version before: better nothing.
        log_failure(platform::kv_delete(context.env, &key).await);
    }
    log_failure(platform::kv_delete(context.env, &absent).await);
    for url in cache_urls(context.settings, &row.slug).into_iter().chain([url]) {
        log_failure(platform::cache_delete(&url).await);
    }
}

/// Takes a link out of the caches.
pub(crate) async fn purge_caches(env: &JsValue, code: &str, urls: &[String]) {
    log_failure(platform::kv_delete(env, &cached_link::kv_key(code)).await);
    for url in urls {
        log_failure(platform::cache_delete(url).await);
    }
}

/// One link, from D1.
pub(crate) async fn load_row(env: &JsValue, code: &str) -> Result<Option<Row>, PlatformError> {
    let rows = platform::d1(env, &[d1_sql::link(code)]).await?;
    first_row(rows.first())
}

/// The first row of a result, as a link.
pub(crate) fn first_row(rows: Option<&Vec<Value>>) -> Result<Option<Row>, PlatformError> {
    rows.and_then(|rows| rows.first())
        .map(|row| {
            serde_json::from_value(row.clone()).map_err(|error| format!("a row cannot be read: {error}"))
        })
        .transpose()
}

/// Where this data centre's cache keeps a code, for the host that was asked and for every other of ours.
pub(crate) fn cache_urls(settings: &Settings, code: &str) -> Vec<String> {
    settings.hosts.iter().map(|host| cached_link::cache_url(host.as_str(), code)).collect()
}

pub(crate) fn cache_url(context: &RequestContext<'_>, code: &str) -> String {
    let mut buffer = [0; rlinks_core::host::MAX_HOST_BYTES];
    let host =
        rlinks_core::host::from_header(context.request.host.as_bytes(), &mut buffer).unwrap_or("localhost");
    cached_link::cache_url(host, code)
}

fn parse_entry(value: &KvValue) -> Option<CacheEntry> {
    match value {
        KvValue::Text(json) => CacheEntry::parse(json),
        KvValue::Missing | KvValue::TooLarge => None,
    }
}

fn may_write_negative_entry(now: Timestamp) -> bool {
    NEGATIVE_WRITES.with(|cell| {
        let minute = cached_link::seconds(now).div_euclid(60);
        let (last, count) = cell.get();
        let count = if last == minute { count } else { 0 };
        cell.set((minute, count.saturating_add(1)));
        count < cached_link::MAX_NEGATIVE_WRITES_PER_MINUTE
    })
}

fn log_failure(done: Result<(), PlatformError>) {
    if let Err(error) = done {
        platform::log_error(&format!("a cache did not do as it was told: {error}"));
    }
}
