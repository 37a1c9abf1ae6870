//! `rmax clicks import-hits` and `publish-stats`: what the Worker at Cloudflare has counted comes here, and sums go there.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use rlinks_clicks::edge_hits::{Hit, HitImportReport, LinkedHit, MAX_HITS_PER_BATCH};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{Destination, Export, Format};
use rlinks_clicks::time::{DAY_MS, HOUR_MS, day_of};
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Id, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::clock::Clock;
use rlinks_store::database::atomic_file::Overwrite;
use serde_json::{Value, json};

use crate::args::{Global, ImportHits, PublishStats};
use crate::backend::cloudflare::Cloudflare;
use crate::backend::cloudflare::hits::{HitKey, PublishedStats};
use crate::backend::local_store::{LocalStore, aws_variables};
use crate::config::{BackendConfig, Config, KvNamespaces};
use crate::environment::Environment;
use crate::error::CliError;
use crate::files::{OutputFile, cannot_read, cannot_write};
use crate::output::{Output, pluralize};

/// Days before the last one imported that are looked at again: a key may be seen late, and clocks differ.
const OVERLAP_DAYS: i64 = 1;
/// A day is whole when it has been over for so long.
const DAY_GRACE_MS: i64 = HOUR_MS;
/// Links looked up at once.
const MAX_CODES_PER_LOOKUP: usize = 500;
/// Links whose numbers are read at once.
const PAGE_SIZE: i64 = 1000;

/// Which storage a command is about: the one that was named, else the environment's own, else the only one there is.
pub(crate) fn kv_namespaces(
    named: Option<&str>,
    config: &Config,
    global: &Global,
    environment: &Environment,
) -> Result<KvNamespaces, CliError> {
    match (named, &config.backend) {
        (None, BackendConfig::Cloudflare(namespaces)) => Ok(namespaces.clone()),
        (named, _) => Config::cloudflare(global, environment, named.unwrap_or("cloudflare")),
    }
}

pub(crate) async fn import(
    config: Config,
    environment: Environment,
    output: Output,
    namespaces: &KvNamespaces,
    args: &ImportHits,
) -> Result<(), CliError> {
    let cloudflare = Cloudflare::open(namespaces, &config, &environment, output)?;
    if let Some(destination) = &args.place {
        return to_files(&cloudflare, &config, &environment, destination, args).await;
    }
    let local = LocalStore::open(config, environment, output).await?;
    let done = to_store(&cloudflare, &local).await;
    local.close().await;
    done
}

// ---- into a store ----

/// What became of all hits.
#[derive(Default)]
struct ImportSummary {
    imported: HitImportReport,
    /// Of codes the store has no link for.
    hits_without_link: BTreeMap<String, u64>,
    unreadable: u64,
}

async fn to_store(cloudflare: &Cloudflare, local: &LocalStore) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    let clicks = local.clicks().await?;
    let name = format!("hits:{}:{}", workspace.id, cloudflare.hits_namespace_id());
    let done_upto = clicks.watermark(&name).await.map_err(StoreError::for_clicks)?;
    let mut keys = cloudflare.hit_keys().await?;
    // Nothing was imported yet where there is no watermark: no hit is from 1970.
    keys.retain(|key| key.day >= done_upto - OVERLAP_DAYS);
    let links = links_by_code(local, &workspace, &keys).await?;
    let progress = local.output.counter("importing hits", Some(keys.len() as u64));
    let mut sum = ImportSummary::default();
    for some in keys.chunks(MAX_HITS_PER_BATCH) {
        import_some(cloudflare, local, &workspace, &links, some, &mut sum).await?;
        // Keys are sorted by day: all days before that of the last one are done.
        if let Some(last) = some.last() {
            let upto = last.day.min(day_of(local.now()));
            clicks.advance_watermark(&name, upto, local.now()).await.map_err(StoreError::for_clicks)?;
        }
        progress.add(some.len() as u64);
    }
    drop(progress);
    report(local.output, &sum)
}

/// The link of each code, and who made it.
type Links = HashMap<String, (Id, Option<Id>)>;

async fn links_by_code(
    local: &LocalStore,
    workspace: &Workspace,
    keys: &[HitKey],
) -> Result<Links, CliError> {
    let mut codes: Vec<String> = keys.iter().map(|key| key.code.clone()).collect();
    codes.sort_unstable();
    codes.dedup();
    let mut links = Links::new();
    for some in codes.chunks(MAX_CODES_PER_LOOKUP) {
        for (code, link) in local.store().links(workspace.id, some).await? {
            let link = link?;
            links.insert(code, (link.id, link.created_by.user()));
        }
    }
    Ok(links)
}

async fn import_some(
    cloudflare: &Cloudflare,
    local: &LocalStore,
    workspace: &Workspace,
    links: &Links,
    keys: &[HitKey],
    sum: &mut ImportSummary,
) -> Result<(), CliError> {
    let clicks = local.clicks().await?;
    let ids: Vec<String> = keys.iter().map(|key| key.id.clone()).collect();
    // What is there already need not be read again.
    let there = clicks.stored_event_ids(&ids).await.map_err(StoreError::for_clicks)?;
    let mut wanted = Vec::new();
    for key in keys {
        if !links.contains_key(&key.code) {
            *sum.hits_without_link.entry(key.code.clone()).or_default() += 1;
        } else if there.contains(&key.id) {
            sum.imported.already_stored += 1;
        } else {
            wanted.push(key.clone());
        }
    }
    let (hits, unread) = cloudflare.read_hits(&wanted).await?;
    sum.unreadable += unread;
    let of_link = hits.iter().filter_map(|hit| {
        let (link, owner) = links.get(&hit.code)?;
        Some(LinkedHit { hit, link: *link, owner: *owner })
    });
    let hits: Vec<LinkedHit<'_>> = of_link.collect();
    let done = clicks.import_hits(workspace.id, &hits, local.now()).await.map_err(StoreError::for_clicks)?;
    sum.imported.stored += done.stored;
    sum.imported.already_stored += done.already_stored;
    sum.imported.too_old += done.too_old;
    Ok(())
}

fn report(output: Output, sum: &ImportSummary) -> Result<(), CliError> {
    let ImportSummary {
        imported: HitImportReport { stored, already_stored: known, too_old },
        hits_without_link,
        unreadable,
    } = sum;
    let missing_hits: u64 = hits_without_link.values().sum();
    if output.json {
        output.object(&json!({
            "imported": stored, "known": known, "too_old": too_old, "unreadable": unreadable, "without_link": missing_hits,
        }))?;
    } else {
        output.done(&format!("imported {}; {known} were there already", pluralize(*stored, "hit")))?;
    }
    if missing_hits > 0 {
        let codes: Vec<&str> = hits_without_link.keys().take(5).map(String::as_str).collect();
        output.warning(&format!(
            "{} of codes this store has no link for: {}{}",
            pluralize(missing_hits, "hit"),
            codes.join(", "),
            if hits_without_link.len() > codes.len() { ", ..." } else { "" }
        ));
    }
    if *too_old > 0 {
        output.warning(&format!(
            "{} of days whose raw clicks are not kept any more",
            pluralize(*too_old, "hit")
        ));
    }
    if *unreadable > 0 {
        output.warning(&format!("{} cannot be read", pluralize(*unreadable, "hit")));
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
) -> Result<(), CliError> {
    let format = args.file_format(named)?;
    let destination = Destination::parse(named)?;
    let target = destination.open(&aws_variables(environment))?;
    let overwrite = Overwrite::from_flag(args.force);
    let watermark = Watermark::open(config, cloudflare.hits_namespace_id())?;
    let now = Clock::system().now();
    let whole_before = day_of(Timestamp::from_ms(now.ms() - DAY_GRACE_MS));
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
        for some in day.chunks(MAX_HITS_PER_BATCH) {
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
        cloudflare.output.warning(&format!("{} cannot be read", pluralize(unreadable, "hit")));
    }
    if destination == Destination::Stdout {
        return Ok(());
    }
    if cloudflare.output.json {
        let object = json!({ "place": destination.to_string(), "hits": written, "parts": parts, "unreadable": unreadable });
        return cloudflare.output.object(&object);
    }
    cloudflare.output.done(&format!("wrote {} to {destination}", pluralize(written, "hit")))
}

fn part_name(day: i64, format: Format) -> String {
    let ending = match format {
        Format::Lines(_) => "jsonl",
        Format::Parquet => "parquet",
    };
    format!("hits-{}.{ending}", Timestamp::from_ms(day * DAY_MS).day())
}

impl ImportHits {
    fn file_format(&self, destination: &str) -> Result<Format, CliError> {
        let by_name =
            if destination.to_ascii_lowercase().ends_with(".parquet") { "parquet" } else { "jsonl" };
        match self.format.as_deref().unwrap_or(by_name) {
            "jsonl" => Ok(Format::Lines(Form::Short)),
            "parquet" => Ok(Format::Parquet),
            _ => Err(CliError::usage("--format is none of jsonl, parquet")),
        }
    }
}

/// Up to which day files were written: a small file in the data folder, for each namespace its own.
struct Watermark {
    path: PathBuf,
    day: i64,
}

impl Watermark {
    fn open(config: &Config, namespace: &str) -> Result<Self, CliError> {
        let path = config.data.join(format!("hits-{namespace}.json"));
        let day = match std::fs::read(&path) {
            Ok(bytes) => {
                let read: Option<Value> = serde_json::from_slice(&bytes).ok();
                let day = read.and_then(|read| read.get("day")?.as_i64());
                day.ok_or_else(|| {
                    CliError::failed(format!(
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

    fn save(&self, day: i64) -> Result<(), CliError> {
        if day <= self.day {
            return Ok(());
        }
        write_state_file(&self.path, &json!({ "day": day }))
    }
}

/// Writes a small file of ours, whole or not at all.
pub(super) fn write_state_file(path: &std::path::Path, value: &Value) -> Result<(), CliError> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let mut file = OutputFile::create(path, Overwrite::Replace)?;
    writeln!(file, "{value}").map_err(|error| cannot_write(path, &error))?;
    file.finish()
}

// ---- sums ----

pub(crate) async fn publish_stats(
    config: Config,
    environment: Environment,
    output: Output,
    namespaces: &KvNamespaces,
    args: &PublishStats,
) -> Result<(), CliError> {
    let cloudflare = Cloudflare::open(namespaces, &config, &environment, output)?;
    let is_there = matches!(&config.backend, BackendConfig::Cloudflare(_)) && args.to.is_none();
    let sums = if is_there {
        cloudflare.count_hits().await?
    } else {
        let local = LocalStore::open(config, environment, output).await?;
        let sums = store_totals(&local).await;
        local.close().await;
        sums?
    };
    let PublishedStats { written, right, without_object } = cloudflare.publish_stats(&sums).await?;
    if output.json {
        return output
            .object(&json!({ "written": written, "right": right, "without_object": without_object }));
    }
    output.done(&format!("wrote the numbers of {}; {right} were right", pluralize(written as u64, "link")))
}

/// What the links of a store have counted; those without a click are left out.
async fn store_totals(local: &LocalStore) -> Result<BTreeMap<String, ClickTotals>, CliError> {
    let workspace = local.workspace().await?;
    let (mut sums, mut after) = (BTreeMap::new(), Id::from_i64(i64::MIN));
    loop {
        let (mut links, next) = local.store().links_by_id(after, PAGE_SIZE).await?;
        links.retain(|link| link.workspace == workspace.id);
        let counted = local.stats(&links.iter().collect::<Vec<_>>()).await;
        let with_clicks = links.iter().zip(counted).filter(|(_, stats)| stats.hits > 0);
        sums.extend(with_clicks.map(|(link, stats)| (link.code.to_string(), stats)));
        match next {
            Some(next) => after = next,
            None => return Ok(sums),
        }
    }
}
