//! What a request would get and why, step by step, without counting it.

use rlinks_core::decide::{self, Step, Visitor};
use rlinks_core::envelope::ErrorCode;
use rlinks_core::host::HostBuffer;
use rlinks_core::request::{Asked, asked};
use rlinks_core::{Code, Decision, Timestamp, Workspace, decide as decide_request};
use serde::Serialize;

use super::{Ops, OpsError};

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The address that was looked at.
    pub address: String,
    /// What was found, in order.
    pub steps: Vec<Step>,
    /// The HTTP status a visitor would get.
    pub status: u16,
    /// Where they would be sent.
    pub location: Option<String>,
    /// The error they would get.
    pub error: Option<&'static str>,
}

impl Ops {
    /// Explains a short URL, a path or a bare code. A bare code is looked up in `workspace`; a URL in whichever its host names.
    /// `at` asks how it was, or will be, at another moment.
    pub async fn explain(
        &self,
        workspace: &Workspace,
        question: &str,
        at: Option<Timestamp>,
    ) -> Result<Explanation, OpsError> {
        let (host, path) = split(question);
        let domains = self.store.domains().await?;
        let served = self.served().await?;
        let primary = domains.iter().find(|domain| domain.workspace == workspace.id && domain.primary);
        let mut steps = Vec::new();
        let mut buffer: HostBuffer = [0; rlinks_core::host::LONGEST];
        let asked_host = match host {
            None => primary.map_or("localhost", |domain| domain.host.as_str()),
            Some(host) => {
                let Some(host) = rlinks_core::host::from_header(host.as_bytes(), &mut buffer) else {
                    steps.push(Step { step: "host", result: format!("`{host}` is no host") });
                    return Ok(refused(question, steps, ErrorCode::BadRequest));
                };
                host
            }
        };
        let address = format!("{asked_host}{path}");
        let owner = match host {
            None => Some(workspace.clone()),
            Some(_) => self.owner(asked_host).await?,
        };
        let Some(owner) = owner else {
            steps.push(Step { step: "host", result: format!("{asked_host} belongs to no workspace here") });
            return Ok(refused(&address, steps, ErrorCode::NotFound));
        };
        steps.push(Step {
            step: "host",
            result: format!("{asked_host} is answered by workspace {}", owner.slug),
        });
        let (Asked::Code(code) | Asked::Preview(code)) = asked(&path) else {
            steps.push(Step { step: "path", result: format!("{path} is no path a link can have") });
            return Ok(refused(&address, steps, ErrorCode::NotFound));
        };
        steps.push(Step { step: "code", result: code.to_string() });
        let now = at.unwrap_or_else(|| self.clock.now());
        let link = match at.filter(|at| *at < self.clock.now()) {
            None => self.find(&owner, &code).await?,
            Some(then) => self.find_at(&owner, &code, then).await?,
        };
        let visitor = Visitor { host: asked_host, domains: &served };
        let route = link.as_ref().map(rlinks_core::Link::route);
        steps.extend(decide::explain(route, &owner.policy, &visitor, now));
        let decision = decide_request(route, &owner.policy, &visitor, now);
        let (status, location) = match decision {
            Decision::Redirect { status, target, cache } => {
                steps.push(Step {
                    step: "answer",
                    result: format!("{} to {target} ({cache})", status.code()),
                });
                (status.code(), Some(target.to_owned()))
            }
            _ => (0, None),
        };
        match ErrorCode::of(&decision) {
            None => Ok(Explanation { address, steps, status, location, error: None }),
            Some(code) => Ok(refused(&address, steps, code)),
        }
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
    async fn owner(&self, host: &str) -> Result<Option<Workspace>, OpsError> {
        let domains = self.store.domains().await?;
        let workspaces = self.store.workspaces().await?;
        let directory = crate::directory::Directory::new(&workspaces, &domains, self.base_domain.as_ref());
        let id = directory.workspace_of(host).map(|view| view.id);
        Ok(workspaces.into_iter().find(|workspace| Some(workspace.id) == id))
    }
}

fn refused(address: &str, mut steps: Vec<Step>, code: ErrorCode) -> Explanation {
    steps.push(Step { step: "answer", result: format!("{} {}", code.status(), code.name()) });
    Explanation {
        address: address.to_owned(),
        steps,
        status: code.status(),
        location: None,
        error: Some(code.name()),
    }
}

/// Host and path of a URL, `host/code`, `/code` or `code`.
fn split(question: &str) -> (Option<&str>, String) {
    let path_only = |rest: &str| rest[..rest.find(['?', '#']).unwrap_or(rest.len())].to_owned();
    let rest = match question.split_once("://") {
        Some((_, rest)) => rest,
        None if question.starts_with('/') => return (None, path_only(question)),
        None if !question.contains('/') => return (None, format!("/{}", path_only(question))),
        None => question,
    };
    let slash = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let path = path_only(&rest[slash..]);
    (Some(&rest[..slash]), if path.is_empty() { "/".to_owned() } else { path })
}
