//! The first page: new links in one field, and the list of those there are.

mod query;

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_clicks::time::day_of;
use rlinks_core::envelope::ErrorCode;
use rlinks_core::{Code, Id, Link, LinkState, Scope, Timestamp};
use rlinks_store::StoreError;

pub use self::query::{SORTS, STATES, Wanted};
use super::chart::{Spark, number};
use super::fields::Fields;
use super::visit::{Doing, Looking, Visit};
use super::{Problem, Web, page, see_other};
use crate::api::caller::{Caller, LinksRead, LinksWrite};
use crate::api::links::{NotMade, TOO_MANY, make_link};
use crate::auth::session::Signed;
use crate::ops::list::{Listed, Position, list};
use crate::ops::{OpsError, Outcome};

/// Links whose deletion one notice can undo.
const MOST_UNDONE: usize = 100;

/// A link of the list.
pub struct Row {
    pub code: String,
    /// As people share it; nothing where no host leads there.
    pub short_url: Option<String>,
    /// The same without what goes without saying.
    pub shown: String,
    pub target: String,
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub state: &'static str,
    /// Nothing where clicks cannot be read.
    pub clicks: Option<String>,
    pub spark: Spark,
    pub created_at: Timestamp,
    /// The day of it.
    pub created_on: String,
}

/// The list, alone for whoever has the page around it already.
#[derive(Template)]
#[template(path = "links_list.html")]
struct ListPart<'a> {
    signed: &'a Signed,
    list: &'a List,
}

#[derive(Template)]
#[template(path = "links.html")]
struct LinksPage<'a> {
    signed: &'a Signed,
    list: &'a List,
    fields: &'a Fields,
    problem: Option<&'a str>,
    notice: Notice,
}

/// What the list shows.
struct List {
    rows: Vec<Row>,
    wanted: Wanted,
    next: Option<String>,
    total: String,
    may_write: bool,
    may_delete: bool,
}

/// What has just been done, from the address that a form led to.
#[derive(Default)]
struct Notice {
    made: Option<Made>,
    /// Codes that can be restored.
    undo: Vec<String>,
    done: Option<String>,
}

/// A link that was just made, or found.
struct Made {
    row: Row,
    words: &'static str,
}

/// The first page.
pub async fn show(State(web): State<Arc<Web>>, looking: Looking<LinksRead>) -> Result<Response, Problem> {
    let Looking { visit, signed, caller, .. } = looking;
    let list = web.list(&caller, Wanted::of(&visit)).await?;
    if visit.parameter("part").as_deref() == Some("list") {
        return page(&ListPart { signed: &signed, list: &list });
    }
    let notice = web.notice(&caller, &visit).await?;
    // What a bookmark brings along stands in the field, and waits for Enter.
    let fields = Fields::leading_to(visit.parameter("target").unwrap_or_default());
    page(&LinksPage { signed: &signed, list: &list, fields: &fields, problem: None, notice })
}

/// Makes a link.
pub async fn create(State(web): State<Arc<Web>>, doing: Doing<LinksWrite>) -> Result<Response, Problem> {
    let Doing { signed, caller, form, .. } = doing;
    let mut fields = Fields::sent(&form);
    let (made, _) = make_link(&web.api, &caller, Ok(fields.new_link()), None).await;
    let problem = match made {
        Ok(done) => {
            let how = match done.outcome {
                Outcome::Reused => "&how=reused",
                Outcome::Revived => "&how=revived",
                Outcome::Created | Outcome::Changed | Outcome::Unchanged => "",
            };
            return Ok(see_other(&format!("/admin?made={}{how}", done.link.code), None));
        }
        Err(NotMade::TooMany { seconds }) => {
            Problem { retry_after: Some(seconds), ..Problem::saying(ErrorCode::RateLimited, TOO_MANY) }
        }
        Err(NotMade::Refused(error)) => {
            let code = error.code();
            match fields.blame(error) {
                None => Problem::saying(code, ""),
                Some(error) => error.into(),
            }
        }
    };
    let list = web.list(&caller, Wanted::default()).await?;
    let message = problem.message.clone();
    let template = LinksPage {
        signed: &signed,
        list: &list,
        fields: &fields,
        problem: Some(message.as_str()).filter(|message| !message.is_empty()),
        notice: Notice::default(),
    };
    Err(problem.in_page(&template, None))
}

impl Web {
    async fn list(&self, caller: &Caller, wanted: Wanted) -> Result<List, Problem> {
        let api = &self.api;
        let context = wanted.context(caller);
        // A cursor of another list, or of long ago, begins at the beginning.
        let after = wanted.cursor.as_deref().and_then(|text| api.cursors().open::<Position>(&context, text));
        let query = wanted.query(caller, after);
        let now = self.clock.now();
        let clicks = api.clicks().await?;
        let found = list(&self.store, clicks, &caller.workspace, &query, now).await?;
        let ids: Vec<Id> = found.links.iter().map(|listed| listed.link.id).collect();
        let today = day_of(now);
        let days = clicks.daily(caller.workspace.id, &ids, today + 1 - Spark::DAYS..today + 1).await;
        let days = days.unwrap_or_else(|error: StoreError| {
            tracing::warn!(%error, "clicks cannot be read, so a list draws none");
            HashMap::new()
        });
        let row = |listed: &Listed| {
            let clicks = listed.total.map(|total| total.clicks.cast_unsigned());
            self.row(caller, &listed.link, clicks, days.get(&listed.link.id))
        };
        Ok(List {
            rows: found.links.iter().map(row).collect(),
            next: found.next.map(|next| wanted.page(&api.cursors().seal(&context, &next))),
            total: number(found.total.cast_unsigned()),
            may_write: caller.scopes.has(Scope::LinksWrite),
            may_delete: caller.scopes.has(Scope::LinksDelete),
            wanted,
        })
    }

    /// A link as the list shows it.
    fn row(&self, caller: &Caller, link: &Link, clicks: Option<u64>, days: Option<&Vec<u64>>) -> Row {
        let short_url = self.short_url(caller, &link.code);
        let shown = short_url.as_deref().map(without_scheme);
        Row {
            shown: shown.map_or_else(|| link.code.to_string(), str::to_owned),
            code: link.code.to_string(),
            short_url,
            target: link.target.as_str().to_owned(),
            title: link.title.clone(),
            tags: link.tags.clone(),
            state: state_of(link, self.clock.now()),
            clicks: clicks.map(number),
            spark: Spark::of(days),
            created_at: link.created_at,
            created_on: date(link.created_at),
        }
    }

    /// How a link is shared.
    pub(super) fn short_url(&self, caller: &Caller, code: &Code) -> Option<String> {
        self.api.ops.naming.short_url(&self.api.directory(), &caller.workspace, code)
    }

    async fn notice(&self, caller: &Caller, visit: &Visit) -> Result<Notice, Problem> {
        let mut notice = Notice::default();
        if let Some(code) = visit.parameter("made") {
            let words = match visit.parameter("how").as_deref() {
                Some("reused") => "There was a link to this target already:",
                Some("revived") => "There was a link to this target already. It is active again:",
                _ => "Your new link:",
            };
            match self.api.ops.link(&caller.by, &caller.workspace, &code).await {
                Ok(link) => {
                    notice.made = Some(Made { row: self.row(caller, &link, None, None), words });
                }
                Err(OpsError::NotFound(_) | OpsError::Deleted(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        notice.undo = visit.parameters("undo");
        notice.undo.retain(|code| Code::from_path(code).is_some());
        notice.undo.truncate(MOST_UNDONE);
        let count = |name: &str| visit.parameter(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let (done, failed) = (count("done"), count("failed"));
        if done + failed > 0 {
            let words = match visit.parameter("act").as_deref() {
                Some("enable") => "enabled",
                Some("disable") => "disabled",
                Some("tag") => "tagged",
                Some("untag") => "rid of the tag",
                Some("restore") => "restored",
                Some("delete") => "deleted",
                _ => "changed",
            };
            let links = if done == 1 { "1 link was".to_owned() } else { format!("{done} links were") };
            let left = match failed {
                0 => String::new(),
                1 => " 1 could not be: it has changed meanwhile, or a rule stands against it.".to_owned(),
                more => {
                    format!(" {more} could not be: they have changed meanwhile, or a rule stands against it.")
                }
            };
            notice.done = Some(format!("{links} {words}.{left}"));
        }
        Ok(notice)
    }
}

/// The state of a link in a word.
pub fn state_of(link: &Link, now: Timestamp) -> &'static str {
    match link.state {
        LinkState::Active if link.is_expired(now) => "expired",
        state => state.name(),
    }
}

/// A short URL as people say it.
pub fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// The day of a moment, by UTC.
pub fn date(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-29".len()).collect()
}
