//! Domains: the hosts on which the workspace's links answer.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_core::envelope::ErrorCode;
use rlinks_core::{Domain, FieldErrors, Host};
use rlinks_store::StoreError;

use super::super::visit::{Doing, Looking};
use super::super::{Problem, Web, page, see_other};
use super::{Confirm, done, is_confirmed};
use crate::api::caller::WorkspaceAdmin;
use crate::auth::session::Signed;
use crate::ops::{OpsError, Thing};

const DONE: [(&str, &str); 3] = [
    ("added", "The domain was added. Links answer there as soon as DNS leads here."),
    ("primary", "Short links are written with this domain from now on. The others keep answering."),
    ("removed", "The domain was removed: it no longer answers."),
];

#[derive(Template)]
#[template(path = "space/domains.html")]
struct DomainsPage<'a> {
    signed: &'a Signed,
    done: Option<&'static str>,
    domains: Vec<Domain>,
    /// The name every workspace has below the base domain, where there is one.
    always: Option<String>,
    /// Where this server says it is reached.
    reached: String,
    host: &'a str,
    errors: FieldErrors,
}

impl<'a> DomainsPage<'a> {
    async fn new(web: &Web, signed: &'a Signed) -> Result<Self, Problem> {
        let all = web.store.domains().await?;
        let naming = &web.api.ops.naming;
        Ok(Self {
            signed,
            done: None,
            domains: all.into_iter().filter(|domain| domain.workspace == signed.workspace.id).collect(),
            always: naming.base_domain.as_ref().map(|base| format!("{}.{base}", signed.workspace.slug)),
            reached: naming.base_url(),
            host: "",
            errors: FieldErrors::default(),
        })
    }
}

/// The domains, and the form for another.
pub async fn show(
    State(web): State<Arc<Web>>,
    Looking { visit, signed, .. }: Looking<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let shown = DomainsPage::new(&web, &signed).await?;
    page(&DomainsPage { done: done(&visit, &DONE), ..shown })
}

/// Adds a domain.
pub async fn add(
    State(web): State<Arc<Web>>,
    Doing { signed, caller, form, .. }: Doing<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let added = match Host::parse(form.get("host").trim()) {
        Err(error) => Err(OpsError::from(error)),
        Ok(host) => web.api.ops.claim_domain(&caller.by, &caller.workspace, host).await,
    };
    let (problem, errors) = match added {
        Ok(_) => {
            web.api.learn_directory().await?;
            return Ok(see_other("/admin/domains?done=added", None));
        }
        Err(OpsError::Invalid(errors)) => (Problem::new(ErrorCode::ValidationFailed), errors),
        Err(OpsError::Store(StoreError::NameTaken(host))) => {
            let taken = rlinks_core::FieldError::new(
                "host",
                rlinks_core::FieldCode::BadCharacters,
                format!("{host} is another workspace's"),
            );
            (Problem::new(ErrorCode::Conflict), taken.into())
        }
        Err(OpsError::HostKept { why, .. }) => {
            let kept = rlinks_core::FieldError::new("host", rlinks_core::FieldCode::Reserved, why);
            (Problem::new(ErrorCode::Conflict), kept.into())
        }
        Err(error) => return Err(error.into()),
    };
    let shown = DomainsPage { host: form.get("host"), errors, ..DomainsPage::new(&web, &signed).await? };
    Err(problem.in_page(&shown, None))
}

fn host(text: &str) -> Result<Host, Problem> {
    Host::parse(text).map_err(|_| Problem::from(OpsError::NotFound(Thing::Domain(text.to_owned()))))
}

/// Lets short links be written with a domain.
pub async fn make_primary(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    Doing { caller, .. }: Doing<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let host = host(&name)?;
    let (actor, now) = (&caller.by.actor, web.clock.now());
    let changed = web.store.set_primary_domain(caller.workspace.id, &host, actor, now).await;
    changed.map_err(OpsError::from)?;
    web.api.learn_directory().await?;
    Ok(see_other("/admin/domains?done=primary", None))
}

/// Removes a domain, once that was confirmed.
pub async fn remove(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    Doing { signed, caller, form, .. }: Doing<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let host = host(&name)?;
    let known = web.store.domains().await?;
    if !known.iter().any(|domain| domain.host == host && domain.workspace == caller.workspace.id) {
        return Err(Problem::from(OpsError::NotFound(Thing::Domain(host.to_string()))));
    }
    if !is_confirmed(&form) {
        return Confirm {
            signed: &signed,
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
        .ask();
    }
    let (actor, now) = (&caller.by.actor, web.clock.now());
    let removed = web.store.remove_domain(caller.workspace.id, &host, actor, now).await;
    removed.map_err(OpsError::from)?;
    web.api.learn_directory().await?;
    Ok(see_other("/admin/domains?done=removed", None))
}
