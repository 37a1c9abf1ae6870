//! The rows of a day as they are stored, and replacing them.

use std::collections::{BTreeMap, HashMap};

use rlinks_core::Id;
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Tx, read_in, run_in};

use crate::bulk_lookup::json;
use crate::rollup::{RollupSubject, SubjectKind};
use crate::time::month_of;

/// Subjects of one kind and workspace on one day.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) kind: SubjectKind,
    pub(super) workspace: Id,
    pub(super) day: i64,
    /// The day's hours are kept.
    pub(super) hourly: bool,
}

impl Group {
    pub(super) fn subject(self, id: i64) -> RollupSubject {
        RollupSubject { kind: self.kind, workspace: self.workspace, id: Id::from_i64(id) }
    }
}

/// What a subject's day is, as far as rows say or as clicks do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Clicks, bots, visitors, first and last event.
    pub(super) day: Option<[i64; 5]>,
    pub(super) values: Option<String>,
    /// By hour: clicks, bots, visitors, arrivals, first and last event.
    pub(super) hours: BTreeMap<i64, [i64; 6]>,
}

impl Entry {
    /// Clicks, bots and visitors.
    fn counts(&self) -> [i64; 3] {
        self.day.map_or([0; 3], |[clicks, bots, visitors, ..]| [clicks, bots, visitors])
    }
}

/// What is stored of a subject.
#[derive(Clone, Debug, Default)]
pub(super) struct There {
    pub(super) entry: Entry,
    pub(super) last_click: Option<i64>,
    pub(super) last_hit: Option<i64>,
}

/// A subject whose rows are wrong.
pub(super) struct Change {
    pub(super) id: i64,
    pub(super) entry: Entry,
    pub(super) there: There,
    /// Last click and hit, where they are later than what is stored.
    pub(super) later: Option<(Option<i64>, Option<i64>)>,
}

impl Change {
    /// A number moves by the difference, and is not less than this day alone.
    fn shift(&self, stored: Option<&[i64]>) -> [i64; 3] {
        let (old, new) = (self.there.entry.counts(), self.entry.counts());
        std::array::from_fn(|place| {
            let stored = stored.and_then(|stored| stored.get(place)).copied().unwrap_or_default();
            (stored + new[place] - old[place]).max(new[place])
        })
    }
}

fn keys(subjects: impl Iterator<Item = i64>) -> String {
    json(&subjects.map(|id| [id]).collect::<Vec<_>>())
}

/// Subject, hour, clicks, bots, visitors, arrivals, first and last event.
type HourRow = (i64, i64, i64, i64, i64, i64, i64, i64);

/// What is stored of subjects.
pub(super) async fn stored(
    tx: &mut Tx,
    group: Group,
    subjects: &[i64],
) -> Result<HashMap<i64, There>, StoreError> {
    let mut found: HashMap<i64, There> = HashMap::new();
    if subjects.is_empty() {
        return Ok(found);
    }
    let (kind, workspace, day) = (group.kind as i64, group.workspace.as_i64(), group.day);
    let wanted = keys(subjects.iter().copied());
    let days: Vec<(i64, i64, i64, i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "select subject, clicks, bots, visitors, first_event, last_event from days
         where kind = $2 and workspace_id = $3 and day = $4 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
        &wanted,
        kind,
        workspace,
        day
    )?;
    for (subject, clicks, bots, visitors, first, last) in days {
        found.entry(subject).or_default().entry.day = Some([clicks, bots, visitors, first, last]);
    }
    let values: Vec<(i64, String)> = read_in!(
        tx,
        fetch_all,
        "select subject, dimensions from day_values
         where kind = $2 and workspace_id = $3 and day = $4 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
        &wanted,
        kind,
        workspace,
        day
    )?;
    for (subject, dimensions) in values {
        found.entry(subject).or_default().entry.values = Some(dimensions);
    }
    if group.hourly {
        let hours: Vec<HourRow> = read_in!(
            tx,
            fetch_all,
            "select subject, hour, clicks, bots, visitors, arrivals, first_event, last_event from hours
             where kind = $2 and hour >= $3 and hour < $4 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
            &wanted,
            kind,
            day * 24,
            day * 24 + 24
        )?;
        for (subject, hour, clicks, bots, visitors, arrivals, first, last) in hours {
            let row = [clicks, bots, visitors, arrivals, first, last];
            found.entry(subject).or_default().entry.hours.insert(hour, row);
        }
    }
    let lasts: Vec<(i64, Option<i64>, Option<i64>)> = read_in!(
        tx,
        fetch_all,
        "select subject, last_click, last_hit from totals
         where kind = $2 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
        &wanted,
        kind
    )?;
    for (subject, last_click, last_hit) in lasts {
        let there = found.entry(subject).or_default();
        (there.last_click, there.last_hit) = (last_click, last_hit);
    }
    Ok(found)
}

/// Puts right rows in the place of wrong ones, and moves month and total with them.
pub(super) async fn replace(tx: &mut Tx, group: Group, changes: &[Change]) -> Result<(), StoreError> {
    run_in!(tx, "update ingest set recomputed = recomputed + 1 where id = 1")?;
    replace_day(tx, group, changes).await?;
    shift_months(tx, group, changes).await?;
    shift_totals(tx, group, changes).await
}

/// Puts the right rows of the day in the place of the wrong ones.
async fn replace_day(tx: &mut Tx, group: Group, changes: &[Change]) -> Result<(), StoreError> {
    let (kind, workspace, day) = (group.kind as i64, group.workspace.as_i64(), group.day);
    let wanted = keys(changes.iter().map(|change| change.id));
    run_in!(
        tx,
        "delete from days where kind = $1 and workspace_id = $2 and day = $3
         and subject in (select cast(value ->> 0 as bigint) from json_each($4))",
        kind,
        workspace,
        day,
        &wanted
    )?;
    run_in!(
        tx,
        "delete from day_values where kind = $1 and workspace_id = $2 and day = $3
         and subject in (select cast(value ->> 0 as bigint) from json_each($4))",
        kind,
        workspace,
        day,
        &wanted
    )?;
    let days: Vec<_> =
        changes.iter().filter_map(|change| change.entry.day.map(|day| (change.id, day))).collect();
    run_in!(
        tx,
        "insert into days (kind, workspace_id, day, subject, clicks, bots, visitors, first_event, last_event)
         select cast($1 as bigint), cast($2 as bigint), cast($3 as bigint), cast(value ->> 0 as bigint),
                cast(value -> 1 ->> 0 as bigint), cast(value -> 1 ->> 1 as bigint), cast(value -> 1 ->> 2 as bigint),
                cast(value -> 1 ->> 3 as bigint), cast(value -> 1 ->> 4 as bigint)
         from json_each($4)",
        kind,
        workspace,
        day,
        json(&days)
    )?;
    let values: Vec<_> = changes
        .iter()
        .filter_map(|change| change.entry.values.as_ref().map(|values| (change.id, values)))
        .collect();
    run_in!(
        tx,
        "insert into day_values (kind, workspace_id, day, subject, dimensions)
         select cast($1 as bigint), cast($2 as bigint), cast($3 as bigint), cast(value ->> 0 as bigint), value ->> 1
         from json_each($4)",
        kind,
        workspace,
        day,
        json(&values)
    )?;
    if !group.hourly {
        return Ok(());
    }
    run_in!(
        tx,
        "delete from hours where kind = $1 and hour >= $2 and hour < $3
         and subject in (select cast(value ->> 0 as bigint) from json_each($4))",
        kind,
        day * 24,
        day * 24 + 24,
        &wanted
    )?;
    let hours: Vec<_> = changes
        .iter()
        .flat_map(|change| change.entry.hours.iter().map(|(hour, row)| (change.id, hour, row)))
        .collect();
    run_in!(
        tx,
        "insert into hours (kind, subject, hour, clicks, bots, visitors, arrivals, first_event, last_event)
         select cast($1 as bigint), cast(value ->> 0 as bigint), cast(value ->> 1 as bigint),
                cast(value -> 2 ->> 0 as bigint), cast(value -> 2 ->> 1 as bigint), cast(value -> 2 ->> 2 as bigint),
                cast(value -> 2 ->> 3 as bigint), cast(value -> 2 ->> 4 as bigint), cast(value -> 2 ->> 5 as bigint)
         from json_each($2)",
        kind,
        json(&hours)
    )?;
    Ok(())
}

/// Moves the month by what the day gained or lost. A month of nothing has no row.
async fn shift_months(tx: &mut Tx, group: Group, changes: &[Change]) -> Result<(), StoreError> {
    let (kind, month) = (group.kind as i64, month_of(group.day));
    let wanted = keys(changes.iter().map(|change| change.id));
    let known: Vec<(i64, i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "select subject, clicks, bots, visitors from months
         where kind = $2 and month = $3 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
        &wanted,
        kind,
        month
    )?;
    let known: HashMap<i64, [i64; 3]> = known
        .into_iter()
        .map(|(subject, clicks, bots, visitors)| (subject, [clicks, bots, visitors]))
        .collect();
    let rows: Vec<_> = changes
        .iter()
        .map(|change| (change.id, change.shift(known.get(&change.id).map(<[i64; 3]>::as_slice))))
        .collect();
    run_in!(
        tx,
        "insert into months (kind, subject, month, clicks, bots, visitors)
         select cast($1 as bigint), cast(value ->> 0 as bigint), cast($2 as bigint), cast(value -> 1 ->> 0 as bigint),
                cast(value -> 1 ->> 1 as bigint), cast(value -> 1 ->> 2 as bigint)
         from json_each($3) where true
         on conflict (kind, subject, month) do update
         set clicks = excluded.clicks, bots = excluded.bots, visitors = excluded.visitors",
        kind,
        month,
        json(&rows)
    )?;
    run_in!(
        tx,
        "delete from months where kind = $1 and month = $2 and clicks = 0 and bots = 0 and visitors = 0
         and subject in (select cast(value ->> 0 as bigint) from json_each($3))",
        kind,
        month,
        &wanted
    )?;
    Ok(())
}

/// The same for what is counted for ever.
async fn shift_totals(tx: &mut Tx, group: Group, changes: &[Change]) -> Result<(), StoreError> {
    let (kind, workspace) = (group.kind as i64, group.workspace.as_i64());
    let wanted = keys(changes.iter().map(|change| change.id));
    let known: Vec<(i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "select subject, clicks, bots from totals
         where kind = $2 and subject in (select cast(value ->> 0 as bigint) from json_each($1))",
        &wanted,
        kind
    )?;
    let known: HashMap<i64, [i64; 2]> =
        known.into_iter().map(|(subject, clicks, bots)| (subject, [clicks, bots])).collect();
    let rows: Vec<_> = changes
        .iter()
        .map(|change| {
            let [clicks, bots, _] = change.shift(known.get(&change.id).map(<[i64; 2]>::as_slice));
            let (last_click, last_hit) =
                change.later.unwrap_or((change.there.last_click, change.there.last_hit));
            (change.id, clicks, bots, last_click, last_hit)
        })
        .collect();
    run_in!(
        tx,
        "insert into totals (kind, subject, workspace_id, clicks, bots, last_click, last_hit)
         select cast($1 as bigint), cast(value ->> 0 as bigint), cast($2 as bigint), cast(value ->> 1 as bigint),
                cast(value ->> 2 as bigint), cast(value ->> 3 as bigint), cast(value ->> 4 as bigint)
         from json_each($3) where true
         on conflict (kind, subject) do update
         set clicks = excluded.clicks, bots = excluded.bots, last_click = excluded.last_click, last_hit = excluded.last_hit",
        kind,
        workspace,
        json(&rows)
    )?;
    run_in!(
        tx,
        "delete from totals where kind = $1 and clicks = 0 and bots = 0
         and subject in (select cast(value ->> 0 as bigint) from json_each($2))",
        kind,
        &wanted
    )?;
    Ok(())
}
