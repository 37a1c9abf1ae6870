//! Where a member is signed in, an end to it, and the reset of their sign-in.

use rlinks_ops::members::KeysOnReset;
use rlinks_ops::sessions::SessionsToEnd;
use rlinks_wire::member::{Invitation, Member};
use rlinks_wire::session::Session;
use serde_json::json;

use crate::backend::Backend;
use crate::error::CliError;
use crate::output::{Confirmation, confirm, is_interactive, pluralize};

pub(crate) async fn list(backend: &Backend, who: &str) -> Result<(), CliError> {
    let sessions = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let user = local.ops.member(&workspace, who).await?;
            let sessions = local.ops.sessions_of(&local.caller_in(&workspace), &user).await?;
            sessions.iter().map(shown).collect()
        }
        Backend::Server(client) => client.sessions(client.user(who).await?.id).await?,
    };
    let output = backend.output();
    if output.json {
        return output.object(&json!(sessions));
    }
    if sessions.is_empty() {
        output.note(&format!("{who} is signed in nowhere"));
        return Ok(());
    }
    let row = |session: &Session| {
        vec![
            session.id.clone(),
            session.method.clone(),
            session.network.clone(),
            session.created_at.to_string(),
            session.last_used_at.to_string(),
            session.agent.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = sessions.iter().map(row).collect();
    output.table(&["ID", "METHOD", "NETWORK", "SINCE", "LAST USED", "BROWSER"], &rows)
}

fn shown(session: &rlinks_store::Session) -> Session {
    Session {
        id: session.public_id(),
        current: false,
        agent: session.agent.clone(),
        network: session.network.clone(),
        method: session.how.name().to_owned(),
        created_at: session.created_at,
        last_used_at: session.seen_at,
        expires_at: session.expires_at,
    }
}

/// Ends every session of a member.
pub(crate) async fn end_all(backend: &Backend, who: &str) -> Result<(), CliError> {
    let (user, ended) = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let user = local.ops.member(&workspace, who).await?;
            let caller = local.caller_in(&workspace);
            let end = async { Ok(local.ops.end_sessions(&caller, &user, SessionsToEnd::All).await?) };
            let ended = local.change(end).await?;
            (Member::from(&user), ended)
        }
        Backend::Server(client) => {
            let user = client.user(who).await?;
            let ended = client.sessions(user.id).await?.len() as u64;
            client.end_sessions(user.id).await?;
            (user, ended)
        }
    };
    let output = backend.output();
    if output.json {
        return output.object(&json!({ "id": user.id, "sessions_ended": ended }));
    }
    output.line(&format!("signed {} out everywhere; sessions ended: {ended}", user.email))
}

/// Ends one session of a member.
pub(crate) async fn end_one(backend: &Backend, who: &str, session: &str) -> Result<(), CliError> {
    let user = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let user = local.ops.member(&workspace, who).await?;
            let caller = local.caller_in(&workspace);
            local.change(async { Ok(local.ops.end_session(&caller, &user, session).await?) }).await?;
            Member::from(&user)
        }
        Backend::Server(client) => {
            let user = client.user(who).await?;
            client.end_session(user.id, session).await?;
            user
        }
    };
    let output = backend.output();
    if output.json {
        return output.object(&json!({ "id": user.id, "session": session, "sessions_ended": 1 }));
    }
    output.line(&format!("ended session {session} of {}", user.email))
}

/// Ends what a member signs in with, and prints the invitation that takes its place.
pub(crate) async fn reset(
    backend: &Backend,
    who: &str,
    keys: KeysOnReset,
    yes: bool,
) -> Result<(), CliError> {
    let local = match backend {
        Backend::Store(local) => local,
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Server(_) => {
            return Err(CliError::usage("sign-ins are reset where the store is, not through a server")
                .hint("admins do it at /admin/members too"));
        }
    };
    let workspace = local.workspace().await?;
    let user = local.ops.member(&workspace, who).await?;
    let caller = local.caller_in(&workspace);
    if !yes && !is_interactive() {
        return Err(CliError::usage("resetting a sign-in needs --yes where nobody can be asked")
            .hint("`--keep-keys` lets their keys go on"));
    }
    if !yes {
        let (own, created) = local.ops.keys_ended_by_reset(&caller, &user).await?;
        let ending = match keys {
            KeysOnReset::Revoke => {
                let keys = pluralize((own.len() + created.keys.len()) as u64, "key");
                let invitations = pluralize(created.invitations.len() as u64, "invitation");
                format!(", with {keys} and {invitations} made with them")
            }
            KeysOnReset::Keep => String::new(),
        };
        let question = format!("End the sessions and the password of {}{ending}?", user.email);
        if confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was changed"));
        }
    }
    let change = async { Ok(local.ops.reset_sign_in(&caller, &user, keys).await?) };
    let (invitation, ended) = local.change(change).await?;
    let output = backend.output();
    if output.json {
        let mut body = json!(Invitation {
            user: Member::from(&user),
            invite_url: invitation.url,
            invite_expires_at: invitation.expires_at,
        });
        body["ended"] = json!(ended);
        return output.object(&body);
    }
    output.line(&invitation.url)?;
    output.note(&format!(
        "{} can sign in no more but by this invitation, once, until {}; sessions ended: {}, keys: {}, invitations: {}",
        user.email, invitation.expires_at, ended.sessions, ended.keys, ended.invitations
    ));
    Ok(())
}
