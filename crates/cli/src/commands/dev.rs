//! `rmax dev seed`: links and clicks to look at and to measure with. Everything goes the way real ones go: links through the
//! writer, clicks through ingest.

mod traffic;

use std::sync::Arc;

use rlinks_clicks::Ingest;
use rlinks_clicks::ingest::MAX_BATCH_ENTRIES;
use rlinks_clicks::journal::{Batch, EntryRef, JOURNAL_FOLDER, Producer, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_core::draft::Input;
use rlinks_core::{Id, Link, LinkState, Workspace};
use rlinks_ops::OpsError;
use rlinks_store::{LinkFilter, ListPosition, StoreError};
use serde_json::json;

use self::traffic::{SampleLink, Traffic};
use crate::args::SeedArgs;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{Confirmation, confirm, is_interactive, pluralize};

/// The tag by which seeded links are known.
const SEED_TAG: &str = "seeded";
/// Links on their way to the writer at once.
const MAX_CONCURRENT_WRITES: usize = 1024;
/// Links looked at at once.
const PAGE_SIZE: i64 = 1000;

pub(crate) async fn seed(local: &LocalStore, args: &SeedArgs) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    if !args.yes && has_unseeded_links(local, &workspace).await? {
        let what = format!("workspace {} has links of its own", workspace.slug);
        if !is_interactive() {
            return Err(CliError::usage(format!("{what}; seeding it needs --yes where nobody can be asked")));
        }
        if confirm(&format!("The {what}. Add {} links and {} clicks?", args.links, args.clicks))?
            == Confirmation::Declined
        {
            return Err(CliError::failed("nothing was added"));
        }
    }
    let made = local.change(make_links(local, &workspace, args)).await?;
    make_clicks(local, &workspace, args, &made.links).await?;
    if local.output.json {
        return local.output.object(&json!({
            "links": made.links.len(),
            "created": made.created,
            "clicks": args.clicks,
            "days": args.days,
            "seed": args.seed,
        }));
    }
    local.output.done(&format!(
        "seeded {} ({} new) and {} over {}",
        pluralize(made.links.len() as u64, "link"),
        made.created,
        pluralize(args.clicks, "click"),
        pluralize(args.days.into(), "day")
    ))?;
    // Clicks are given out to the first most of all.
    let first = local.store().link_names(&made.links[..1]).await?;
    if let Some(link) = first.first() {
        local.output.hint(&format!("`rmax links stats {}` shows what they add up to", link.code));
    }
    Ok(())
}

/// Whether there is a link that no seeding made.
async fn has_unseeded_links(local: &LocalStore, workspace: &Workspace) -> Result<bool, CliError> {
    let mut filter =
        LinkFilter { states: vec![LinkState::Active, LinkState::Disabled], ..LinkFilter::default() };
    loop {
        let links = local.store().list(workspace.id, &filter, PAGE_SIZE).await?;
        if links.iter().any(|link| !is_seeded(link)) {
            return Ok(true);
        }
        match links.last() {
            Some(last) if i64::try_from(links.len()) == Ok(PAGE_SIZE) => {
                filter.after = Some(ListPosition::from_link(last, filter.sort));
            }
            _ => return Ok(false),
        }
    }
}

fn is_seeded(link: &Link) -> bool {
    link.tags.iter().any(|tag| tag == SEED_TAG)
}

// ---- links ----

/// The links clicks go to, the most clicked first.
struct SeededLinks {
    links: Vec<Id>,
    created: u64,
}

async fn make_links(
    local: &LocalStore,
    workspace: &Workspace,
    args: &SeedArgs,
) -> Result<SeededLinks, CliError> {
    let progress = local.output.counter("making links", Some(args.links.into()));
    let mut made = SeededLinks { links: Vec::new(), created: 0 };
    let mut next = 0;
    while next < args.links {
        let end =
            args.links.min(next.saturating_add(u32::try_from(MAX_CONCURRENT_WRITES).unwrap_or(u32::MAX)));
        let ideas = (next..end).map(|number| traffic::sample_link(args.seed, number));
        let ids = write_links(local, workspace, &ideas.collect::<Vec<_>>(), &mut made.created).await?;
        made.links.extend(ids);
        progress.add(u64::from(end - next));
        next = end;
    }
    if made.links.is_empty() {
        return Err(CliError::failed("every code of this seed is another link's; choose another --seed"));
    }
    traffic::shuffle(args.seed, &mut made.links);
    Ok(made)
}

/// Makes some links together and gives their ids in order. One that an earlier seeding made is taken as it is; a code that is
/// somebody's own link is left alone.
async fn write_links(
    local: &LocalStore,
    workspace: &Workspace,
    ideas: &[SampleLink],
    created: &mut u64,
) -> Result<Vec<Id>, CliError> {
    let inputs: Vec<Input> = ideas.iter().map(input).collect();
    let mut ids: Vec<Option<Id>> = vec![None; ideas.len()];
    let mut taken = Vec::new();
    let results = local.ops.create_many(&local.caller_in(workspace), &inputs).await;
    for ((at, idea), result) in ideas.iter().enumerate().zip(results) {
        match result {
            Ok(done) => {
                *created += 1;
                ids[at] = Some(done.link.id);
            }
            Err(OpsError::Store(StoreError::CodeTaken { .. })) => taken.push(idea.code.clone()),
            Err(error) => return Err(error.into()),
        }
    }
    for (code, link) in local.store().links(workspace.id, &taken).await? {
        let at = ideas.iter().position(|idea| idea.code == code);
        if let (Some(at), Ok(link)) = (at, link)
            && is_seeded(&link)
            && link.state == LinkState::Active
        {
            ids[at] = Some(link.id);
        }
    }
    Ok(ids.into_iter().flatten().collect())
}

fn input(idea: &SampleLink) -> Input {
    Input {
        code: Some(idea.code.clone()),
        target: Some(idea.target.clone()),
        title: Some(idea.title.clone()),
        tags: Some(vec![SEED_TAG.to_owned(), idea.tag.to_owned()]),
        ..Input::default()
    }
}

// ---- clicks ----

async fn make_clicks(
    local: &LocalStore,
    workspace: &Workspace,
    args: &SeedArgs,
    links: &[Id],
) -> Result<(), CliError> {
    let now = local.now();
    let clicks = local.clicks().await?;
    let nothing = Reader::abandoned(&local.config.data.join(JOURNAL_FOLDER));
    let control = tokio::runtime::Handle::current();
    let mut ingest =
        Ingest::new(local.store().clone(), control, nothing, None, Arc::new(MissCounter::default()));
    let progress = local.output.counter("making clicks", Some(args.clicks));
    // No other seeding may ever have this number: clicks that are there are not stored again.
    let producer = Producer { boot: u64::from_le_bytes(local.ops.random.bytes()), thread: 0 };
    let mut traffic = Traffic::new(args.seed, workspace, links);
    let mut batch = Batch::default();
    for (sequence, ts) in (1..).zip(traffic::click_times(args.seed, args.clicks, args.days, now)) {
        let start = batch.bytes.len();
        traffic.click(ts).encode(&mut batch.bytes);
        batch.entries.push(EntryRef { producer, sequence, bytes: start..batch.bytes.len() });
        if batch.entries.len() == MAX_BATCH_ENTRIES || sequence == args.clicks {
            ingest.ingest_batch(clicks, &batch, now).await?;
            progress.add(batch.entries.len() as u64);
            batch.bytes.clear();
            batch.entries.clear();
        }
    }
    Ok(())
}
