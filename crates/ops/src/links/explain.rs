//! What a request would get and why, step by step, without counting it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::{MAX_HOST_BYTES, from_header};
use rlinks_core::redirect::decide::Visitor;
use rlinks_core::redirect::explain::{ExplainStep, explain};
use rlinks_core::redirect::path::MAX_PATH_BYTES;
use rlinks_core::redirect::{LinkRequest, RequestHead, RequestMethod, Resolution, resolve};
use rlinks_core::{
    Decision, Domain, DomainStatus, FieldCode, FieldError, Host, Id, Link, Slug, Timestamp, Workspace, decide,
};
use serde::Serialize;

use super::server_paths::{AnonymousResponse, anonymous_response};
use crate::{Caller, Ops, OpsError, Resource};
use rlinks_routes::host_directory::{HostDirectory, TrustedHosts};

/// What forms escape in a value.
const FORM_VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

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
    /// Explains a short URL, a path or a bare code. A URL is answered by whichever workspace its host names; a path or code is asked on a
    /// host of the caller's. `at` asks how it was, or will be, at another moment. For all but the operator, hosts of other workspaces and
    /// links they can't see don't exist.
    pub async fn explain(
        &self,
        caller: &Caller,
        question: &str,
        at: Option<Timestamp>,
    ) -> Result<Explanation, OpsError> {
        let not_theirs = || OpsError::NotFound(Resource::Link(question.to_owned()));
        let (host, path) = split(question)?;
        let mut trace = ExplainTrace { address: question.to_owned(), steps: Vec::new() };
        let named = match host {
            Some(host) => Some(ascii_host(host)),
            None => self.host_of(&caller.workspace).await?,
        };
        let Some(named) = named else {
            let slug = &caller.workspace.slug;
            trace.push("host", format!("no domain reaches workspace {slug}; `domains add` gives it one"));
            return Ok(trace.error(ErrorCode::NotFound));
        };
        let (workspaces, directory) = self.host_directory().await?;
        let mut buffer = [0; MAX_HOST_BYTES];
        let host = from_header(named.as_bytes(), &mut buffer);
        if let Some(host) = host {
            trace.address = format!("{host}{path}");
        }
        let owner = host.and_then(|host| directory.workspace_of(host));
        let is_theirs = |id: Id| caller.is_trusted() || id == caller.workspace.id;
        if owner.is_some_and(|owner| !is_theirs(owner.id)) {
            return Err(not_theirs());
        }
        let head = RequestHead { method: RequestMethod::Get, host: Some(named.as_bytes()), path: &path };
        let mut buffer = [0; MAX_HOST_BYTES];
        let resolution = resolve(&head, &mut buffer, |host| directory.resolve(host));
        if let (Some(host), Some(owner), false) =
            (host, owner, matches!(resolution, Resolution::ServerPath | Resolution::Refused(_)))
        {
            trace.push("host", format!("{host} is answered by workspace {}", owner.slug));
        }
        match resolution {
            Resolution::Refused(code) => {
                let (step, reason) = match (code, host) {
                    (ErrorCode::UriTooLong, _) => ("path", format!("is longer than {MAX_PATH_BYTES} bytes")),
                    (_, Some(host)) => ("host", self.unanswered_reason(host).await?),
                    (_, None) => ("host", format!("`{named}` is no host")),
                };
                trace.push(step, reason);
                Ok(trace.error(code))
            }
            Resolution::ServerPath => {
                trace.push(
                    "path",
                    "is the server's own, whatever the host; asked without signing in".to_owned(),
                );
                Ok(trace.server_path(&path))
            }
            Resolution::Landing => Ok(trace.page("the landing page")),
            Resolution::NotALink => {
                trace.push("path", format!("{path} is no path a link can have"));
                Ok(trace.error(ErrorCode::NotFound))
            }
            Resolution::Link(asked) => {
                let owner = workspaces.into_iter().find(|workspace| workspace.id == asked.workspace.id);
                let owner = owner.ok_or_else(not_theirs)?;
                let link = self.find_link(&owner, &asked.code).await?;
                if link.as_ref().is_some_and(|link| !caller.can_see(link)) {
                    return Err(not_theirs());
                }
                let link = match at.filter(|at| *at < self.clock.now()) {
                    None => link,
                    Some(then) => self.find_link_at(&owner, &asked.code, then).await?,
                };
                self.explain_link(trace, &owner, &asked, link.as_ref(), at).await
            }
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

    async fn explain_link<W>(
        &self,
        mut trace: ExplainTrace,
        owner: &Workspace,
        asked: &LinkRequest<'_, W>,
        link: Option<&Link>,
        at: Option<Timestamp>,
    ) -> Result<Explanation, OpsError> {
        trace.push("code", asked.code.to_string());
        let now = at.unwrap_or_else(|| self.clock.now());
        let served = self.served_hosts_for(owner).await?;
        let visitor = Visitor { host: asked.host, served_hosts: &served };
        let route = link.map(Link::route);
        trace.steps.extend(explain(route, &owner.policy, &visitor, now));
        let decision = decide(route, &owner.policy, &visitor, now);
        Ok(match decision {
            Decision::Redirect { target, .. } if asked.preview => {
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
    async fn host_of(&self, workspace: &Workspace) -> Result<Option<String>, OpsError> {
        let mut domains = self.effective_domains(std::slice::from_ref(workspace)).await?;
        let silent = self.store.unverified_hosts().await?;
        domains.retain(|domain| !silent.contains(&domain.host));
        let primary = domains.iter().find(|domain| domain.workspace == workspace.id && domain.primary);
        if let Some(domain) = primary {
            return Ok(Some(domain.host.to_string()));
        }
        if let Some(base) = &self.short_urls.base_domain {
            return Ok(Some(format!("{}.{base}", workspace.slug)));
        }
        let any = self.answers_any_host(workspace).await?;
        Ok(any.then(|| self.own_host.as_ref().map_or("localhost".to_owned(), ToString::to_string)))
    }

    /// Every workspace, and which answers where.
    pub(crate) async fn host_directory(&self) -> Result<(Vec<Workspace>, HostDirectory), OpsError> {
        let workspaces = self.store.workspaces().await?;
        let domains = self.effective_domains(&workspaces).await?;
        let mut trusted = TrustedHosts {
            operator: self.store.operator_hosts().await?,
            verified: self.store.verified_hosts().await?,
            unverified: self.store.unverified_hosts().await?,
        };
        trusted.operator.extend(self.short_urls.domain.clone());
        let base = self.short_urls.base_domain.as_ref();
        let directory = HostDirectory::new(&workspaces, &domains, &trusted, base);
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

    /// What an anonymous visitor from another machine gets from a listener that serves everything.
    fn server_path(mut self, path: &str) -> Explanation {
        match anonymous_response(path) {
            AnonymousResponse::Page(what) => self.page(what),
            AnonymousResponse::Error(code) => self.error(code),
            AnonymousResponse::Empty => {
                self.push("answer", "204, there is none".to_owned());
                self.finish(204, None, None)
            }
            AnonymousResponse::WithoutSlash => {
                let location = path.trim_end_matches('/').to_owned();
                self.push("answer", format!("308 to {location}"));
                self.finish(308, Some(location), None)
            }
            AnonymousResponse::SignIn => {
                let location = match path {
                    "/admin" => "/admin/login".to_owned(),
                    path => format!("/admin/login?next={}", percent_encode(path.as_bytes(), FORM_VALUE)),
                };
                self.push("answer", format!("303 to {location}, without a session"));
                self.finish(303, Some(location), None)
            }
        }
    }

    fn finish(self, status: u16, location: Option<String>, error: Option<&'static str>) -> Explanation {
        Explanation { address: self.address, steps: self.steps, status, location, error }
    }
}

/// A host as browsers send it: names in other scripts as punycode. Anything that isn't a host stays as it is.
fn ascii_host(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let (name, port) = text.split_once(':').map_or((text, ""), |(name, _)| (name, &text[name.len()..]));
    Host::parse(name).map_or_else(|_| text.to_owned(), |host| format!("{host}{port}"))
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
