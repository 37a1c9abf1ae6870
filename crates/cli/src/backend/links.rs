//! Links as every backend gives them, and queries for them.

use rlinks_clicks::stats::Statistics;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Code, Link, Timestamp};
use rlinks_ops::WriteOutcome;

use crate::output::Output;

/// Which links are wanted.
pub(crate) struct LinkQuery<'a> {
    pub(crate) prefix: Option<&'a str>,
    pub(crate) tag: Option<&'a str>,
    pub(crate) search: Option<&'a str>,
    pub(crate) disabled: bool,
    pub(crate) deleted: bool,
    pub(crate) limit: usize,
}

/// A link, and what is known beside it.
pub(crate) struct LinkDetails {
    pub(crate) link: Link,
    /// What it has counted; a store is asked for that only where it is shown ([`Backend::route_object`](super::Backend::route_object)).
    pub(crate) stats: Option<ClickTotals>,
    /// How people share it; none where no host leads to its workspace.
    pub(crate) short_url: Option<String>,
    /// The slug of its workspace.
    pub(crate) workspace: String,
}

/// What became of a link.
pub(crate) struct LinkResult {
    pub(crate) details: LinkDetails,
    pub(crate) outcome: WriteOutcome,
    /// What was asked for and a link that was handed back does not have.
    pub(crate) not_applied: Vec<String>,
}

impl LinkDetails {
    /// Its address, or the path where that is all there is.
    pub(crate) fn address(&self) -> String {
        self.short_url.clone().unwrap_or_else(|| format!("/{}", self.link.code))
    }

    /// The same with where it leads.
    pub(crate) fn address_and_target(&self) -> String {
        format!("{} -> {}", self.address(), self.link.target)
    }

    /// Says what somebody who has just written a link would want to know of it: no visitor can reach it, or its host has letters
    /// that may look like others.
    pub(crate) fn print_warnings(&self, output: Output) {
        let host = self.link.target.host();
        if host.split('.').any(|label| label.starts_with("xn--")) {
            output.warning(&format!(
                "{host} is {}: see that these letters are the ones you mean",
                url::quirks::domain_to_unicode(host)
            ));
        }
        if self.short_url.is_none() {
            let slug = &self.workspace;
            output.warning(&format!(
                "no domain reaches workspace {slug}, so no visitor reaches this link; `rmax domains add <host> --workspace {slug}` adds one"
            ));
        }
    }
}

/// What a link's clicks add up to.
pub(crate) struct LinkStatistics {
    pub(crate) code: Code,
    pub(crate) statistics: Statistics,
    /// Every click there ever was.
    pub(crate) totals: ClickTotals,
    /// The last one of a person.
    pub(crate) last_click: Option<Timestamp>,
}
