//! The brake: whoever changes the targets of too many links within a minute is stopped for a minute.
//!
//! What is counted lies in a row beside the links, read and written in their transaction, so that nodes on one store count together and
//! nothing that was rolled back counts. The minute slides by seconds: no second minute begins with a fresh count.

use std::collections::BTreeMap;

use rlinks_core::{Id, Timestamp};

use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::write::link_write::{Brake, LinkWrite};
use crate::{Store, StoreError};

/// What is counted together, and how long somebody is stopped.
const MINUTE_MS: i64 = 60_000;
/// Rows nobody has touched for so long say nothing any more.
const KEPT_MS: i64 = 24 * 3_600_000;

/// What was counted for one principal.
#[derive(Default)]
struct Count {
    /// Changes by the second they were made in.
    recent: BTreeMap<i64, u32>,
    stopped_until: i64,
    updated_at: i64,
    dirty: bool,
}

/// Workspace and principal.
type Place = (i64, String);

/// The counts a group needs.
#[derive(Default)]
pub(super) struct Brakes(BTreeMap<Place, Count>);

/// Whether a change may be made.
pub(super) enum Pedal {
    /// It may, and is counted.
    Free,
    /// It may not, and this is where it stops: worth an entry in the log.
    Stops(Timestamp),
    /// It may not; the stop is in the log already.
    Stopped(Timestamp),
}

impl Brakes {
    /// Loads the counts of those whose changes are limited.
    pub(super) async fn load<'a>(
        tx: &mut Tx,
        writes: impl Iterator<Item = &'a LinkWrite>,
    ) -> Result<Self, StoreError> {
        type Row = (i64, String, String, i64, i64);
        let mut counts = BTreeMap::new();
        for write in writes {
            if let Some(place) = place(write) {
                counts.entry(place).or_insert_with(Count::default);
            }
        }
        if counts.is_empty() {
            return Ok(Self::default());
        }
        let wanted: Vec<&Place> = counts.keys().collect();
        let rows: Vec<Row> = read_in!(
            tx,
            fetch_all,
            "select workspace_id, principal, recent, stopped_until, updated_at from brakes
             where (workspace_id, principal) in
                   (select cast(value ->> 0 as bigint), value ->> 1 from json_each($1))",
            json(&wanted)
        )?;
        for (workspace, principal, recent, stopped_until, updated_at) in rows {
            // A text nobody can read counts nothing: the brake must never keep anybody from working for ever.
            let recent: Vec<(i64, u32)> = serde_json::from_str(&recent).unwrap_or_default();
            let recent = recent.into_iter().collect();
            counts.insert((workspace, principal), Count { recent, stopped_until, updated_at, dirty: false });
        }
        Ok(Self(counts))
    }

    /// Counts one more change of a target, if it may be made.
    pub(super) fn press(&mut self, write: &LinkWrite) -> Pedal {
        let (Some(brake), Some(place)) = (&write.brake, place(write)) else { return Pedal::Free };
        let count = self.0.entry(place).or_default();
        // Clocks of two nodes differ a little; a count never goes back in time.
        let now = write.now.ms().max(count.updated_at.min(write.now.ms() + MINUTE_MS));
        if now < count.stopped_until {
            return Pedal::Stopped(Timestamp::from_ms(count.stopped_until));
        }
        count.recent = count.recent.split_off(&((now - MINUTE_MS) / 1000));
        count.updated_at = now;
        count.dirty = true;
        if count.recent.values().sum::<u32>() >= brake.changes_per_minute {
            // When the stop is over, so is the minute that was counted.
            count.recent.clear();
            count.stopped_until = now + MINUTE_MS;
            return Pedal::Stops(Timestamp::from_ms(count.stopped_until));
        }
        *count.recent.entry(now / 1000).or_default() += 1;
        Pedal::Free
    }

    pub(super) async fn write(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let row = |((workspace, principal), count): (&Place, &Count)| {
            let recent: Vec<(&i64, &u32)> = count.recent.iter().collect();
            serde_json::json!([workspace, principal, json(&recent), count.stopped_until, count.updated_at])
        };
        let rows: Vec<_> = self.0.iter().filter(|(_, count)| count.dirty).map(row).collect();
        if rows.is_empty() {
            return Ok(());
        }
        run_in!(
            tx,
            "insert into brakes (workspace_id, principal, recent, stopped_until, updated_at)
             select cast(value ->> 0 as bigint), value ->> 1, value ->> 2, cast(value ->> 3 as bigint), cast(value ->> 4 as bigint)
             from json_each($1) where true
             on conflict (workspace_id, principal) do update
             set recent = excluded.recent, stopped_until = excluded.stopped_until, updated_at = excluded.updated_at",
            json(&rows)
        )?;
        Ok(())
    }
}

fn place(write: &LinkWrite) -> Option<Place> {
    let brake = write.brake.as_ref()?;
    Some((write.workspace.as_i64(), brake.principal.as_str().to_owned()))
}

/// What somebody is told who is stopped.
pub(super) fn braked(brake: &Brake, now: Timestamp, until: Timestamp) -> StoreError {
    let seconds = u32::try_from(now.seconds_until(until)).unwrap_or(u32::MAX).saturating_add(1);
    StoreError::Braked { changes_per_minute: brake.changes_per_minute, seconds }
}

/// What the log says of a stop. The subject is the brake and not the member or key, whose own entries say what they are.
pub(super) fn entry<'a>(write: &'a LinkWrite, brake: &Brake, until: Timestamp) -> NewEntry<'a> {
    let after = serde_json::json!({
        "principal": brake.principal,
        "target_changes_per_minute": brake.changes_per_minute,
        "stopped_until": until,
    });
    NewEntry {
        actor: &write.actor,
        action: "auth.brake",
        subject: format!("brake:{}", brake.principal),
        before: None,
        after: Some(after.to_string()),
    }
}

impl Store {
    /// Fails while somebody is stopped.
    pub async fn check_stopped(
        &self,
        workspace: Id,
        brake: &Brake,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select stopped_until from brakes where workspace_id = $1 and principal = $2",
            workspace.as_i64(),
            brake.principal.as_str()
        )?;
        match row {
            Some((until,)) if now.ms() < until => Err(braked(brake, now, Timestamp::from_ms(until))),
            _ => Ok(()),
        }
    }

    /// Forgets counts nobody has added to for a day.
    pub async fn forget_brakes(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let forgotten =
            run_in!(&mut tx, "delete from brakes where updated_at < $1", now.plus_ms(-KEPT_MS).ms())?;
        tx.commit().await?;
        Ok(forgotten)
    }
}
