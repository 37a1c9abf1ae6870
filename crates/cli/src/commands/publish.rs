//! `rmax publish`: a store's links are copied to Cloudflare, where the Worker serves them.
//!
//! The change feed says which links changed since the last time; a small file in the data folder remembers when that was, by the
//! number and the hash of the last entry of the audit chain. A chain with another past, as after a restored backup, is published whole.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use rlinks_core::{Id, Link, Workspace};
use rlinks_server::process::signals::StopSignals;
use rlinks_store::feed::Feed;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::Publish;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::cloudflare::publish::PublishPlan;
use crate::backend::local_store::LocalStore;
use crate::commands::edge_hits::write_state_file;
use crate::config::{Config, KvNamespaces};
use crate::environment::Environment;
use crate::error::CliError;
use crate::files::{cannot_read, cannot_write};
use crate::output::Output;

/// Entries, or links, read at once.
const PAGE_SIZE: i64 = 1000;
/// More changes than this are not worth following one by one.
const MAX_CATCH_UP_ENTRIES: i64 = 50_000;
/// How long a watcher sleeps before it looks by itself.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long it waits after Cloudflare could not be reached.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// Codes named in a report for people.
const MAX_NAMED_CODES: usize = 20;

/// Up to where the chain of a workspace was published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PublishedHead {
    workspace: String,
    seq: i64,
    hash: String,
}

/// A store, where it goes, and how far it has gone.
struct Publisher<'a> {
    local: &'a LocalStore,
    cloudflare: &'a Cloudflare,
    workspace: Workspace,
    path: PathBuf,
    /// Only one publishes at a time: of two, the slower could bring back what the faster has changed.
    _lock: Option<File>,
}

pub(crate) async fn run(
    config: Config,
    environment: Environment,
    output: Output,
    namespaces: &KvNamespaces,
    args: &Publish,
) -> Result<(), CliError> {
    config.location()?;
    let cloudflare = Cloudflare::open(namespaces, &config, &environment, output)?;
    let local = LocalStore::open(config, environment, output).await?;
    let done = publish(&local, &cloudflare, args).await;
    local.close().await;
    done
}

async fn publish(local: &LocalStore, cloudflare: &Cloudflare, args: &Publish) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    let path = local.config.data.join(format!("published-{}.json", cloudflare.routes_namespace_id()));
    let lock = if args.check { None } else { Some(lock(&path)?) };
    let publisher = Publisher { local, cloudflare, workspace, path, _lock: lock };
    if args.check {
        return publisher.check().await;
    }
    let plan = if args.all { publisher.publish_all().await? } else { publisher.publish_changes().await? };
    report(local.output, &plan)?;
    if args.watch {
        return publisher.watch().await;
    }
    Ok(())
}

fn lock(path: &std::path::Path) -> Result<File, CliError> {
    let lock_path = path.with_extension("lock");
    if let Some(folder) = lock_path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let file = OpenOptions::new().create(true).append(true).open(&lock_path);
    let file = file.map_err(|error| cannot_write(&lock_path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(CliError::conflict("another `rmax publish` of this store is running"))
        }
        Err(TryLockError::Error(error)) => Err(cannot_write(&lock_path, &error)),
    }
}

impl Publisher<'_> {
    // ---- what changed ----

    /// Publishes what changed since the last time, or everything where that cannot be told.
    async fn publish_changes(&self) -> Result<PublishPlan, CliError> {
        let Some(mark) = self.published_head()? else { return self.publish_all().await };
        let Some((head, codes)) = self.changed_since(&mark).await? else { return self.publish_all().await };
        let mut plan = PublishPlan::default();
        let codes: Vec<String> = codes.into_iter().collect();
        for some in codes.chunks(usize::try_from(PAGE_SIZE).unwrap_or(1000)) {
            let found = self.local.store().links(self.workspace.id, some).await?;
            let links = found.into_iter().map(|(_, link)| link).collect::<Result<Vec<Link>, _>>()?;
            let counted = self.local.stats(&links.iter().collect::<Vec<_>>()).await;
            for (link, stats) in links.iter().zip(counted) {
                plan.add(link, stats);
            }
        }
        self.cloudflare.apply(&plan).await?;
        self.save(&head)?;
        Ok(plan)
    }

    /// Where the chain ends now and which links changed since the mark; none where its past is another one, or long ago.
    async fn changed_since(
        &self,
        mark: &PublishedHead,
    ) -> Result<Option<(PublishedHead, BTreeSet<String>)>, CliError> {
        let store = self.local.store();
        // From the marked entry itself on: it must still be the same.
        let mut entries = store.audit_after(self.workspace.id, mark.seq - 1, PAGE_SIZE).await?;
        let same = entries.first().is_some_and(|entry| (entry.seq, &entry.hash) == (mark.seq, &mark.hash));
        if !same || mark.workspace != self.workspace.slug.as_str() {
            return Ok(None);
        }
        let (mut codes, mut head) = (BTreeSet::new(), mark.clone());
        while let Some(last) = entries.last() {
            head = PublishedHead { seq: last.seq, hash: last.hash.clone(), ..head };
            if head.seq - mark.seq > MAX_CATCH_UP_ENTRIES {
                return Ok(None);
            }
            let of_links = entries.iter().skip_while(|entry| entry.seq <= mark.seq);
            codes.extend(of_links.filter_map(|entry| entry.subject.strip_prefix("link:").map(str::to_owned)));
            entries = store.audit_after(self.workspace.id, head.seq, PAGE_SIZE).await?;
        }
        Ok(Some((head, codes)))
    }

    // ---- everything ----

    async fn publish_all(&self) -> Result<PublishPlan, CliError> {
        // Before the links are read: what changes meanwhile is published again the next time.
        let head = self.current_head().await?;
        let plan = self.compare().await?;
        self.cloudflare.apply(&plan).await?;
        self.save(&head)?;
        Ok(plan)
    }

    async fn check(&self) -> Result<(), CliError> {
        let plan = self.compare().await?;
        let output = self.local.output;
        let PublishPlan { changed, deleted, orphans, .. } = &plan;
        if output.json {
            let drift = json!({ "ok": plan.is_empty(), "changed": changed, "deleted": deleted, "strangers": orphans });
            output.object(&drift)?;
        }
        if plan.is_empty() {
            return if output.json {
                Ok(())
            } else {
                output.done("what is published is what the store says")
            };
        }
        let parts = [
            ("missing or another", changed),
            ("not deleted there", deleted),
            ("unknown to the store", orphans),
        ];
        let parts = parts.into_iter().filter(|(_, codes)| !codes.is_empty());
        let words: Vec<String> = parts.map(|(what, codes)| format!("{what}: {}", shortened(codes))).collect();
        Err(CliError::failed(format!("what is published differs from the store; {}", words.join("; ")))
            .hint("`rmax publish --all` makes both agree again"))
    }

    async fn compare(&self) -> Result<PublishPlan, CliError> {
        let mut remote = self.cloudflare.remote_state().await?;
        let (mut plan, mut after) = (PublishPlan::default(), Id::from_i64(i64::MIN));
        loop {
            let (mut links, next) = self.local.store().links_by_id(after, PAGE_SIZE).await?;
            links.retain(|link| link.workspace == self.workspace.id);
            let counted = self.local.stats(&links.iter().collect::<Vec<_>>()).await;
            for (link, stats) in links.iter().zip(counted) {
                plan.compare(link, stats, &mut remote);
            }
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        self.cloudflare.add_orphans(&mut plan, remote);
        Ok(plan)
    }

    // ---- how far ----

    async fn current_head(&self) -> Result<PublishedHead, CliError> {
        let heads = self.local.store().heads().await?;
        let head = heads.into_iter().find(|(id, _)| *id == self.workspace.id).map(|(_, head)| head);
        let head = head.ok_or_else(|| CliError::failed("the workspace has no audit chain"))?;
        Ok(PublishedHead { workspace: head.workspace, seq: head.seq, hash: head.hash })
    }

    fn published_head(&self) -> Result<Option<PublishedHead>, CliError> {
        match std::fs::read(&self.path) {
            // What cannot be read is as good as none: everything is compared.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().filter(|mark: &PublishedHead| mark.seq > 0)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot_read(&self.path, &error)),
        }
    }

    fn save(&self, mark: &PublishedHead) -> Result<(), CliError> {
        write_state_file(&self.path, &serde_json::to_value(mark).expect("a mark is JSON"))
    }

    // ---- going on ----

    /// Publishes changes as they come, until somebody stops it.
    async fn watch(&self) -> Result<(), CliError> {
        let output = self.local.output;
        // Listened to from the beginning: a signal that comes while something is being published is heeded after that.
        let mut stop = StopSignals::listen()
            .map_err(|error| CliError::failed(format!("signals cannot be listened to: {error}")))?;
        // Its first look tells of everything, and so of what changed since we have published.
        let mut feed = Feed::new(self.local.store());
        output.note("watching; stop with Ctrl-C");
        loop {
            tokio::select! {
                () = stop.received() => return Ok(()),
                () = feed.wait(POLL_INTERVAL) => {}
            }
            self.cloudflare.reset_backoff();
            let published = match feed.poll().await {
                Ok(changes) if changes.is_empty() => continue,
                Ok(_) => self.publish_changes().await,
                Err(error) => Err(error.into()),
            };
            let failure = match published {
                Ok(plan) if plan.is_empty() => continue,
                Ok(plan) => {
                    report(output, &plan)?;
                    continue;
                }
                Err(failure) if failure.is_transient() => failure,
                Err(failure) => return Err(failure),
            };
            output.warning(&format!("{}; trying again", failure.messages().join("; ")));
            // The feed has told of these changes; the mark has not passed them, and the next look begins there.
            feed = Feed::new(self.local.store());
            tokio::select! {
                () = stop.received() => return Ok(()),
                () = tokio::time::sleep(RETRY_DELAY) => {}
            }
        }
    }
}

fn report(output: Output, plan: &PublishPlan) -> Result<(), CliError> {
    let PublishPlan { changed, deleted, orphans, .. } = plan;
    if output.json {
        return output.object(&json!({ "changed": changed, "deleted": deleted, "strangers": orphans }));
    }
    if plan.is_empty() {
        return output.done("nothing to publish");
    }
    let mut words = vec![format!("published {}", changed.len()), format!("deleted {}", deleted.len())];
    if !orphans.is_empty() {
        words.push(format!("removed {} unknown to the store ({})", orphans.len(), shortened(orphans)));
    }
    output.done(&words.join(", "))
}

fn shortened(codes: &[String]) -> String {
    let named = codes.iter().take(MAX_NAMED_CODES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if codes.len() > MAX_NAMED_CODES {
        format!("{named}, and {} more", codes.len() - MAX_NAMED_CODES)
    } else {
        named
    }
}
