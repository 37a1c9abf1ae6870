//! The latest raw clicks of a link or a workspace, newest first.
//!
//! Events have no index but their number. The rollups know between which numbers the clicks of a day, and of its hours, lie, so
//! these stretches are looked through from the last number down. Clicks that were stored late lie among newer ones: days are
//! therefore taken in the order of their last numbers, and no number is passed before every day that may have it is known.
//!
//! Numbers follow time but for what was stored late. So a page reads some numbers on, and where an older number has a newer click the
//! clicks up to there are one block, which is sorted and then given out page by page. What lies further apart than that (the
//! clicks of a server that was away, say) stands where it was stored.

use rlinks_core::Id;
use rlinks_store::StoreError;
use rlinks_store::database::pool::read;
use serde::{Deserialize, Serialize};

use crate::bulk_lookup::{json, look_up};
use crate::click::Click;
use crate::database::ClickStore;
use crate::events::{Codes, EventRow, event_columns};
use crate::rollup::RollupSubject;
use crate::time::DAY_MS;

/// Days looked up by one call.
const MAX_DAYS: i64 = 512;
/// Days looked up at first. Most calls need no more.
const FIRST_DAYS: usize = 32;
/// Events of others looked through by one call.
const MAX_EVENTS_PASSED: i64 = 200_000;
/// Queries for events by one call.
const MAX_QUERIES: usize = 64;
/// Stretches up to this long are looked up number by number, many in one query.
const SHORT: i64 = 8;
/// Numbers looked up in one query.
const NUMBERS_AT_ONCE: usize = 512;
/// How far beyond a page is looked for newer clicks: over the numbers of two batches of ingest,
const AHEAD_NUMBERS: i64 = 2 * 8192;
/// and over so many clicks.
const AHEAD_CLICKS: usize = 1024;

/// Where a page ended and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentCursor {
    /// Clicks with numbers from here on are dealt with.
    below: i64,
    /// The limit by which a block was begun below; none where no block is.
    limit: Option<usize>,
    /// So many of the block were given out.
    given: usize,
}

impl ClickStore {
    /// The last clicks of a link, or of a workspace, after a place; the newest first. Gives the place to go on from while there may
    /// be more. A call does a bounded amount of work, so a page may hold fewer than `limit`, or none. Clicks of days whose daily
    /// rollups are gone are not found.
    pub async fn recent(
        &self,
        workspace: Id,
        link: Option<Id>,
        after: Option<RecentCursor>,
        limit: usize,
        codes: &mut Codes,
    ) -> Result<(Vec<Click>, Option<RecentCursor>), StoreError> {
        let after = after.unwrap_or(RecentCursor { below: i64::MAX, limit: None, given: 0 });
        // A block is read again as it was read when it began.
        let least = after.limit.unwrap_or(limit);
        let mut search = self.stored_last(workspace, link, after.below, least).await?;
        if search.found.len() == least {
            self.look_ahead(&mut search).await?;
        }
        search.cut(least);
        // What is stored meanwhile is not part of a block.
        let above = search.found.first().map_or(after.below, |first| first.n + 1);
        let Search { below, found, .. } = &mut search;
        found.sort_unstable_by_key(|row| std::cmp::Reverse((row.ts, row.n)));
        let given = found.len().min(after.given.saturating_add(limit));
        let next = if given < found.len() {
            Some(RecentCursor { below: above, limit: Some(least), given })
        } else {
            let below = *below;
            search.has_more().then_some(RecentCursor { below, limit: None, given: 0 })
        };
        let page = search.found.drain(after.given.min(given)..given).collect();
        Ok((codes.name(page).await?, next))
    }

    /// The last clicks stored, with numbers below one, in the order of their numbers.
    async fn stored_last(
        &self,
        workspace: Id,
        link: Option<Id>,
        below: i64,
        limit: usize,
    ) -> Result<Search, StoreError> {
        // Days before this one are on their way out.
        let frozen: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select before_day from frozen where workspace_id = $1",
            workspace.as_i64()
        )?;
        let from_day = frozen.map_or(i64::MIN, |(day,)| day);
        let from_ms = from_day.saturating_mul(DAY_MS);
        let mut search = Search { workspace, link, limit, below, from_ms, ..Search::default() };
        let days: Vec<(i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select day, last_event from event_days where first_event < $1 and day >= $2 order by last_event desc, day limit $3",
            search.below,
            from_day,
            MAX_DAYS + 1
        )?;
        // One more than may be looked up says how far down the others reach.
        let known = days.len().min(usize::try_from(MAX_DAYS).unwrap_or(usize::MAX));
        let (mut done, mut step) = (0, FIRST_DAYS);
        while done < known && !search.is_over() {
            let next = known.min(done + step);
            search.stretches.extend(self.stretches(search.subject(), &days[done..next]).await?);
            let above = days.get(next).map_or(0, |(_, last)| *last);
            self.look_above(&mut search, above).await?;
            (done, step) = (next, step * 2);
        }
        search.days_left = done < days.len();
        Ok(search)
    }

    /// Reads some numbers beyond what was wanted.
    async fn look_ahead(&self, search: &mut Search) -> Result<(), StoreError> {
        search.limit += AHEAD_CLICKS;
        let last = search.below - 1;
        let mut ahead = self.events_between(search, last.saturating_sub(AHEAD_NUMBERS), last).await?;
        ahead.retain(|row| row.ts >= search.from_ms);
        search.found.extend(ahead);
        Ok(())
    }

    /// Where a subject's clicks of some days lie: by hour where hours are kept, else by day.
    async fn stretches(
        &self,
        subject: RollupSubject,
        days: &[(i64, i64)],
    ) -> Result<Vec<Stretch>, StoreError> {
        let asked: Vec<(i64,)> = days.iter().map(|(day, _)| (*day,)).collect();
        let sql = look_up!(
            self.pool.dialect(),
            "d.day, d.clicks, d.bots, d.first_event, d.last_event",
            "days",
            "d.kind = $2 and d.workspace_id = $3 and d.day = cast(asked.value ->> 0 as bigint) and d.subject = $4"
        );
        let days: Vec<(i64, i64, i64, i64, i64)> = read!(
            &self.pool,
            fetch_all,
            sql,
            json(&asked),
            subject.kind as i64,
            subject.workspace.as_i64(),
            subject.id.as_i64()
        )?;
        let (Some(first), Some(last)) =
            (days.iter().map(|(day, ..)| *day).min(), days.iter().map(|(day, ..)| *day).max())
        else {
            return Ok(Vec::new());
        };
        let hours: Vec<(i64, i64, i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select hour, clicks + bots, first_event, last_event from hours
             where kind = $1 and subject = $2 and hour >= $3 and hour < $4 order by hour",
            subject.kind as i64,
            subject.id.as_i64(),
            first * 24,
            (last + 1) * 24
        )?;
        let mut stretches = Vec::new();
        for (day, people, bots, first, last) in days {
            let begin = hours.partition_point(|(hour, ..)| *hour < day * 24);
            let end = hours.partition_point(|(hour, ..)| *hour < (day + 1) * 24);
            let of_day = &hours[begin..end];
            if of_day.iter().map(|(_, clicks, ..)| *clicks).sum::<i64>() == people + bots {
                for (_, clicks, first, last) in of_day {
                    Stretch::add(&mut stretches, *clicks, *first, *last);
                }
            } else {
                Stretch::add(&mut stretches, people + bots, first, last);
            }
        }
        Ok(stretches)
    }

    /// Looks through what is known of the numbers above one, until there is enough.
    async fn look_above(&self, search: &mut Search, above: i64) -> Result<(), StoreError> {
        while !search.is_over() {
            let found = match search.next_look(above) {
                None => {
                    search.below = search.below.min(above + 1);
                    return Ok(());
                }
                Some(Look::Numbers(numbers)) => self.events_numbered(search, &numbers).await?,
                Some(Look::Between(first, last)) => self.events_between(search, first, last).await?,
            };
            search.keep(found);
        }
        Ok(())
    }

    async fn events_numbered(
        &self,
        search: &Search,
        numbers: &[(i64,)],
    ) -> Result<Vec<EventRow>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n in (select cast(value ->> 0 as bigint) from json_each($1)) and e.workspace_id = $2
              order by e.n desc limit $3"
        );
        const OF_LINK: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n in (select cast(value ->> 0 as bigint) from json_each($1)) and e.workspace_id = $2 and e.link_id = $4
              order by e.n desc limit $3"
        );
        let (numbers, workspace, room) = (json(&numbers), search.workspace.as_i64(), search.room());
        Ok(match search.link {
            None => read!(&self.pool, fetch_all, SQL, numbers, workspace, room)?,
            Some(link) => read!(&self.pool, fetch_all, OF_LINK, numbers, workspace, room, link.as_i64())?,
        })
    }

    async fn events_between(
        &self,
        search: &Search,
        first: i64,
        last: i64,
    ) -> Result<Vec<EventRow>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n >= $1 and e.n <= $2 and e.workspace_id = $3 order by e.n desc limit $4"
        );
        const OF_LINK: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n >= $1 and e.n <= $2 and e.workspace_id = $3 and e.link_id = $5 order by e.n desc limit $4"
        );
        let (workspace, room) = (search.workspace.as_i64(), search.room());
        Ok(match search.link {
            None => read!(&self.pool, fetch_all, SQL, first, last, workspace, room)?,
            Some(link) => read!(&self.pool, fetch_all, OF_LINK, first, last, workspace, room, link.as_i64())?,
        })
    }
}

/// Numbers between which all of a subject's clicks of an hour or a day lie; both ends are such clicks.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: i64,
    last: i64,
}

impl Stretch {
    fn add(stretches: &mut Vec<Self>, clicks: i64, first: i64, last: i64) {
        match clicks {
            // An hour somebody arrived in before, by a click that is not there.
            _ if first > last => {}
            // Nothing lies between two.
            ..=2 => {
                stretches.push(Self { first, last: first });
                stretches.push(Self { first: last, last });
            }
            _ => stretches.push(Self { first, last }),
        }
    }
}

/// What to look at next.
enum Look {
    Numbers(Vec<(i64,)>),
    Between(i64, i64),
}

/// How far a call has come.
struct Search {
    workspace: Id,
    link: Option<Id>,
    limit: usize,
    /// All numbers from here on are dealt with.
    below: i64,
    /// Where it will have dealt with them after the look that is under way.
    reached: i64,
    stretches: Vec<Stretch>,
    passed: i64,
    looks: usize,
    found: Vec<EventRow>,
    /// There are days that were not looked up.
    days_left: bool,
    /// Clicks before this are on their way out.
    from_ms: i64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            workspace: Id::from_i64(0),
            link: None,
            limit: 0,
            below: i64::MAX,
            reached: i64::MAX,
            stretches: Vec::new(),
            passed: 0,
            looks: 0,
            found: Vec::new(),
            days_left: false,
            from_ms: i64::MIN,
        }
    }
}

impl Search {
    fn subject(&self) -> RollupSubject {
        match self.link {
            Some(link) => RollupSubject::link(self.workspace, link),
            None => RollupSubject::workspace(self.workspace),
        }
    }

    fn is_over(&self) -> bool {
        self.found.len() >= self.limit || self.passed >= MAX_EVENTS_PASSED || self.looks >= MAX_QUERIES
    }

    fn room(&self) -> i64 {
        i64::try_from(self.limit - self.found.len()).unwrap_or(i64::MAX)
    }

    /// The highest numbers above one that were not looked at: one long stretch, or short ones together.
    fn next_look(&mut self, above: i64) -> Option<Look> {
        self.stretches.retain(|stretch| stretch.first < self.below);
        // By their last numbers, the highest first; those that reach higher are cut.
        self.stretches.sort_unstable_by_key(|stretch| std::cmp::Reverse(stretch.last));
        let mut below = self.below;
        let mut numbers = Vec::new();
        for stretch in &self.stretches {
            let (first, last) = (stretch.first.max(above + 1), stretch.last.min(below - 1));
            if first > last {
                continue;
            }
            if last - first >= SHORT {
                if numbers.is_empty() {
                    let first = first.max(last - (MAX_EVENTS_PASSED - self.passed) + 1);
                    self.passed += last - first + 1;
                    self.reached = first;
                    self.looks += 1;
                    return Some(Look::Between(first, last));
                }
                break;
            }
            numbers.extend((first..=last).rev().map(|number| (number,)));
            below = first;
            if numbers.len() >= NUMBERS_AT_ONCE {
                break;
            }
        }
        if numbers.is_empty() {
            return None;
        }
        self.reached = below;
        self.looks += 1;
        Some(Look::Numbers(numbers))
    }

    /// Cuts what was found where nothing behind is newer than anything before, but not before so many. Where there is no such point
    /// all of it stays.
    fn cut(&mut self, least: usize) {
        let found = &self.found;
        let mut newest_behind: Vec<i64> = found
            .iter()
            .rev()
            .scan(i64::MIN, |newest, row| {
                *newest = row.ts.max(*newest);
                Some(*newest)
            })
            .collect();
        newest_behind.reverse();
        let mut oldest = i64::MAX;
        let mut end = found.len();
        for (at, row) in found.iter().enumerate() {
            if at >= least && oldest >= newest_behind[at] {
                end = at;
                break;
            }
            oldest = oldest.min(row.ts);
        }
        self.found.truncate(end);
        if end >= least
            && let Some(last) = self.found.last()
        {
            self.below = last.n;
        }
    }

    /// Whether there may be more below.
    fn has_more(&self) -> bool {
        self.days_left || self.stretches.iter().any(|stretch| stretch.first < self.below)
    }

    /// Keeps what a look has found.
    fn keep(&mut self, found: Vec<EventRow>) {
        self.found.extend(found);
        self.below = match self.found.last() {
            Some(last) if self.found.len() >= self.limit => last.n,
            _ => self.reached,
        };
    }
}
