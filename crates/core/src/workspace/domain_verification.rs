//! Custody of a host: whether its workspace has proven it by DNS, and what was last seen of it there and at its registry.
//!
//! A look at the network is made elsewhere and comes in as [`Seen`]; [`Custody::after`] says what it changes. What could not be found
//! out changes nothing: an outage is never a missing proof.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::{Host, Timestamp, Workspace};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// For so long a claim waits for its first proof, and a proof may be missing before its host answers no more.
pub const PATIENCE_MS: i64 = 72 * HOUR_MS;
/// So many days before a registration ends somebody is told, once each.
pub const ALARM_DAYS: [i64; 3] = [60, 30, 7];
/// Registries are asked once in so many days...
const REGISTRY_DAYS: i64 = 7;
/// ...and every day when so many days or fewer are left, so that no alarm is late.
const NEAR_DAYS: i64 = ALARM_DAYS[0] + REGISTRY_DAYS;

/// What a proof shows of its hash: nobody finds another workspace with the same.
const TOKEN_BYTES: usize = 20;

/// What is known of a host beyond whose it is. The default is a host nobody has looked at, on the operator's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custody {
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
    /// The last of [`ALARM_DAYS`] that was told.
    pub alarmed_days: Option<i64>,
    /// When DNS last answered.
    pub checked_at: Option<Timestamp>,
    /// Where its name leads instead.
    pub note: Option<String>,
}

/// Whether a host answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It does.
    #[default]
    Active,
    /// Not yet: it waits for its first proof.
    #[serde(rename = "unproven")]
    Unproven,
    /// No more: its proof is gone.
    Suspended,
}

impl fmt::Display for Standing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Active => "active",
            Self::Unproven => "unproven",
            Self::Suspended => "suspended",
        })
    }
}

/// The DNS record that proves a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The name of the TXT record.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Proof {
    /// The record by which a workspace proves a host. Whoever may write a host's DNS names the workspace with it, so it need not be a
    /// secret, and it is the same for ever: after a restore too, and when the host comes back to the same workspace.
    pub fn of(workspace: &Workspace, host: &Host) -> Self {
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
pub struct Seen {
    /// Whether the record is there.
    pub proof: Option<Found>,
    /// Where the name leads.
    pub points: Option<Points>,
    /// When the registration ends, where the registry says so.
    pub registry: Option<Option<Timestamp>>,
}

/// Whether something is in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is.
    There,
    /// DNS says that it is not.
    Missing,
}

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Points {
    /// Where it should.
    Here,
    /// Nowhere or elsewhere, in words.
    Away(String),
}

/// What a look changed, each an entry in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Proven for the first time: it answers from now on.
    Verified,
    /// Without proof for too long: it answers no more.
    Suspended,
    /// Proven again.
    Resumed,
    /// The registration ends soon.
    Expiring {
        /// In so many days; less than none where it is over.
        days: i64,
        /// On this day.
        on: String,
    },
    /// The name leads nowhere, or elsewhere.
    PointsAway(String),
    /// It leads here again.
    PointsHere,
}

impl Event {
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
    pub const fn is_alarm(&self) -> bool {
        matches!(self, Self::Suspended | Self::Expiring { .. } | Self::PointsAway(_))
    }
}

impl fmt::Display for Event {
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

impl Custody {
    /// One that answers only once it is proven.
    pub fn waiting() -> Self {
        Self { needs_proof: true, ..Self::default() }
    }

    /// Whether it answers.
    pub const fn standing(&self) -> Standing {
        match (self.needs_proof, self.proven_at, self.suspended_at) {
            (_, _, Some(_)) => Standing::Suspended,
            (true, None, None) => Standing::Unproven,
            _ => Standing::Active,
        }
    }

    /// Whether the registry is to be asked again.
    pub fn is_registry_due(&self, now: Timestamp) -> bool {
        let near = self.expires_at.is_some_and(|end| days(now, end) <= NEAR_DAYS);
        near || self.registry_checked_at.is_none_or(|then| days(then, now) >= REGISTRY_DAYS)
    }

    /// Whether a claim that was never proven is over. Only a look that saw no proof ends one.
    pub fn lapses(&self, seen: &Seen, created_at: Timestamp, now: Timestamp) -> bool {
        self.standing() == Standing::Unproven
            && seen.proof == Some(Found::Missing)
            && now.ms() - created_at.ms() >= PATIENCE_MS
    }

    /// What is known after a look, and what that changed.
    pub fn after(&self, seen: &Seen, now: Timestamp) -> (Self, Vec<Event>) {
        let (mut next, mut events) = (self.clone(), Vec::new());
        if self.needs_proof
            && let Some(found) = seen.proof
        {
            events.extend(next.prove(found, now));
        }
        // Where the name of a host leads that nobody has proven is nobody's business yet.
        if let Some(points) = seen.points.as_ref().filter(|_| next.standing() != Standing::Unproven) {
            next.checked_at = Some(now);
            events.extend(next.point(points, now));
        }
        if let Some(end) = seen.registry {
            next.registry_checked_at = Some(now);
            next.expires_at = end;
        }
        events.extend(next.alarm(now));
        (next, events)
    }

    fn prove(&mut self, found: Found, now: Timestamp) -> Option<Event> {
        self.checked_at = Some(now);
        let before = self.standing();
        match found {
            Found::There => {
                (self.proven_at, self.missing_since, self.suspended_at) = (Some(now), None, None);
                match before {
                    Standing::Active => None,
                    Standing::Unproven => Some(Event::Verified),
                    Standing::Suspended => Some(Event::Resumed),
                }
            }
            Found::Missing => {
                let since = *self.missing_since.get_or_insert(now);
                let over = before == Standing::Active && now.ms() - since.ms() >= PATIENCE_MS;
                over.then(|| {
                    self.suspended_at = Some(now);
                    Event::Suspended
                })
            }
        }
    }

    fn point(&mut self, points: &Points, now: Timestamp) -> Option<Event> {
        match (points, self.points_away_since) {
            (Points::Here, None) => None,
            (Points::Here, Some(_)) => {
                (self.points_away_since, self.note) = (None, None);
                Some(Event::PointsHere)
            }
            (Points::Away(why), since) => {
                self.points_away_since = since.or(Some(now));
                self.note = Some(why.clone());
                since.is_none().then(|| Event::PointsAway(why.clone()))
            }
        }
    }

    /// Tells once of each mark that is passed. A registration that was renewed can be told of again.
    fn alarm(&mut self, now: Timestamp) -> Option<Event> {
        let Some(end) = self.expires_at else {
            self.alarmed_days = None;
            return None;
        };
        let left = days(now, end);
        let passed = ALARM_DAYS.into_iter().filter(|mark| left <= *mark).min();
        let is_new = passed.is_some_and(|mark| self.alarmed_days.is_none_or(|told| mark < told));
        self.alarmed_days = passed;
        is_new.then(|| Event::Expiring { days: left, on: date(end) })
    }

    /// What somebody should do something about, in words; nothing where all is well.
    pub fn concern(&self, now: Timestamp) -> Option<String> {
        match self.standing() {
            Standing::Unproven => return Some("waits for its proof by DNS".to_owned()),
            Standing::Suspended => return Some(Event::Suspended.to_string()),
            Standing::Active => {}
        }
        if let Some(since) = self.missing_since {
            let left = (PATIENCE_MS - (now.ms() - since.ms())).max(0) / HOUR_MS;
            let hours = if left == 1 { "hour" } else { "hours" };
            return Some(format!("its proof is missing; it answers for {left} more {hours}"));
        }
        if let Some(end) = self.expires_at.filter(|end| days(now, *end) <= ALARM_DAYS[0]) {
            return Some(Event::Expiring { days: days(now, end), on: date(end) }.to_string());
        }
        self.points_away_since.and(self.note.clone())
    }
}

/// The UTC day of a moment, as people write it.
pub fn date(at: Timestamp) -> String {
    at.to_string().chars().take("2027-01-31".len()).collect()
}

/// Whole days from one moment to another.
const fn days(from: Timestamp, to: Timestamp) -> i64 {
    (to.ms() - from.ms()).div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::{Custody, DAY_MS, Event, Found, HOUR_MS, Points, Seen, Standing};
    use crate::Timestamp;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn proof(found: Found) -> Seen {
        Seen { proof: Some(found), ..Seen::default() }
    }

    fn after(custody: &Custody, seen: &Seen, hours: i64) -> (Custody, Vec<Event>) {
        custody.after(seen, NOW.plus_ms(hours * HOUR_MS))
    }

    #[test]
    fn a_proof_that_stays_away_for_72_hours_ends_the_answers_and_one_that_returns_brings_them_back() {
        let (proven, events) = after(&Custody::waiting(), &proof(Found::There), 0);
        assert_eq!((proven.standing(), events), (Standing::Active, vec![Event::Verified]));
        let (missing, events) = after(&proven, &proof(Found::Missing), 24);
        assert_eq!((missing.standing(), events), (Standing::Active, vec![]));
        let (still, _) = after(&missing, &proof(Found::Missing), 24 + 71);
        assert_eq!(still.standing(), Standing::Active);
        let (back, events) = after(&still, &proof(Found::There), 24 + 71);
        assert_eq!((back.missing_since, events), (None, vec![]));
        let (gone, events) = after(&still, &proof(Found::Missing), 24 + 73);
        assert_eq!((gone.standing(), events), (Standing::Suspended, vec![Event::Suspended]));
        assert_eq!(after(&gone, &proof(Found::Missing), 24 + 99).1, []);
        let (back, events) = after(&gone, &proof(Found::There), 24 + 99);
        assert_eq!((back.standing(), events), (Standing::Active, vec![Event::Resumed]));
    }

    #[test]
    fn what_could_not_be_asked_changes_nothing() {
        let (proven, _) = after(&Custody::waiting(), &proof(Found::There), 0);
        let (missing, _) = after(&proven, &proof(Found::Missing), 1);
        for hours in [2, 100, 100_000] {
            assert_eq!(after(&missing, &Seen::default(), hours), (missing.clone(), vec![]));
            assert!(!Custody::waiting().lapses(&Seen::default(), NOW, NOW.plus_ms(hours * HOUR_MS)));
        }
    }

    #[test]
    fn a_host_on_the_operators_word_is_never_suspended() {
        let (next, events) = after(&Custody::default(), &proof(Found::Missing), 100);
        assert_eq!((next, events), (Custody::default(), vec![]));
    }

    #[test]
    fn each_mark_before_the_end_of_a_registration_is_told_once_and_again_after_a_renewal() {
        let mut custody = Custody::default();
        let mut told = Vec::new();
        for left in [90, 61, 60, 59, 31, 29, 8, 6, 5, -1, 364, 59] {
            let end = NOW.plus_ms(left * DAY_MS);
            let (next, events) = custody.after(&Seen { registry: Some(Some(end)), ..Seen::default() }, NOW);
            custody = next;
            told.extend(events.iter().map(|event| match event {
                Event::Expiring { days, .. } => *days,
                other => panic!("{other:?}"),
            }));
        }
        assert_eq!(told, [60, 29, 6, 59]);
        // Also without a fresh word of the registry: time goes on.
        let (custody, _) = custody.after(&Seen::default(), NOW.plus_ms(29 * DAY_MS));
        assert_eq!(custody.alarmed_days, Some(30));
    }

    #[test]
    fn of_a_host_nobody_has_proven_only_the_proof_counts() {
        let points = Some(Points::Away("nowhere".to_owned()));
        let seen = Seen { points: points.clone(), ..proof(Found::Missing) };
        let (waiting, events) = after(&Custody::waiting(), &seen, 0);
        assert_eq!((waiting.points_away_since, waiting.checked_at, events), (None, Some(NOW), vec![]));
        let (_, events) = after(&waiting, &Seen { points, ..proof(Found::There) }, 1);
        assert_eq!(events, [Event::Verified, Event::PointsAway("nowhere".to_owned())]);
    }

    #[test]
    fn a_name_that_leads_away_is_told_once() {
        let away = |why: &str| Seen { points: Some(Points::Away(why.to_owned())), ..Seen::default() };
        let (first, events) = after(&Custody::default(), &away("nowhere"), 0);
        assert_eq!(events, [Event::PointsAway("nowhere".to_owned())]);
        let (second, events) = after(&first, &away("elsewhere"), 24);
        assert_eq!((second.note.as_deref(), events), (Some("elsewhere"), vec![]));
        assert_eq!(second.points_away_since, Some(NOW));
        let here = Seen { points: Some(Points::Here), ..Seen::default() };
        let (back, events) = after(&second, &here, 48);
        assert_eq!((back.points_away_since, back.note, events), (None, None, vec![Event::PointsHere]));
    }

    #[test]
    fn a_registry_is_asked_weekly_and_near_the_end_daily() {
        let asked = |left: i64| Custody {
            registry_checked_at: Some(NOW),
            expires_at: Some(NOW.plus_ms(left * DAY_MS)),
            ..Custody::default()
        };
        let due = |left, days: i64| asked(left).is_registry_due(NOW.plus_ms(days * DAY_MS));
        assert!(Custody::default().is_registry_due(NOW));
        assert_eq!(
            [due(300, 1), due(300, 6), due(300, 7), due(68, 1), due(60, 1)],
            [false, false, true, true, true]
        );
    }
}
