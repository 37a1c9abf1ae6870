//! Links as they were: what the log says of them up to one of its entries. For putting a whole workspace back.
//!
//! A moment becomes the last entry that was made by then. Time in a chain never goes back, so from there on entries are told apart by
//! their numbers, and two that fell into one millisecond are not mixed up.

use std::collections::HashMap;

use rlinks_core::{Actor, Id, Link, Timestamp};
use serde::{Deserialize, Serialize};

use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in};
use crate::{Store, StoreError, StoreWriter};

/// What the log says of a rollback when it begins, and again when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRecord {
    pub to: Timestamp,
    /// The last entry by then.
    pub entry: i64,
    /// The last moment before it began: going back to this undoes it. Rollbacks of 0.1 did not say it, and can't be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Timestamp>,
}

const ROLLBACK_STARTED: &str = "workspace.rollback";
const ROLLBACK_FINISHED: &str = "workspace.rollback_finished";

impl Store {
    /// The number of the last entry of a workspace's log at a moment; 0 before the first.
    pub async fn entry_at(&self, workspace: Id, at: Timestamp) -> Result<i64, StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select seq from audit where workspace_id = $1 and ts <= $2 order by seq desc limit 1",
            workspace.as_i64(),
            at.ms()
        )?;
        Ok(row.map_or(0, |(seq,)| seq))
    }

    /// The codes of links that were changed after an entry, in their order: at most `limit`, after the code `after`.
    pub async fn codes_changed_since(
        &self,
        workspace: Id,
        entry: i64,
        after: &str,
        limit: i64,
    ) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = read!(
            &self.pool,
            fetch_all,
            "select distinct subject from audit
             where workspace_id = $1 and subject > $2 and subject < 'link;' and seq > $3 order by subject limit $4",
            workspace.as_i64(),
            format!("link:{after}"),
            entry,
            limit
        )?;
        Ok(rows
            .into_iter()
            .filter_map(|(subject,)| subject.strip_prefix("link:").map(str::to_owned))
            .collect())
    }

    /// Links as they were at an entry, by code. Those that were not there yet are left out.
    pub async fn links_at_entry(
        &self,
        workspace: Id,
        entry: i64,
        codes: &[String],
    ) -> Result<HashMap<String, Link>, StoreError> {
        let subjects: Vec<[String; 1]> = codes.iter().map(|code| [format!("link:{code}")]).collect();
        let rows: Vec<(String, Option<String>)> = read!(
            &self.pool,
            fetch_all,
            "select a.subject, a.after
             from (select b.subject, max(b.seq) as seq from audit b
                   where b.workspace_id = $1 and b.seq <= $2 and b.subject in (select value ->> 0 from json_each($3))
                   group by b.subject) as newest
             join audit a on a.workspace_id = $1 and a.seq = newest.seq",
            workspace.as_i64(),
            entry,
            json(&subjects)
        )?;
        let mut links = HashMap::new();
        for (subject, after) in rows {
            let code = subject.strip_prefix("link:").unwrap_or(&subject);
            let Some(after) = after else { continue };
            let link = serde_json::from_str(&after)
                .map_err(|error| StoreError::Unreadable(format!("the history of {code}: {error}")))?;
            links.insert(code.to_owned(), link);
        }
        Ok(links)
    }
}

impl Store {
    /// The rollback of a workspace that began last, if it never ended.
    pub async fn unfinished_rollback(&self, workspace: Id) -> Result<Option<RollbackRecord>, StoreError> {
        let mut view = self.pool.snapshot().await?;
        unfinished_rollback(&mut view, workspace).await
    }
}

impl StoreWriter {
    /// Says in the log of a workspace that it is about to be put back, and to when; where that was said before and cut off, this goes on
    /// with it. The entry is of a later moment than every entry before it, and the last moment before it is given: going back to that
    /// undoes what follows.
    pub async fn record_rollback(
        &self,
        workspace: Id,
        to: Timestamp,
        entry: i64,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Timestamp, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let begun = unfinished_rollback(&mut change.tx, workspace).await?;
        if let Some(undo) = begun.filter(|begun| begun.entry == entry).and_then(|begun| begun.undo) {
            return Ok(undo);
        }
        let head = change.head()?;
        let undo = head.next_timestamp(Timestamp::from_ms(0));
        let after = json(&RollbackRecord { to, entry, undo: Some(undo) });
        let note = rollback_entry(actor, ROLLBACK_STARTED, &head.slug, after);
        change.commit([note], now.max(undo.plus_ms(1))).await?;
        Ok(undo)
    }

    /// Says that the rollback to an entry has ended. What another process said already is not repeated.
    pub async fn record_rollback_end(
        &self,
        workspace: Id,
        entry: i64,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let begun = unfinished_rollback(&mut change.tx, workspace).await?;
        let Some(begun) = begun.filter(|begun| begun.entry == entry) else { return Ok(()) };
        let note = rollback_entry(actor, ROLLBACK_FINISHED, &change.head()?.slug, json(&begun));
        change.commit([note], now).await
    }
}

fn rollback_entry<'a>(actor: &'a Actor, action: &'a str, slug: &str, after: String) -> NewEntry<'a> {
    // The subject is not the workspace itself, whose own entries say what it is.
    NewEntry { actor, action, subject: format!("rollback:{slug}"), before: None, after: Some(after) }
}

async fn unfinished_rollback(tx: &mut Tx, workspace: Id) -> Result<Option<RollbackRecord>, StoreError> {
    let row: Option<(String, Option<String>)> = read_in!(
        tx,
        fetch_optional,
        "select action, after from audit
         where workspace_id = $1 and subject = (select 'rollback:' || slug from workspaces where id = $1)
         order by seq desc limit 1",
        workspace.as_i64()
    )?;
    let Some((_, Some(after))) = row.filter(|(action, _)| action == ROLLBACK_STARTED) else {
        return Ok(None);
    };
    let begun: RollbackRecord = serde_json::from_str(&after)
        .map_err(|error| StoreError::Unreadable(format!("the entry of a rollback: {error}")))?;
    Ok(begun.undo.is_some().then_some(begun))
}
