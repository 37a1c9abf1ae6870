//! Recompute: rollups made anew from raw clicks, for the days whose raw clicks are all still kept.
//!
//! It runs while clicks are being stored. A day is added up from its events outside of any transaction; events never change
//! and their numbers grow with commits, so what came meanwhile is a few numbers more, added under ingest's lock before rows
//! are replaced. Rows that are right are not written. Months and totals also hold what no raw click is left of: they move by
//! the difference, and are never counted from zero.
//!
//! Not retention: which raw clicks are kept is decided in [`retention`](crate::retention).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rlinks_core::{Id, Timestamp};
use rlinks_store::pool::{Tx, read, read_in, run_in};
use rlinks_store::{Store, StoreError};
use sqlx::FromRow;

use crate::agent::Device;
use crate::ingest::write::{json, lock};
use crate::open::Clicks;
use crate::roll::{Dimensions, Fact, Kind, Roll, Subject, Total};
use crate::source::referrer_host;
use crate::time::{DAY_MS, HOURLY_DAYS, day_of, month_of};

/// Numbers looked at by one read of events.
const SPAN: i64 = 20_000;
/// Subjects compared by one look.
const PAGE: usize = 1000;
/// Subjects whose rows are replaced in one transaction.
const CHUNK: usize = 200;
/// Owners of links remembered.
const MOST_OWNERS: usize = 100_000;
const KINDS: [Kind; 3] = [Kind::Link, Kind::Workspace, Kind::User];

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
    /// The days done.
    pub done: u64,
    /// The days to do.
    pub days: u64,
}

impl Clicks {
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
        let mut owners = Owners { store, known: HashMap::new() };
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
        shift_months(&mut tx, group, &changes).await?;
        shift_totals(&mut tx, group, &changes).await?;
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

/// Subjects of one kind and workspace on one day.
#[derive(Clone, Copy)]
struct Group {
    kind: Kind,
    workspace: Id,
    day: i64,
    /// The day's hours are kept.
    hourly: bool,
}

impl Group {
    fn subject(self, id: i64) -> Subject {
        Subject { kind: self.kind, workspace: self.workspace, id: Id::from_i64(id) }
    }
}

/// What a subject's day is, as far as rows say or as clicks do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Clicks, bots, visitors, first and last event.
    day: Option<[i64; 5]>,
    values: Option<String>,
    /// By hour: clicks, bots, visitors, arrivals, first and last event.
    hours: BTreeMap<i64, [i64; 6]>,
}

impl Entry {
    /// Clicks, bots and visitors.
    fn counts(&self) -> [i64; 3] {
        self.day.map_or([0; 3], |[clicks, bots, visitors, ..]| [clicks, bots, visitors])
    }
}

/// What is stored of a subject.
#[derive(Clone, Debug, Default)]
struct There {
    entry: Entry,
    last_click: Option<i64>,
    last_hit: Option<i64>,
}

/// A subject whose rows are wrong.
struct Change {
    id: i64,
    entry: Entry,
    there: There,
    /// Last click and hit, where they are later than what is stored.
    later: Option<(Option<i64>, Option<i64>)>,
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

/// One day's clicks, added up as far as they were read.
struct Sheet {
    day: i64,
    roll: Roll,
    /// The number of the last event that is in.
    upto: i64,
    /// In which hours a visitor came to a subject. This is what takes memory: every visitor of the day.
    seen: HashMap<(u32, u64), u32>,
    /// Subjects by number, to keep `seen` small.
    numbers: HashMap<Subject, u32>,
}

impl Sheet {
    fn new(day: i64) -> Self {
        Self { day, roll: Roll::default(), upto: 0, seen: HashMap::new(), numbers: HashMap::new() }
    }

    /// Adds the day's next events, in the order of their numbers. Whether there are more.
    async fn read_on(
        &mut self,
        tx: &mut Tx,
        scope: &Scope,
        owners: &mut Owners<'_>,
    ) -> Result<bool, StoreError> {
        let within: Option<(i64, i64)> = read_in!(
            tx,
            fetch_optional,
            "select first_event, last_event from event_days where day = $1",
            self.day
        )?;
        let Some((first, last)) = within.filter(|(_, last)| *last > self.upto) else { return Ok(false) };
        let after = self.upto.max(first - 1);
        let upto = after.saturating_add(SPAN).min(last);
        let (lowest, highest) =
            scope.workspace.map_or((i64::MIN, i64::MAX), |only| (only.as_i64(), only.as_i64()));
        // A click whose user agent or place is lost is still a click.
        let rows: Vec<Row> = read_in!(
            tx,
            fetch_all,
            "select e.n, e.ts, e.link_id, e.workspace_id, e.visitor, e.bot, e.referrer, e.utm_campaign,
                    a.device, a.browser, a.system, l.country, l.city
             from events e left join agents a on a.id = e.agent left join places l on l.id = e.place
             where e.n > $1 and e.n <= $2 and e.ts >= $3 and e.ts < $4 and e.workspace_id >= $5 and e.workspace_id <= $6
             order by e.n",
            after,
            upto,
            self.day.saturating_mul(DAY_MS),
            (self.day + 1).saturating_mul(DAY_MS),
            lowest,
            highest
        )?;
        owners.learn(&rows).await?;
        for row in &rows {
            if self.day >= scope.first_day(Id::from_i64(row.workspace_id)) {
                self.add(row, owners.of(row.link_id));
            }
        }
        self.see();
        self.upto = upto;
        Ok(upto < last)
    }

    fn add(&mut self, row: &Row, owner: Option<Id>) {
        let host = row.referrer.as_deref().and_then(referrer_host);
        let city = row.city.as_ref().map(|city| match &row.country {
            Some(country) => format!("{city}, {country}"),
            None => city.clone(),
        });
        let read = row.device.as_deref().and_then(Device::parse).unwrap_or(Device::Unknown);
        let device = if row.bot { Device::Bot } else { read };
        self.roll.add(&Fact {
            n: row.n,
            ts: Timestamp::from_ms(row.ts),
            link: Id::from_i64(row.link_id),
            workspace: Id::from_i64(row.workspace_id),
            owner,
            bot: row.bot,
            visitor: row.visitor.map(i64::cast_unsigned),
            values: [
                host.as_deref(),
                row.country.as_deref(),
                city.as_deref(),
                Some(device.as_str()),
                row.browser.as_deref(),
                row.system.as_deref(),
                row.utm_campaign.as_deref(),
            ],
        });
    }

    /// Counts the visitors of what was just added, as ingest does; who was seen before is known from the day itself.
    fn see(&mut self) {
        for (visit, hours) in std::mem::take(&mut self.roll.visits) {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(visit.subject).or_insert(next);
            let known = self.seen.entry((number, visit.visitor)).or_default();
            let fresh = hours & !*known;
            if fresh != 0 {
                *known |= hours;
                self.roll.saw(visit.day, visit.subject, fresh, *known);
            }
        }
    }

    fn entry(&self, group: Group, id: i64) -> Entry {
        let subject = group.subject(id);
        let Some(day) = self.roll.days.get(&(subject, self.day)) else { return Entry::default() };
        let mut values = Dimensions::default();
        day.add_values_to(&mut values);
        let hours = if group.hourly { self.day * 24..self.day * 24 + 24 } else { 0..0 };
        let hours = self
            .roll
            .hours
            .range((subject, hours.start)..(subject, hours.end))
            .map(|((_, hour), h)| (*hour, [h.clicks, h.bots, h.visitors, h.arrivals, h.first, h.last]));
        Entry {
            day: Some([day.clicks, day.bots, day.visitors, day.first, day.last]),
            values: Some(json(&values)),
            hours: hours.collect(),
        }
    }

    /// A subject's last click and hit, where one of them is later than what is stored. They are never set back: the click may be
    /// one that is not kept.
    fn later(&self, group: Group, id: i64, there: &There) -> Option<(Option<i64>, Option<i64>)> {
        let Total { last_click, last_hit, .. } = self.roll.totals.get(&group.subject(id))?;
        let (click, hit) = (last_click.map(Timestamp::ms), last_hit.map(Timestamp::ms));
        (click > there.last_click || hit > there.last_hit)
            .then(|| (click.max(there.last_click), hit.max(there.last_hit)))
    }
}

/// What counts of an event.
#[derive(FromRow)]
struct Row {
    n: i64,
    ts: i64,
    link_id: i64,
    workspace_id: i64,
    visitor: Option<i64>,
    bot: bool,
    referrer: Option<String>,
    utm_campaign: Option<String>,
    device: Option<String>,
    browser: Option<String>,
    system: Option<String>,
    country: Option<String>,
    city: Option<String>,
}

/// Who made which link; it never changes.
struct Owners<'a> {
    store: &'a Store,
    known: HashMap<Id, Option<Id>>,
}

impl Owners<'_> {
    async fn learn(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        let links: BTreeSet<Id> = rows.iter().map(|row| Id::from_i64(row.link_id)).collect();
        if self.known.len() + links.len() > MOST_OWNERS {
            self.known.clear();
        }
        let unknown: Vec<Id> = links.into_iter().filter(|link| !self.known.contains_key(link)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let found = self.store.link_names(&unknown).await?;
        self.known.extend(unknown.into_iter().map(|link| (link, None)));
        self.known.extend(found.into_iter().map(|name| (name.id, name.owner)));
        Ok(())
    }

    fn of(&self, link: i64) -> Option<Id> {
        self.known.get(&Id::from_i64(link)).copied().flatten()
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
    use std::ops::Bound::{Excluded, Included};
    let (workspace, limit) = (group.workspace.as_i64(), PAGE.cast_signed() as i64);
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

fn keys(subjects: impl Iterator<Item = i64>) -> String {
    json(&subjects.map(|id| [id]).collect::<Vec<_>>())
}

/// What is stored of subjects.
async fn stored(tx: &mut Tx, group: Group, subjects: &[i64]) -> Result<HashMap<i64, There>, StoreError> {
    let mut found: HashMap<i64, There> = HashMap::new();
    if subjects.is_empty() {
        return Ok(found);
    }
    let (kind, workspace, day) = (group.kind as i64, group.workspace.as_i64(), group.day);
    let wanted = keys(subjects.iter().copied());
    let days: Vec<(i64, i64, i64, i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "select d.subject, d.clicks, d.bots, d.visitors, d.first_event, d.last_event from json_each($1) as page
         join days d on d.kind = $2 and d.workspace_id = $3 and d.day = $4 and d.subject = cast(page.value ->> 0 as bigint)",
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
        "select d.subject, d.dimensions from json_each($1) as page
         join day_values d on d.kind = $2 and d.workspace_id = $3 and d.day = $4 and d.subject = cast(page.value ->> 0 as bigint)",
        &wanted,
        kind,
        workspace,
        day
    )?;
    for (subject, dimensions) in values {
        found.entry(subject).or_default().entry.values = Some(dimensions);
    }
    if group.hourly {
        let hours: Vec<(i64, i64, i64, i64, i64, i64, i64, i64)> = read_in!(
            tx,
            fetch_all,
            "select h.subject, h.hour, h.clicks, h.bots, h.visitors, h.arrivals, h.first_event, h.last_event
             from json_each($1) as page
             join hours h on h.kind = $2 and h.subject = cast(page.value ->> 0 as bigint) and h.hour >= $3 and h.hour < $4",
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
        "select t.subject, t.last_click, t.last_hit from json_each($1) as page
         join totals t on t.kind = $2 and t.subject = cast(page.value ->> 0 as bigint)",
        &wanted,
        kind
    )?;
    for (subject, last_click, last_hit) in lasts {
        let there = found.entry(subject).or_default();
        (there.last_click, there.last_hit) = (last_click, last_hit);
    }
    Ok(found)
}

/// Puts the right rows of the day in the place of the wrong ones.
async fn replace(tx: &mut Tx, group: Group, changes: &[Change]) -> Result<(), StoreError> {
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
        "select m.subject, m.clicks, m.bots, m.visitors from json_each($1) as page
         join months m on m.kind = $2 and m.subject = cast(page.value ->> 0 as bigint) and m.month = $3",
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
        "select t.subject, t.clicks, t.bots from json_each($1) as page
         join totals t on t.kind = $2 and t.subject = cast(page.value ->> 0 as bigint)",
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
