//! Recompute: rollups made anew from raw clicks, for the days whose raw clicks are all still kept.
//!
//! It runs while clicks are being stored. A day is added up from its events outside of any transaction; events never change
//! and their numbers grow with commits, so what came meanwhile is a few numbers more, added under ingest's lock before rows
//! are replaced. Rows that are right are not written. Months and totals also hold what no raw click is left of: they move by
//! the difference, and are never counted from zero.
//!
//! Not retention: which raw clicks are kept is decided in [`retention`](crate::retention).

pub(crate) mod day;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Included};

use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::{Tx, read, read_in};
use rlinks_store::{Store, StoreError};

use self::rows::{Change, Group, replace, stored};
use crate::bulk_lookup::json;
use crate::database::ClickStore;
use crate::ingest::write::lock;
use crate::recompute::day::{Owners, Sheet};
use crate::rollup::SubjectKind;
use crate::time::{HOURLY_DAYS, day_of};

/// Subjects compared by one look.
const PAGE: usize = 1000;
/// Subjects whose rows are replaced in one transaction.
const CHUNK: usize = 200;
const KINDS: [SubjectKind; 3] = [SubjectKind::Link, SubjectKind::Workspace, SubjectKind::User];

/// What was found and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recomputed {
    /// UTC days looked at.
    pub days: u64,
    /// Those of them on which something was wrong.
    pub days_changed: u64,
    /// Links, workspaces and users whose rows were wrong; one that was wrong on two days counts twice.
    pub subjects_changed: u64,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The UTC day that is next, counted from 1970.
    pub day: i64,
    pub done: u64,
    /// The days to do.
    pub days: u64,
}

impl ClickStore {
    /// Makes the rollups of a workspace, or of all, what its raw clicks say. Must run where `store` was opened: owners of
    /// links come from there.
    pub async fn recompute(
        &self,
        store: &Store,
        workspace: Option<Id>,
        now: Timestamp,
        mut progress: impl FnMut(Progress),
    ) -> Result<Recomputed, StoreError> {
        let frozen: Vec<(i64, i64)> =
            read!(&self.pool, fetch_all, "select workspace_id, before_day from frozen")?;
        let frozen = frozen.into_iter().map(|(id, before_day)| (Id::from_i64(id), before_day)).collect();
        let scope = Scope { workspace, frozen, hourly_from: day_of(now) - HOURLY_DAYS };
        let mut owners = Owners::new(store);
        let days = self.days_in(&scope).await?;
        let mut done = Recomputed::default();
        for (day, workspaces) in &days {
            progress(Progress { day: *day, done: done.days, days: days.len() as u64 });
            let changed = self.recompute_day(&scope, &mut owners, *day, workspaces).await?;
            done.days += 1;
            done.days_changed += u64::from(changed > 0);
            done.subjects_changed += changed;
        }
        done.subjects_changed += self.drop_stray_hours(&scope).await?;
        Ok(done)
    }

    /// The days that have events or rows, and the workspaces known to have rows on them.
    async fn days_in(&self, scope: &Scope) -> Result<BTreeMap<i64, BTreeSet<Id>>, StoreError> {
        let first = scope.workspace.map_or(i64::MIN, |workspace| scope.first_day(workspace));
        let of_events: Vec<(i64,)> =
            read!(&self.pool, fetch_all, "select day from event_days where day >= $1", first)?;
        let mut days: BTreeMap<i64, BTreeSet<Id>> =
            of_events.into_iter().map(|(day,)| (day, BTreeSet::new())).collect();
        for table in [&DAYS, &DAY_VALUES] {
            for kind in KINDS {
                let workspaces: Vec<(i64,)> = match scope.workspace {
                    Some(workspace) => vec![(workspace.as_i64(),)],
                    None => read!(&self.pool, fetch_all, table.workspaces, kind as i64)?,
                };
                for (workspace,) in workspaces {
                    let first = scope.first_day(Id::from_i64(workspace));
                    let found: Vec<(i64,)> =
                        read!(&self.pool, fetch_all, table.days, kind as i64, workspace, first)?;
                    for (day,) in found {
                        days.entry(day).or_default().insert(Id::from_i64(workspace));
                    }
                }
            }
        }
        Ok(days)
    }

    async fn recompute_day(
        &self,
        scope: &Scope,
        owners: &mut Owners<'_>,
        day: i64,
        workspaces: &BTreeSet<Id>,
    ) -> Result<u64, StoreError> {
        let mut sheet = Sheet::new(day);
        loop {
            let mut tx = self.pool.snapshot().await?;
            let more = sheet.read_on(&mut tx, scope, owners).await?;
            tx.commit().await?;
            if !more {
                break;
            }
        }
        let counted = sheet.roll.totals.keys().map(|subject| subject.workspace);
        let workspaces: BTreeSet<Id> = counted.chain(workspaces.iter().copied()).collect();
        let mut changed = 0;
        for workspace in workspaces.into_iter().filter(|workspace| day >= scope.first_day(*workspace)) {
            for kind in KINDS {
                let group = Group { kind, workspace, day, hourly: day >= scope.hourly_from };
                for wrong in self.wrong_in(scope, owners, &mut sheet, group).await?.chunks(CHUNK) {
                    changed += self.mend(scope, owners, &mut sheet, group, wrong).await?;
                }
            }
        }
        Ok(changed)
    }

    /// The subjects of a group whose rows are not what the clicks say.
    async fn wrong_in(
        &self,
        scope: &Scope,
        owners: &mut Owners<'_>,
        sheet: &mut Sheet,
        group: Group,
    ) -> Result<Vec<i64>, StoreError> {
        let (mut wrong, mut after) = (Vec::new(), i64::MIN);
        loop {
            // Rows and events as of one moment.
            let mut tx = self.pool.snapshot().await?;
            while sheet.read_on(&mut tx, scope, owners).await? {}
            let page = subjects_after(&mut tx, sheet, group, after).await?;
            let stored = stored(&mut tx, group, &page).await?;
            tx.commit().await?;
            let is_wrong = |id: &&i64| {
                let there = stored.get(id).cloned().unwrap_or_default();
                sheet.entry(group, **id) != there.entry || sheet.later(group, **id, &there).is_some()
            };
            wrong.extend(page.iter().filter(is_wrong));
            match page.last() {
                Some(last) if page.len() == PAGE => after = *last,
                _ => return Ok(wrong),
            }
        }
    }

    /// Replaces the rows of those subjects that are wrong, and gives their number.
    async fn mend(
        &self,
        scope: &Scope,
        owners: &mut Owners<'_>,
        sheet: &mut Sheet,
        group: Group,
        subjects: &[i64],
    ) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        lock(&mut tx).await?;
        // Since we looked, retention may have begun to delete what we counted.
        let frozen: Option<(i64,)> = read_in!(
            &mut tx,
            fetch_optional,
            "select before_day from frozen where workspace_id = $1 and before_day > $2",
            group.workspace.as_i64(),
            group.day
        )?;
        if frozen.is_some() {
            return Ok(0);
        }
        while sheet.read_on(&mut tx, scope, owners).await? {}
        let mut stored = stored(&mut tx, group, subjects).await?;
        let mut changes = Vec::new();
        for id in subjects {
            let there = stored.remove(id).unwrap_or_default();
            let entry = sheet.entry(group, *id);
            let later = sheet.later(group, *id, &there);
            if entry != there.entry || later.is_some() {
                changes.push(Change { id: *id, entry, there, later });
            }
        }
        if changes.is_empty() {
            return Ok(0);
        }
        replace(&mut tx, group, &changes).await?;
        tx.commit().await?;
        Ok(changes.len() as u64)
    }

    /// Hours of subjects that have nothing else on the day: days are compared by their own rows, so these were not met.
    async fn drop_stray_hours(&self, scope: &Scope) -> Result<u64, StoreError> {
        let wanted = |workspace: i64| scope.workspace.is_none_or(|only| only.as_i64() == workspace);
        let (mut after, mut strays) = ((-1, 0, 0), BTreeSet::new());
        while let Some(upto) = self.hours_page(after).await? {
            let found: Vec<(i64, i64, i64, i64)> = read!(
                &self.pool,
                fetch_all,
                "select h.kind, h.subject, h.hour, t.workspace_id from hours h
                 join totals t on t.kind = h.kind and t.subject = h.subject
                 where (h.kind, h.subject, h.hour) > ($1, $2, $3) and (h.kind, h.subject, h.hour) <= ($4, $5, $6)
                   and h.hour >= $7
                   and not exists (select 1 from days d where d.kind = h.kind and d.workspace_id = t.workspace_id
                                   and d.day = h.hour / 24 and d.subject = h.subject)",
                after.0,
                after.1,
                after.2,
                upto.0,
                upto.1,
                upto.2,
                scope.hourly_from * 24
            )?;
            let found: Vec<_> = found.into_iter().filter(|(.., workspace)| wanted(*workspace)).collect();
            if !found.is_empty() {
                let mut tx = self.pool.begin().await?;
                lock(&mut tx).await?;
                // Under the lock it is looked at again.
                let gone: Vec<(i64, i64, i64)> = read_in!(
                    &mut tx,
                    fetch_all,
                    "delete from hours where (kind, subject, hour) in (
                         select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), cast(value ->> 2 as bigint)
                         from json_each($1)
                         where not exists (select 1 from days d where d.kind = cast(value ->> 0 as bigint)
                                           and d.workspace_id = cast(value ->> 3 as bigint)
                                           and d.day = cast(value ->> 2 as bigint) / 24
                                           and d.subject = cast(value ->> 1 as bigint))
                           and not exists (select 1 from frozen f where f.workspace_id = cast(value ->> 3 as bigint)
                                           and f.before_day > cast(value ->> 2 as bigint) / 24))
                     returning kind, subject, hour",
                    json(&found)
                )?;
                tx.commit().await?;
                strays.extend(gone.into_iter().map(|(kind, subject, hour)| (kind, subject, hour / 24)));
            }
            after = upto;
        }
        Ok(strays.len() as u64)
    }
}

/// What is to be recomputed.
struct Scope {
    /// One workspace, or all.
    workspace: Option<Id>,
    /// Before these days raw clicks are not all kept.
    frozen: HashMap<Id, i64>,
    /// From this day on there are hours.
    hourly_from: i64,
}

impl Scope {
    fn first_day(&self, workspace: Id) -> i64 {
        self.frozen.get(&workspace).copied().unwrap_or(i64::MIN)
    }
}

/// The texts that differ only by the table they read.
struct DayTable {
    /// The workspaces that have rows of a kind. Each step is a look into the key: the rows in between are not read.
    workspaces: &'static str,
    /// The days of a kind and workspace, the same way.
    days: &'static str,
    /// A group's next subjects.
    subjects: &'static str,
}

macro_rules! day_table {
    ($table:literal) => {
        DayTable {
            workspaces: concat!(
                "with recursive found (id) as (
                     select min(workspace_id) from ", $table, " where kind = $1
                     union all
                     select (select min(t.workspace_id) from ", $table, " t where t.kind = $1 and t.workspace_id > found.id)
                     from found where found.id is not null)
                 select id from found where id is not null"
            ),
            days: concat!(
                "with recursive found (day) as (
                     select min(day) from ", $table, " where kind = $1 and workspace_id = $2 and day >= $3
                     union all
                     select (select min(t.day) from ", $table, " t
                             where t.kind = $1 and t.workspace_id = $2 and t.day > found.day)
                     from found where found.day is not null)
                 select day from found where day is not null"
            ),
            subjects: concat!(
                "select subject from ", $table, "
                 where kind = $1 and workspace_id = $2 and day = $3 and subject > $4 order by subject limit $5"
            ),
        }
    };
}
const DAYS: DayTable = day_table!("days");
const DAY_VALUES: DayTable = day_table!("day_values");

/// The next subjects that have clicks or rows, in order: at most a page.
async fn subjects_after(
    tx: &mut Tx,
    sheet: &Sheet,
    group: Group,
    after: i64,
) -> Result<Vec<i64>, StoreError> {
    let (workspace, limit) = (group.workspace.as_i64(), i64::try_from(PAGE).unwrap_or(i64::MAX));
    // Each list has its lowest, so the lowest of all are among them.
    let between = (Excluded((group.subject(after), i64::MAX)), Included((group.subject(i64::MAX), i64::MAX)));
    let counted = sheet.roll.days.range(between).take(PAGE).map(|((subject, _), _)| subject.id.as_i64());
    let mut page: BTreeSet<i64> = counted.collect();
    for table in [&DAYS, &DAY_VALUES] {
        let found: Vec<(i64,)> =
            read_in!(tx, fetch_all, table.subjects, group.kind as i64, workspace, group.day, after, limit)?;
        page.extend(found.into_iter().map(|(subject,)| subject));
    }
    Ok(page.into_iter().take(PAGE).collect())
}
