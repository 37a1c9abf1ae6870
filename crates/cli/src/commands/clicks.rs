//! `rmax clicks`: recorded clicks leave, are counted anew, and go.

use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{Destination, ExportError, ExportReport, ExportRequest, Format, watermark_name};
use rlinks_clicks::time::day_of;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Timestamp};
use rlinks_store::StoreError;
use serde_json::json;

use super::sweep;
use super::{WorkspaceSelection, time_error};
use rlinks_store::database::atomic_file::Overwrite;

use crate::args::{Clicks, ClicksExport};
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::pluralize;

/// Endings that say what is in a file, and by which word that is asked for here. Others say nothing.
const FILE_EXTENSIONS: [(&str, Option<&str>); 9] = [
    ("jsonl", Some("jsonl")),
    ("ndjson", Some("jsonl")),
    ("parquet", Some("parquet")),
    ("json", Some("jsonl")),
    ("csv", None),
    ("tsv", None),
    ("gz", None),
    ("zst", None),
    ("xlsx", None),
];
/// Days over which misses are added up, today included.
const MISSES_DAYS: i64 = 30;

pub(crate) async fn run(
    local: &LocalStore,
    command: Clicks,
    scope: WorkspaceSelection,
) -> Result<(), CliError> {
    match command {
        Clicks::Export(args) => export(local, &args).await,
        Clicks::Recompute => recompute(local, scope).await,
        Clicks::Prune { dry_run } => sweep::prune(local, dry_run, scope).await,
        Clicks::Misses { limit } => misses(local, limit).await,
        Clicks::ImportHits(_) | Clicks::PublishStats(_) => {
            unreachable!("these open what they need themselves")
        }
    }
}

// ---- leaving ----

async fn export(local: &LocalStore, args: &ClicksExport) -> Result<(), CliError> {
    let destination = Destination::parse(&args.place)?;
    let (format, during) = (args.format()?, args.time_range()?);
    let workspace = local.workspace().await?;
    let link = match args.code.as_deref() {
        Some(code) => Some(local.ops.any_link(&local.caller_in(&workspace), code).await?),
        None => None,
    };
    let (code, link) = link.map(|link| (link.code.to_string(), link.id)).unzip();
    let target = destination.open(&local.object_store_options())?;
    let watermark = args.since_last.then(|| watermark_name(workspace.id, link));
    let wanted = ExportRequest {
        filter: EventFilter { workspace: workspace.id, link, during },
        format,
        overwrite: Overwrite::from_flag(args.force),
        watermark: watermark.as_deref(),
        stem: &args.stem(workspace.slug.as_str(), code.as_deref()),
        upto: None,
    };
    let clicks = local.clicks().await?;
    let mut codes = Codes::new(local.store().clone());
    // On a terminal the clicks themselves show how far it has come.
    let progress =
        (destination != Destination::Stdout).then(|| local.output.counter("exporting clicks", None));
    let count = |more| progress.iter().for_each(|progress| progress.add(more));
    let exported = clicks.export(&mut codes, &target, &wanted, local.now(), count).await;
    drop(progress);
    let exported = exported.map_err(|error| export_error(&destination, error))?;
    report(local, &destination, &exported)
}

/// Somebody who stops reading, as in `rmax clicks export - | head`, has what they wanted.
fn export_error(destination: &Destination, error: ExportError) -> CliError {
    let closed = std::io::Error::from(rustix::io::Errno::PIPE);
    match error {
        ExportError::Failed(why) if *destination == Destination::Stdout && why == closed.to_string() => {
            closed.into()
        }
        error => error.into(),
    }
}

fn report(local: &LocalStore, destination: &Destination, exported: &ExportReport) -> Result<(), CliError> {
    let ExportReport { clicks, parts } = exported;
    let counted = pluralize(*clicks, "click");
    let wrote = match parts.len() {
        _ if *destination == Destination::Stdout => format!("wrote {counted}"),
        0 => format!("wrote {counted} to {destination}"),
        1 => format!("wrote {counted} to {destination} as {}", parts[0]),
        files => format!("wrote {counted} to {destination} in {files} files"),
    };
    if *destination == Destination::Stdout {
        local.output.note(&wrote);
        return Ok(());
    }
    if local.output.json {
        return local
            .output
            .object(&json!({ "place": destination.to_string(), "clicks": clicks, "parts": parts }));
    }
    local.output.done(&wrote)
}

impl ClicksExport {
    /// What the format is, by its word or by the name's ending; the two may not contradict each other.
    fn format(&self) -> Result<Format, CliError> {
        let name = self.place.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let ending =
            ending.as_deref().filter(|ending| FILE_EXTENSIONS.iter().any(|(known, _)| known == ending));
        let of_ending =
            FILE_EXTENSIONS.iter().find(|(known, _)| Some(*known) == ending).and_then(|(_, word)| *word);
        let word = match self.format.as_deref() {
            Some(word @ ("jsonl" | "parquet")) => word,
            Some(_) => {
                let refused =
                    FieldError::new("format", FieldCode::BadCharacters, "is none of jsonl, parquet");
                return Err(refused.into());
            }
            None => of_ending.unwrap_or("jsonl"),
        };
        if let Some(ending) = ending.filter(|_| of_ending != Some(word)) {
            let named = if word == "parquet" { "Parquet" } else { "JSON lines" };
            return Err(CliError::usage(format!(
                "the export would be {named}, and {name} says .{ending}; nothing was written"
            ))
            .hint(format!("name it like {}.{word}{}", stem_of(name), other_format(of_ending))));
        }
        Ok(if word == "parquet" { Format::Parquet } else { self.jsonl_format() })
    }

    /// How the names of parts begin: whose clicks, and of which time. No slug has a dot, and no code.
    fn stem(&self, slug: &str, code: Option<&str>) -> String {
        let time = |word: &str, time: &Option<String>| {
            let plain = |time: &String| time.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
            time.as_ref().map(|time| format!("{word}-{}", plain(time)))
        };
        let scope = [code.map(str::to_owned), time("from", &self.from), time("to", &self.to)];
        std::iter::once(format!("clicks-{slug}"))
            .chain(scope.into_iter().flatten())
            .collect::<Vec<_>>()
            .join(".")
    }

    const fn jsonl_format(&self) -> Format {
        Format::Lines(if self.full { Form::Full } else { Form::Short })
    }

    fn time_range(&self) -> Result<std::ops::Range<Timestamp>, FieldErrors> {
        let mut errors = FieldErrors::default();
        let mut moment = |field, text: Option<&str>, otherwise| {
            let parsed = text.map(|text| Timestamp::parse(text).map_err(|error| time_error(field, error)));
            parsed.and_then(|parsed| errors.ok_or_push(parsed)).unwrap_or(Timestamp::from_ms(otherwise))
        };
        let during = moment("from", self.from.as_deref(), 0)..moment("to", self.to.as_deref(), i64::MAX);
        errors.into_result()?;
        if during.is_empty() {
            return Err(
                FieldError::new("from", FieldCode::TooShort, "must be before the end of the range").into()
            );
        }
        Ok(during)
    }
}

fn stem_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// A second way out, where the ending is one of a format there is.
fn other_format(word: Option<&str>) -> String {
    word.map(|word| format!(", or write --format {word}")).unwrap_or_default()
}

// ---- counting ----

async fn recompute(local: &LocalStore, scope: WorkspaceSelection) -> Result<(), CliError> {
    let workspace = match scope {
        WorkspaceSelection::All => None,
        WorkspaceSelection::Named => Some(local.workspace().await?.id),
    };
    let clicks = local.clicks().await?;
    let bar = local.output.counter("counting days", Some(0));
    let done = clicks
        .recompute(local.store(), workspace, local.now(), |progress| {
            bar.set(progress.done, progress.days);
        })
        .await;
    drop(bar);
    let done = done.map_err(StoreError::for_clicks)?;
    if local.output.json {
        return local.output.object(&json!({
            "days": done.days,
            "days_changed": done.days_changed,
            "subjects_changed": done.subjects_changed,
        }));
    }
    local.output.line(&match (done.days, done.subjects_changed) {
        (0, 0) => "nothing to do: no day has clicks that are all still kept".to_owned(),
        (1, 0) => "nothing to do: the one day there is was right".to_owned(),
        (days, 0) => format!("nothing to do: all {days} days were right"),
        (days, changed) => format!(
            "recomputed {}: {} wrong, in {}",
            pluralize(days, "day"),
            done.days_changed,
            pluralize(changed, "row")
        ),
    })
}

async fn misses(local: &LocalStore, limit: i64) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    let tomorrow = day_of(local.now()) + 1;
    let clicks = local.clicks().await?;
    let missed = clicks
        .misses(workspace.id, tomorrow - MISSES_DAYS, tomorrow, limit)
        .await
        .map_err(StoreError::for_clicks)?;
    if local.output.json {
        return local.output.object(&missed);
    }
    if missed.is_empty() {
        local.output.note("no misses");
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        missed.iter().map(|missed| vec![missed.code.clone(), missed.misses.to_string()]).collect();
    local.output.table(&["CODE", "MISSES"], &rows)
}
