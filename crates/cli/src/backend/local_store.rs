//! A command at work: the store it opened, who acts, and what belongs to every change.

use std::path::Path;
use std::sync::Arc;

use rlinks_clicks::database::clicks_exist;
use rlinks_clicks::journal::{self, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::{ClickStore, Ingest};
use rlinks_core::link::route_object::{ClickTotals, RouteObject};
use rlinks_core::{Actor, Code, Link, Slug, Timestamp, Workspace};
use rlinks_ops::domain_checks::DomainChecker;
use rlinks_ops::safety::Safety;
use rlinks_ops::{Caller, OpenedStore, Ops, OpsSettings};
use rlinks_routes::host_directory::HostDirectory;
use rlinks_store::audit::signing_key::{Signer, SigningKey};
use rlinks_store::clock::{Clock, Random};
use rlinks_store::{Location, MissingStore, Store, StoreError, StoreOptions};
use tokio::sync::OnceCell;

use crate::backend::links::{LinkDetails, LinkResult};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::CliError;
use crate::files::{ServerLock, lock_out_servers};
use crate::identity;
use crate::output::Output;

/// An open store and everything a command needs beside it.
pub(crate) struct LocalStore {
    pub(crate) ops: Ops,
    pub(crate) config: Config,
    pub(crate) output: Output,
    /// What signs audit heads and backups.
    pub(crate) signing_key: SigningKey,
    environment: Environment,
    is_new: bool,
    clicks: OnceCell<ClickStore>,
}

/// How to open the store a configuration names.
pub(crate) fn store_options(config: &Config, if_missing: MissingStore) -> Result<StoreOptions, CliError> {
    Ok(StoreOptions {
        location: config.location()?.clone(),
        worker: config.worker,
        holder: format!("{}:{}", identity::hostname(), std::process::id()),
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
pub(crate) fn ensure_data_is_folder(data: &Path) -> Result<(), StoreError> {
    if std::fs::metadata(data).is_ok_and(|there| !there.is_dir()) {
        return Err(StoreError::Unavailable(format!("{} is not a folder", data.display())));
    }
    Ok(())
}

impl LocalStore {
    pub(crate) async fn open(
        config: Config,
        environment: Environment,
        output: Output,
    ) -> Result<Self, CliError> {
        let options = store_options(&config, MissingStore::Refuse)?;
        ensure_data_is_folder(&config.data)?;
        let is_new = matches!(&options.location, Location::Sqlite(path) if !path.exists());
        let opened = OpenedStore::open(options).await?;
        Self::from_store(opened, config, environment, output, is_new)
    }

    /// With a store that was opened in another way.
    pub(crate) fn from_store(
        opened: OpenedStore,
        config: Config,
        environment: Environment,
        output: Output,
        is_new: bool,
    ) -> Result<Self, CliError> {
        let (clock, random) = (Clock::system(), Random::system());
        let safety = Safety::new(&config.safety, &clock).map_err(CliError::usage)?;
        let domain_checker = DomainChecker::new(&config.domain_checks, random.clone());
        let domain_checker = domain_checker.map_err(CliError::usage)?;
        let settings = OpsSettings {
            short_urls: config.short_urls(),
            own_host: config.own_host(),
            clock,
            random,
            routes: None,
            safety: Arc::new(safety),
            domain_checker: Arc::new(domain_checker),
            target_changes_per_minute: config.target_changes_per_minute,
            removals_per_minute: config.removals_per_minute,
            resource_limits: config.resource_limits,
        };
        let ops = Ops::new(opened, settings);
        let signing_key = config.signing_key();
        Ok(Self { ops, config, output, signing_key, environment, is_new, clicks: OnceCell::new() })
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
    pub(crate) async fn clicks(&self) -> Result<&ClickStore, StoreError> {
        let open = async {
            let clicks = ClickStore::open(self.store().location()).await?;
            if let Err(why) = self.ingest_abandoned_journal(&clicks).await {
                self.output.warning(&format!("clicks a server left behind were not stored yet: {why}"));
            }
            Ok(clicks)
        };
        self.clicks.get_or_try_init(|| open).await
    }

    async fn ingest_abandoned_journal(&self, clicks: &ClickStore) -> Result<(), String> {
        let folder = self.config.data.join(journal::JOURNAL_FOLDER);
        if !has_journal_files(&folder) {
            return Ok(());
        }
        // Kept to the end: a server that starts meanwhile would read the same segments.
        let held = lock_out_servers(&self.config.data).map_err(|error| error.to_string())?;
        let ServerLock::Free(_lock) = held else { return Ok(()) };
        let mut ingest = Ingest::new(
            self.store().clone(),
            tokio::runtime::Handle::current(),
            Reader::abandoned(&folder),
            self.config.geoip.clone(),
            Arc::new(MissCounter::default()),
        );
        let progress = self.output.counter("storing clicks that were left behind", None);
        loop {
            match ingest.ingest_next_batch(clicks, self.now()).await {
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
            let subjects: Vec<RollupSubject> =
                links.iter().map(|link| RollupSubject::link(link.workspace, link.id)).collect();
            let totals = clicks.totals(&subjects).await.map_err(StoreError::for_clicks)?;
            let stats = |subject: &RollupSubject| {
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
        clicks_exist(self.store().location())
            || has_journal_files(&self.config.data.join(journal::JOURNAL_FOLDER))
    }

    /// What an object store wants to know: who we are there, and where it is.
    pub(crate) fn object_store_options(&self) -> Vec<(String, String)> {
        aws_variables(&self.environment)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.ops.store
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ops.clock.now()
    }

    pub(crate) fn actor(&self) -> Actor {
        identity::operator(&self.config, &self.environment)
    }

    /// The operator in a workspace.
    pub(crate) fn caller_in(&self, workspace: &Workspace) -> Caller {
        Caller::operator(self.actor(), workspace.clone())
    }

    /// The workspace of `--workspace`.
    pub(crate) async fn workspace(&self) -> Result<Workspace, CliError> {
        self.workspace_named(&self.config.workspace).await
    }

    pub(crate) async fn workspace_named(&self, slug: &str) -> Result<Workspace, CliError> {
        // What is no slug names no workspace.
        Ok(self.ops.workspace(&Slug::from_stored(slug.to_owned())).await?)
    }

    /// Does a change and what belongs to every change: the configured domain is entered first, the heads are signed after.
    pub(crate) async fn change<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        self.register_domain().await?;
        let done = work.await;
        self.write_checkpoint().await;
        done
    }

    /// Enters the configured domain in workspace `main` where no workspace has it.
    pub(crate) async fn register_domain(&self) -> Result<(), CliError> {
        let Some(host) = &self.config.domain else { return Ok(()) };
        let main = self.ops.workspace(&Slug::main()).await;
        let known = self.store().domains().await?;
        match (known.iter().find(|domain| domain.host == *host), main) {
            (Some(domain), Ok(main)) if domain.workspace != main.id => {
                self.output
                    .warning(&format!("the configured domain {host} belongs to another workspace than main"));
            }
            (None, Ok(main)) => {
                self.ops.add_domain(&self.caller_in(&main), host.clone()).await?;
            }
            // A deleted `main` has no use for it.
            (Some(_), _) | (None, Err(_)) => {}
        }
        Ok(())
    }

    /// Appends the signed ends of all chains to the log in the data folder. The change is made: a failure here only warns.
    pub(crate) async fn write_checkpoint(&self) {
        if let Err(error) = self.try_write_checkpoint().await {
            self.output.warning(&format!("the audit heads were not signed: {error}"));
        }
    }

    async fn try_write_checkpoint(&self) -> Result<(), StoreError> {
        self.ops.sign_heads(&self.signing_key).await.map(drop)
    }

    /// The key of this installation, made where it was never needed before. The first thing it signs is where the chains end, so that it
    /// is missed if it vanishes.
    pub(crate) async fn signer(&self) -> Result<Arc<Signer>, StoreError> {
        self.try_write_checkpoint().await?;
        self.ops.signer(&self.signing_key).await
    }

    /// The address of a link, as people share it. None where no host leads to its workspace: any other would lead elsewhere.
    async fn short_url(&self, workspace: &Workspace, code: &Code) -> Result<Option<String>, CliError> {
        let directory = HostDirectory::load(self.store(), self.ops.short_urls.base_domain.as_ref()).await?;
        Ok(self.ops.short_urls.short_url(&directory, workspace, code))
    }

    /// A link with its address. Its numbers are asked for where they are shown.
    pub(crate) async fn link_details(
        &self,
        workspace: &Workspace,
        link: Link,
    ) -> Result<LinkDetails, CliError> {
        let short_url = self.short_url(workspace, &link.code).await?;
        Ok(LinkDetails { link, stats: None, short_url, workspace: workspace.slug.to_string() })
    }

    /// What became of a link, with its address.
    pub(crate) async fn link_result(
        &self,
        workspace: &Workspace,
        result: rlinks_ops::LinkResult,
    ) -> Result<LinkResult, CliError> {
        Ok(LinkResult {
            details: self.link_details(workspace, result.link).await?,
            outcome: result.outcome,
            not_applied: result.not_applied.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Adds what helps somebody who looks in the wrong folder.
    pub(crate) fn hint_new_store(&self, failure: CliError) -> CliError {
        if self.is_new && failure.code() == rlinks_core::error_code::ErrorCode::NotFound {
            let location = self.config.store_shown();
            return failure.hint(format!(
                "{location} is new and empty: is it the right one? Choose with --data or --env"
            ));
        }
        failure
    }
}

/// Whether a journal holds anything: what cannot be looked at is as good as empty.
fn has_journal_files(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    // Clicks, and how many were dropped.
    let is_ours = |name: &[u8]| name.starts_with(b"j-") || name.starts_with(b"d-");
    entries.flatten().any(|entry| is_ours(entry.file_name().as_encoded_bytes()))
}

/// The living workspaces with links that no host leads to once any domain is configured.
pub(crate) async fn unreachable_workspaces(store: &Store, config: &Config) -> Result<Vec<Slug>, StoreError> {
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
