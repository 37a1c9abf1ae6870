//! Limits on how many links one principal, and a whole workspace, may point elsewhere or remove in a minute. A principal that reaches one is stopped
//! for a minute.
//!
//! Counts are rows beside the links, read and written in their transaction under the workspace's head, so all nodes on one store count
//! together and nothing that was rolled back counts. The minute slides by seconds: no second minute begins with a fresh count.

use std::collections::{BTreeMap, BTreeSet};

use rlinks_core::time::DAY_MS;
use rlinks_core::{Actor, Id, Link, LinkState, Timestamp};

use crate::audit::stops::WORKSPACE_SUBJECT;
use crate::database::json::json;
use crate::database::pool::{Tx, read_in, run_in};
use crate::error::{LimitScope, LimitedChange};
use crate::{StoreError, StoreWriter};

/// What is counted together, and how long a stop lasts.
const WINDOW_MS: i64 = 60_000;
/// Counts that nothing was added to for so long are dropped.
const COUNT_RETENTION_MS: i64 = DAY_MS;
/// How many times as much as a principal a whole workspace may change.
const WORKSPACE_FACTOR: u32 = 10;
/// Before the subject of removals. Target changes have none, as they were counted first.
const REMOVALS_PREFIX: &str = "removals:";

/// How many links may be changed in a minute, and for whom that is counted. A limit of 0 is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeLimits {
    /// Everyone who answers for the credential: a key's member and its creator. Each counts as their principal.
    pub identities: Vec<Actor>,
    pub target_changes_per_minute: u32,
    pub removals_per_minute: u32,
    pub enforcement: Enforcement,
}

/// What happens to a change over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    Refuse,
    /// It is made and counted: a person has confirmed it.
    CountOnly,
}

/// A limit that stops a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReachedLimit {
    pub(crate) change: LimitedChange,
    pub(crate) scope: LimitScope,
    /// The principal, or `workspace`.
    pub(crate) principal: String,
    pub(crate) per_minute: u32,
    pub(crate) until: Timestamp,
}

/// Whether a change may be made.
pub(crate) enum LimitDecision {
    /// It may, and is counted.
    Allowed,
    /// It may not, and this is where the stop begins: worth an audit entry.
    Reached(ReachedLimit),
    /// It may not; the stop is in the log already.
    Blocked(ReachedLimit),
}

/// Which limits turning one link into another counts towards. An expiry that is brought forward to within a day takes a link away like
/// deleting it.
pub(crate) fn limited_changes(before: &Link, next: &Link, now: Timestamp) -> Vec<LimitedChange> {
    let ends_soon = next.expires_at.is_some_and(|end| {
        end <= now.plus_ms(DAY_MS) && before.expires_at.is_none_or(|planned| planned > end)
    });
    let is_removed = match next.state {
        LinkState::Active => ends_soon,
        LinkState::Disabled => before.state == LinkState::Active,
        LinkState::Deleted => before.state != LinkState::Deleted,
    };
    let target = (before.target != next.target).then_some(LimitedChange::Target);
    target.into_iter().chain(is_removed.then_some(LimitedChange::Removal)).collect()
}

impl ReachedLimit {
    pub(crate) fn error(&self, now: Timestamp) -> StoreError {
        let seconds = u32::try_from(now.seconds_until(self.until)).unwrap_or(u32::MAX).saturating_add(1);
        let Self { change, scope, per_minute, .. } = *self;
        StoreError::RateLimited { change, scope, per_minute, seconds }
    }
}

impl ChangeLimits {
    fn per_minute(&self, change: LimitedChange) -> u32 {
        match change {
            LimitedChange::Target => self.target_changes_per_minute,
            LimitedChange::Removal => self.removals_per_minute,
        }
    }
}

/// The key of a count.
type SubjectKey = (i64, String);

/// What was counted for one subject.
#[derive(Default)]
struct ChangeCount {
    /// Changes by the second they were made in.
    recent: BTreeMap<i64, u32>,
    stopped_until: i64,
    updated_at: i64,
    dirty: bool,
}

impl ChangeCount {
    /// Forgets what has left the minute. Clocks of two nodes differ a little; a count never goes back in time.
    fn advance(&mut self, now: Timestamp) -> i64 {
        let now = now.ms().max(self.updated_at.min(now.ms() + WINDOW_MS));
        self.recent = self.recent.split_off(&((now - WINDOW_MS) / 1000));
        now
    }

    fn total(&self) -> u64 {
        self.recent.values().map(|count| u64::from(*count)).sum()
    }

    fn add(&mut self, changes: u32, now: i64) {
        let second = self.recent.entry(now / 1000).or_default();
        *second = second.saturating_add(changes);
        (self.updated_at, self.dirty) = (now, true);
    }
}

/// One count that a change has to fit into.
struct Subject {
    key: SubjectKey,
    change: LimitedChange,
    scope: LimitScope,
    principal: String,
    per_minute: u32,
}

impl Subject {
    fn reached(&self, until: i64) -> ReachedLimit {
        ReachedLimit {
            change: self.change,
            scope: self.scope,
            principal: self.principal.clone(),
            per_minute: self.per_minute,
            until: Timestamp::from_ms(until),
        }
    }
}

/// The counts that some changes need.
#[derive(Default)]
pub(crate) struct ChangeCounts {
    counts: BTreeMap<SubjectKey, ChangeCount>,
    /// The principals of members, where those are others than themselves.
    principals: BTreeMap<i64, String>,
}

impl ChangeCounts {
    /// Loads the counts of those whose changes are limited.
    pub(crate) async fn load<'a>(
        tx: &mut Tx,
        limited: impl Iterator<Item = (Id, &'a ChangeLimits)>,
    ) -> Result<Self, StoreError> {
        type Row = (i64, String, String, i64, i64);
        let limited: Vec<(Id, &ChangeLimits)> = limited.collect();
        if limited.is_empty() {
            return Ok(Self::default());
        }
        let identities = limited.iter().flat_map(|(_, limits)| &limits.identities);
        let mut loaded = Self { counts: BTreeMap::new(), principals: principals(tx, identities).await? };
        let mut wanted = BTreeSet::new();
        for (workspace, limits) in limited {
            let both = [LimitedChange::Target, LimitedChange::Removal];
            wanted.extend(loaded.subjects(workspace, limits, &both).into_iter().map(|subject| subject.key));
        }
        let rows: Vec<Row> = read_in!(
            tx,
            fetch_all,
            "select workspace_id, principal, recent, stopped_until, updated_at from brakes
             where (workspace_id, principal) in
                   (select cast(value ->> 0 as bigint), value ->> 1 from json_each($1))",
            json(&wanted)
        )?;
        for (workspace, subject, recent, stopped_until, updated_at) in rows {
            // An unreadable text counts nothing: a damaged row must never block changes for good.
            let recent: Vec<(i64, u32)> = serde_json::from_str(&recent).unwrap_or_default();
            let recent = recent.into_iter().collect();
            let count = ChangeCount { recent, stopped_until, updated_at, dirty: false };
            loaded.counts.insert((workspace, subject), count);
        }
        Ok(loaded)
    }

    /// What changes of these kinds are counted for: each principal, and the workspace.
    fn subjects(&self, workspace: Id, limits: &ChangeLimits, changes: &[LimitedChange]) -> Vec<Subject> {
        let mut principals: Vec<String> = Vec::new();
        for identity in &limits.identities {
            let root = identity.user().and_then(|user| self.principals.get(&user.as_i64())).cloned();
            let principal = root.unwrap_or_else(|| identity.as_str().to_owned());
            if !principals.contains(&principal) {
                principals.push(principal);
            }
        }
        let mut subjects = Vec::new();
        for change in changes.iter().copied().filter(|change| limits.per_minute(*change) > 0) {
            let prefix = match change {
                LimitedChange::Target => "",
                LimitedChange::Removal => REMOVALS_PREFIX,
            };
            let subject = |principal: &str, scope, per_minute| Subject {
                key: (workspace.as_i64(), format!("{prefix}{principal}")),
                change,
                scope,
                principal: principal.to_owned(),
                per_minute,
            };
            let per_minute = limits.per_minute(change);
            subjects.extend(principals.iter().map(|name| subject(name, LimitScope::Principal, per_minute)));
            let in_all = per_minute.saturating_mul(WORKSPACE_FACTOR);
            subjects.push(subject(WORKSPACE_SUBJECT, LimitScope::Workspace, in_all));
        }
        subjects
    }

    /// Counts one more link that is changed in these ways, if it may be.
    pub(crate) fn count(
        &mut self,
        workspace: Id,
        limits: &ChangeLimits,
        changes: &[LimitedChange],
        now: Timestamp,
    ) -> LimitDecision {
        let subjects = self.subjects(workspace, limits, changes);
        if limits.enforcement == Enforcement::Refuse {
            // Nothing is counted for a change that any of the limits stops.
            for subject in &subjects {
                let count = self.counts.entry(subject.key.clone()).or_default();
                let moment = count.advance(now);
                if moment < count.stopped_until {
                    return LimitDecision::Blocked(subject.reached(count.stopped_until));
                }
                if count.total() >= u64::from(subject.per_minute) {
                    // When the stop is over, so is the minute that was counted.
                    count.recent.clear();
                    count.stopped_until = moment + WINDOW_MS;
                    (count.updated_at, count.dirty) = (moment, true);
                    return LimitDecision::Reached(subject.reached(count.stopped_until));
                }
            }
        }
        self.add(&subjects, 1, now);
        LimitDecision::Allowed
    }

    /// Counts many removals that are about to be made as one, if there is room for all of them. A refused request starts no stop.
    pub(crate) fn reserve_removals(
        &mut self,
        workspace: Id,
        limits: &ChangeLimits,
        removals: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let subjects = self.subjects(workspace, limits, &[LimitedChange::Removal]);
        if limits.enforcement == Enforcement::Refuse && removals > 0 {
            for subject in &subjects {
                let count = self.counts.entry(subject.key.clone()).or_default();
                let moment = count.advance(now);
                if moment < count.stopped_until {
                    return Err(subject.reached(count.stopped_until).error(now));
                }
                if count.total() + u64::from(removals) > u64::from(subject.per_minute) {
                    return Err(subject.reached(moment + WINDOW_MS).error(now));
                }
            }
        }
        self.add(&subjects, removals, now);
        Ok(())
    }

    fn add(&mut self, subjects: &[Subject], changes: u32, now: Timestamp) {
        for subject in subjects {
            let count = self.counts.entry(subject.key.clone()).or_default();
            let moment = count.advance(now);
            count.add(changes, moment);
        }
    }

    /// The stop that a principal is under, if any. That of the workspace is not theirs.
    fn stop(&self, workspace: Id, limits: &ChangeLimits, now: Timestamp) -> Option<ReachedLimit> {
        let both = [LimitedChange::Target, LimitedChange::Removal];
        let subjects = self.subjects(workspace, limits, &both);
        subjects.iter().filter(|subject| subject.scope == LimitScope::Principal).find_map(|subject| {
            let until = self.counts.get(&subject.key)?.stopped_until;
            (now.ms() < until).then(|| subject.reached(until))
        })
    }

    pub(crate) async fn write(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let row = |((workspace, subject), count): (&SubjectKey, &ChangeCount)| {
            let recent: Vec<(&i64, &u32)> = count.recent.iter().collect();
            serde_json::json!([workspace, subject, json(&recent), count.stopped_until, count.updated_at])
        };
        let rows: Vec<_> = self.counts.iter().filter(|(_, count)| count.dirty).map(row).collect();
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

/// The principals of those among these who are members that another account created.
async fn principals(
    tx: &mut Tx,
    identities: impl Iterator<Item = &Actor>,
) -> Result<BTreeMap<i64, String>, StoreError> {
    let users: BTreeSet<[i64; 1]> = identities.filter_map(|actor| Some([actor.user()?.as_i64()])).collect();
    if users.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(i64, String)> = read_in!(
        tx,
        fetch_all,
        "select id, principal from users
         where id in (select cast(value ->> 0 as bigint) from json_each($1)) and principal is not null",
        json(&users)
    )?;
    Ok(rows.into_iter().collect())
}

/// The principal of somebody whom `maker` makes a member: that of whoever answers for the maker. The operator and the server answer for
/// nobody.
pub(crate) async fn principal_of_new_member(
    tx: &mut Tx,
    maker: &Actor,
) -> Result<Option<String>, StoreError> {
    let mut responsible = maker.clone();
    if let Some(key) = maker.key() {
        let row: Option<(Option<i64>, String)> = read_in!(
            tx,
            fetch_optional,
            "select user_id, created_by from api_keys where id = $1",
            key.as_i64()
        )?;
        responsible = match row {
            Some((Some(user), _)) => Actor::from_user(Id::from_i64(user)),
            Some((None, sponsor)) => {
                rlinks_core::ApiKey::sponsor(&Actor::from_stored(sponsor)).unwrap_or(responsible)
            }
            None => responsible,
        };
    }
    if responsible.user().is_none() && responsible.key().is_none() {
        return Ok(None);
    }
    let known = principals(tx, std::iter::once(&responsible)).await?;
    Ok(Some(known.into_values().next().unwrap_or_else(|| responsible.as_str().to_owned())))
}

impl StoreWriter {
    /// Fails while somebody is stopped.
    pub async fn check_change_limits(
        &self,
        workspace: Id,
        limits: &ChangeLimits,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut view = self.pool.snapshot().await?;
        let counts = ChangeCounts::load(&mut view, std::iter::once((workspace, limits))).await?;
        counts.stop(workspace, limits, now).map_or(Ok(()), |stop| Err(stop.error(now)))
    }

    /// Forgets counts that nothing was added to for a day.
    pub async fn purge_change_counts(&self, now: Timestamp) -> Result<u64, StoreError> {
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
