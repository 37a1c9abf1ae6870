//! Custody of a host: whether its workspace has proven it by DNS, and what was last seen of it there and at its registry.
//!
//! A look at the network is made elsewhere and comes in as [`DomainCheck`]; [`DomainVerification::observe`] says what it changes. What could not be found
//! out changes nothing: an outage is never a missing proof.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::time::{DAY_MS, HOUR_MS};
use crate::{Host, Timestamp, Workspace};

/// For so long a claim waits for its first proof, and a proof may be missing before its host answers no more.
pub const GRACE_PERIOD_MS: i64 = 72 * HOUR_MS;
/// So many days before a registration ends somebody is told, once each.
pub const EXPIRY_WARNING_DAYS: [i64; 3] = [60, 30, 7];
/// Registries are asked once in so many days...
const REGISTRY_CHECK_DAYS: i64 = 7;
/// ...and every day when so many days or fewer are left, so that no alarm is late.
const DAILY_CHECK_DAYS: i64 = EXPIRY_WARNING_DAYS[0] + REGISTRY_CHECK_DAYS;

/// What a proof shows of its hash: nobody finds another workspace with the same.
const TOKEN_BYTES: usize = 20;

/// What is known of a host beyond whose it is. The default is a host nobody has looked at, on the operator's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainVerification {
    /// It answers only once it is proven.
    pub needs_proof: bool,
    /// When the proof was last seen.
    pub proven_at: Option<Timestamp>,
    /// Since when the proof is gone.
    pub missing_since: Option<Timestamp>,
    /// Since when it answers no more, because the proof stayed away.
    pub suspended_at: Option<Timestamp>,
    /// Since when its name leads nowhere, or elsewhere.
    pub points_away_since: Option<Timestamp>,
    /// When its registration ends.
    pub expires_at: Option<Timestamp>,
    /// When the registry last answered.
    pub registry_checked_at: Option<Timestamp>,
    /// The last of [`EXPIRY_WARNING_DAYS`] that was told.
    pub alarmed_days: Option<i64>,
    /// When DNS last answered.
    pub checked_at: Option<Timestamp>,
    /// Where its name leads instead.
    pub note: Option<String>,
}

/// Whether a host answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainStatus {
    #[default]
    Active,
    /// Not yet: it waits for its first proof.
    #[serde(rename = "unproven")]
    Unverified,
    /// No more: its proof is gone.
    Suspended,
}

impl fmt::Display for DomainStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Active => "active",
            Self::Unverified => "unproven",
            Self::Suspended => "suspended",
        })
    }
}

/// The DNS record that proves a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationRecord {
    /// The name of the TXT record.
    pub name: String,
    pub value: String,
}

impl VerificationRecord {
    /// The record by which a workspace proves a host. Whoever may write a host's DNS names the workspace with it, so it need not be a
    /// secret, and it is the same for ever: after a restore too, and when the host comes back to the same workspace.
    pub fn new(workspace: &Workspace, host: &Host) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!(
            "rlinks domain proof\n{}\n{}\n{}\n{host}",
            workspace.id,
            workspace.slug,
            workspace.created_at.ms()
        ));
        let token = hex::encode(&hash.finalize()[..TOKEN_BYTES]);
        Self { name: format!("_rlinks.{host}"), value: format!("rlinks={token}") }
    }
}

/// What a look found out. Nothing stands for what could not be asked, or was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainCheck {
    /// Whether the record is there.
    pub record: Option<RecordState>,
    /// Where the name leads.
    pub points_to: Option<PointsTo>,
    /// When the registration ends, where the registry says so.
    pub registry: Option<Option<Timestamp>>,
}

/// Whether something is in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    Present,
    /// DNS says that it is not.
    Absent,
}

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointsTo {
    Us,
    /// Nowhere or elsewhere, in words.
    Elsewhere(String),
}

/// What a look changed, each an entry in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainEvent {
    /// Proven for the first time: it answers from now on.
    Verified,
    /// Without proof for too long: it answers no more.
    Suspended,
    Resumed,
    /// The registration ends soon.
    Expiring {
        /// In so many days; less than none where it is over.
        days: i64,
        on: String,
    },
    /// The name leads nowhere, or elsewhere.
    PointsAway(String),
    /// It leads here again.
    PointsHere,
}

impl DomainEvent {
    /// The action in the log.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Verified => "domain.verify",
            Self::Suspended => "domain.suspend",
            Self::Resumed => "domain.resume",
            Self::Expiring { .. } => "domain.expiring",
            Self::PointsAway(_) => "domain.points_away",
            Self::PointsHere => "domain.points_here",
        }
    }

    /// Whether somebody should do something about it.
    pub const fn is_warning(&self) -> bool {
        matches!(self, Self::Suspended | Self::Expiring { .. } | Self::PointsAway(_))
    }
}

impl fmt::Display for DomainEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified => out.write_str("proven by DNS: it answers"),
            Self::Suspended => out.write_str("its proof was missing for 72 hours: it answers no more"),
            Self::Resumed => out.write_str("its proof is back: it answers again"),
            Self::Expiring { days, on } if *days < 0 => write!(out, "its registration ended on {on}"),
            Self::Expiring { days: 1, on } => write!(out, "its registration ends in 1 day, on {on}"),
            Self::Expiring { days, on } => write!(out, "its registration ends in {days} days, on {on}"),
            Self::PointsAway(why) => out.write_str(why),
            Self::PointsHere => out.write_str("its name leads here again"),
        }
    }
}

impl DomainVerification {
    /// One that answers only once it is proven.
    pub fn unverified() -> Self {
        Self { needs_proof: true, ..Self::default() }
    }

    pub const fn status(&self) -> DomainStatus {
        match (self.needs_proof, self.proven_at, self.suspended_at) {
            (_, _, Some(_)) => DomainStatus::Suspended,
            (true, None, None) => DomainStatus::Unverified,
            _ => DomainStatus::Active,
        }
    }

    /// Whether the registry is to be asked again.
    pub fn is_registry_due(&self, now: Timestamp) -> bool {
        let near = self.expires_at.is_some_and(|end| days_between(now, end) <= DAILY_CHECK_DAYS);
        near || self.registry_checked_at.is_none_or(|then| days_between(then, now) >= REGISTRY_CHECK_DAYS)
    }

    /// Whether a claim that was never proven is over. Only a look that saw no proof ends one.
    pub fn claim_expired(&self, check: &DomainCheck, created_at: Timestamp, now: Timestamp) -> bool {
        self.status() == DomainStatus::Unverified
            && check.record == Some(RecordState::Absent)
            && now.ms() - created_at.ms() >= GRACE_PERIOD_MS
    }

    /// What is known after a look, and what that changed.
    pub fn observe(&self, check: &DomainCheck, now: Timestamp) -> (Self, Vec<DomainEvent>) {
        let (mut next, mut events) = (self.clone(), Vec::new());
        if self.needs_proof
            && let Some(found) = check.record
        {
            events.extend(next.observe_record(found, now));
        }
        // Where the name of a host leads that nobody has proven is nobody's business yet.
        if let Some(points) = check.points_to.as_ref().filter(|_| next.status() != DomainStatus::Unverified) {
            next.checked_at = Some(now);
            events.extend(next.observe_address(points, now));
        }
        if let Some(end) = check.registry {
            next.registry_checked_at = Some(now);
            next.expires_at = end;
        }
        events.extend(next.expiry_warning(now));
        (next, events)
    }

    fn observe_record(&mut self, found: RecordState, now: Timestamp) -> Option<DomainEvent> {
        self.checked_at = Some(now);
        let before = self.status();
        match found {
            RecordState::Present => {
                (self.proven_at, self.missing_since, self.suspended_at) = (Some(now), None, None);
                match before {
                    DomainStatus::Active => None,
                    DomainStatus::Unverified => Some(DomainEvent::Verified),
                    DomainStatus::Suspended => Some(DomainEvent::Resumed),
                }
            }
            RecordState::Absent => {
                let since = *self.missing_since.get_or_insert(now);
                let over = before == DomainStatus::Active && now.ms() - since.ms() >= GRACE_PERIOD_MS;
                over.then(|| {
                    self.suspended_at = Some(now);
                    DomainEvent::Suspended
                })
            }
        }
    }

    fn observe_address(&mut self, points: &PointsTo, now: Timestamp) -> Option<DomainEvent> {
        match (points, self.points_away_since) {
            (PointsTo::Us, None) => None,
            (PointsTo::Us, Some(_)) => {
                (self.points_away_since, self.note) = (None, None);
                Some(DomainEvent::PointsHere)
            }
            (PointsTo::Elsewhere(why), since) => {
                self.points_away_since = since.or(Some(now));
                self.note = Some(why.clone());
                since.is_none().then(|| DomainEvent::PointsAway(why.clone()))
            }
        }
    }

    /// Tells once of each mark that is passed. A registration that was renewed can be told of again.
    fn expiry_warning(&mut self, now: Timestamp) -> Option<DomainEvent> {
        let Some(end) = self.expires_at else {
            self.alarmed_days = None;
            return None;
        };
        let left = days_between(now, end);
        let passed = EXPIRY_WARNING_DAYS.into_iter().filter(|mark| left <= *mark).min();
        let is_new = passed.is_some_and(|mark| self.alarmed_days.is_none_or(|told| mark < told));
        self.alarmed_days = passed;
        is_new.then(|| DomainEvent::Expiring { days: left, on: utc_date(end) })
    }

    /// What somebody should do something about, in words; nothing where all is well.
    pub fn warning(&self, now: Timestamp) -> Option<String> {
        match self.status() {
            DomainStatus::Unverified => return Some("waits for its proof by DNS".to_owned()),
            DomainStatus::Suspended => return Some(DomainEvent::Suspended.to_string()),
            DomainStatus::Active => {}
        }
        if let Some(since) = self.missing_since {
            let left = (GRACE_PERIOD_MS - (now.ms() - since.ms())).max(0) / HOUR_MS;
            let hours = if left == 1 { "hour" } else { "hours" };
            return Some(format!("its proof is missing; it answers for {left} more {hours}"));
        }
        if let Some(end) = self.expires_at.filter(|end| days_between(now, *end) <= EXPIRY_WARNING_DAYS[0]) {
            return Some(
                DomainEvent::Expiring { days: days_between(now, end), on: utc_date(end) }.to_string(),
            );
        }
        self.points_away_since.and(self.note.clone())
    }
}

/// The UTC day of a moment, as people write it.
pub fn utc_date(at: Timestamp) -> String {
    at.to_string().chars().take("2027-01-31".len()).collect()
}

/// Whole days from one moment to another.
const fn days_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.ms() - from.ms()).div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::{
        DAY_MS, DomainCheck, DomainEvent, DomainStatus, DomainVerification, HOUR_MS, PointsTo, RecordState,
    };
    use crate::Timestamp;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn proof(found: RecordState) -> DomainCheck {
        DomainCheck { record: Some(found), ..DomainCheck::default() }
    }

    fn after(
        custody: &DomainVerification,
        seen: &DomainCheck,
        hours: i64,
    ) -> (DomainVerification, Vec<DomainEvent>) {
        custody.observe(seen, NOW.plus_ms(hours * HOUR_MS))
    }

    #[test]
    fn record_missing_for_72_hours_suspends_the_domain_until_it_returns() {
        let (proven, events) = after(&DomainVerification::unverified(), &proof(RecordState::Present), 0);
        assert_eq!((proven.status(), events), (DomainStatus::Active, vec![DomainEvent::Verified]));
        let (missing, events) = after(&proven, &proof(RecordState::Absent), 24);
        assert_eq!((missing.status(), events), (DomainStatus::Active, vec![]));
        let (still, _) = after(&missing, &proof(RecordState::Absent), 24 + 71);
        assert_eq!(still.status(), DomainStatus::Active);
        let (back, events) = after(&still, &proof(RecordState::Present), 24 + 71);
        assert_eq!((back.missing_since, events), (None, vec![]));
        let (gone, events) = after(&still, &proof(RecordState::Absent), 24 + 73);
        assert_eq!((gone.status(), events), (DomainStatus::Suspended, vec![DomainEvent::Suspended]));
        assert_eq!(after(&gone, &proof(RecordState::Absent), 24 + 99).1, []);
        let (back, events) = after(&gone, &proof(RecordState::Present), 24 + 99);
        assert_eq!((back.status(), events), (DomainStatus::Active, vec![DomainEvent::Resumed]));
    }

    #[test]
    fn failed_lookup_changes_nothing() {
        let (proven, _) = after(&DomainVerification::unverified(), &proof(RecordState::Present), 0);
        let (missing, _) = after(&proven, &proof(RecordState::Absent), 1);
        for hours in [2, 100, 100_000] {
            assert_eq!(after(&missing, &DomainCheck::default(), hours), (missing.clone(), vec![]));
            assert!(!DomainVerification::unverified().claim_expired(
                &DomainCheck::default(),
                NOW,
                NOW.plus_ms(hours * HOUR_MS)
            ));
        }
    }

    #[test]
    fn operator_approved_host_is_never_suspended() {
        let (next, events) = after(&DomainVerification::default(), &proof(RecordState::Absent), 100);
        assert_eq!((next, events), (DomainVerification::default(), vec![]));
    }

    #[test]
    fn expiry_warnings_are_given_once_each_and_again_after_a_renewal() {
        let mut custody = DomainVerification::default();
        let mut told = Vec::new();
        for left in [90, 61, 60, 59, 31, 29, 8, 6, 5, -1, 364, 59] {
            let end = NOW.plus_ms(left * DAY_MS);
            let (next, events) =
                custody.observe(&DomainCheck { registry: Some(Some(end)), ..DomainCheck::default() }, NOW);
            custody = next;
            told.extend(events.iter().map(|event| match event {
                DomainEvent::Expiring { days, .. } => *days,
                other => panic!("{other:?}"),
            }));
        }
        assert_eq!(told, [60, 29, 6, 59]);
        // Also without a fresh word of the registry: time goes on.
        let (custody, _) = custody.observe(&DomainCheck::default(), NOW.plus_ms(29 * DAY_MS));
        assert_eq!(custody.alarmed_days, Some(30));
    }

    #[test]
    fn unverified_host_is_checked_for_its_record_only() {
        let points = Some(PointsTo::Elsewhere("nowhere".to_owned()));
        let seen = DomainCheck { points_to: points.clone(), ..proof(RecordState::Absent) };
        let (waiting, events) = after(&DomainVerification::unverified(), &seen, 0);
        assert_eq!((waiting.points_away_since, waiting.checked_at, events), (None, Some(NOW), vec![]));
        let (_, events) =
            after(&waiting, &DomainCheck { points_to: points, ..proof(RecordState::Present) }, 1);
        assert_eq!(events, [DomainEvent::Verified, DomainEvent::PointsAway("nowhere".to_owned())]);
    }

    #[test]
    fn host_pointing_elsewhere_is_reported_once() {
        let away = |why: &str| DomainCheck {
            points_to: Some(PointsTo::Elsewhere(why.to_owned())),
            ..DomainCheck::default()
        };
        let (first, events) = after(&DomainVerification::default(), &away("nowhere"), 0);
        assert_eq!(events, [DomainEvent::PointsAway("nowhere".to_owned())]);
        let (second, events) = after(&first, &away("elsewhere"), 24);
        assert_eq!((second.note.as_deref(), events), (Some("elsewhere"), vec![]));
        assert_eq!(second.points_away_since, Some(NOW));
        let here = DomainCheck { points_to: Some(PointsTo::Us), ..DomainCheck::default() };
        let (back, events) = after(&second, &here, 48);
        assert_eq!((back.points_away_since, back.note, events), (None, None, vec![DomainEvent::PointsHere]));
    }

    #[test]
    fn registry_is_queried_weekly_and_daily_near_expiry() {
        let asked = |left: i64| DomainVerification {
            registry_checked_at: Some(NOW),
            expires_at: Some(NOW.plus_ms(left * DAY_MS)),
            ..DomainVerification::default()
        };
        let due = |left, days: i64| asked(left).is_registry_due(NOW.plus_ms(days * DAY_MS));
        assert!(DomainVerification::default().is_registry_due(NOW));
        assert_eq!(
            [due(300, 1), due(300, 6), due(300, 7), due(68, 1), due(60, 1)],
            [false, false, true, true, true]
        );
    }
}
