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
use crate::cached_link::{self, Absent, Entry, Known};
use crate::context::RequestContext;
use crate::d1_sql::{self, Row};
use crate::platform::{self, Away, Held};
use crate::routing::{self, Click};
use crate::settings::Settings;

thread_local! {
    /// The minute, and how many absences were written in it.
    static ABSENCES: Cell<(i64, u32)> = const { Cell::new((0, 0)) };
}

enum Found {
    Link(Known),
    Nothing,
    Deleted,
    Away,
}

/// What the request for a link gets.
pub(crate) async fn answer(context: &RequestContext<'_>, code: &str, preview: bool) -> HttpResponse {
    let mut code = code.to_owned();
    let mut found = find(context, &code).await;
    if matches!(found, Found::Nothing)
        && context.settings.policy.code.fold_case
        && code.bytes().any(|byte| byte.is_ascii_uppercase())
    {
        code.make_ascii_lowercase();
        found = find(context, &code).await;
    }
    let route = match &found {
        Found::Away => return context.error(ErrorCode::KvUnavailable),
        Found::Deleted => return context.error(ErrorCode::Deleted),
        Found::Link(known) => Some(known.route(context.settings.policy.https_only)),
        Found::Nothing => None,
    };
    let (answer, click) =
        routing::respond(context.facts, context.settings, (&code, preview), route, context.now);
    if let (Click::Yes, Some(code)) = (click, Code::from_path(&code)) {
        let characters = match context.settings.policy.user_agent {
            UserAgentRetention::Truncated(characters) => usize::try_from(characters).unwrap_or(usize::MAX),
            UserAgentRetention::Hashed => 0,
        };
        platform::write_point(context.env, &analytics::point(&code, context.facts, characters));
    }
    answer
}

async fn find(context: &RequestContext<'_>, code: &str) -> Found {
    let (env, now) = (context.env, context.now);
    let url = cache_url(context, code);
    let near = platform::near(&url).await.unwrap_or(Held::Nothing);
    if let Some(entry) = read(&near)
        && entry.is_fresh(cached_link::CACHE_SECONDS, now)
        && let Some(known) = entry.known()
    {
        return Found::Link(known);
    }

    let (link, absent) = match platform::cached(
        env,
        &cached_link::key(code),
        &cached_link::absent_key(code),
        cached_link::KEPT_SECONDS,
    )
    .await
    {
        Ok(both) => both,
        Err(away) => {
            platform::complain(&format!("KV cannot be read, D1 is asked: {away}"));
            (Held::Nothing, Held::Nothing)
        }
    };
    let entry = read(&link);
    let known = entry.as_ref().and_then(Entry::known);
    match (&entry, known.clone()) {
        (Some(entry), Some(known)) if entry.is_fresh(cached_link::FRESH_SECONDS, now) => {
            let (json, life) = (entry.json(), entry.life_in_cache(now));
            // Its age goes along, or two caches in a row would believe it for longer than either may.
            if life > 0 && entry.is_fresh(cached_link::CACHE_SECONDS, now) {
                context.execution.wait_until(async move { log(platform::put_near(&url, &json, life).await) });
            }
            return Found::Link(known);
        }
        (None, _) if matches!(&absent, Held::Text(json) if Absent::holds(json, now)) => {
            return gone_or_nothing(context, code).await;
        }
        _ => {}
    }

    match ask(env, code).await {
        Ok(Some(row)) => {
            let entry = Entry::of(&row, now);
            let known = entry.known();
            let (env, code) = (env.clone(), code.to_owned());
            context.execution.wait_until(async move { remember(&env, &code, &url, &entry, now).await });
            if let Some(known) = known {
                return Found::Link(known);
            }
            platform::complain(&format!("{} is not served: its row is broken", row.slug));
            Found::Nothing
        }
        Ok(None) => {
            let (env, key) = (env.clone(), cached_link::absent_key(code));
            let stale = entry.is_some().then(|| cached_link::key(code));
            if stale.is_some() || may_write_absence(now) {
                context.execution.wait_until(async move {
                    if let Some(stale) = stale {
                        log(platform::uncache(&env, &stale).await);
                    }
                    log(platform::cache(&env, &key, &Absent::at(now).json(), cached_link::ABSENT_SECONDS)
                        .await);
                });
            }
            gone_or_nothing(context, code).await
        }
        Err(away) => {
            platform::complain(&format!("D1 cannot be read: {away}"));
            // Better an old answer than none, for a day.
            match (entry, known) {
                (Some(entry), Some(known)) if entry.is_fresh(cached_link::STALE_SECONDS, now) => {
                    Found::Link(known)
                }
                _ => Found::Away,
            }
        }
    }
}

/// Nobody has the code. Whether somebody had is asked only where the policy would tell.
async fn gone_or_nothing(context: &RequestContext<'_>, code: &str) -> Found {
    if context.settings.policy.answers.deleted == InactiveResponse::NotFound {
        return Found::Nothing;
    }
    match platform::d1(context.env, &[d1_sql::tombstone(code)]).await {
        Ok(rows) if rows.first().is_some_and(|rows| !rows.is_empty()) => Found::Deleted,
        Ok(_) => Found::Nothing,
        Err(_) => Found::Away,
    }
}

/// Puts what D1 said into the caches, and takes it out again if D1 says otherwise by then: between our look and our write
/// somebody may have changed or deleted the link and cleaned up before us.
async fn remember(env: &JsValue, code: &str, url: &str, entry: &Entry, now: Timestamp) {
    if entry.known().is_none() {
        return;
    }
    log(platform::cache(env, &cached_link::key(code), &entry.json(), entry.life_in_kv(now)).await);
    if entry.life_in_cache(now) > 0 {
        log(platform::put_near(url, &entry.json(), entry.life_in_cache(now)).await);
    }
    if !matches!(ask(env, code).await, Ok(Some(row)) if row.updated_at == entry.version) {
        forget(env, code, &[url.to_owned()]).await;
    }
}

/// Tells the caches what a link has become: KV gets it, this data centre asks anew.
pub(crate) async fn publish(context: &RequestContext<'_>, row: &Row) {
    let (entry, url) = (Entry::of(row, context.now), cache_url(context, &row.slug));
    let (key, absent) = (cached_link::key(&row.slug), cached_link::absent_key(&row.slug));
    let written = platform::cache(context.env, &key, &entry.json(), entry.life_in_kv(context.now)).await;
    if let Err(away) = written {
        platform::complain(&format!("KV did not take a change: {away}"));
        // What it holds is the version before: better nothing.
        log(platform::uncache(context.env, &key).await);
    }
    log(platform::uncache(context.env, &absent).await);
    for url in cache_urls(context.settings, &row.slug).into_iter().chain([url]) {
        log(platform::drop_near(&url).await);
    }
}

/// Takes a link out of the caches.
pub(crate) async fn forget(env: &JsValue, code: &str, urls: &[String]) {
    log(platform::uncache(env, &cached_link::key(code)).await);
    for url in urls {
        log(platform::drop_near(url).await);
    }
}

/// One link, from D1.
pub(crate) async fn ask(env: &JsValue, code: &str) -> Result<Option<Row>, Away> {
    let rows = platform::d1(env, &[d1_sql::link(code)]).await?;
    row(rows.first())
}

/// The first row of a result, as a link.
pub(crate) fn row(rows: Option<&Vec<Value>>) -> Result<Option<Row>, Away> {
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
        rlinks_core::host::from_header(context.facts.host.as_bytes(), &mut buffer).unwrap_or("localhost");
    cached_link::cache_url(host, code)
}

fn read(held: &Held) -> Option<Entry> {
    match held {
        Held::Text(json) => Entry::read(json),
        Held::Nothing | Held::TooLarge => None,
    }
}

fn may_write_absence(now: Timestamp) -> bool {
    ABSENCES.with(|cell| {
        let minute = cached_link::seconds(now).div_euclid(60);
        let (last, count) = cell.get();
        let count = if last == minute { count } else { 0 };
        cell.set((minute, count.saturating_add(1)));
        count < cached_link::MOST_ABSENCES_PER_MINUTE
    })
}

fn log(done: Result<(), Away>) {
    if let Err(away) = done {
        platform::complain(&format!("a cache did not do as it was told: {away}"));
    }
}
