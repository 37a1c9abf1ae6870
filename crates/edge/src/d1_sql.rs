//! Profile `edge`: what is asked of D1. Each function gives one statement as `platform.js` takes it: its text, then its values.
//!
//! The tables are those of `deploy/cloudflare/migrations`. Statements handed over together are one transaction.

use serde::Deserialize;
use serde_json::{Value, json};

/// Expired links one statement purges.
pub const MAX_PURGED_LINKS: usize = 200;

/// A row of `links`. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Row {
    pub id: i64,
    pub slug: String,
    pub target: String,
    pub status: u16,
    pub expires_at: Option<i64>,
    /// Clicks, as far as the daily job has folded them in.
    pub visit_count: i64,
    /// When it was made.
    pub created_at: i64,
    /// When it was changed; also its version.
    pub updated_at: i64,
}

macro_rules! columns {
    () => {
        "id, slug, target, status, expires_at, visit_count, created_at, updated_at"
    };
}

pub fn link(slug: &str) -> Value {
    json!([concat!("select ", columns!(), " from links where slug = ?1"), slug])
}

/// Whether a code was once a link's.
pub fn tombstone(slug: &str) -> Value {
    json!(["select slug, deleted_at from tombstones where slug = ?1", slug])
}

pub fn count_live(now: i64) -> Value {
    json!(["select count(*) as links from links where expires_at is null or expires_at >= ?1", now])
}

pub fn count() -> Value {
    json!(["select count(*) as links from links"])
}

/// A new link. No row comes back when the code is taken or was once, or the workspace is full: one statement, so two requests
/// at the same time cannot both be the last.
pub fn insert(
    slug: &str,
    target: &str,
    status: u16,
    expires_at: Option<i64>,
    now: i64,
    most_live: Option<u32>,
) -> Value {
    json!([
        concat!(
            "insert into links (slug, target, status, expires_at, created_at, updated_at) ",
            "select ?1, ?2, ?3, ?4, ?5, ?5 ",
            "where not exists (select 1 from tombstones where slug = ?1) ",
            "and (?6 is null or (select count(*) from links where expires_at is null or expires_at >= ?5) < ?6) ",
            "on conflict (slug) do nothing returning ",
            columns!()
        ),
        slug,
        target,
        status,
        expires_at,
        now,
        most_live
    ])
}

/// A change, if nobody was faster. `updated_at` always moves: it is the version caches compare.
pub fn update(row: &Row, version: i64, now: i64) -> Value {
    json!([
        concat!(
            "update links set target = ?2, status = ?3, expires_at = ?4, updated_at = max(?5, updated_at + 1) ",
            "where slug = ?1 and updated_at = ?6 returning ",
            columns!()
        ),
        row.slug,
        row.target,
        row.status,
        row.expires_at,
        now,
        version
    ])
}

/// A deletion: the code stays taken for ever.
pub fn delete(slug: &str, now: i64) -> Vec<Value> {
    vec![
        json!([
            "insert into tombstones (slug, deleted_at) select slug, ?2 from links where slug = ?1 on conflict (slug) do nothing",
            slug,
            now
        ]),
        json!(["delete from links where slug = ?1 returning slug", slug]),
    ]
}

/// Purges expired links, the same way. Those at the very instant of their expiry stay.
pub fn purge(now: i64) -> Vec<Value> {
    vec![
        json!([
            "insert into tombstones (slug, deleted_at) select slug, ?1 from links where expires_at < ?1 \
             order by expires_at, slug limit ?2 on conflict (slug) do nothing",
            now,
            MAX_PURGED_LINKS
        ]),
        json!([
            "delete from links where id in (select id from links where expires_at < ?1 order by expires_at, slug limit ?2) \
             returning slug",
            now,
            MAX_PURGED_LINKS
        ]),
    ]
}

/// A page of links, newest first, from behind `after` (its creation and its number).
pub fn list(after: Option<(i64, i64)>, limit: usize) -> Value {
    let (created_at, id) = after.unwrap_or((i64::MAX >> 11, i64::MAX >> 11));
    json!([
        concat!(
            "select ",
            columns!(),
            " from links where created_at < ?1 or (created_at = ?1 and id < ?2) order by created_at desc, id desc limit ?3"
        ),
        created_at,
        id,
        limit
    ])
}

/// Up to when visits are folded in, in Unix seconds.
pub fn watermark() -> Value {
    json!(["select at from watermarks where name = 'visits'"])
}

/// Adds visits, if the watermark still stands at `from`, and moves it to `to`. Both or neither; `updated_at` stays, for a
/// click changes no link.
pub fn fold(visits: &[(String, i64)], from: i64, to: i64) -> Vec<Value> {
    let visits: serde_json::Map<String, Value> =
        visits.iter().map(|(slug, count)| (slug.clone(), (*count).into())).collect();
    vec![
        json!([
            "insert into watermarks (name, at) values ('visits', ?1) on conflict (name) do nothing",
            from
        ]),
        json!([
            "update links set visit_count = visit_count + (select value from json_each(?1) where key = links.slug) \
             where slug in (select key from json_each(?1)) \
             and (select at from watermarks where name = 'visits') = ?2",
            Value::Object(visits).to_string(),
            from
        ]),
        json!(["update watermarks set at = ?2 where name = 'visits' and at = ?1 returning at", from, to]),
    ]
}
