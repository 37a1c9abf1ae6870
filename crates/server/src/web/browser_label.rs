//! What a session's browser is called on a page.

use rlinks_clicks::enrich::user_agent::{self, ParsedUserAgent};

/// A browser by its name and its system, as far as it says so: `Firefox 140 on Linux`.
pub(super) fn browser_label(user_agent: &str) -> String {
    let ParsedUserAgent { browser, browser_version, system, system_version, .. } =
        user_agent::parse(user_agent);
    let with = |name: Option<Box<str>>, version: Option<Box<str>>| match (name, version) {
        (Some(name), Some(version)) => Some(format!("{name} {version}")),
        (name, _) => name.map(String::from),
    };
    match (with(browser, browser_version), with(system, system_version)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if user_agent.is_empty() => "unknown".to_owned(),
        (None, None) => user_agent.to_owned(),
    }
}
