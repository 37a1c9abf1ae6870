//! `rmax audit`: read the log of every change, take it elsewhere, and check that nobody touched it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use rlinks_core::audit::{AuditEntry, ChainError, Head, Verifier};
use rlinks_core::{Slug, Workspace};
use rlinks_ops::Thing;
use rlinks_store::StoreError;
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE, Checkpoint, Signer};
use serde_json::json;

use crate::args::{Export, Verify};
use crate::backend::Place;
use crate::backend::api_client::Remote;
use crate::backend::local_store::Session;
use crate::checkpoint_log;
use crate::error::Failure;
use crate::files::{NewFile, Overwrite, cannot_read, cannot_write, refuse_same};
use crate::output::Output;

/// Entries held in memory at a time.
const PAGE: i64 = 1000;
/// No line of ours is longer.
const LONGEST_LINE: u64 = 1024 * 1024;

pub(crate) async fn list(place: &Place, limit: i64, before: Option<i64>) -> Result<(), Failure> {
    let entries = match place {
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            session.store().audit_before(workspace.id, before.unwrap_or(i64::MAX), limit).await?
        }
        Place::Server(remote) => {
            remote.audit_before(before, usize::try_from(limit).unwrap_or_default()).await?
        }
        Place::Cloudflare(cloudflare) => {
            let entries = cloudflare.audit().await?.into_iter().rev();
            let earlier = entries.filter(|entry| before.is_none_or(|before| entry.seq < before));
            earlier.take(usize::try_from(limit).unwrap_or_default()).collect()
        }
    };
    if place.output().json {
        return place.output().object(&entries);
    }
    let row = |entry: &AuditEntry| {
        let AuditEntry { seq, ts, actor, action, subject, .. } = entry;
        vec![seq.to_string(), ts.to_string(), actor.clone(), action.clone(), subject.clone()]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    place.output().table(&["SEQ", "TIME", "ACTOR", "ACTION", "SUBJECT"], &rows)
}

// ---- taking it elsewhere ----

/// One chain to be written.
enum Chain<'a> {
    Stored(&'a Session, Workspace),
    Served(&'a Remote),
    /// Read already: it is numbered as a whole.
    Read(Vec<AuditEntry>),
}

impl Chain<'_> {
    /// What comes after an entry, or all from the first, oldest first.
    async fn after(&self, seq: Option<i64>) -> Result<Vec<AuditEntry>, Failure> {
        match self {
            Self::Stored(session, workspace) => {
                Ok(session.store().audit_after(workspace.id, seq.unwrap_or(i64::MIN), PAGE).await?)
            }
            Self::Served(remote) => {
                remote.audit_after(seq.unwrap_or_default(), usize::try_from(PAGE).unwrap_or_default()).await
            }
            Self::Read(entries) => {
                let from = usize::try_from(seq.unwrap_or_default()).unwrap_or(usize::MAX);
                Ok(entries
                    .iter()
                    .skip(from)
                    .take(usize::try_from(PAGE).unwrap_or_default())
                    .cloned()
                    .collect())
            }
        }
    }
}

pub(crate) async fn export(place: &Place, args: &Export) -> Result<(), Failure> {
    let (chains, signer) = match place {
        Place::Store(session) => {
            let workspaces =
                if args.all { session.store().workspaces().await? } else { vec![session.workspace().await?] };
            let chains = workspaces.into_iter().map(|workspace| Chain::Stored(session, workspace));
            (chains.collect(), args.checkpoint.as_ref().map(|_| session.signer()).transpose()?)
        }
        Place::Server(_) if args.all || args.checkpoint.is_some() => {
            return Err(Failure::usage(
                "--all and --checkpoint need the store itself: a key is of one workspace, and the store's own key signs",
            ));
        }
        Place::Cloudflare(_) if args.all || args.checkpoint.is_some() => {
            return Err(Failure::usage("--all and --checkpoint need a store: its own key signs"));
        }
        Place::Cloudflare(cloudflare) => (vec![Chain::Read(cloudflare.audit().await?)], None),
        Place::Server(remote) => (vec![Chain::Served(remote)], None),
    };
    write_chains(place, args, &chains, signer.as_ref()).await
}

async fn write_chains(
    place: &Place,
    args: &Export,
    chains: &[Chain<'_>],
    signer: Option<&Signer>,
) -> Result<(), Failure> {
    let output = place.output();
    let overwrite = Overwrite::forced(args.force);
    let checkpoint = args.checkpoint.as_deref();
    if let Some(place) = checkpoint {
        refuse_same(&args.file, place)?;
    }
    let mut file = BufWriter::new(NewFile::create(&args.file, overwrite)?);
    let mut checkpoint_file = checkpoint.map(|place| NewFile::create(place, overwrite)).transpose()?;
    let mut heads = Vec::new();
    for chain in chains {
        heads.extend(write_chain(chain, &mut file, &args.file).await?);
    }
    if let (Some(path), Some(file), Some(signer)) = (checkpoint, &mut checkpoint_file, signer) {
        for head in &heads {
            let checkpoint = signer.sign(head.clone(), place.now(), false);
            let line = serde_json::to_string(&checkpoint).expect("a checkpoint is JSON");
            writeln!(file, "{line}").map_err(|error| cannot_write(path, &error))?;
        }
    }
    let file = file.into_inner().map_err(|error| cannot_write(&args.file, error.error()))?;
    let is_stdout = file.is_stdout() || checkpoint_file.as_ref().is_some_and(NewFile::is_stdout);
    file.finish()?;
    checkpoint_file.map_or(Ok(()), NewFile::finish)?;
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
    place: &Path,
) -> Result<Option<Head>, Failure> {
    let mut head: Option<Head> = None;
    loop {
        let entries = chain.after(head.as_ref().map(|head| head.seq)).await?;
        let Some(last) = entries.last() else { return Ok(head) };
        head = Some(Head { workspace: last.workspace.clone(), seq: last.seq, hash: last.hash.clone() });
        for entry in &entries {
            let line = serde_json::to_string(entry).expect("an entry is JSON");
            writeln!(file, "{line}").map_err(|error| cannot_write(place, &error))?;
        }
    }
}

// ---- checking ----

/// What was found.
struct Verdict {
    /// The ends of the chains, or the first bad entry.
    chains: Result<Vec<Head>, String>,
    /// Links the log knows otherwise.
    strangers: Vec<String>,
    /// Workspaces and domains the log knows otherwise.
    directory: Vec<String>,
}

pub(crate) async fn verify(session: &Session, checkpoint: Option<&Path>) -> Result<(), Failure> {
    // Every chain is verified, whichever workspace is named; but a name nobody has is a slip.
    let slug = Slug::from_stored(session.config.workspace.clone());
    if session.store().workspace(&slug).await?.is_none() {
        return Err(Failure::not_found(Thing::Workspace(slug.to_string())));
    }
    let (mut marks, broken) = recorded(session, checkpoint)?;
    if let Some(place) = checkpoint {
        let checkpoints = read_checkpoints(place)?;
        warn_of_strangers(session, place, &checkpoints)?;
        marks.extend(checkpoints.into_iter().map(|checkpoint| checkpoint.head));
    }
    let progress = session.output.progress("verifying");
    let chains = session.store().verify(&marks).await?.map_err(|fault| fault.to_string());
    drop(progress);
    let chains = chains.and_then(|heads| broken.map_or(Ok(heads), Err));
    let strangers = session.store().links_differing_from_log().await?;
    let directory = session.store().records_differing_from_log().await?;
    judge(session.output, &Verdict { chains, strangers, directory })
}

/// The heads the log in the data folder recorded, or why it cannot be believed.
fn recorded(session: &Session, checkpoint: Option<&Path>) -> Result<(Vec<Head>, Option<String>), Failure> {
    let place = session.config.data.join(CHECKPOINT_LOG_FILE);
    let log = match checkpoint_log::read(&place) {
        Ok(log) => log,
        Err(StoreError::Refused(why)) => return Ok((Vec::new(), Some(why))),
        Err(error) => return Err(error.into()),
    };
    for line in &log.torn {
        session.output.warning(&format!("{}, line {line}: is torn and was passed over", place.display()));
    }
    if log.checkpoints.is_empty() && checkpoint.is_none() {
        session.output.note(&format!(
            "{}: without it and without --checkpoint a cut-off end may not show",
            checkpoint_log::nothing_in(&place)
        ));
    }
    warn_of_strangers(session, &place, &log.checkpoints)?;
    Ok((checkpoints::effective_heads(&log.checkpoints), None))
}

/// Verifies an export. No store is opened.
pub(crate) fn verify_export(output: Output, args: &Verify) -> Result<(), Failure> {
    let place = args.file.as_deref().unwrap_or(Path::new(""));
    let mut marks = Vec::new();
    if let Some(place) = &args.checkpoint {
        marks.extend(read_checkpoints(place)?.into_iter().map(|checkpoint| checkpoint.head));
    } else {
        output.note("without --checkpoint a cut-off end does not show");
    }
    let chains = walk_export(place, &marks)?.map_err(|fault| fault.to_string());
    judge(output, &Verdict { chains, strangers: Vec::new(), directory: Vec::new() })
}

/// A signature is as good as the key it names: one that is not ours may be anybody's.
fn warn_of_strangers(session: &Session, place: &Path, checkpoints: &[Checkpoint]) -> Result<(), Failure> {
    let ours = session.signer()?.public_key();
    if let Some(stranger) = checkpoints.iter().find(|checkpoint| checkpoint.key != ours) {
        session.output.warning(&format!(
            "{} is signed by another installation's key ({}...); trust it only if you know that key",
            place.display(),
            stranger.key.get(..16).unwrap_or(&stranger.key)
        ));
    }
    Ok(())
}

/// A checkpoint that cannot be read is a finding of its own, not trouble with the store.
fn read_checkpoints(place: &Path) -> Result<Vec<Checkpoint>, Failure> {
    std::fs::metadata(place).map_err(|error| cannot_read(place, &error))?;
    let checkpoints = checkpoints::read_checkpoints(place)?;
    if checkpoints.is_empty() {
        return Err(Failure::failed(format!("{} holds no checkpoint", place.display()))
            .hint("`rmax audit export <file> --checkpoint <file>` writes one"));
    }
    Ok(checkpoints)
}

fn walk_export(place: &Path, marks: &[Head]) -> Result<Result<Vec<Head>, ChainError>, Failure> {
    let file = File::open(place).map_err(|error| cannot_read(place, &error))?;
    let mut lines = BufReader::new(file);
    let mut chains: BTreeMap<String, Verifier> = BTreeMap::new();
    for number in 1_u64.. {
        let mut line = Vec::new();
        (&mut lines)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| cannot_read(place, &error))?;
        if line.is_empty() {
            break;
        }
        let Ok(entry) = serde_json::from_slice::<AuditEntry>(&line) else {
            return Err(Failure::failed(format!("{}, line {number}: is no audit entry", place.display())));
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
        return Err(Failure::failed(format!("{} holds no audit entry", place.display())));
    }
    Ok(chains.into_values().map(|chain| chain.finish(None)).collect())
}

/// Says what was found. Whoever finds something ends with exit code 1.
fn judge(output: Output, verdict: &Verdict) -> Result<(), Failure> {
    let ok = verdict.chains.is_ok() && verdict.strangers.is_empty() && verdict.directory.is_empty();
    let fault = verdict.chains.as_ref().err();
    if output.json {
        output.object(&json!({
            "ok": ok,
            "heads": verdict.chains.as_ref().ok(),
            "fault": fault,
            "links_beside_the_log": verdict.strangers,
            "directory_beside_the_log": verdict.directory,
        }))?;
    } else if let Ok(heads) = &verdict.chains {
        for head in heads {
            output.line(&format!("ok  {}: {} entries, head {}", head.workspace, head.seq, head.hash))?;
        }
    }
    if let Some(fault) = fault {
        return Err(Failure::failed(fault).hint("compare with a backup or an export made before that entry"));
    }
    if !verdict.strangers.is_empty() {
        return Err(Failure::failed(format!(
            "links that are not what the log says, so changed past it: {}",
            verdict.strangers.join(", ")
        ))
        .hint(
            "`rmax links history <code>` shows what the log knows; `rmax links set` makes both agree again",
        ));
    }
    if !verdict.directory.is_empty() {
        return Err(Failure::failed(format!(
            "not what the log says, so changed past it: {}",
            verdict.directory.join(", ")
        ))
        .hint("a `rmax backup` has what the log says; restoring it makes both agree again"));
    }
    Ok(())
}
