//! `rmax backup` and `rmax restore`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rlinks_core::audit::{GENESIS_HASH, Head};
use rlinks_ops::OpenedStore;
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE};
use rlinks_store::backup::{self, BackupCounts};
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
use crate::output::Output;

pub(crate) async fn run(local: &LocalStore, args: &Backup) -> Result<(), CliError> {
    let mut file = OutputFile::create(&args.file, Overwrite::from_flag(args.force))?;
    let progress = local.output.progress("saving");
    let saved = local.store().backup(progress.wrap_writer(&mut file), local.now()).await;
    drop(progress);
    let counts = saved.map_err(|error| file.write_error().unwrap_or_else(|| error.into()))?;
    let is_stdout = file.is_stdout();
    file.finish()?;
    if is_stdout {
        local.output.note(&summary(&counts, "saved"));
        return Ok(());
    }
    report(local.output, &args.file, &counts, "saved")
}

fn summary(counts: &BackupCounts, done: &str) -> String {
    format!(
        "{done}: workspaces {}, domains {}, members {}, keys {}, links {}, audit entries {}",
        counts.workspaces, counts.domains, counts.users, counts.keys, counts.links, counts.audit
    )
}

fn report(output: Output, file: &Path, counts: &BackupCounts, done: &str) -> Result<(), CliError> {
    if output.json {
        return output.object(&json!({
            "file": file,
            "workspaces": counts.workspaces,
            "domains": counts.domains,
            "users": counts.users,
            "keys": counts.keys,
            "links": counts.links,
            "audit": counts.audit,
        }));
    }
    output.done(&summary(counts, done))
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
    let progress = output.progress("restoring");
    backup::verify(&args.file)?;
    let running = || {
        CliError::failed(format!("a server is running on {}; nothing was changed", config.data.display()))
            .hint("stop it, restore, and start it again")
    };
    let lock = match lock_out_servers(&config.data).map_err(|error| cannot_read(&config.data, &error))? {
        ServerLock::Running => return Err(running()),
        ServerLock::Free(lock) => lock,
    };
    let overwrite = Overwrite::from_flag(args.force);
    let opened = open(&config, overwrite, output).await?;
    let local = LocalStore::from_store(opened, config, environment, output, false)?;
    let done = replace(&local, &args.file, overwrite).await;
    local.store().close().await;
    drop(lock);
    drop(progress);
    report(output, &args.file, &done?, "restored")
}

async fn replace(local: &LocalStore, file: &Path, overwrite: Overwrite) -> Result<BackupCounts, CliError> {
    if overwrite == Overwrite::Refuse && !local.store().is_empty().await? {
        return Err(CliError::failed(format!(
            "{} is not empty; nothing was changed",
            local.config.store_shown()
        ))
        .hint("replace everything in it with --force, after a `rmax backup` of its own"));
    }
    let counts = local.ops.restore_backup(file).await?;
    if let Err(error) = write_restored_checkpoint(local).await {
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
async fn write_restored_checkpoint(local: &LocalStore) -> Result<(), StoreError> {
    let mut heads: Vec<Head> = local.store().heads().await?.into_iter().map(|(_, head)| head).collect();
    let log = local.config.data.join(CHECKPOINT_LOG_FILE);
    let known = checkpoint_log::read(&log)?;
    let gone: BTreeSet<String> = known
        .checkpoints
        .into_iter()
        .map(|checkpoint| checkpoint.head.workspace)
        .filter(|workspace| !heads.iter().any(|head| head.workspace == *workspace))
        .collect();
    heads.extend(gone.into_iter().map(|workspace| Head { workspace, seq: 0, hash: GENESIS_HASH.to_owned() }));
    checkpoints::append_checkpoints(&local.config.data, &local.signer()?, &heads, local.now(), true)
}
