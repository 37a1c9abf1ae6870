//! Reading links.

use rlinks_core::{Actor, Code, Host, Id, Link, Target, Timestamp};

use crate::audit::log::link_subject;
use crate::database::json::json;
use crate::database::paging::is_full_page;
use crate::database::pool::{read, read_in};
use crate::links::recover;
use crate::links::rows::{LinkRow, link_columns, links_among};
use crate::{Store, StoreError};

/// Links neither deleted nor expired.
pub(crate) const COUNT_LIVE_LINKS: &str = "select count(*) from links
     where workspace_id = $1 and state <> 'deleted' and (expires_at is null or expires_at >= $2)";

/// Whose link it is and what it is called: for counting clicks, and for showing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkName {
    pub id: Id,
    pub workspace: Id,
    pub code: String,
    /// The user who made it, where it was one.
    pub owner: Option<Id>,
}

impl Store {
    /// What links are called, in no order; unknown ones are left out.
    pub async fn link_names(&self, links: &[Id]) -> Result<Vec<LinkName>, StoreError> {
        let ids: Vec<[i64; 1]> = links.iter().map(|link| [link.as_i64()]).collect();
        let sql = links_among!(
            self.pool.dialect(),
            "id, workspace_id, code, created_by",
            "$1",
            "",
            "id" = "cast(value ->> 0 as bigint)"
        );
        let rows: Vec<(i64, i64, String, String)> = read!(&self.pool, fetch_all, sql, json(&ids))?;
        let name = |(id, workspace, code, created_by): (i64, i64, String, String)| LinkName {
            id: Id::from_i64(id),
            workspace: Id::from_i64(workspace),
            code,
            owner: Actor::from_stored(created_by).user(),
        };
        Ok(rows.into_iter().map(name).collect())
    }

    /// A link, whatever its state. Where its row is broken, it is what the log says.
    pub async fn link(&self, workspace: Id, code: &Code) -> Result<Option<Link>, StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where workspace_id = $1 and code = $2");
        let row: Option<LinkRow> = read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), code.as_str())?;
        let reading = recover::links(&self.pool, row.into_iter().collect()).await?.pop();
        reading.map(|reading| reading.link).transpose()
    }

    /// Whether a chosen code differs from this one by case alone.
    pub async fn folded_code_taken(&self, workspace: Id, code: &Code) -> Result<bool, StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select id from links where not generated and workspace_id = $1 and code_folded = $2 limit 1",
            workspace.as_i64(),
            code.folded()
        )?;
        Ok(row.is_some())
    }

    /// Several links at once, in no order. Those nobody can read, not even from the log, are given by code as errors, so that
    /// one does not hide the rest.
    pub async fn links(
        &self,
        workspace: Id,
        codes: &[String],
    ) -> Result<Vec<(String, Result<Link, StoreError>)>, StoreError> {
        let sql = links_among!(
            self.pool.dialect(),
            link_columns!(),
            "$2",
            "workspace_id = $1 and ",
            "code" = "value ->> 'code'"
        );
        let wanted: Vec<_> = codes.iter().map(|code| serde_json::json!({ "code": code })).collect();
        let rows: Vec<LinkRow> = read!(&self.pool, fetch_all, sql, workspace.as_i64(), json(&wanted))?;
        let readings = recover::links(&self.pool, rows).await?;
        Ok(readings.into_iter().map(|reading| (reading.key.1, reading.link)).collect())
    }

    /// The next links of all workspaces by id, for filling a cache: at most `limit`, after `after`. Those nobody can
    /// read, not even from the log, are passed over; asking for one by code says why. Gives the id to go on from, while there is more.
    pub async fn links_by_id(&self, after: Id, limit: i64) -> Result<(Vec<Link>, Option<Id>), StoreError> {
        const SQL: &str =
            concat!("select ", link_columns!(), " from links where id > $1 order by id limit $2");
        let rows: Vec<LinkRow> = read!(&self.pool, fetch_all, SQL, after.as_i64(), limit)?;
        let last = rows.last().map(|row| Id::from_i64(row.id)).filter(|_| is_full_page(limit, rows.len()));
        Ok((recover::readable(recover::links(&self.pool, rows).await?), last))
    }

    /// The next links of a workspace by id, whatever their state: at most `limit`, after `after`, all or one maker's. Gives the codes
    /// of those nobody can read, not even from the log, and the id to go on from, while there is more.
    pub async fn links_in_workspace(
        &self,
        workspace: Id,
        maker: Option<&Actor>,
        after: Id,
        limit: i64,
    ) -> Result<(Vec<Link>, Vec<String>, Option<Id>), StoreError> {
        // The plus keeps SQLite from finding the workspace by an index and sorting all of it for every page.
        const SQL: &str = concat!(
            "select ",
            link_columns!(),
            " from links where +workspace_id = $1 and id > $2 and (cast($3 as text) is null or created_by = $3)
             order by id limit $4"
        );
        let maker = maker.map(Actor::as_str);
        let rows: Vec<LinkRow> =
            read!(&self.pool, fetch_all, SQL, workspace.as_i64(), after.as_i64(), maker, limit)?;
        let last = rows.last().map(|row| Id::from_i64(row.id)).filter(|_| is_full_page(limit, rows.len()));
        let (mut links, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        for reading in recover::links(&self.pool, rows).await? {
            match reading.link {
                Ok(link) => links.push(link),
                Err(_) => unreadable.push(reading.key.1),
            }
        }
        Ok((links, unreadable, last))
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
            link_subject(code),
            at.ms()
        )?;
        let Some((Some(after),)) = row else { return Ok(None) };
        serde_json::from_str(&after)
            .map(Some)
            .map_err(|error| StoreError::Unreadable(format!("the history of {code}: {error}")))
    }

    /// Links that are not deleted and lead to this host, as workspace and code, of all workspaces by id: at most `limit`. It
    /// reads the whole table, for the rare moment in which a domain is added.
    pub async fn links_leading_to(&self, host: &Host, limit: i64) -> Result<Vec<(Id, Code)>, StoreError> {
        const PAGE_SIZE: i64 = 1000;
        let begins = |scheme: &str| format!("{scheme}://{}%", host.as_str().replace('_', "!_"));
        let (mut found, mut after) = (Vec::new(), i64::MIN);
        while !is_full_page(limit, found.len()) {
            let rows: Vec<(i64, i64, String, String)> = read!(
                &self.pool,
                fetch_all,
                "select id, workspace_id, code, target from links
                 where id > $1 and state <> 'deleted' and (target like $2 escape '!' or target like $3 escape '!')
                 order by id limit $4",
                after,
                begins("http"),
                begins("https"),
                PAGE_SIZE
            )?;
            let more = is_full_page(PAGE_SIZE, rows.len());
            for (id, workspace, code, target) in rows {
                after = id;
                // The pattern also finds hosts that only begin so.
                let leads = Target::from_stored(target).is_some_and(|target| target.host() == host.as_str());
                found.extend(
                    Code::from_path(&code).filter(|_| leads).map(|code| (Id::from_i64(workspace), code)),
                );
            }
            if !more {
                break;
            }
        }
        found.truncate(usize::try_from(limit).unwrap_or_default());
        Ok(found)
    }

    /// The next links of a workspace that are over and not deleted, the longest over first, for the job that purges them: at
    /// most `limit`, after `after`. Gives where to go on from, while there is more. What a link answers does not depend on this.
    pub async fn expired_links(
        &self,
        workspace: Id,
        now: Timestamp,
        after: Option<(Timestamp, Id)>,
        limit: i64,
    ) -> Result<(Vec<Link>, Option<(Timestamp, Id)>), StoreError> {
        const SQL: &str = concat!(
            "select ",
            link_columns!(),
            " from links where id in (select cast(value ->> 0 as bigint) from json_each($1))"
        );
        let (after_time, after_id) = after.map_or((-1, 0), |(at, id)| (at.ms(), id.as_i64()));
        let expired: Vec<(i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select id, cast(expires_at as bigint) from links
             where workspace_id = $1 and expires_at < $2 and (expires_at, id) > ($3, $4) and state <> 'deleted'
             order by expires_at, id limit $5",
            workspace.as_i64(),
            now.ms(),
            after_time,
            after_id,
            limit
        )?;
        let last = expired.last().filter(|_| is_full_page(limit, expired.len()));
        let last = last.map(|(id, at)| (Timestamp::from_ms(*at), Id::from_i64(*id)));
        let ids: Vec<[i64; 1]> = expired.iter().map(|(id, _)| [*id]).collect();
        let rows: Vec<LinkRow> = read!(&self.pool, fetch_all, SQL, json(&ids))?;
        let mut links = recover::readable(recover::links(&self.pool, rows).await?);
        // A broken row is what the log says, and that may be another moment.
        links.retain(|link| link.is_expired(now));
        Ok((links, last))
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

    /// Which of these codes in lower case a chosen code of the workspace has, and how that is written.
    pub async fn codes_folding_to(
        &self,
        workspace: Id,
        folded: &[String],
    ) -> Result<Vec<(String, String)>, StoreError> {
        let wanted: Vec<[&String; 1]> = folded.iter().map(|code| [code]).collect();
        let sql = links_among!(
            self.pool.dialect(),
            "code_folded, code",
            "$2",
            "not generated and workspace_id = $1 and ",
            "code_folded" = "value ->> 0"
        );
        Ok(read!(&self.pool, fetch_all, sql, workspace.as_i64(), json(&wanted))?)
    }

    /// Codes of a workspace that differ from another one by case alone: at most `limit`, in lower case.
    pub async fn case_collisions(&self, workspace: Id, limit: i64) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = read!(
            &self.pool,
            fetch_all,
            "select code_folded from links where workspace_id = $1 and state = 'active'
             group by code_folded having count(*) > 1 order by code_folded limit $2",
            workspace.as_i64(),
            limit
        )?;
        Ok(rows.into_iter().map(|(code,)| code).collect())
    }

    /// How many links of a workspace count against its limit of live links.
    pub async fn count_live_links(&self, workspace: Id, now: Timestamp) -> Result<i64, StoreError> {
        let mut tx = self.pool.snapshot().await?;
        let (live,): (i64,) = read_in!(&mut tx, fetch_one, COUNT_LIVE_LINKS, workspace.as_i64(), now.ms())?;
        Ok(live)
    }
}
