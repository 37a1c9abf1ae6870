//! `rmax clicks import-hits` and `publish-stats`: what the Worker at Cloudflare has counted comes here, and sums go there.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use rlinks_clicks::edge_hits::{BATCH, Hit, Imported, OfLink};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{Export, Format, Overwrite, Place};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, day_of};
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Id, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

use crate::args::{Global, ImportHits, PublishStats};
use crate::backend::cloudflare::Cloudflare;
use crate::backend::cloudflare::hits::{HitKey, Recounted};
use crate::backend::local_store::{Session, aws_variables};
use crate::config::{Backend, Config, KeyValues};
use crate::environment::Environment;
use crate::error::Failure;
use crate::files::{NewFile, cannot_read, cannot_write};
use crate::output::{Output, counted};

/// Days before the last one imported that are looked at again: a key may be seen late, and clocks differ.
const OVERLAP_DAYS: i64 = 1;
/// A day is whole when it has been over for so long.
const LATE_MS: i64 = HOUR_MS;
/// Links looked up at once.
const LOOKED_UP: usize = 500;
/// Links whose numbers are read at once.
const PAGE: i64 = 1000;

/// Which storage a command is about: the one that was named, else the environment's own, else the only one there is.
pub(crate) fn storage(
    named: Option<&str>,
    config: &Config,
    global: &Global,
    environment: &Environment,
) -> Result<KeyValues, Failure> {
    match (named, &config.backend) {
        (None, Backend::Cloudflare(kept)) => Ok(kept.clone()),
        (named, _) => Config::cloudflare(global, environment, named.unwrap_or("cloudflare")),
    }
}

pub(crate) async fn import(
    config: Config,
    environment: Environment,
    output: Output,
    kept: &KeyValues,
    args: &ImportHits,
) -> Result<(), Failure> {
    let cloudflare = Cloudflare::open(kept, &config, &environment, output)?;
    if let Some(place) = &args.place {
        return to_files(&cloudflare, &config, &environment, place, args).await;
    }
    let session = Session::open(config, environment, output).await?;
    let done = to_store(&cloudflare, &session).await;
    session.close().await;
    done
}

// ---- into a store ----

/// What became of all hits.
#[derive(Default)]
struct Sum {
    imported: Imported,
    /// Of codes the store has no link for.
    strangers: BTreeMap<String, u64>,
    unreadable: u64,
}

async fn to_store(cloudflare: &Cloudflare, session: &Session) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let clicks = session.clicks().await?;
    let name = format!("hits:{}:{}", workspace.id, cloudflare.hits_id());
    let done_upto = clicks.watermark(&name).await.map_err(StoreError::for_clicks)?;
    let mut keys = cloudflare.hit_keys().await?;
    // Nothing was imported yet where there is no watermark: no hit is from 1970.
    keys.retain(|key| key.day >= done_upto - OVERLAP_DAYS);
    let links = links_of(session, &workspace, &keys).await?;
    let progress = session.output.counter("importing hits", Some(keys.len() as u64));
    let mut sum = Sum::default();
    for some in keys.chunks(BATCH) {
        import_some(cloudflare, session, &workspace, &links, some, &mut sum).await?;
        // Keys are sorted by day: all days before that of the last one are done.
        if let Some(last) = some.last() {
            let upto = last.day.min(day_of(session.now()));
            clicks.advance(&name, upto, session.now()).await.map_err(StoreError::for_clicks)?;
        }
        progress.add(some.len() as u64);
    }
    drop(progress);
    report(session.output, &sum)
}

/// The link of each code, and who made it.
type Links = HashMap<String, (Id, Option<Id>)>;

async fn links_of(session: &Session, workspace: &Workspace, keys: &[HitKey]) -> Result<Links, Failure> {
    let mut codes: Vec<String> = keys.iter().map(|key| key.code.clone()).collect();
    codes.sort_unstable();
    codes.dedup();
    let mut links = Links::new();
    for some in codes.chunks(LOOKED_UP) {
        for (code, link) in session.store().links(workspace.id, some).await? {
            let link = link?;
            links.insert(code, (link.id, link.created_by.user()));
        }
    }
    Ok(links)
}

async fn import_some(
    cloudflare: &Cloudflare,
    session: &Session,
    workspace: &Workspace,
    links: &Links,
    keys: &[HitKey],
    sum: &mut Sum,
) -> Result<(), Failure> {
    let clicks = session.clicks().await?;
    let ids: Vec<String> = keys.iter().map(|key| key.id.clone()).collect();
    // What is there already need not be read again.
    let there = clicks.imported(&ids).await.map_err(StoreError::for_clicks)?;
    let mut wanted = Vec::new();
    for key in keys {
        if !links.contains_key(&key.code) {
            *sum.strangers.entry(key.code.clone()).or_default() += 1;
        } else if there.contains(&key.id) {
            sum.imported.known += 1;
        } else {
            wanted.push(key.clone());
        }
    }
    let (hits, unread) = cloudflare.read_hits(&wanted).await?;
    sum.unreadable += unread;
    let of_link = hits.iter().filter_map(|hit| {
        let (link, owner) = links.get(&hit.code)?;
        Some(OfLink { hit, link: *link, owner: *owner })
    });
    let hits: Vec<OfLink<'_>> = of_link.collect();
    let done = clicks.import(workspace.id, &hits, session.now()).await.map_err(StoreError::for_clicks)?;
    sum.imported.stored += done.stored;
    sum.imported.known += done.known;
    sum.imported.too_old += done.too_old;
    Ok(())
}

fn report(output: Output, sum: &Sum) -> Result<(), Failure> {
    let Sum { imported: Imported { stored, known, too_old }, strangers, unreadable } = sum;
    let of_strangers: u64 = strangers.values().sum();
    if output.json {
        output.object(&json!({
            "imported": stored, "known": known, "too_old": too_old, "unreadable": unreadable, "without_link": of_strangers,
        }))?;
    } else {
        output.done(&format!("imported {}; {known} were there already", counted(*stored, "hit")))?;
    }
    if of_strangers > 0 {
        let codes: Vec<&str> = strangers.keys().take(5).map(String::as_str).collect();
        output.warning(&format!(
            "{} of codes this store has no link for: {}{}",
            counted(of_strangers, "hit"),
            codes.join(", "),
            if strangers.len() > codes.len() { ", ..." } else { "" }
        ));
    }
    if *too_old > 0 {
        output
            .warning(&format!("{} of days whose raw clicks are not kept any more", counted(*too_old, "hit")));
    }
    if *unreadable > 0 {
        output.warning(&format!("{} cannot be read", counted(*unreadable, "hit")));
    }
    Ok(())
}

// ---- into files ----

/// Writes the days that are whole and were not written yet: a folder gets a file for each, any other place one file.
async fn to_files(
    cloudflare: &Cloudflare,
    config: &Config,
    environment: &Environment,
    named: &str,
    args: &ImportHits,
) -> Result<(), Failure> {
    let format = args.file_format(named)?;
    let place = Place::parse(named)?;
    let target = place.open(&aws_variables(environment))?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let watermark = Watermark::open(config, cloudflare.hits_id())?;
    let now = Clock::system().now();
    let whole_before = day_of(Timestamp::from_ms(now.ms() - LATE_MS));
    let mut keys = cloudflare.hit_keys().await?;
    keys.retain(|key| key.day > watermark.day && key.day < whole_before);
    let (mut written, mut unreadable, mut parts) = (0, 0, Vec::new());
    let days: Vec<&[HitKey]> = if target.takes_parts() {
        keys.chunk_by(|a, b| a.day == b.day).collect()
    } else {
        vec![keys.as_slice()]
    };
    for day in days {
        let name = day.first().filter(|_| target.takes_parts()).map(|key| part_name(key.day, format));
        // A file of a day holds all of it, so one that an earlier run left behind is the same.
        let overwrite = if name.is_some() { Overwrite::Replace } else { overwrite };
        let mut export = Export::begin(target.begin(name.as_deref(), overwrite).await?, format)?;
        for some in day.chunks(BATCH) {
            let (hits, unread) = cloudflare.read_hits(some).await?;
            unreadable += unread;
            let clicks: Vec<_> = hits.iter().map(Hit::click).collect();
            export.write(&clicks).await?;
            written += clicks.len() as u64;
        }
        export.finish().await?;
        if let Some(last) = day.last() {
            watermark.save(last.day)?;
        }
        parts.extend(name);
    }
    watermark.save(whole_before - 1)?;
    if unreadable > 0 {
        cloudflare.output.warning(&format!("{} cannot be read", counted(unreadable, "hit")));
    }
    if place == Place::Stdout {
        return Ok(());
    }
    if cloudflare.output.json {
        let object =
            json!({ "place": place.to_string(), "hits": written, "parts": parts, "unreadable": unreadable });
        return cloudflare.output.object(&object);
    }
    cloudflare.output.done(&format!("wrote {} to {place}", counted(written, "hit")))
}

fn part_name(day: i64, format: Format) -> String {
    let ending = match format {
        Format::Lines(_) => "jsonl",
        Format::Parquet => "parquet",
    };
    format!("hits-{}.{ending}", Timestamp::from_ms(day * DAY_MS).day())
}

impl ImportHits {
    fn file_format(&self, place: &str) -> Result<Format, Failure> {
        let by_name = if place.to_ascii_lowercase().ends_with(".parquet") { "parquet" } else { "jsonl" };
        match self.format.as_deref().unwrap_or(by_name) {
            "jsonl" => Ok(Format::Lines(Form::Short)),
            "parquet" => Ok(Format::Parquet),
            _ => Err(Failure::usage("--format is none of jsonl, parquet")),
        }
    }
}

/// Up to which day files were written: a small file in the data folder, for each namespace its own.
struct Watermark {
    path: PathBuf,
    day: i64,
}

impl Watermark {
    fn open(config: &Config, namespace: &str) -> Result<Self, Failure> {
        let path = config.data.join(format!("hits-{namespace}.json"));
        let day = match std::fs::read(&path) {
            Ok(bytes) => {
                let read: Option<Value> = serde_json::from_slice(&bytes).ok();
                let day = read.and_then(|read| read.get("day")?.as_i64());
                day.ok_or_else(|| {
                    Failure::failed(format!(
                        "{} is no watermark of ours; nothing was written",
                        path.display()
                    ))
                    .hint("without it every day is written again: remove it if that is wanted")
                })?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(cannot_read(&path, &error)),
        };
        Ok(Self { path, day })
    }

    fn save(&self, day: i64) -> Result<(), Failure> {
        if day <= self.day {
            return Ok(());
        }
        save(&self.path, &json!({ "day": day }))
    }
}

/// Writes a small file of ours, whole or not at all.
pub(super) fn save(path: &std::path::Path, value: &Value) -> Result<(), Failure> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let mut file = NewFile::create(path, crate::files::Overwrite::Replace)?;
    writeln!(file, "{value}").map_err(|error| cannot_write(path, &error))?;
    file.finish()
}

// ---- sums ----

pub(crate) async fn publish_stats(
    config: Config,
    environment: Environment,
    output: Output,
    kept: &KeyValues,
    args: &PublishStats,
) -> Result<(), Failure> {
    let cloudflare = Cloudflare::open(kept, &config, &environment, output)?;
    let is_there = matches!(&config.backend, Backend::Cloudflare(_)) && args.to.is_none();
    let sums = if is_there {
        cloudflare.count_hits().await?
    } else {
        let session = Session::open(config, environment, output).await?;
        let sums = sums_of(&session).await;
        session.close().await;
        sums?
    };
    let Recounted { written, right, without_object } = cloudflare.publish_stats(&sums).await?;
    if output.json {
        return output
            .object(&json!({ "written": written, "right": right, "without_object": without_object }));
    }
    output.done(&format!("wrote the numbers of {}; {right} were right", counted(written as u64, "link")))
}

/// What the links of a store have counted; those without a click are left out.
async fn sums_of(session: &Session) -> Result<BTreeMap<String, ClickTotals>, Failure> {
    let workspace = session.workspace().await?;
    let (mut sums, mut after) = (BTreeMap::new(), Id::from_i64(i64::MIN));
    loop {
        let (mut links, next) = session.store().links_by_id(after, PAGE).await?;
        links.retain(|link| link.workspace == workspace.id);
        let counted = session.stats(&links.iter().collect::<Vec<_>>()).await;
        let with_clicks = links.iter().zip(counted).filter(|(_, stats)| stats.hits > 0);
        sums.extend(with_clicks.map(|(link, stats)| (link.code.to_string(), stats)));
        match next {
            Some(next) => after = next,
            None => return Ok(sums),
        }
    }
}
