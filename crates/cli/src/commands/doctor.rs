//! `rmax doctor`: look at everything that can be looked at, change nothing, and say what to do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rlinks_clicks::ClickStore;
use rlinks_clicks::database::clicks_exist;
use rlinks_clicks::enrich::geo::Geo;
use rlinks_clicks::journal::{self, DroppedClicks};
use rlinks_core::id::EPOCH_MS;
use rlinks_core::{DomainStatus, Slug, Timestamp};
use rlinks_ops::api_keys::stale_before;
use rlinks_ops::safety::blocklist::BlocklistFile;
use rlinks_server::Tls;
use rlinks_server::auth::oidc::provider::Issuer;
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE};
use rlinks_store::audit::signing_key::SigningKeySource;
use rlinks_store::clock::Clock;
use rlinks_store::{Location, MissingStore, Store, StoreError};
use serde::Serialize;

use crate::backend::local_store;
use crate::checkpoint_log;
use crate::config::Config;
use crate::error::{CliError, one_line};
use crate::files::{ServerLock, server_lock};
use crate::output::Output;

/// A clock this far behind the last change was set back, or the change was made elsewhere by one that runs ahead.
const MAX_CLOCK_SKEW_MS: i64 = 60_000;
/// Keys that are named; of more it is only said that there are.
const MAX_NAMED_KEYS: i64 = 20;

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Collects what was found.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.0.push(Finding { check, ok: true, message: message.into(), hint: None });
    }

    fn problem(&mut self, check: &'static str, message: impl Into<String>, hint: &str) {
        self.0.push(Finding { check, ok: false, message: message.into(), hint: Some(hint.to_owned()) });
    }

    fn failure(&mut self, check: &'static str, failure: &CliError, otherwise: &str) {
        // Whoever reads this has asked the doctor already.
        let hint = failure.hints().iter().find(|hint| !hint.contains("rmax doctor"));
        let mut message = failure.messages().join("; ");
        for advice in [", or ask `rmax doctor`", ", or look closer with `rmax doctor`"] {
            message = message.replace(advice, "");
        }
        self.problem(check, message, hint.map_or(otherwise, String::as_str));
    }
}

pub(crate) async fn run(config: Result<Config, CliError>, output: Output) -> Result<(), CliError> {
    let mut findings = Findings::default();
    match config {
        Err(failure) => findings.failure("config", &failure, "correct the configuration"),
        Ok(config) => {
            let location = config.location()?;
            let file = config.file.as_ref().map(|file| format!("{} is readable", file.display()));
            findings.ok("config", file.unwrap_or_else(|| "no file, so defaults and variables".to_owned()));
            check_clock(&mut findings, None);
            check_data_folder(&mut findings, &config.data);
            check_server(&mut findings, &config.data);
            open_and_check_store(&mut findings, &config, location).await;
            check_oidc_provider(&mut findings, &config).await;
            check_files(&mut findings, &config).await;
        }
    }
    report(&findings, output)
}

fn report(Findings(findings): &Findings, output: Output) -> Result<(), CliError> {
    if output.json {
        output.object(findings)?;
    } else {
        for Finding { check, ok, message, hint } in findings {
            output.line(&format!("{:7}  {check}: {message}", if *ok { "ok" } else { "problem" }))?;
            if let Some(hint) = hint {
                output.line(&format!("         {hint}"))?;
            }
        }
    }
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => Ok(()),
        1 => Err(CliError::failed("one problem was found")),
        problems => Err(CliError::failed(format!("{problems} problems were found"))),
    }
}

fn check_clock(findings: &mut Findings, last_change: Option<Timestamp>) {
    let now = Clock::system().now();
    match last_change {
        None if now.ms() < EPOCH_MS => {
            findings.problem(
                "clock",
                format!("it is {now} here, before 2024"),
                "set the clock of this machine",
            );
        }
        None => findings.ok("clock", format!("it is {now}")),
        Some(last) if last.ms() > now.ms() + MAX_CLOCK_SKEW_MS => findings.problem(
            "clock",
            format!("the last change was at {last}, and it is only {now} here"),
            "set the clock of this machine, or of the one the change was made on",
        ),
        Some(_) => {}
    }
}

/// Whether others can read what is secret, or write where only we should.
fn check_data_folder(findings: &mut Findings, data: &Path) {
    let mode = |path: &Path| std::fs::metadata(path).ok().map(|file| file.permissions().mode() & 0o777);
    let Some(folder) = mode(data) else {
        check_missing_data_folder(findings, data);
        return;
    };
    if !data.is_dir() {
        let message = format!("{} is not a folder", data.display());
        findings.problem("data", message, "choose another with --data");
        return;
    }
    if folder & 0o022 != 0 {
        let message = format!("{} can be written by others (mode {folder:o})", data.display());
        findings.problem("data", message, &format!("run `chmod 700 {}`", data.display()));
        return;
    }
    for name in ["rlinks.db", "audit-key"] {
        let path = data.join(name);
        if let Some(bits) = mode(&path).filter(|bits| bits & 0o077 != 0 && folder & 0o077 != 0) {
            let message = format!("{} can be read by others (mode {bits:o})", path.display());
            findings.problem("data", message, &format!("run `chmod 600 {}`", path.display()));
            return;
        }
    }
    if rustix::fs::access(data, rustix::fs::Access::WRITE_OK).is_err() {
        let message = format!("{} cannot be written", data.display());
        findings.problem("data", message, "run as its owner, or make it writable");
        return;
    }
    findings.ok("data", format!("{} is ours alone to write", data.display()));
}

/// A folder that is not there yet is made in the nearest one that is.
fn check_missing_data_folder(findings: &mut Findings, data: &Path) {
    let named =
        data.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let there = named.into_iter().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let writable = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if !there.is_dir() {
        let message = format!("{} cannot be made: {} is not a folder", data.display(), there.display());
        findings.problem("data", message, "choose another with --data");
    } else if rustix::fs::access(there, writable).is_err() {
        let message = format!("{} cannot be made: {} cannot be written", data.display(), there.display());
        findings.problem("data", message, "choose another with --data, or make that folder writable");
    } else {
        findings.ok("data", format!("{} is not there yet; the first command makes it", data.display()));
    }
}

fn check_server(findings: &mut Findings, data: &Path) {
    match server_lock(data) {
        Ok(ServerLock::Running) => findings.ok("server", "one is running on this folder"),
        Ok(ServerLock::Free(_)) => findings.ok("server", "none is running on this folder"),
        Err(error) => {
            findings.problem("server", format!("its lock cannot be read: {error}"), "run as its owner");
        }
    }
}

async fn open_and_check_store(findings: &mut Findings, config: &Config, location: &Location) {
    let shown = config.store_shown();
    if let Location::Sqlite(path) = location
        && !path.exists()
        && !config.data.join(CHECKPOINT_LOG_FILE).exists()
    {
        findings.ok("store", format!("{shown} is not there yet; the first command makes it"));
        return;
    }
    let opened = async {
        Ok::<_, CliError>(Store::open(local_store::store_options(config, MissingStore::Refuse)?).await?)
    };
    let store = match opened.await {
        Ok((store, _)) => store,
        Err(failure) => {
            findings.failure("store", &failure, "see what the message says");
            return;
        }
    };
    findings.ok("store", format!("{shown} opens"));
    if let Err(failure) = check_store(findings, &store, config).await {
        findings.failure("store", &failure, "restore a backup with `rmax restore`");
    }
    let journal = config.data.join(journal::JOURNAL_FOLDER);
    let is_full = journal::folder_bytes(&journal) >= config.journal_bytes;
    if is_full {
        let message = format!("{} has used up journal_mb, so clicks are dropped", journal.display());
        findings.problem("journal", message, "see below why clicks are not stored, or raise journal_mb");
    }
    let drops = journal::read_drop_counters(&journal).unwrap_or_default();
    if let Err(failure) = check_clicks(findings, &store, &drops).await {
        let dropped: u64 = drops.iter().map(|drops| drops.clicks).sum();
        let hint = if dropped > 0 || is_full {
            format!("redirects go on; of what they record {dropped} clicks were dropped and not counted yet")
        } else {
            "redirects go on, and the journal holds what they record".to_owned()
        };
        findings.failure("clicks", &failure, &hint);
    }
    store.close().await;
}

/// Whether the OpenID provider answers, and has keys we may use.
async fn check_oidc_provider(findings: &mut Findings, config: &Config) {
    let Some(settings) = &config.oidc else { return };
    let looked =
        async { Issuer::new(&settings.issuer, &settings.algorithms, Clock::system())?.probe().await };
    match looked.await {
        Ok(keys) => {
            findings.ok("oidc", format!("{} answers; {keys} of its keys can be used", settings.issuer));
        }
        Err(error) => findings.problem(
            "oidc",
            format!("{}: {error}", settings.issuer),
            "nobody can sign in this way until it answers; see that `oidc.issuer` is what it calls itself",
        ),
    }
}

/// Whether the files the configuration names can be used.
async fn check_files(findings: &mut Findings, config: &Config) {
    if let Some(tls) = &config.tls {
        match Tls::load(tls.clone()) {
            Ok(_) => findings.ok("tls", "certificate and key can be used"),
            Err(error) => {
                findings.problem("tls", error.clone(), "see `tls.cert` and `tls.key`; no server starts");
            }
        }
    }
    if let Some(path) = &config.safety.blocklist {
        match BlocklistFile::new(path.clone()).get().await {
            Ok(list) => {
                let message = format!("{} entries, {} bad lines", list.entries, list.bad.count);
                findings.ok("block list", message);
            }
            Err(error) => {
                let hint = "see `safety.blocklist_path`; no server starts, and no link is written";
                findings.problem("block list", error, hint);
            }
        }
    }
    if let Some(path) = &config.geoip {
        match Geo::open(path).error() {
            None => findings.ok("places", format!("{} can be read", path.display())),
            Some(error) => {
                findings.problem(
                    "places",
                    error.to_string(),
                    "see `geoip_path`; clicks are counted without places",
                );
            }
        }
    }
}

async fn check_store(findings: &mut Findings, store: &Store, config: &Config) -> Result<(), CliError> {
    let schema = store.schema().await?;
    if schema.known == schema.applied {
        findings.ok("schema", format!("up to date ({})", schema.applied.last().copied().unwrap_or_default()));
    } else {
        let message = format!("applied {:?}, known {:?}", schema.applied, schema.known);
        findings.problem("schema", message, "run `rmax migrate up` with the newest rmax");
    }
    let damage = store.integrity_check().await?;
    if damage.is_empty() {
        findings.ok("integrity", "the database finds no damage");
    } else {
        findings.problem(
            "integrity",
            damage.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("; "),
            "restore a backup with `rmax restore <file> --force`",
        );
    }
    let marks = check_checkpoint_log(findings, store, config).await?;
    match store.verify(&marks).await? {
        Ok(heads) => {
            let entries: i64 = heads.iter().map(|head| head.seq).sum();
            findings.ok("audit", format!("{entries} entries, none edited, removed or cut off"));
        }
        Err(fault) => findings.problem("audit", fault.to_string(), "compare with a backup or an export"),
    }
    let strangers = store.links_differing_from_log().await?;
    if strangers.is_empty() {
        findings.ok("links", "every link is what the audit log says");
    } else {
        let message = format!("changed past the audit log: {}", strangers.join(", "));
        findings.problem("links", message, "`rmax links history <code>` shows what the log knows");
    }
    let strangers = store.records_differing_from_log().await?;
    if !strangers.is_empty() {
        let message = format!("changed past the audit log: {}", strangers.join(", "));
        findings.problem("directory", message, "`rmax audit list` shows what the log knows");
    }
    for slug in local_store::unreachable_workspaces(store, config).await? {
        findings.problem(
            "domains",
            format!("workspace {slug} has links and no domain, so no host reaches them"),
            &format!("`rmax domains add <host> --workspace {slug}` adds one"),
        );
    }
    let living = store.workspaces().await?.iter().filter(|workspace| workspace.deleted_at.is_none()).count();
    if living > 1 && config.domain.is_none() && store.operator_hosts().await?.is_empty() {
        findings.problem(
            "domains",
            "workspace main answers on every host, and it is not the only workspace",
            "`rmax domains add <host>` gives it its own; from then on unknown hosts get 404",
        );
    }
    check_domains(findings, store, config).await?;
    check_keys(findings, store).await?;
    if let Some(main) = store.workspace(&Slug::main()).await? {
        check_clock(findings, store.last_change(main.id).await?);
    }
    Ok(())
}

/// What was last seen of hosts. One that waits for its first proof is its workspace's business.
async fn check_domains(findings: &mut Findings, store: &Store, config: &Config) -> Result<(), CliError> {
    let held = store.domain_records().await?;
    let now = Clock::system().now();
    let mut all_is_well = true;
    for known in held.iter().filter(|known| known.verification.status() != DomainStatus::Unverified) {
        if let Some(warning) = known.verification.warning(now) {
            let hint = "`rmax domains check` looks again";
            findings.problem("custody", format!("{}: {warning}", known.domain.host), hint);
            all_is_well = false;
        }
    }
    let base = config.base_domain.as_ref().filter(|_| config.domain_checks.enabled);
    if let Some(base) = base.filter(|base| held.iter().all(|known| known.domain.host != **base)) {
        let message = format!("nobody looks after {base}, the base domain");
        findings.ok("custody", format!("{message}; `rmax domains add {base}` gives it to workspace main"));
    } else if config.domain_checks.enabled && all_is_well {
        findings.ok("custody", "nothing is wrong with hosts that was seen");
    }
    Ok(())
}

/// Keys that haven't been rotated for a year: the longer a key is in use, the more places it may have leaked to.
async fn check_keys(findings: &mut Findings, store: &Store) -> Result<(), CliError> {
    let now = Clock::system().now();
    let stale = store.keys_older_than(None, None, stale_before(now), now, MAX_NAMED_KEYS + 1).await?;
    let most = usize::try_from(MAX_NAMED_KEYS).unwrap_or_default();
    let mut names: Vec<String> = stale
        .iter()
        .take(most)
        .map(|(workspace, key)| format!("{} ({}, workspace {workspace})", one_line(&key.name), key.prefix))
        .collect();
    if stale.len() > most {
        names.push("and more".to_owned());
    }
    if !names.is_empty() {
        findings.problem(
            "keys",
            format!("unchanged for a year: {}", names.join(", ")),
            "`rmax keys rotate <id>` replaces a key, and the old one works for 24 hours more",
        );
    }
    Ok(())
}

/// Whether clicks can be read, and whether any were lost. Where none were ever recorded there is nothing to make.
async fn check_clicks(
    findings: &mut Findings,
    store: &Store,
    drops: &[DroppedClicks],
) -> Result<(), CliError> {
    if !clicks_exist(store.location()) {
        let lost = match drops.iter().map(|drops| drops.clicks).sum::<u64>() {
            0 => String::new(),
            dropped => format!("; lost since the beginning: {dropped} dropped"),
        };
        findings.ok("clicks", format!("none were stored yet{lost}"));
        return Ok(());
    }
    let clicks = ClickStore::open(store.location()).await?;
    let looked = async { Ok((clicks.last_event().await?, clicks.losses_with(drops).await?)) };
    let looked = looked.await.map_err(StoreError::for_clicks);
    clicks.close().await;
    let (stored, losses) = looked?;
    let lost: Vec<String> = losses.iter().map(|(reason, clicks)| format!("{clicks} {reason}")).collect();
    let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
    findings.ok("clicks", format!("{stored} were stored; lost since the beginning: {lost}"));
    Ok(())
}

/// The fingerprint of the key that signs heads and backups, and whether it ought to have signed some.
async fn check_signing_key(
    findings: &mut Findings,
    store: &Store,
    config: &Config,
) -> Result<(Option<String>, bool), CliError> {
    let (key, known) = (config.signing_key(), store.audit_keys().await?);
    let hint = "put it back from a copy, or make a new one with `rmax keys rotate-installation audit`";
    let is_default = *key.source() == SigningKeySource::DataFolder;
    match key.load() {
        Ok(Some(signer)) => return Ok((Some(signer.fingerprint()), is_default || !known.is_empty())),
        Ok(None) if is_default && known.is_empty() => {}
        Ok(None) => findings.problem("heads", format!("there is no audit key at {}", key.describe()), hint),
        Err(error) => findings.problem("heads", error.to_string(), hint),
    }
    Ok((None, !known.is_empty()))
}

/// The heads that were signed, as far as they can be believed.
async fn check_checkpoint_log(
    findings: &mut Findings,
    store: &Store,
    config: &Config,
) -> Result<Vec<rlinks_core::audit::Head>, CliError> {
    let (fingerprint, was_used) = check_signing_key(findings, store, config).await?;
    let log = config.data.join(CHECKPOINT_LOG_FILE);
    let read = match checkpoint_log::read(&log) {
        Ok(read) => read,
        Err(error) => {
            let hint = "put the file back from a copy; what it says now cannot be believed";
            findings.problem("heads", error.to_string(), hint);
            return Ok(Vec::new());
        }
    };
    if read.signed.checkpoints.is_empty() {
        let what = checkpoint_log::describe_empty(&log);
        if was_used {
            let hint =
                "put the file back from a copy; without it nobody sees that the end of the log was cut off";
            findings.problem("heads", format!("{what}, though heads were signed"), hint);
        } else {
            findings.ok("heads", format!("{what}; the first change makes it"));
        }
        return Ok(Vec::new());
    }
    let torn: Vec<String> =
        read.torn_lines.iter().map(|line| format!("; line {line} is torn and was passed over")).collect();
    let heads = read.signed.checkpoints.len();
    let by = fingerprint.map_or_else(String::new, |key| format!("; the key is {key}"));
    findings.ok("heads", format!("{heads} signed heads in {}{}{by}", log.display(), torn.concat()));
    Ok(checkpoints::effective_heads(&read.signed.checkpoints))
}
