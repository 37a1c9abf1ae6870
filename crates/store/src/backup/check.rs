//! Whether a backup agrees with itself. The log in it is the truth: workspaces, domains, links, heads and workers must be what it
//! says, or somebody edited the file. Of a link only two hashes are kept, so a large backup is checked in little memory.

use std::collections::{BTreeMap, HashMap};

use rlinks_core::access::user::AuditedUser;
use rlinks_core::audit::{AuditEntry, Head, Verifier};
use rlinks_core::id::{Id, MAX_WORKERS};
use rlinks_core::{Domain, Link, LinkState, Timestamp, Workspace};
use sha2::{Digest, Sha256};

use super::{BackupCounts, Line};
use crate::access::api_keys::AuditedKey;
use crate::access::credentials::StoredCredential;
use crate::backup::replay::LoggedDirectory;
use crate::backup::replay_members::LoggedMembers;
use crate::database::json::json;

/// Enough of a hash that nobody finds a second text for it.
type ShortHash = [u8; 16];

/// What is known of a link: how its line reads, and what the log says last.
#[derive(Default)]
struct LinkHashes {
    line: Option<ShortHash>,
    logged: Option<ShortHash>,
}

struct Chain {
    verifier: Verifier,
    ts: Timestamp,
}

struct HeadClaim {
    head: Head,
    ts: Timestamp,
    links: i64,
}

/// Sums over links: what heads and workers must say.
#[derive(Default)]
pub(super) struct LinkTotals {
    /// Links of a workspace that are not deleted.
    pub(super) live: HashMap<i64, i64>,
    /// The greatest id a worker made.
    pub(super) greatest: BTreeMap<i64, Id>,
}

impl LinkTotals {
    pub(super) fn add(&mut self, link: &Link) {
        *self.live.entry(link.workspace.as_i64()).or_default() += i64::from(link.state != LinkState::Deleted);
        self.add_id(link.id);
    }

    pub(super) fn add_id(&mut self, id: Id) {
        let greatest = self.greatest.entry(worker_of(id)).or_insert(id);
        *greatest = (*greatest).max(id);
    }
}

/// The worker in an id: see `rlinks_core::id`.
fn worker_of(id: Id) -> i64 {
    id.as_i64() >> 12 & i64::from(MAX_WORKERS - 1)
}

/// Takes a backup line by line. An error says what contradicts what.
#[derive(Default)]
pub(super) struct BackupCheck {
    counts: BackupCounts,
    workspaces: BTreeMap<i64, Workspace>,
    domains: BTreeMap<String, Domain>,
    heads: HashMap<i64, HeadClaim>,
    workers: HashMap<i64, Id>,
    chains: HashMap<i64, Chain>,
    directory: LoggedDirectory,
    people: LoggedMembers,
    users: BTreeMap<(i64, i64), AuditedUser>,
    credentials: BTreeMap<(i64, i64), StoredCredential>,
    keys: BTreeMap<(i64, i64), AuditedKey>,
    links: HashMap<(i64, Box<str>), LinkHashes>,
    totals: LinkTotals,
}

impl BackupCheck {
    pub(super) fn push(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Workspace(workspace) => self.workspace(workspace),
            Line::Domain(domain) => self.domain(domain),
            Line::Head { workspace_id, ts, links, head } => {
                self.check_slug(workspace_id, &head.workspace)?;
                let slug = head.workspace.clone();
                let before = self.heads.insert(workspace_id.as_i64(), HeadClaim { head, ts, links });
                ensure_first(before.is_none(), || format!("the head of workspace {slug}"))
            }
            Line::Worker { worker, last_id } => {
                ensure_first(self.workers.insert(worker, last_id).is_none(), || format!("worker {worker}"))
            }
            Line::User { password_hash, oidc_issuer, oidc_subject, credential_salt: salt, user, .. } => {
                self.counts.users += 1;
                self.totals.add_id(user.id);
                let place = (user.workspace.as_i64(), user.id.as_i64());
                let stored = StoredCredential { password_hash, oidc_issuer, oidc_subject, salt };
                self.credentials.insert(place, stored);
                ensure_first(self.users.insert(place, user.audited()).is_none(), || {
                    format!("member {}", user.id)
                })
            }
            Line::Key { key, hash } => {
                self.counts.keys += 1;
                self.totals.add_id(key.id);
                let place = (key.workspace.as_i64(), key.id.as_i64());
                let said = AuditedKey::from_key(&key, &hash);
                ensure_first(self.keys.insert(place, said).is_none(), || format!("key {}", key.id))
            }
            Line::Link { link, .. } => self.link(&link),
            Line::Audit { workspace_id, entry } => self.entry(workspace_id, &entry),
            Line::RlinksBackup(_) | Line::End(_) => Ok(()),
        }
    }

    fn workspace(&mut self, workspace: Workspace) -> Result<(), String> {
        self.counts.workspaces += 1;
        let slug = workspace.slug.clone();
        let known = self.workspaces.values().any(|known| known.slug == slug);
        let before = self.workspaces.insert(workspace.id.as_i64(), workspace);
        ensure_first(before.is_none() && !known, || format!("workspace {slug}"))
    }

    fn domain(&mut self, domain: Domain) -> Result<(), String> {
        self.counts.domains += 1;
        let host = domain.host.to_string();
        ensure_first(self.domains.insert(host.clone(), domain).is_none(), || format!("domain {host}"))
    }

    fn link(&mut self, link: &Link) -> Result<(), String> {
        self.counts.links += 1;
        self.totals.add(link);
        let place = (link.workspace.as_i64(), link.code.as_str().into());
        let before = self.links.entry(place).or_default().line.replace(short_hash(link));
        ensure_first(before.is_none(), || format!("link {}", link.code))
    }

    fn entry(&mut self, workspace_id: Id, entry: &AuditEntry) -> Result<(), String> {
        self.counts.audit += 1;
        self.check_slug(workspace_id, &entry.workspace)?;
        let id = workspace_id.as_i64();
        let chain = self
            .chains
            .entry(id)
            .or_insert_with(|| Chain { verifier: Verifier::new(&entry.workspace, Vec::new()), ts: entry.ts });
        chain.verifier.push(entry).map_err(|fault| format!("the backup's audit log is broken: {fault}"))?;
        chain.ts = entry.ts;
        let after = entry.after.as_ref().map(|after| after.get());
        self.directory.push(id, &entry.subject, after);
        self.people.push(id, &entry.action, &entry.subject, after);
        if let Some(code) = entry.subject.strip_prefix("link:") {
            let link = after.map(serde_json::from_str::<Link>).transpose();
            let link =
                link.map_err(|_| format!("the log's entry {} about link {code} cannot be read", entry.seq))?;
            self.links.entry((id, code.into())).or_default().logged = link.as_ref().map(short_hash);
        }
        Ok(())
    }

    /// Ids and slugs must go together, and a workspace comes before what belongs to it.
    fn check_slug(&self, id: Id, slug: &str) -> Result<(), String> {
        match self.workspaces.get(&id.as_i64()) {
            Some(known) if known.slug.as_str() == slug => Ok(()),
            _ => Err(format!("the backup has no workspace {slug} with id {id}")),
        }
    }

    pub(super) fn finish(mut self) -> Result<BackupCounts, String> {
        self.finish_chains()?;
        self.finish_directory()?;
        self.finish_links()?;
        self.finish_people()?;
        for (worker, greatest) in &self.totals.greatest {
            if self.workers.get(worker).is_none_or(|last| last < greatest) {
                return Err(format!("worker {worker} made ids beyond the last one the backup names"));
            }
        }
        Ok(self.counts)
    }

    fn finish_chains(&mut self) -> Result<(), String> {
        for (id, workspace) in &self.workspaces {
            let slug = &workspace.slug;
            let claim = self.heads.get(id).ok_or_else(|| format!("workspace {slug} has no head"))?;
            let (walk, ts) = match self.chains.remove(id) {
                Some(chain) => (chain.verifier, Some(chain.ts)),
                None => (Verifier::new(slug.as_str(), Vec::new()), None),
            };
            walk.finish(Some(&claim.head))
                .map_err(|fault| format!("the backup's audit log is broken: {fault}"))?;
            if ts != Some(claim.ts) {
                return Err(format!(
                    "the head of workspace {slug} is not of the time of its last audit entry"
                ));
            }
            let live = self.totals.live.get(id).copied().unwrap_or_default();
            if live != claim.links {
                return Err(format!("workspace {slug} has {live} links, and its head says {}", claim.links));
            }
        }
        Ok(())
    }

    fn finish_directory(&mut self) -> Result<(), String> {
        for (id, workspace) in &self.workspaces {
            if self.directory.workspaces.get(id) != Some(workspace) {
                return Err(differs_from_log(&format!("workspace {}", workspace.slug)));
            }
        }
        let mut logged = std::mem::take(&mut self.directory.domains);
        for (host, domain) in &self.domains {
            let place = (domain.workspace.as_i64(), host.clone());
            if logged.remove(&place).as_ref() != Some(domain) {
                return Err(differs_from_log(&format!("domain {host}")));
            }
        }
        logged.pop_first().map_or(Ok(()), |((_, host), _)| Err(differs_from_log(&format!("domain {host}"))))
    }

    fn finish_people(&self) -> Result<(), String> {
        let mut all = self.users.keys().chain(self.people.users.keys());
        if let Some((_, id)) = all.find(|place| self.users.get(place) != self.people.users.get(place)) {
            return Err(differs_from_log(&format!("member {id}")));
        }
        let mut all = self.credentials.iter();
        if let Some(((_, id), _)) = all.find(|(place, stored)| self.people.contradicts(**place, stored)) {
            return Err(differs_from_log(&format!("how member {id} signs in")));
        }
        let mut all = self.keys.keys().chain(self.people.keys.keys());
        match all.find(|place| self.keys.get(place) != self.people.keys.get(place)) {
            Some((_, id)) => Err(differs_from_log(&format!("key {id}"))),
            None => Ok(()),
        }
    }

    fn finish_links(&self) -> Result<(), String> {
        let differing =
            self.links.iter().filter(|(_, sides)| sides.line != sides.logged).map(|(place, _)| place).min();
        differing.map_or(Ok(()), |(_, code)| Err(differs_from_log(&format!("link {code}"))))
    }
}

fn ensure_first(first: bool, what: impl Fn() -> String) -> Result<(), String> {
    if first { Ok(()) } else { Err(format!("{} is in it twice", what())) }
}

fn differs_from_log(what: &str) -> String {
    format!("{what} is not what the backup's own audit log says")
}

fn short_hash(link: &Link) -> ShortHash {
    let hash = Sha256::digest(json(link).as_bytes());
    let mut short = ShortHash::default();
    short.copy_from_slice(&hash[..16]);
    short
}
