//! `rmax users`: members of a workspace.

use rlinks_core::{Email, FieldErrors, Role, Timestamp, User, UserStatus};
use rlinks_server::ops::people::MemberPatch;
use serde_json::{Value, json};

use crate::args::Users;
use crate::error::Failure;
use crate::output::{Answer, can_ask, confirm};
use crate::session::Session;

/// Members read at once.
const PAGE: i64 = 500;

pub(super) async fn run(session: &Session, command: Users) -> Result<(), Failure> {
    match command {
        Users::Create { email, name, role } => create(session, &email, &name, &role).await,
        Users::List => list(session).await,
        Users::Role { user, role } => {
            let patch = MemberPatch { role: Some(role.parse()?), ..MemberPatch::default() };
            change(session, &user, &patch, "changed").await
        }
        Users::Suspend { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
            change(session, &user, &patch, "suspended").await
        }
        Users::Activate { user } => {
            let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
            change(session, &user, &patch, "activated").await
        }
        Users::Delete { user, yes } => delete(session, &user, yes).await,
    }
}

/// A member as programs see them.
fn object(user: &User) -> Value {
    json!({
        "id": user.id, "email": user.email, "full_name": user.full_name, "role": user.role, "status": user.status,
        "created_at": user.created_at, "updated_at": user.updated_at, "last_login_at": user.last_login_at,
        "last_sync_at": user.last_sync_at,
    })
}

async fn create(session: &Session, email: &str, name: &str, role: &str) -> Result<(), Failure> {
    let mut errors = FieldErrors::default();
    let email = errors.take(Email::parse(email));
    let name = errors.take(User::parse_name(name));
    let role = errors.take(role.parse::<Role>());
    let (Some(email), Some(name), Some(role)) = (email, name, role) else { return Err(errors.into()) };
    let workspace = session.workspace().await?;
    let by = session.by();
    let change = async { Ok(session.ops.invite(&by, &workspace, email, name, role).await?) };
    let (user, invitation) = session.change(change).await?;
    if session.output.json {
        let mut body = object(&user);
        body["invite_url"] = invitation.url.into();
        body["invite_expires_at"] = json!(invitation.expires_at);
        return session.output.object(&body);
    }
    session.output.line(&invitation.url)?;
    session.output.note(&format!(
        "{} is a {} of {} now; the invitation works once, until {}",
        user.email, user.role, workspace.slug, invitation.expires_at
    ));
    Ok(())
}

async fn list(session: &Session) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let (mut users, mut after) = (Vec::new(), None);
    loop {
        let page = session.store().users(workspace.id, after, PAGE).await?;
        after = page.last().map(|user| user.id);
        users.extend(page);
        if after.is_none() || users.len() % usize::try_from(PAGE).unwrap_or(1) != 0 {
            break;
        }
    }
    if session.output.json {
        return session.output.object(&users.iter().map(object).collect::<Vec<_>>());
    }
    if users.is_empty() {
        session.output.note("no members; `rmax users create --email <address>` invites one");
        return Ok(());
    }
    let row = |user: &User| {
        vec![
            user.id.to_string(),
            user.email.to_string(),
            user.full_name.clone(),
            user.role.to_string(),
            user.status.to_string(),
            user.last_login_at.map(|at: Timestamp| at.to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    session.output.table(&["ID", "EMAIL", "NAME", "ROLE", "STATUS", "LAST SIGN-IN"], &rows)
}

async fn change(session: &Session, who: &str, patch: &MemberPatch, done: &str) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let seen = session.ops.member(&workspace, who).await?;
    let by = session.by();
    let change = async { Ok(session.ops.change_member(&by, &seen, patch).await?) };
    let user = session.change(change).await?;
    if session.output.json {
        return session.output.object(&object(&user));
    }
    let done = if user == seen { "unchanged" } else { done };
    session.output.line(&format!("{done} {}: {}, {}", user.email, user.role, user.status))
}

async fn delete(session: &Session, who: &str, yes: bool) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let user = session.ops.member(&workspace, who).await?;
    if !yes && !can_ask() {
        return Err(Failure::usage("deleting an account needs --yes where nobody can be asked")
            .hint(format!("`rmax users suspend {who}` only locks them out")));
    }
    if !yes {
        let question = format!("Delete the account of {}? Their address and name are forgotten.", user.email);
        if confirm(&question)? == Answer::No {
            return Err(Failure::failed("nothing was deleted"));
        }
    }
    let by = session.by();
    let change = async { Ok(session.ops.remove_member(&by, &workspace, &user).await?) };
    session.change(change).await?;
    if session.output.json {
        return session.output.object(&json!({ "id": user.id, "deleted": true }));
    }
    session.output.line(&format!("deleted the account of {}", user.email))
}
