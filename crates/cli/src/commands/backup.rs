//! `rmax backup` and `rmax restore`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rlinks_core::audit::{GENESIS_HASH, Head};
use rlinks_ops::OpenedStore;
use rlinks_store::audit::checkpoints::CHECKPOINT_LOG_FILE;
use rlinks_store::audit::key_statements::TrustedKeys;
use rlinks_store::backup::{self, BackupCounts, BackupOrigin, RestoreTrust};
use rlinks_store::database::atomic_file::Overwrite;
use rlinks_store::{Location, MissingStore, StoreError};
use serde_json::json;

use crate::args::{Backup, Restore};
use crate::backend::local_store::{self, LocalStore};
use crate::checkpoint_log;
use crate::config::Config;
use crate::environment::Environment;
use crate::error::CliError;
use crate::files::{OutputFile, ServerLock, cannot_read, lock_out_servers};
use crate::output::{Confirmation, Output, confirm, is_interactive};

pub(crate) async fn run(local: &LocalStore, args: &Backup) -> Result<(), CliError> {
    let mut file = OutputFile::create(&args.file, Overwrite::from_flag(args.force))?;
    let signer = local.signer().await?;
    let progress = local.output.progress("saving");
    let saved = local.store().backup(progress.wrap_writer(&mut file), &signer, local.now()).await;
    drop(progress);
    let counts = saved.map_err(|error| file.write_error().unwrap_or_else(|| error.into()))?;
    let is_stdout = file.is_stdout();
    file.finish()?;
    if is_stdout {
        local.output.note(&summary(&counts, "saved"));
        return Ok(());
    }
    report(local.output, &args.file, &counts, Some(signer.fingerprint()), "saved")
}

fn summary(counts: &BackupCounts, done: &str) -> String {
    format!(
        "{done}: workspaces {}, domains {}, members {}, keys {}, links {}, audit entries {}",
        counts.workspaces, counts.domains, counts.users, counts.keys, counts.links, counts.audit
    )
}

fn report(
    output: Output,
    file: &Path,
    counts: &BackupCounts,
    fingerprint: Option<String>,
    done: &str,
) -> Result<(), CliError> {
    if output.json {
        return output.object(&json!({
            "file": file,
            "workspaces": counts.workspaces,
            "domains": counts.domains,
            "users": counts.users,
            "keys": counts.keys,
            "links": counts.links,
            "audit": counts.audit,
            "fingerprint": fingerprint,
        }));
    }
    output.done(&summary(counts, done))?;
    if let Some(fingerprint) = fingerprint {
        output.note(&format!("signed by key {fingerprint}"));
    }
    Ok(())
}

/// Verified before anything is touched, refused where it would replace something, and never beside a running server.
pub(crate) async fn restore(
    config: Config,
    environment: Environment,
    output: Output,
    args: &Restore,
) -> Result<(), CliError> {
    config.location()?;
    local_store::ensure_data_is_folder(&config.data)?;
    std::fs::File::open(&args.file).map_err(|error| cannot_read(&args.file, &error))?;
    let progress = output.progress("reading");
    let origin = backup::verify(&args.file)?.origin;
    drop(progress);
    let trust = decide_trust(&config, output, args, &origin)?;
    let running = || {
        CliError::failed(format!("a server is running on {}; nothing was changed", config.data.display()))
            .hint("stop it, restore, and start it again")
    };
    let lock = match lock_out_servers(&config.data).map_err(|error| cannot_read(&config.data, &error))? {
        ServerLock::Running => return Err(running()),
        ServerLock::Free(lock) => lock,
    };
    let overwrite = Overwrite::from_flag(args.force);
    let progress = output.progress("restoring");
    let opened = open(&config, overwrite, output).await?;
    let local = LocalStore::from_store(opened, config, environment, output, false)?;
    let done = replace(&local, &args.file, &trust, overwrite).await;
    local.store().close().await;
    drop(lock);
    drop(progress);
    report(output, &args.file, &done?, origin.fingerprint(), "restored")
}

/// Whose word is taken for what the backup says. What this installation signed, or one that it took over from, is believed; about others
/// somebody has to decide.
fn decide_trust(
    config: &Config,
    output: Output,
    args: &Restore,
    origin: &BackupOrigin,
) -> Result<RestoreTrust, CliError> {
    let file = args.file.display();
    let (Some(key), Some(fingerprint)) = (&origin.key, origin.fingerprint()) else {
        if !args.unsigned {
            return Err(CliError::failed(format!(
                "{file} is not signed: a backup of format {} has a checksum only, which whoever changes it can compute anew; nothing was changed",
                origin.format
            ))
            .hint("if it was in your hands since it was written, restore it with --unsigned"));
        }
        output.warning(&format!(
            "{file} is not signed, so nobody can tell whether it was changed since it was written on {}",
            origin.created_at
        ));
        return Ok(RestoreTrust::Unsigned);
    };
    let trust = RestoreTrust::Key(key.clone());
    if let Some(named) = &args.trust {
        if digits(named) == digits(&fingerprint) {
            return Ok(trust);
        }
        return Err(CliError::failed(format!(
            "{file} is signed by key {fingerprint}, not by {named}; nothing was changed"
        ))
        .hint("ask whoever wrote it for the fingerprint of their key: `rmax doctor` shows it"));
    }
    if is_known(config, key)? {
        return Ok(trust);
    }
    let asked = format!(
        "{file} was written by another installation, on {}. Its key is {fingerprint}",
        origin.created_at
    );
    if output.json || !is_interactive() {
        return Err(CliError::failed(format!("{asked}; nothing was changed")).hint(format!(
            "compare that with what `rmax backup` or `rmax doctor` says there, and restore it with --trust {fingerprint}"
        )));
    }
    match confirm(&format!("{asked}, as `rmax doctor` shows it there.\nRestore it?"))? {
        Confirmation::Confirmed => Ok(trust),
        Confirmation::Declined => Err(CliError::failed("nothing was changed")),
    }
}

/// A fingerprint without what people put between its digits.
fn digits(fingerprint: &str) -> String {
    let digits = fingerprint.chars().filter(char::is_ascii_alphanumeric);
    digits.map(|digit| digit.to_ascii_lowercase()).collect()
}

/// Whether the key of this installation is that one, or vouches for it. The store is not asked: it may be what has to be restored.
fn is_known(config: &Config, key: &str) -> Result<bool, StoreError> {
    let Some(signer) = config.signing_key().load()? else { return Ok(false) };
    let log = checkpoint_log::read(&config.data.join(CHECKPOINT_LOG_FILE)).unwrap_or_default();
    Ok(TrustedKeys::from_statements(&signer.public_key(), &log.signed.statements).contains(key))
}

async fn replace(
    local: &LocalStore,
    file: &Path,
    trust: &RestoreTrust,
    overwrite: Overwrite,
) -> Result<BackupCounts, CliError> {
    if overwrite == Overwrite::Refuse && !local.store().is_empty().await? {
        return Err(CliError::failed(format!(
            "{} is not empty; nothing was changed",
            local.config.store_shown()
        ))
        .hint("replace everything in it with --force, after a `rmax backup` of its own"));
    }
    let counts = local.ops.restore_backup(file, trust).await?;
    if let Err(error) = write_restored_checkpoint(local, trust).await {
        local.output.warning(&format!("the audit heads were not signed: {error}"));
    }
    Ok(counts)
}

/// Opens what is there. A damaged or foreign file is put aside on request, never removed: somebody may still save something.
async fn open(config: &Config, overwrite: Overwrite, output: Output) -> Result<OpenedStore, CliError> {
    let options = || local_store::store_options(config, MissingStore::Recreate);
    match (OpenedStore::open(options()?).await, config.location()?) {
        (Err(StoreError::Refused(why)), Location::Sqlite(path)) if overwrite == Overwrite::Replace => {
            // What the store says ends in advice for somebody who does not restore already.
            let what = why.split("; ").next().and_then(|what| what.split(". ").next()).unwrap_or(&why);
            output.warning(what);
            let aside = move_aside(path, options()?.now.ms())?;
            output.warning(&format!("it was put aside as {}", aside.display()));
            Ok(OpenedStore::open(options()?).await?)
        }
        (Err(error @ StoreError::Refused(_)), _) => {
            Err(CliError::from(error).hint("`rmax restore <file> --force` puts it aside and begins anew"))
        }
        (opened, _) => Ok(opened?),
    }
}

fn move_aside(path: &Path, now_ms: i64) -> Result<PathBuf, CliError> {
    let named = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = named(&format!(".damaged-{now_ms}"));
    for suffix in ["-wal", "-shm", ""] {
        let mut to = aside.as_os_str().to_owned();
        to.push(suffix);
        match std::fs::rename(named(suffix), to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(crate::files::cannot_write(path, &error)),
        }
    }
    Ok(aside)
}

/// From here on the heads of the backup bind the store. A workspace it does not have ends here, so that its earlier heads are
/// not missed.
async fn write_restored_checkpoint(local: &LocalStore, trust: &RestoreTrust) -> Result<(), StoreError> {
    let there: BTreeSet<String> =
        local.store().heads().await?.into_iter().map(|(_, head)| head.workspace).collect();
    let known = checkpoint_log::read(&local.config.data.join(CHECKPOINT_LOG_FILE))?;
    let known = known.signed.checkpoints.into_iter().map(|checkpoint| checkpoint.head.workspace);
    let gone: BTreeSet<String> = known.filter(|workspace| !there.contains(workspace)).collect();
    let gone = gone.into_iter().map(|workspace| Head { workspace, seq: 0, hash: GENESIS_HASH.to_owned() });
    let former = match trust {
        RestoreTrust::Key(key) => Some(key.as_str()),
        RestoreTrust::Unsigned => None,
    };
    local.ops.sign_restored_heads(&local.signing_key, gone.collect(), former).await
}
