//! The steps of a decision, in words.

use super::decide::{Decision, InactiveReason, NotFoundReason, Visitor, decide};
use crate::{Policy, Route, Timestamp};

/// One step of an explanation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ExplainStep {
    /// What was looked at.
    pub step: &'static str,
    pub result: String,
}

/// The steps of [`decide`] in words, up to the one that settles it.
pub fn explain(
    route: Option<Route<'_>>,
    policy: &Policy,
    visitor: &Visitor<'_>,
    now: Timestamp,
) -> Vec<ExplainStep> {
    let decision = decide(route, policy, visitor, now);
    let mut steps = Vec::new();
    let mut push = |step, result: String| steps.push(ExplainStep { step, result });
    let Some(route) = route else {
        push("link", "there is none with this code".to_owned());
        return steps;
    };
    push("link", format!("leads to {}", route.target));
    push("state", route.state.to_string());
    if matches!(
        decision,
        Decision::Gone(InactiveReason::Disabled | InactiveReason::Deleted)
            | Decision::NotFound(NotFoundReason::Concealed(
                InactiveReason::Disabled | InactiveReason::Deleted
            ))
    ) {
        return steps;
    }
    push(
        "expiry",
        match route.expires_at {
            None => "never".to_owned(),
            Some(at) if now > at => format!("expired at {at}"),
            Some(at) => format!("until {at}"),
        },
    );
    if matches!(decision, Decision::Gone(_) | Decision::NotFound(NotFoundReason::Concealed(_))) {
        return steps;
    }
    let secure = route.target.starts_with("https://");
    push(
        "https",
        match (route.https_only, secure) {
            (true, true) => "required, and it is https".to_owned(),
            (true, false) => "required, and the target is not https: not served".to_owned(),
            (false, _) => "not required".to_owned(),
        },
    );
    if matches!(decision, Decision::NotFound(_)) {
        return steps;
    }
    push(
        "loop",
        match (route.no_loop, decision) {
            (false, _) => "allowed for this link".to_owned(),
            (true, Decision::Loop) => format!("{} is a domain we serve: refused", route.target_host),
            (true, _) => format!("{} is not ours", route.target_host),
        },
    );
    steps
}

#[cfg(test)]
mod tests {
    use super::explain;
    use crate::{LinkState, Policy, Preset, RedirectStatus, Route, ServedHosts, Timestamp, Visitor};

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

    #[test]
    fn explanation_ends_at_the_deciding_step() {
        let domains = ServedHosts::default();
        let policy = Policy::preset(Preset::Fabric);
        let visitor = Visitor { host: "rmax.to", served_hosts: &domains };
        let last = |route| explain(route, &policy, &visitor, NOW).pop().map(|step| step.step);
        assert_eq!(last(None), Some("link"));
        assert_eq!(last(Some(Route { state: LinkState::Disabled, ..route() })), Some("state"));
        assert_eq!(last(Some(Route { expires_at: Some(NOW.plus_ms(-1)), ..route() })), Some("expiry"));
        assert_eq!(last(Some(Route { target: "http://a/", ..route() })), Some("https"));
        assert_eq!(last(Some(Route { target_host: "rmax.to", ..route() })), Some("loop"));
        assert_eq!(last(Some(route())), Some("loop"));
    }
}
