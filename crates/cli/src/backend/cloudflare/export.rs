//! `rmax links export`: objects leave as text, a hundred at a time, in the order of their keys. Whoever takes them holds no more.

use std::collections::VecDeque;

use rlinks_clicks::rollup::Total;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_ops::export::{ExportFormat, Exported, Pages};

use super::links::read;
use super::{Cloudflare, now};
use crate::backend::cloudflare::client::{Cursor, READ_AT_ONCE};
use crate::backend::cloudflare::objects::{Kept, ROUTE, TOMBSTONE};
use crate::error::Failure;

/// An export on its way.
pub(crate) struct Leaving<'a> {
    cloudflare: &'a Cloudflare,
    pages: Pages,
    /// Listed, and not read.
    keys: VecDeque<String>,
    /// Where listing goes on.
    cursor: Option<Cursor>,
    stage: Stage,
    /// Objects with fields that no link has.
    pub(crate) with_more: u64,
}

enum Stage {
    Before,
    Links,
    After,
}

impl Cloudflare {
    /// All links that are not deleted. Nothing is asked yet.
    pub(crate) fn leaving(&self, format: ExportFormat) -> Leaving<'_> {
        // The policy takes codes without case, so none differ by case alone.
        let pages = Pages::new(format, self.policy.clone(), self.domains.clone(), Vec::new());
        Leaving {
            cloudflare: self,
            pages,
            keys: VecDeque::new(),
            cursor: Some(Cursor::default()),
            stage: Stage::Before,
            with_more: 0,
        }
    }

    /// How many tombstones there are: no export has them.
    pub(crate) async fn count_deleted(&self) -> Result<u64, Failure> {
        let (mut count, mut cursor) = (0, Some(Cursor::default()));
        while let Some(at) = cursor {
            let (keys, next) = self.api.page(&self.routes, TOMBSTONE, at).await?;
            count += keys.len() as u64;
            cursor = next;
            self.api.rest();
        }
        Ok(count)
    }
}

impl Leaving<'_> {
    /// So far.
    pub(crate) const fn exported(&self) -> &Exported {
        &self.pages.exported
    }

    /// The next piece of text; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut out = String::new();
        match self.stage {
            Stage::Before => {
                self.pages.begin(&mut out);
                self.stage = Stage::Links;
            }
            Stage::Links => {
                let keys = self.more_keys().await?;
                if keys.is_empty() {
                    self.pages.end(&mut out);
                    self.stage = Stage::After;
                } else {
                    self.print(&keys, &mut out).await?;
                }
            }
            Stage::After => return Ok(None),
        }
        Ok(Some(out))
    }

    /// As many as are read at once; none at the end. A page may be empty and not the last one.
    async fn more_keys(&mut self) -> Result<Vec<String>, Failure> {
        while self.keys.is_empty() {
            let Some(cursor) = self.cursor.take() else { break };
            let Cloudflare { api, routes, .. } = self.cloudflare;
            let (keys, next) = api.page(routes, ROUTE, cursor).await?;
            (self.keys, self.cursor) = (keys.into(), next);
        }
        let count = self.keys.len().min(READ_AT_ONCE);
        Ok(self.keys.drain(..count).collect())
    }

    async fn print(&mut self, keys: &[String], out: &mut String) -> Result<(), Failure> {
        let Cloudflare { api, routes, .. } = self.cloudflare;
        let values = api.get_all(routes, keys).await?;
        let now = now();
        for key in keys {
            // A key that went meanwhile is gone.
            let Some(value) = values.get(key) else { continue };
            match read(key, value) {
                Ok(kept) => {
                    self.with_more += u64::from(kept.has_more());
                    let Kept { link, stats, .. } = kept;
                    self.pages.link(&link, &total(stats), now, out);
                }
                Err(_) => self.pages.unreadable([key.clone()]),
            }
        }
        // However long the whole of it takes: a page that came is no reason to lose patience with the next.
        api.rest();
        Ok(())
    }
}

/// An object does not tell people from bots: what it has counted are clicks, as where hits are imported.
fn total(stats: ClickTotals) -> Total {
    let clicks = i64::try_from(stats.hits).unwrap_or(i64::MAX);
    Total { clicks, bots: 0, last_click: stats.last_hit, last_hit: stats.last_hit }
}
