//! How much one caller may do in an hour, and how much there may be of something.
//!
//! Requests count for the key and, at [`PRINCIPAL_FACTOR`] times its limit, for whoever is behind all their keys. Creations count for
//! the person or the sponsor, whichever front end they come through, and are given back for what was not created in the end.

use std::time::Duration;

use rlinks_core::workspace::policy::Preset;
use rlinks_core::{Actor, Workspace};
use rlinks_store::{Quota, StoreError, WORKSPACE_FACTOR};

use crate::limits::sliding_hour::HourlyLimit;
use crate::limits::{HourlyLimits, LimitedSubject, RateLimitStatus};
use crate::{Caller, Ops, OpsError};

/// How much more than one key all keys of one principal may do.
const PRINCIPAL_FACTOR: u32 = 10;
const DEFAULT_KEYS: u32 = 50;
const DEFAULT_INVITATIONS: u32 = 50;
pub const DEFAULT_DOMAINS: u32 = 20;
pub const DEFAULT_LIVE_STREAMS: u32 = 20;
pub const DEFAULT_DNS_CHECKS_PER_HOUR: u32 = 30;
/// How often what was counted is written: what a crash may forget.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Writes after which uses that count no longer are deleted.
const WRITES_PER_PURGE: u32 = 600;

/// The most one member may have or do; ten times as much is the most of their workspace. `None` is the default, 0 no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    pub keys: Option<u32>,
    pub invitations: Option<u32>,
    pub domains: Option<u32>,
    pub live_streams: Option<u32>,
    pub dns_checks_per_hour: Option<u32>,
}

impl ResourceLimits {
    /// In a workspace of preset `platform` people may have as many keys and invitations as they like, unless the operator says otherwise.
    fn key_quota(&self, workspace: &Workspace) -> Option<Quota> {
        quota(self.keys.or_else(|| default_outside_platform(workspace, DEFAULT_KEYS)))
    }

    fn invitation_quota(&self, workspace: &Workspace) -> Option<Quota> {
        quota(self.invitations.or_else(|| default_outside_platform(workspace, DEFAULT_INVITATIONS)))
    }

    fn domain_quota(&self) -> Option<Quota> {
        quota(self.domains.or(Some(DEFAULT_DOMAINS)))
    }

    fn live_streams_per_member(&self) -> Option<u32> {
        nonzero(self.live_streams.or(Some(DEFAULT_LIVE_STREAMS)))
    }

    fn dns_checks_per_member(&self) -> Option<u32> {
        nonzero(self.dns_checks_per_hour.or(Some(DEFAULT_DNS_CHECKS_PER_HOUR)))
    }
}

fn default_outside_platform(workspace: &Workspace, default: u32) -> Option<u32> {
    (workspace.policy.preset != Preset::Platform).then_some(default)
}

fn nonzero(limit: Option<u32>) -> Option<u32> {
    limit.filter(|limit| *limit > 0)
}

fn quota(per_member: Option<u32>) -> Option<Quota> {
    nonzero(per_member).map(|per_member| Quota { per_member })
}

/// How many live streams there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamQuota {
    pub per_principal: u32,
    pub per_workspace: u32,
}

/// Whose hourly limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHolder {
    Key,
    Member,
    /// All keys and sessions of one member, or of one sponsor, together.
    Principal,
    Workspace,
}

impl std::fmt::Display for LimitHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Key => "for this API key",
            Self::Member => "for your account",
            Self::Principal => "for all your API keys together",
            Self::Workspace => "for this workspace",
        })
    }
}

/// The limit of one caller.
pub(crate) struct CreationLimit<'a> {
    limits: &'a HourlyLimits,
    subject: LimitedSubject,
    /// `None`: as many as they like.
    per_hour: Option<u32>,
}

impl Ops {
    /// Counts a request of the API, or a form that does the same: for the key, or for a person once in however many sessions; and for
    /// whoever is behind all of them. How the caller stands is told either way, where they are limited.
    pub fn count_request(&self, caller: &Caller) -> Result<Option<RateLimitStatus>, OpsError> {
        let limit = caller.workspace.policy.limits.requests_per_hour;
        let Some(limit) = limit.filter(|_| !caller.is_trusted()) else { return Ok(None) };
        let (holder, id) = match caller.key() {
            Some(key) => (LimitHolder::Key, key.id),
            None => (LimitHolder::Member, caller.principal_id()),
        };
        let own = (HourlyLimit::Requests.subject(id), limit, holder);
        let together = HourlyLimit::PrincipalRequests.subject(caller.principal_id());
        let together = (together, limit.saturating_mul(PRINCIPAL_FACTOR), LimitHolder::Principal);
        self.take_both(own, together)
            .map(Some)
            .map_err(|(status, holder)| OpsError::RequestLimit { status, holder })
    }

    /// Counts a question to DNS, for the caller and for their workspace.
    pub(crate) fn count_dns_check(&self, caller: &Caller) -> Result<(), OpsError> {
        let limit = self.resource_limits.dns_checks_per_member();
        let Some(limit) = limit.filter(|_| !caller.is_trusted()) else { return Ok(()) };
        let own = (HourlyLimit::DnsChecks.subject(caller.principal_id()), limit, LimitHolder::Member);
        let workspace = HourlyLimit::WorkspaceDnsChecks.subject(caller.workspace.id);
        let workspace = (workspace, limit.saturating_mul(WORKSPACE_FACTOR), LimitHolder::Workspace);
        self.take_both(own, workspace)
            .map(drop)
            .map_err(|(status, holder)| OpsError::DnsCheckLimit { status, holder })
    }

    /// Takes one use of each of two limits, or of neither. Gives the status of the one with less left.
    fn take_both(
        &self,
        (first, first_limit, first_holder): (LimitedSubject, u32, LimitHolder),
        (second, second_limit, second_holder): (LimitedSubject, u32, LimitHolder),
    ) -> Result<RateLimitStatus, (RateLimitStatus, LimitHolder)> {
        let limits = &self.hourly_limits;
        let of_first = limits.take(first, first_limit, 1).map_err(|status| (status, first_holder))?;
        match limits.take(second, second_limit, 1) {
            Ok(of_second) if of_second.remaining < of_first.remaining => Ok(of_second),
            Ok(_) => Ok(of_first),
            Err(status) => {
                limits.refund(first, 1);
                Err((status, second_holder))
            }
        }
    }

    pub(crate) fn creation_limit(&self, caller: &Caller) -> CreationLimit<'_> {
        let per_hour = caller.workspace.policy.limits.creations_per_hour;
        CreationLimit {
            limits: &self.hourly_limits,
            subject: HourlyLimit::Creations.subject(caller.principal_id()),
            per_hour: per_hour.filter(|_| !caller.is_trusted()),
        }
    }

    pub(crate) fn key_quota(&self, caller: &Caller) -> Option<Quota> {
        self.resource_limits.key_quota(&caller.workspace)
    }

    pub(crate) fn invitation_quota(&self, caller: &Caller) -> Option<Quota> {
        self.resource_limits.invitation_quota(&caller.workspace)
    }

    pub(crate) fn domain_quota(&self) -> Option<Quota> {
        self.resource_limits.domain_quota()
    }

    /// How many live streams a principal and a workspace may have at a time; `None`: as many as there are places.
    pub fn stream_quota(&self) -> Option<StreamQuota> {
        let per_principal = self.resource_limits.live_streams_per_member()?;
        let per_workspace = per_principal.saturating_mul(WORKSPACE_FACTOR);
        Some(StreamQuota { per_principal, per_workspace })
    }
}

impl Ops {
    /// Counts on from what earlier processes counted. A store that can't be read leaves the counts at nothing: limits never keep a
    /// server from starting.
    pub async fn load_limit_uses(&self) {
        let since = self.hourly_limits.counted_since();
        let mut last = None;
        loop {
            match self.store.limit_uses_since(since, last.as_ref()).await {
                Ok(rows) if rows.is_empty() => return,
                Ok(rows) => {
                    self.hourly_limits.restore(&rows);
                    last = rows.into_iter().next_back();
                }
                Err(error) => {
                    tracing::warn!(%error, "what was counted towards hourly limits could not be read; counting begins anew");
                    return;
                }
            }
        }
    }

    /// Writes what was counted every second, until the task is dropped.
    pub async fn keep_limit_uses(&self) {
        let mut writes = 0;
        loop {
            tokio::time::sleep(WRITE_INTERVAL).await;
            self.save_limit_uses().await;
            writes += 1;
            if writes >= WRITES_PER_PURGE {
                writes = 0;
                if let Err(error) = self.purge_limit_uses().await {
                    tracing::debug!(%error, "old uses of hourly limits could not be deleted");
                }
            }
        }
    }

    /// Writes what was counted since the last time. What can't be written waits for the next time, and counts in memory meanwhile.
    pub async fn save_limit_uses(&self) {
        let mut unsaved =
            PendingSave { limits: &self.hourly_limits, rows: self.hourly_limits.take_unsaved() };
        if unsaved.rows.is_empty() {
            return;
        }
        match self.writer.add_limit_uses(&unsaved.rows).await {
            Ok(()) => unsaved.rows.clear(),
            Err(error) => tracing::debug!(%error, "uses of hourly limits could not be written and wait"),
        }
    }

    /// Deletes uses that count no longer.
    pub(crate) async fn purge_limit_uses(&self) -> Result<u64, StoreError> {
        self.writer.purge_limit_uses(self.hourly_limits.counted_since()).await
    }
}

/// Uses on their way to the store. If they don't get there, because it fails or the task is dropped, they go back.
struct PendingSave<'a> {
    limits: &'a HourlyLimits,
    rows: Vec<rlinks_store::LimitUse>,
}

impl Drop for PendingSave<'_> {
    fn drop(&mut self) {
        self.limits.put_back_unsaved(&self.rows);
    }
}

impl Caller {
    /// Whom hosts and invitations count for; the operator's count for the workspace alone.
    pub(crate) fn counted_for(&self) -> Option<&Actor> {
        (!self.is_trusted()).then_some(&self.principal)
    }
}

impl CreationLimit<'_> {
    /// Takes one creation. How the caller stands is told either way, where they are limited.
    pub(crate) fn take(&self) -> Result<Option<RateLimitStatus>, RateLimitStatus> {
        self.per_hour.map(|limit| self.limits.take(self.subject, limit, 1)).transpose()
    }

    /// Takes as many of `wanted` creations as there are left, and says how the caller stands where that is none.
    pub(crate) fn take_up_to(&self, wanted: usize) -> Result<usize, RateLimitStatus> {
        let mut refused = None;
        let mut take = || self.take().map_err(|status| refused = Some(status)).is_ok();
        let taken = (0..wanted).take_while(|_| take()).count();
        match refused {
            Some(status) if taken == 0 => Err(status),
            _ => Ok(taken),
        }
    }

    /// Gives creations back that were taken and not made.
    pub(crate) fn refund(&self, unused: usize) {
        if self.per_hour.is_some() && unused > 0 {
            self.limits.refund(self.subject, u32::try_from(unused).unwrap_or(u32::MAX));
        }
    }
}
