//! Passwords and sessions of members. Only where the store is: through a server everybody changes their own, at the dashboard.

use std::io::{BufRead as _, Read as _};

use rlinks_core::{Email, FieldError, Password, Role};
use rlinks_store::NewUser;
use serde_json::json;

use super::Member;
use crate::backend::Place;
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::can_ask;

/// More than any password: what is longer is not read to its end.
const MOST_BYTES: u64 = 4096;

/// Where a password comes from. Never from the command line: others could read it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The first line of what is piped in.
    Stdin,
    /// Somebody at a terminal, twice.
    Prompt,
}

/// Makes somebody a member who signs in with a password.
pub(crate) async fn create(
    place: &Place,
    (email, name, role): (Email, String, Role),
    asked: Asked,
) -> Result<(), Failure> {
    let session = store(place)?;
    let password = read(asked)?;
    let workspace = session.workspace().await?;
    let by = session.by();
    let new = NewUser { workspace: workspace.id, email, full_name: name, role };
    let change = async { Ok(session.ops.add_member(&by, &workspace, new, password).await?) };
    let user = session.change(change).await?;
    let output = place.output();
    if output.json {
        return output.object(&json!(Member::from(user)));
    }
    output.line(&format!("{} joined {} as {} and can sign in", user.email, workspace.slug, user.role))
}

/// Gives a member a password.
pub(crate) async fn set(place: &Place, who: &str, asked: Asked) -> Result<(), Failure> {
    let session = store(place)?;
    let workspace = session.workspace().await?;
    let user = session.ops.member(&workspace, who).await?;
    let password = read(asked)?;
    let by = session.by();
    let change = async { Ok(session.ops.set_password(&by, &workspace, &user, password).await?) };
    session.change(change).await?;
    let output = place.output();
    if output.json {
        return output.object(&json!(Member::from(user)));
    }
    output.line(&format!("changed the password of {}; they are signed out everywhere", user.email))
}

/// Ends every session of a member.
pub(crate) async fn sign_out(place: &Place, who: &str) -> Result<(), Failure> {
    let session = store(place)?;
    let workspace = session.workspace().await?;
    let user = session.ops.member(&workspace, who).await?;
    let by = session.by();
    let ended = session.change(async { Ok(session.ops.sign_out(&by, &user).await?) }).await?;
    let output = place.output();
    if output.json {
        return output.object(&json!({ "id": user.id, "sessions_ended": ended }));
    }
    output.line(&format!("signed {} out everywhere; sessions ended: {ended}", user.email))
}

fn store(place: &Place) -> Result<&Session, Failure> {
    match place {
        Place::Store(session) => Ok(session),
        Place::Cloudflare(_) => Err(Failure::needs_store()),
        Place::Server(_) => Err(Failure::usage(
            "passwords and sessions of others are changed where the store is, not through a server",
        )
        .hint("members change their own password at /admin/account; `rmax users create` invites")),
    }
}

fn read(asked: Asked) -> Result<Password, Failure> {
    let cannot = |error: std::io::Error| Failure::failed(format!("the password cannot be read: {error}"));
    let text = match asked {
        Asked::Stdin => {
            let mut line = String::new();
            std::io::stdin().lock().take(MOST_BYTES).read_line(&mut line).map_err(cannot)?;
            line.trim_end_matches(['\n', '\r']).to_owned()
        }
        Asked::Prompt if !can_ask() => {
            return Err(Failure::usage("nobody can be asked for a password here")
                .hint("give it with --password-stdin"));
        }
        Asked::Prompt => {
            let first = rpassword::prompt_password("Password (12 to 128 characters): ").map_err(cannot)?;
            let second = rpassword::prompt_password("Once more: ").map_err(cannot)?;
            if first != second {
                return Err(Failure::failed("the two were not the same; nothing was changed"));
            }
            first
        }
    };
    Password::parse(&text).map_err(|error: FieldError| error.into())
}
