//! `rmax links import`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Link;
use rlinks_ops::WriteMode;
use rlinks_ops::import::{
    ImportFormat, ImportIdentity, ImportOptions, ImportReport, OnExisting, ReadError, Rows,
};
use serde_json::{Value, json};

use super::diff::diff;
use crate::args;
use crate::backend::Backend;
use crate::backend::api_client::ApiClient;
use crate::backend::cloudflare::{self, Cloudflare};
use crate::backend::local_store::LocalStore;
use crate::commands::one_of;
use crate::error::CliError;
use crate::files::cannot_read;
use crate::output::{Confirmation, Output, confirm, is_interactive, pluralize};

/// The largest file a server takes.
const MAX_UPLOAD_BYTES: u64 = 16 * 1024 * 1024;
/// Problems shown to people; `--json` has more.
const MAX_SHOWN_PROBLEMS: usize = 20;
const STDIN_NAME: &str = "-";

pub(super) async fn import(backend: &Backend, args: &args::Import) -> Result<(), CliError> {
    let format = one_of("format", args.format.as_deref(), &ImportFormat::ALL)?;
    let report = match backend {
        Backend::Store(local) => {
            let here = LocalBackend::Store(local);
            match preview(here, args, format).await? {
                Some(report) => report,
                None => local.change(import_file(here, args, format, WriteMode::Apply)).await?,
            }
        }
        Backend::Cloudflare(cloudflare) => {
            let here = LocalBackend::Cloudflare(cloudflare);
            match preview(here, args, format).await? {
                Some(report) => report,
                None => import_file(here, args, format, WriteMode::Apply).await?,
            }
        }
        Backend::Server(client) => import_on_server(client, args).await?,
    };
    show(backend.output(), args, &report)?;
    exit_result(&report)
}

/// Where this process itself makes links of rows.
#[derive(Clone, Copy)]
enum LocalBackend<'a> {
    Store(&'a LocalStore),
    Cloudflare(&'a Cloudflare),
}

impl LocalBackend<'_> {
    const fn output(self) -> Output {
        match self {
            Self::Store(local) => local.output,
            Self::Cloudflare(cloudflare) => cloudflare.output,
        }
    }
}

async fn import_on_server(client: &ApiClient, args: &args::Import) -> Result<ImportReport, CliError> {
    for (given, flag) in [(args.overwrite, "--overwrite"), (args.exact, "--exact")] {
        if given {
            return Err(CliError::usage(format!("{flag} does not work on a server: a key may not do that")));
        }
    }
    let mut file = Vec::new();
    let (reader, _) = open(&args.file)?;
    reader
        .take(MAX_UPLOAD_BYTES + 1)
        .read_to_end(&mut file)
        .map_err(|error| cannot_read(&args.file, &error))?;
    if file.len() as u64 > MAX_UPLOAD_BYTES {
        return Err(CliError::invalid(format!(
            "{} has more than 16 MiB, which is all a server takes at once",
            args.file.display()
        ))
        .hint("split it into smaller files, or import it where the store is"));
    }
    client.import(file, args.format.as_deref(), args.dry_run, args.no_https).await
}

/// A dry run, where that is all that was asked for. Who overwrites is shown one first.
async fn preview(
    here: LocalBackend<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
) -> Result<Option<ImportReport>, CliError> {
    if args.dry_run {
        return import_file(here, args, format, WriteMode::DryRun).await.map(Some);
    }
    if args.overwrite {
        confirm_overwrite(here, args, format).await?;
    }
    Ok(None)
}

/// Shows what would be changed, and asks.
async fn confirm_overwrite(
    here: LocalBackend<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
) -> Result<(), CliError> {
    if args.file == Path::new(STDIN_NAME) {
        return Err(CliError::usage(
            "--overwrite reads the file twice, to show the changes first; name a file",
        ));
    }
    if !args.yes && !is_interactive() {
        return Err(CliError::usage("changing links that are there needs --yes where nobody can be asked")
            .hint("see what would change with --dry-run --overwrite"));
    }
    let report = import_file(here, args, format, WriteMode::DryRun).await?;
    show_updates(here.output(), &report);
    if report.updated > 0 && !args.yes {
        let question = format!(
            "Change {} that are there, and make {}?",
            pluralize(report.updated, "link"),
            report.created
        );
        if confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was imported"));
        }
    }
    Ok(())
}

/// Reads the file once.
async fn import_file(
    here: LocalBackend<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
    mode: WriteMode,
) -> Result<ImportReport, CliError> {
    let (reader, bytes) = open(&args.file)?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = CountingReader { inner: reader, read: Arc::clone(&read) };
    let rows = Rows::open(counted, format).await.map_err(|error| read_error(args, error))?;
    let bar = here.output().reading("importing", bytes);
    let progress = |report: &ImportReport| {
        bar.set_message(format!("importing: {} rows", report.rows), read.load(Ordering::Relaxed));
    };
    let existing = if args.overwrite { OnExisting::Overwrite } else { OnExisting::Skip };
    let keep = if args.exact { ImportIdentity::Preserve } else { ImportIdentity::New };
    let done = match here {
        LocalBackend::Store(local) => {
            let workspace = local.workspace().await?;
            let clicks = match mode {
                WriteMode::Apply => Some(local.clicks().await?),
                WriteMode::DryRun => None,
            };
            let import = ImportOptions {
                mode,
                on_existing: existing,
                identity: keep,
                allow_http: args.no_https,
                clicks,
                on_progress: &progress,
            };
            local.ops.import(&local.caller_in(&workspace), rows, &import).await.map_err(CliError::from)
        }
        LocalBackend::Cloudflare(cloudflare) => {
            let import = cloudflare::import::ImportOptions {
                mode,
                existing,
                keep,
                allow_http: args.no_https,
                progress: &progress,
            };
            cloudflare.import(rows, &import).await
        }
    };
    drop(bar);
    done.map_err(|failure| match mode {
        WriteMode::DryRun => failure,
        WriteMode::Apply => {
            failure.hint("what was imported until then is there; the same command goes on where it stopped")
        }
    })
}

fn read_error(args: &args::Import, error: ReadError) -> CliError {
    match error {
        ReadError::Io(error) => cannot_read(&args.file, &error),
        error => CliError::invalid(format!("{}: {error}", args.file.display())),
    }
}

fn open(file: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), CliError> {
    if file == Path::new(STDIN_NAME) {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let opened = File::open(file).map_err(|error| cannot_read(file, &error))?;
    let there = opened.metadata().map_err(|error| cannot_read(file, &error))?;
    if there.is_dir() {
        return Err(CliError::failed(format!("{} is a folder; name a file in it", file.display())));
    }
    Ok((Box::new(opened), there.is_file().then_some(there.len())))
}

/// A reader that says how far it is.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn show(output: Output, args: &args::Import, report: &ImportReport) -> Result<(), CliError> {
    if output.json {
        let mut object = serde_json::to_value(report).expect("a report is JSON");
        if args.overwrite {
            object["changes"] =
                report.updates.iter().map(|update| link_diff(&update.before, &update.after)).collect();
            object["more_changes"] = report.updated.saturating_sub(report.updates.len() as u64).into();
        }
        return output.object(&object);
    }
    if args.dry_run {
        show_updates(output, report);
    }
    for problem in report.problems.iter().take(MAX_SHOWN_PROBLEMS) {
        let code = problem.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        output.line(&format!(
            "row {}{code}: {}: {}",
            problem.row,
            outcome_word(problem.outcome),
            problem.reason
        ))?;
    }
    let unnamed = (report.problems.len().saturating_sub(MAX_SHOWN_PROBLEMS)) as u64 + report.more;
    if unnamed > 0 {
        output.note(&format!("and {} more; --json names up to 1000", pluralize(unnamed, "row")));
    }
    for note in &report.notes {
        output.note(note);
    }
    let would = if report.dry_run { "would be " } else { "" };
    output.line(&format!(
        "{} ({}), {}: {would}{} created, {} updated, {} skipped, {} conflicting, {} refused",
        args.file.display(),
        report.format,
        pluralize(report.rows, "row"),
        report.created,
        report.updated,
        report.skipped,
        report.conflicting,
        report.refused
    ))
}

fn show_updates(output: Output, report: &ImportReport) {
    if output.json {
        return;
    }
    for update in &report.updates {
        output.note(&format!("{}:", update.after.code));
        for change in diff(&link_json(&update.before), &link_json(&update.after)) {
            output.note(&format!("    {change}"));
        }
    }
    let unnamed = report.updated.saturating_sub(report.updates.len() as u64);
    if unnamed > 0 {
        output.note(&format!("and {unnamed} more links"));
    }
}

fn link_diff(before: &Link, after: &Link) -> Value {
    json!({ "code": after.code, "changes": diff(&link_json(before), &link_json(after)) })
}

fn link_json(link: &Link) -> Value {
    serde_json::to_value(link).expect("a link is JSON")
}

fn outcome_word(outcome: rlinks_ops::import::RowOutcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// How the command ends: rows that were not imported are no success.
fn exit_result(report: &ImportReport) -> Result<(), CliError> {
    if let Some(why) = &report.stopped {
        return Err(CliError::invalid(why.clone()));
    }
    let left_out = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 row {one}, and was left out"),
        count => format!("{count} rows {more}, and were left out"),
    };
    if report.conflicting > 0 {
        let failure = CliError::conflict(left_out(report.conflicting, "conflicts", "conflict"));
        // Other conflicts stay: an earlier row with the code, a full workspace, a deleted link. A server changes nothing that is there.
        return Err(if report.may_overwrite > 0 {
            failure.hint("`--overwrite` changes links that are there to what the file says")
        } else {
            failure
        });
    }
    if report.refused > 0 {
        return Err(CliError::invalid(left_out(report.refused, "breaks a rule", "break a rule")));
    }
    Ok(())
}
