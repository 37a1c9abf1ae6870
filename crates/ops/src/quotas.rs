//! What a workspace's policy lets a caller do in an hour: requests, and new links. Creations are counted for the principal, whichever
//! front end they come through, and given back for what was not created in the end.

use rlinks_store::clock::Clock;

use crate::limits::{LimitKey, RateLimit, RateLimitStatus, RateLimiter};
use crate::{Caller, Ops};

/// The limit of one caller.
pub(crate) struct CreationLimit<'a> {
    limiter: &'a RateLimiter,
    clock: &'a Clock,
    key: LimitKey,
    /// `None`: as many as they like.
    per_hour: Option<u32>,
}

impl Ops {
    /// Counts a request of the API: keys one by one; people once, in however many sessions. How the caller stands is told either way,
    /// where they are limited.
    pub fn count_request(&self, caller: &Caller) -> Result<Option<RateLimitStatus>, RateLimitStatus> {
        let key = LimitKey::Requests(caller.key().map_or_else(|| caller.principal_id(), |key| key.id));
        let limit = caller.workspace.policy.limits.requests_per_hour;
        limit
            .map(|limit| self.rate_limiter.take(key, RateLimit::hourly(limit), 1, self.clock.monotonic_ms()))
            .transpose()
    }

    pub(crate) fn creation_limit(&self, caller: &Caller) -> CreationLimit<'_> {
        let per_hour = caller.workspace.policy.limits.creations_per_hour;
        CreationLimit {
            limiter: &self.rate_limiter,
            clock: &self.clock,
            key: LimitKey::Creations(caller.principal_id()),
            per_hour: per_hour.filter(|_| !caller.is_trusted()),
        }
    }
}

impl CreationLimit<'_> {
    /// Takes one creation. How the caller stands is told either way, where they are limited.
    pub(crate) fn take(&self) -> Result<Option<RateLimitStatus>, RateLimitStatus> {
        self.per_hour
            .map(|limit| self.limiter.take(self.key, RateLimit::hourly(limit), 1, self.clock.monotonic_ms()))
            .transpose()
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
            self.limiter.refund(self.key, u32::try_from(unused).unwrap_or(u32::MAX));
        }
    }
}
