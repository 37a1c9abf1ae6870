//! `rmax dev seed`: links and clicks to look at and to measure with. Everything goes the way real ones go: links through the
//! writer, clicks through ingest.

mod traffic;

use std::sync::Arc;

use rlinks_clicks::Ingest;
use rlinks_clicks::ingest::BATCH;
use rlinks_clicks::journal::{Batch, Batched, FOLDER, Producer, Reader};
use rlinks_clicks::misses::Misses;
use rlinks_core::draft::Input;
use rlinks_core::{Code, Id, Link, LinkDraft, LinkSource, LinkState, ServedHosts, Workspace};
use rlinks_store::clock::random_bytes;
use rlinks_store::write::{CodeChoice, LinkOp, LinkWrite, OnConflict};
use rlinks_store::{LinkFilter, ListPosition, StoreError};
use serde_json::json;
use tokio::task::JoinSet;

use self::traffic::{Crowd, LinkIdea};
use crate::args::SeedArgs;
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm, counted};

/// The tag by which seeded links are known.
const TAG: &str = "seeded";
/// Links on their way to the writer at once.
const AT_ONCE: usize = 1024;
/// Links looked at at once.
const PAGE: i64 = 1000;

pub(crate) async fn seed(session: &Session, args: &SeedArgs) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    if !args.yes && has_links_of_its_own(session, &workspace).await? {
        let what = format!("workspace {} has links of its own", workspace.slug);
        if !can_ask() {
            return Err(Failure::usage(format!("{what}; seeding it needs --yes where nobody can be asked")));
        }
        if confirm(&format!("The {what}. Add {} links and {} clicks?", args.links, args.clicks))?
            == Answer::No
        {
            return Err(Failure::failed("nothing was added"));
        }
    }
    let made = session.change(make_links(session, &workspace, args)).await?;
    make_clicks(session, &workspace, args, &made.links).await?;
    if session.output.json {
        return session.output.object(&json!({
            "links": made.links.len(),
            "created": made.created,
            "clicks": args.clicks,
            "days": args.days,
            "seed": args.seed,
        }));
    }
    session.output.done(&format!(
        "seeded {} ({} new) and {} over {}",
        counted(made.links.len() as u64, "link"),
        made.created,
        counted(args.clicks, "click"),
        counted(args.days.into(), "day")
    ))?;
    // Clicks are given out to the first most of all.
    let first = session.store().link_names(&made.links[..1]).await?;
    if let Some(link) = first.first() {
        session.output.hint(&format!("`rmax links stats {}` shows what they add up to", link.code));
    }
    Ok(())
}

/// Whether there is a link that no seeding made.
async fn has_links_of_its_own(session: &Session, workspace: &Workspace) -> Result<bool, Failure> {
    let mut filter =
        LinkFilter { states: vec![LinkState::Active, LinkState::Disabled], ..LinkFilter::default() };
    loop {
        let links = session.store().list(workspace.id, &filter, PAGE).await?;
        if links.iter().any(|link| !is_seeded(link)) {
            return Ok(true);
        }
        match links.last() {
            Some(last) if i64::try_from(links.len()) == Ok(PAGE) => {
                filter.after = Some(ListPosition::from_link(last, filter.sort));
            }
            _ => return Ok(false),
        }
    }
}

fn is_seeded(link: &Link) -> bool {
    link.tags.iter().any(|tag| tag == TAG)
}

// ---- links ----

/// The links clicks go to, the most clicked first.
struct Made {
    links: Vec<Id>,
    created: u64,
}

async fn make_links(session: &Session, workspace: &Workspace, args: &SeedArgs) -> Result<Made, Failure> {
    let served = session.ops.served().await?;
    let progress = session.output.counter("making links", Some(args.links.into()));
    let mut made = Made { links: Vec::new(), created: 0 };
    let mut next = 0;
    while next < args.links {
        let end = args.links.min(next.saturating_add(u32::try_from(AT_ONCE).unwrap_or(u32::MAX)));
        let ideas = (next..end).map(|number| traffic::link_idea(args.seed, number));
        let ids = write_links(session, workspace, &served, ideas.collect(), &mut made.created).await?;
        made.links.extend(ids);
        progress.add(u64::from(end - next));
        next = end;
    }
    if made.links.is_empty() {
        return Err(Failure::failed("every code of this seed is another link's; choose another --seed"));
    }
    traffic::shuffle(args.seed, &mut made.links);
    Ok(made)
}

/// Makes some links together and gives their ids in order. One that an earlier seeding made is taken as it is; a code that is
/// somebody's own link is left alone.
async fn write_links(
    session: &Session,
    workspace: &Workspace,
    served: &ServedHosts,
    ideas: Vec<LinkIdea>,
    created: &mut u64,
) -> Result<Vec<Id>, Failure> {
    let (actor, now) = (session.actor(), session.now());
    let mut ids: Vec<Option<Id>> = vec![None; ideas.len()];
    let mut codes = Vec::with_capacity(ideas.len());
    let mut writing = JoinSet::new();
    for (at, idea) in ideas.into_iter().enumerate() {
        let draft = LinkDraft::parse(&input(&idea), &workspace.policy, served, now)?;
        let code = Code::parse(&idea.code, &workspace.policy.code)?;
        codes.push(idea.code);
        let op = LinkOp::Create {
            draft,
            code: CodeChoice::Chosen(code),
            source: LinkSource::Cli,
            on_conflict: OnConflict::Refuse,
        };
        let write = LinkWrite::new(workspace.id, actor.clone(), now, op);
        let store = session.store().clone();
        writing.spawn(async move { (at, store.write(write).await) });
    }
    let mut taken = Vec::new();
    while let Some(written) = writing.join_next().await {
        let (at, written) = written.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        match written {
            Ok(written) => {
                *created += 1;
                ids[at] = Some(written.link().id);
            }
            Err(StoreError::CodeTaken { .. }) => taken.push(codes[at].clone()),
            Err(error) => return Err(error.into()),
        }
    }
    for (code, link) in session.store().links(workspace.id, &taken).await? {
        let at = codes.iter().position(|known| *known == code);
        if let (Some(at), Ok(link)) = (at, link)
            && is_seeded(&link)
            && link.state == LinkState::Active
        {
            ids[at] = Some(link.id);
        }
    }
    Ok(ids.into_iter().flatten().collect())
}

fn input(idea: &LinkIdea) -> Input {
    Input {
        code: Some(idea.code.clone()),
        target: Some(idea.target.clone()),
        title: Some(idea.title.clone()),
        tags: Some(vec![TAG.to_owned(), idea.tag.to_owned()]),
        ..Input::default()
    }
}

// ---- clicks ----

async fn make_clicks(
    session: &Session,
    workspace: &Workspace,
    args: &SeedArgs,
    links: &[Id],
) -> Result<(), Failure> {
    let now = session.now();
    let clicks = session.clicks().await?;
    let nothing = Reader::left_in(&session.config.data.join(FOLDER));
    let control = tokio::runtime::Handle::current();
    let mut ingest =
        Ingest::new(session.store().clone(), control, nothing, None, Arc::new(Misses::default()));
    let progress = session.output.counter("making clicks", Some(args.clicks));
    // No other seeding may ever have this number: clicks that are there are not stored again.
    let producer = Producer { boot: u64::from_le_bytes(random_bytes()), thread: 0 };
    let mut crowd = Crowd::new(args.seed, workspace, links);
    let mut batch = Batch::default();
    for (sequence, ts) in (1..).zip(traffic::moments(args.seed, args.clicks, args.days, now)) {
        let start = batch.bytes.len();
        crowd.click(ts).encode(&mut batch.bytes);
        batch.records.push(Batched { producer, sequence, bytes: start..batch.bytes.len() });
        if batch.records.len() == BATCH || sequence == args.clicks {
            ingest.take(clicks, &batch, now).await?;
            progress.add(batch.records.len() as u64);
            batch.bytes.clear();
            batch.records.clear();
        }
    }
    Ok(())
}
