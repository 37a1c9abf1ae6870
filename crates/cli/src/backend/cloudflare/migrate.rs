//! `rmax links migrate`: objects of older versions are written again in the current one.
//!
//! Nobody needs it to be served: readers upgrade what they read. It is for the day on which an old shape shall be gone.

use rlinks_core::Link;
use rlinks_core::link::route_object::RouteObjectError;
use rlinks_ops::Mode;
use serde::Serialize;

use super::links::read;
use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::Deed;
use crate::backend::cloudflare::client::{Pair, READ_AT_ONCE};
use crate::backend::cloudflare::objects::{Kept, ROUTE, Seen};
use crate::error::Failure;

/// What was found, and written again.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Migrated {
    /// Objects of older versions; in a dry run they stay.
    pub(crate) old: Vec<String>,
    /// Objects that are as we would write them.
    pub(crate) current: usize,
    /// Objects nobody is redirected by, and why. They are left alone.
    pub(crate) unreadable: Vec<Unread>,
    /// Objects somebody else has changed meanwhile. They are left alone.
    pub(crate) moved: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Unread {
    pub(crate) key: String,
    pub(crate) why: String,
}

impl Cloudflare {
    pub(crate) async fn migrate(&self, mode: Mode) -> Result<Migrated, Failure> {
        let keys = self.api.keys(&self.routes, ROUTE).await?;
        let progress = self.output.counter("looking at objects", Some(keys.len() as u64));
        let mut done = Migrated::default();
        for some in keys.chunks(READ_AT_ONCE) {
            self.migrate_some(some, mode, &mut done).await?;
            progress.add(some.len() as u64);
        }
        Ok(done)
    }

    async fn migrate_some(&self, keys: &[String], mode: Mode, done: &mut Migrated) -> Result<(), Failure> {
        let values = self.api.get_all(&self.routes, keys).await?;
        let mut old: Vec<(&String, Kept)> = Vec::new();
        for key in keys {
            match values.get(key).map(|value| read(key, value)) {
                // Gone meanwhile.
                None => {}
                Some(Ok(kept)) if kept.is_old() => old.push((key, kept)),
                Some(Ok(_)) => done.current += 1,
                Some(Err(why)) => done.unreadable.push(unread(key, why)),
            }
        }
        if mode == Mode::Write && !old.is_empty() {
            let asked: Vec<String> = old.iter().map(|(key, _)| (*key).clone()).collect();
            let fresh = self.api.get_all(&self.routes, &asked).await?;
            let is_same =
                |(key, kept): &(&String, Kept)| Seen::of(fresh.get(*key).map(String::as_bytes)) == kept.seen;
            let (same, moved): (Vec<_>, Vec<_>) = old.into_iter().partition(is_same);
            done.moved.extend(moved.into_iter().map(|(key, _)| key.clone()));
            self.write_again(&same).await?;
            old = same;
        }
        done.old.extend(old.into_iter().map(|(_, kept)| kept.link.code.to_string()));
        Ok(())
    }

    async fn write_again(&self, old: &[(&String, Kept)]) -> Result<(), Failure> {
        let now = now();
        let (mut objects, mut entries) = (Vec::new(), Vec::new());
        for (key, kept) in old {
            let next = Link { updated_at: now.max(kept.link.updated_at.plus_ms(1)), ..kept.link.clone() };
            objects.push(Pair { key: (*key).clone(), value: kept.with(&next, kept.stats) });
            let deed = Deed { action: "link.update", before: Some(&kept.link), after: &next };
            entries.push(self.noted(&deed, now));
        }
        self.api.put_all(&self.routes, &objects).await?;
        self.api.put_all(&self.hits, &entries).await
    }
}

fn unread(key: &str, why: RouteObjectError) -> Unread {
    Unread { key: key.to_owned(), why: why.to_string() }
}
