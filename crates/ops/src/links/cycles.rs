//! Cycles among our own links. `--allow-loop` lets a link lead to another of ours; it never lets visitors go in circles.

use rlinks_core::redirect::path::{RequestPath, parse_path};
use rlinks_core::{Code, FieldCode, FieldError, ServedHosts, Target, Workspace};

use crate::{Ops, OpsError};

/// The most links of our own a visitor is led through.
const MAX_HOPS: usize = 10;

impl Ops {
    /// Refuses a target that leads, through links of ours, back to where it started, or through too many of them.
    pub(crate) async fn check_cycle(
        &self,
        workspace: &Workspace,
        code: &Code,
        target: &Target,
        domains: &ServedHosts,
    ) -> Result<(), OpsError> {
        if !domains.contains(target.host()) {
            return Ok(());
        }
        let (workspaces, directory) = self.host_directory().await?;
        let owner = |host: &str| -> Option<&Workspace> {
            // While no domain is configured `main` answers on every host, and only our own is ours.
            let view = directory.workspace_of(host).filter(|_| domains.contains(host))?;
            workspaces.iter().find(|workspace| workspace.id == view.id)
        };
        let mut target = target.clone();
        for _ in 0..MAX_HOPS {
            let Some(next) = owner(target.host()) else { return Ok(()) };
            let Some(link) = (match path_code(&target) {
                Some(code) => self.find_link(next, &code).await?,
                None => None,
            }) else {
                // It leads to no link of ours yet; but if it leads to the very address being written, it will.
                return match path_code(&target) {
                    Some(path) if next.id == workspace.id && is_same(&path, code, workspace) => {
                        Err(cycle_error())
                    }
                    _ => Ok(()),
                };
            };
            if next.id == workspace.id && link.code == *code {
                return Err(cycle_error());
            }
            target = link.target;
        }
        Err(loop_error("leads through more than ten links of our own"))
    }
}

fn path_code(target: &Target) -> Option<String> {
    let url = target.as_str();
    let after_host = &url[target.host_range().1..];
    let path = &after_host[after_host.find('/')?..];
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    match parse_path(path) {
        RequestPath::Code(code) => Some(code.into_owned()),
        _ => None,
    }
}

fn is_same(path: &str, code: &Code, workspace: &Workspace) -> bool {
    path == code.as_str() || (workspace.policy.code.fold_case && path.eq_ignore_ascii_case(code.as_str()))
}

fn cycle_error() -> OpsError {
    loop_error("leads, through links of our own, back to this link: visitors would go in circles")
}

fn loop_error(message: &str) -> OpsError {
    OpsError::Invalid(FieldError::new("target", FieldCode::Loop, message).into())
}
