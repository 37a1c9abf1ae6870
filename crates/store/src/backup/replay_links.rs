//! Links whose rows are not what the log tells of them.

use crate::database::paging::is_full_page;
use crate::database::pool::read_in;
use crate::links::recover;
use crate::links::rows::{LinkRow, link_columns};
use crate::{Store, StoreError};

const PAGE_SIZE: i64 = 1000;
const MAX_DIFFERING_LINKS: u8 = 20;

/// Workspaces and codes the log speaks of and the table does not have, at most `$1`. No link is ever removed from it.
pub(super) const MISSING_LINKS: &str = "select distinct a.workspace_id, substr(a.subject, 6) from audit a
     where a.subject >= 'link:' and a.subject < 'link;'
       and not exists (select 1 from links l where l.workspace_id = a.workspace_id and l.code = substr(a.subject, 6))
     order by 1, 2 limit $1";

impl Store {
    /// Links whose row is not what their last audit entry says, or is gone: somebody changed the table past the log. At most
    /// twenty codes.
    pub async fn links_differing_from_log(&self) -> Result<Vec<String>, StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where id > $1 order by id limit $2");
        let mut view = self.pool.snapshot().await?;
        let gone: Vec<(i64, String)> =
            read_in!(&mut view, fetch_all, MISSING_LINKS, i64::from(MAX_DIFFERING_LINKS))?;
        let mut differing: Vec<_> = gone.into_iter().map(|(_, code)| code).collect();
        let mut after = i64::MIN;
        loop {
            let rows: Vec<LinkRow> = read_in!(&mut view, fetch_all, SQL, after, PAGE_SIZE)?;
            let full = is_full_page(PAGE_SIZE, rows.len());
            let places: Vec<_> = rows.iter().map(|row| (row.workspace_id, row.code.clone())).collect();
            let mut logged = recover::from_log(&mut view, &places).await?;
            for (row, place) in rows.into_iter().zip(places) {
                after = row.id;
                let entry = logged.remove(&place);
                // A row nobody can read was not written by us either.
                if entry.is_none() || entry != row.link().ok() {
                    differing.push(place.1);
                }
            }
            differing.truncate(usize::from(MAX_DIFFERING_LINKS));
            if !full {
                return Ok(differing);
            }
        }
    }
}
