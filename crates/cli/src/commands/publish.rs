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
use crate::backend::cloudflare::publish::Difference;
use crate::backend::local_store::Session;
use crate::commands::edge_hits::save;
use crate::config::{Config, KeyValues};
use crate::environment::Environment;
use crate::error::Failure;
use crate::files::{cannot_read, cannot_write};
use crate::output::Output;

/// Entries, or links, read at once.
const PAGE: i64 = 1000;
/// More changes than this are not worth following one by one.
const FARTHEST: i64 = 50_000;
/// How long a watcher sleeps before it looks by itself.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long it waits after Cloudflare could not be reached.
const AFTER_TROUBLE: Duration = Duration::from_secs(30);
/// Codes named in a report for people.
const NAMED: usize = 20;

/// Up to where the chain of a workspace was published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    workspace: String,
    seq: i64,
    hash: String,
}

/// A store, where it goes, and how far it has gone.
struct Publisher<'a> {
    session: &'a Session,
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
    kept: &KeyValues,
    args: &Publish,
) -> Result<(), Failure> {
    config.location()?;
    let cloudflare = Cloudflare::open(kept, &config, &environment, output)?;
    let session = Session::open(config, environment, output).await?;
    let done = publish(&session, &cloudflare, args).await;
    session.close().await;
    done
}

async fn publish(session: &Session, cloudflare: &Cloudflare, args: &Publish) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let path = session.config.data.join(format!("published-{}.json", cloudflare.routes_id()));
    let lock = if args.check { None } else { Some(lock(&path)?) };
    let publisher = Publisher { session, cloudflare, workspace, path, _lock: lock };
    if args.check {
        return publisher.check().await;
    }
    let difference = if args.all { publisher.all().await? } else { publisher.since_last().await? };
    report(session.output, &difference)?;
    if args.watch {
        return publisher.watch().await;
    }
    Ok(())
}

fn lock(path: &std::path::Path) -> Result<File, Failure> {
    let place = path.with_extension("lock");
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let file = OpenOptions::new().create(true).append(true).open(&place);
    let file = file.map_err(|error| cannot_write(&place, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::conflict("another `rmax publish` of this store is running"))
        }
        Err(TryLockError::Error(error)) => Err(cannot_write(&place, &error)),
    }
}

impl Publisher<'_> {
    // ---- what changed ----

    /// Publishes what changed since the last time, or everything where that cannot be told.
    async fn since_last(&self) -> Result<Difference, Failure> {
        let Some(mark) = self.mark()? else { return self.all().await };
        let Some((head, codes)) = self.changed_since(&mark).await? else { return self.all().await };
        let mut difference = Difference::default();
        let codes: Vec<String> = codes.into_iter().collect();
        for some in codes.chunks(usize::try_from(PAGE).unwrap_or(1000)) {
            let found = self.session.store().links(self.workspace.id, some).await?;
            let links = found.into_iter().map(|(_, link)| link).collect::<Result<Vec<Link>, _>>()?;
            let counted = self.session.stats(&links.iter().collect::<Vec<_>>()).await;
            for (link, stats) in links.iter().zip(counted) {
                difference.add(link, stats);
            }
        }
        self.cloudflare.apply(&difference).await?;
        self.save(&head)?;
        Ok(difference)
    }

    /// Where the chain ends now and which links changed since the mark; none where its past is another one, or long ago.
    async fn changed_since(&self, mark: &Mark) -> Result<Option<(Mark, BTreeSet<String>)>, Failure> {
        let store = self.session.store();
        // From the marked entry itself on: it must still be the same.
        let mut entries = store.audit_after(self.workspace.id, mark.seq - 1, PAGE).await?;
        let same = entries.first().is_some_and(|entry| (entry.seq, &entry.hash) == (mark.seq, &mark.hash));
        if !same || mark.workspace != self.workspace.slug.as_str() {
            return Ok(None);
        }
        let (mut codes, mut head) = (BTreeSet::new(), mark.clone());
        while let Some(last) = entries.last() {
            head = Mark { seq: last.seq, hash: last.hash.clone(), ..head };
            if head.seq - mark.seq > FARTHEST {
                return Ok(None);
            }
            let of_links = entries.iter().skip_while(|entry| entry.seq <= mark.seq);
            codes.extend(of_links.filter_map(|entry| entry.subject.strip_prefix("link:").map(str::to_owned)));
            entries = store.audit_after(self.workspace.id, head.seq, PAGE).await?;
        }
        Ok(Some((head, codes)))
    }

    // ---- everything ----

    /// Publishes whatever differs.
    async fn all(&self) -> Result<Difference, Failure> {
        // Before the links are read: what changes meanwhile is published again the next time.
        let head = self.head().await?;
        let difference = self.compare().await?;
        self.cloudflare.apply(&difference).await?;
        self.save(&head)?;
        Ok(difference)
    }

    async fn check(&self) -> Result<(), Failure> {
        let difference = self.compare().await?;
        let output = self.session.output;
        let Difference { changed, deleted, strangers, .. } = &difference;
        if output.json {
            let drift = json!({ "ok": difference.is_none(), "changed": changed, "deleted": deleted, "strangers": strangers });
            output.object(&drift)?;
        }
        if difference.is_none() {
            return if output.json {
                Ok(())
            } else {
                output.done("what is published is what the store says")
            };
        }
        let parts = [
            ("missing or another", changed),
            ("not deleted there", deleted),
            ("unknown to the store", strangers),
        ];
        let parts = parts.into_iter().filter(|(_, codes)| !codes.is_empty());
        let words: Vec<String> = parts.map(|(what, codes)| format!("{what}: {}", shortened(codes))).collect();
        Err(Failure::failed(format!("what is published differs from the store; {}", words.join("; ")))
            .hint("`rmax publish --all` makes both agree again"))
    }

    async fn compare(&self) -> Result<Difference, Failure> {
        let mut there = self.cloudflare.there().await?;
        let (mut difference, mut after) = (Difference::default(), Id::from_i64(i64::MIN));
        loop {
            let (mut links, next) = self.session.store().links_by_id(after, PAGE).await?;
            links.retain(|link| link.workspace == self.workspace.id);
            let counted = self.session.stats(&links.iter().collect::<Vec<_>>()).await;
            for (link, stats) in links.iter().zip(counted) {
                difference.compare(link, stats, &mut there);
            }
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        self.cloudflare.strangers(&mut difference, there);
        Ok(difference)
    }

    // ---- how far ----

    async fn head(&self) -> Result<Mark, Failure> {
        let heads = self.session.store().heads().await?;
        let head = heads.into_iter().find(|(id, _)| *id == self.workspace.id).map(|(_, head)| head);
        let head = head.ok_or_else(|| Failure::failed("the workspace has no audit chain"))?;
        Ok(Mark { workspace: head.workspace, seq: head.seq, hash: head.hash })
    }

    fn mark(&self) -> Result<Option<Mark>, Failure> {
        match std::fs::read(&self.path) {
            // What cannot be read is as good as none: everything is compared.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().filter(|mark: &Mark| mark.seq > 0)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot_read(&self.path, &error)),
        }
    }

    fn save(&self, mark: &Mark) -> Result<(), Failure> {
        save(&self.path, &serde_json::to_value(mark).expect("a mark is JSON"))
    }

    // ---- going on ----

    /// Publishes changes as they come, until somebody stops it.
    async fn watch(&self) -> Result<(), Failure> {
        let output = self.session.output;
        // Listened to from the beginning: a signal that comes while something is being published is heeded after that.
        let mut stop = StopSignals::listen()
            .map_err(|error| Failure::failed(format!("signals cannot be listened to: {error}")))?;
        // Its first look tells of everything, and so of what changed since we have published.
        let mut feed = Feed::new(self.session.store());
        output.note("watching; stop with Ctrl-C");
        loop {
            tokio::select! {
                () = stop.received() => return Ok(()),
                () = feed.wait(LOOK_EVERY) => {}
            }
            self.cloudflare.rest();
            let published = match feed.poll().await {
                Ok(changes) if changes.is_empty() => continue,
                Ok(_) => self.since_last().await,
                Err(error) => Err(error.into()),
            };
            let trouble = match published {
                Ok(difference) if difference.is_none() => continue,
                Ok(difference) => {
                    report(output, &difference)?;
                    continue;
                }
                Err(failure) if failure.is_passing() => failure,
                Err(failure) => return Err(failure),
            };
            output.warning(&format!("{}; trying again", trouble.messages().join("; ")));
            // The feed has told of these changes; the mark has not passed them, and the next look begins there.
            feed = Feed::new(self.session.store());
            tokio::select! {
                () = stop.received() => return Ok(()),
                () = tokio::time::sleep(AFTER_TROUBLE) => {}
            }
        }
    }
}

fn report(output: Output, difference: &Difference) -> Result<(), Failure> {
    let Difference { changed, deleted, strangers, .. } = difference;
    if output.json {
        return output.object(&json!({ "changed": changed, "deleted": deleted, "strangers": strangers }));
    }
    if difference.is_none() {
        return output.done("nothing to publish");
    }
    let mut words = vec![format!("published {}", changed.len()), format!("deleted {}", deleted.len())];
    if !strangers.is_empty() {
        words.push(format!("removed {} unknown to the store ({})", strangers.len(), shortened(strangers)));
    }
    output.done(&words.join(", "))
}

fn shortened(codes: &[String]) -> String {
    let named = codes.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if codes.len() > NAMED { format!("{named}, and {} more", codes.len() - NAMED) } else { named }
}
