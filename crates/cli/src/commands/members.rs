//! `rmax users`: members of a workspace.

mod password;

use rlinks_core::{Email, FieldErrors, Role, User, UserStatus};
use rlinks_ops::members::MemberPatch;
use serde_json::json;

use self::password::Asked;
use crate::args::Users;
use crate::backend::Place;
use crate::backend::local_store::Session;
use crate::backend::members::{Invited, Member};
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm};

/// Members read at once.
const PAGE: i64 = 500;

pub(crate) async fn run(place: &Place, command: Users) -> Result<(), Failure> {
    match command {
        Users::Create { email, name, role, password_stdin } => {
            create(place, &email, &name, &role, password_stdin.then_some(Asked::Stdin)).await
        }
        Users::Invite { user } => invite_again(place, &user).await,
        Users::List => list(place).await,
        Users::Role { user, role } => {
            let patch = MemberPatch { role: Some(role.parse()?), ..MemberPatch::default() };
            change(place, &user, &patch, "changed").await
        }
        Users::Suspend { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
            change(place, &user, &patch, "suspended").await
        }
        Users::Activate { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
            change(place, &user, &patch, "activated").await
        }
        Users::Password { user, password_stdin } => {
            let asked = if password_stdin { Asked::Stdin } else { Asked::Prompt };
            password::set(place, &user, asked).await
        }
        Users::SignOut { user } => password::sign_out(place, &user).await,
        Users::Delete { user, yes } => delete(place, &user, yes).await,
    }
}

async fn create(
    place: &Place,
    email: &str,
    name: &str,
    role: &str,
    password: Option<Asked>,
) -> Result<(), Failure> {
    let mut errors = FieldErrors::default();
    let email = errors.ok_or_push(Email::parse(email));
    let name = errors.ok_or_push(User::parse_name(name));
    let role = errors.ok_or_push(role.parse::<Role>());
    let (Some(email), Some(name), Some(role)) = (email, name, role) else { return Err(errors.into()) };
    if let Some(asked) = password {
        return password::create(place, (email, name, role), asked).await;
    }
    let (invited, workspace) = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let by = session.by();
            let change = async { Ok(session.ops.invite(&by, &workspace, email, name, role).await?) };
            let (user, invitation) = session.change(change).await?;
            let invited = Invited {
                user: user.into(),
                invite_url: invitation.url,
                invite_expires_at: invitation.expires_at,
            };
            (invited, workspace.slug.to_string())
        }
        Place::Server(remote) => {
            let workspace = remote.workspace().await?;
            (remote.invite(&email, &name, role).await?, workspace)
        }
    };
    let output = place.output();
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

async fn invite_again(place: &Place, who: &str) -> Result<(), Failure> {
    let session = match place {
        Place::Store(session) => session,
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Server(_) => {
            return Err(Failure::usage(
                "members are invited once more where the store is, not through a server",
            )
            .hint("admins do it at /admin/members too"));
        }
    };
    let workspace = session.workspace().await?;
    let user = session.ops.member(&workspace, who).await?;
    let by = session.by();
    let change = async { Ok(session.ops.invite_again(&by, &user).await?) };
    let invitation = session.change(change).await?;
    let output = place.output();
    if output.json {
        return output.object(&json!(Invited {
            user: user.into(),
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

async fn list(place: &Place) -> Result<(), Failure> {
    let output = place.output();
    let users = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => list_stored(session).await?,
        Place::Server(remote) => remote.users().await?,
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

async fn list_stored(session: &Session) -> Result<Vec<Member>, Failure> {
    let workspace = session.workspace().await?;
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let page = session.store().users(workspace.id, after, PAGE).await?;
        after = page.last().map(|user| user.id);
        users.extend(page.into_iter().map(Member::from));
        if after.is_none() || users.len() % usize::try_from(PAGE).unwrap_or(1) != 0 {
            return Ok(users);
        }
    }
}

async fn change(place: &Place, who: &str, patch: &MemberPatch, done: &str) -> Result<(), Failure> {
    let (seen, user) = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let seen = session.ops.member(&workspace, who).await?;
            let by = session.by();
            let change = async { Ok(session.ops.change_member(&by, &seen, patch).await?) };
            let user = session.change(change).await?;
            (Member::from(seen), Member::from(user))
        }
        Place::Server(remote) => {
            let seen = remote.user(who).await?;
            let user = remote.change_user(seen.id, patch.role, patch.status).await?;
            (seen, user)
        }
    };
    if place.output().json {
        return place.output().object(&json!(user));
    }
    let done = if user == seen { "unchanged" } else { done };
    place.output().line(&format!("{done} {}: {}, {}", user.email, user.role, user.status))
}

async fn delete(place: &Place, who: &str, yes: bool) -> Result<(), Failure> {
    let user = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => session.ops.member(&session.workspace().await?, who).await?.into(),
        Place::Server(remote) => remote.user(who).await?,
    };
    let Member { id, email, .. } = &user;
    if !yes && !can_ask() {
        return Err(Failure::usage("deleting an account needs --yes where nobody can be asked")
            .hint(format!("`rmax users suspend {who}` only locks them out")));
    }
    if !yes {
        let question = format!("Delete the account of {email}? Their address and name are forgotten.");
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was deleted"));
        }
    }
    match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let (by, user) = (session.by(), session.ops.member(&workspace, &id.to_string()).await?);
            let change = async { Ok(session.ops.remove_member(&by, &workspace, &user).await?) };
            session.change(change).await?;
        }
        Place::Server(remote) => remote.delete_user(*id).await?,
    }
    if place.output().json {
        return place.output().object(&json!({ "id": id, "deleted": true }));
    }
    place.output().line(&format!("deleted the account of {email}"))
}
