//! Rows as the databases hold them, and the values they stand for.

use rlinks_core::{Actor, Code, Id, Link, RedirectStatus, Target, Timestamp};
use serde::Serialize;
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use crate::StoreError;
use crate::database::json::json;
use crate::database::row::from_row;

/// The columns of a link, in one place; `concat!` puts them into a statement.
macro_rules! link_columns {
    () => {
        "id, workspace_id, code, generated, target, redirect_status, state, https_only, no_loop, expires_at, \
         title, notes, tags, metadata, source, created_by, created_at, updated_at, version"
    };
}
pub(crate) use link_columns;

/// A query for the links that have one of several keys, from a batch. SQLite looks each of them up in an index; PostgreSQL is told to, for
/// until it has counted its tables it would rather read a whole workspace.
macro_rules! links_among {
    ($dialect:expr, $columns:expr, $batch:literal, $where:literal, $first:literal = $asked:literal $(, $column:literal = $value:literal)*) => {
        match $dialect {
            $crate::database::pool::Dialect::Sqlite => concat!(
                "select ", $columns, " from links where ", $where, "(", $first $(, ", ", $column)*, ") in (select ", $asked
                $(, ", ", $value)*, " from json_each(", $batch, "))"
            ),
            $crate::database::pool::Dialect::Postgres => concat!(
                "select ", $columns, " from (select distinct value from json_each(", $batch, ")) as asked cross join lateral
                 (select * from links where ", $where, $first, " = ", $asked $(, " and ", $column, " = ", $value)*, " offset 0) as links"
            ),
        }
    };
}
pub(crate) use links_among;

pub(crate) struct LinkRow {
    pub(crate) id: i64,
    pub(crate) workspace_id: i64,
    pub(crate) code: String,
    /// Nothing where a column holds another type than it should: SQLite lets whoever edits a file do so, and one such row must
    /// not fail the query for all.
    rest: Option<LinkRest>,
}

impl<'r, R: Row> FromRow<'r, R> for LinkRow
where
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    LinkRest: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            workspace_id: row.try_get("workspace_id")?,
            code: row.try_get("code").unwrap_or_default(),
            rest: LinkRest::from_row(row).ok(),
        })
    }
}

struct LinkRest {
    generated: bool,
    target: String,
    redirect_status: i64,
    state: String,
    https_only: bool,
    no_loop: bool,
    expires_at: Option<i64>,
    title: Option<String>,
    notes: Option<String>,
    tags: String,
    metadata: String,
    source: String,
    created_by: String,
    created_at: i64,
    updated_at: i64,
    version: i64,
}

from_row!(LinkRest {
    generated,
    target,
    redirect_status,
    state,
    https_only,
    no_loop,
    expires_at,
    title,
    notes,
    tags,
    metadata,
    source,
    created_by,
    created_at,
    updated_at,
    version
});

impl LinkRow {
    pub(crate) fn link(self) -> Result<Link, StoreError> {
        let broken =
            || StoreError::Unreadable(format!("the row of link `{}` (id {}) is broken", self.code, self.id));
        let rest = self.rest.ok_or_else(broken)?;
        rest.link(self.id, self.workspace_id, &self.code).ok_or_else(broken)
    }
}

impl LinkRest {
    fn link(self, id: i64, workspace: i64, code: &str) -> Option<Link> {
        Some(Link {
            id: Id::from_i64(id),
            workspace: Id::from_i64(workspace),
            code: Code::from_path(code)?,
            generated: self.generated,
            target: Target::from_stored(self.target)?,
            redirect_status: RedirectStatus::from_code(self.redirect_status)?,
            state: self.state.parse().ok()?,
            https_only: self.https_only,
            no_loop: self.no_loop,
            expires_at: self.expires_at.map(Timestamp::from_ms),
            title: self.title,
            notes: self.notes,
            tags: serde_json::from_str(&self.tags).ok()?,
            metadata: serde_json::from_str(&self.metadata).ok()?,
            source: self.source.parse().ok()?,
            created_by: Actor::from_stored(self.created_by),
            created_at: Timestamp::from_ms(self.created_at),
            updated_at: Timestamp::from_ms(self.updated_at),
            version: self.version,
        })
    }
}

/// A link on its way into a batch statement: as bound values where it is new, as one element of a JSON array where it changes.
#[derive(Serialize)]
pub(crate) struct LinkBatchRow<'a> {
    pub(crate) id: i64,
    pub(crate) workspace_id: i64,
    pub(crate) code: &'a str,
    pub(crate) code_folded: String,
    pub(crate) generated: bool,
    pub(crate) target: &'a str,
    pub(crate) target_normalized: Option<String>,
    pub(crate) redirect_status: u16,
    pub(crate) state: &'a str,
    pub(crate) https_only: bool,
    pub(crate) no_loop: bool,
    pub(crate) expires_at: Option<i64>,
    pub(crate) title: Option<&'a str>,
    pub(crate) notes: Option<&'a str>,
    pub(crate) tags: String,
    pub(crate) metadata: String,
    pub(crate) source: &'a str,
    pub(crate) created_by: &'a str,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) version: i64,
    /// The version a change was made against; a row with another one is left alone. Nothing means any: the row is broken.
    base: Option<i64>,
}

impl<'a> LinkBatchRow<'a> {
    pub(crate) fn from_link(link: &'a Link, normalized: Option<String>, base: Option<i64>) -> Self {
        Self {
            id: link.id.as_i64(),
            workspace_id: link.workspace.as_i64(),
            code: link.code.as_str(),
            code_folded: link.code.folded(),
            generated: link.generated,
            target: link.target.as_str(),
            target_normalized: normalized,
            redirect_status: link.redirect_status.code(),
            state: link.state.name(),
            https_only: link.https_only,
            no_loop: link.no_loop,
            expires_at: link.expires_at.map(Timestamp::ms),
            title: link.title.as_deref(),
            notes: link.notes.as_deref(),
            tags: json(&link.tags),
            metadata: json(&link.metadata),
            source: link.source.name(),
            created_by: link.created_by.as_str(),
            created_at: link.created_at.ms(),
            updated_at: link.updated_at.ms(),
            version: link.version,
            base,
        }
    }
}
