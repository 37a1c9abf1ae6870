//! One day's clicks, added up.

use std::collections::{BTreeSet, HashMap};

use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::{Tx, read_in};
use rlinks_store::database::row::from_row;
use rlinks_store::{Store, StoreError};

use super::Scope;
use super::rows::{Entry, Group, There};
use crate::bulk_lookup::json;
use crate::click::Device;
use crate::rollup::{CountedClick, Dimensions, RollupDelta, RollupSubject, Total};
use crate::time::DAY_MS;
use rlinks_core::click::attribution::referrer_host;

/// Numbers looked at by one read of events.
const SPAN: i64 = 20_000;
/// Owners of links remembered.
const MAX_OWNERS: usize = 100_000;

/// One day's clicks, added up as far as they were read.
pub(super) struct Sheet {
    day: i64,
    pub(super) roll: RollupDelta,
    /// The number of the last event that is in.
    upto: i64,
    /// In which hours a visitor came to a subject. This is what takes memory: every visitor of the day.
    seen: HashMap<(u32, u64), u32>,
    /// Subjects by number, to keep `seen` small.
    numbers: HashMap<RollupSubject, u32>,
}

impl Sheet {
    pub(super) fn new(day: i64) -> Self {
        Self { day, roll: RollupDelta::default(), upto: 0, seen: HashMap::new(), numbers: HashMap::new() }
    }

    /// Adds the day's next events, in the order of their numbers. Whether there are more.
    pub(super) async fn read_on(
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
                self.add(row, owners.owner(row.link_id));
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
        self.roll.add(&CountedClick {
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
        for (visit, hours) in std::mem::take(&mut self.roll.daily_visitors) {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(visit.subject).or_insert(next);
            let known = self.seen.entry((number, visit.visitor)).or_default();
            let fresh = hours & !*known;
            if fresh != 0 {
                *known |= hours;
                self.roll.count_visitor(visit.day, visit.subject, fresh, *known);
            }
        }
    }

    pub(super) fn entry(&self, group: Group, id: i64) -> Entry {
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
    pub(super) fn later(&self, group: Group, id: i64, there: &There) -> Option<(Option<i64>, Option<i64>)> {
        let Total { last_click, last_hit, .. } = self.roll.totals.get(&group.subject(id))?;
        let (click, hit) = (last_click.map(Timestamp::ms), last_hit.map(Timestamp::ms));
        (click > there.last_click || hit > there.last_hit)
            .then(|| (click.max(there.last_click), hit.max(there.last_hit)))
    }
}

/// What counts of an event.
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

from_row!(Row {
    n,
    ts,
    link_id,
    workspace_id,
    visitor,
    bot,
    referrer,
    utm_campaign,
    device,
    browser,
    system,
    country,
    city
});

/// Who made which link; it never changes.
pub(super) struct Owners<'a> {
    store: &'a Store,
    known: HashMap<Id, Option<Id>>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { store, known: HashMap::new() }
    }

    async fn learn(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        let links: BTreeSet<Id> = rows.iter().map(|row| Id::from_i64(row.link_id)).collect();
        if self.known.len() + links.len() > MAX_OWNERS {
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

    fn owner(&self, link: i64) -> Option<Id> {
        self.known.get(&Id::from_i64(link)).copied().flatten()
    }
}
