//! Moving out: links leave, a page at a time, and whoever takes them holds no more than one. What each format looks like is in
//! `format`.

mod format;

use rlinks_clicks::Clicks;
use rlinks_clicks::rollup::{Subject, Total};
use rlinks_core::redirect::decide::{Decision, Visitor, decide};
use rlinks_core::{Actor, Id, Link, Policy, ServedHosts, Timestamp, Workspace};
use rlinks_store::StoreError;

use crate::export::format::{CLOUDFLARE_LINES, Printer};
use crate::{By, Ops, OpsError, Sees};

/// Links read at once.
const PAGE: i64 = 500;
/// The most codes that differ by case alone and are told apart: a map of nginx must know them beforehand.
const MOST_APART: i64 = 10_000;

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
    /// Cloudflare's `_redirects`.
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

    /// Its name.
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
pub struct Exported {
    /// Links that were written.
    pub links: u64,
    /// Links that do not answer, and so are in no map: disabled, expired, deleted.
    pub silent: u64,
    /// Codes of links that do not fit the format; the first hundred.
    pub unfit: Vec<String>,
    /// Codes of links that nobody can read; the first hundred.
    pub unreadable: Vec<String>,
    /// More than the other server takes.
    pub too_many: bool,
}

/// Links as the text of one format, wherever they come from.
pub struct Pages {
    format: ExportFormat,
    policy: Policy,
    domains: ServedHosts,
    printer: Printer,
    /// So far.
    pub exported: Exported,
}

impl Pages {
    /// Of links that a policy and domains decide about. `by_case` are codes that differ by case alone, in lower case.
    pub fn new(format: ExportFormat, policy: Policy, domains: ServedHosts, by_case: Vec<String>) -> Self {
        let printer = Printer::new(format, policy.code.fold_case, by_case);
        Self { format, policy, domains, printer, exported: Exported::default() }
    }

    /// What stands before the links.
    pub fn begin(&self, out: &mut String) {
        self.printer.begin(out);
    }

    /// One link, unless the format has no place for it.
    pub fn link(&mut self, link: &Link, total: &Total, now: Timestamp, out: &mut String) {
        if self.format.is_map() && !self.answers(link, now) {
            self.exported.silent += 1;
            return;
        }
        match self.printer.link(link, total, out) {
            Ok(()) => self.exported.links += 1,
            Err(_) => name(&mut self.exported.unfit, [link.code.to_string()]),
        }
    }

    /// Links nobody can read.
    pub fn unreadable(&mut self, codes: impl IntoIterator<Item = String>) {
        name(&mut self.exported.unreadable, codes);
    }

    /// What stands behind the links.
    pub fn end(&mut self, out: &mut String) {
        self.printer.end(out);
        self.exported.too_many =
            self.format == ExportFormat::Cloudflare && self.exported.links > CLOUDFLARE_LINES;
    }

    fn answers(&self, link: &Link, now: Timestamp) -> bool {
        let visitor = Visitor { host: "", served_hosts: &self.domains };
        matches!(decide(Some(link.route()), &self.policy, &visitor, now), Decision::Redirect { .. })
    }
}

/// An export of a store on its way.
pub struct Export {
    ops: Ops,
    clicks: Option<Clicks>,
    workspace: Id,
    maker: Option<Actor>,
    after: Option<Id>,
    begun: bool,
    pages: Pages,
}

impl Export {
    /// Of the links somebody sees. Without clicks all of them have none.
    pub async fn new(
        ops: &Ops,
        clicks: Option<&Clicks>,
        by: &By,
        workspace: &Workspace,
        format: ExportFormat,
    ) -> Result<Self, OpsError> {
        let by_case = if format == ExportFormat::Nginx && !workspace.policy.code.fold_case {
            ops.store.case_collisions(workspace.id, MOST_APART).await?
        } else {
            Vec::new()
        };
        let domains = ops.served_to(workspace).await?;
        Ok(Self {
            ops: ops.clone(),
            clicks: clicks.filter(|_| !format.is_map()).cloned(),
            workspace: workspace.id,
            maker: (by.sees == Sees::Own).then(|| by.owner.clone()),
            after: Some(Id::from_i64(i64::MIN)),
            begun: false,
            pages: Pages::new(format, workspace.policy.clone(), domains, by_case),
        })
    }

    /// What was exported so far.
    pub const fn exported(&self) -> &Exported {
        &self.pages.exported
    }

    /// The next piece of text; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<String>, OpsError> {
        let Some(after) = self.after else { return Ok(None) };
        let mut out = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.pages.begin(&mut out);
        }
        let page =
            self.ops.store.links_in_workspace(self.workspace, self.maker.as_ref(), after, PAGE).await?;
        let (links, unreadable, next) = page;
        self.pages.unreadable(unreadable);
        let totals = match &self.clicks {
            Some(clicks) => {
                let subjects: Vec<Subject> =
                    links.iter().map(|link| Subject::link(link.workspace, link.id)).collect();
                clicks.totals(&subjects).await.map_err(StoreError::for_clicks)?
            }
            None => std::collections::HashMap::new(),
        };
        let now = self.ops.clock.now();
        for link in &links {
            let total = totals.get(&Subject::link(link.workspace, link.id)).copied().unwrap_or_default();
            self.pages.link(link, &total, now, &mut out);
        }
        self.after = next;
        if next.is_none() {
            self.pages.end(&mut out);
        }
        Ok(Some(out))
    }
}

fn name(names: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    names.extend(more.into_iter().take(100_usize.saturating_sub(names.len())));
}
