//! The values of whole months, remembered. A day's values are a long text, and a question about years would read hundreds of them
//! each time it is asked. What was added up for a month is remembered together with what its days had counted then; as long as
//! they still have counted the same, and nobody has recomputed anything, it is right.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Tx, read_in};

use crate::bulk_lookup::{json, look_up};
use crate::day_values::Values;
use crate::rollup::RollupSubject;
use crate::time::{first_day_of, month_of};

/// Days whose values are held in memory at once.
const DAYS_AT_ONCE: usize = 128;
/// Names that are remembered, of all months together: about 25 MB.
const MAX_NAMES: usize = 250_000;

/// What the days of a month had counted, and how often anything had been recomputed.
#[derive(PartialEq, Eq)]
struct Stamp {
    recomputed: i64,
    days: Vec<DayRow>,
}

/// Day, clicks, bots, and the number of the last event.
type DayRow = (i64, i64, i64, i64);

struct Month {
    stamp: Stamp,
    values: Arc<Values>,
    asked: u64,
}

#[derive(Default)]
struct Known {
    months: HashMap<(RollupSubject, i64), Month>,
    names: usize,
    /// How often anything was asked: what was asked longest ago is forgotten first.
    asked: u64,
}

impl Known {
    fn get(&mut self, subject: RollupSubject, number: i64, stamp: &Stamp) -> Option<Arc<Values>> {
        self.asked += 1;
        let month = self.months.get_mut(&(subject, number)).filter(|month| month.stamp == *stamp)?;
        month.asked = self.asked;
        Some(Arc::clone(&month.values))
    }

    fn put(&mut self, subject: RollupSubject, number: i64, stamp: Stamp, values: Arc<Values>) {
        self.forget((subject, number));
        self.names += values.len();
        self.months.insert((subject, number), Month { stamp, values, asked: self.asked });
        while self.names > MAX_NAMES
            && let Some(oldest) = self.months.iter().min_by_key(|(_, month)| month.asked).map(|(key, _)| *key)
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, key: (RollupSubject, i64)) {
        if let Some(month) = self.months.remove(&key) {
            self.names -= month.values.len();
        }
    }
}

/// What is remembered. Cheap to clone; all clones remember the same.
#[derive(Clone, Default)]
pub(crate) struct Months(Arc<Mutex<Known>>);

impl Months {
    /// The values of these days.
    pub(crate) async fn values(
        &self,
        tx: &mut Tx,
        subject: RollupSubject,
        days: Range<i64>,
    ) -> Result<Values, StoreError> {
        let mut values = Values::default();
        let mut single: Vec<i64> = Vec::new();
        let whole = whole_months(&days);
        if whole.is_empty() {
            single.extend(days);
        } else {
            let (first, last) = (first_day_of(whole.start), first_day_of(whole.end));
            single.extend((days.start..first).chain(last..days.end));
            for (month, stamp) in stamps(tx, subject, whole).await? {
                values.merge(&*self.month(tx, subject, month, stamp).await?);
            }
        }
        add(tx, subject, &single, &mut values).await?;
        Ok(values)
    }

    /// The values of a month: as remembered, or added up.
    async fn month(
        &self,
        tx: &mut Tx,
        subject: RollupSubject,
        month: i64,
        stamp: Stamp,
    ) -> Result<Arc<Values>, StoreError> {
        if let Some(known) = self.0.lock().get(subject, month, &stamp) {
            return Ok(known);
        }
        let mut added = Values::default();
        let days: Vec<i64> = stamp.days.iter().map(|(day, ..)| *day).collect();
        add(tx, subject, &days, &mut added).await?;
        let added = Arc::new(added);
        self.0.lock().put(subject, month, stamp, Arc::clone(&added));
        Ok(added)
    }
}

/// The months of which all days are among these.
fn whole_months(days: &Range<i64>) -> Range<i64> {
    let first = month_of(days.start);
    let first = if first_day_of(first) == days.start { first } else { first + 1 };
    first..month_of(days.end).max(first)
}

/// What the days of months have counted: months without clicks are not among them.
async fn stamps(
    tx: &mut Tx,
    subject: RollupSubject,
    months: Range<i64>,
) -> Result<Vec<(i64, Stamp)>, StoreError> {
    let (recomputed,): (i64,) = read_in!(tx, fetch_one, "select recomputed from ingest where id = 1")?;
    let list: Vec<(i64,)> =
        (first_day_of(months.start)..first_day_of(months.end)).map(|day| (day,)).collect();
    let sql = look_up!(
        tx.dialect(),
        "d.day, d.clicks, d.bots, d.last_event",
        "days",
        "d.kind = $2 and d.workspace_id = $3 and d.day = cast(asked.value ->> 0 as bigint) and d.subject = $4"
    );
    let mut rows: Vec<DayRow> = read_in!(
        tx,
        fetch_all,
        sql,
        json(&list),
        subject.kind as i64,
        subject.workspace.as_i64(),
        subject.id.as_i64()
    )?;
    rows.sort_unstable();
    let by_month = rows.chunk_by(|one, next| month_of(one.0) == month_of(next.0));
    Ok(by_month.map(|days| (month_of(days[0].0), Stamp { recomputed, days: days.to_vec() })).collect())
}

/// Adds the values of single days.
async fn add(
    tx: &mut Tx,
    subject: RollupSubject,
    days: &[i64],
    values: &mut Values,
) -> Result<(), StoreError> {
    let sql = look_up!(
        tx.dialect(),
        "d.dimensions",
        "day_values",
        "d.kind = $2 and d.workspace_id = $3 and d.day = cast(asked.value ->> 0 as bigint) and d.subject = $4"
    );
    for some in days.chunks(DAYS_AT_ONCE) {
        let list: Vec<(i64,)> = some.iter().map(|day| (*day,)).collect();
        let rows: Vec<(String,)> = read_in!(
            tx,
            fetch_all,
            sql,
            json(&list),
            subject.kind as i64,
            subject.workspace.as_i64(),
            subject.id.as_i64()
        )?;
        for (dimensions,) in rows {
            values.add(&dimensions)?;
        }
    }
    Ok(())
}
