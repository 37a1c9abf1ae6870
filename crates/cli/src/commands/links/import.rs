//! `rmax links import`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rlinks_core::Link;
use rlinks_ops::Mode;
use rlinks_ops::import::{Existing, Import, ImportFormat, Keep, ReadError, Report, Rows};
use serde_json::{Value, json};

use super::diff::changes;
use crate::args;
use crate::backend::Place;
use crate::backend::api_client::Remote;
use crate::backend::cloudflare::{self, Cloudflare};
use crate::backend::local_store::Session;
use crate::commands::one_of;
use crate::error::Failure;
use crate::files::cannot_read;
use crate::output::{Answer, Output, can_ask, confirm, counted};

/// The largest file a server takes.
const SENT_BYTES: u64 = 16 * 1024 * 1024;
/// Problems shown to people; `--json` has more.
const SHOWN: usize = 20;
const STDIN: &str = "-";

pub(super) async fn import(place: &Place, args: &args::Import) -> Result<(), Failure> {
    let format = one_of("format", args.format.as_deref(), &ImportFormat::ALL)?;
    let report = match place {
        Place::Store(session) => {
            let here = Here::Store(session);
            match rehearse(here, args, format).await? {
                Some(report) => report,
                None => session.change(pass(here, args, format, Mode::Write)).await?,
            }
        }
        Place::Cloudflare(cloudflare) => {
            let here = Here::Cloudflare(cloudflare);
            match rehearse(here, args, format).await? {
                Some(report) => report,
                None => pass(here, args, format, Mode::Write).await?,
            }
        }
        Place::Server(remote) => import_there(remote, args).await?,
    };
    show(place.output(), args, &report)?;
    ended(&report)
}

/// Where this process itself makes links of rows.
#[derive(Clone, Copy)]
enum Here<'a> {
    Store(&'a Session),
    Cloudflare(&'a Cloudflare),
}

impl Here<'_> {
    const fn output(self) -> Output {
        match self {
            Self::Store(session) => session.output,
            Self::Cloudflare(cloudflare) => cloudflare.output,
        }
    }
}

async fn import_there(remote: &Remote, args: &args::Import) -> Result<Report, Failure> {
    for (given, flag) in [(args.overwrite, "--overwrite"), (args.exact, "--exact")] {
        if given {
            return Err(Failure::usage(format!("{flag} does not work on a server: a key may not do that")));
        }
    }
    let mut file = Vec::new();
    let (reader, _) = open(&args.file)?;
    reader.take(SENT_BYTES + 1).read_to_end(&mut file).map_err(|error| cannot_read(&args.file, &error))?;
    if file.len() as u64 > SENT_BYTES {
        return Err(Failure::refused(format!(
            "{} has more than 16 MiB, which is all a server takes at once",
            args.file.display()
        ))
        .hint("split it into smaller files, or import it where the store is"));
    }
    remote.import(file, args.format.as_deref(), args.dry_run, args.no_https).await
}

/// A dry run, where that is all that was asked for. Who overwrites is shown one first.
async fn rehearse(
    here: Here<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
) -> Result<Option<Report>, Failure> {
    if args.dry_run {
        return pass(here, args, format, Mode::DryRun).await.map(Some);
    }
    if args.overwrite {
        look_first(here, args, format).await?;
    }
    Ok(None)
}

/// Shows what would be changed, and asks.
async fn look_first(
    here: Here<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
) -> Result<(), Failure> {
    if args.file == Path::new(STDIN) {
        return Err(Failure::usage(
            "--overwrite reads the file twice, to show the changes first; name a file",
        ));
    }
    if !args.yes && !can_ask() {
        return Err(Failure::usage("changing links that are there needs --yes where nobody can be asked")
            .hint("see what would change with --dry-run --overwrite"));
    }
    let report = pass(here, args, format, Mode::DryRun).await?;
    show_updates(here.output(), &report);
    if report.updated > 0 && !args.yes {
        let question = format!(
            "Change {} that are there, and make {}?",
            counted(report.updated, "link"),
            report.created
        );
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was imported"));
        }
    }
    Ok(())
}

/// Reads the file once.
async fn pass(
    here: Here<'_>,
    args: &args::Import,
    format: Option<ImportFormat>,
    mode: Mode,
) -> Result<Report, Failure> {
    let (reader, bytes) = open(&args.file)?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted { inner: reader, read: Arc::clone(&read) };
    let rows = Rows::open(counted, format).await.map_err(|error| unread(args, error))?;
    let bar = here.output().reading("importing", bytes);
    let progress = |report: &Report| {
        bar.say(format!("importing: {} rows", report.rows), read.load(Ordering::Relaxed));
    };
    let existing = if args.overwrite { Existing::Overwrite } else { Existing::Leave };
    let keep = if args.exact { Keep::Everything } else { Keep::Words };
    let done = match here {
        Here::Store(session) => {
            let workspace = session.workspace().await?;
            let clicks = match mode {
                Mode::Write => Some(session.clicks().await?),
                Mode::DryRun => None,
            };
            let import = Import {
                mode,
                existing,
                keep,
                allow_http: args.no_https,
                clicks,
                admit: None,
                written: &|_| {},
                progress: &progress,
            };
            session.ops.import(&session.by(), &workspace, rows, &import).await.map_err(Failure::from)
        }
        Here::Cloudflare(cloudflare) => {
            let import = cloudflare::import::Import {
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
        Mode::DryRun => failure,
        Mode::Write => {
            failure.hint("what was imported until then is there; the same command goes on where it stopped")
        }
    })
}

fn unread(args: &args::Import, error: ReadError) -> Failure {
    match error {
        ReadError::Io(error) => cannot_read(&args.file, &error),
        error => Failure::refused(format!("{}: {error}", args.file.display())),
    }
}

fn open(file: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if file == Path::new(STDIN) {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let opened = File::open(file).map_err(|error| cannot_read(file, &error))?;
    let there = opened.metadata().map_err(|error| cannot_read(file, &error))?;
    if there.is_dir() {
        return Err(Failure::failed(format!("{} is a folder; name a file in it", file.display())));
    }
    Ok((Box::new(opened), there.is_file().then_some(there.len())))
}

/// A reader that says how far it is.
struct Counted {
    inner: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn show(output: Output, args: &args::Import, report: &Report) -> Result<(), Failure> {
    if output.json {
        let mut object = serde_json::to_value(report).expect("a report is JSON");
        if args.overwrite {
            object["changes"] =
                report.updates.iter().map(|update| changed(&update.before, &update.after)).collect();
            object["more_changes"] = report.updated.saturating_sub(report.updates.len() as u64).into();
        }
        return output.object(&object);
    }
    if args.dry_run {
        show_updates(output, report);
    }
    for problem in report.problems.iter().take(SHOWN) {
        let code = problem.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        output.line(&format!(
            "row {}{code}: {}: {}",
            problem.row,
            word_of(problem.outcome),
            problem.reason
        ))?;
    }
    let unnamed = (report.problems.len().saturating_sub(SHOWN)) as u64 + report.more;
    if unnamed > 0 {
        output.note(&format!("and {} more; --json names up to 1000", counted(unnamed, "row")));
    }
    for note in &report.notes {
        output.note(note);
    }
    let would = if report.dry_run { "would be " } else { "" };
    output.line(&format!(
        "{} ({}), {}: {would}{} created, {} updated, {} skipped, {} conflicting, {} refused",
        args.file.display(),
        report.format,
        counted(report.rows, "row"),
        report.created,
        report.updated,
        report.skipped,
        report.conflicting,
        report.refused
    ))
}

fn show_updates(output: Output, report: &Report) {
    if output.json {
        return;
    }
    for update in &report.updates {
        output.note(&format!("{}:", update.after.code));
        for change in changes(&value(&update.before), &value(&update.after)) {
            output.note(&format!("    {change}"));
        }
    }
    let unnamed = report.updated.saturating_sub(report.updates.len() as u64);
    if unnamed > 0 {
        output.note(&format!("and {unnamed} more links"));
    }
}

fn changed(before: &Link, after: &Link) -> Value {
    json!({ "code": after.code, "changes": changes(&value(before), &value(after)) })
}

fn value(link: &Link) -> Value {
    serde_json::to_value(link).expect("a link is JSON")
}

fn word_of(outcome: rlinks_ops::import::Outcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// How the command ends: rows that were not imported are no success.
fn ended(report: &Report) -> Result<(), Failure> {
    if let Some(why) = &report.stopped {
        return Err(Failure::refused(why.clone()));
    }
    let left_out = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 row {one}, and was left out"),
        count => format!("{count} rows {more}, and were left out"),
    };
    if report.conflicting > 0 {
        let failure = Failure::conflict(left_out(report.conflicting, "conflicts", "conflict"));
        // Other conflicts stay: an earlier row with the code, a full workspace, a deleted link. A server changes nothing that is there.
        return Err(if report.may_overwrite > 0 {
            failure.hint("`--overwrite` changes links that are there to what the file says")
        } else {
            failure
        });
    }
    if report.refused > 0 {
        return Err(Failure::refused(left_out(report.refused, "breaks a rule", "break a rule")));
    }
    Ok(())
}
