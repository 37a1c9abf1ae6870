//! What a request gets: one pure function, the same natively and at the edge.
//!
//! Caches and queries never filter by state or expiry; they hand over what they have, and this decides on every request.

use crate::error_code::ErrorCode;
use crate::host::ServedHosts;
use crate::workspace::policy::{CacheScope, InactiveResponse, Policy};
use crate::{LinkState, RedirectStatus, Route, Timestamp};

/// The facts of one request.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The normalised host of the request, which counts as ours.
    pub host: &'a str,
    /// Every host we serve.
    pub served_hosts: &'a ServedHosts,
}

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    Redirect {
        status: RedirectStatus,
        target: &'a str,
        cache: CacheControl,
    },
    /// 404. Why is for logs and `explain`; the visitor is never told.
    NotFound(NotFoundReason),
    /// 410, where the policy tells why.
    Gone(InactiveReason),
    /// 500: it would lead back to us.
    Loop,
}

impl Decision<'_> {
    /// The error it is answered with; nothing for a redirect.
    pub const fn error_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Redirect { .. } => None,
            Self::NotFound(_) => Some(ErrorCode::NotFound),
            Self::Gone(InactiveReason::Expired) => Some(ErrorCode::Expired),
            Self::Gone(InactiveReason::Disabled) => Some(ErrorCode::Disabled),
            Self::Gone(InactiveReason::Deleted) => Some(ErrorCode::Deleted),
            Self::Loop => Some(ErrorCode::LoopDetected),
        }
    }
}

/// Why a request found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFoundReason {
    Unknown,
    /// It exists, but the policy hides why it does not answer.
    Concealed(InactiveReason),
    /// `https_only`, and the target is not https: our own invariant is broken.
    Insecure,
    /// A stored object that can't be read: broken, or of a later version.
    Unreadable,
}

/// Why a link no longer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveReason {
    Expired,
    Disabled,
    Deleted,
}

/// The `Cache-Control` of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheControl {
    // `private, max-age=n`
    Private(u32),
    // `public, max-age=n`
    Public(u32),
    // `no-store`
    NoStore,
}

impl std::fmt::Display for CacheControl {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Private(seconds) => write!(out, "private, max-age={seconds}"),
            Self::Public(seconds) => write!(out, "public, max-age={seconds}"),
            Self::NoStore => out.write_str("no-store"),
        }
    }
}

/// Decides, in this order: no link or deleted; disabled; expired; not https where it must be; a loop; else the redirect.
pub fn decide<'a>(
    route: Option<Route<'a>>,
    policy: &Policy,
    visitor: &Visitor<'_>,
    now: Timestamp,
) -> Decision<'a> {
    let Some(route) = route else { return Decision::NotFound(NotFoundReason::Unknown) };
    match route.state {
        LinkState::Deleted => return inactive(policy.answers.deleted, InactiveReason::Deleted),
        LinkState::Disabled => return inactive(policy.answers.disabled, InactiveReason::Disabled),
        LinkState::Active => {}
    }
    if route.expires_at.is_some_and(|at| now > at) {
        return inactive(policy.answers.expired, InactiveReason::Expired);
    }
    if route.https_only && !route.target.starts_with("https://") {
        return Decision::NotFound(NotFoundReason::Insecure);
    }
    if route.no_loop
        && (route.target_host == visitor.host || visitor.served_hosts.contains(route.target_host))
    {
        return Decision::Loop;
    }
    Decision::Redirect {
        status: route.redirect_status,
        target: route.target,
        cache: cache_control(policy, route.expires_at, now),
    }
}

fn inactive<'a>(answer: InactiveResponse, why: InactiveReason) -> Decision<'a> {
    match answer {
        InactiveResponse::NotFound => Decision::NotFound(NotFoundReason::Concealed(why)),
        InactiveResponse::Gone => Decision::Gone(why),
    }
}

/// No cache keeps a redirect longer than the link lives.
fn cache_control(policy: &Policy, expires_at: Option<Timestamp>, now: Timestamp) -> CacheControl {
    let left = expires_at.map_or(u32::MAX, |at| u32::try_from(now.seconds_until(at)).unwrap_or(u32::MAX));
    let seconds = policy.cache.max_age.min(left);
    match policy.cache.scope {
        CacheScope::Private => CacheControl::Private(seconds),
        CacheScope::Public => CacheControl::Public(seconds),
        CacheScope::NoStore => CacheControl::NoStore,
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheControl, Decision, InactiveReason, NotFoundReason, Route, Visitor, decide};
    use crate::{Host, LinkState, Policy, Preset, RedirectStatus, ServedHosts, Timestamp};

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn route() -> Route<'static> {
        Route {
            state: LinkState::Active,
            redirect_status: RedirectStatus::MovedPermanently,
            https_only: true,
            no_loop: true,
            expires_at: None,
            target: "https://example.com/",
            target_host: "example.com",
        }
    }

    fn ask(preset: Preset, route: Option<Route<'_>>) -> Decision<'_> {
        let domains = ServedHosts::new([Host::parse("rmax.to").unwrap()], None);
        decide(
            route,
            &Policy::preset(preset),
            &Visitor { host: "other.example", served_hosts: &domains },
            NOW,
        )
    }

    #[test]
    fn link_is_served_at_the_instant_of_expiry_and_gone_after_it() {
        let at = |ms| Some(Route { expires_at: Some(NOW.plus_ms(ms)), ..route() });
        assert!(matches!(ask(Preset::Fabric, at(0)), Decision::Redirect { .. }));
        assert_eq!(ask(Preset::Fabric, at(-1)), Decision::Gone(InactiveReason::Expired));
        assert_eq!(
            ask(Preset::Edge, at(-1)),
            Decision::NotFound(NotFoundReason::Concealed(InactiveReason::Expired))
        );
    }

    #[test]
    fn disabled_takes_precedence_over_expired() {
        let both = Route { state: LinkState::Disabled, expires_at: Some(NOW.plus_ms(-1)), ..route() };
        assert_eq!(
            ask(Preset::Fabric, Some(both)),
            Decision::NotFound(NotFoundReason::Concealed(InactiveReason::Disabled))
        );
        assert_eq!(ask(Preset::Platform, Some(both)), Decision::Gone(InactiveReason::Disabled));
    }

    #[test]
    fn insecure_target_takes_precedence_over_a_loop() {
        let both = Route { target: "http://rmax.to/x", target_host: "rmax.to", ..route() };
        assert_eq!(ask(Preset::Fabric, Some(both)), Decision::NotFound(NotFoundReason::Insecure));
        assert_eq!(ask(Preset::Fabric, Some(Route { https_only: false, ..both })), Decision::Loop);
    }

    #[test]
    fn target_on_the_host_of_the_request_is_a_loop() {
        let home = Route { target: "https://other.example/x", target_host: "other.example", ..route() };
        assert_eq!(ask(Preset::Fabric, Some(home)), Decision::Loop);
        assert!(matches!(
            ask(Preset::Fabric, Some(Route { no_loop: false, ..home })),
            Decision::Redirect { .. }
        ));
    }

    #[test]
    fn max_age_never_outlives_the_link() {
        let cache =
            |preset, ms| match ask(preset, Some(Route { expires_at: Some(NOW.plus_ms(ms)), ..route() })) {
                Decision::Redirect { cache, .. } => cache,
                other => panic!("{other:?}"),
            };
        assert_eq!(cache(Preset::Edge, 10_999), CacheControl::Public(10));
        assert_eq!(cache(Preset::Edge, 999), CacheControl::Public(0));
        assert_eq!(cache(Preset::Edge, 10_000_000), CacheControl::Public(300));
        assert_eq!(cache(Preset::Team, 10_000_000), CacheControl::NoStore);
        assert_eq!(cache(Preset::Platform, 61_000), CacheControl::Private(60));
    }
}
