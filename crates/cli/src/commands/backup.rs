//! `rmax backup` and `rmax restore`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rlinks_core::audit::{GENESIS_HASH, Head};
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE};
use rlinks_store::backup::{self, BackupCounts};
use rlinks_store::{Location, MissingStore, Store, StoreError};
use serde_json::json;

use crate::args::{Backup, Restore};
use crate::backend::local_store::{self, Session};
use crate::checkpoint_log;
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Failure;
use crate::files::{NewFile, Overwrite, Served, cannot_read, keep_servers_away};
use crate::output::Output;

pub(crate) async fn run(session: &Session, args: &Backup) -> Result<(), Failure> {
    let mut file = NewFile::create(&args.file, Overwrite::forced(args.force))?;
    let progress = session.output.progress("saving");
    let saved = session.store().backup(progress.count(&mut file), session.now()).await;
    drop(progress);
    let counts = saved.map_err(|error| file.trouble().unwrap_or_else(|| error.into()))?;
    let is_stdout = file.is_stdout();
    file.finish()?;
    if is_stdout {
        session.output.note(&counted(&counts, "saved"));
        return Ok(());
    }
    report(session.output, &args.file, &counts, "saved")
}

fn counted(counts: &BackupCounts, done: &str) -> String {
    format!(
        "{done}: workspaces {}, domains {}, members {}, keys {}, links {}, audit entries {}",
        counts.workspaces, counts.domains, counts.users, counts.keys, counts.links, counts.audit
    )
}

fn report(output: Output, file: &Path, counts: &BackupCounts, done: &str) -> Result<(), Failure> {
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
    output.done(&counted(counts, done))
}

/// Verified before anything is touched, refused where it would replace something, and never beside a running server.
pub(crate) async fn restore(
    config: Config,
    environment: Environment,
    output: Output,
    args: &Restore,
) -> Result<(), Failure> {
    config.location()?;
    local_store::refuse_no_folder(&config.data)?;
    std::fs::File::open(&args.file).map_err(|error| cannot_read(&args.file, &error))?;
    let progress = output.progress("restoring");
    backup::verify(&args.file)?;
    let running = || {
        Failure::failed(format!("a server is running on {}; nothing was changed", config.data.display()))
            .hint("stop it, restore, and start it again")
    };
    let lock = match keep_servers_away(&config.data).map_err(|error| cannot_read(&config.data, &error))? {
        Served::Running => return Err(running()),
        Served::Free(lock) => lock,
    };
    let overwrite = Overwrite::forced(args.force);
    let store = open(&config, overwrite, output).await?;
    let session = Session::of(store, config, environment, output, false)?;
    let done = replace(&session, &args.file, overwrite).await;
    session.store().close().await;
    drop(lock);
    drop(progress);
    report(output, &args.file, &done?, "restored")
}

async fn replace(session: &Session, file: &Path, overwrite: Overwrite) -> Result<BackupCounts, Failure> {
    if overwrite == Overwrite::Refuse && !session.store().is_empty().await? {
        return Err(Failure::failed(format!(
            "{} is not empty; nothing was changed",
            session.config.store_shown()
        ))
        .hint("replace everything in it with --force, after a `rmax backup` of its own"));
    }
    let counts = session.store().restore(file).await?;
    if let Err(error) = sign_restored(session).await {
        session.output.warning(&format!("the audit heads were not signed: {error}"));
    }
    Ok(counts)
}

/// Opens what is there. A damaged or foreign file is put aside on request, never removed: somebody may still save something.
async fn open(config: &Config, overwrite: Overwrite, output: Output) -> Result<Store, Failure> {
    let options = || local_store::options(config, MissingStore::Recreate);
    match (Store::open(options()?).await, config.location()?) {
        (Err(StoreError::Refused(why)), Location::Sqlite(path)) if overwrite == Overwrite::Replace => {
            // What the store says ends in advice for somebody who does not restore already.
            let what = why.split("; ").next().and_then(|what| what.split(". ").next()).unwrap_or(&why);
            output.warning(what);
            let aside = put_aside(path, options()?.now.ms())?;
            output.warning(&format!("it was put aside as {}", aside.display()));
            Ok(Store::open(options()?).await?)
        }
        (Err(error @ StoreError::Refused(_)), _) => {
            Err(Failure::from(error).hint("`rmax restore <file> --force` puts it aside and begins anew"))
        }
        (opened, _) => Ok(opened?),
    }
}

fn put_aside(path: &Path, now_ms: i64) -> Result<PathBuf, Failure> {
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
async fn sign_restored(session: &Session) -> Result<(), StoreError> {
    let mut heads: Vec<Head> = session.store().heads().await?.into_iter().map(|(_, head)| head).collect();
    let log = session.config.data.join(CHECKPOINT_LOG_FILE);
    let known = checkpoint_log::read(&log)?;
    let gone: BTreeSet<String> = known
        .checkpoints
        .into_iter()
        .map(|checkpoint| checkpoint.head.workspace)
        .filter(|workspace| !heads.iter().any(|head| head.workspace == *workspace))
        .collect();
    heads.extend(gone.into_iter().map(|workspace| Head { workspace, seq: 0, hash: GENESIS_HASH.to_owned() }));
    checkpoints::append_checkpoints(&session.config.data, &session.signer()?, &heads, session.now(), true)
}
