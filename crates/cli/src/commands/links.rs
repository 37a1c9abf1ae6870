//! `rmax links`: create, change, look at and remove links.

use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::link::route_object::{ClickTotals, RouteObject};
use rlinks_core::link::search;
use rlinks_core::{FieldCode, FieldError, Link, LinkState, ServedHosts, Timestamp};
use rlinks_ops::{Deleted, Mode, Outcome};
use rlinks_store::LinkFilter;
use serde::Serialize;

use crate::args::{Links, List, Set};
use crate::backend::Place;
use crate::backend::links::{Made, Seen, Wanted};
use crate::backend::local_store::Session;
use crate::commands::moment;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm};

pub(super) mod diff;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod migrate;

use self::diff::{Change, changes};

pub(crate) async fn run(place: &Place, command: Links) -> Result<(), Failure> {
    match command {
        Links::List(args) => list(place, &args).await,
        Links::Get { code, at } => get(place, &code, at.as_deref()).await,
        Links::Set(args) => set(place, &args).await,
        Links::Disable { code } => switch(place, &code, Switch::Disable).await,
        Links::Enable { code } => switch(place, &code, Switch::Enable).await,
        Links::Restore { code } => switch(place, &code, Switch::Restore).await,
        Links::Delete { code, yes } => delete(place, &code, yes).await,
        Links::Stats(args) => super::stats::run(place, &args).await,
        Links::History { code } => history(place, &code).await,
        Links::Import(args) => import::import(place, &args).await,
        Links::Export(args) => export::export(place, &args).await,
        Links::Migrate { dry_run } => migrate::migrate(place, dry_run).await,
    }
}

// ---- looking ----

impl List {
    fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        if self.search.as_deref().is_some_and(|text| search::parse_query(text).is_empty()) {
            return Err(Failure::usage("`--search` has no word in it; give letters or digits to look for"));
        }
        let tag = self.tag.as_deref().map(str::trim);
        if tag == Some("") {
            return Err(Failure::usage("`--tag` is empty; give the tag to look for"));
        }
        Ok(Wanted {
            prefix: self.prefix.as_deref(),
            tag,
            search: self.search.as_deref(),
            disabled: self.show_disabled,
            deleted: self.show_deleted,
            limit: usize::try_from(self.limit).unwrap_or_default(),
        })
    }
}

async fn list(place: &Place, args: &List) -> Result<(), Failure> {
    let (wanted, output) = (args.wanted()?, place.output());
    let mut links = match place {
        Place::Store(session) => find(session, &wanted).await?,
        Place::Server(remote) => remote.links(&wanted).await?,
        Place::Cloudflare(cloudflare) => cloudflare.links(&wanted).await?,
    };
    let more = links.len() > wanted.limit;
    links.truncate(wanted.limit);
    if output.json {
        let objects = links.iter().map(|(link, stats)| RouteObject::from_link(link, *stats));
        output.object(&objects.collect::<Vec<_>>())?;
    } else if links.is_empty() {
        output.note("no links");
    } else {
        let now = place.now();
        let rows: Vec<Vec<String>> = links.iter().map(|(link, _)| row(link, now)).collect();
        output.table(&["CODE", "STATE", "TARGET", "TITLE", "TAGS", "EXPIRES"], &rows)?;
    }
    if more {
        output.hint(&format!("there are more than {}; show more with --limit", wanted.limit));
    }
    Ok(())
}

/// One more than asked for, to know whether there are more. Numbers are for programs alone.
async fn find(session: &Session, wanted: &Wanted<'_>) -> Result<Vec<(Link, ClickTotals)>, Failure> {
    let workspace = session.workspace().await?;
    let states = [
        (true, LinkState::Active),
        (wanted.disabled, LinkState::Disabled),
        (wanted.deleted, LinkState::Deleted),
    ];
    let fold = workspace.policy.code.fold_case;
    let filter = LinkFilter {
        prefix: wanted.prefix.map(|text| if fold { text.to_ascii_lowercase() } else { text.to_owned() }),
        tag: wanted.tag.map(str::to_owned),
        words: wanted.search.map(search::parse_query).unwrap_or_default(),
        states: states.into_iter().filter(|(wanted, _)| *wanted).map(|(_, state)| state).collect(),
        ..LinkFilter::default()
    };
    let most = i64::try_from(wanted.limit).unwrap_or(i64::MAX).saturating_add(1);
    let links = session.store().list(workspace.id, &filter, most).await?;
    let counted = if session.output.json {
        session.stats(&links.iter().collect::<Vec<_>>()).await
    } else {
        vec![ClickTotals::default(); links.len()]
    };
    Ok(links.into_iter().zip(counted).collect())
}

fn row(link: &Link, now: Timestamp) -> Vec<String> {
    let expired = link.state == LinkState::Active && link.is_expired(now);
    vec![
        link.code.to_string(),
        if expired { "expired".to_owned() } else { link.state.to_string() },
        link.target.to_string(),
        link.title.clone().unwrap_or_default(),
        link.tags.join(", "),
        link.expires_at.map(|at| at.to_string()).unwrap_or_default(),
    ]
}

async fn get(place: &Place, code: &str, at: Option<&str>) -> Result<(), Failure> {
    let at = moment(at)?;
    let seen = match place {
        Place::Store(session) => look(session, code, at).await?,
        Place::Server(remote) => remote.link(code, at).await?,
        Place::Cloudflare(cloudflare) => cloudflare.link(code, at).await?,
    };
    place.output().object(&place.object(&seen).await)
}

async fn look(session: &Session, code: &str, at: Option<Timestamp>) -> Result<Seen, Failure> {
    let workspace = session.workspace().await?;
    let link = match at {
        None => session.ops.link(&session.by(), &workspace, code).await?,
        Some(at) => session.ops.link_at(&session.by(), &workspace, code, at).await?,
    };
    session.seen(&workspace, link).await
}

async fn history(place: &Place, code: &str) -> Result<(), Failure> {
    let output = place.output();
    let entries = match place {
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let link = session.ops.any_link(&session.by(), &workspace, code).await?;
            session.store().history(workspace.id, &link.code).await?
        }
        Place::Server(remote) => remote.history(code).await?,
        Place::Cloudflare(cloudflare) => {
            let entries = cloudflare.history(code).await?;
            if entries.is_empty() {
                // A link from before there was a log has no history, and is there.
                cloudflare.stats(code).await?;
            }
            entries
        }
    };
    if output.json {
        return output.object(&entries);
    }
    for entry in &entries {
        output.line(&format!("{}  {}  {}", entry.ts, entry.actor, entry.action))?;
        let side = |json: &Option<Box<serde_json::value::RawValue>>| {
            json.as_ref().and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
        };
        for change in changes(&side(&entry.before), &side(&entry.after)) {
            output.line(&format!("    {change}"))?;
        }
    }
    Ok(())
}

// ---- changing ----

impl Set {
    fn input(&self) -> Input {
        let either = |on: bool, off: bool| (on || off).then_some(on);
        Input {
            target: Some(self.url.clone()),
            redirect_status: self.status,
            expires_at: match (&self.expires, self.no_expiry) {
                (Some(text), _) => Some(Some(TimeInput::Text(text.clone()))),
                (None, true) => Some(None),
                (None, false) => None,
            },
            title: self.title.clone(),
            notes: self.note.clone(),
            add_tags: self.tag.clone(),
            remove_tags: self.untag.clone(),
            https_only: either(self.https, self.no_https),
            no_loop: either(self.no_loop, self.allow_loop),
            ..Input::default()
        }
    }
}

async fn set(place: &Place, args: &Set) -> Result<(), Failure> {
    let input = args.input();
    let deleted = if args.recreate { Deleted::Recreate } else { Deleted::Refuse };
    let made = match place {
        Place::Store(session) if args.dry_run => {
            return rehearse(place, session, args, &input, deleted).await;
        }
        Place::Store(session) => {
            let (workspace, by) = (session.workspace().await?, session.by());
            let change = async {
                Ok(session.ops.set(&by, &workspace, &args.code, &input, deleted, Mode::Write).await?)
            };
            session.made(&workspace, session.change(change).await?).await?
        }
        Place::Server(_) if args.dry_run => {
            return Err(Failure::usage(
                "--dry-run does not work on a server: it checks a change by its own rules, and has no way to only try it",
            )
            .hint(format!("`rmax links get {}` shows the link as it is", args.code)));
        }
        Place::Server(remote) => remote.set(&args.code, &input, deleted).await?,
        Place::Cloudflare(cloudflare) => {
            let mode = if args.dry_run { Mode::DryRun } else { Mode::Write };
            let changed = cloudflare.set(&args.code, &input, deleted, mode).await?;
            if args.dry_run {
                return rehearsed(place, changed.before.as_ref(), &changed.made).await;
            }
            changed.made
        }
    };
    report(place, &made, "updated").await?;
    match place {
        Place::Cloudflare(cloudflare) => cloudflare.warn_unguarded(),
        Place::Store(_) | Place::Server(_) => made.seen.warn(place.output()),
    }
    Ok(())
}

/// What became of it: the link for programs, a line for people.
async fn report(place: &Place, made: &Made, changed: &str) -> Result<(), Failure> {
    if place.output().json {
        return place.output().object(&place.object(&made.seen).await);
    }
    place.output().done(&format!("{} {}", word(made.outcome, changed), made.seen.arrow()))?;
    let link = &made.seen.link;
    if let Some(at) =
        link.expires_at.filter(|_| link.state == LinkState::Active && link.is_expired(place.now()))
    {
        place.output().warning(&format!(
            "it expired at {at}, so no visitor is redirected; `--expires` and `--no-expiry` of `rmax links set` change that"
        ));
    }
    Ok(())
}

fn word(outcome: Outcome, changed: &str) -> &str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Changed => changed,
        Outcome::Unchanged => "unchanged",
        Outcome::Reused => "reused",
        Outcome::Revived => "revived",
    }
}

/// What a dry run tells programs.
#[derive(Serialize)]
struct Rehearsal<'a> {
    dry_run: bool,
    outcome: &'a str,
    changes: Vec<Change>,
    link: RouteObject,
}

/// What would change, field by field.
async fn rehearse(
    place: &Place,
    session: &Session,
    args: &Set,
    input: &Input,
    deleted: Deleted,
) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let done = session.ops.set(&session.by(), &workspace, &args.code, input, deleted, Mode::DryRun).await?;
    refuse_loop_to_configured(session, &done.link)?;
    let before = session.store().link(workspace.id, &done.link.code).await?;
    let before = before.filter(|_| done.outcome != Outcome::Created);
    rehearsed(place, before.as_ref(), &session.made(&workspace, done).await?).await
}

/// Shows what a dry run has found out.
async fn rehearsed(place: &Place, before: Option<&Link>, made: &Made) -> Result<(), Failure> {
    let output = place.output();
    let value = |link: &Link| serde_json::to_value(link).expect("a link is JSON");
    let changes = changes(&before.map(value).unwrap_or_default(), &value(&made.seen.link));
    if output.json {
        let (outcome, link) = (word(made.outcome, "updated"), place.object(&made.seen).await);
        return output.object(&Rehearsal { dry_run: true, outcome, changes, link });
    }
    let url = made.seen.address();
    let head = match made.outcome {
        Outcome::Created => format!("would create {url}"),
        Outcome::Unchanged => format!("unchanged {url}"),
        _ => format!("would update {url}"),
    };
    output.line(&head)?;
    changes.iter().try_for_each(|change| output.line(&format!("    {change}")))
}

/// A dry run does not enter the configured domain in the store, so the store's own check does not know it yet.
fn refuse_loop_to_configured(session: &Session, link: &Link) -> Result<(), Failure> {
    let configured = ServedHosts::new(session.config.domain.clone(), session.config.base_domain.as_ref());
    if link.no_loop && configured.contains(link.target.host()) {
        let message = format!(
            "leads back to {}, a domain served here; allow it with no_loop off (--allow-loop)",
            link.target.host()
        );
        return Err(FieldError::new("target", FieldCode::Loop, message).into());
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Switch {
    Disable,
    Enable,
    Restore,
}

async fn switch(place: &Place, code: &str, switch: Switch) -> Result<(), Failure> {
    let (state, changed) = match switch {
        Switch::Disable => (Some(LinkState::Disabled), "disabled"),
        Switch::Enable => (Some(LinkState::Active), "enabled"),
        // Back to whatever it was.
        Switch::Restore => (None, "restored"),
    };
    let made = match (place, state) {
        (Place::Store(session), state) => {
            let (workspace, by) = (session.workspace().await?, session.by());
            let change = async {
                Ok(match state {
                    Some(state) => {
                        session.ops.change_state(&by, &workspace, code, state, Mode::Write).await?
                    }
                    None => session.ops.restore(&by, &workspace, code, Mode::Write).await?,
                })
            };
            session.made(&workspace, session.change(change).await?).await?
        }
        (Place::Server(remote), Some(state)) => remote.switch(code, state).await?,
        (Place::Server(remote), None) => remote.restore(code).await?,
        (Place::Cloudflare(cloudflare), Some(state)) => cloudflare.switch(code, state).await?,
        (Place::Cloudflare(cloudflare), None) => cloudflare.restore(code).await?,
    };
    report(place, &made, changed).await
}

async fn delete(place: &Place, code: &str, yes: bool) -> Result<(), Failure> {
    let seen = match place {
        Place::Store(session) => look(session, code, None).await?,
        Place::Server(remote) => remote.link(code, None).await?,
        Place::Cloudflare(cloudflare) => cloudflare.link(code, None).await?,
    };
    if !yes && !can_ask() {
        return Err(Failure::usage("deleting a link needs --yes where nobody can be asked")
            .hint(format!("`rmax links disable {code}` only switches it off")));
    }
    if !yes {
        let question = format!("Delete {}? Its code stays taken.", seen.arrow());
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was deleted"));
        }
    }
    let made = match place {
        Place::Store(session) => {
            let (workspace, by) = (session.workspace().await?, session.by());
            let (code, state) = (seen.link.code.as_str(), LinkState::Deleted);
            let change =
                async { Ok(session.ops.change_state(&by, &workspace, code, state, Mode::Write).await?) };
            session.made(&workspace, session.change(change).await?).await?
        }
        Place::Server(remote) => remote.delete(&seen.link.code).await?,
        Place::Cloudflare(cloudflare) => cloudflare.delete_link(&seen.link.code).await?,
    };
    report(place, &made, "deleted").await
}
