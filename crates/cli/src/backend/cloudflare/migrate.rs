//! `rmax links migrate`: objects of older versions are written again in the current one.
//!
//! Nobody needs it to be served: readers upgrade what they read. It is for the day on which an old shape shall be gone.

use rlinks_core::Link;
use rlinks_core::link::route_object::RouteObjectError;
use rlinks_ops::WriteMode;
use serde::Serialize;

use super::links::parse_object;
use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::LinkEvent;
use crate::backend::cloudflare::client::{KeyValue, MAX_KEYS_PER_READ};
use crate::backend::cloudflare::objects::{ObjectSnapshot, ROUTE_PREFIX, StoredObject};
use crate::error::CliError;

/// What was found, and written again.
#[derive(Debug, Default, Serialize)]
pub(crate) struct MigrationReport {
    /// Objects of older versions; in a dry run they stay.
    pub(crate) old: Vec<String>,
    /// Objects that are as we would write them.
    pub(crate) current: usize,
    /// Objects nobody is redirected by, and why. They are left alone.
    pub(crate) unreadable: Vec<UnreadableObject>,
    /// Objects somebody else has changed meanwhile. They are left alone.
    pub(crate) moved: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct UnreadableObject {
    pub(crate) key: String,
    pub(crate) why: String,
}

impl Cloudflare {
    pub(crate) async fn migrate(&self, mode: WriteMode) -> Result<MigrationReport, CliError> {
        let keys = self.api.keys(&self.routes, ROUTE_PREFIX).await?;
        let progress = self.output.counter("looking at objects", Some(keys.len() as u64));
        let mut done = MigrationReport::default();
        for some in keys.chunks(MAX_KEYS_PER_READ) {
            self.migrate_chunk(some, mode, &mut done).await?;
            progress.add(some.len() as u64);
        }
        Ok(done)
    }

    async fn migrate_chunk(
        &self,
        keys: &[String],
        mode: WriteMode,
        done: &mut MigrationReport,
    ) -> Result<(), CliError> {
        let values = self.api.get_all(&self.routes, keys).await?;
        let mut old: Vec<(&String, StoredObject)> = Vec::new();
        for key in keys {
            match values.get(key).map(|value| parse_object(key, value)) {
                // Gone meanwhile.
                None => {}
                Some(Ok(kept)) if kept.is_outdated() => old.push((key, kept)),
                Some(Ok(_)) => done.current += 1,
                Some(Err(why)) => done.unreadable.push(unreadable_object(key, why)),
            }
        }
        if mode == WriteMode::Apply && !old.is_empty() {
            let asked: Vec<String> = old.iter().map(|(key, _)| (*key).clone()).collect();
            let fresh = self.api.get_all(&self.routes, &asked).await?;
            let is_same = |(key, kept): &(&String, StoredObject)| {
                ObjectSnapshot::from_value(fresh.get(*key).map(String::as_bytes)) == kept.snapshot
            };
            let (same, moved): (Vec<_>, Vec<_>) = old.into_iter().partition(is_same);
            done.moved.extend(moved.into_iter().map(|(key, _)| key.clone()));
            self.rewrite(&same).await?;
            old = same;
        }
        done.old.extend(old.into_iter().map(|(_, kept)| kept.link.code.to_string()));
        Ok(())
    }

    async fn rewrite(&self, old: &[(&String, StoredObject)]) -> Result<(), CliError> {
        let now = now();
        let (mut objects, mut entries) = (Vec::new(), Vec::new());
        for (key, kept) in old {
            let next = Link { updated_at: now.max(kept.link.updated_at.plus_ms(1)), ..kept.link.clone() };
            objects.push(KeyValue { key: (*key).clone(), value: kept.updated_value(&next, kept.stats) });
            let event = LinkEvent { action: "link.update", before: Some(&kept.link), after: &next };
            entries.push(self.event_pair(&event, now));
        }
        self.api.put_all(&self.routes, &objects).await?;
        self.api.put_all(&self.hits, &entries).await
    }
}

fn unreadable_object(key: &str, why: RouteObjectError) -> UnreadableObject {
    UnreadableObject { key: key.to_owned(), why: why.to_string() }
}
