//! Domains: the hosts on which the workspace's links answer.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::HOST;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::domain_verification::{self, VerificationRecord};
use rlinks_core::{DomainStatus, FieldErrors, Host, Timestamp, Workspace};
use rlinks_store::{DomainRecord, StoreError};

use super::super::{PageError, Web, render_page, see_other};
use super::{ConfirmPage, flash_text, is_confirmed};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage, WebRequest};
use crate::web::statistics::chart::format_number;
use rlinks_ops::Caller;
use rlinks_ops::{OpsError, Resource};

/// Links that are named in a question.
const MAX_NAMED_LINKS: usize = 5;

const FLASH_TEXTS: [(&str, &str); 8] = [
    ("there", "This workspace has this domain already: nothing was changed."),
    ("added", "The domain was added. Links answer there as soon as DNS leads here."),
    ("primary", "Short links are written with this domain from now on. The others keep answering."),
    ("removed", "The domain was removed: it no longer answers."),
    ("waiting", "The domain was added. It answers once its record is in DNS: set it, then check."),
    ("proven", "DNS was asked. The domain answers."),
    ("unproven", "DNS was asked, and the record is not there yet. DNS changes can take hours to be known."),
    ("looked", "DNS was asked."),
];

#[derive(Template)]
#[template(path = "workspace/domains.html")]
struct DomainsPage<'a> {
    current: &'a CurrentSession,
    done: Option<&'static str>,
    domains: Vec<Row>,
    /// DNS can be asked.
    checks_enabled: bool,
    /// The name every workspace has below the base domain, where there is one.
    default_host: Option<String>,
    /// Where this server says it is reached.
    public_url: String,
    host: &'a str,
    errors: FieldErrors,
}

/// A domain as the page shows it.
struct Row {
    host: Host,
    primary: bool,
    created_at: Timestamp,
    state: DomainStatus,
    /// The record that is missing.
    missing: Option<VerificationRecord>,
    expires_on: Option<String>,
    checked_at: Option<Timestamp>,
    warning: Option<String>,
}

impl Row {
    fn from_record(record: DomainRecord, workspace: &Workspace, now: Timestamp) -> Self {
        let DomainRecord { domain, verification } = record;
        let is_missing = verification.needs_proof
            && (verification.proven_at.is_none() || verification.missing_since.is_some());
        Self {
            missing: is_missing.then(|| VerificationRecord::new(workspace, &domain.host)),
            state: verification.status(),
            expires_on: verification.expires_at.map(domain_verification::utc_date),
            checked_at: verification.checked_at,
            warning: verification.warning(now),
            host: domain.host,
            primary: domain.primary,
            created_at: domain.created_at,
        }
    }
}

impl<'a> DomainsPage<'a> {
    async fn new(web: &Web, current: &'a CurrentSession) -> Result<Self, PageError> {
        let (all, now) = (web.store.domain_records().await?, web.clock.now());
        let mine = all.into_iter().filter(|record| record.domain.workspace == current.workspace.id);
        let naming = &web.ops.short_urls;
        Ok(Self {
            current,
            done: None,
            domains: mine.map(|record| Row::from_record(record, &current.workspace, now)).collect(),
            checks_enabled: web.ops.domain_checker.is_enabled(),
            default_host: naming
                .base_domain
                .as_ref()
                .map(|base| format!("{}.{base}", current.workspace.slug)),
            public_url: naming.base_url(),
            host: "",
            errors: FieldErrors::default(),
        })
    }
}

/// The domains, and the form for another.
pub async fn show(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, current, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let shown = DomainsPage::new(&web, &current).await?;
    render_page(&DomainsPage { done: flash_text(&request, &FLASH_TEXTS), ..shown })
}

/// Adds a domain; once that was confirmed, where links that answer now would not any more.
pub async fn add(
    State(web): State<Arc<Web>>,
    AuthorizedForm { request, current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let added = match Host::parse(form.get("host").trim()) {
        Err(error) => Err(OpsError::from(error)),
        Ok(host) => {
            let words = if is_confirmed(&form) {
                Vec::new()
            } else {
                domain_impact(&web, &request, &caller, &host).await?
            };
            if !words.is_empty() {
                return ConfirmPage {
                    current: &current,
                    title: format!("Add {host}?"),
                    words,
                    action: "/admin/domains".to_owned(),
                    fields: vec![("host", host.to_string())],
                    button: "Add the domain",
                    back: "/admin/domains",
                }
                .respond();
            }
            web.ops.add_domain(&caller, host).await
        }
    };
    let (problem, errors) = match added {
        Ok((_, true)) => return Ok(see_other("/admin/domains?done=there", None)),
        Ok((domain, false)) => {
            let record = web.ops.domain_record(&caller.workspace, &domain.host).await?;
            let is_active = record.verification.status() == DomainStatus::Active;
            let done = if is_active { "added" } else { "waiting" };
            return Ok(see_other(&format!("/admin/domains?done={done}"), None));
        }
        Err(OpsError::Invalid(errors)) => (PageError::new(ErrorCode::ValidationFailed), errors),
        Err(OpsError::Store(StoreError::NameTaken(host))) => {
            let taken = rlinks_core::FieldError::new(
                "host",
                rlinks_core::FieldCode::BadCharacters,
                format!("{host} is another workspace's"),
            );
            (PageError::new(ErrorCode::Conflict), taken.into())
        }
        Err(OpsError::HostClaimed { proof: VerificationRecord { name, value }, .. }) => {
            let held = rlinks_core::FieldError::new(
                "host",
                rlinks_core::FieldCode::Reserved,
                format!(
                    "is claimed by another workspace, which has not proven it: set the TXT record {name} to {value} and add it again"
                ),
            );
            (PageError::new(ErrorCode::Conflict), held.into())
        }
        Err(OpsError::HostReserved { why, .. }) => {
            let kept = rlinks_core::FieldError::new("host", rlinks_core::FieldCode::Reserved, why);
            (PageError::new(ErrorCode::Conflict), kept.into())
        }
        Err(error) => return Err(error.into()),
    };
    let shown = DomainsPage { host: form.get("host"), errors, ..DomainsPage::new(&web, &current).await? };
    Err(problem.rendered_in(&shown, None))
}

/// What stops answering once a domain is added, a paragraph each. Nothing where it is another's, or cannot be had: that is said anyway.
async fn domain_impact(
    web: &Web,
    request: &WebRequest,
    caller: &Caller,
    host: &Host,
) -> Result<Vec<String>, PageError> {
    let mut words = Vec::new();
    if web.store.domains().await?.iter().any(|domain| domain.host == *host) {
        return Ok(words);
    }
    let ops = &web.ops;
    if ops.answers_any_host(&caller.workspace).await? {
        let seen = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = seen.rsplit_once(':').map_or(seen, |(name, _)| name);
        let such = if name.is_empty() || name == host.as_str() {
            String::new()
        } else {
            format!(", such as {seen},")
        };
        words.push(format!(
            "This is the first domain. Until now links answer at every address that leads to this server. From then on they answer at {host} \
             alone: short links with any other host{such} stop answering at once, wherever they were printed or sent."
        ));
        words.push(
            "To keep such a host, add it as a domain as well. Removing all domains brings back what is now."
                .to_owned(),
        );
    }
    let codes = ops.links_to(&caller.workspace, host).await?;
    if !codes.is_empty() {
        let (count, is_one) = (format_number(codes.len().try_into().unwrap_or(u64::MAX)), codes.len() == 1);
        let mut named =
            codes.iter().take(MAX_NAMED_LINKS).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if codes.len() > MAX_NAMED_LINKS {
            named.push_str(" and others");
        }
        words.push(format!(
            "{count} {} to {host} ({named}). A link must not lead back here, so {} until its target is changed, or until it may lead to \
             a domain served here.",
            if is_one { "link leads" } else { "links lead" },
            if is_one { "visitors get an error" } else { "visitors of these get an error" },
        ));
    }
    Ok(words)
}

fn parse_host(text: &str) -> Result<Host, PageError> {
    Host::parse(text).map_err(|_| PageError::from(OpsError::NotFound(Resource::Domain(text.to_owned()))))
}

/// Lets short links be written with a domain.
pub async fn make_primary(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    AuthorizedForm { caller, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let host = parse_host(&name)?;
    web.ops.set_primary_domain(&caller, &host).await?;
    Ok(see_other("/admin/domains?done=primary", None))
}

/// Looks for a domain in DNS at once.
pub async fn verify(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    AuthorizedForm { caller, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let host = parse_host(&name)?;
    let record = web.ops.verify_domain(&caller, &host).await?;
    let done = match (record.verification.needs_proof, record.verification.missing_since) {
        (true, None) => "proven",
        (true, Some(_)) => "unproven",
        (false, _) => "looked",
    };
    Ok(see_other(&format!("/admin/domains?done={done}"), None))
}

/// Removes a domain, once that was confirmed.
pub async fn remove(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let host = parse_host(&name)?;
    let known = web.store.domains().await?;
    if !known.iter().any(|domain| domain.host == host && domain.workspace == caller.workspace.id) {
        return Err(PageError::from(OpsError::NotFound(Resource::Domain(host.to_string()))));
    }
    if !is_confirmed(&form) {
        return ConfirmPage {
            current: &current,
            title: format!("Remove {host}?"),
            words: vec![
                "Short links with this domain stop answering at once, wherever they were printed or sent.".to_owned(),
                "The links themselves stay. You can add the domain again, unless another workspace takes it first.".to_owned(),
            ],
            action: format!("/admin/domains/{host}/remove"),
            fields: Vec::new(),
            button: "Remove the domain",
            back: "/admin/domains",
        }
        .respond();
    }
    web.ops.remove_domain(&caller, &host).await?;
    Ok(see_other("/admin/domains?done=removed", None))
}
