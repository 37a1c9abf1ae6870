//! `rmax audit`: read the log of every change, take it elsewhere, and check that nobody touched it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use rlinks_core::audit::{AuditEntry, ChainError, Head, Verifier};
use rlinks_core::{Slug, Workspace};
use rlinks_ops::Resource;
use rlinks_store::StoreError;
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE, Checkpoint, Signer};
use rlinks_store::database::atomic_file::Overwrite;
use serde_json::json;

use crate::args::{Export, Verify};
use crate::backend::Backend;
use crate::backend::api_client::ApiClient;
use crate::backend::local_store::LocalStore;
use crate::checkpoint_log;
use crate::error::CliError;
use crate::files::{OutputFile, cannot_read, cannot_write, refuse_same};
use crate::output::Output;

/// Entries held in memory at a time.
const PAGE_SIZE: i64 = 1000;
/// No line of ours is longer.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

pub(crate) async fn list(backend: &Backend, limit: i64, before: Option<i64>) -> Result<(), CliError> {
    let entries = match backend {
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            local.store().audit_before(workspace.id, before.unwrap_or(i64::MAX), limit).await?
        }
        Backend::Server(client) => {
            client.audit_before(before, usize::try_from(limit).unwrap_or_default()).await?
        }
        Backend::Cloudflare(cloudflare) => {
            let entries = cloudflare.audit().await?.into_iter().rev();
            let earlier = entries.filter(|entry| before.is_none_or(|before| entry.seq < before));
            earlier.take(usize::try_from(limit).unwrap_or_default()).collect()
        }
    };
    if backend.output().json {
        return backend.output().object(&entries);
    }
    let row = |entry: &AuditEntry| {
        let AuditEntry { seq, ts, actor, action, subject, .. } = entry;
        vec![seq.to_string(), ts.to_string(), actor.clone(), action.clone(), subject.clone()]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    backend.output().table(&["SEQ", "TIME", "ACTOR", "ACTION", "SUBJECT"], &rows)
}

// ---- taking it elsewhere ----

/// One chain to be written.
enum Chain<'a> {
    Local(&'a LocalStore, Workspace),
    Server(&'a ApiClient),
    /// Read already: it is numbered as a whole.
    Loaded(Vec<AuditEntry>),
}

impl Chain<'_> {
    /// What comes after an entry, or all from the first, oldest first.
    async fn after(&self, seq: Option<i64>) -> Result<Vec<AuditEntry>, CliError> {
        match self {
            Self::Local(local, workspace) => {
                Ok(local.store().audit_after(workspace.id, seq.unwrap_or(i64::MIN), PAGE_SIZE).await?)
            }
            Self::Server(client) => {
                client
                    .audit_after(seq.unwrap_or_default(), usize::try_from(PAGE_SIZE).unwrap_or_default())
                    .await
            }
            Self::Loaded(entries) => {
                let from = usize::try_from(seq.unwrap_or_default()).unwrap_or(usize::MAX);
                Ok(entries
                    .iter()
                    .skip(from)
                    .take(usize::try_from(PAGE_SIZE).unwrap_or_default())
                    .cloned()
                    .collect())
            }
        }
    }
}

pub(crate) async fn export(backend: &Backend, args: &Export) -> Result<(), CliError> {
    let (chains, signer) = match backend {
        Backend::Store(local) => {
            let workspaces =
                if args.all { local.store().workspaces().await? } else { vec![local.workspace().await?] };
            let chains = workspaces.into_iter().map(|workspace| Chain::Local(local, workspace));
            (chains.collect(), args.checkpoint.as_ref().map(|_| local.signer()).transpose()?)
        }
        Backend::Server(_) if args.all || args.checkpoint.is_some() => {
            return Err(CliError::usage(
                "--all and --checkpoint need the store itself: a key is of one workspace, and the store's own key signs",
            ));
        }
        Backend::Cloudflare(_) if args.all || args.checkpoint.is_some() => {
            return Err(CliError::usage("--all and --checkpoint need a store: its own key signs"));
        }
        Backend::Cloudflare(cloudflare) => (vec![Chain::Loaded(cloudflare.audit().await?)], None),
        Backend::Server(client) => (vec![Chain::Server(client)], None),
    };
    write_chains(backend, args, &chains, signer.as_ref()).await
}

async fn write_chains(
    backend: &Backend,
    args: &Export,
    chains: &[Chain<'_>],
    signer: Option<&Signer>,
) -> Result<(), CliError> {
    let output = backend.output();
    let overwrite = Overwrite::from_flag(args.force);
    let checkpoint = args.checkpoint.as_deref();
    if let Some(path) = checkpoint {
        refuse_same(&args.file, path)?;
    }
    let mut file = BufWriter::new(OutputFile::create(&args.file, overwrite)?);
    let mut checkpoint_file = checkpoint.map(|path| OutputFile::create(path, overwrite)).transpose()?;
    let mut heads = Vec::new();
    for chain in chains {
        heads.extend(write_chain(chain, &mut file, &args.file).await?);
    }
    if let (Some(path), Some(file), Some(signer)) = (checkpoint, &mut checkpoint_file, signer) {
        for head in &heads {
            let checkpoint = signer.sign(head.clone(), backend.now(), false);
            let line = serde_json::to_string(&checkpoint).expect("a checkpoint is JSON");
            writeln!(file, "{line}").map_err(|error| cannot_write(path, &error))?;
        }
    }
    let file = file.into_inner().map_err(|error| cannot_write(&args.file, error.error()))?;
    let is_stdout = file.is_stdout() || checkpoint_file.as_ref().is_some_and(OutputFile::is_stdout);
    file.finish()?;
    checkpoint_file.map_or(Ok(()), OutputFile::finish)?;
    let entries: i64 = heads.iter().map(|head| head.seq).sum();
    let wrote = format!("wrote: workspaces {}, audit entries {entries}", heads.len());
    if is_stdout {
        output.note(&wrote);
        return Ok(());
    }
    if output.json {
        return output.object(&json!({ "file": args.file, "entries": entries, "heads": heads }));
    }
    output.done(&wrote)
}

/// Writes one chain and gives its end, as written: a change made meanwhile is in both or in neither.
async fn write_chain(
    chain: &Chain<'_>,
    file: &mut impl std::io::Write,
    path: &Path,
) -> Result<Option<Head>, CliError> {
    let mut head: Option<Head> = None;
    loop {
        let entries = chain.after(head.as_ref().map(|head| head.seq)).await?;
        let Some(last) = entries.last() else { return Ok(head) };
        head = Some(Head { workspace: last.workspace.clone(), seq: last.seq, hash: last.hash.clone() });
        for entry in &entries {
            let line = serde_json::to_string(entry).expect("an entry is JSON");
            writeln!(file, "{line}").map_err(|error| cannot_write(path, &error))?;
        }
    }
}

// ---- checking ----

struct VerifyReport {
    /// The ends of the chains, or the first bad entry.
    chains: Result<Vec<Head>, String>,
    /// Links the log knows otherwise.
    differing_links: Vec<String>,
    /// Workspaces and domains the log knows otherwise.
    differing_workspaces: Vec<String>,
}

pub(crate) async fn verify(local: &LocalStore, checkpoint: Option<&Path>) -> Result<(), CliError> {
    // Every chain is verified, whichever workspace is named; but a name nobody has is a slip.
    let slug = Slug::from_stored(local.config.workspace.clone());
    if local.store().workspace(&slug).await?.is_none() {
        return Err(CliError::not_found(Resource::Workspace(slug.to_string())));
    }
    let (mut marks, broken) = recorded_checkpoints(local, checkpoint)?;
    if let Some(path) = checkpoint {
        let checkpoints = read_checkpoints(path)?;
        warn_foreign_keys(local, path, &checkpoints)?;
        marks.extend(checkpoints.into_iter().map(|checkpoint| checkpoint.head));
    }
    let progress = local.output.progress("verifying");
    let chains = local.store().verify(&marks).await?.map_err(|fault| fault.to_string());
    drop(progress);
    let chains = chains.and_then(|heads| broken.map_or(Ok(heads), Err));
    let differing_links = local.store().links_differing_from_log().await?;
    let differing_workspaces = local.store().records_differing_from_log().await?;
    report_verification(local.output, &VerifyReport { chains, differing_links, differing_workspaces })
}

/// The heads the log in the data folder recorded, or why it cannot be believed.
fn recorded_checkpoints(
    local: &LocalStore,
    checkpoint: Option<&Path>,
) -> Result<(Vec<Head>, Option<String>), CliError> {
    let path = local.config.data.join(CHECKPOINT_LOG_FILE);
    let log = match checkpoint_log::read(&path) {
        Ok(log) => log,
        Err(StoreError::Refused(why)) => return Ok((Vec::new(), Some(why))),
        Err(error) => return Err(error.into()),
    };
    for line in &log.torn_lines {
        local.output.warning(&format!("{}, line {line}: is torn and was passed over", path.display()));
    }
    if log.checkpoints.is_empty() && checkpoint.is_none() {
        local.output.note(&format!(
            "{}: without it and without --checkpoint a cut-off end may not show",
            checkpoint_log::describe_empty(&path)
        ));
    }
    warn_foreign_keys(local, &path, &log.checkpoints)?;
    Ok((checkpoints::effective_heads(&log.checkpoints), None))
}

/// Verifies an export. No store is opened.
pub(crate) fn verify_export(output: Output, args: &Verify) -> Result<(), CliError> {
    let path = args.file.as_deref().unwrap_or(Path::new(""));
    let mut marks = Vec::new();
    if let Some(path) = &args.checkpoint {
        marks.extend(read_checkpoints(path)?.into_iter().map(|checkpoint| checkpoint.head));
    } else {
        output.note("without --checkpoint a cut-off end does not show");
    }
    let chains = verify_chains(path, &marks)?.map_err(|fault| fault.to_string());
    report_verification(
        output,
        &VerifyReport { chains, differing_links: Vec::new(), differing_workspaces: Vec::new() },
    )
}

/// A signature is as good as the key it names: one that is not ours may be anybody's.
fn warn_foreign_keys(local: &LocalStore, path: &Path, checkpoints: &[Checkpoint]) -> Result<(), CliError> {
    let ours = local.signer()?.public_key();
    if let Some(stranger) = checkpoints.iter().find(|checkpoint| checkpoint.key != ours) {
        local.output.warning(&format!(
            "{} is signed by another installation's key ({}...); trust it only if you know that key",
            path.display(),
            stranger.key.get(..16).unwrap_or(&stranger.key)
        ));
    }
    Ok(())
}

/// A checkpoint that cannot be read is a finding of its own, not trouble with the store.
fn read_checkpoints(path: &Path) -> Result<Vec<Checkpoint>, CliError> {
    std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    let checkpoints = checkpoints::read_checkpoints(path)?;
    if checkpoints.is_empty() {
        return Err(CliError::failed(format!("{} holds no checkpoint", path.display()))
            .hint("`rmax audit export <file> --checkpoint <file>` writes one"));
    }
    Ok(checkpoints)
}

fn verify_chains(path: &Path, marks: &[Head]) -> Result<Result<Vec<Head>, ChainError>, CliError> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    let mut lines = BufReader::new(file);
    let mut chains: BTreeMap<String, Verifier> = BTreeMap::new();
    for number in 1_u64.. {
        let mut line = Vec::new();
        (&mut lines)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|error| cannot_read(path, &error))?;
        if line.is_empty() {
            break;
        }
        let Ok(entry) = serde_json::from_slice::<AuditEntry>(&line) else {
            return Err(CliError::failed(format!("{}, line {number}: is no audit entry", path.display())));
        };
        let chain = chains
            .entry(entry.workspace.clone())
            .or_insert_with(|| Verifier::new(&entry.workspace, marks.to_vec()));
        if let Err(fault) = chain.push(&entry) {
            return Ok(Err(fault));
        }
    }
    if let Some(mark) = marks.iter().find(|mark| mark.seq > 0 && !chains.contains_key(&mark.workspace)) {
        let what = "is missing with its whole workspace, though the checkpoint recorded it";
        return Ok(Err(ChainError { workspace: mark.workspace.clone(), seq: 1, what }));
    }
    if chains.is_empty() {
        return Err(CliError::failed(format!("{} holds no audit entry", path.display())));
    }
    Ok(chains.into_values().map(|chain| chain.finish(None)).collect())
}

/// Says what was found. Whoever finds something ends with exit code 1.
fn report_verification(output: Output, report: &VerifyReport) -> Result<(), CliError> {
    let ok =
        report.chains.is_ok() && report.differing_links.is_empty() && report.differing_workspaces.is_empty();
    let fault = report.chains.as_ref().err();
    if output.json {
        output.object(&json!({
            "ok": ok,
            "heads": report.chains.as_ref().ok(),
            "fault": fault,
            "links_beside_the_log": report.differing_links,
            "directory_beside_the_log": report.differing_workspaces,
        }))?;
    } else if let Ok(heads) = &report.chains {
        for head in heads {
            output.line(&format!("ok  {}: {} entries, head {}", head.workspace, head.seq, head.hash))?;
        }
    }
    if let Some(fault) = fault {
        return Err(CliError::failed(fault).hint("compare with a backup or an export made before that entry"));
    }
    if !report.differing_links.is_empty() {
        return Err(CliError::failed(format!(
            "links that are not what the log says, so changed past it: {}",
            report.differing_links.join(", ")
        ))
        .hint(
            "`rmax links history <code>` shows what the log knows; `rmax links set` makes both agree again",
        ));
    }
    if !report.differing_workspaces.is_empty() {
        return Err(CliError::failed(format!(
            "not what the log says, so changed past it: {}",
            report.differing_workspaces.join(", ")
        ))
        .hint("a `rmax backup` has what the log says; restoring it makes both agree again"));
    }
    Ok(())
}
