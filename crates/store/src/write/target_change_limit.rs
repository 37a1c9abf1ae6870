//! The brake: whoever changes the targets of too many links within a minute is stopped for a minute.
//!
//! What is counted lies in a row beside the links, read and written in their transaction, so that nodes on one store count together and
//! nothing that was rolled back counts. The minute slides by seconds: no second minute begins with a fresh count.

use std::collections::BTreeMap;

use rlinks_core::time::DAY_MS;
use rlinks_core::{Id, Timestamp};

use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::write::link_write::{LinkWrite, TargetChangeLimit};
use crate::{StoreError, StoreWriter};

/// What is counted together, and how long somebody is stopped.
const WINDOW_MS: i64 = 60_000;
/// Rows nobody has touched for so long say nothing any more.
const COUNT_RETENTION_MS: i64 = DAY_MS;

/// What was counted for one principal.
#[derive(Default)]
struct ChangeCount {
    /// Changes by the second they were made in.
    recent: BTreeMap<i64, u32>,
    stopped_until: i64,
    updated_at: i64,
    dirty: bool,
}

type PrincipalKey = (i64, String);

/// The counts a group needs.
#[derive(Default)]
pub(super) struct TargetChangeCounts(BTreeMap<PrincipalKey, ChangeCount>);

/// Whether a change may be made.
pub(super) enum LimitDecision {
    /// It may, and is counted.
    Allowed,
    /// It may not, and this is where it stops: worth an entry in the log.
    Reached(Timestamp),
    /// It may not; the stop is in the log already.
    Blocked(Timestamp),
}

impl TargetChangeCounts {
    /// Loads the counts of those whose changes are limited.
    pub(super) async fn load<'a>(
        tx: &mut Tx,
        writes: impl Iterator<Item = &'a LinkWrite>,
    ) -> Result<Self, StoreError> {
        type Row = (i64, String, String, i64, i64);
        let mut counts = BTreeMap::new();
        for write in writes {
            if let Some(key) = principal_key(write) {
                counts.entry(key).or_insert_with(ChangeCount::default);
            }
        }
        if counts.is_empty() {
            return Ok(Self::default());
        }
        let wanted: Vec<&PrincipalKey> = counts.keys().collect();
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
            counts.insert(
                (workspace, principal),
                ChangeCount { recent, stopped_until, updated_at, dirty: false },
            );
        }
        Ok(Self(counts))
    }

    /// Counts one more change of a target, if it may be made.
    pub(super) fn count(&mut self, write: &LinkWrite) -> LimitDecision {
        let (Some(limit), Some(key)) = (&write.target_change_limit, principal_key(write)) else {
            return LimitDecision::Allowed;
        };
        let count = self.0.entry(key).or_default();
        // Clocks of two nodes differ a little; a count never goes back in time.
        let now = write.now.ms().max(count.updated_at.min(write.now.ms() + WINDOW_MS));
        if now < count.stopped_until {
            return LimitDecision::Blocked(Timestamp::from_ms(count.stopped_until));
        }
        count.recent = count.recent.split_off(&((now - WINDOW_MS) / 1000));
        count.updated_at = now;
        count.dirty = true;
        if count.recent.values().sum::<u32>() >= limit.changes_per_minute {
            // When the stop is over, so is the minute that was counted.
            count.recent.clear();
            count.stopped_until = now + WINDOW_MS;
            return LimitDecision::Reached(Timestamp::from_ms(count.stopped_until));
        }
        *count.recent.entry(now / 1000).or_default() += 1;
        LimitDecision::Allowed
    }

    pub(super) async fn write(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let row = |((workspace, principal), count): (&PrincipalKey, &ChangeCount)| {
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

fn principal_key(write: &LinkWrite) -> Option<PrincipalKey> {
    let limit = write.target_change_limit.as_ref()?;
    Some((write.workspace.as_i64(), limit.principal.as_str().to_owned()))
}

/// What somebody is told who is stopped.
pub(super) fn rate_limited(limit: &TargetChangeLimit, now: Timestamp, until: Timestamp) -> StoreError {
    let seconds = u32::try_from(now.seconds_until(until)).unwrap_or(u32::MAX).saturating_add(1);
    StoreError::RateLimited { changes_per_minute: limit.changes_per_minute, seconds }
}

/// What the log says of a stop. The subject is the brake and not the member or key, whose own entries say what they are.
pub(super) fn limit_reached_entry<'a>(
    write: &'a LinkWrite,
    limit: &TargetChangeLimit,
    until: Timestamp,
) -> NewEntry<'a> {
    let after = serde_json::json!({
        "principal": limit.principal,
        "target_changes_per_minute": limit.changes_per_minute,
        "stopped_until": until,
    });
    NewEntry {
        actor: &write.actor,
        action: "auth.brake",
        subject: format!("brake:{}", limit.principal),
        before: None,
        after: Some(after.to_string()),
    }
}

impl StoreWriter {
    /// Fails while somebody is stopped.
    pub async fn check_target_change_limit(
        &self,
        workspace: Id,
        limit: &TargetChangeLimit,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select stopped_until from brakes where workspace_id = $1 and principal = $2",
            workspace.as_i64(),
            limit.principal.as_str()
        )?;
        match row {
            Some((until,)) if now.ms() < until => Err(rate_limited(limit, now, Timestamp::from_ms(until))),
            _ => Ok(()),
        }
    }

    /// Forgets counts nobody has added to for a day.
    pub async fn purge_target_change_counts(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(
            &mut tx,
            "delete from brakes where updated_at < $1",
            now.plus_ms(-COUNT_RETENTION_MS).ms()
        )?;
        tx.commit().await?;
        Ok(purged)
    }
}
