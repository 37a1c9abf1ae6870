//! Links that were made elsewhere: written as they were, with an entry in the log for each, many in one transaction.
//!
//! Ids are set aside before the links are written, so that whatever is kept beside a link can be there before it: its clicks, and on
//! PostgreSQL, where several connections write at once, its words and tags. These are half of the work, and nobody else can want them;
//! done before the head is locked, they are done while other links are being written.

use std::collections::BTreeMap;

use rlinks_core::id::Worker;
use rlinks_core::{Id, Link, Timestamp};

use super::apply::{State, taken};
use crate::database::pool::{Dialect, read, read_in, run_in};
use crate::links::rows::{json, links_among};
use crate::write::group::{last_id, set_last_id};
use crate::write::insert;
use crate::write::queue::{Begun, LinkOp, LinkWrite, Written, commit_many};
use crate::{Store, StoreError};

impl State {
    /// Writes a link as it was, where nobody has its code: not even a deleted one.
    pub(super) fn import(
        &mut self,
        write: &LinkWrite,
        link: &Link,
        updated: Option<Timestamp>,
    ) -> Result<Written, StoreError> {
        let workspace = write.workspace.as_i64();
        if let Some(there) = self.links.get(&(workspace, link.code.as_str().to_owned())) {
            return Err(taken(there.code.as_str(), there.state == rlinks_core::LinkState::Deleted));
        }
        if !link.generated
            && let Some(alike) = self.by_folded.get(&(workspace, link.code.folded()))
        {
            return Err(taken(alike, false));
        }
        let moment = self.heads[&workspace].moment(write.now);
        let link = Link {
            workspace: write.workspace,
            updated_at: updated.unwrap_or(moment),
            created_at: if updated.is_some() { link.created_at } else { link.created_at.min(moment) },
            ..link.clone()
        };
        self.check_quota(write, None, &link)?;
        self.put(write, None, link.clone(), "link.create");
        Ok(Written::Created(link))
    }
}

/// Changes about to be made together, and what of them is written already where nobody sees it.
pub struct Prepared {
    writes: Vec<LinkWrite>,
    begun: Option<Begun>,
}

impl From<Vec<LinkWrite>> for Prepared {
    /// With nothing done yet.
    fn from(writes: Vec<LinkWrite>) -> Self {
        Self { writes, begun: None }
    }
}

impl Store {
    /// Does what can be done of many changes while others are being made. Dropped, none of it ever was. The ids of imported links must
    /// have been set aside: who brings an id along may not be alone with it, and would be waited for by whoever has the head.
    pub async fn prepare(&self, writes: Vec<LinkWrite>) -> Result<Prepared, StoreError> {
        let imported: Vec<&Link> = writes
            .iter()
            .filter_map(|write| match &write.op {
                LinkOp::Import { link, .. } => Some(&**link),
                _ => None,
            })
            .collect();
        // One connection writes to SQLite, and it is busy.
        let begun = if self.pool.dialect() == Dialect::Sqlite || imported.is_empty() {
            None
        } else {
            let mut tx = self.pool.begin().await?;
            insert::words(&mut tx, &imported).await?;
            Some(Begun { tx, worded: imported.iter().map(|link| link.id.as_i64()).collect() })
        };
        Ok(Prepared { writes, begun })
    }

    /// Makes prepared changes in one transaction, as far as each can be made. A few hundred at a time: others wait meanwhile.
    pub async fn write_prepared(&self, prepared: Prepared) -> Vec<Result<Written, StoreError>> {
        let Prepared { writes, begun } = prepared;
        if writes.is_empty() {
            return Vec::new();
        }
        let results = commit_many(&self.pool, self.worker, &writes, begun).await;
        self.committed.send_modify(|count| *count += 1);
        results
    }

    /// After many links at once: makes sure that the database looks for them the quick way.
    pub async fn take_stock(&self) {
        self.pool.take_stock("analyze links, link_tags, link_search, audit").await;
    }

    /// Sets ids aside that nobody else gets.
    pub async fn reserve_ids(&self, count: usize, now: Timestamp) -> Result<Vec<Id>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let mut last = last_id(&mut tx, self.worker).await?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            last = Id::next(last, now, self.worker);
            ids.push(last);
        }
        set_last_id(&mut tx, self.worker, last, now).await?;
        tx.commit().await?;
        Ok(ids)
    }

    /// Makes sure that no id maker ever gives out one of these, which are about to be given to links.
    pub async fn claim_ids(&self, ids: &[Id]) -> Result<(), StoreError> {
        let mut last = BTreeMap::<u16, i64>::new();
        for id in ids {
            let known = last.entry(Worker::of(*id).number()).or_default();
            *known = (*known).max(id.as_i64());
        }
        let rows: Vec<_> = last.into_iter().collect();
        let behind: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select cast(value ->> 0 as bigint) from json_each($1) as claimed
             where not exists (select 1 from workers where worker = cast(claimed.value ->> 0 as bigint)
                               and last_id >= cast(claimed.value ->> 1 as bigint)) limit 1",
            json(&rows)
        )?;
        if behind.is_none() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into workers (worker, last_id, holder, leased_until)
             select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), '', 0 from json_each($1) where true
             order by cast(value ->> 0 as bigint)
             on conflict (worker) do update
             set last_id = case when excluded.last_id > workers.last_id then excluded.last_id else workers.last_id end",
            json(&rows)
        )?;
        tx.commit().await
    }

    /// Which of these codes in lower case a chosen code of the workspace has, and how that is written.
    pub async fn codes_alike(
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
    pub async fn codes_by_case(&self, workspace: Id, limit: i64) -> Result<Vec<String>, StoreError> {
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
    pub async fn live_links(&self, workspace: Id, now: Timestamp) -> Result<i64, StoreError> {
        let mut tx = self.pool.snapshot().await?;
        let (live,): (i64,) = read_in!(&mut tx, fetch_one, super::group::LIVE, workspace.as_i64(), now.ms())?;
        Ok(live)
    }
}
