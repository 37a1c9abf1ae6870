//! `rmax users`: members of a workspace.

mod password;
mod sessions;

use rlinks_core::{Email, FieldErrors, Role, User, UserStatus};
use rlinks_ops::members::{KeysOnReset, MemberPatch};
use rlinks_wire::member::{Invitation, Member};
use serde_json::json;

use self::password::PasswordSource;
use crate::args::Users;
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{Confirmation, confirm, is_interactive};

/// Members read at once.
const PAGE_SIZE: i64 = 500;

pub(crate) async fn run(backend: &Backend, command: Users) -> Result<(), CliError> {
    match command {
        Users::Create { email, name, role, password_stdin } => {
            create(backend, &email, &name, &role, password_stdin.then_some(PasswordSource::Stdin)).await
        }
        Users::Invite { user } => invite_again(backend, &user).await,
        Users::List => list(backend).await,
        Users::Role { user, role } => {
            let patch = MemberPatch { role: Some(role.parse()?), ..MemberPatch::default() };
            change(backend, &user, &patch, "changed").await
        }
        Users::Suspend { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
            change(backend, &user, &patch, "suspended").await
        }
        Users::Activate { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
            change(backend, &user, &patch, "activated").await
        }
        Users::Password { user, password_stdin } => {
            let source = if password_stdin { PasswordSource::Stdin } else { PasswordSource::Prompt };
            password::set(backend, &user, source).await
        }
        Users::ResetSignIn { user, keep_keys, yes } => {
            let keys = if keep_keys { KeysOnReset::Keep } else { KeysOnReset::Revoke };
            sessions::reset(backend, &user, keys, yes).await
        }
        Users::Sessions { user } => sessions::list(backend, &user).await,
        Users::SignOut { user, session: None } => sessions::end_all(backend, &user).await,
        Users::SignOut { user, session: Some(session) } => sessions::end_one(backend, &user, &session).await,
        Users::Delete { user, yes } => delete(backend, &user, yes).await,
    }
}

async fn create(
    backend: &Backend,
    email: &str,
    name: &str,
    role: &str,
    password: Option<PasswordSource>,
) -> Result<(), CliError> {
    let mut errors = FieldErrors::default();
    let email = errors.ok_or_push(Email::parse(email));
    let name = errors.ok_or_push(User::parse_name(name));
    let role = errors.ok_or_push(role.parse::<Role>());
    let (Some(email), Some(name), Some(role)) = (email, name, role) else { return Err(errors.into()) };
    if let Some(source) = password {
        return password::create(backend, (email, name, role), source).await;
    }
    let (invited, workspace) = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async { Ok(local.ops.invite(&caller, email, name, role).await?) };
            let (user, invitation) = local.change(change).await?;
            let invited = Invitation {
                user: Member::from(&user),
                invite_url: invitation.url,
                invite_expires_at: invitation.expires_at,
            };
            (invited, workspace.slug.to_string())
        }
        Backend::Server(client) => {
            let workspace = client.workspace().await?;
            (client.invite(&email, &name, role).await?, workspace)
        }
    };
    let output = backend.output();
    if output.json {
        return output.object(&json!(invited));
    }
    output.line(&invited.invite_url)?;
    let Member { email, role, .. } = &invited.user;
    output.note(&format!(
        "{email} is {role} of {workspace} now; the invitation works once, until {}",
        invited.invite_expires_at
    ));
    Ok(())
}

async fn invite_again(backend: &Backend, who: &str) -> Result<(), CliError> {
    let local = match backend {
        Backend::Store(local) => local,
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Server(_) => {
            return Err(CliError::usage(
                "members are invited once more where the store is, not through a server",
            )
            .hint("admins do it at /admin/members too"));
        }
    };
    let workspace = local.workspace().await?;
    let user = local.ops.member(&workspace, who).await?;
    let caller = local.caller_in(&workspace);
    let change = async { Ok(local.ops.reinvite(&caller, &user).await?) };
    let invitation = local.change(change).await?;
    let output = backend.output();
    if output.json {
        return output.object(&json!(Invitation {
            user: Member::from(&user),
            invite_url: invitation.url,
            invite_expires_at: invitation.expires_at,
        }));
    }
    output.line(&invitation.url)?;
    output.note(&format!(
        "{} is invited once more; the invitation works once, until {}, and an earlier one no longer",
        user.email, invitation.expires_at
    ));
    Ok(())
}

async fn list(backend: &Backend) -> Result<(), CliError> {
    let output = backend.output();
    let users = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => list_stored(local).await?,
        Backend::Server(client) => client.users().await?,
    };
    if output.json {
        return output.object(&json!(users));
    }
    if users.is_empty() {
        output.note("no members; `rmax users create --email <address>` invites one");
        return Ok(());
    }
    let row = |user: &Member| {
        vec![
            user.id.to_string(),
            user.email.to_string(),
            user.full_name.clone(),
            user.role.to_string(),
            user.status.to_string(),
            user.last_login_at.map(|at| at.to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    output.table(&["ID", "EMAIL", "NAME", "ROLE", "STATUS", "LAST SIGN-IN"], &rows)
}

async fn list_stored(local: &LocalStore) -> Result<Vec<Member>, CliError> {
    let workspace = local.workspace().await?;
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let page = local.store().users(workspace.id, after, PAGE_SIZE).await?;
        after = page.last().map(|user| user.id);
        users.extend(page.iter().map(Member::from));
        if after.is_none() || users.len() % usize::try_from(PAGE_SIZE).unwrap_or(1) != 0 {
            return Ok(users);
        }
    }
}

async fn change(backend: &Backend, who: &str, patch: &MemberPatch, done: &str) -> Result<(), CliError> {
    let (seen, user) = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let seen = local.ops.member(&workspace, who).await?;
            let caller = local.caller_in(&workspace);
            let change = async { Ok(local.ops.change_member(&caller, &seen, patch).await?) };
            let user = local.change(change).await?;
            (Member::from(&seen), Member::from(&user))
        }
        Backend::Server(client) => {
            let seen = client.user(who).await?;
            let user = client.change_user(seen.id, patch.role, patch.status).await?;
            (seen, user)
        }
    };
    if backend.output().json {
        return backend.output().object(&json!(user));
    }
    let done = if user == seen { "unchanged" } else { done };
    backend.output().line(&format!("{done} {}: {}, {}", user.email, user.role, user.status))
}

async fn delete(backend: &Backend, who: &str, yes: bool) -> Result<(), CliError> {
    let user = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => Member::from(&local.ops.member(&local.workspace().await?, who).await?),
        Backend::Server(client) => client.user(who).await?,
    };
    let Member { id, email, .. } = &user;
    if !yes && !is_interactive() {
        return Err(CliError::usage("deleting an account needs --yes where nobody can be asked")
            .hint(format!("`rmax users suspend {who}` only locks them out")));
    }
    if !yes {
        let question = format!("Delete the account of {email}? Their address and name are forgotten.");
        if confirm(&question)? == Confirmation::Declined {
            return Err(CliError::failed("nothing was deleted"));
        }
    }
    match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let user = local.ops.member(&workspace, &id.to_string()).await?;
            let change = async { Ok(local.ops.remove_member(&caller, &user).await?) };
            local.change(change).await?;
        }
        Backend::Server(client) => client.delete_user(*id).await?,
    }
    if backend.output().json {
        return backend.output().object(&json!({ "id": id, "deleted": true }));
    }
    backend.output().line(&format!("deleted the account of {email}"))
}
