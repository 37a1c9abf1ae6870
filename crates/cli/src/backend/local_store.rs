//! A command at work: the store it opened, who acts, and what belongs to every change.

use std::path::Path;
use std::sync::Arc;

use rlinks_clicks::database::were_kept;
use rlinks_clicks::journal::{self, Reader};
use rlinks_clicks::misses::Misses;
use rlinks_clicks::rollup::Subject;
use rlinks_clicks::{Clicks, Ingest};
use rlinks_core::audit::Head;
use rlinks_core::link::route_object::{ClickTotals, RouteObject};
use rlinks_core::{Actor, Code, Link, Slug, Timestamp, Workspace};
use rlinks_ops::domain_checks::Custodian;
use rlinks_ops::safety::Safety;
use rlinks_ops::{By, Ops};
use rlinks_routes::host_directory::HostDirectory;
use rlinks_store::audit::checkpoints::{self, Signer};
use rlinks_store::clock::{Clock, random_bytes};
use rlinks_store::{Location, MissingStore, Store, StoreError, StoreOptions};
use tokio::sync::OnceCell;

use crate::backend::links::{Made, Seen};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Failure;
use crate::files::{Served, keep_servers_away};
use crate::identity;
use crate::output::Output;

/// An open store and everything a command needs beside it.
pub(crate) struct Session {
    pub(crate) ops: Ops,
    pub(crate) config: Config,
    pub(crate) output: Output,
    environment: Environment,
    fresh: bool,
    clicks: OnceCell<Clicks>,
}

/// How to open the store a configuration names.
pub(crate) fn options(config: &Config, if_missing: MissingStore) -> Result<StoreOptions, Failure> {
    Ok(StoreOptions {
        location: config.location()?.clone(),
        worker: config.worker,
        holder: format!("{}:{}", identity::host(), std::process::id()),
        now: Clock::system().now(),
        if_missing,
    })
}

/// The variables by which programs reach an object store.
pub(crate) fn aws_variables(environment: &Environment) -> Vec<(String, String)> {
    let names = environment.names("AWS_");
    names.filter_map(|name| Some((name.to_owned(), environment.text(name)?.to_owned()))).collect()
}

/// A data folder that is there and is none. Of itself the system would only say that a file exists.
pub(crate) fn refuse_no_folder(data: &Path) -> Result<(), StoreError> {
    if std::fs::metadata(data).is_ok_and(|there| !there.is_dir()) {
        return Err(StoreError::Unavailable(format!("{} is not a folder", data.display())));
    }
    Ok(())
}

impl Session {
    pub(crate) async fn open(
        config: Config,
        environment: Environment,
        output: Output,
    ) -> Result<Self, Failure> {
        let options = options(&config, MissingStore::Refuse)?;
        refuse_no_folder(&config.data)?;
        let fresh = matches!(&options.location, Location::Sqlite(path) if !path.exists());
        let store = Store::open(options).await?;
        Self::of(store, config, environment, output, fresh)
    }

    /// With a store that was opened in another way.
    pub(crate) fn of(
        store: Store,
        config: Config,
        environment: Environment,
        output: Output,
        fresh: bool,
    ) -> Result<Self, Failure> {
        let safety = Safety::new(&config.safety).map_err(Failure::usage)?;
        let custodian = Custodian::new(&config.domain_checks).map_err(Failure::usage)?;
        let ops = Ops {
            store,
            naming: config.naming(),
            own_host: config.own_host(),
            clock: Clock::system(),
            routes: None,
            safety: Arc::new(safety),
            custodian: Arc::new(custodian),
            target_changes_per_minute: config.target_changes_per_minute,
        };
        Ok(Self { ops, config, output, environment, fresh, clicks: OnceCell::new() })
    }

    /// Waits until everything that was opened is closed.
    pub(crate) async fn close(&self) {
        if let Some(clicks) = self.clicks.get() {
            clicks.close().await;
        }
        self.store().close().await;
    }

    /// The clicks of the store, opened when first asked for. What a server that was killed has left in its journal is stored
    /// first, so that nobody sees old numbers; a running server does that itself.
    pub(crate) async fn clicks(&self) -> Result<&Clicks, StoreError> {
        let open = async {
            let clicks = Clicks::open(self.store().location()).await?;
            if let Err(why) = self.store_what_is_left(&clicks).await {
                self.output.warning(&format!("clicks a server left behind were not stored yet: {why}"));
            }
            Ok(clicks)
        };
        self.clicks.get_or_try_init(|| open).await
    }

    async fn store_what_is_left(&self, clicks: &Clicks) -> Result<(), String> {
        let folder = self.config.data.join(journal::FOLDER);
        if !holds_anything(&folder) {
            return Ok(());
        }
        // Kept to the end: a server that starts meanwhile would read the same segments.
        let held = keep_servers_away(&self.config.data).map_err(|error| error.to_string())?;
        let Served::Free(_lock) = held else { return Ok(()) };
        let mut ingest = Ingest::new(
            self.store().clone(),
            tokio::runtime::Handle::current(),
            Reader::left_in(&folder),
            self.config.geoip.clone(),
            Arc::new(Misses::default()),
        );
        let progress = self.output.counter("storing clicks that were left behind", None);
        loop {
            match ingest.step(clicks, self.now()).await {
                Ok(0) => return ingest.store_drops(clicks).await.map_err(|error| error.to_string()),
                Ok(stored) => progress.add(stored as u64),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// What some links have counted for ever, in their order. The links themselves are what was asked for: clicks that cannot be
    /// read are a warning, and nothing is counted.
    pub(crate) async fn stats(&self, links: &[&Link]) -> Vec<ClickTotals> {
        let counted = async {
            let clicks = self.clicks().await?;
            let subjects: Vec<Subject> =
                links.iter().map(|link| Subject::link(link.workspace, link.id)).collect();
            let totals = clicks.totals(&subjects).await.map_err(StoreError::for_clicks)?;
            let stats = |subject: &Subject| {
                totals.get(subject).map_or_else(ClickTotals::default, |total| ClickTotals {
                    hits: (total.clicks + total.bots).cast_unsigned(),
                    last_hit: total.last_hit,
                })
            };
            Ok::<_, StoreError>(subjects.iter().map(stats).collect())
        };
        if links.is_empty() || !self.has_clicks() {
            return vec![ClickTotals::default(); links.len()];
        }
        counted.await.unwrap_or_else(|error| {
            self.output.warning(&format!("clicks cannot be read, so none are shown: {error}"));
            vec![ClickTotals::default(); links.len()]
        })
    }

    /// A link as programs see it.
    pub(crate) async fn object(&self, link: &Link) -> RouteObject {
        let stats = self.stats(&[link]).await;
        RouteObject::from_link(link, stats.first().copied().unwrap_or_default())
    }

    /// Whether anything was ever recorded here, as far as that can be known without making a database to look into.
    pub(crate) fn has_clicks(&self) -> bool {
        were_kept(self.store().location()) || holds_anything(&self.config.data.join(journal::FOLDER))
    }

    /// What an object store wants to know: who we are there, and where it is.
    pub(crate) fn cloud_options(&self) -> Vec<(String, String)> {
        aws_variables(&self.environment)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.ops.store
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ops.clock.now()
    }

    /// Who acts.
    pub(crate) fn actor(&self) -> Actor {
        identity::operator(&self.config, &self.environment)
    }

    /// Who acts, and that it is the command line.
    pub(crate) fn by(&self) -> By {
        By::operator(self.actor())
    }

    /// The workspace of `--workspace`.
    pub(crate) async fn workspace(&self) -> Result<Workspace, Failure> {
        self.workspace_named(&self.config.workspace).await
    }

    pub(crate) async fn workspace_named(&self, slug: &str) -> Result<Workspace, Failure> {
        // What is no slug names no workspace.
        Ok(self.ops.workspace(&Slug::from_stored(slug.to_owned())).await?)
    }

    /// Does a change and what belongs to every change: the configured domain is entered first, the heads are signed after.
    pub(crate) async fn change<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.enter_domain().await?;
        let done = work.await;
        self.sign_heads().await;
        done
    }

    /// Enters the configured domain in workspace `main` where no workspace has it.
    pub(crate) async fn enter_domain(&self) -> Result<(), Failure> {
        let Some(host) = &self.config.domain else { return Ok(()) };
        let main = self.ops.workspace(&Slug::main()).await;
        let known = self.store().domains().await?;
        match (known.iter().find(|domain| domain.host == *host), main) {
            (Some(domain), Ok(main)) if domain.workspace != main.id => {
                self.output
                    .warning(&format!("the configured domain {host} belongs to another workspace than main"));
            }
            (None, Ok(main)) => {
                self.store().add_domain(main.id, host.clone(), &self.actor(), self.now()).await?;
            }
            // A deleted `main` has no use for it.
            (Some(_), _) | (None, Err(_)) => {}
        }
        Ok(())
    }

    /// Appends the signed ends of all chains to the log in the data folder. The change is made: a failure here only warns.
    pub(crate) async fn sign_heads(&self) {
        if let Err(error) = self.try_sign_heads().await {
            self.output.warning(&format!("the audit heads were not signed: {error}"));
        }
    }

    async fn try_sign_heads(&self) -> Result<(), StoreError> {
        let heads: Vec<Head> = self.store().heads().await?.into_iter().map(|(_, head)| head).collect();
        checkpoints::append_checkpoints(&self.config.data, &self.signer()?, &heads, self.now(), false)
    }

    /// The key of this installation.
    pub(crate) fn signer(&self) -> Result<Signer, StoreError> {
        Signer::load(&self.config.data, random_bytes())
    }

    /// The address of a link, as people share it. None where no host leads to its workspace: any other would lead elsewhere.
    async fn short_url(&self, workspace: &Workspace, code: &Code) -> Result<Option<String>, Failure> {
        let directory = HostDirectory::load(self.store(), self.ops.naming.base_domain.as_ref()).await?;
        Ok(self.ops.naming.short_url(&directory, workspace, code))
    }

    /// A link with its address. Its numbers are asked for where they are shown.
    pub(crate) async fn seen(&self, workspace: &Workspace, link: Link) -> Result<Seen, Failure> {
        let short_url = self.short_url(workspace, &link.code).await?;
        Ok(Seen { link, stats: None, short_url, workspace: workspace.slug.to_string() })
    }

    /// What became of a link, with its address.
    pub(crate) async fn made(&self, workspace: &Workspace, done: rlinks_ops::Done) -> Result<Made, Failure> {
        Ok(Made {
            seen: self.seen(workspace, done.link).await?,
            outcome: done.outcome,
            not_applied: done.not_applied.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Adds what helps somebody who looks in the wrong folder.
    pub(crate) fn explain_fresh(&self, failure: Failure) -> Failure {
        if self.fresh && failure.code() == rlinks_core::error_code::ErrorCode::NotFound {
            let place = self.config.store_shown();
            return failure
                .hint(format!("{place} is new and empty: is it the right one? Choose with --data or --env"));
        }
        failure
    }
}

/// Whether a journal holds anything: what cannot be looked at is as good as empty.
fn holds_anything(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    // Clicks, and how many were dropped.
    let is_ours = |name: &[u8]| name.starts_with(b"j-") || name.starts_with(b"d-");
    entries.flatten().any(|entry| is_ours(entry.file_name().as_encoded_bytes()))
}

/// The living workspaces with links that no host leads to once any domain is configured.
pub(crate) async fn unreached(store: &Store, config: &Config) -> Result<Vec<Slug>, StoreError> {
    let domains = store.domains().await?;
    if config.base_domain.is_some() || (store.operator_hosts().await?.is_empty() && config.domain.is_none()) {
        return Ok(Vec::new());
    }
    let mut unreached = Vec::new();
    for workspace in store.workspaces().await? {
        let has_domain = domains.iter().any(|domain| domain.workspace == workspace.id)
            || (workspace.slug.as_str() == Slug::MAIN && config.domain.is_some());
        if workspace.deleted_at.is_none() && !has_domain && store.count_links(workspace.id).await? > 0 {
            unreached.push(workspace.slug);
        }
    }
    Ok(unreached)
}
