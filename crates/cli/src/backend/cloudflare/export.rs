//! `rmax links export`: objects leave as text, a hundred at a time, in the order of their keys. Whoever takes them holds no more.

use std::collections::VecDeque;

use rlinks_clicks::rollup::Total;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_ops::export::{ExportFormat, ExportReport, LinkStream};

use super::links::parse_object;
use super::{Cloudflare, now};
use crate::backend::cloudflare::client::{Cursor, MAX_KEYS_PER_READ};
use crate::backend::cloudflare::objects::{ROUTE_PREFIX, StoredObject, TOMBSTONE_PREFIX};
use crate::error::CliError;

/// An export on its way.
pub(crate) struct ObjectExport<'a> {
    cloudflare: &'a Cloudflare,
    stream: LinkStream,
    /// Listed, and not read.
    keys: VecDeque<String>,
    /// Where listing goes on.
    cursor: Option<Cursor>,
    stage: Stage,
    /// Objects with fields that no link has.
    pub(crate) with_unknown_fields: u64,
}

enum Stage {
    Start,
    Links,
    Done,
}

impl Cloudflare {
    /// All links that are not deleted. Nothing is asked yet.
    pub(crate) fn export_objects(&self, format: ExportFormat) -> ObjectExport<'_> {
        // The policy takes codes without case, so none differ by case alone.
        let pages = LinkStream::new(format, self.policy.clone(), self.served_hosts.clone(), Vec::new());
        ObjectExport {
            cloudflare: self,
            stream: pages,
            keys: VecDeque::new(),
            cursor: Some(Cursor::default()),
            stage: Stage::Start,
            with_unknown_fields: 0,
        }
    }

    /// How many tombstones there are: no export has them.
    pub(crate) async fn count_deleted(&self) -> Result<u64, CliError> {
        let (mut count, mut cursor) = (0, Some(Cursor::default()));
        while let Some(at) = cursor {
            let (keys, next) = self.api.page(&self.routes, TOMBSTONE_PREFIX, at).await?;
            count += keys.len() as u64;
            cursor = next;
            self.api.reset_backoff();
        }
        Ok(count)
    }
}

impl ObjectExport<'_> {
    pub(crate) const fn exported(&self) -> &ExportReport {
        &self.stream.report
    }

    /// The next piece of text; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, CliError> {
        let mut out = String::new();
        match self.stage {
            Stage::Start => {
                self.stream.write_header(&mut out);
                self.stage = Stage::Links;
            }
            Stage::Links => {
                let keys = self.next_keys().await?;
                if keys.is_empty() {
                    self.stream.write_footer(&mut out);
                    self.stage = Stage::Done;
                } else {
                    self.append_links(&keys, &mut out).await?;
                }
            }
            Stage::Done => return Ok(None),
        }
        Ok(Some(out))
    }

    /// As many as are read at once; none at the end. A page may be empty and not the last one.
    async fn next_keys(&mut self) -> Result<Vec<String>, CliError> {
        while self.keys.is_empty() {
            let Some(cursor) = self.cursor.take() else { break };
            let Cloudflare { api, routes, .. } = self.cloudflare;
            let (keys, next) = api.page(routes, ROUTE_PREFIX, cursor).await?;
            (self.keys, self.cursor) = (keys.into(), next);
        }
        let count = self.keys.len().min(MAX_KEYS_PER_READ);
        Ok(self.keys.drain(..count).collect())
    }

    async fn append_links(&mut self, keys: &[String], out: &mut String) -> Result<(), CliError> {
        let Cloudflare { api, routes, .. } = self.cloudflare;
        let values = api.get_all(routes, keys).await?;
        let now = now();
        for key in keys {
            // A key that went meanwhile is gone.
            let Some(value) = values.get(key) else { continue };
            match parse_object(key, value) {
                Ok(kept) => {
                    self.with_unknown_fields += u64::from(kept.has_unknown_fields());
                    let StoredObject { link, stats, .. } = kept;
                    self.stream.write_link(&link, &total(stats), now, out);
                }
                Err(_) => self.stream.push_unreadable([key.clone()]),
            }
        }
        // However long the whole of it takes: a page that came is no reason to lose patience with the next.
        api.reset_backoff();
        Ok(())
    }
}

/// An object does not tell people from bots: what it has counted are clicks, as where hits are imported.
fn total(stats: ClickTotals) -> Total {
    let clicks = i64::try_from(stats.hits).unwrap_or(i64::MAX);
    Total { clicks, bots: 0, last_click: stats.last_hit, last_hit: stats.last_hit }
}
