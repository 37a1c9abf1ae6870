//! Links leave, a page at a time: whoever takes them holds no more than one.

use rlinks_clicks::Clicks;
use rlinks_clicks::roll::{Subject, Total};
use rlinks_core::decide::{Decision, Visitor, decide};
use rlinks_core::{Actor, Domains, Id, Link, Workspace};
use rlinks_store::StoreError;

use super::ExportFormat;
use super::write::{CLOUDFLARE_LINES, Printer};
use crate::ops::{By, Ops, OpsError, Sees};

/// Links read at once.
const PAGE: i64 = 500;
/// The most codes that differ by case alone and are told apart: a map of nginx must know them beforehand.
const MOST_APART: i64 = 10_000;

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

/// An export on its way.
pub struct Export {
    ops: Ops,
    clicks: Option<Clicks>,
    workspace: Workspace,
    domains: Domains,
    maker: Option<Actor>,
    format: ExportFormat,
    printer: Printer,
    after: Option<Id>,
    begun: bool,
    /// So far.
    pub exported: Exported,
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
        let folds = workspace.policy.code.fold_case;
        let by_case = if format == ExportFormat::Nginx && !folds {
            ops.store.codes_by_case(workspace.id, MOST_APART).await?
        } else {
            Vec::new()
        };
        Ok(Self {
            ops: ops.clone(),
            clicks: clicks.filter(|_| !format.is_map()).cloned(),
            workspace: workspace.clone(),
            domains: ops.served_to(workspace).await?,
            maker: (by.sees == Sees::Own).then(|| by.owner.clone()),
            format,
            printer: Printer::new(format, folds, by_case),
            after: Some(Id::from_i64(i64::MIN)),
            begun: false,
            exported: Exported::default(),
        })
    }

    /// The next piece of text; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<String>, OpsError> {
        let Some(after) = self.after else { return Ok(None) };
        let mut out = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.printer.begin(&mut out);
        }
        let page = self.ops.store.links_of(self.workspace.id, self.maker.as_ref(), after, PAGE).await?;
        let (links, unreadable, next) = page;
        name(&mut self.exported.unreadable, unreadable);
        let totals = match &self.clicks {
            Some(clicks) => {
                let subjects: Vec<Subject> =
                    links.iter().map(|link| Subject::link(link.workspace, link.id)).collect();
                clicks.totals(&subjects).await.map_err(StoreError::of_clicks)?
            }
            None => std::collections::HashMap::new(),
        };
        for link in &links {
            if self.format.is_map() && !self.answers(link) {
                self.exported.silent += 1;
                continue;
            }
            let total = totals.get(&Subject::link(link.workspace, link.id)).copied().unwrap_or_default();
            self.print(link, &total, &mut out);
        }
        self.after = next;
        if next.is_none() {
            self.printer.end(&mut out);
            self.exported.too_many =
                self.format == ExportFormat::Cloudflare && self.exported.links > CLOUDFLARE_LINES;
        }
        Ok(Some(out))
    }

    fn print(&mut self, link: &Link, total: &Total, out: &mut String) {
        match self.printer.link(link, total, out) {
            Ok(()) => self.exported.links += 1,
            Err(_) => name(&mut self.exported.unfit, [link.code.to_string()]),
        }
    }

    fn answers(&self, link: &Link) -> bool {
        let visitor = Visitor { host: "", domains: &self.domains };
        let decision = decide(Some(link.route()), &self.workspace.policy, &visitor, self.ops.clock.now());
        matches!(decision, Decision::Redirect { .. })
    }
}

fn name(names: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    names.extend(more.into_iter().take(100_usize.saturating_sub(names.len())));
}
