//! Links of a server.

use std::cmp::Reverse;

use http::Method;
use rlinks_core::audit::AuditEntry;
use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{Actor, Code, Id, Link, LinkSource, LinkState, RedirectStatus, Target, Timestamp};
use rlinks_ops::{OnDeletedCode, OpsError, Resource, WriteOutcome};
use rlinks_store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ApiClient, MAX_LISTED_ITEMS};
use crate::backend::explanation::ExplanationDetails;
use crate::backend::links::{LinkDetails, LinkQuery, LinkResult, LinkStatistics};
use crate::error::CliError;

/// How often a change is tried again when somebody else was faster.
const MAX_CHANGE_ATTEMPTS: usize = 5;

/// A link as the API gives it.
#[derive(Deserialize)]
struct WireLink {
    id: Id,
    workspace: String,
    code: Code,
    short_url: Option<String>,
    target: Target,
    state: LinkState,
    redirect_status: RedirectStatus,
    https_only: bool,
    no_loop: bool,
    expires_at: Option<Timestamp>,
    title: Option<String>,
    notes: Option<String>,
    tags: Vec<String>,
    metadata: Map<String, Value>,
    source: LinkSource,
    created_by: Actor,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: i64,
    last_clicked_at: Option<Timestamp>,
    hits: u64,
    last_hit_at: Option<Timestamp>,
}

/// A link that was made, or found.
#[derive(Deserialize)]
struct CreatedLink {
    #[serde(flatten)]
    link: WireLink,
    reused: bool,
    revived: bool,
    not_applied: Vec<String>,
}

impl From<WireLink> for LinkDetails {
    fn from(wire: WireLink) -> Self {
        let link = Link {
            id: wire.id,
            // The API names a workspace by its slug, and does not tell who chose the code. Nothing that is shown has either.
            workspace: Id::from_i64(0),
            generated: false,
            code: wire.code,
            target: wire.target,
            redirect_status: wire.redirect_status,
            state: wire.state,
            https_only: wire.https_only,
            no_loop: wire.no_loop,
            expires_at: wire.expires_at,
            title: wire.title,
            notes: wire.notes,
            tags: wire.tags,
            metadata: wire.metadata,
            source: wire.source,
            created_by: wire.created_by,
            created_at: wire.created_at,
            updated_at: wire.updated_at,
            version: wire.version,
        };
        Self {
            link,
            stats: Some(ClickTotals { hits: wire.hits, last_hit: wire.last_hit_at }),
            short_url: wire.short_url,
            workspace: wire.workspace,
        }
    }
}

// ---- looking ----

impl ApiClient {
    /// Links newest first; one more than wanted, to know whether there are more.
    pub(crate) async fn links(&self, wanted: &LinkQuery<'_>) -> Result<Vec<(Link, ClickTotals)>, CliError> {
        // Without a state the API lists what is active or disabled. What it does not list together is put together here.
        let states: &[Option<&str>] = match (wanted.disabled, wanted.deleted) {
            (false, false) => &[Some("active")],
            (true, false) => &[None],
            (false, true) => &[Some("active"), Some("deleted")],
            (true, true) => &[None, Some("deleted")],
        };
        // The API takes blanks for no prefix at all, and no code begins with one.
        if wanted.prefix.is_some_and(|prefix| !prefix.is_empty() && prefix.trim().is_empty()) {
            return Ok(Vec::new());
        }
        let most = wanted.limit + 1;
        let mut found: Vec<WireLink> = Vec::new();
        for state in states {
            let asked = [
                ("state", *state),
                ("prefix", wanted.prefix),
                ("tag", wanted.tag),
                ("search", wanted.search),
            ];
            let query: Vec<(&str, &str)> =
                asked.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            found.extend(self.list::<WireLink>(&["links"], &query, most).await?);
        }
        found.sort_by_key(|link| Reverse((link.created_at, link.id)));
        found.truncate(most);
        let shown = |wire: WireLink| {
            let seen = LinkDetails::from(wire);
            (seen.link, seen.stats.unwrap_or_default())
        };
        Ok(found.into_iter().map(shown).collect())
    }

    /// A link that is not deleted, now or as it was.
    pub(crate) async fn link(&self, code: &str, at: Option<Timestamp>) -> Result<LinkDetails, CliError> {
        Ok(self.wire_link(code, at).await?.into())
    }

    async fn wire_link(&self, code: &str, at: Option<Timestamp>) -> Result<WireLink, CliError> {
        ensure_valid_code(code)?;
        let mut request = self.get(&["links", code]);
        if let Some(at) = at {
            request = request.query("at", &at.to_string());
        }
        let mut known = not_found_errors(code);
        known.extend(at.map(|at| OpsError::NotFound(Resource::LinkAt(code.to_owned(), at))));
        request.read().await.map_err(|failure| failure.into_local_error(known))
    }

    /// A link, deleted or not. A deleted one is only in lists.
    async fn any_link(&self, code: &str) -> Result<WireLink, CliError> {
        let missing = match self.wire_link(code, None).await {
            Err(failure) if failure.code() == ErrorCode::NotFound => failure,
            found => return found,
        };
        // Of all codes that begin so the code itself comes first.
        let query = [("state", "deleted"), ("prefix", code), ("sort", "code")];
        let found: Vec<WireLink> = self.list(&["links"], &query, 1).await?;
        let is_it = |link: &WireLink| link.code.as_str().eq_ignore_ascii_case(code);
        found.into_iter().find(is_it).ok_or(missing)
    }

    /// Every change of a link, oldest first.
    pub(crate) async fn history(&self, code: &str) -> Result<Vec<AuditEntry>, CliError> {
        ensure_valid_code(code)?;
        let entries = self.list::<AuditEntry>(&["links", code, "history"], &[], MAX_LISTED_ITEMS).await;
        let mut entries = entries.map_err(|failure| failure.into_local_error(not_found_errors(code)))?;
        entries.reverse();
        Ok(entries)
    }

    /// What a link's clicks add up to; of a deleted one too.
    pub(crate) async fn statistics(
        &self,
        code: &str,
        query: &[(&str, &str)],
    ) -> Result<LinkStatistics, CliError> {
        ensure_valid_code(code)?;
        let mut request = self.get(&["links", code, "stats"]);
        for (name, value) in query {
            request = request.query(name, value);
        }
        let statistics =
            request.read().await.map_err(|failure| failure.into_local_error(not_found_errors(code)))?;
        let link = self.any_link(code).await?;
        Ok(LinkStatistics {
            code: link.code,
            totals: ClickTotals { hits: link.hits, last_hit: link.last_hit_at },
            last_click: link.last_clicked_at,
            statistics,
        })
    }

    /// What a visitor would get, and why.
    pub(crate) async fn explain(
        &self,
        question: &str,
        at: Option<Timestamp>,
    ) -> Result<ExplanationDetails, CliError> {
        let mut request = self.get(&["explain"]).query("url", question);
        if let Some(at) = at {
            request = request.query("at", &at.to_string());
        }
        request.read().await
    }
}

// ---- changing ----

impl ApiClient {
    /// Creates or updates, as the store does: keeps what is not named, switches a disabled link on.
    pub(crate) async fn set(
        &self,
        code: &str,
        input: &Input,
        deleted: OnDeletedCode,
    ) -> Result<LinkResult, CliError> {
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let Some(seen) = self.existing_link(code).await? else {
                let input = Input { code: Some(code.to_owned()), ..input.clone() };
                return self.create(&input, deleted).await;
            };
            let mut body = link_body(input);
            body.insert("state".to_owned(), LinkState::Active.name().into());
            if !input.add_tags.is_empty() || !input.remove_tags.is_empty() {
                body.insert("tags".to_owned(), merged_tags(&seen.tags, input).into());
            }
            match self.patch(&seen, &body).await {
                Err(failure) if failure.code() == ErrorCode::PreconditionFailed => {}
                made => return made,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// The link that has exactly this code, as a change needs it: reading folds case where the policy does, and setting never.
    async fn existing_link(&self, code: &str) -> Result<Option<WireLink>, CliError> {
        if Code::from_path(code).is_none() {
            return Ok(None);
        }
        match self.wire_link(code, None).await {
            Ok(link) => Ok(Some(link).filter(|link| link.code.as_str() == code)),
            Err(failure) if failure.code() == ErrorCode::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a link as it was seen. A change that changes nothing keeps the version.
    async fn patch(&self, seen: &WireLink, body: &Map<String, Value>) -> Result<LinkResult, CliError> {
        let code = seen.code.as_str();
        let request = self.request(Method::PATCH, &["links", code]).body(body).if_version(seen.version);
        let link: WireLink =
            request.read().await.map_err(|failure| failure.into_local_error(not_found_errors(code)))?;
        let outcome =
            if link.version == seen.version { WriteOutcome::Unchanged } else { WriteOutcome::Changed };
        Ok(link_result(link, outcome))
    }

    /// Makes a link, once, however often the request has to be sent.
    pub(crate) async fn create(&self, input: &Input, deleted: OnDeletedCode) -> Result<LinkResult, CliError> {
        let mut body = link_body(input);
        let tags = merged_tags(&[], input);
        if !tags.is_empty() {
            body.insert("tags".to_owned(), tags.into());
        }
        if deleted == OnDeletedCode::Recreate {
            body.insert("recreate".to_owned(), true.into());
        }
        let request = self.request(Method::POST, &["links"]).body(&body).idempotent();
        let CreatedLink { link, reused, revived, not_applied } = request.read().await.map_err(|failure| {
            let taken = failure.detail("deleted").and_then(Value::as_bool).zip(input.code.clone());
            let taken = taken.map(|(deleted, code)| OpsError::from(StoreError::CodeTaken { code, deleted }));
            failure.into_local_error(taken)
        })?;
        let outcome = match (reused, revived) {
            (_, true) => WriteOutcome::Revived,
            (true, false) => WriteOutcome::Reused,
            (false, false) => WriteOutcome::Created,
        };
        Ok(LinkResult { not_applied, ..link_result(link, outcome) })
    }

    /// Switches a link off or on again.
    pub(crate) async fn change_state(&self, code: &str, state: LinkState) -> Result<LinkResult, CliError> {
        let body = Map::from_iter([("state".to_owned(), state.name().into())]);
        for _ in 0..MAX_CHANGE_ATTEMPTS {
            let seen = self.wire_link(code, None).await?;
            match self.patch(&seen, &body).await {
                Err(failure) if failure.code() == ErrorCode::PreconditionFailed => {}
                made => return made,
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Brings a deleted link back as it was.
    pub(crate) async fn restore(&self, code: &str) -> Result<LinkResult, CliError> {
        match self.wire_link(code, None).await {
            Ok(link) => return Ok(link_result(link, WriteOutcome::Unchanged)),
            Err(failure) if failure.code() == ErrorCode::NotFound => {}
            Err(failure) => return Err(failure),
        }
        let restored = self.request(Method::POST, &["links", code, "restore"]).read().await;
        Ok(link_result(
            restored.map_err(|failure| failure.into_local_error(not_found_errors(code)))?,
            WriteOutcome::Changed,
        ))
    }

    /// Deletes a link and gives what is left of it.
    pub(crate) async fn delete(&self, code: &Code) -> Result<LinkResult, CliError> {
        let code = code.as_str();
        let deleted = self.request(Method::DELETE, &["links", code]).expect_no_content().await;
        deleted.map_err(|failure| failure.into_local_error(not_found_errors(code)))?;
        Ok(link_result(self.any_link(code).await?, WriteOutcome::Changed))
    }
}

fn link_result(link: WireLink, outcome: WriteOutcome) -> LinkResult {
    LinkResult { details: link.into(), outcome, not_applied: Vec::new() }
}

/// What no link can have for its code is asked of nobody.
fn ensure_valid_code(code: &str) -> Result<(), CliError> {
    match Code::from_path(code) {
        Some(_) => Ok(()),
        None => Err(CliError::not_found(Resource::Link(code.to_owned()))),
    }
}

/// What a server may say of a link that is not there.
fn not_found_errors(code: &str) -> Vec<OpsError> {
    let link = || Resource::Link(code.to_owned());
    vec![OpsError::NotFound(link()), OpsError::Deleted(link())]
}

/// The tags that result. The server sorts them, and says what is wrong with them.
fn merged_tags(existing: &[String], input: &Input) -> Vec<String> {
    let is_removed = |tag: &String| input.remove_tags.iter().any(|removed| removed.trim() == tag);
    let added = input.add_tags.iter().map(|tag| tag.trim().to_owned());
    existing.iter().cloned().chain(added).filter(|tag| !is_removed(tag)).collect()
}

/// What was typed, as a body; tags are the caller's business.
fn link_body(input: &Input) -> Map<String, Value> {
    let expires_at = input.expires_at.as_ref().map(|time| match time {
        None => Value::Null,
        Some(TimeInput::Text(text)) => text.as_str().into(),
        Some(TimeInput::Number(number)) => number.clone().into(),
    });
    let fields = [
        ("code", input.code.as_deref().map(Value::from)),
        ("target", input.target.as_deref().map(Value::from)),
        ("redirect_status", input.redirect_status.map(Value::from)),
        ("expires_at", expires_at),
        ("title", input.title.as_deref().map(Value::from)),
        ("notes", input.notes.as_deref().map(Value::from)),
        ("https_only", input.https_only.map(Value::from)),
        ("no_loop", input.no_loop.map(Value::from)),
        ("metadata", input.metadata.as_ref().map(|object| json!(object))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
