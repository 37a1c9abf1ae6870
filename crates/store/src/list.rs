//! Lists of links. The one place where a statement is put together, and it is put together from static fragments only:
//! `$1 is null or ...` would scan the table.

use rlinks_core::{Id, Link, LinkState, Timestamp};
use sqlx::AssertSqlSafe;

use crate::pool::{Dialect, read};
use crate::rows::{LinkRow, fills, link_columns};
use crate::{Store, StoreError, mend};

/// Which links to list.
#[derive(Clone, Debug, Default)]
pub struct LinkFilter {
    /// Codes that begin so.
    pub prefix: Option<String>,
    /// Links with this tag.
    pub tag: Option<String>,
    /// Links that have a word beginning with each of these (from `rlinks_core::search::query`).
    pub words: Vec<String>,
    /// In these states; empty means any.
    pub states: Vec<LinkState>,
    /// Only after this one, in the order of the list.
    pub after: Option<(Timestamp, Id)>,
}

impl Store {
    /// Links of a workspace, newest first. Those nobody can read, not even from the log, are passed over.
    pub async fn list(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        limit: i64,
    ) -> Result<Vec<Link>, StoreError> {
        let prefix = filter.prefix.as_deref().unwrap_or_default();
        let Some(prefix_end) = after_prefix(prefix) else { return Ok(Vec::new()) };
        let dialect = self.dialect();
        let sql = statement(filter, dialect);
        let (after_time, after_id) =
            filter.after.map_or((i64::MAX, i64::MAX), |(at, id)| (at.ms(), id.as_i64()));
        let mut asked = limit;
        loop {
            let rows: Vec<LinkRow> = read!(
                &self.pool,
                fetch_all,
                AssertSqlSafe(sql.clone()),
                workspace.as_i64(),
                asked,
                after_time,
                after_id,
                prefix,
                prefix_end.as_str(),
                filter.tag.as_deref().unwrap_or_default(),
                match_text(&filter.words, dialect)
            )?;
            let (all, more) = (rows.len(), fills(asked, rows.len()));
            let mut links = mend::readable(mend::links(&self.pool, rows).await?);
            // A short page means the end of the list, so one that is short of a broken row is asked for again, longer.
            if fills(limit, links.len()) || !more {
                links.truncate(usize::try_from(limit).unwrap_or_default());
                return Ok(links);
            }
            asked = limit + i64::try_from(all - links.len()).unwrap_or(limit);
        }
    }
}

fn statement(filter: &LinkFilter, dialect: Dialect) -> String {
    let mut sql = String::from(concat!("select ", link_columns!(), " from links where workspace_id = $1"));
    sql.push_str(match states(&filter.states) {
        0b001 => " and state = 'active'",
        0b010 => " and state = 'disabled'",
        0b011 => " and state in ('active', 'disabled')",
        0b100 => " and state = 'deleted'",
        0b101 => " and state in ('active', 'deleted')",
        0b110 => " and state in ('disabled', 'deleted')",
        _ => "",
    });
    if filter.after.is_some() {
        sql.push_str(" and (created_at, id) < ($3, $4)");
    }
    if filter.prefix.as_deref().is_some_and(|prefix| !prefix.is_empty()) {
        sql.push_str(" and code >= $5 and code < $6");
    }
    if filter.tag.is_some() {
        sql.push_str(" and id in (select link_id from link_tags where workspace_id = $1 and tag = $7)");
    }
    if !filter.words.is_empty() {
        sql.push_str(match dialect {
            Dialect::Sqlite => " and id in (select rowid from link_search where link_search match $8)",
            Dialect::Postgres => " and id in (select rowid from link_search where words @@ $8::tsquery)",
        });
    }
    sql.push_str(" order by created_at desc, id desc limit $2");
    sql
}

fn states(states: &[LinkState]) -> u8 {
    states.iter().fold(0, |bits, state| {
        bits | match state {
            LinkState::Active => 0b001,
            LinkState::Disabled => 0b010,
            LinkState::Deleted => 0b100,
        }
    })
}

/// The least text greater than everything with this prefix. Nothing when no code can begin so.
fn after_prefix(prefix: &str) -> Option<String> {
    if prefix.is_empty() {
        return Some(String::new());
    }
    if !rlinks_core::code::is_code(prefix) {
        return None;
    }
    let mut bytes = prefix.as_bytes().to_vec();
    // Codes are ASCII below DEL, so the last byte has a successor.
    *bytes.last_mut()? += 1;
    String::from_utf8(bytes).ok()
}

/// Words are `[a-z0-9]+`, so they need no quoting in either language.
fn match_text(words: &[String], dialect: Dialect) -> String {
    let (suffix, and) = match dialect {
        Dialect::Sqlite => ("*", " "),
        Dialect::Postgres => (":*", " & "),
    };
    words.iter().map(|word| format!("{word}{suffix}")).collect::<Vec<_>>().join(and)
}
