//! Export: links are read and written a page at a time, so memory holds one page at most. What each format looks like is in
//! `format`.

mod format;

use rlinks_clicks::ClickStore;
use rlinks_clicks::rollup::{RollupSubject, Total};
use rlinks_core::redirect::decide::{Decision, Visitor, decide};
use rlinks_core::{Actor, Id, Link, Policy, ServedHosts, Timestamp};
use rlinks_store::StoreError;

use crate::export::format::{LinkFormatter, MAX_CLOUDFLARE_LINES};
use crate::{Caller, LinkVisibility, Ops, OpsError};

/// Links read at once.
const PAGE_SIZE: i64 = 500;
/// The most codes that differ by case alone and are told apart: a map of nginx must know them beforehand.
const MAX_CASE_VARIANTS: i64 = 10_000;

/// As what links leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One REST link body on each line.
    Jsonl,
    /// The same fields as columns, safe to open in a spreadsheet.
    Csv,
    /// A `map` for nginx.
    Nginx,
    /// Lines of a Caddyfile.
    Caddy,
    // Cloudflare's `_redirects`.
    Cloudflare,
}

impl ExportFormat {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("nginx", Self::Nginx),
        ("caddy", Self::Caddy),
        ("cloudflare", Self::Cloudflare),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// What HTTP calls it.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Nginx | Self::Caddy | Self::Cloudflare => "text/plain; charset=utf-8",
        }
    }

    /// What a file of it is called.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Jsonl => "links.jsonl",
            Self::Csv => "links.csv",
            Self::Nginx => "links.nginx.conf",
            Self::Caddy => "links.caddy",
            Self::Cloudflare => "_redirects",
        }
    }

    /// Whether it holds what answers now, for another server, rather than everything a link has.
    pub const fn is_map(self) -> bool {
        matches!(self, Self::Nginx | Self::Caddy | Self::Cloudflare)
    }
}

/// What was exported, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Links that were written.
    pub links: u64,
    /// Links that do not answer, and so are in no map: disabled, expired, deleted.
    pub inactive: u64,
    /// Codes of links that do not fit the format; the first hundred.
    pub unfit: Vec<String>,
    /// Codes of unreadable links; the first hundred.
    pub unreadable: Vec<String>,
    /// More than the other server takes.
    pub too_many: bool,
}

/// Links as the text of one format, wherever they come from.
pub struct LinkStream {
    format: ExportFormat,
    policy: Policy,
    domains: ServedHosts,
    formatter: LinkFormatter,
    pub report: ExportReport,
}

impl LinkStream {
    /// Of links that a policy and domains decide about. `by_case` are codes that differ by case alone, in lower case.
    pub fn new(format: ExportFormat, policy: Policy, domains: ServedHosts, by_case: Vec<String>) -> Self {
        let formatter = LinkFormatter::new(format, policy.code.fold_case, by_case);
        Self { format, policy, domains, formatter, report: ExportReport::default() }
    }

    /// What stands before the links.
    pub fn write_header(&self, out: &mut String) {
        self.formatter.write_header(out);
    }

    /// One link, unless the format has no place for it.
    pub fn write_link(&mut self, link: &Link, total: &Total, now: Timestamp, out: &mut String) {
        if self.format.is_map() && !self.redirects(link, now) {
            self.report.inactive += 1;
            return;
        }
        match self.formatter.write_link(link, total, out) {
            Ok(()) => self.report.links += 1,
            Err(_) => push_bounded(&mut self.report.unfit, [link.code.to_string()]),
        }
    }

    /// How many links are unreadable.
    pub fn push_unreadable(&mut self, codes: impl IntoIterator<Item = String>) {
        push_bounded(&mut self.report.unreadable, codes);
    }

    /// What stands behind the links.
    pub fn write_footer(&mut self, out: &mut String) {
        self.formatter.write_footer(out);
        self.report.too_many =
            self.format == ExportFormat::Cloudflare && self.report.links > MAX_CLOUDFLARE_LINES;
    }

    fn redirects(&self, link: &Link, now: Timestamp) -> bool {
        let visitor = Visitor { host: "", served_hosts: &self.domains };
        matches!(decide(Some(link.route()), &self.policy, &visitor, now), Decision::Redirect { .. })
    }
}

/// An export of a store on its way.
pub struct Export {
    ops: Ops,
    clicks: Option<ClickStore>,
    workspace: Id,
    created_by: Option<Actor>,
    after: Option<Id>,
    has_begun: bool,
    stream: LinkStream,
}

impl Export {
    /// Of the links somebody sees. Without clicks all of them have none.
    pub async fn new(
        ops: &Ops,
        clicks: Option<&ClickStore>,
        caller: &Caller,
        format: ExportFormat,
    ) -> Result<Self, OpsError> {
        let workspace = &caller.workspace;
        let by_case = if format == ExportFormat::Nginx && !workspace.policy.code.fold_case {
            ops.store.case_collisions(workspace.id, MAX_CASE_VARIANTS).await?
        } else {
            Vec::new()
        };
        let domains = ops.served_hosts_for(workspace).await?;
        Ok(Self {
            ops: ops.clone(),
            clicks: clicks.filter(|_| !format.is_map()).cloned(),
            workspace: workspace.id,
            created_by: (caller.visibility == LinkVisibility::Own).then(|| caller.owner.clone()),
            after: Some(Id::from_i64(i64::MIN)),
            has_begun: false,
            stream: LinkStream::new(format, workspace.policy.clone(), domains, by_case),
        })
    }

    /// What was exported so far.
    pub const fn report(&self) -> &ExportReport {
        &self.stream.report
    }

    /// The next piece of text; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<String>, OpsError> {
        let Some(after) = self.after else { return Ok(None) };
        let mut out = String::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.stream.write_header(&mut out);
        }
        let page = self
            .ops
            .store
            .links_in_workspace(self.workspace, self.created_by.as_ref(), after, PAGE_SIZE)
            .await?;
        let (links, unreadable, next) = page;
        self.stream.push_unreadable(unreadable);
        let totals = match &self.clicks {
            Some(clicks) => {
                let subjects: Vec<RollupSubject> =
                    links.iter().map(|link| RollupSubject::link(link.workspace, link.id)).collect();
                clicks.totals(&subjects).await.map_err(StoreError::for_clicks)?
            }
            None => std::collections::HashMap::new(),
        };
        let now = self.ops.clock.now();
        for link in &links {
            let total =
                totals.get(&RollupSubject::link(link.workspace, link.id)).copied().unwrap_or_default();
            self.stream.write_link(link, &total, now, &mut out);
        }
        self.after = next;
        if next.is_none() {
            self.stream.write_footer(&mut out);
        }
        Ok(Some(out))
    }
}

fn push_bounded(names: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    names.extend(more.into_iter().take(100_usize.saturating_sub(names.len())));
}
