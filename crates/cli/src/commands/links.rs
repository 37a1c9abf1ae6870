//! `rmax links`: create, change, look at and remove links.

use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::route_object::RouteObject;
use rlinks_core::{Domains, FieldCode, FieldError, Link, LinkState, Workspace, search};
use rlinks_server::ops::{Deleted, Done, Mode, Outcome, Thing};
use rlinks_store::LinkFilter;
use serde::Serialize;

use crate::args::{Links, List, Set};
use crate::commands::moment;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm};
use crate::session::Session;

mod changes;

use self::changes::{Change, changes};

pub(super) async fn run(session: &Session, command: Links) -> Result<(), Failure> {
    match command {
        Links::List(args) => list(session, &args).await,
        Links::Get { code, at } => get(session, &code, at.as_deref()).await,
        Links::Set(args) => set(session, &args).await,
        Links::Disable { code } => switch(session, &code, Switch::Disable).await,
        Links::Enable { code } => switch(session, &code, Switch::Enable).await,
        Links::Restore { code } => switch(session, &code, Switch::Restore).await,
        Links::Delete { code, yes } => delete(session, &code, yes).await,
        Links::Stats(args) => super::stats::run(session, &args).await,
        Links::History { code } => history(session, &code).await,
    }
}

// ---- looking ----

async fn list(session: &Session, args: &List) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let mut links = find(session, &workspace, args).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = links.len() > limit;
    links.truncate(limit);
    if session.output.json {
        let stats = session.stats(&links.iter().collect::<Vec<_>>()).await;
        let objects = links.iter().zip(stats).map(|(link, stats)| RouteObject::of(link, stats));
        session.output.object(&objects.collect::<Vec<_>>())?;
    } else if links.is_empty() {
        session.output.note("no links");
    } else {
        let rows: Vec<Vec<String>> = links.iter().map(|link| row(session, link)).collect();
        session.output.table(&["CODE", "STATE", "TARGET", "TITLE", "TAGS", "EXPIRES"], &rows)?;
    }
    if more {
        session.output.hint(&format!("there are more than {limit}; show more with --limit"));
    }
    Ok(())
}

/// One more than asked for, to know whether there are more.
async fn find(session: &Session, workspace: &Workspace, args: &List) -> Result<Vec<Link>, Failure> {
    let words = args.search.as_deref().map(search::query).unwrap_or_default();
    if args.search.is_some() && words.is_empty() {
        return Err(Failure::usage("`--search` has no word in it; give letters or digits to look for"));
    }
    let tag = args.tag.as_deref().map(str::trim);
    if tag == Some("") {
        return Err(Failure::usage("`--tag` is empty; give the tag to look for"));
    }
    let states = [
        (true, LinkState::Active),
        (args.show_disabled, LinkState::Disabled),
        (args.show_deleted, LinkState::Deleted),
    ];
    let fold = workspace.policy.code.fold_case;
    let filter = LinkFilter {
        prefix: args
            .prefix
            .as_deref()
            .map(|text| if fold { text.to_ascii_lowercase() } else { text.to_owned() }),
        tag: tag.map(str::to_owned),
        words,
        states: states.into_iter().filter(|(wanted, _)| *wanted).map(|(_, state)| state).collect(),
        ..LinkFilter::default()
    };
    Ok(session.store().list(workspace.id, &filter, args.limit + 1).await?)
}

fn row(session: &Session, link: &Link) -> Vec<String> {
    let expired = link.state == LinkState::Active && link.is_expired(session.now());
    vec![
        link.code.to_string(),
        if expired { "expired".to_owned() } else { link.state.to_string() },
        link.target.to_string(),
        link.title.clone().unwrap_or_default(),
        link.tags.join(", "),
        link.expires_at.map(|at| at.to_string()).unwrap_or_default(),
    ]
}

async fn get(session: &Session, code: &str, at: Option<&str>) -> Result<(), Failure> {
    let at = moment(at)?;
    let workspace = session.workspace().await?;
    let link = match at {
        None => session.ops.link(&session.by(), &workspace, code).await?,
        Some(at) => {
            let now = session.ops.any_link(&session.by(), &workspace, code).await?;
            let then = session.store().link_at(workspace.id, &now.code, at).await?;
            then.filter(|link| link.state != LinkState::Deleted).ok_or_else(|| {
                Failure::not_found(Thing::LinkAt(now.code.to_string(), at))
                    .hint(format!("`rmax links history {}` shows when it was made", now.code))
            })?
        }
    };
    session.output.object(&session.object(&link).await)
}

async fn history(session: &Session, code: &str) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let link = session.ops.any_link(&session.by(), &workspace, code).await?;
    let entries = session.store().history(workspace.id, &link.code).await?;
    if session.output.json {
        return session.output.object(&entries);
    }
    for entry in &entries {
        session.output.line(&format!("{}  {}  {}", entry.ts, entry.actor, entry.action))?;
        let side = |json: &Option<Box<serde_json::value::RawValue>>| {
            json.as_ref().and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
        };
        for change in changes(&side(&entry.before), &side(&entry.after)) {
            session.output.line(&format!("    {change}"))?;
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

async fn set(session: &Session, args: &Set) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let (by, input) = (session.by(), args.input());
    let deleted = if args.recreate { Deleted::Recreate } else { Deleted::Refuse };
    if args.dry_run {
        let done = session.ops.set(&by, &workspace, &args.code, &input, deleted, Mode::DryRun).await?;
        return rehearsed(session, &workspace, &done).await;
    }
    let change =
        async { Ok(session.ops.set(&by, &workspace, &args.code, &input, deleted, Mode::Write).await?) };
    let done = session.change(change).await?;
    report(session, &workspace, &done, "updated").await?;
    session.warn_unreached(&workspace, &done.link.code).await
}

/// What became of it: the link for programs, a line for people.
async fn report(session: &Session, workspace: &Workspace, done: &Done, changed: &str) -> Result<(), Failure> {
    if session.output.json {
        return session.output.object(&session.object(&done.link).await);
    }
    let arrow = session.arrow(workspace, &done.link).await?;
    session.output.line(&format!("{} {arrow}", word(done.outcome, changed)))
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
async fn rehearsed(session: &Session, workspace: &Workspace, done: &Done) -> Result<(), Failure> {
    refuse_loop_to_configured(session, &done.link)?;
    let before = session.store().link(workspace.id, &done.link.code).await?;
    let before = before.filter(|_| done.outcome != Outcome::Created);
    let value = |link: &Link| serde_json::to_value(link).expect("a link is JSON");
    let changes = changes(&before.as_ref().map(value).unwrap_or_default(), &value(&done.link));
    let outcome = word(done.outcome, "updated");
    if session.output.json {
        let link = session.object(&done.link).await;
        return session.output.object(&Rehearsal { dry_run: true, outcome, changes, link });
    }
    let url = session.address(workspace, &done.link.code).await?;
    let head = match done.outcome {
        Outcome::Created => format!("would create {url}"),
        Outcome::Unchanged => format!("unchanged {url}"),
        _ => format!("would update {url}"),
    };
    session.output.line(&head)?;
    changes.iter().try_for_each(|change| session.output.line(&format!("    {change}")))
}

/// A dry run does not enter the configured domain in the store, so the store's own check does not know it yet.
fn refuse_loop_to_configured(session: &Session, link: &Link) -> Result<(), Failure> {
    let configured = Domains::new(session.config.domain.clone(), session.config.base_domain.as_ref());
    if link.no_loop && configured.serve(link.target.host()) {
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

async fn switch(session: &Session, code: &str, switch: Switch) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let by = session.by();
    let change = async {
        Ok(match switch {
            Switch::Disable => {
                session.ops.change_state(&by, &workspace, code, LinkState::Disabled, Mode::Write).await?
            }
            Switch::Enable => {
                session.ops.change_state(&by, &workspace, code, LinkState::Active, Mode::Write).await?
            }
            Switch::Restore => session.ops.restore(&by, &workspace, code, Mode::Write).await?,
        })
    };
    let done = session.change(change).await?;
    let changed = match switch {
        Switch::Disable => "disabled",
        Switch::Enable => "enabled",
        Switch::Restore => "restored",
    };
    report(session, &workspace, &done, changed).await
}

async fn delete(session: &Session, code: &str, yes: bool) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let link = session.ops.link(&session.by(), &workspace, code).await?;
    if !yes && !can_ask() {
        return Err(Failure::usage("deleting a link needs --yes where nobody can be asked")
            .hint(format!("`rmax links disable {code}` only switches it off")));
    }
    if !yes {
        let question = format!("Delete {}? Its code stays taken.", session.arrow(&workspace, &link).await?);
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was deleted"));
        }
    }
    let by = session.by();
    let change = async {
        Ok(session
            .ops
            .change_state(&by, &workspace, link.code.as_str(), LinkState::Deleted, Mode::Write)
            .await?)
    };
    let done = session.change(change).await?;
    report(session, &workspace, &done, "deleted").await
}
