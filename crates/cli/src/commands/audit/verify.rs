//! `rmax audit verify`: nothing is made here, neither a key nor a log. What should be there and isn't is a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use rlinks_core::Slug;
use rlinks_core::audit::{AuditEntry, ChainError, Head, Verifier};
use rlinks_ops::Resource;
use rlinks_store::StoreError;
use rlinks_store::audit::checkpoints::{self, CHECKPOINT_LOG_FILE, Checkpoint, SignedLines};
use rlinks_store::audit::key_statements::{KeyStanding, TrustedKeys};
use rlinks_store::audit::signing_key::fingerprint;
use serde_json::json;

use crate::args::Verify;
use crate::backend::local_store::LocalStore;
use crate::checkpoint_log::{self, CheckpointLog};
use crate::error::CliError;
use crate::files::cannot_read;
use crate::output::Output;

/// No line of ours is longer.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

#[derive(Default)]
struct VerifyReport {
    /// The ends of the chains.
    heads: Option<Vec<Head>>,
    /// The first bad entry, or why the log of heads can't be read.
    fault: Option<String>,
    /// What is wrong with signed heads and the key that signs them.
    signatures: Vec<String>,
    /// Links the log knows otherwise.
    differing_links: Vec<String>,
    /// Workspaces, domains, members, keys and credentials the log knows otherwise.
    differing_records: Vec<String>,
}

pub(crate) async fn verify(local: &LocalStore, checkpoint: Option<&Path>) -> Result<(), CliError> {
    // Every chain is verified, whichever workspace is named; but an unknown name is a typing error.
    let slug = Slug::from_stored(local.config.workspace.clone());
    if local.store().workspace(&slug).await?.is_none() {
        return Err(CliError::not_found(Resource::Workspace(slug.to_string())));
    }
    let mut report = VerifyReport::default();
    let path = local.config.data.join(CHECKPOINT_LOG_FILE);
    let log = match checkpoint_log::read(&path) {
        Ok(log) => log,
        Err(StoreError::Refused(why)) => {
            report.fault = Some(why);
            CheckpointLog::default()
        }
        Err(error) => return Err(error.into()),
    };
    for line in &log.torn_lines {
        local.output.warning(&format!("{}, line {line}: is torn and was passed over", path.display()));
    }
    let kept = checkpoint.map(read_checkpoints).transpose()?.unwrap_or_default();
    let is_readable = report.fault.is_none();
    report.signatures =
        signature_findings(local, &path, &log, checkpoint.zip(Some(&kept)), is_readable).await?;
    let mut marks = checkpoints::effective_heads(&log.signed.checkpoints);
    marks.extend(kept.checkpoints.into_iter().map(|checkpoint| checkpoint.head));

    let progress = local.output.progress("verifying");
    let chains = local.store().verify(&marks).await?;
    drop(progress);
    match chains {
        Ok(heads) if report.fault.is_none() => report.heads = Some(heads),
        Ok(_) => {}
        Err(fault) => report.fault = Some(fault.to_string()),
    }
    report.differing_links = local.store().links_differing_from_log().await?;
    report.differing_records = local.store().records_differing_from_log().await?;
    print(local.output, &report)
}

/// Whether the key and the log of heads are there, and whether every head in it was signed by a key that counts.
async fn signature_findings(
    local: &LocalStore,
    path: &Path,
    log: &CheckpointLog,
    kept: Option<(&Path, &SignedLines)>,
    is_readable: bool,
) -> Result<Vec<String>, CliError> {
    let mut findings = Vec::new();
    let known = local.store().audit_keys().await?;
    let signer = match local.signing_key.load() {
        Ok(signer) => signer,
        Err(error) => {
            findings.push(format!("the audit key can't be read: {error}"));
            None
        }
    };
    // The key file alone says nothing: earlier versions made it when they verified.
    let was_used = !known.is_empty();
    if signer.is_none() && findings.is_empty() && (was_used || path.exists()) {
        findings.push(format!("the audit key was there and is gone: {}", local.signing_key.describe()));
    }
    if log.signed.checkpoints.is_empty() && is_readable {
        let what = checkpoint_log::describe_empty(path);
        if was_used {
            findings.push(format!("{what}, though heads of this store were signed"));
        } else if kept.is_none() {
            local
                .output
                .note(&format!("{what}: without it and without --checkpoint a cut-off end may not show"));
        }
    }
    let Some(signer) = signer else { return Ok(findings) };
    let mut statements = log.signed.statements.clone();
    statements.extend(kept.iter().flat_map(|(_, kept)| kept.statements.clone()));
    let trusted = local.ops.trusted_keys(&signer, &statements).await?;
    findings.extend(foreign_signatures(&trusted, path, &log.signed.checkpoints));
    // The user chose this file, so it only warns.
    for what in kept.iter().flat_map(|(path, kept)| foreign_signatures(&trusted, path, &kept.checkpoints)) {
        local.output.warning(&format!("{what}; trust it only if you know that key"));
    }
    Ok(findings)
}

/// A signature is as good as the key it names: one that doesn't count may be anybody's.
fn foreign_signatures(trusted: &TrustedKeys, path: &Path, checkpoints: &[Checkpoint]) -> BTreeSet<String> {
    let describe = |checkpoint: &Checkpoint| {
        let key = fingerprint(&checkpoint.key);
        match trusted.standing(&checkpoint.key, checkpoint.ts) {
            KeyStanding::Trusted => None,
            KeyStanding::Retired => {
                Some(format!("{} has heads that key {key} signed after it was retired", path.display()))
            }
            KeyStanding::Unknown => {
                Some(format!("{} is signed by another installation's key ({key})", path.display()))
            }
        }
    };
    checkpoints.iter().filter_map(describe).collect()
}

/// Verifies an export. No store is opened.
pub(crate) fn verify_export(output: Output, args: &Verify) -> Result<(), CliError> {
    let path = args.file.as_deref().unwrap_or(Path::new(""));
    let mut marks = Vec::new();
    if let Some(path) = &args.checkpoint {
        marks.extend(read_checkpoints(path)?.checkpoints.into_iter().map(|checkpoint| checkpoint.head));
    } else {
        output.note("without --checkpoint a cut-off end does not show");
    }
    let report = match verify_chains(path, &marks)? {
        Ok(heads) => VerifyReport { heads: Some(heads), ..VerifyReport::default() },
        Err(fault) => VerifyReport { fault: Some(fault.to_string()), ..VerifyReport::default() },
    };
    print(output, &report)
}

/// A checkpoint that cannot be read is a finding of its own, not trouble with the store.
fn read_checkpoints(path: &Path) -> Result<SignedLines, CliError> {
    std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    let signed = checkpoints::read_checkpoints(path)?;
    if signed.checkpoints.is_empty() {
        return Err(CliError::failed(format!("{} holds no checkpoint", path.display()))
            .hint("`rmax audit export <file> --checkpoint <file>` writes one"));
    }
    Ok(signed)
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

/// Prints the findings; any finding means exit code 1.
fn print(output: Output, report: &VerifyReport) -> Result<(), CliError> {
    let VerifyReport { heads, fault, signatures, differing_links, differing_records } = report;
    if output.json {
        let ok = fault.is_none()
            && signatures.is_empty()
            && differing_links.is_empty()
            && differing_records.is_empty();
        output.object(&json!({
            "ok": ok,
            "heads": heads,
            "fault": fault.clone().or_else(|| (!signatures.is_empty()).then(|| signatures.join("; "))),
            "links_beside_the_log": differing_links,
            "directory_beside_the_log": differing_records,
        }))?;
    } else {
        for head in heads.iter().flatten() {
            output.line(&format!("ok  {}: {} entries, head {}", head.workspace, head.seq, head.hash))?;
        }
    }
    if let Some(fault) = fault {
        return Err(CliError::failed(fault).hint("compare with a backup or an export made before that entry"));
    }
    if !signatures.is_empty() {
        return Err(CliError::failed(signatures.join("; ")).hint(
            "put the file back from a copy, and compare with heads kept elsewhere: `rmax audit verify --checkpoint <file>`",
        ));
    }
    if !differing_links.is_empty() {
        return Err(CliError::failed(format!(
            "links that are not what the log says, so changed past it: {}",
            differing_links.join(", ")
        ))
        .hint(
            "`rmax links history <code>` shows what the log knows; `rmax links set` makes both agree again",
        ));
    }
    if !differing_records.is_empty() {
        return Err(CliError::failed(format!(
            "not what the log says, so changed past it: {}",
            differing_records.join(", ")
        ))
        .hint("a `rmax backup` has what the log says; restoring it makes both agree again"));
    }
    Ok(())
}
