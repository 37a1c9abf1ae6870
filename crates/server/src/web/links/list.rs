//! The first page: new links in one field, and the list of those there are.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::header::SET_COOKIE;
use rlinks_clicks::time::day_of;
use rlinks_core::{Code, Id, Link, LinkState, Scope, Timestamp};
use rlinks_store::StoreError;

use crate::auth::authorize::{LinksRead, LinksWrite};
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage};
use crate::web::links::link_form::LinkForm;
pub use crate::web::links::list_query::{ListPageQuery, SORT_OPTIONS, STATE_OPTIONS};
use crate::web::statistics::chart::{Sparkline, format_number};
use crate::web::{PageError, Web, flash, render_page, see_other};
use rlinks_ops::Caller;
use rlinks_ops::links::list::{LinkWithClicks, ListPosition, list};
use rlinks_ops::{OnDeletedCode, OpsError, WriteMode, WriteOutcome};

/// How much of a target its row holds, and how much of that is seen. All of it is on the link's own page.
const MAX_TARGET_TOOLTIP_CHARS: usize = 120;
const MAX_TARGET_CHARS: usize = 80;
/// The same of a title.
const MAX_TITLE_CHARS: usize = 80;
/// Tags of a row; the others are counted.
const MAX_ROW_TAGS: usize = 5;
/// Tags that are proposed.
const MAX_SUGGESTED_TAGS: usize = 30;

/// A link of the list.
pub struct Row {
    pub code: String,
    /// As people share it; nothing where no host leads there.
    pub short_url: Option<String>,
    /// The same without what goes without saying.
    pub display_url: String,
    pub target: String,
    /// The beginning of it.
    pub short_target: String,
    pub title: Option<String>,
    pub tags: Vec<String>,
    /// Tags there are besides.
    pub more_tags: usize,
    pub state: &'static str,
    /// Nothing where clicks cannot be read.
    pub clicks: Option<String>,
    pub spark: Sparkline,
    pub created_at: Timestamp,
    /// The day of it.
    pub created_on: String,
}

/// The list, alone for whoever has the page around it already.
#[derive(Template)]
#[template(path = "links/list_part.html")]
struct ListPart<'a> {
    current: &'a CurrentSession,
    list: &'a List,
}

#[derive(Template)]
#[template(path = "links/list.html")]
struct LinksPage<'a> {
    current: &'a CurrentSession,
    list: &'a List,
    fields: &'a LinkForm,
    problem: Option<&'a str>,
    notice: Notice,
}

/// What the list shows.
struct List {
    rows: Vec<Row>,
    query: ListPageQuery,
    next: Option<String>,
    total: String,
    /// Tags of these links, to choose from.
    tags: Vec<String>,
    may_write: bool,
    may_delete: bool,
}

impl List {
    /// There is no link at all, so there is one thing to do.
    fn is_blank(&self) -> bool {
        self.rows.is_empty() && self.query.is_unfiltered() && self.query.cursor.is_none()
    }
}

/// What has just been done, as the form before has told.
#[derive(Default)]
struct Notice {
    made: Option<NewLinkNotice>,
    /// Codes that can be restored.
    undo: Vec<String>,
    done: Option<String>,
}

/// A link that was just made, or found.
struct NewLinkNotice {
    row: Row,
    words: &'static str,
}

pub async fn show(
    State(web): State<Arc<Web>>,
    authorized: AuthorizedPage<LinksRead>,
) -> Result<Response, PageError> {
    let AuthorizedPage { request, current, caller, .. } = authorized;
    let list = web.list(&caller, ListPageQuery::from_request(&request)).await?;
    if request.query_param("part").as_deref() == Some("list") {
        return render_page(&ListPart { current: &current, list: &list });
    }
    let message = flash::read(&request, &current);
    let notice = web.build_notice(&caller, message.unwrap_or_default()).await?;
    // What a bookmark brings along stands in the field, and waits for Enter.
    let fields = LinkForm::with_target(request.query_param("target").unwrap_or_default());
    let mut shown =
        render_page(&LinksPage { current: &current, list: &list, fields: &fields, problem: None, notice })?;
    let cleared = message.map(|_| flash::clear(&request.connection));
    shown.headers_mut().extend(cleared.map(|cookie| (SET_COOKIE, cookie)));
    Ok(shown)
}

pub async fn create(
    State(web): State<Arc<Web>>,
    submitted: AuthorizedForm<LinksWrite>,
) -> Result<Response, PageError> {
    let AuthorizedForm { request, current, caller, form, .. } = submitted;
    let mut fields = LinkForm::from_new_link_form(&form);
    let (input, mode) = (fields.new_link(), WriteMode::Apply);
    let problem = match web.ops.create(&caller, &input, OnDeletedCode::Refuse, None, mode).await {
        Ok(done) => {
            let how = match done.outcome {
                WriteOutcome::Reused => "&how=reused",
                WriteOutcome::Revived => "&how=revived",
                WriteOutcome::Created | WriteOutcome::Changed | WriteOutcome::Unchanged => "",
            };
            let what = format!("made={}{how}", done.link.code);
            return Ok(see_other("/admin", flash::set(&request.connection, &current, &what)));
        }
        Err(error) => {
            let code = error.code();
            match fields.attach_errors(error) {
                None => PageError::with_message(code, ""),
                Some(error) => error.into(),
            }
        }
    };
    let list = web.list(&caller, ListPageQuery::default()).await?;
    let message = problem.message.clone();
    let template = LinksPage {
        current: &current,
        list: &list,
        fields: &fields,
        problem: Some(message.as_str()).filter(|message| !message.is_empty()),
        notice: Notice::default(),
    };
    Err(problem.rendered_in(&template, None))
}

impl Web {
    async fn list(&self, caller: &Caller, page_query: ListPageQuery) -> Result<List, PageError> {
        let context = page_query.cursor_context(caller);
        // A cursor of another list, or of long ago, begins at the beginning.
        let after = page_query
            .cursor
            .as_deref()
            .and_then(|text| self.front_end.cursors().open::<ListPosition>(&context, text));
        let mut query = page_query.to_list_query(caller, after);
        if let Some(code) = self.code_from_short_url(caller, &page_query.search).await? {
            (query.search, query.prefix) = (None, Some(code));
        }
        let now = self.clock.now();
        let clicks = self.front_end.clicks().await?;
        let found = list(&self.store, clicks, &caller.workspace, &query, now).await?;
        let ids: Vec<Id> = found.links.iter().map(|listed| listed.link.id).collect();
        let today = day_of(now);
        let days = clicks.daily(caller.workspace.id, &ids, today + 1 - Sparkline::DAYS..today + 1).await;
        let days = days.unwrap_or_else(|error: StoreError| {
            tracing::warn!(%error, "clicks cannot be read, so a list draws none");
            HashMap::new()
        });
        let row = |listed: &LinkWithClicks| {
            let clicks = listed.total.map(|total| total.clicks.cast_unsigned());
            self.row(caller, &listed.link, clicks, days.get(&listed.link.id))
        };
        let tags: BTreeSet<&String> = found.links.iter().flat_map(|listed| &listed.link.tags).collect();
        Ok(List {
            tags: tags.into_iter().take(MAX_SUGGESTED_TAGS).cloned().collect(),
            rows: found.links.iter().map(row).collect(),
            next: found
                .next
                .map(|next| page_query.query_string_at(&self.front_end.cursors().seal(&context, &next))),
            total: format_number(found.total.cast_unsigned()),
            may_write: caller.scopes.contains(Scope::LinksWrite),
            may_delete: caller.scopes.contains(Scope::LinksDelete),
            query: page_query,
        })
    }

    /// A link as the list shows it.
    fn row(&self, caller: &Caller, link: &Link, clicks: Option<u64>, days: Option<&Vec<u64>>) -> Row {
        let short_url = self.short_url(caller, &link.code);
        let shown = short_url.as_deref().map(without_scheme);
        Row {
            display_url: shown.map_or_else(|| link.code.to_string(), str::to_owned),
            code: link.code.to_string(),
            short_url,
            target: truncate(link.target.as_str(), MAX_TARGET_TOOLTIP_CHARS),
            short_target: truncate(link.target.as_str(), MAX_TARGET_CHARS),
            title: link.title.as_deref().map(|title| truncate(title, MAX_TITLE_CHARS)),
            tags: link.tags.iter().take(MAX_ROW_TAGS).cloned().collect(),
            more_tags: link.tags.len().saturating_sub(MAX_ROW_TAGS),
            state: state_label(link, self.clock.now()),
            clicks: clicks.map(format_number),
            spark: Sparkline::from_days(days),
            created_at: link.created_at,
            created_on: utc_date(link.created_at),
        }
    }

    /// How a link is shared.
    pub(crate) fn short_url(&self, caller: &Caller, code: &Code) -> Option<String> {
        self.ops.short_urls.short_url(&self.front_end.directory(), &caller.workspace, code)
    }

    /// The code of a link of ours, where somebody pasted its short URL into the search.
    async fn code_from_short_url(&self, caller: &Caller, text: &str) -> Result<Option<String>, PageError> {
        let Some((host, rest)) = without_scheme(text).split_once('/') else { return Ok(None) };
        let Some(code) = Code::from_path(rest.trim_end_matches(['/', '+'])) else { return Ok(None) };
        let shown = self.short_url(caller, &code);
        let shown = shown.as_deref().and_then(|url| without_scheme(url).split_once('/'));
        let directory = self.front_end.directory();
        let own = directory.domains().iter().filter(|domain| domain.workspace == caller.workspace.id);
        let mut own = own.map(|domain| domain.host.as_str()).chain(shown.map(|(host, _)| host));
        if !own.any(|own| own.eq_ignore_ascii_case(host)) {
            return Ok(None);
        }
        match self.ops.any_link(caller, code.as_str()).await {
            Ok(link) => Ok(Some(link.code.to_string())),
            Err(OpsError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn build_notice(&self, caller: &Caller, message: &str) -> Result<Notice, PageError> {
        let mut notice = Notice::default();
        let values = |name: &'static str| {
            let pairs = url::form_urlencoded::parse(message.as_bytes());
            pairs.filter(move |(given, _)| given == name).map(|(_, value)| value.into_owned())
        };
        let value = |name| values(name).next();
        if let Some(code) = value("made") {
            let words = match value("how").as_deref() {
                Some("reused") => "There was a link to this target already:",
                Some("revived") => "There was a link to this target already. It is active again:",
                _ => "Your new link:",
            };
            match self.ops.link(caller, &code).await {
                Ok(link) => {
                    notice.made = Some(NewLinkNotice { row: self.row(caller, &link, None, None), words });
                }
                Err(OpsError::NotFound(_) | OpsError::Deleted(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        notice.done = match value("missing").as_deref() {
            Some("links") => Some("Nothing was done: tick the links first.".to_owned()),
            Some("tag") => Some("Nothing was done: write the tag first.".to_owned()),
            _ => None,
        };
        notice.undo = values("undo").collect();
        let count = |name| value(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let (done, failed) = (count("done"), count("failed"));
        let (stopped, wait) = (count("stopped"), count("wait"));
        if done + failed + stopped > 0 {
            let words = match value("act").as_deref() {
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
            let stop = match stopped {
                0 => String::new(),
                1 => format!(" Rate limit reached: 1 was left as it is. Try again in {wait} seconds."),
                more => {
                    format!(" Rate limit reached: {more} were left as they are. Try again in {wait} seconds.")
                }
            };
            notice.done = Some(format!("{links} {words}.{left}{stop}"));
        }
        Ok(notice)
    }
}

/// The state of a link in a word.
pub fn state_label(link: &Link, now: Timestamp) -> &'static str {
    match link.state {
        LinkState::Active if link.is_expired(now) => "expired",
        state => state.name(),
    }
}

/// A short URL as people say it.
pub fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// A text, or its beginning.
pub fn truncate(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The day of a moment, by UTC.
pub fn utc_date(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-29".len()).collect()
}
