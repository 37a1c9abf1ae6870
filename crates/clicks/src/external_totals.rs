//! Clicks that were counted elsewhere: a number beside the link, of which no click is known.
//!
//! It is kept in a table of its own and held by the totals. Recomputing moves totals by what days gained or lost, so it never
//! touches this part of them. Setting the same number again changes nothing.

use std::collections::{BTreeMap, HashMap};

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::bulk::insert_rows;
use rlinks_store::database::pool::{Dialect, read, read_in, run_in};
use serde_json::json;

use crate::bulk_lookup::look_up;
use crate::database::ClickStore;
use crate::ingest::write::lock;
use crate::rollup::{RollupSubject, SubjectKind, Total};

impl ClickStore {
    /// After many links at once: makes sure that the database looks for their totals the quick way.
    pub async fn analyze(&self) {
        self.pool.analyze("analyze totals, imported").await;
    }

    /// Says what links of a workspace had counted elsewhere, in the place of what was said before. It lasts as soon as anything does
    /// that is stored after it, which is the links themselves.
    pub async fn set_external_totals(&self, workspace: Id, links: &[(Id, Total)]) -> Result<(), StoreError> {
        let links: BTreeMap<i64, &Total> = links.iter().map(|(link, total)| (link.as_i64(), total)).collect();
        if links.is_empty() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        if tx.dialect() == Dialect::Postgres {
            // The log of PostgreSQL is written in order, so the links' commit makes this one last as well, and nobody waits twice. SQLite
            // keeps clicks in a file of their own, which waits for its own disk.
            run_in!(&mut tx, "set local synchronous_commit = off")?;
        }
        lock(&mut tx).await?;
        let ids = json!(links.keys().map(|link| [link]).collect::<Vec<_>>()).to_string();
        let sql = look_up!(
            tx.dialect(),
            "d.link_id, d.clicks, d.bots",
            "imported",
            "d.link_id = cast(asked.value ->> 0 as bigint)"
        );
        let before: Vec<(i64, i64, i64)> = read_in!(&mut tx, fetch_all, sql, &ids)?;
        let before: HashMap<i64, (i64, i64)> =
            before.into_iter().map(|(link, clicks, bots)| (link, (clicks, bots))).collect();
        let ms = |at: Option<Timestamp>| at.map(Timestamp::ms);
        let rows: Vec<(i64, &Total, (i64, i64))> = links
            .into_iter()
            .map(|(link, total)| (link, total, before.get(&link).copied().unwrap_or_default()))
            .collect();
        insert_rows!(
            &mut tx,
            "insert into imported (link_id, workspace_id, clicks, bots, last_click, last_hit)",
            6,
            "on conflict (link_id) do update
             set clicks = excluded.clicks, bots = excluded.bots, last_click = excluded.last_click, last_hit = excluded.last_hit",
            &rows,
            |(link, total, _)| [
                *link,
                workspace.as_i64(),
                total.clicks,
                total.bots,
                ms(total.last_click),
                ms(total.last_hit),
            ]
        );
        insert_rows!(
            &mut tx,
            "insert into totals (kind, subject, workspace_id, clicks, bots, last_click, last_hit)",
            7,
            "on conflict (kind, subject) do update
             set clicks = totals.clicks + excluded.clicks, bots = totals.bots + excluded.bots,
                 last_click = case when totals.last_click is null or excluded.last_click > totals.last_click
                                   then excluded.last_click else totals.last_click end,
                 last_hit = case when totals.last_hit is null or excluded.last_hit > totals.last_hit
                                 then excluded.last_hit else totals.last_hit end",
            &rows,
            |(link, total, (clicks, bots))| [
                SubjectKind::Link as i64,
                *link,
                workspace.as_i64(),
                total.clicks - clicks,
                total.bots - bots,
                ms(total.last_click),
                ms(total.last_hit),
            ]
        );
        tx.commit().await
    }

    /// What a subject had counted elsewhere: clicks of people, and of bots. Only of links that is known.
    pub async fn external_total(&self, subject: RollupSubject) -> Result<(u64, u64), StoreError> {
        if subject.kind != SubjectKind::Link {
            return Ok((0, 0));
        }
        let row: Option<(i64, i64)> = read!(
            &self.pool,
            fetch_optional,
            "select clicks, bots from imported where link_id = $1 and workspace_id = $2",
            subject.id.as_i64(),
            subject.workspace.as_i64()
        )?;
        let whole = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(row.map_or((0, 0), |(clicks, bots)| (whole(clicks), whole(bots))))
    }

    /// Forgets what was said of links that did not come to be.
    pub async fn remove_external_totals(&self, links: &[Id]) -> Result<(), StoreError> {
        if links.is_empty() {
            return Ok(());
        }
        let ids = json!(links.iter().map(|link| [link.as_i64()]).collect::<Vec<_>>()).to_string();
        let mut tx = self.pool.begin().await?;
        lock(&mut tx).await?;
        run_in!(
            &mut tx,
            "delete from imported where link_id in (select cast(value ->> 0 as bigint) from json_each($1))",
            &ids
        )?;
        run_in!(
            &mut tx,
            "delete from totals where kind = 0 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
            &ids
        )?;
        tx.commit().await
    }
}
