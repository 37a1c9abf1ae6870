//! Whether a target is safe to lead to: one checker for every face, asked when a link is made, when it is given another target, when it
//! is switched on again, and once a day ([`recheck`]).
//!
//! It asks the operator's block list ([`blocklist`]) and, where a key is configured, Google Safe Browsing ([`safe_browsing`]). Nothing is
//! ever fetched from a target.

pub mod blocklist;
mod canonical;
pub mod recheck;
pub mod safe_browsing;

use std::path::PathBuf;

use rlinks_core::{Link, LinkState, Target};
use rlinks_store::clock::Clock;
use serde::Serialize;

use self::blocklist::BlocklistFile;
use self::safe_browsing::{Finding, SafeBrowsing};
use super::{Ops, OpsError};

#[derive(Clone, Debug, Default)]
pub struct SafetyConfig {
    /// The file of the block list.
    pub blocklist: Option<PathBuf>,
    /// How Google is asked.
    pub safe_browsing: Option<safe_browsing::SafeBrowsingConfig>,
    /// What to do while it cannot be asked.
    pub when_unavailable: WhenUnavailable,
}

/// What to do with a target nobody could be asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// Let it be; the daily job asks again.
    #[default]
    Allow,
    Refuse,
}

/// What is known of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has anything against it.
    Safe,
    Unsafe(UnsafeReason),
    /// Safe Browsing could not be asked. What that means is configured.
    Unknown(String),
    /// There is a block list and it cannot be read. That never means safe.
    BlocklistUnreadable(String),
}

/// Why a target is not safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnsafeReason {
    pub source: ThreatSource,
    pub reason: String,
}

/// Who says that a target is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreatSource {
    Blocklist,
    SafeBrowsing,
}

impl std::fmt::Display for UnsafeReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.reason)
    }
}

/// The checker. Without anything configured everything is safe.
#[derive(Default)]
pub struct Safety {
    blocklist: Option<BlocklistFile>,
    safe_browsing: Option<SafeBrowsing>,
    when_unavailable: WhenUnavailable,
}

impl Safety {
    /// Reads and asks nothing yet.
    pub fn new(options: &SafetyConfig, clock: &Clock) -> Result<Self, String> {
        Ok(Self {
            blocklist: options.blocklist.clone().map(BlocklistFile::new),
            safe_browsing: options
                .safe_browsing
                .as_ref()
                .map(|options| SafeBrowsing::new(options, clock.clone()))
                .transpose()?,
            when_unavailable: options.when_unavailable,
        })
    }

    /// Whether there is anything to ask.
    pub fn is_enabled(&self) -> bool {
        self.blocklist.is_some() || self.safe_browsing.is_some()
    }

    /// The block list, where there is one.
    pub fn blocklist(&self) -> Option<&BlocklistFile> {
        self.blocklist.as_ref()
    }

    /// Whether a target is safe.
    pub async fn check(&self, target: &Target) -> Verdict {
        self.check_all(&[target]).await.pop().unwrap_or(Verdict::Safe)
    }

    /// Whether some targets are safe, in their order. Many together are far fewer questions than each by itself.
    pub async fn check_all(&self, targets: &[&Target]) -> Vec<Verdict> {
        self.check_limited(targets, usize::MAX).await
    }

    /// The same with a bound of questions to Google.
    async fn check_limited(&self, targets: &[&Target], most: usize) -> Vec<Verdict> {
        let mut verdicts = self.check_blocklist(targets).await;
        let Some(google) = &self.safe_browsing else { return verdicts };
        let open: Vec<usize> = (0..targets.len()).filter(|at| verdicts[*at] == Verdict::Safe).collect();
        let asked: Vec<&Target> = open.iter().map(|at| targets[*at]).collect();
        for (at, finding) in open.into_iter().zip(google.look_up(&asked, most).await) {
            verdicts[at] = match finding {
                Finding::NotListed => Verdict::Safe,
                Finding::Unknown(why) => Verdict::Unknown(why),
                Finding::Listed(threat) => Verdict::Unsafe(UnsafeReason {
                    source: ThreatSource::SafeBrowsing,
                    reason: format!(
                        "Google Safe Browsing lists it as {} (advisory provided by Google)",
                        threat.description()
                    ),
                }),
            };
        }
        verdicts
    }

    /// What the block list alone says.
    async fn check_blocklist(&self, targets: &[&Target]) -> Vec<Verdict> {
        let Some(file) = &self.blocklist else { return vec![Verdict::Safe; targets.len()] };
        let list = match file.get().await {
            Ok(list) => list,
            Err(why) => return vec![Verdict::BlocklistUnreadable(why); targets.len()],
        };
        let verdict = |target: &&Target| match list.blocking_entry(target) {
            None => Verdict::Safe,
            Some(entry) => Verdict::Unsafe(UnsafeReason {
                source: ThreatSource::Blocklist,
                reason: format!("it is on the block list of this installation ({entry})"),
            }),
        };
        targets.iter().map(verdict).collect()
    }

    /// What a verdict means for whoever wants to lead there.
    pub fn enforce(&self, verdict: Verdict) -> Result<(), OpsError> {
        match verdict {
            Verdict::Safe => Ok(()),
            Verdict::Unsafe(reason) => Err(OpsError::Unsafe(reason)),
            Verdict::Unknown(_) if self.when_unavailable == WhenUnavailable::Allow => Ok(()),
            Verdict::Unknown(why) | Verdict::BlocklistUnreadable(why) => {
                Err(OpsError::SafetyUnavailable(why))
            }
        }
    }
}

impl Ops {
    /// Refuses a target that is not safe.
    pub async fn check_safety(&self, target: &Target) -> Result<(), OpsError> {
        self.safety.enforce(self.safety.check(target).await)
    }

    /// Refuses a change by which a link would begin to lead somewhere that is not safe: another target, or one that leads again. What
    /// leads there already is the daily job's business, so that its title can still be changed.
    pub(crate) async fn check_change(&self, seen: &Link, next: &Link) -> Result<(), OpsError> {
        let leads_again = next.state == LinkState::Active && seen.state != LinkState::Active;
        if next.target != seen.target || leads_again { self.check_safety(&next.target).await } else { Ok(()) }
    }
}
