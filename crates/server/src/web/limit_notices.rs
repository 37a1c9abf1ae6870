//! The notice above every page that a limit on changes stopped a principal on changes, until it is dismissed.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use rlinks_core::Timestamp;
use rlinks_store::{LimitStop, LimitedChange};

use crate::auth::session::CurrentSession;
use crate::web::extract::SessionForm;
use crate::web::{PageError, Web, see_other};

/// Stops that are told one by one.
const MAX_SHOWN_STOPS: usize = 3;
/// The changes that were counted began no longer than this before the stop.
const COUNTED_MS: i64 = 60_000;

/// A notice, in words.
pub(crate) struct LimitNotice {
    pub(crate) lines: Vec<NoticeLine>,
    /// Stops that have no line.
    pub(crate) more: usize,
    /// What is dismissed: this one and all before it.
    pub(crate) newest: i64,
    /// When the first of the counted changes can have been made.
    pub(crate) before: Timestamp,
}

pub(crate) struct NoticeLine {
    pub(crate) at: Timestamp,
    pub(crate) who: String,
    pub(crate) what: String,
}

/// What a page has to tell of, if anything.
pub(crate) fn notice(current: &CurrentSession) -> Option<LimitNotice> {
    let stops = &current.limit_stops;
    let (newest, oldest) = (stops.first()?, stops.last()?);
    Some(LimitNotice {
        lines: stops.iter().take(MAX_SHOWN_STOPS).map(line).collect(),
        more: stops.len().saturating_sub(MAX_SHOWN_STOPS),
        newest: newest.seq,
        before: oldest.at.plus_ms(-COUNTED_MS),
    })
}

fn line(stop: &LimitStop) -> NoticeLine {
    let person = stop.email.as_ref().map(ToString::to_string);
    let who = match (&stop.key_name, person) {
        (Some(key), Some(person)) => format!("API key “{key}” of {person}"),
        (Some(key), None) => format!("API key “{key}”"),
        (None, person) => person.unwrap_or_else(|| stop.actor.to_string()),
    };
    let did = match stop.change {
        LimitedChange::Target => "changing the targets of",
        LimitedChange::Removal => "disabling or deleting",
    };
    let with = if stop.is_of_workspace() { ", together with others in this workspace" } else { "" };
    let what =
        format!("was stopped for a minute after {did} {} links within a minute{with}", stop.per_minute);
    NoticeLine { at: stop.at, who, what }
}

/// Hides the notice for the member who dismisses it.
pub(crate) async fn dismiss(
    State(web): State<Arc<Web>>,
    SessionForm { current, form, .. }: SessionForm,
) -> Result<Response, PageError> {
    if let Ok(seq) = form.get("newest").parse() {
        web.ops.dismiss_limit_stops(&current.caller(), seq).await?;
    }
    Ok(see_other("/admin", None))
}
