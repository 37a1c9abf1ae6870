//! `rmax audit`: read the log of every change, take it elsewhere, and check that nobody touched it.

mod verify;

use std::io::{BufWriter, Write as _};
use std::path::Path;

use rlinks_core::Workspace;
use rlinks_core::audit::{AuditEntry, Head};
use rlinks_store::audit::signing_key::Signer;
use rlinks_store::database::atomic_file::Overwrite;
use serde_json::json;

pub(crate) use self::verify::{verify, verify_export};
use crate::args::Export;
use crate::backend::Backend;
use crate::backend::api_client::ApiClient;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::files::{OutputFile, cannot_write, refuse_same};

/// Entries held in memory at a time.
const PAGE_SIZE: i64 = 1000;

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
            let signer = match &args.checkpoint {
                Some(_) => Some(local.signer().await?),
                None => None,
            };
            (chains.collect(), signer)
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
    write_chains(backend, args, &chains, signer.as_deref()).await
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
