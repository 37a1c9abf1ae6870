//! Profile `edge`: D1 is the truth, and in front of it this data centre's cache, then KV. Look up, decide, record, respond.
//!
//! Whatever a cache says is only data: the decision is made on every request, and so is the record of it. When D1 is away the
//! caches serve what they have; when KV is away D1 is asked; when analytics are away nobody notices.

use std::cell::Cell;

use rlinks_core::answer::Answer;
use rlinks_core::envelope::ErrorCode;
use rlinks_core::policy::{Unusable, UserAgent};
use rlinks_core::{Code, Timestamp};
use serde_json::Value;
use wasm_bindgen::JsValue;

use crate::door::{self, Click};
use crate::entry::{self, Absent, Entry, Known};
use crate::events::Visit;
use crate::platform::{self, Away, Held};
use crate::settings::Settings;
use crate::sql::{self, Row};
use crate::visits;

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
pub(crate) async fn answer(visit: &Visit<'_>, code: &str, preview: bool) -> Answer {
    let mut code = code.to_owned();
    let mut found = find(visit, &code).await;
    if matches!(found, Found::Nothing)
        && visit.settings.policy.code.fold_case
        && code.bytes().any(|byte| byte.is_ascii_uppercase())
    {
        code.make_ascii_lowercase();
        found = find(visit, &code).await;
    }
    let route = match &found {
        Found::Away => return visit.error(ErrorCode::KvUnavailable),
        Found::Deleted => return visit.error(ErrorCode::Deleted),
        Found::Link(known) => Some(known.route(visit.settings.policy.https_only)),
        Found::Nothing => None,
    };
    let (answer, click) = door::respond(visit.facts, visit.settings, (&code, preview), route, visit.now);
    if let (Click::Yes, Some(code)) = (click, Code::from_path(&code)) {
        let characters = match visit.settings.policy.user_agent {
            UserAgent::Cut(characters) => usize::try_from(characters).unwrap_or(usize::MAX),
            UserAgent::Hashed => 0,
        };
        platform::write_point(visit.env, &visits::point(&code, visit.facts, characters));
    }
    answer
}

async fn find(visit: &Visit<'_>, code: &str) -> Found {
    let (env, now) = (visit.env, visit.now);
    let url = cache_url(visit, code);
    let near = platform::near(&url).await.unwrap_or(Held::Nothing);
    if let Some(entry) = read(&near)
        && entry.is_fresh(entry::CACHE_SECONDS, now)
        && let Some(known) = entry.known()
    {
        return Found::Link(known);
    }

    let (link, absent) =
        match platform::cached(env, &entry::key(code), &entry::absent_key(code), entry::KEPT_SECONDS).await {
            Ok(both) => both,
            Err(away) => {
                platform::complain(&format!("KV cannot be read, D1 is asked: {away}"));
                (Held::Nothing, Held::Nothing)
            }
        };
    let entry = read(&link);
    let known = entry.as_ref().and_then(Entry::known);
    match (&entry, known.clone()) {
        (Some(entry), Some(known)) if entry.is_fresh(entry::FRESH_SECONDS, now) => {
            let (json, life) = (entry.json(), entry.life_in_cache(now));
            // Its age goes along, or two caches in a row would believe it for longer than either may.
            if life > 0 && entry.is_fresh(entry::CACHE_SECONDS, now) {
                visit.context.wait_until(async move { log(platform::put_near(&url, &json, life).await) });
            }
            return Found::Link(known);
        }
        (None, _) if matches!(&absent, Held::Text(json) if Absent::holds(json, now)) => {
            return gone_or_nothing(visit, code).await;
        }
        _ => {}
    }

    match ask(env, code).await {
        Ok(Some(row)) => {
            let entry = Entry::of(&row, now);
            let known = entry.known();
            let (env, code) = (env.clone(), code.to_owned());
            visit.context.wait_until(async move { remember(&env, &code, &url, &entry, now).await });
            if let Some(known) = known {
                return Found::Link(known);
            }
            platform::complain(&format!("{} is not served: its row is broken", row.slug));
            Found::Nothing
        }
        Ok(None) => {
            let (env, key) = (env.clone(), entry::absent_key(code));
            let stale = entry.is_some().then(|| entry::key(code));
            if stale.is_some() || may_write_absence(now) {
                visit.context.wait_until(async move {
                    if let Some(stale) = stale {
                        log(platform::uncache(&env, &stale).await);
                    }
                    log(platform::cache(&env, &key, &Absent::at(now).json(), entry::ABSENT_SECONDS).await);
                });
            }
            gone_or_nothing(visit, code).await
        }
        Err(away) => {
            platform::complain(&format!("D1 cannot be read: {away}"));
            // Better an old answer than none, for a day.
            match (entry, known) {
                (Some(entry), Some(known)) if entry.is_fresh(entry::STALE_SECONDS, now) => Found::Link(known),
                _ => Found::Away,
            }
        }
    }
}

/// Nobody has the code. Whether somebody had is asked only where the policy would tell.
async fn gone_or_nothing(visit: &Visit<'_>, code: &str) -> Found {
    if visit.settings.policy.answers.deleted == Unusable::NotFound {
        return Found::Nothing;
    }
    match platform::d1(visit.env, &[sql::tombstone(code)]).await {
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
    log(platform::cache(env, &entry::key(code), &entry.json(), entry.life_in_kv(now)).await);
    if entry.life_in_cache(now) > 0 {
        log(platform::put_near(url, &entry.json(), entry.life_in_cache(now)).await);
    }
    if !matches!(ask(env, code).await, Ok(Some(row)) if row.updated_at == entry.version) {
        forget(env, code, &[url.to_owned()]).await;
    }
}

/// Tells the caches what a link has become: KV gets it, this data centre asks anew.
pub(crate) async fn publish(visit: &Visit<'_>, row: &Row) {
    let (entry, url) = (Entry::of(row, visit.now), cache_url(visit, &row.slug));
    let (key, absent) = (entry::key(&row.slug), entry::absent_key(&row.slug));
    let written = platform::cache(visit.env, &key, &entry.json(), entry.life_in_kv(visit.now)).await;
    if let Err(away) = written {
        platform::complain(&format!("KV did not take a change: {away}"));
        // What it holds is the version before: better nothing.
        log(platform::uncache(visit.env, &key).await);
    }
    log(platform::uncache(visit.env, &absent).await);
    for url in cache_urls(visit.settings, &row.slug).into_iter().chain([url]) {
        log(platform::drop_near(&url).await);
    }
}

/// Takes a link out of the caches.
pub(crate) async fn forget(env: &JsValue, code: &str, urls: &[String]) {
    log(platform::uncache(env, &entry::key(code)).await);
    for url in urls {
        log(platform::drop_near(url).await);
    }
}

/// One link, from D1.
pub(crate) async fn ask(env: &JsValue, code: &str) -> Result<Option<Row>, Away> {
    let rows = platform::d1(env, &[sql::link(code)]).await?;
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
    settings.hosts.iter().map(|host| entry::cache_url(host.as_str(), code)).collect()
}

pub(crate) fn cache_url(visit: &Visit<'_>, code: &str) -> String {
    let mut buffer = [0; rlinks_core::host::LONGEST];
    let host =
        rlinks_core::host::from_header(visit.facts.host.as_bytes(), &mut buffer).unwrap_or("localhost");
    entry::cache_url(host, code)
}

fn read(held: &Held) -> Option<Entry> {
    match held {
        Held::Text(json) => Entry::read(json),
        Held::Nothing | Held::TooLarge => None,
    }
}

fn may_write_absence(now: Timestamp) -> bool {
    ABSENCES.with(|cell| {
        let minute = entry::seconds(now).div_euclid(60);
        let (last, count) = cell.get();
        let count = if last == minute { count } else { 0 };
        cell.set((minute, count.saturating_add(1)));
        count < entry::MOST_ABSENCES_PER_MINUTE
    })
}

fn log(done: Result<(), Away>) {
    if let Err(away) = done {
        platform::complain(&format!("a cache did not do as it was told: {away}"));
    }
}
