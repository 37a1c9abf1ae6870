//! What a request would get and why, step by step, without counting it.

use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::HostBuffer;
use rlinks_core::link::code::{SERVER_PATHS, is_reserved};
use rlinks_core::redirect::decide::Visitor;
use rlinks_core::redirect::explain::{ExplainStep, explain};
use rlinks_core::redirect::path::{MAX_PATH_BYTES, RequestPath, first_segment, parse_path};
use rlinks_core::{
    Code, Decision, Domain, DomainStatus, FieldCode, FieldError, Host, Slug, Timestamp, Workspace, decide,
};
use serde::Serialize;

use crate::{Ops, OpsError, Requester, Resource};
use rlinks_routes::host_directory::HostDirectory;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The address that was looked at.
    pub address: String,
    /// What was found, in order.
    pub steps: Vec<ExplainStep>,
    /// The HTTP status a visitor would get.
    pub status: u16,
    /// Where they would be sent.
    pub location: Option<String>,
    /// The error they would get.
    pub error: Option<&'static str>,
}

impl Ops {
    /// Explains a short URL, a path or a bare code. A URL is answered by whichever workspace its host names; a path or code is
    /// asked on the host of `workspace`. `at` asks how it was, or will be, at another moment.
    pub async fn explain(
        &self,
        workspace: &Slug,
        question: &str,
        at: Option<Timestamp>,
    ) -> Result<Explanation, OpsError> {
        let (host, path) = split(question)?;
        let mut trace = ExplainTrace { address: question.to_owned(), steps: Vec::new() };
        let own = match host {
            Some(host) => Some(host.to_owned()),
            None => self.host_of(workspace).await?,
        };
        let Some(host) = own else {
            trace
                .push("host", format!("no domain reaches workspace {workspace}; `domains add` gives it one"));
            return Ok(trace.error(ErrorCode::NotFound));
        };
        let mut buffer: HostBuffer = [0; rlinks_core::host::MAX_HOST_BYTES];
        let Some(host) = rlinks_core::host::from_header(host.as_bytes(), &mut buffer) else {
            trace.push("host", format!("`{host}` is no host"));
            return Ok(trace.error(ErrorCode::BadRequest));
        };
        trace.address = format!("{host}{path}");
        if is_reserved(first_segment(&path)) {
            trace.push("path", "is the server's own, whatever the host".to_owned());
            return Ok(trace.server_page(&path));
        }
        if path.len() > MAX_PATH_BYTES {
            trace.push("path", format!("is longer than {MAX_PATH_BYTES} bytes"));
            return Ok(trace.error(ErrorCode::UriTooLong));
        }
        let Some(owner) = self.workspace_of_host(host).await? else {
            trace.push("host", self.unanswered_reason(host).await?);
            return Ok(trace.error(ErrorCode::NotFound));
        };
        trace.push("host", format!("{host} is answered by workspace {}", owner.slug));
        match parse_path(&path) {
            RequestPath::Root => Ok(trace.page("the landing page")),
            RequestPath::NotALink => {
                trace.push("path", format!("{path} is no path a link can have"));
                Ok(trace.error(ErrorCode::NotFound))
            }
            RequestPath::Code(code) => self.explain_code(trace, &owner, host, &code, at, false).await,
            RequestPath::Preview(code) => self.explain_code(trace, &owner, host, &code, at, true).await,
        }
    }

    /// Why nobody answers on a host.
    async fn unanswered_reason(&self, host: &str) -> Result<String, OpsError> {
        let held = self.store.domain_record(&Host::from_stored(host.to_owned())).await?;
        Ok(match held.map(|held| held.verification.status()) {
            Some(DomainStatus::Unverified) => format!("{host} waits for its proof by DNS"),
            Some(DomainStatus::Suspended) => {
                format!("{host} answers no more, because its proof in DNS is gone")
            }
            Some(DomainStatus::Active) | None => format!("{host} belongs to no workspace here"),
        })
    }

    /// The same for somebody of one workspace: what is not theirs is not there.
    pub async fn explain_for(
        &self,
        by: &Requester,
        workspace: &Workspace,
        question: &str,
        at: Option<Timestamp>,
    ) -> Result<Explanation, OpsError> {
        let unknown = || OpsError::NotFound(Resource::Link(question.to_owned()));
        let (host, path) = split(question)?;
        if let Some(host) = host {
            let mut buffer: HostBuffer = [0; rlinks_core::host::MAX_HOST_BYTES];
            let host = rlinks_core::host::from_header(host.as_bytes(), &mut buffer);
            let owner = match host {
                Some(host) => self.workspace_of_host(host).await?,
                None => None,
            };
            if owner.is_some_and(|owner| owner.id != workspace.id) {
                return Err(unknown());
            }
        }
        if let RequestPath::Code(code) | RequestPath::Preview(code) = parse_path(&path)
            && self.find_link(workspace, &code).await?.is_some_and(|link| !by.can_see(&link))
        {
            return Err(unknown());
        }
        self.explain(&workspace.slug, question, at).await
    }

    async fn explain_code(
        &self,
        mut trace: ExplainTrace,
        owner: &Workspace,
        host: &str,
        code: &str,
        at: Option<Timestamp>,
        preview: bool,
    ) -> Result<Explanation, OpsError> {
        trace.push("code", code.to_owned());
        let now = at.unwrap_or_else(|| self.clock.now());
        let link = match at.filter(|at| *at < self.clock.now()) {
            None => self.find_link(owner, code).await?,
            Some(then) => self.find_at(owner, code, then).await?,
        };
        let served = self.served_hosts_for(owner).await?;
        let visitor = Visitor { host, served_hosts: &served };
        let route = link.as_ref().map(rlinks_core::Link::route);
        trace.steps.extend(explain(route, &owner.policy, &visitor, now));
        let decision = decide(route, &owner.policy, &visitor, now);
        Ok(match decision {
            Decision::Redirect { target, .. } if preview => {
                trace.page(&format!("a page that shows {target}"))
            }
            Decision::Redirect { status, target, cache } => {
                trace.push("answer", format!("{} to {target} ({cache})", status.code()));
                trace.finish(status.code(), Some(target.to_owned()), None)
            }
            _ => trace.error(decision.error_code().unwrap_or(ErrorCode::Internal)),
        })
    }

    /// A host that names this workspace: its primary domain, its name below the base domain, or, for `main` while no domain
    /// is configured, any.
    async fn host_of(&self, slug: &Slug) -> Result<Option<String>, OpsError> {
        let workspace = self.workspace(slug).await?;
        let mut domains = self.effective_domains(std::slice::from_ref(&workspace)).await?;
        let silent = self.store.unverified_hosts().await?;
        domains.retain(|domain| !silent.contains(&domain.host));
        let primary = domains.iter().find(|domain| domain.workspace == workspace.id && domain.primary);
        if let Some(domain) = primary {
            return Ok(Some(domain.host.to_string()));
        }
        if let Some(base) = &self.short_urls.base_domain {
            return Ok(Some(format!("{slug}.{base}")));
        }
        let any = slug.as_str() == Slug::MAIN && self.store.operator_hosts().await?.is_empty();
        Ok(any.then(|| self.own_host.as_ref().map_or("localhost".to_owned(), ToString::to_string)))
    }

    async fn find_at(
        &self,
        workspace: &Workspace,
        code: &str,
        at: Timestamp,
    ) -> Result<Option<rlinks_core::Link>, OpsError> {
        let Some(exact) = Code::from_path(code) else { return Ok(None) };
        if let Some(link) = self.store.link_at(workspace.id, &exact, at).await? {
            return Ok(Some(link));
        }
        match Code::from_path(&exact.folded()) {
            Some(folded) if workspace.policy.code.fold_case && folded != exact => {
                Ok(self.store.link_at(workspace.id, &folded, at).await?)
            }
            _ => Ok(None),
        }
    }

    /// The workspace a host names. While no domain is configured, `main` answers on every host.
    async fn workspace_of_host(&self, host: &str) -> Result<Option<Workspace>, OpsError> {
        let (workspaces, directory) = self.host_directory().await?;
        let id = directory.workspace_of(host).map(|view| view.id);
        Ok(workspaces.into_iter().find(|workspace| Some(workspace.id) == id))
    }

    /// Every workspace, and which answers where.
    pub(crate) async fn host_directory(&self) -> Result<(Vec<Workspace>, HostDirectory), OpsError> {
        let workspaces = self.store.workspaces().await?;
        let domains = self.effective_domains(&workspaces).await?;
        let mut vouched = self.store.operator_hosts().await?;
        vouched.extend(self.short_urls.domain.clone());
        let (silent, base) = (self.store.unverified_hosts().await?, self.short_urls.base_domain.as_ref());
        let directory = HostDirectory::new(&workspaces, &domains, &vouched, &silent, base);
        Ok((workspaces, directory))
    }

    /// Every domain; the one in the configuration counts before the first server has entered it.
    async fn effective_domains(&self, workspaces: &[Workspace]) -> Result<Vec<Domain>, OpsError> {
        let mut domains = self.store.domains().await?;
        let main = workspaces.iter().find(|workspace| workspace.slug.as_str() == Slug::MAIN);
        if let (Some(host), Some(main)) = (&self.short_urls.domain, main)
            && domains.iter().all(|domain| domain.host != *host)
        {
            let primary = !domains.iter().any(|domain| domain.workspace == main.id && domain.primary);
            let created_at = self.clock.now();
            domains.push(Domain { host: host.clone(), workspace: main.id, primary, created_at });
        }
        Ok(domains)
    }
}

/// What was found so far.
struct ExplainTrace {
    address: String,
    steps: Vec<ExplainStep>,
}

impl ExplainTrace {
    fn push(&mut self, step: &'static str, result: String) {
        self.steps.push(ExplainStep { step, result });
    }

    fn error(mut self, code: ErrorCode) -> Explanation {
        self.push("answer", format!("{} {}", code.status(), code.name()));
        self.finish(code.status(), None, Some(code.name()))
    }

    fn page(mut self, what: &str) -> Explanation {
        self.push("answer", format!("200, {what}"));
        self.finish(200, None, None)
    }

    /// What somebody gets who has not signed in and has no key.
    fn server_page(mut self, path: &str) -> Explanation {
        match path {
            "/favicon.ico" => {
                self.push("answer", "204, there is none".to_owned());
                self.finish(204, None, None)
            }
            "/admin/login" => self.page("where people sign in"),
            "/api/docs" | "/api/openapi.json" => self.page("the description of the API"),
            path if SERVER_PATHS.contains(&path) => self.page("what the server says there"),
            path if path == "/admin" || path.starts_with("/admin/") => {
                self.push("answer", "303 to /admin/login, for who has not signed in".to_owned());
                self.finish(303, Some("/admin/login".to_owned()), None)
            }
            path if path.starts_with("/api/v1/") => self.error(ErrorCode::Unauthenticated),
            _ => self.error(ErrorCode::NotFound),
        }
    }

    fn finish(self, status: u16, location: Option<String>, error: Option<&'static str>) -> Explanation {
        Explanation { address: self.address, steps: self.steps, status, location, error }
    }
}

/// Host and path of a URL, `host/code`, `/code` or `code`.
fn split(question: &str) -> Result<(Option<&str>, String), OpsError> {
    let path_only = |rest: &str| rest[..rest.find(['?', '#']).unwrap_or(rest.len())].to_owned();
    let rest = match question.split_once("://") {
        Some((scheme, rest)) if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            rest
        }
        Some(_) => {
            let message = "must begin with https:// or http://, or be a code";
            return Err(OpsError::Invalid(FieldError::new("url", FieldCode::Scheme, message).into()));
        }
        None if question.starts_with('/') => return Ok((None, path_only(question))),
        None if !question.contains('/') => return Ok((None, format!("/{}", path_only(question)))),
        None => question,
    };
    let slash = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let path = path_only(&rest[slash..]);
    Ok((Some(&rest[..slash]), if path.is_empty() { "/".to_owned() } else { path }))
}
