//! The one transaction of a batch.

use std::collections::{BTreeSet, HashMap};

use rlinks_core::Timestamp;
use rlinks_store::StoreError;
use rlinks_store::database::bulk::{insert_rows, rows_returning};
use rlinks_store::database::pool::{Dialect, Pool, Tx, read, read_in, run_in};

use crate::bulk_lookup::{json, look_up};
use crate::enrich::{EnrichedBatch, Event};
use crate::journal::{DroppedClicks, Producer};
use crate::rollup::{CountedClick, DailyVisitor, Dimensions, RollupDelta, RollupSubject};
use crate::time::day_of;

/// Events added up in one go.
const PIECE: usize = 256;

/// Writes a batch. `ends` is how far each producer has been read with it.
pub(crate) async fn write(
    pool: &Pool,
    batch: &EnrichedBatch<'_>,
    ends: &[(Producer, u64)],
    losses: &[(&str, u64)],
) -> Result<(), StoreError> {
    let mut tx = pool.begin().await?;
    let first = lock(&mut tx).await?;
    let producers = producers(&mut tx, ends).await?;
    let mut events: Vec<&Event<'_>> = batch
        .events
        .iter()
        .filter(|event| producers.get(&event.producer).is_some_and(|(_, upto)| event.sequence > *upto))
        .collect();
    // The journals of several threads come one after the other: among those of one batch, the order of numbers is that of time.
    events.sort_by_key(|event| event.ts);
    let agents = agents(&mut tx, batch).await?;
    let places = places(&mut tx, batch).await?;
    let numbered: Vec<(i64, &Event<'_>)> = (first..).zip(events).collect();
    // While the database takes the events, they are added up here.
    let storing = insert_events(&mut tx, &numbered, &producers, &agents, &places);
    let (stored, mut roll) = tokio::join!(storing, add_up(&numbered, batch));
    stored?;
    see(&mut tx, &mut roll).await?;
    add(&mut tx, &roll).await?;
    add_event_days(&mut tx, &numbered).await?;
    add_losses(&mut tx, losses).await?;
    let next = first + i64::try_from(numbered.len()).unwrap_or_default();
    run_in!(&mut tx, "update ingest set next_event = $1 where id = 1", next)?;
    tx.commit().await
}

/// Writes events that bring their ids, from this number on: those of a transaction that has [`lock`]ed and knows that none is there.
pub(crate) async fn write_imported(
    tx: &mut Tx,
    batch: &EnrichedBatch<'_>,
    ids: &[String],
    first: i64,
) -> Result<(), StoreError> {
    let agents = agents(tx, batch).await?;
    let places = places(tx, batch).await?;
    let numbered: Vec<(i64, &Event<'_>)> = (first..).zip(&batch.events).collect();
    let named: Vec<(&(i64, &Event<'_>), &String)> = numbered.iter().zip(ids).collect();
    insert_rows!(
        tx,
        "insert into events (n, ts, link_id, workspace_id, producer, seq, agent, place, prefix, bot, referrer, event_id)",
        12,
        "",
        &named,
        |((n, event), id)| [
            *n,
            event.ts.ms(),
            event.link.as_i64(),
            event.workspace.as_i64(),
            0_i64,
            0_i64,
            agents[event.agent],
            places[event.place],
            event.prefix,
            event.bot,
            event.referrer,
            id.as_str(),
        ]
    );
    let roll = add_up(&numbered, batch).await;
    add(tx, &roll).await?;
    add_event_days(tx, &numbered).await?;
    let next = first + i64::try_from(numbered.len()).unwrap_or_default();
    run_in!(tx, "update ingest set next_event = $1 where id = 1", next)?;
    Ok(())
}

/// The number of the next event. Whoever has asked has the word until the end of the transaction.
pub(crate) async fn lock(tx: &mut Tx) -> Result<i64, StoreError> {
    let (next,): (i64,) = read_in!(
        tx,
        fetch_one,
        "update ingest set next_event = next_event where id = 1 returning next_event"
    )?;
    Ok(next)
}

/// Adds a batch up, in pieces: whoever waits for the database meanwhile is let in between.
async fn add_up(numbered: &[(i64, &Event<'_>)], batch: &EnrichedBatch<'_>) -> RollupDelta {
    let mut roll = RollupDelta::default();
    for piece in numbered.chunks(PIECE) {
        for (n, event) in piece {
            roll.add(&fact(*n, event, batch));
        }
        tokio::task::yield_now().await;
    }
    roll
}

fn fact<'a>(n: i64, event: &'a Event<'_>, batch: &'a EnrichedBatch<'_>) -> CountedClick<'a> {
    let (_, agent) = &batch.agents[event.agent];
    let place = &batch.places[event.place];
    let device = if event.bot { crate::click::Device::Bot } else { agent.device };
    CountedClick {
        n,
        ts: event.ts,
        link: event.link,
        workspace: event.workspace,
        owner: event.owner,
        bot: event.bot,
        visitor: event.visitor,
        values: [
            event.host.as_deref(),
            place.country(),
            place.city.as_deref(),
            Some(device.as_str()),
            agent.browser.as_deref(),
            agent.system.as_deref(),
            event.utm_campaign,
        ],
    }
}

/// The producers' numbers and how far each was read before; the offset moves in the same breath.
async fn producers(
    tx: &mut Tx,
    ends: &[(Producer, u64)],
) -> Result<HashMap<Producer, (i64, u64)>, StoreError> {
    let signed = |boot: u64| boot.cast_signed();
    let rows: Vec<(i64, u16, u64)> =
        ends.iter().map(|(producer, end)| (signed(producer.boot), producer.thread, *end)).collect();
    let sql = look_up!(
        tx.dialect(),
        "d.boot, d.thread, d.upto",
        "producers",
        "d.boot = cast(asked.value ->> 0 as bigint) and d.thread = cast(asked.value ->> 1 as bigint)"
    );
    let known: Vec<(i64, i64, i64)> = read_in!(tx, fetch_all, sql, json(&rows))?;
    let numbered: Vec<(i64, i64, i64)> = read_in!(
        tx,
        fetch_all,
        "insert into producers (boot, thread, upto)
         select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), cast(value ->> 2 as bigint) from json_each($1) where true
         on conflict (boot, thread) do update
         set upto = case when excluded.upto > producers.upto then excluded.upto else producers.upto end
         returning id, boot, thread",
        json(&rows)
    )?;
    let mut producers = HashMap::new();
    for (id, boot, thread) in numbered {
        let before =
            known.iter().find(|(b, t, _)| (*b, *t) == (boot, thread)).map_or(0, |(_, _, upto)| *upto);
        let producer =
            Producer { boot: boot.cast_unsigned(), thread: u16::try_from(thread).unwrap_or_default() };
        producers.insert(producer, (id, u64::try_from(before).unwrap_or_default()));
    }
    Ok(producers)
}

/// The numbers of a batch's user agents, new ones included.
async fn agents(tx: &mut Tx, batch: &EnrichedBatch<'_>) -> Result<Vec<i64>, StoreError> {
    let mut last_days = vec![0; batch.agents.len()];
    for event in &batch.events {
        last_days[event.agent] = day_of(event.ts).max(last_days[event.agent]);
    }
    let rows: Vec<_> = batch
        .agents
        .iter()
        .zip(&last_days)
        .map(|(((hash, text), agent), day)| {
            let (browser, version) = (&agent.browser, &agent.browser_version);
            let (system, system_version) = (&agent.system, &agent.system_version);
            (hash.cast_signed(), text, agent.device.as_str(), browser, version, system, system_version, day)
        })
        .collect();
    // A row that is there is changed at most once a day.
    run_in!(
        tx,
        "insert into agents (ua_hash, user_agent, device, browser, browser_version, system, system_version, last_day)
         select cast(value ->> 0 as bigint), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                cast(value ->> 7 as bigint)
         from json_each($1) where true
         on conflict (ua_hash, user_agent) do update set last_day = excluded.last_day
         where excluded.last_day > agents.last_day",
        json(&rows)
    )?;
    let sql = look_up!(
        tx.dialect(),
        "d.id, d.ua_hash, d.user_agent",
        "agents",
        "d.ua_hash = cast(asked.value ->> 0 as bigint) and d.user_agent = asked.value ->> 1"
    );
    let found: Vec<(i64, i64, String)> = read_in!(tx, fetch_all, sql, json(&rows))?;
    let ids: HashMap<(i64, &str), i64> =
        found.iter().map(|(id, hash, text)| ((*hash, text.as_str()), *id)).collect();
    batch
        .agents
        .iter()
        .map(|((hash, text), _)| {
            ids.get(&(hash.cast_signed(), text.as_str())).copied().ok_or_else(|| gone("agents"))
        })
        .collect()
}

/// The numbers of a batch's places, new ones included.
async fn places(tx: &mut Tx, batch: &EnrichedBatch<'_>) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<_> = batch
        .places
        .iter()
        .map(|known| {
            (&known.key, known.country(), &known.place.city, known.place.latitude, known.place.longitude)
        })
        .collect();
    run_in!(
        tx,
        "insert into places (place, country, city, latitude, longitude)
         select value ->> 0, value ->> 1, value ->> 2, cast(value ->> 3 as double precision), cast(value ->> 4 as double precision)
         from json_each($1) where true
         on conflict (place) do nothing",
        json(&rows)
    )?;
    let sql = look_up!(tx.dialect(), "d.id, d.place", "places", "d.place = asked.value ->> 0");
    let found: Vec<(i64, String)> = read_in!(tx, fetch_all, sql, json(&rows))?;
    let ids: HashMap<&str, i64> = found.iter().map(|(id, key)| (key.as_str(), *id)).collect();
    batch
        .places
        .iter()
        .map(|known| ids.get(known.key.as_str()).copied().ok_or_else(|| gone("places")))
        .collect()
}

fn gone(table: &str) -> StoreError {
    StoreError::Unreadable(format!("a row just written to {table} is not there"))
}

async fn insert_events(
    tx: &mut Tx,
    numbered: &[(i64, &Event<'_>)],
    producers: &HashMap<Producer, (i64, u64)>,
    agents: &[i64],
    places: &[i64],
) -> Result<(), StoreError> {
    insert_rows!(
        tx,
        "insert into events (n, ts, link_id, workspace_id, producer, seq, agent, place, prefix, visitor, bot,
                             referrer, utm_source, utm_medium, utm_campaign)",
        15,
        "",
        numbered,
        |(n, event)| [
            *n,
            event.ts.ms(),
            event.link.as_i64(),
            event.workspace.as_i64(),
            producers.get(&event.producer).map_or(0, |(id, _)| *id),
            event.sequence.cast_signed(),
            agents[event.agent],
            places[event.place],
            event.prefix,
            event.visitor.map(u64::cast_signed),
            event.bot,
            event.referrer,
            event.utm_source,
            event.utm_medium,
            event.utm_campaign,
        ]
    );
    Ok(())
}

/// The hours of a day, a bit each; above them `fresh` says which visit of the batch a row is about.
const HOURS: u32 = 24;

/// Finds out which of a batch's visitors are new on their day, or in an hour of it, and counts them.
async fn see(tx: &mut Tx, roll: &mut RollupDelta) -> Result<(), StoreError> {
    let visits: Vec<(i64, DailyVisitor, u32)> = (0..)
        .zip(std::mem::take(&mut roll.daily_visitors))
        .map(|(place, (visit, hours))| (place, visit, hours))
        .collect();
    // Every right-hand side sees the row as it was. Two numbers come back for a row, not its key: each is a copy on its way here.
    let seen = rows_returning!(
        tx,
        (i64, i64),
        "insert into seen (day, kind, subject, visitor, hours, fresh)",
        6,
        "on conflict (day, kind, subject, visitor) do update
         set hours = seen.hours | excluded.hours, fresh = excluded.fresh & ~seen.hours
         where (seen.hours | excluded.hours) <> seen.hours
         returning fresh, hours",
        &visits,
        |(place, visit, hours)| [
            visit.day,
            visit.subject.kind as i64,
            visit.subject.id.as_i64(),
            visit.visitor.cast_signed(),
            i64::from(*hours),
            place << HOURS | i64::from(*hours),
        ]
    );
    let bits = |hours: i64| u32::try_from(hours & ((1 << HOURS) - 1)).unwrap_or_default();
    for (fresh, hours) in seen {
        let place = usize::try_from(fresh >> HOURS).unwrap_or(usize::MAX);
        if let Some((_, visit, _)) = visits.get(place) {
            roll.count_visitor(visit.day, visit.subject, bits(fresh), bits(hours));
        }
    }
    Ok(())
}

/// Adds what clicks add up to.
pub(crate) async fn add(tx: &mut Tx, roll: &RollupDelta) -> Result<(), StoreError> {
    let known = known_values(tx, roll).await?;
    // While the database adds to its rows, the days' values are put together here.
    let (added, values) = tokio::join!(add_numbers(tx, roll), merge_values(roll, known));
    added?;
    write_values(tx, &values).await
}

async fn add_numbers(tx: &mut Tx, roll: &RollupDelta) -> Result<(), StoreError> {
    // An hour that only loses an arrival to an earlier one has no events in this batch.
    let (hours, moved): (Vec<_>, Vec<_>) = roll.hours.iter().partition(|(_, hour)| hour.last > 0);
    insert_rows!(
        tx,
        "insert into hours (kind, subject, hour, clicks, bots, visitors, arrivals, first_event, last_event)",
        9,
        // Numbers only grow: the first stays the first, and the last is ours.
        "on conflict (kind, subject, hour) do update
         set clicks = hours.clicks + excluded.clicks, bots = hours.bots + excluded.bots,
             visitors = hours.visitors + excluded.visitors, arrivals = hours.arrivals + excluded.arrivals,
             last_event = excluded.last_event",
        &hours,
        |((subject, hour), h)| [
            subject.kind as i64,
            subject.id.as_i64(),
            *hour,
            h.clicks,
            h.bots,
            h.visitors,
            h.arrivals,
            h.first,
            h.last,
        ]
    );
    for ((subject, hour), h) in moved {
        run_in!(
            tx,
            "update hours set arrivals = arrivals + $4 where kind = $1 and subject = $2 and hour = $3",
            subject.kind as i64,
            subject.id.as_i64(),
            *hour,
            h.arrivals
        )?;
    }
    add_days(tx, roll).await?;
    let months: Vec<_> = roll.months().into_iter().collect();
    insert_rows!(
        tx,
        "insert into months (kind, subject, month, clicks, bots, visitors)",
        6,
        "on conflict (kind, subject, month) do update
         set clicks = months.clicks + excluded.clicks, bots = months.bots + excluded.bots,
             visitors = months.visitors + excluded.visitors",
        &months,
        |((subject, month), (clicks, bots, visitors))| [
            subject.kind as i64,
            subject.id.as_i64(),
            *month,
            *clicks,
            *bots,
            *visitors,
        ]
    );
    let totals: Vec<_> = roll.totals.iter().collect();
    insert_rows!(
        tx,
        "insert into totals (kind, subject, workspace_id, clicks, bots, last_click, last_hit)",
        7,
        "on conflict (kind, subject) do update
         set clicks = totals.clicks + excluded.clicks, bots = totals.bots + excluded.bots,
             last_click = case when totals.last_click is null or excluded.last_click > totals.last_click
                               then excluded.last_click else totals.last_click end,
             last_hit = case when totals.last_hit is null or excluded.last_hit > totals.last_hit
                             then excluded.last_hit else totals.last_hit end",
        &totals,
        |(subject, total)| [
            subject.kind as i64,
            subject.id.as_i64(),
            subject.workspace.as_i64(),
            total.clicks,
            total.bots,
            total.last_click.map(Timestamp::ms),
            total.last_hit.map(Timestamp::ms),
        ]
    );
    Ok(())
}

async fn add_days(tx: &mut Tx, roll: &RollupDelta) -> Result<(), StoreError> {
    let days: Vec<_> = roll.days.iter().collect();
    insert_rows!(
        tx,
        "insert into days (kind, workspace_id, day, subject, clicks, bots, visitors, first_event, last_event)",
        9,
        "on conflict (kind, workspace_id, day, subject) do update
         set clicks = days.clicks + excluded.clicks, bots = days.bots + excluded.bots,
             visitors = days.visitors + excluded.visitors, last_event = excluded.last_event",
        &days,
        |((subject, day), d)| [
            subject.kind as i64,
            subject.workspace.as_i64(),
            *day,
            subject.id.as_i64(),
            d.clicks,
            d.bots,
            d.visitors,
            d.first,
            d.last,
        ]
    );
    Ok(())
}

/// The key of a day as its tables have it.
pub(crate) fn day_key((subject, day): &(RollupSubject, i64)) -> (u8, i64, i64, i64) {
    (subject.kind as u8, subject.workspace.as_i64(), *day, subject.id.as_i64())
}

/// The key of a day, and the text of its values.
type ValuesRow = (u8, i64, i64, i64, String);

/// A day's values are one JSON text, so they are read, added to and written back. In the order of the days.
async fn known_values(tx: &mut Tx, roll: &RollupDelta) -> Result<Vec<Option<String>>, StoreError> {
    // The days are gone through first, as `look_up!` says; their keys come as values: as JSON they took a quarter of a batch.
    let select = match tx.dialect() {
        Dialect::Sqlite => {
            ") select asked.place, d.dimensions from asked cross join day_values d
               where d.kind = asked.kind and d.workspace_id = asked.workspace_id and d.day = asked.day and d.subject = asked.subject"
        }
        Dialect::Postgres => {
            ") select asked.place, d.dimensions from asked cross join lateral (
                 select v.dimensions from day_values v
                 where v.kind = asked.kind and v.workspace_id = asked.workspace_id and v.day = asked.day and v.subject = asked.subject
                 limit 1) as d"
        }
    };
    let days: Vec<_> = (0_i64..).zip(roll.days.keys().map(day_key)).collect();
    let found = rows_returning!(
        tx,
        (i64, String),
        "with asked (place, kind, workspace_id, day, subject) as (",
        5,
        select,
        &days,
        |(place, (kind, workspace, day, subject))| [*place, i64::from(*kind), *workspace, *day, *subject]
    );
    let mut known = vec![None; days.len()];
    for (place, dimensions) in found {
        if let Some(there) = usize::try_from(place).ok().and_then(|place| known.get_mut(place)) {
            *there = Some(dimensions);
        }
    }
    Ok(known)
}

async fn merge_values(roll: &RollupDelta, known: Vec<Option<String>>) -> Vec<ValuesRow> {
    let mut rows = Vec::with_capacity(roll.days.len());
    for ((key, gained), there) in roll.days.iter().zip(known) {
        let (kind, workspace, day, subject) = day_key(key);
        let mut dimensions: Dimensions = match there.map(|text| serde_json::from_str(&text)) {
            Some(Ok(dimensions)) => dimensions,
            Some(Err(error)) => {
                tracing::error!(%error, day, "a day's values cannot be read and begin anew; `rmax clicks recompute` restores them");
                Dimensions::default()
            }
            None => Dimensions::default(),
        };
        gained.add_values_to(&mut dimensions);
        rows.push((kind, workspace, day, subject, json(&dimensions)));
        if rows.len() % PIECE == 0 {
            tokio::task::yield_now().await;
        }
    }
    rows
}

async fn write_values(tx: &mut Tx, rows: &[ValuesRow]) -> Result<(), StoreError> {
    insert_rows!(
        tx,
        "insert into day_values (kind, workspace_id, day, subject, dimensions)",
        5,
        "on conflict (kind, workspace_id, day, subject) do update set dimensions = excluded.dimensions",
        rows,
        |(kind, workspace, day, subject, dimensions)| [
            i64::from(*kind),
            *workspace,
            *day,
            *subject,
            dimensions.as_str(),
        ]
    );
    Ok(())
}

/// Remembers in which numbers each day's events lie.
async fn add_event_days(tx: &mut Tx, numbered: &[(i64, &Event<'_>)]) -> Result<(), StoreError> {
    let days: BTreeSet<i64> = numbered.iter().map(|(_, event)| day_of(event.ts)).collect();
    let rows: Vec<_> = days
        .into_iter()
        .map(|day| {
            let mut of_day = numbered.iter().filter(|(_, event)| day_of(event.ts) == day).map(|(n, _)| *n);
            let first = of_day.next().unwrap_or_default();
            (day, first, of_day.next_back().unwrap_or(first))
        })
        .collect();
    run_in!(
        tx,
        "insert into event_days (day, first_event, last_event)
         select cast(value ->> 0 as bigint), cast(value ->> 1 as bigint), cast(value ->> 2 as bigint) from json_each($1) where true
         on conflict (day) do update
         set first_event = case when excluded.first_event < event_days.first_event then excluded.first_event else event_days.first_event end,
             last_event = case when excluded.last_event > event_days.last_event then excluded.last_event else event_days.last_event end",
        json(&rows)
    )?;
    Ok(())
}

/// The row of a process's drops stands among those of its threads; no thread has this number.
const DROPS: i64 = -1;

/// Counts what processes have dropped, as far as that is not counted yet.
pub(crate) async fn add_drops(pool: &Pool, drops: &[DroppedClicks]) -> Result<(), StoreError> {
    let mut tx = pool.begin().await?;
    lock(&mut tx).await?;
    let mut dropped = 0;
    for DroppedClicks { boot, clicks } in drops.iter().filter(|drops| drops.clicks > 0) {
        let known: Option<(i64,)> = read_in!(
            &mut tx,
            fetch_optional,
            "select upto from producers where boot = $1 and thread = $2",
            boot.cast_signed(),
            DROPS
        )?;
        let known = known.map_or(0, |(upto,)| upto.cast_unsigned());
        if *clicks <= known {
            continue;
        }
        dropped += clicks - known;
        run_in!(
            &mut tx,
            "insert into producers (boot, thread, upto) values ($1, $2, $3)
             on conflict (boot, thread) do update set upto = excluded.upto",
            boot.cast_signed(),
            DROPS,
            clicks.cast_signed()
        )?;
    }
    add_losses(&mut tx, &[("dropped", dropped)]).await?;
    tx.commit().await
}

/// How many of these are not counted yet.
pub(crate) async fn drops_not_counted(pool: &Pool, drops: &[DroppedClicks]) -> Result<u64, StoreError> {
    let known: Vec<(i64, i64)> =
        read!(pool, fetch_all, "select boot, upto from producers where thread = $1", DROPS)?;
    let known = |boot: u64| known.iter().find(|(known, _)| known.cast_unsigned() == boot);
    let new = |drops: &DroppedClicks| {
        drops.clicks.saturating_sub(known(drops.boot).map_or(0, |(_, upto)| upto.cast_unsigned()))
    };
    Ok(drops.iter().map(new).sum())
}

/// Counts what was not kept.
pub(crate) async fn add_losses(tx: &mut Tx, losses: &[(&str, u64)]) -> Result<(), StoreError> {
    let rows: Vec<_> = losses.iter().filter(|(_, clicks)| *clicks > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    run_in!(
        tx,
        "insert into losses (reason, clicks) select value ->> 0, cast(value ->> 1 as bigint) from json_each($1) where true
         on conflict (reason) do update set clicks = losses.clicks + excluded.clicks",
        json(&rows)
    )?;
    Ok(())
}
