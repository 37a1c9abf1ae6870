//! Retention: raw clicks, hours, days and what else is only kept for a while. Months and totals are kept for ever, so no total
//! ever sinks.
//!
//! First `frozen` moves, in a transaction of its own, so that [`recompute`](crate::recompute) never counts a day of which half
//! is gone. Then rows go in chunks: no transaction lasts long enough for ingest to notice. What exactly goes is said by a number
//! the caller gives: a click that turns up late, after the caller has exported what is about to go, stays until the next time.

use std::collections::HashSet;
use std::ops::Range;

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Dialect, Pool, read, run_in};
use sqlx::AssertSqlSafe;

use crate::bulk_lookup::json;
use crate::database::ClickStore;
use crate::ingest::write::lock;
use crate::rollup::SubjectKind;
use crate::time::{DAY_MS, HOURLY_DAYS, day_of, first_day_of, month_of};

/// Numbers of events looked at and deleted in one go.
const SPAN: i64 = 5000;
/// Rows of other tables deleted in one go.
const ROWS: i64 = 5000;
/// Numbers of events asked for their user agents in one go.
const AGENTS_SPAN: i64 = 200_000;
/// A user agent not seen for so long may go: a batch on its way may still name one seen yesterday.
const AGENTS_DAYS: i64 = 2;
/// Months of events made ahead of time on PostgreSQL, this one included.
const MONTHS_AHEAD: i64 = 3;

/// How long a workspace keeps clicks, in whole UTC days before today; nothing is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub raw_days: Option<u32>,
    /// What they add up to by day.
    pub daily_days: Option<u32>,
}

impl Kept {
    /// Raw clicks before this day go.
    fn raw_before(self, now: Timestamp) -> Option<i64> {
        self.raw_days.map(|days| day_of(now) - i64::from(days))
    }

    /// Days before this one go.
    fn daily_before(self, now: Timestamp) -> Option<i64> {
        self.daily_days.map(|days| day_of(now) - i64::from(days))
    }
}

/// Whether to delete, or only to say what would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    DryRun,
    Delete,
}

/// Raw clicks that are about to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prunable {
    /// From the first of these moments on, before the second: whole UTC days.
    pub during: Range<Timestamp>,
    /// Their numbers are greater than this.
    pub after: i64,
    /// And at most this.
    pub upto: i64,
    /// So many there are.
    pub clicks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub clicks: u64,
    pub days: u64,
    pub hours: u64,
    /// Visitors' keys of days that are over.
    pub seen: u64,
    /// User agents that no click has any more. Not known in a dry run.
    pub agents: u64,
    /// Months of events that were empty, on PostgreSQL. Not known in a dry run.
    pub partitions: u64,
}

impl ClickStore {
    /// The raw clicks of a workspace that [`prune`](Self::prune) with the same number would delete, for whoever wants to export
    /// them before; nothing when there are none.
    pub async fn prunable(
        &self,
        workspace: Id,
        kept: Kept,
        upto: i64,
        now: Timestamp,
    ) -> Result<Option<Prunable>, StoreError> {
        let Some(before) = kept.raw_before(now) else { return Ok(None) };
        let (first,): (Option<i64>,) =
            read!(&self.pool, fetch_one, "select min(day) from event_days where day < $1", before)?;
        let Some(first) = first else { return Ok(None) };
        let due = Due::new(&[(workspace, before)]);
        let (mut clicks, mut after, mut last) = (0, None, 0);
        for span in self.spans_before(before, upto).await? {
            let there = self.count_clicks(&span, &due).await?;
            if there > 0 {
                clicks += there;
                after = after.or(Some(span.start));
                last = span.end;
            }
        }
        let during = Timestamp::from_ms(first * DAY_MS)..Timestamp::from_ms(before * DAY_MS);
        Ok(after.map(|after| Prunable { during, after, upto: last, clicks }))
    }

    /// Deletes what workspaces do not keep any longer. Of raw clicks only those up to the number `upto` go: take
    /// [`last_event`](Self::last_event) first, export what is [`prunable`](Self::prunable) up to it, and give the same here.
    pub async fn prune(
        &self,
        workspaces: &[(Id, Kept)],
        upto: i64,
        now: Timestamp,
        mode: PruneMode,
    ) -> Result<Pruned, StoreError> {
        if mode == PruneMode::Delete {
            self.freeze(workspaces, now).await?;
        }
        let mut pruned =
            Pruned { clicks: self.prune_clicks(workspaces, upto, now, mode).await?, ..Pruned::default() };
        for (workspace, kept) in workspaces {
            if let Some(before) = kept.daily_before(now) {
                pruned.days += self.prune_days(*workspace, before, mode).await?;
            }
        }
        pruned.hours = self.prune_hours((day_of(now) - HOURLY_DAYS) * 24, mode).await?;
        if mode == PruneMode::DryRun {
            let (seen,): (i64,) =
                read!(&self.pool, fetch_one, "select count(*) from seen where day < $1", seen_before(now))?;
            pruned.seen = seen.cast_unsigned();
            return Ok(pruned);
        }
        pruned.seen = self.forget_seen(now).await?;
        if pruned.clicks > 0 {
            self.prune_event_days(workspaces, now).await?;
            pruned.agents = self.prune_agents(now).await?;
        }
        pruned.partitions = self.drop_partitions(now).await?;
        Ok(pruned)
    }

    /// Forgets who was seen on days that ended more than 48 hours ago, and gives the number of rows that were forgotten.
    pub async fn forget_seen(&self, now: Timestamp) -> Result<u64, StoreError> {
        let before = seen_before(now);
        let mut forgotten = 0;
        loop {
            let due: Option<(i64,)> =
                read!(&self.pool, fetch_optional, "select day from seen where day < $1 limit 1", before)?;
            if due.is_none() {
                return Ok(forgotten);
            }
            let mut tx = self.pool.begin().await?;
            lock(&mut tx).await?;
            forgotten += run_in!(
                &mut tx,
                "delete from seen where (day, kind, subject, visitor) in (
                     select day, kind, subject, visitor from seen where day < $1
                     order by day, kind, subject, visitor limit $2)",
                before,
                ROWS
            )?;
            tx.commit().await?;
        }
    }

    /// Makes the months that events of today and of the next months go to, on PostgreSQL. What falls into no month is kept all the
    /// same, so a month that cannot be made loses nothing.
    pub async fn make_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        let Pool::Postgres(pool) = &self.pool else { return Ok(()) };
        let there = partitions(pool).await?;
        let month = month_of(day_of(now));
        for month in (month..month + MONTHS_AHEAD).filter(|month| !there.contains(month)) {
            let (name, from, to) = (partition(month), first_day_of(month), first_day_of(month + 1));
            let sql = format!(
                "create table if not exists {name} partition of events for values from ({}) to ({})",
                from * DAY_MS,
                to * DAY_MS
            );
            self.alter(&name, sql).await?;
        }
        Ok(())
    }

    /// Moves `frozen`, never back. A day whose rows go is frozen like one whose clicks go: recompute would take it for one that
    /// was never counted, and add it to its month once more.
    async fn freeze(&self, workspaces: &[(Id, Kept)], now: Timestamp) -> Result<(), StoreError> {
        let rows: Vec<_> = workspaces
            .iter()
            .filter_map(|(workspace, kept)| {
                Some((workspace.as_i64(), kept.raw_before(now).max(kept.daily_before(now))?))
            })
            .collect();
        let mut tx = self.pool.begin().await?;
        lock(&mut tx).await?;
        run_in!(
            &mut tx,
            "insert into frozen (workspace_id, before_day)
             select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint) from json_each($1) where true
             on conflict (workspace_id) do update set before_day = excluded.before_day
             where excluded.before_day > frozen.before_day",
            json(&rows)
        )?;
        tx.commit().await
    }

    async fn prune_clicks(
        &self,
        workspaces: &[(Id, Kept)],
        upto: i64,
        now: Timestamp,
        mode: PruneMode,
    ) -> Result<u64, StoreError> {
        let befores: Vec<_> = workspaces
            .iter()
            .filter_map(|(workspace, kept)| Some((*workspace, kept.raw_before(now)?)))
            .collect();
        let Some(last) = befores.iter().map(|(_, before)| *before).max() else { return Ok(0) };
        let due = Due::new(&befores);
        let mut clicks = 0;
        for span in self.spans_before(last, upto).await? {
            // Most of what is old belongs to those who keep it: looking takes no lock.
            let there = self.count_clicks(&span, &due).await?;
            if there == 0 || mode == PruneMode::DryRun {
                clicks += there;
                continue;
            }
            let mut tx = self.pool.begin().await?;
            lock(&mut tx).await?;
            clicks += run_in!(
                &mut tx,
                "with due as materialized (
                     select cast(value ->> 0 as bigint) as workspace_id, cast(value ->> 1 as bigint) as before from json_each($4))
                 delete from events where n > $1 and n <= $2 and ts < $3 and exists (
                     select 1 from due where due.workspace_id = events.workspace_id and events.ts < due.before)",
                span.start,
                span.end,
                due.before,
                &due.json
            )?;
            tx.commit().await?;
        }
        Ok(clicks)
    }

    /// The clicks of a span of numbers that are due.
    async fn count_clicks(&self, span: &Range<i64>, due: &Due) -> Result<u64, StoreError> {
        let (clicks,): (i64,) = read!(
            &self.pool,
            fetch_one,
            "with due as materialized (
                 select cast(value ->> 0 as bigint) as workspace_id, cast(value ->> 1 as bigint) as before from json_each($4))
             select count(*) from events e where e.n > $1 and e.n <= $2 and e.ts < $3 and exists (
                 select 1 from due where due.workspace_id = e.workspace_id and e.ts < due.before)",
            span.start,
            span.end,
            due.before,
            &due.json
        )?;
        Ok(clicks.cast_unsigned())
    }

    /// The numbers among which events before a day lie, in spans `(start, end]`.
    async fn spans_before(
        &self,
        day: i64,
        upto: i64,
    ) -> Result<impl Iterator<Item = Range<i64>>, StoreError> {
        let ranges: Vec<(i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select first_event, last_event from event_days where day < $1 and first_event <= $2 order by first_event",
            day,
            upto
        )?;
        // Days overlap where clicks came late.
        let mut merged: Vec<Range<i64>> = Vec::new();
        for (first, last) in ranges {
            let last = last.min(upto);
            match merged.last_mut() {
                Some(before) if first - 1 <= before.end => before.end = before.end.max(last),
                _ => merged.push(first - 1..last),
            }
        }
        Ok(merged.into_iter().flat_map(|range| spans(range, SPAN)))
    }

    async fn prune_days(&self, workspace: Id, before: i64, mode: PruneMode) -> Result<u64, StoreError> {
        const COUNT: &str = "select count(*) from days where kind = $1 and workspace_id = $2 and day < $3";
        let workspace = workspace.as_i64();
        let mut days = 0;
        for kind in [SubjectKind::Link as i64, SubjectKind::Workspace as i64, SubjectKind::User as i64] {
            if mode == PruneMode::DryRun {
                let (there,): (i64,) = read!(&self.pool, fetch_one, COUNT, kind, workspace, before)?;
                days += there.cast_unsigned();
                continue;
            }
            loop {
                let there: Option<(i64,)> = read!(
                    &self.pool,
                    fetch_optional,
                    "select day from (
                         select day from days where kind = $1 and workspace_id = $2 and day < $3
                         union all
                         select day from day_values where kind = $1 and workspace_id = $2 and day < $3) as due limit 1",
                    kind,
                    workspace,
                    before
                )?;
                if there.is_none() {
                    break;
                }
                let mut tx = self.pool.begin().await?;
                lock(&mut tx).await?;
                days += run_in!(
                    &mut tx,
                    "delete from days where kind = $1 and workspace_id = $2 and (day, subject) in (
                         select day, subject from days where kind = $1 and workspace_id = $2 and day < $3
                         order by day, subject limit $4)",
                    kind,
                    workspace,
                    before,
                    ROWS
                )?;
                run_in!(
                    &mut tx,
                    "delete from day_values where kind = $1 and workspace_id = $2 and (day, subject) in (
                         select day, subject from day_values where kind = $1 and workspace_id = $2 and day < $3
                         order by day, subject limit $4)",
                    kind,
                    workspace,
                    before,
                    ROWS
                )?;
                tx.commit().await?;
            }
        }
        Ok(days)
    }

    /// Hours have no index by time: one walk along their key.
    async fn prune_hours(&self, before: i64, mode: PruneMode) -> Result<u64, StoreError> {
        let (mut hours, mut after) = (0, (-1, 0, 0));
        while let Some(upto) = self.hours_page(after).await? {
            let (there,): (i64,) = read!(
                &self.pool,
                fetch_one,
                "select count(*) from hours where (kind, subject, hour) > ($1, $2, $3) and (kind, subject, hour) <= ($4, $5, $6)
                 and hour < $7",
                after.0,
                after.1,
                after.2,
                upto.0,
                upto.1,
                upto.2,
                before
            )?;
            if there > 0 && mode == PruneMode::Delete {
                let mut tx = self.pool.begin().await?;
                lock(&mut tx).await?;
                hours += run_in!(
                    &mut tx,
                    "delete from hours where (kind, subject, hour) > ($1, $2, $3) and (kind, subject, hour) <= ($4, $5, $6)
                     and hour < $7",
                    after.0,
                    after.1,
                    after.2,
                    upto.0,
                    upto.1,
                    upto.2,
                    before
                )?;
                tx.commit().await?;
            } else {
                hours += there.cast_unsigned();
            }
            after = upto;
        }
        Ok(hours)
    }

    /// The key of the last of the next rows of `hours` after a key: of a page of them, or of all that are left.
    pub(crate) async fn hours_page(
        &self,
        after: (i64, i64, i64),
    ) -> Result<Option<(i64, i64, i64)>, StoreError> {
        let page: Option<(i64, i64, i64)> = read!(
            &self.pool,
            fetch_optional,
            "select kind, subject, hour from hours where (kind, subject, hour) > ($1, $2, $3)
             order by kind, subject, hour limit 1 offset $4",
            after.0,
            after.1,
            after.2,
            ROWS - 1
        )?;
        if page.is_some() {
            return Ok(page);
        }
        let last: Option<(i64, i64, i64)> = read!(
            &self.pool,
            fetch_optional,
            "select kind, subject, hour from hours where (kind, subject, hour) > ($1, $2, $3)
             order by kind desc, subject desc, hour desc limit 1",
            after.0,
            after.1,
            after.2
        )?;
        Ok(last)
    }

    /// Days no event of which is left need not be looked for any more.
    async fn prune_event_days(&self, workspaces: &[(Id, Kept)], now: Timestamp) -> Result<(), StoreError> {
        let Some(before) = workspaces.iter().filter_map(|(_, kept)| kept.raw_before(now)).max() else {
            return Ok(());
        };
        let days: Vec<(i64, i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select day, first_event, last_event from event_days where day < $1",
            before
        )?;
        let mut empty = Vec::new();
        for (day, first, last) in days {
            if !self.has_events(day, first - 1..last).await? {
                empty.push((day, last));
            }
        }
        for empty in empty.chunks(500) {
            let mut tx = self.pool.begin().await?;
            lock(&mut tx).await?;
            // Unless one came since: it has a higher number.
            run_in!(
                &mut tx,
                "delete from event_days where (day, last_event) in (
                     select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint) from json_each($1))",
                json(&empty)
            )?;
            tx.commit().await?;
        }
        Ok(())
    }

    async fn has_events(&self, day: i64, numbers: Range<i64>) -> Result<bool, StoreError> {
        for span in spans(numbers, AGENTS_SPAN) {
            let there: Option<(i64,)> = read!(
                &self.pool,
                fetch_optional,
                "select n from events where n > $1 and n <= $2 and ts >= $3 and ts < $4 limit 1",
                span.start,
                span.end,
                day * DAY_MS,
                (day + 1) * DAY_MS
            )?;
            if there.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// User agents are what people's browsers said: they go with the last click that names them.
    async fn prune_agents(&self, now: Timestamp) -> Result<u64, StoreError> {
        let before = day_of(now) - AGENTS_DAYS;
        let last = self.last_event().await?;
        let old: Vec<(i64,)> =
            read!(&self.pool, fetch_all, "select id from agents where last_day < $1", before)?;
        if old.is_empty() {
            return Ok(0);
        }
        let (first,): (Option<i64>,) = read!(&self.pool, fetch_one, "select min(n) from events")?;
        let mut used = HashSet::new();
        for span in first.into_iter().flat_map(|first| spans(first - 1..last, AGENTS_SPAN)) {
            let agents: Vec<(i64,)> = read!(
                &self.pool,
                fetch_all,
                "select distinct agent from events where n > $1 and n <= $2",
                span.start,
                span.end
            )?;
            used.extend(agents);
        }
        let unused: Vec<_> = old.into_iter().filter(|agent| !used.contains(agent)).collect();
        let mut agents = 0;
        for unused in unused.chunks(1000) {
            let mut tx = self.pool.begin().await?;
            lock(&mut tx).await?;
            // A late click may have named one since we looked.
            agents += run_in!(
                &mut tx,
                "delete from agents where last_day < $1
                 and id in (select cast(value ->> 0 as bigint) from json_each($2))
                 and id not in (select agent from events where n > $3)",
                before,
                json(&unused),
                last
            )?;
            tx.commit().await?;
        }
        Ok(agents)
    }

    /// Drops the months of events that are over and empty.
    async fn drop_partitions(&self, now: Timestamp) -> Result<u64, StoreError> {
        let Pool::Postgres(pool) = &self.pool else { return Ok(0) };
        let mut dropped = 0;
        let over = |month: &i64| first_day_of(month + 1) <= day_of(now);
        for month in partitions(pool).await?.into_iter().filter(over) {
            let name = partition(month);
            let used = format!("select 1 from {name} limit 1");
            let used: Option<(i32,)> = sqlx::query_as(AssertSqlSafe(used)).fetch_optional(pool).await?;
            if used.is_none() {
                // Under the lock it is looked at again: a click may have come late.
                let sql = format!(
                    "do $$ begin if not exists (select 1 from {name}) then drop table {name}; end if; end $$"
                );
                self.alter(&name, sql).await?;
                dropped += u64::from(!partitions(pool).await?.contains(&month));
            }
        }
        Ok(dropped)
    }

    /// Changes the tables of events, unless somebody reads for long or what is there is in the way: then another time.
    async fn alter(&self, partition: &str, sql: String) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        debug_assert_eq!(tx.dialect(), Dialect::Postgres);
        lock(&mut tx).await?;
        // While this waits for readers, ingest waits for this.
        run_in!(&mut tx, "set local lock_timeout = '100ms'")?;
        match run_in!(&mut tx, AssertSqlSafe(sql)) {
            Ok(_) => tx.commit().await,
            // The default partition holds rows of that month, or a table is locked.
            Err(sqlx::Error::Database(error))
                if matches!(error.code().as_deref(), Some("23514" | "55P03")) =>
            {
                tracing::debug!(partition, error = error.message(), "a partition of clicks stays as it is");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// From when on raw clicks are kept, by workspace.
struct Due {
    /// Pairs of workspace and moment.
    json: String,
    /// The last of the moments.
    before: i64,
}

impl Due {
    fn new(before_days: &[(Id, i64)]) -> Self {
        let moments: Vec<_> =
            before_days.iter().map(|(workspace, day)| (workspace.as_i64(), day * DAY_MS)).collect();
        let before = moments.iter().map(|(_, before)| *before).max().unwrap_or(i64::MIN);
        Self { json: json(&moments), before }
    }
}

/// `(start, end]` in pieces.
fn spans(numbers: Range<i64>, most: i64) -> impl Iterator<Item = Range<i64>> {
    let end = numbers.end;
    let mut start = numbers.start;
    std::iter::from_fn(move || {
        let span = start..start.saturating_add(most).min(end);
        start = span.end;
        (span.start < span.end).then_some(span)
    })
}

/// Who was seen before this day is forgotten: days that ended more than 48 hours ago.
fn seen_before(now: Timestamp) -> i64 {
    day_of(now.plus_ms(-1)) - 2
}

/// The table of a month's events.
fn partition(month: i64) -> String {
    format!("events_{:04}_{:02}", 1970 + month.div_euclid(12), month.rem_euclid(12) + 1)
}

/// The months that have a table.
async fn partitions(pool: &sqlx::PgPool) -> Result<HashSet<i64>, StoreError> {
    let names: Vec<(String,)> = sqlx::query_as(
        "select cast(c.relname as text) from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = cast('events' as regclass)",
    )
    .fetch_all(pool)
    .await?;
    let month = |(name,): (String,)| {
        let (year, month) = name.strip_prefix("events_")?.split_once('_')?;
        let month = (year.parse::<i64>().ok()? - 1970) * 12 + month.parse::<i64>().ok()? - 1;
        (partition(month) == name).then_some(month)
    };
    Ok(names.into_iter().filter_map(month).collect())
}
