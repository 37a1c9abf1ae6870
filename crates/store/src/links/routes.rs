//! Links as the redirect path needs them: nothing that does not decide an answer.

use rlinks_core::{Code, Id, Link, LinkState, RedirectStatus, Route, Target, Timestamp};

use crate::database::json::json;
use crate::database::pool::{Dialect, read};
use crate::links::rows::links_among;
use crate::{Store, StoreError};

/// The part of a stored link a redirect depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRecord {
    /// Its id, for counting clicks.
    pub id: Id,
    pub workspace: Id,
    pub code: Code,
    pub target: Target,
    pub redirect_status: RedirectStatus,
    /// What its owner made of it.
    pub state: LinkState,
    /// Leads to https only.
    pub https_only: bool,
    /// Never leads back to us.
    pub no_loop: bool,
    pub expires_at: Option<Timestamp>,
    /// A cache never replaces a record by an older one.
    pub version: i64,
}

impl RouteRecord {
    /// Of a link that was just written.
    pub fn from_link(link: &Link) -> Self {
        Self {
            id: link.id,
            workspace: link.workspace,
            code: link.code.clone(),
            target: link.target.clone(),
            redirect_status: link.redirect_status,
            state: link.state,
            https_only: link.https_only,
            no_loop: link.no_loop,
            expires_at: link.expires_at,
            version: link.version,
        }
    }

    /// As `decide` takes it.
    pub fn route(&self) -> Route<'_> {
        Route {
            state: self.state,
            redirect_status: self.redirect_status,
            https_only: self.https_only,
            no_loop: self.no_loop,
            expires_at: self.expires_at,
            target: self.target.as_str(),
            target_host: self.target.host(),
        }
    }
}

macro_rules! route_columns {
    () => {
        "id, workspace_id, code, target, redirect_status, state, https_only, no_loop, expires_at, version"
    };
}

type Row = (i64, i64, String, String, i64, String, bool, bool, Option<i64>, i64);

fn parse_row(row: Row) -> Result<RouteRecord, StoreError> {
    let (id, workspace, code, target, redirect_status, state, https_only, no_loop, expires_at, version) = row;
    let read = || {
        Some(RouteRecord {
            id: Id::from_i64(id),
            workspace: Id::from_i64(workspace),
            code: Code::from_path(&code)?,
            target: Target::from_stored(target)?,
            redirect_status: RedirectStatus::from_code(redirect_status)?,
            state: state.parse().ok()?,
            https_only,
            no_loop,
            expires_at: expires_at.map(Timestamp::from_ms),
            version,
        })
    };
    read().ok_or_else(|| StoreError::Unreadable(format!("the row of link {id} is broken")))
}

impl Store {
    /// One route. A row nobody can read is an error of its own, so that it is never mistaken for a missing one.
    pub async fn route(&self, workspace: Id, code: &str) -> Result<Option<RouteRecord>, StoreError> {
        const SQL: &str =
            concat!("select ", route_columns!(), " from links where workspace_id = $1 and code = $2");
        let row: Option<Row> = read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), code)?;
        row.map(parse_row).transpose()
    }

    /// Several routes at once, in no order; unreadable ones are left out and logged.
    pub async fn routes(&self, workspace: Id, codes: &[String]) -> Result<Vec<RouteRecord>, StoreError> {
        let sql = links_among!(
            self.pool.dialect(),
            route_columns!(),
            "$2",
            "workspace_id = $1 and ",
            "code" = "value ->> 'code'"
        );
        let wanted: Vec<_> = codes.iter().map(|code| serde_json::json!({ "code": code })).collect();
        let rows: Vec<Row> = read!(&self.pool, fetch_all, sql, workspace.as_i64(), json(&wanted))?;
        Ok(readable(rows))
    }

    /// The next routes of all workspaces by id, for filling a cache: at most `limit`, after `after`. Gives the id to go on
    /// from while there is more.
    ///
    /// A page comes as one JSON text: handing over a million rows one by one takes several times as long.
    pub async fn routes_after(
        &self,
        after: Id,
        limit: i64,
    ) -> Result<(Vec<RouteRecord>, Option<Id>), StoreError> {
        const SQLITE: &str = concat!(
            "select json_group_array(json_array(id, workspace_id, code, target, redirect_status, state,
                    json(iif(https_only, 'true', 'false')), json(iif(no_loop, 'true', 'false')), expires_at, version))
             from (select ",
            route_columns!(),
            " from links where id > $1 order by id limit $2)"
        );
        const POSTGRES: &str = concat!(
            "select coalesce(json_agg(json_build_array(id, workspace_id, code, target, redirect_status, state,
                    https_only, no_loop, expires_at, version)), '[]')::text
             from (select ",
            route_columns!(),
            " from links where id > $1 order by id limit $2) as page"
        );
        let sql = if self.dialect() == Dialect::Sqlite { SQLITE } else { POSTGRES };
        let (page,): (String,) = read!(&self.pool, fetch_one, sql, after.as_i64(), limit)?;
        let rows: Vec<Row> = serde_json::from_str(&page)
            .map_err(|error| StoreError::Unreadable(format!("a page of links: {error}")))?;
        let next =
            rows.last().map(|row| Id::from_i64(row.0)).filter(|_| i64::try_from(rows.len()) == Ok(limit));
        Ok((readable(rows), next))
    }
}

fn readable(rows: Vec<Row>) -> Vec<RouteRecord> {
    let keep = |row| match parse_row(row) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(%error, "a link is not served");
            None
        }
    };
    rows.into_iter().filter_map(keep).collect()
}
