//! `rmax links`: create, change, look at and remove links.

use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::link::route_object::{ClickTotals, RouteObject};
use rlinks_core::link::search;
use rlinks_core::{FieldCode, FieldError, Link, LinkState, ServedHosts, Timestamp};
use rlinks_ops::{OnDeletedCode, WriteMode, WriteOutcome};
use rlinks_store::LinkFilter;
use serde::Serialize;

use crate::args::{Links, List, Set};
use crate::backend::Backend;
use crate::backend::links::{LinkDetails, LinkQuery, LinkResult};
use crate::backend::local_store::LocalStore;
use crate::commands::parse_time;
use crate::error::CliError;
use crate::output::{Confirmation, confirm, is_interactive};

pub(super) mod diff;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod migrate;

use self::diff::{FieldDiff, diff};

pub(crate) async fn run(backend: &Backend, command: Links) -> Result<(), CliError> {
    match command {
        Links::List(args) => list(backend, &args).await,
        Links::Get { code, at } => get(backend, &code, at.as_deref()).await,
        Links::Set(args) => set(backend, &args).await,
        Links::Disable { code } => change_state(backend, &code, StateChange::Disable).await,
        Links::Enable { code } => change_state(backend, &code, StateChange::Enable).await,
        Links::Restore { code } => change_state(backend, &code, StateChange::Restore).await,
        Links::Delete { code, yes } => delete(backend, &code, yes).await,
        Links::Stats(args) => super::stats::run(backend, &args).await,
        Links::History { code } => history(backend, &code).await,
        Links::Import(args) => import::import(backend, &args).await,
        Links::Export(args) => export::export(backend, &args).await,
        Links::Migrate { dry_run } => migrate::migrate(backend, dry_run).await,
    }
}

// ---- looking ----

impl List {
    fn query(&self) -> Result<LinkQuery<'_>, CliError> {
        if self.search.as_deref().is_some_and(|text| search::parse_query(text).is_empty()) {
            return Err(CliError::usage("`--search` has no word in it; give letters or digits to look for"));
        }
        let tag = self.tag.as_deref().map(str::trim);
        if tag == Some("") {
            return Err(CliError::usage("`--tag` is empty; give the tag to look for"));
        }
        Ok(LinkQuery {
            prefix: self.prefix.as_deref(),
            tag,
            search: self.search.as_deref(),
            disabled: self.show_disabled,
            deleted: self.show_deleted,
            limit: usize::try_from(self.limit).unwrap_or_default(),
        })
    }
}

async fn list(backend: &Backend, args: &List) -> Result<(), CliError> {
    let (wanted, output) = (args.query()?, backend.output());
    let mut links = match backend {
        Backend::Store(local) => list_stored(local, &wanted).await?,
        Backend::Server(client) => client.links(&wanted).await?,
        Backend::Cloudflare(cloudflare) => cloudflare.links(&wanted).await?,
    };
    let more = links.len() > wanted.limit;
    links.truncate(wanted.limit);
    if output.json {
        let objects = links.iter().map(|(link, stats)| RouteObject::from_link(link, *stats));
        output.object(&objects.collect::<Vec<_>>())?;
    } else if links.is_empty() {
        output.note("no links");
    } else {
        let now = backend.now();
        let rows: Vec<Vec<String>> = links.iter().map(|(link, _)| row(link, now)).collect();
        output.table(&["CODE", "STATE", "TARGET", "TITLE", "TAGS", "EXPIRES"], &rows)?;
    }
    if more {
        output.hint(&format!("there are more than {}; show more with --limit", wanted.limit));
    }
    Ok(())
}

/// One more than asked for, to know whether there are more. Numbers are for programs alone.
async fn list_stored(
    local: &LocalStore,
    wanted: &LinkQuery<'_>,
) -> Result<Vec<(Link, ClickTotals)>, CliError> {
    let workspace = local.workspace().await?;
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
    let links = local.store().list(workspace.id, &filter, most).await?;
    let counted = if local.output.json {
        local.stats(&links.iter().collect::<Vec<_>>()).await
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

async fn get(backend: &Backend, code: &str, at: Option<&str>) -> Result<(), CliError> {
    let at = parse_time(at)?;
    let seen = match backend {
        Backend::Store(local) => get_link(local, code, at).await?,
        Backend::Server(client) => client.link(code, at).await?,
        Backend::Cloudflare(cloudflare) => cloudflare.link(code, at).await?,
    };
    backend.output().object(&backend.route_object(&seen).await)
}

async fn get_link(local: &LocalStore, code: &str, at: Option<Timestamp>) -> Result<LinkDetails, CliError> {
    let workspace = local.workspace().await?;
    let link = match at {
        None => local.ops.link(&local.caller_in(&workspace), code).await?,
        Some(at) => local.ops.link_at(&local.caller_in(&workspace), code, at).await?,
    };
    local.link_details(&workspace, link).await
}

async fn history(backend: &Backend, code: &str) -> Result<(), CliError> {
    let output = backend.output();
    let entries = match backend {
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let link = local.ops.any_link(&local.caller_in(&workspace), code).await?;
            local.store().history(workspace.id, &link.code).await?
        }
        Backend::Server(client) => client.history(code).await?,
        Backend::Cloudflare(cloudflare) => {
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
        for change in diff(&side(&entry.before), &side(&entry.after)) {
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

async fn set(backend: &Backend, args: &Set) -> Result<(), CliError> {
    let input = args.input();
    let deleted = if args.recreate { OnDeletedCode::Recreate } else { OnDeletedCode::Refuse };
    let made = match backend {
        Backend::Store(local) if args.dry_run => {
            return dry_run(backend, local, args, &input, deleted).await;
        }
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change =
                async { Ok(local.ops.set(&caller, &args.code, &input, deleted, WriteMode::Apply).await?) };
            local.link_result(&workspace, local.change(change).await?).await?
        }
        Backend::Server(_) if args.dry_run => {
            return Err(CliError::usage(
                "--dry-run does not work on a server: it checks a change by its own rules, and has no way to only try it",
            )
            .hint(format!("`rmax links get {}` shows the link as it is", args.code)));
        }
        Backend::Server(client) => client.set(&args.code, &input, deleted).await?,
        Backend::Cloudflare(cloudflare) => {
            let mode = if args.dry_run { WriteMode::DryRun } else { WriteMode::Apply };
            let changed = cloudflare.set(&args.code, &input, deleted, mode).await?;
            if args.dry_run {
                return report_dry_run(backend, changed.before.as_ref(), &changed.result).await;
            }
            changed.result
        }
    };
    report(backend, &made, "updated").await?;
    match backend {
        Backend::Cloudflare(cloudflare) => cloudflare.warn_no_loop_check(),
        Backend::Store(_) | Backend::Server(_) => made.details.print_warnings(backend.output()),
    }
    Ok(())
}

/// What became of it: the link for programs, a line for people.
async fn report(backend: &Backend, made: &LinkResult, changed: &str) -> Result<(), CliError> {
    if backend.output().json {
        return backend.output().object(&backend.route_object(&made.details).await);
    }
    backend.output().done(&format!(
        "{} {}",
        outcome_word(made.outcome, changed),
        made.details.address_and_target()
    ))?;
    let link = &made.details.link;
    if let Some(at) =
        link.expires_at.filter(|_| link.state == LinkState::Active && link.is_expired(backend.now()))
    {
        backend.output().warning(&format!(
            "it expired at {at}, so no visitor is redirected; `--expires` and `--no-expiry` of `rmax links set` change that"
        ));
    }
    Ok(())
}

fn outcome_word(outcome: WriteOutcome, changed: &str) -> &str {
    match outcome {
        WriteOutcome::Created => "created",
        WriteOutcome::Changed => changed,
        WriteOutcome::Unchanged => "unchanged",
        WriteOutcome::Reused => "reused",
        WriteOutcome::Revived => "revived",
    }
}

/// What a dry run tells programs.
#[derive(Serialize)]
struct DryRunReport<'a> {
    dry_run: bool,
    outcome: &'a str,
    changes: Vec<FieldDiff>,
    link: RouteObject,
}

/// What would change, field by field.
async fn dry_run(
    backend: &Backend,
    local: &LocalStore,
    args: &Set,
    input: &Input,
    deleted: OnDeletedCode,
) -> Result<(), CliError> {
    let workspace = local.workspace().await?;
    let done =
        local.ops.set(&local.caller_in(&workspace), &args.code, input, deleted, WriteMode::DryRun).await?;
    refuse_loop_to_configured(local, &done.link)?;
    let before = local.store().link(workspace.id, &done.link.code).await?;
    let before = before.filter(|_| done.outcome != WriteOutcome::Created);
    report_dry_run(backend, before.as_ref(), &local.link_result(&workspace, done).await?).await
}

/// Shows what a dry run has found out.
async fn report_dry_run(backend: &Backend, before: Option<&Link>, made: &LinkResult) -> Result<(), CliError> {
    let output = backend.output();
    let value = |link: &Link| serde_json::to_value(link).expect("a link is JSON");
    let changes = diff(&before.map(value).unwrap_or_default(), &value(&made.details.link));
    if output.json {
        let (outcome, link) =
            (outcome_word(made.outcome, "updated"), backend.route_object(&made.details).await);
        return output.object(&DryRunReport { dry_run: true, outcome, changes, link });
    }
    let url = made.details.address();
    let head = match made.outcome {
        WriteOutcome::Created => format!("would create {url}"),
        WriteOutcome::Unchanged => format!("unchanged {url}"),
        _ => format!("would update {url}"),
    };
    output.line(&head)?;
    changes.iter().try_for_each(|change| output.line(&format!("    {change}")))
}

/// A dry run does not enter the configured domain in the store, so the store's own check does not know it yet.
fn refuse_loop_to_configured(local: &LocalStore, link: &Link) -> Result<(), CliError> {
    let configured = ServedHosts::new(local.config.domain.clone(), local.config.base_domain.as_ref());
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
enum StateChange {
    Disable,
    Enable,
    Restore,
}

async fn change_state(backend: &Backend, code: &str, change: StateChange) -> Result<(), CliError> {
    let (state, changed) = match change {
        StateChange::Disable => (Some(LinkState::Disabled), "disabled"),
        StateChange::Enable => (Some(LinkState::Active), "enabled"),
        // Back to whatever it was.
        StateChange::Restore => (None, "restored"),
    };
    let made = match (backend, state) {
        (Backend::Store(local), state) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async {
                Ok(match state {
                    Some(state) => {
                        local.ops.change_state(&caller, code, state, None, WriteMode::Apply).await?
                    }
                    None => local.ops.restore(&caller, code, WriteMode::Apply).await?,
                })
            };
            local.link_result(&workspace, local.change(change).await?).await?
        }
        (Backend::Server(client), Some(state)) => client.change_state(code, state).await?,
        (Backend::Server(client), None) => client.restore(code).await?,
        (Backend::Cloudflare(cloudflare), Some(state)) => cloudflare.change_state(code, state).await?,
        (Backend::Cloudflare(cloudflare), None) => cloudflare.restore(code).await?,
    };
    report(backend, &made, changed).await
}

async fn delete(backend: &Backend, code: &str, yes: bool) -> Result<(), CliError> {
    let seen = match backend {
        Backend::Store(local) => get_link(local, code, None).await?,
        Backend::Server(client) => client.link(code, None).await?,
        Backend::Cloudflare(cloudflare) => cloudflare.link(code, None).await?,
    };
    if !yes && !is_interactive() {
        return Err(CliError::usage("deleting a link needs --yes where nobody can be asked")
            .hint(format!("`rmax links disable {code}` only switches it off")));
    }
    if !yes {
        let question = format!("Delete {}? Its code stays taken.", seen.address_and_target());
        if confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was deleted"));
        }
    }
    let made = match backend {
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let (code, state) = (seen.link.code.as_str(), LinkState::Deleted);
            let change =
                async { Ok(local.ops.change_state(&caller, code, state, None, WriteMode::Apply).await?) };
            local.link_result(&workspace, local.change(change).await?).await?
        }
        Backend::Server(client) => client.delete(&seen.link.code).await?,
        Backend::Cloudflare(cloudflare) => cloudflare.delete_link(&seen.link.code).await?,
    };
    report(backend, &made, "deleted").await
}
