//! `rmax clicks`: recorded clicks leave, are counted anew, and go.

use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{ExportError, Exported, Format, Overwrite, Place, Wanted, watermark_name};
use rlinks_clicks::time::day_of;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Timestamp};
use rlinks_store::StoreError;
use serde_json::json;

use super::sweep;
use super::{Scope, no_time};
use crate::args::{Clicks, ClicksExport};
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::counted;

/// Endings that say what is in a file, and by which word that is asked for here. Others say nothing.
const ENDINGS: [(&str, Option<&str>); 9] = [
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

pub(crate) async fn run(session: &Session, command: Clicks, scope: Scope) -> Result<(), Failure> {
    match command {
        Clicks::Export(args) => export(session, &args).await,
        Clicks::Recompute => recompute(session, scope).await,
        Clicks::Prune { dry_run } => sweep::prune(session, dry_run, scope).await,
        Clicks::Misses { limit } => misses(session, limit).await,
        Clicks::ImportHits(_) | Clicks::PublishStats(_) => {
            unreachable!("these open what they need themselves")
        }
    }
}

// ---- leaving ----

async fn export(session: &Session, args: &ClicksExport) -> Result<(), Failure> {
    let place = Place::parse(&args.place)?;
    let (format, during) = (args.format()?, args.during()?);
    let workspace = session.workspace().await?;
    let link = match args.code.as_deref() {
        Some(code) => Some(session.ops.any_link(&session.by(), &workspace, code).await?),
        None => None,
    };
    let (code, link) = link.map(|link| (link.code.to_string(), link.id)).unzip();
    let target = place.open(&session.cloud_options())?;
    let watermark = args.since_last.then(|| watermark_name(workspace.id, link));
    let wanted = Wanted {
        filter: EventFilter { workspace: workspace.id, link, during },
        format,
        overwrite: if args.force { Overwrite::Replace } else { Overwrite::Refuse },
        watermark: watermark.as_deref(),
        stem: &args.stem(workspace.slug.as_str(), code.as_deref()),
        upto: None,
    };
    let clicks = session.clicks().await?;
    let mut codes = Codes::new(session.store().clone());
    // On a terminal the clicks themselves show how far it has come.
    let progress = (place != Place::Stdout).then(|| session.output.counter("exporting clicks", None));
    let count = |more| progress.iter().for_each(|progress| progress.add(more));
    let exported = clicks.export(&mut codes, &target, &wanted, session.now(), count).await;
    drop(progress);
    let exported = exported.map_err(|error| ended(&place, error))?;
    report(session, &place, &exported)
}

/// Somebody who stops reading, as in `rmax clicks export - | head`, has what they wanted.
fn ended(place: &Place, error: ExportError) -> Failure {
    let closed = std::io::Error::from(rustix::io::Errno::PIPE);
    match error {
        ExportError::Failed(why) if *place == Place::Stdout && why == closed.to_string() => closed.into(),
        error => error.into(),
    }
}

fn report(session: &Session, place: &Place, exported: &Exported) -> Result<(), Failure> {
    let Exported { clicks, parts } = exported;
    let counted = counted(*clicks, "click");
    let wrote = match parts.len() {
        _ if *place == Place::Stdout => format!("wrote {counted}"),
        0 => format!("wrote {counted} to {place}"),
        1 => format!("wrote {counted} to {place} as {}", parts[0]),
        files => format!("wrote {counted} to {place} in {files} files"),
    };
    if *place == Place::Stdout {
        session.output.note(&wrote);
        return Ok(());
    }
    if session.output.json {
        return session
            .output
            .object(&json!({ "place": place.to_string(), "clicks": clicks, "parts": parts }));
    }
    session.output.done(&wrote)
}

impl ClicksExport {
    /// What the format is, by its word or by the name's ending; the two may not contradict each other.
    fn format(&self) -> Result<Format, Failure> {
        let name = self.place.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let ending = ending.as_deref().filter(|ending| ENDINGS.iter().any(|(known, _)| known == ending));
        let of_ending = ENDINGS.iter().find(|(known, _)| Some(*known) == ending).and_then(|(_, word)| *word);
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
            return Err(Failure::usage(format!(
                "the export would be {named}, and {name} says .{ending}; nothing was written"
            ))
            .hint(format!("name it like {}.{word}{}", stem_of(name), other_format(of_ending))));
        }
        Ok(if word == "parquet" { Format::Parquet } else { self.lines() })
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

    const fn lines(&self) -> Format {
        Format::Lines(if self.full { Form::Full } else { Form::Short })
    }

    fn during(&self) -> Result<std::ops::Range<Timestamp>, FieldErrors> {
        let mut errors = FieldErrors::default();
        let mut moment = |field, text: Option<&str>, otherwise| {
            let parsed = text.map(|text| Timestamp::parse(text).map_err(|error| no_time(field, error)));
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

async fn recompute(session: &Session, scope: Scope) -> Result<(), Failure> {
    let workspace = match scope {
        Scope::All => None,
        Scope::Named => Some(session.workspace().await?.id),
    };
    let clicks = session.clicks().await?;
    let bar = session.output.counter("counting days", Some(0));
    let done = clicks
        .recompute(session.store(), workspace, session.now(), |progress| {
            bar.set(progress.done, progress.days);
        })
        .await;
    drop(bar);
    let done = done.map_err(StoreError::for_clicks)?;
    if session.output.json {
        return session.output.object(&json!({
            "days": done.days,
            "days_changed": done.days_changed,
            "subjects_changed": done.subjects_changed,
        }));
    }
    session.output.line(&match (done.days, done.subjects_changed) {
        (0, 0) => "nothing to do: no day has clicks that are all still kept".to_owned(),
        (1, 0) => "nothing to do: the one day there is was right".to_owned(),
        (days, 0) => format!("nothing to do: all {days} days were right"),
        (days, changed) => format!(
            "recomputed {}: {} wrong, in {}",
            counted(days, "day"),
            done.days_changed,
            counted(changed, "row")
        ),
    })
}

async fn misses(session: &Session, limit: i64) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let tomorrow = day_of(session.now()) + 1;
    let clicks = session.clicks().await?;
    let missed = clicks
        .misses(workspace.id, tomorrow - MISSES_DAYS, tomorrow, limit)
        .await
        .map_err(StoreError::for_clicks)?;
    if session.output.json {
        return session.output.object(&missed);
    }
    if missed.is_empty() {
        session.output.note("no misses");
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        missed.iter().map(|missed| vec![missed.code.clone(), missed.misses.to_string()]).collect();
    session.output.table(&["CODE", "MISSES"], &rows)
}
