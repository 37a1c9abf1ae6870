//! Links of a store, copied to where the Worker serves them. The store is the truth; numbers aside, what is there follows it.

use std::collections::HashMap;

use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Link, LinkState};

use super::links::parse_object;
use super::{Cloudflare, now};
use crate::backend::cloudflare::client::KeyValue;
use crate::backend::cloudflare::objects::{
    ROUTE_PREFIX, TOMBSTONE_PREFIX, Tombstone, is_published, new_value, route_key, tombstone_key,
};
use crate::error::CliError;

/// What has to be written and deleted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishPlan {
    /// Codes whose object is missing or another.
    pub(crate) changed: Vec<String>,
    /// Codes that are deleted and have no tombstone, or still have an object.
    pub(crate) deleted: Vec<String>,
    /// Codes with an object and no link in the store.
    pub(crate) orphans: Vec<String>,
    puts: Vec<KeyValue>,
    deletes: Vec<String>,
}

/// What lies there of some codes.
pub(crate) struct RemoteState {
    routes: HashMap<String, String>,
    /// Keys alone: what a tombstone says is nobody's business.
    tombstones: Vec<String>,
}

impl PublishPlan {
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    /// A link as the store has it, whatever lies there.
    pub(crate) fn add(&mut self, link: &Link, stats: ClickTotals) {
        if link.state == LinkState::Deleted {
            self.deleted.push(link.code.to_string());
            self.puts.push(tombstone_pair(link));
            self.deletes.push(route_key(&link.code));
        } else {
            self.changed.push(link.code.to_string());
            self.puts.push(KeyValue { key: route_key(&link.code), value: new_value(link, stats) });
            self.deletes.push(tombstone_key(&link.code));
        }
    }

    /// A link as the store has it, where something else lies there. What was looked at is taken out of `there`.
    pub(crate) fn compare(&mut self, link: &Link, stats: ClickTotals, remote: &mut RemoteState) {
        let (route, tomb) = (route_key(&link.code), tombstone_key(&link.code));
        let object = remote.routes.remove(&route);
        let has_tombstone = remote.tombstones.binary_search(&tomb).is_ok();
        match link.state {
            LinkState::Deleted => {
                if object.is_some() || !has_tombstone {
                    self.deleted.push(link.code.to_string());
                }
                self.deletes.extend(object.map(|_| route));
                self.puts.extend((!has_tombstone).then(|| tombstone_pair(link)));
            }
            LinkState::Active | LinkState::Disabled => {
                if has_tombstone || !is_published(link, object.as_ref()) {
                    self.changed.push(link.code.to_string());
                    self.puts.push(KeyValue { key: route, value: new_value(link, stats) });
                }
                self.deletes.extend(has_tombstone.then_some(tomb));
            }
        }
    }

    /// Objects nobody in the store knows. What can be read of them stays in a tombstone.
    fn add_orphans(&mut self, remote: RemoteState, cloudflare: &Cloudflare) {
        let mut left: Vec<(String, String)> = remote.routes.into_iter().collect();
        left.sort_unstable();
        for (key, value) in left {
            let kept = parse_object(&key, &value).ok();
            let tombstone = kept.map(|kept| Tombstone::from_object(&kept, &cloudflare.actor, now()));
            self.puts.extend(
                tombstone.map(|tombstone| KeyValue {
                    key: tombstone_key(&tombstone.code),
                    value: tombstone.value(),
                }),
            );
            self.orphans.push(key.strip_prefix(ROUTE_PREFIX).unwrap_or(&key).to_owned());
            self.deletes.push(key);
        }
    }
}

fn tombstone_pair(link: &Link) -> KeyValue {
    let tombstone = Tombstone {
        code: link.code.clone(),
        deleted_at: link.updated_at,
        deleted_by: "store".to_owned(),
        route: None,
    };
    KeyValue { key: tombstone_key(&link.code), value: tombstone.value() }
}

impl Cloudflare {
    /// All objects, and the keys of all tombstones.
    pub(crate) async fn remote_state(&self) -> Result<RemoteState, CliError> {
        let keys = self.api.keys(&self.routes, ROUTE_PREFIX).await?;
        let progress = self.output.counter("reading what is there", Some(keys.len() as u64));
        let mut routes = HashMap::with_capacity(keys.len());
        for some in keys.chunks(1000) {
            routes.extend(self.api.get_all(&self.routes, some).await?);
            progress.add(some.len() as u64);
        }
        let mut tombstones = self.api.keys(&self.routes, TOMBSTONE_PREFIX).await?;
        tombstones.sort_unstable();
        Ok(RemoteState { routes, tombstones })
    }

    /// What is left of `remote` when every link was compared is nobody's.
    pub(crate) fn add_orphans(&self, plan: &mut PublishPlan, remote: RemoteState) {
        plan.add_orphans(remote, self);
    }

    /// For a command that goes on for ever: what it waited for Cloudflare before does not count.
    pub(crate) fn reset_backoff(&self) {
        self.api.reset_backoff();
    }

    /// Makes it so. What is written comes before what is deleted: a link is never gone in between.
    pub(crate) async fn apply(&self, plan: &PublishPlan) -> Result<(), CliError> {
        self.api.put_all(&self.routes, &plan.puts).await?;
        self.api.delete_all(&self.routes, &plan.deletes).await
    }
}

#[cfg(test)]
mod tests {
    use rlinks_core::{Actor, Code, Id, LinkSource, RedirectStatus, Target, Timestamp};

    use super::*;

    fn link(code: &str, state: LinkState) -> Link {
        Link {
            id: Id::from_i64(1),
            workspace: Id::from_i64(1),
            code: Code::from_path(code).unwrap(),
            generated: false,
            target: Target::parse("https://example.com/", 2048).unwrap(),
            redirect_status: RedirectStatus::Found,
            state,
            https_only: true,
            no_loop: true,
            expires_at: None,
            title: None,
            notes: None,
            tags: Vec::new(),
            metadata: serde_json::Map::new(),
            source: LinkSource::Cli,
            created_by: Actor::operator("max"),
            created_at: Timestamp::from_ms(0),
            updated_at: Timestamp::from_ms(0),
            version: 1,
        }
    }

    /// What `compare` would write and delete: keys alone.
    fn planned_keys(link: &Link, object: Option<&str>, tombstone: bool) -> (Vec<String>, Vec<String>) {
        let key = route_key(&link.code);
        let mut remote = RemoteState {
            routes: object.map(|object| (key, object.to_owned())).into_iter().collect(),
            tombstones: tombstone.then(|| tombstone_key(&link.code)).into_iter().collect(),
        };
        let mut plan = PublishPlan::default();
        plan.compare(link, ClickTotals::default(), &mut remote);
        assert!(remote.routes.is_empty());
        assert_eq!(plan.is_empty(), plan.changed.is_empty() && plan.deleted.is_empty());
        (plan.puts.into_iter().map(|pair| pair.key).collect(), plan.deletes)
    }

    #[test]
    fn only_differing_objects_are_published() {
        let none: [&str; 0] = [];
        let check = |link: &Link, object: Option<&str>, tombstone, puts: &[&str], deletes: &[&str]| {
            let (put, deleted) = planned_keys(link, object, tombstone);
            assert_eq!(
                (put.as_slice(), deleted.as_slice()),
                (
                    &puts.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()[..],
                    &deletes.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()[..]
                )
            );
        };
        let live = link("a", LinkState::Active);
        let same = new_value(&live, ClickTotals { hits: 9, last_hit: None });
        check(&live, Some(&same), false, &none, &none);
        check(&live, None, false, &["route:a"], &none);
        check(&live, Some("{"), false, &["route:a"], &none);
        check(&live, Some(&same.replace("302", "307")), false, &["route:a"], &none);
        check(&live, Some(&same), true, &["route:a"], &["tombstone:a"]);
        let gone = link("a", LinkState::Deleted);
        check(&gone, None, true, &none, &none);
        check(&gone, None, false, &["tombstone:a"], &none);
        check(&gone, Some(&same), true, &none, &["route:a"]);
    }
}
