//! Passwords of members. Only where the store is: through a server everybody changes their own, at the dashboard.

use std::io::{BufRead as _, Read as _};

use rlinks_core::{Email, FieldError, Password, Role};
use rlinks_store::NewUser;
use serde_json::json;

use super::Member;
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::is_interactive;

/// More than any password: what is longer is not read to its end.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// Where a password comes from. Never from the command line: others could read it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordSource {
    /// The first line of what is piped in.
    Stdin,
    /// Somebody at a terminal, twice.
    Prompt,
}

/// Makes somebody a member who signs in with a password.
pub(crate) async fn create(
    backend: &Backend,
    (email, name, role): (Email, String, Role),
    source: PasswordSource,
) -> Result<(), CliError> {
    let local = store(backend)?;
    let password = read(source)?;
    let workspace = local.workspace().await?;
    let caller = local.caller_in(&workspace);
    let new = NewUser { workspace: workspace.id, email, full_name: name, role };
    let change = async { Ok(local.ops.add_member(&caller, new, password).await?) };
    let user = local.change(change).await?;
    let output = backend.output();
    if output.json {
        return output.object(&json!(Member::from(&user)));
    }
    output.line(&format!("{} joined {} as {} and can sign in", user.email, workspace.slug, user.role))
}

/// Gives a member a password.
pub(crate) async fn set(backend: &Backend, who: &str, source: PasswordSource) -> Result<(), CliError> {
    let local = store(backend)?;
    let workspace = local.workspace().await?;
    let user = local.ops.member(&workspace, who).await?;
    let password = read(source)?;
    let caller = local.caller_in(&workspace);
    let change = async { Ok(local.ops.set_password(&caller, &user, password).await?) };
    local.change(change).await?;
    let output = backend.output();
    if output.json {
        return output.object(&json!(Member::from(&user)));
    }
    output.line(&format!("changed the password of {}; they are signed out everywhere", user.email))
}

fn store(backend: &Backend) -> Result<&LocalStore, CliError> {
    match backend {
        Backend::Store(local) => Ok(local),
        Backend::Cloudflare(_) => Err(CliError::needs_store()),
        Backend::Server(_) => {
            Err(CliError::usage("passwords of others are changed where the store is, not through a server")
                .hint("members change their own password at /admin/account; `rmax users create` invites"))
        }
    }
}

fn read(source: PasswordSource) -> Result<Password, CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("the password cannot be read: {error}"));
    let text = match source {
        PasswordSource::Stdin => {
            let mut line = String::new();
            std::io::stdin().lock().take(MAX_PASSWORD_BYTES).read_line(&mut line).map_err(cannot)?;
            line.trim_end_matches(['\n', '\r']).to_owned()
        }
        PasswordSource::Prompt if !is_interactive() => {
            return Err(CliError::usage("nobody can be asked for a password here")
                .hint("give it with --password-stdin"));
        }
        PasswordSource::Prompt => {
            let first = rpassword::prompt_password("Password (12 to 128 characters): ").map_err(cannot)?;
            let second = rpassword::prompt_password("Once more: ").map_err(cannot)?;
            if first != second {
                return Err(CliError::failed("the two were not the same; nothing was changed"));
            }
            first
        }
    };
    Password::parse(&text).map_err(|error: FieldError| error.into())
}
