//! Adding clicks up: what a set of clicks adds to the hours, days, months and totals of links, workspaces and users.
//!
//! Pure. Ingest feeds it a batch and asks the database who was seen before; recompute feeds it whole days and knows who was
//! seen from the days themselves. Both add up by this one way, so both give the same numbers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rlinks_core::{Id, Timestamp};
use serde::{Deserialize, Serialize};

use crate::time::{day_of, hour_of, month_of};

/// Values of one dimension, subject and day that are counted by name.
pub const MAX_NAMED_VALUES: usize = 500;
/// What is counted of the rest.
pub const OTHER_VALUE: &str = "(other)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    Link = 0,
    Workspace = 1,
    /// Those of the links a user made.
    User = 2,
}

/// Whose clicks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupSubject {
    pub kind: SubjectKind,
    pub workspace: Id,
    pub id: Id,
}

impl RollupSubject {
    /// A link of a workspace.
    pub const fn link(workspace: Id, id: Id) -> Self {
        Self { kind: SubjectKind::Link, workspace, id }
    }

    pub const fn workspace(id: Id) -> Self {
        Self { kind: SubjectKind::Workspace, workspace: id, id }
    }

    /// A user of a workspace.
    pub const fn user(workspace: Id, id: Id) -> Self {
        Self { kind: SubjectKind::User, workspace, id }
    }
}

/// The dimensions clicks are broken down by, in the order of [`CountedClick::values`].
pub const DIMENSIONS: [&str; 7] =
    ["referrers", "countries", "cities", "devices", "browsers", "systems", "campaigns"];

/// Clicks of people and of bots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeopleAndBots(pub u64, pub u64);

/// Clicks by value, for each of [`DIMENSIONS`]; bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimensions(pub [BTreeMap<String, PeopleAndBots>; 7]);

impl Dimensions {
    /// Adds to a value; beyond [`MAX_NAMED_VALUES`] a new value is [`OTHER_VALUE`].
    pub fn add(&mut self, dimension: usize, value: &str, add: PeopleAndBots) {
        let values = &mut self.0[dimension];
        if let Some(known) = values.get_mut(value) {
            known.add(add);
            return;
        }
        let named = values.len() - usize::from(values.contains_key(OTHER_VALUE));
        let name = if named < MAX_NAMED_VALUES { value } else { OTHER_VALUE };
        values.entry(name.to_owned()).or_default().add(add);
    }
}

impl PeopleAndBots {
    pub(crate) fn add(&mut self, other: Self) {
        self.0 += other.0;
        self.1 += other.1;
    }
}

/// One click, as far as counting is concerned.
#[derive(Clone, Copy, Debug)]
pub struct CountedClick<'a> {
    pub n: i64,
    pub ts: Timestamp,
    pub link: Id,
    pub workspace: Id,
    /// Who made the link, where that is a user.
    pub owner: Option<Id>,
    pub bot: bool,
    /// The visitor's key of the day.
    pub visitor: Option<u64>,
    /// The value in each of [`DIMENSIONS`].
    pub values: [Option<&'a str>; 7],
}

/// A visitor of a subject on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DailyVisitor {
    pub day: i64,
    pub subject: RollupSubject,
    pub visitor: u64,
}

/// What an hour gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourDelta {
    pub clicks: i64,
    pub bots: i64,
    /// People seen in the hour.
    pub visitors: i64,
    /// People whose first click of the day it was. May sink, when an earlier one turns up late.
    pub arrivals: i64,
    /// The lowest number of its clicks.
    pub first: i64,
    pub last: i64,
}

/// What a day gains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayDelta {
    pub clicks: i64,
    pub bots: i64,
    pub visitors: i64,
    /// The lowest number of its clicks.
    pub first: i64,
    pub last: i64,
    /// Values in the order they first came.
    values: DayValues,
}

/// A day's values. Most days of most links have few, and few are found by looking through them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DayValues {
    list: Vec<(u8, u32, Arc<str>, PeopleAndBots)>,
    places: HashMap<(u8, u32), usize>,
}

/// More than this are found by their place.
const MAX_LINEAR_VALUES: usize = 24;

impl DayValues {
    fn add(&mut self, dimension: u8, name: u32, value: &Arc<str>, add: PeopleAndBots) {
        let is_it = |(d, n, ..): &(u8, u32, Arc<str>, PeopleAndBots)| (*d, *n) == (dimension, name);
        let known = if self.places.is_empty() {
            self.list.iter().position(is_it)
        } else {
            self.places.get(&(dimension, name)).copied()
        };
        if let Some(place) = known {
            self.list[place].3.add(add);
            return;
        }
        self.list.push((dimension, name, Arc::clone(value), add));
        if self.list.len() > MAX_LINEAR_VALUES {
            // The first time, those before it too.
            let from = if self.places.is_empty() { 0 } else { self.list.len() - 1 };
            let placed = self.list.iter().enumerate().skip(from);
            self.places.extend(placed.map(|(place, (d, n, ..))| ((*d, *n), place)));
        }
    }
}

/// What a subject gains for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub clicks: i64,
    pub bots: i64,
    /// The last of people's.
    pub last_click: Option<Timestamp>,
    /// The last of all.
    pub last_hit: Option<Timestamp>,
}

const EMPTY_HOUR: HourDelta =
    HourDelta { clicks: 0, bots: 0, visitors: 0, arrivals: 0, first: i64::MAX, last: 0 };

impl Default for DayDelta {
    fn default() -> Self {
        Self { clicks: 0, bots: 0, visitors: 0, first: i64::MAX, last: 0, values: DayValues::default() }
    }
}

impl DayDelta {
    /// Adds its values to those that are there.
    pub fn add_values_to(&self, dimensions: &mut Dimensions) {
        for (dimension, _, value, add) in &self.values.list {
            dimensions.add(usize::from(*dimension), value, *add);
        }
    }
}

/// What a set of clicks adds.
#[derive(Debug, Default)]
pub struct RollupDelta {
    /// By subject and hour.
    pub hours: BTreeMap<(RollupSubject, i64), HourDelta>,
    /// By subject and day.
    pub days: BTreeMap<(RollupSubject, i64), DayDelta>,
    pub totals: BTreeMap<RollupSubject, Total>,
    /// Who came, and in which hours of the day: a bit each.
    pub daily_visitors: BTreeMap<DailyVisitor, u32>,
    /// Every value once, and its number.
    names: HashMap<Arc<str>, u32>,
}

impl RollupDelta {
    /// Adds a click. Clicks must come in the order of their numbers: the first 500 values of a day are those that have names.
    pub fn add(&mut self, click: &CountedClick<'_>) {
        let names = click.values.map(|value| value.map(|value| self.intern(value)));
        let subjects = [
            Some(RollupSubject::link(click.workspace, click.link)),
            Some(RollupSubject::workspace(click.workspace)),
            click.owner.map(|owner| RollupSubject::user(click.workspace, owner)),
        ];
        let (hour, day) = (hour_of(click.ts), day_of(click.ts));
        let (people, bots) = if click.bot { (0, 1) } else { (1, 0) };
        for subject in subjects.into_iter().flatten() {
            let of_hour = self.hours.entry((subject, hour)).or_insert(EMPTY_HOUR);
            of_hour.clicks += people;
            of_hour.bots += bots;
            of_hour.first = of_hour.first.min(click.n);
            of_hour.last = of_hour.last.max(click.n);
            let of_day = self.days.entry((subject, day)).or_default();
            of_day.clicks += people;
            of_day.bots += bots;
            of_day.first = of_day.first.min(click.n);
            of_day.last = of_day.last.max(click.n);
            let add = if click.bot { PeopleAndBots(0, 1) } else { PeopleAndBots(1, 0) };
            for (dimension, value) in (0..).zip(&names) {
                if let Some((name, value)) = value {
                    of_day.values.add(dimension, *name, value, add);
                }
            }
            let total = self.totals.entry(subject).or_default();
            total.clicks += people;
            total.bots += bots;
            total.last_hit = total.last_hit.max(Some(click.ts));
            if !click.bot {
                total.last_click = total.last_click.max(Some(click.ts));
            }
            if let Some(visitor) = click.visitor.filter(|_| !click.bot) {
                *self.daily_visitors.entry(DailyVisitor { day, subject, visitor }).or_default() |=
                    1 << hour.rem_euclid(24);
            }
        }
    }

    /// Counts a visitor of whom `fresh` hours of the day are new and `hours` are known now.
    pub fn count_visitor(&mut self, day: i64, subject: RollupSubject, fresh: u32, hours: u32) {
        let before = hours & !fresh;
        for bit in (0..24).filter(|bit| fresh & 1 << bit != 0) {
            self.hour(subject, day, bit).visitors += 1;
        }
        let arrived = hours.trailing_zeros();
        if before == 0 {
            self.hour(subject, day, arrived).arrivals += 1;
            self.days.entry((subject, day)).or_default().visitors += 1;
        } else if arrived < before.trailing_zeros() {
            self.hour(subject, day, arrived).arrivals += 1;
            self.hour(subject, day, before.trailing_zeros()).arrivals -= 1;
        }
    }

    fn hour(&mut self, subject: RollupSubject, day: i64, bit: u32) -> &mut HourDelta {
        self.hours.entry((subject, day * 24 + i64::from(bit))).or_insert(EMPTY_HOUR)
    }

    /// What months gain, from the days.
    pub fn months(&self) -> BTreeMap<(RollupSubject, i64), (i64, i64, i64)> {
        let mut months = BTreeMap::<_, (i64, i64, i64)>::new();
        for ((subject, day), gained) in &self.days {
            let month = months.entry((*subject, month_of(*day))).or_default();
            month.0 += gained.clicks;
            month.1 += gained.bots;
            month.2 += gained.visitors;
        }
        months
    }

    fn intern(&mut self, value: &str) -> (u32, Arc<str>) {
        if let Some((value, name)) = self.names.get_key_value(value) {
            return (*name, Arc::clone(value));
        }
        let (name, value) = (u32::try_from(self.names.len()).unwrap_or(u32::MAX), Arc::<str>::from(value));
        self.names.insert(Arc::clone(&value), name);
        (name, value)
    }
}
