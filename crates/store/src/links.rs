//! Reading links.

use rlinks_core::{Code, Id, Link, Timestamp};

use crate::pool::read;
use crate::rows::{LinkRow, fills, json, link_columns};
use crate::{Store, StoreError};

impl Store {
    /// A link, whatever its state.
    pub async fn link(&self, workspace: Id, code: &Code) -> Result<Option<Link>, StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where workspace_id = $1 and code = $2");
        let row: Option<LinkRow> = read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), code.as_str())?;
        row.map(LinkRow::link).transpose()
    }

    /// Several links at once, in no order. Rows nobody can read are given by code as errors, so that one does not hide the rest.
    pub async fn links(
        &self,
        workspace: Id,
        codes: &[String],
    ) -> Result<Vec<(String, Result<Link, StoreError>)>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            link_columns!(),
            " from links
             where workspace_id = $1 and code in (select value ->> 'code' from json_each($2))"
        );
        let wanted: Vec<_> = codes.iter().map(|code| serde_json::json!({ "code": code })).collect();
        let rows: Vec<LinkRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), json(&wanted))?;
        Ok(rows.into_iter().map(|row| (row.code.clone(), row.link())).collect())
    }

    /// The next links of all workspaces by id, for filling a cache: at most `limit`, after `after`. Rows nobody can read are
    /// passed over; asking for one by code says why. Gives the id to go on from, while there is more.
    pub async fn links_by_id(&self, after: Id, limit: i64) -> Result<(Vec<Link>, Option<Id>), StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where id > $1 order by id limit $2");
        let rows: Vec<LinkRow> = read!(&self.pool, fetch_all, SQL, after.as_i64(), limit)?;
        let last = rows.last().map(|row| Id::from_i64(row.id)).filter(|_| fills(limit, rows.len()));
        Ok((rows.into_iter().filter_map(|row| row.link().ok()).collect(), last))
    }

    /// A link as it was at a moment, from its history.
    pub async fn link_at(
        &self,
        workspace: Id,
        code: &Code,
        at: Timestamp,
    ) -> Result<Option<Link>, StoreError> {
        let row: Option<(Option<String>,)> = read!(
            &self.pool,
            fetch_optional,
            "select after from audit
             where workspace_id = $1 and subject = $2 and ts <= $3
             order by seq desc limit 1",
            workspace.as_i64(),
            crate::audit::link_subject(code),
            at.ms()
        )?;
        let Some((Some(after),)) = row else { return Ok(None) };
        serde_json::from_str(&after)
            .map(Some)
            .map_err(|error| StoreError::Unreadable(format!("the history of {code}: {error}")))
    }

    /// How many links of a workspace are not deleted.
    pub async fn count_links(&self, workspace: Id) -> Result<i64, StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select links from heads where workspace_id = $1",
            workspace.as_i64()
        )?;
        Ok(row.map_or(0, |(links,)| links))
    }
}
