//! The audit log: what was done, by whom, from what to what; whether its chain holds; and all of it as a file.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use rlinks_core::audit::{AuditEntry, ChainError, Head, Verifier};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Actor, Email, FieldErrors, Id, User, Workspace};
use rlinks_store::{AuditFilter, Store, StoreError};

use super::super::{PageError, Web, render_page};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::session::CurrentSession;
use crate::front_end::download::stream_body;
use crate::web::extract::{AuthorizedPage, WebRequest};
use crate::web::workspace::audit_details::{FieldDiff, diff};
use rlinks_ops::OpsError;

/// Entries on a page.
const PAGE_SIZE: usize = 50;
/// Entries looked through for one page: a filter that finds little must not walk a whole log. The next page goes on from there.
const MAX_SCANNED_ENTRIES: i64 = 20_000;
/// Entries held at once while verifying and exporting.
const BATCH_SIZE: i64 = 1000;
/// A log this short is verified whenever it is looked at.
const MAX_AUTO_VERIFIED_ENTRIES: i64 = 1000;
/// And no more than this when somebody asks: the rest is for `rmax audit verify`.
const MAX_VERIFIED_ENTRIES: i64 = 100_000;

/// An entry as the page shows it.
struct Row {
    entry: AuditEntry,
    /// Who, by the name people know.
    actor: String,
    /// To whom, by their address, where it was done to a member.
    subject_email: Option<String>,
    fields: Vec<FieldDiff>,
}

/// What is known about the chain.
enum ChainStatus {
    /// It was too long to look at unasked.
    NotVerified,
    /// It holds, to its end.
    Intact(i64),
    /// It holds so far; there is more.
    PartlyVerified(i64),
    Broken(ChainError),
}

/// What the form of the filter says.
#[derive(Default)]
struct AuditQuery {
    actor: String,
    action: String,
    subject: String,
    from: String,
    to: String,
}

#[derive(Template)]
#[template(path = "workspace/audit.html")]
struct AuditPage<'a> {
    current: &'a CurrentSession,
    query: AuditQuery,
    errors: FieldErrors,
    rows: Vec<Row>,
    /// The address of older entries.
    older: Option<String>,
    /// Entries there are in all.
    length: i64,
    chain: ChainStatus,
}

impl AuditQuery {
    fn from_request(request: &WebRequest) -> Self {
        let text = |name| request.query_param(name).unwrap_or_default().trim().chars().take(300).collect();
        Self {
            actor: text("actor"),
            action: text("action"),
            subject: text("subject"),
            from: text("from"),
            to: text("to"),
        }
    }

    fn is_empty(&self) -> bool {
        self.pairs().iter().all(|(_, value)| value.is_empty())
    }

    fn pairs(&self) -> [(&'static str, &str); 5] {
        [
            ("actor", &self.actor),
            ("action", &self.action),
            ("subject", &self.subject),
            ("from", &self.from),
            ("to", &self.to),
        ]
    }

    /// The filter it means. People are known by their addresses; the log knows ids.
    async fn filter(
        &self,
        store: &Store,
        workspace: &Workspace,
    ) -> Result<Result<AuditFilter, FieldErrors>, StoreError> {
        let mut errors = FieldErrors::default();
        let mut filter = AuditFilter::default();
        let moment = |name: &str, text: &str| {
            rlinks_clicks::stats::Zone::UTC.moment(text).map_err(|error| {
                rlinks_core::FieldError::new(name, rlinks_core::FieldCode::NotATime, error.to_string())
            })
        };
        if !self.from.is_empty() {
            filter.during.start =
                errors.ok_or_push(moment("from", &self.from)).unwrap_or(filter.during.start);
        }
        if !self.to.is_empty() {
            filter.during.end = errors.ok_or_push(moment("to", &self.to)).unwrap_or(filter.during.end);
        }
        filter.action.clone_from(&self.action);
        filter.subject.clone_from(&self.subject);
        filter.actor = match Email::parse(&self.actor) {
            Ok(email) => match store.user_by_email(workspace.id, &email).await? {
                Some(user) => Actor::from_user(user.id).as_str().to_owned(),
                None => self.actor.clone(),
            },
            Err(_) => self.actor.clone(),
        };
        Ok(errors.into_result().map(|()| filter))
    }

    /// The address of the page that goes on before an entry.
    fn older_url(&self, seq: i64) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in self.pairs().iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        query.append_pair("before", &seq.to_string());
        format!("/admin/audit?{}", query.finish())
    }
}

/// The log, newest first.
pub async fn show(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, current, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let workspace = &current.workspace;
    let head = head(&web.store, workspace).await?;
    let query = AuditQuery::from_request(&request);
    let filter = query.filter(&web.store, workspace).await?;
    let chain = if head.seq <= MAX_AUTO_VERIFIED_ENTRIES || request.query_param("verify").is_some() {
        verify(&web.store, workspace, &head).await?
    } else {
        ChainStatus::NotVerified
    };
    let empty = AuditPage {
        current: &current,
        query,
        errors: FieldErrors::default(),
        rows: Vec::new(),
        older: None,
        length: head.seq,
        chain,
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(errors) => {
            let shown = AuditPage { errors, ..empty };
            return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&shown, None));
        }
    };
    let before = request.query_param("before").and_then(|text| text.parse::<i64>().ok());
    let before = before.unwrap_or(i64::MAX).clamp(0, head.seq.saturating_add(1));
    let after = before.saturating_sub(MAX_SCANNED_ENTRIES + 1).max(0);
    let limit = i64::try_from(PAGE_SIZE).unwrap_or(i64::MAX) + 1;
    let mut entries = web.store.audit_filtered(workspace.id, &filter, (after, before), limit).await?;
    let more = entries.len() > PAGE_SIZE;
    entries.truncate(PAGE_SIZE);
    // A page that is not full has looked through all it may, and the next one goes on there.
    let older_before =
        if more { entries.last().map(|entry| entry.seq) } else { (after > 0).then_some(after + 1) };
    let older = older_before.map(|seq| empty.query.older_url(seq));
    let rows = rows(&web.store, workspace, entries).await?;
    render_page(&AuditPage { rows, older, ..empty })
}

async fn rows(
    store: &Store,
    workspace: &Workspace,
    entries: Vec<AuditEntry>,
) -> Result<Vec<Row>, StoreError> {
    let actor = |entry: &AuditEntry| Actor::from_stored(entry.actor.clone()).user();
    // A member is named in the same way, be it as who did something or as to whom it was done.
    let subject = |entry: &AuditEntry| Actor::from_stored(entry.subject.clone()).user();
    let mut ids: Vec<Id> =
        entries.iter().flat_map(|entry| [actor(entry), subject(entry)]).flatten().collect();
    ids.sort_unstable_by_key(|id| id.as_i64());
    ids.dedup();
    let people = store.users_by_id(workspace.id, &ids).await?;
    let address = |id: Option<Id>| {
        people.iter().find(|user| Some(user.id) == id).map(|user: &User| user.email.to_string())
    };
    let row = |entry: AuditEntry| Row {
        actor: address(actor(&entry)).unwrap_or_else(|| entry.actor.clone()),
        subject_email: address(subject(&entry)),
        fields: diff(entry.before.as_deref(), entry.after.as_deref()),
        entry,
    };
    Ok(entries.into_iter().map(row).collect())
}

/// The end of this workspace's chain, as the store recorded it.
async fn head(store: &Store, workspace: &Workspace) -> Result<Head, StoreError> {
    let heads = store.heads().await?;
    let mine = heads.into_iter().find(|(id, _)| *id == workspace.id).map(|(_, head)| head);
    Ok(mine.unwrap_or_else(|| Head { workspace: workspace.slug.to_string(), seq: 0, hash: String::new() }))
}

/// Walks the chain from its beginning to the end that was recorded, or as far as is looked at here.
async fn verify(store: &Store, workspace: &Workspace, head: &Head) -> Result<ChainStatus, StoreError> {
    let end = head.seq.min(MAX_VERIFIED_ENTRIES);
    let mut walk = Verifier::new(&head.workspace, Vec::new());
    let mut at = 0;
    while at < end {
        // What was written after the head was read is not part of this walk.
        let entries = store.audit_after(workspace.id, at, BATCH_SIZE.min(end - at)).await?;
        let Some(last) = entries.last().map(|entry| entry.seq) else { break };
        for entry in entries.iter().filter(|entry| entry.seq <= end) {
            if let Err(fault) = walk.push(entry) {
                return Ok(ChainStatus::Broken(fault));
            }
        }
        at = last;
    }
    let claimed = (end == head.seq).then_some(head);
    Ok(match walk.finish(claimed) {
        Ok(head) if claimed.is_some() => ChainStatus::Intact(head.seq),
        Ok(head) => ChainStatus::PartlyVerified(head.seq),
        Err(fault) => ChainStatus::Broken(fault),
    })
}

/// The whole log as JSON lines, oldest first: what `rmax audit verify --file` takes.
pub async fn export(
    State(web): State<Arc<Web>>,
    AuthorizedPage { current, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let (store, workspace) = (web.store.clone(), current.workspace.id);
    // What can go wrong goes wrong here mostly, while there is still an answer to give.
    let first = store.audit_after(workspace, i64::MIN, BATCH_SIZE).await?;
    let after = first.last().map(|entry| entry.seq);
    let rest = stream::try_unfold((store, after), move |(store, after)| async move {
        let Some(after) = after else { return Ok::<_, OpsError>(None) };
        let entries = store.audit_after(workspace, after, BATCH_SIZE).await?;
        let next = entries.last().map(|entry| entry.seq);
        Ok(next.map(|_| (lines(&entries), (store, next))))
    });
    let body = stream_body(lines(&first), rest);
    let name = format!("attachment; filename=\"audit-{}.jsonl\"", current.workspace.slug);
    Ok(([(CONTENT_TYPE, "application/x-ndjson"), (CONTENT_DISPOSITION, &name)], body).into_response())
}

fn lines(entries: &[AuditEntry]) -> String {
    let line = |entry| serde_json::to_string(entry).expect("an entry is JSON") + "\n";
    entries.iter().map(line).collect()
}
