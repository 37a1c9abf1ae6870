//! Members: who is here, and what they may do.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Email, FieldErrors, Id, Role, User, UserStatus};
use rlinks_store::{CreatedWithKeys, StoreError};

use super::super::{PageError, Web, render_page, see_other};
use super::{ConfirmPage, ConfirmRevocationPage, describe_created, flash_text, is_confirmed};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage, Form};
use rlinks_ops::Caller;
use rlinks_ops::members::{Invitation, KeysOnReset, MemberPatch};
use rlinks_ops::{OpsError, Resource};

/// Members on a page.
const PAGE_SIZE: usize = 50;

/// What each role may do, in words.
const ROLE_OPTIONS: [(Role, &str); 3] = [
    (Role::Viewer, "sees links and statistics"),
    (Role::Member, "also makes, changes and deletes links, and keeps keys of their own"),
    (Role::Admin, "may do everything, this page included"),
];

const FLASH_TEXTS: [(&str, &str); 4] = [
    ("role", "The role was changed. It holds from the next request on."),
    (
        "suspended",
        "The member was suspended: their sessions and keys open nothing until they are let in again.",
    ),
    ("activated", "The member can sign in again."),
    ("deleted", "The account was deleted. Its address and name are forgotten, its keys are gone."),
];

#[derive(Template)]
#[template(path = "workspace/members.html")]
struct MembersPage<'a> {
    current: &'a CurrentSession,
    done: Option<&'static str>,
    problem: Option<String>,
    /// Somebody who has just been invited.
    invited: Option<(User, Invitation)>,
    members: Vec<User>,
    next: Option<Id>,
    email: &'a str,
    full_name: &'a str,
    role: Role,
    errors: FieldErrors,
}

impl<'a> MembersPage<'a> {
    async fn new(web: &Web, current: &'a CurrentSession, after: Option<Id>) -> Result<Self, PageError> {
        let limit = i64::try_from(PAGE_SIZE).unwrap_or(i64::MAX) + 1;
        let mut members = web.store.users(current.workspace.id, after, limit).await?;
        let more = members.len() > PAGE_SIZE;
        members.truncate(PAGE_SIZE);
        let next = members.last().filter(|_| more).map(|user| user.id);
        Ok(Self {
            current,
            done: None,
            problem: None,
            invited: None,
            members,
            next,
            email: "",
            full_name: "",
            role: Role::Member,
            errors: FieldErrors::default(),
        })
    }
}

/// The members, and the form to invite another.
pub async fn show(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, current, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let after = request.query_param("after").and_then(|text| text.parse().ok()).map(Id::from_i64);
    let shown = MembersPage::new(&web, &current, after).await?;
    render_page(&MembersPage { done: flash_text(&request, &FLASH_TEXTS), ..shown })
}

/// The page once more, saying why something was not done.
async fn members_page_error(web: &Web, current: &CurrentSession, error: OpsError) -> PageError {
    let problem = match error {
        OpsError::Store(StoreError::NameTaken(_)) => {
            PageError::with_message(ErrorCode::Conflict, "A member has this e-mail address already")
        }
        other => other.into(),
    };
    match MembersPage::new(web, current, None).await {
        Ok(shown) if problem.code == ErrorCode::Conflict => {
            let shown = MembersPage { problem: Some(problem.message.clone()), ..shown };
            problem.rendered_in(&shown, None)
        }
        _ => problem,
    }
}

/// Makes somebody a member, and shows the address to send them, this once.
pub async fn invite(
    State(web): State<Arc<Web>>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let mut errors = FieldErrors::default();
    let email = errors.ok_or_push(Email::parse(form.get("email")));
    let full_name = errors.ok_or_push(User::parse_name(form.get("full_name")));
    let role = errors.ok_or_push(form.get("role").parse::<Role>());
    let (Some(email), Some(full_name), Some(role)) = (email, full_name, role) else {
        let shown = MembersPage::new(&web, &current, None).await?;
        let (email, full_name) = (form.get("email"), form.get("full_name"));
        let role = role.unwrap_or(Role::Member);
        let shown = MembersPage { email, full_name, role, errors, ..shown };
        return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&shown, None));
    };
    let invited = web.ops.invite(&caller, email, full_name, role).await;
    let invited = match invited {
        Ok(invited) => invited,
        Err(error) => return Err(members_page_error(&web, &current, error).await),
    };
    let shown = MembersPage::new(&web, &current, None).await?;
    render_page(&MembersPage { invited: Some(invited), ..shown })
}

/// Invites a member once more, once that was confirmed; who has signed in before has it reset.
pub async fn invite_again(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    if web.store.has_signed_in(&user).await? {
        return reset_sign_in(&web, &current, &caller, &user, &form).await;
    }
    if !is_confirmed(&form) {
        return ConfirmPage {
            current: &current,
            title: format!("Invite {} once more?", display_name(&user)),
            words: vec![
                "There will be a new address to send them. An earlier invitation no longer works.".to_owned(),
                "Whoever opens it chooses how this account signs in.".to_owned(),
            ],
            action: format!("/admin/members/{}/invite", user.id),
            fields: Vec::new(),
            button: "Invite once more",
            back: "/admin/members",
        }
        .respond();
    }
    let invitation = match web.ops.reinvite(&caller, &user).await {
        Ok(invitation) => invitation,
        Err(error) => return Err(members_page_error(&web, &current, error).await),
    };
    let shown = MembersPage::new(&web, &current, None).await?;
    render_page(&MembersPage { invited: Some((user, invitation)), ..shown })
}

/// Ends what a member signs in with and shows their new invitation, once that was confirmed.
async fn reset_sign_in(
    web: &Web,
    current: &CurrentSession,
    caller: &Caller,
    user: &User,
    form: &Form,
) -> Result<Response, PageError> {
    if !is_confirmed(form) {
        let (keys, created) = match web.ops.keys_ended_by_reset(caller, user).await {
            Ok(found) => found,
            Err(error) => return Err(members_page_error(web, current, error).await),
        };
        let mut words = vec![
            "Their sessions and their password end at once, and their account at an identity provider is no longer linked to this one."
                .to_owned(),
            "There will be an invitation to send them. Whoever opens it chooses how this account signs in from then on.".to_owned(),
            "The audit log names you, and they are told at their next sign-in.".to_owned(),
        ];
        if is_self(caller, user) {
            words.insert(
                0,
                "This is your own account: you are signed out at once, and need the invitation to come back."
                    .to_owned(),
            );
        }
        let mut ends_too = describe_created(&CreatedWithKeys { keys, ..CreatedWithKeys::default() });
        ends_too.extend(describe_created(&created));
        return ConfirmRevocationPage {
            current,
            title: format!("Reset the sign-in of {}?", display_name(user)),
            words,
            action: format!("/admin/members/{}/invite", user.id),
            ends_too_title: "Their keys end too, with what was made with them:",
            ends_too,
            more: 0,
            keep: ("keep_keys", "Keep their keys"),
            button: "Reset sign-in",
            back: "/admin/members",
        }
        .respond();
    }
    let keys = if form.get("keep_keys") == "yes" { KeysOnReset::Keep } else { KeysOnReset::Revoke };
    let invitation = match web.ops.reset_sign_in(caller, user, keys).await {
        Ok((invitation, _)) => invitation,
        Err(error) => return Err(members_page_error(web, current, error).await),
    };
    let shown = MembersPage::new(web, current, None).await?;
    render_page(&MembersPage { invited: Some((user.clone(), invitation)), ..shown })
}

/// A member by the id in the address, and by nothing else.
pub(super) async fn find_member(web: &Web, caller: &Caller, id: &str) -> Result<User, PageError> {
    if id.parse::<i64>().is_err() {
        return Err(PageError::from(OpsError::NotFound(Resource::User(id.to_owned()))));
    }
    web.ops.member(&caller.workspace, id).await.map_err(PageError::from)
}

/// Whether somebody is about to take from themselves what lets them be here.
fn is_self(caller: &Caller, user: &User) -> bool {
    caller.member() == Some(user.id)
}

/// How a member is called in a question.
pub(super) fn display_name(user: &User) -> String {
    if user.full_name.is_empty() {
        user.email.to_string()
    } else {
        format!("{} ({})", user.full_name, user.email)
    }
}

async fn apply(
    web: &Web,
    current: &CurrentSession,
    caller: &Caller,
    seen: &User,
    patch: MemberPatch,
    said: &str,
) -> Result<Response, PageError> {
    match web.ops.change_member(caller, seen, &patch).await {
        Ok(_) => Ok(see_other(&format!("/admin/members?done={said}"), None)),
        Err(error) => Err(members_page_error(web, current, error).await),
    }
}

/// Gives a member another role. Who takes it from themselves is asked.
pub async fn change_role(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    let role = form.get("role").parse::<Role>();
    let role = role.map_err(|error| {
        PageError::with_message(ErrorCode::ValidationFailed, format!("The role {}", error.message))
    })?;
    if is_self(&caller, &user) && role < Role::Admin && !is_confirmed(&form) {
        return ConfirmPage {
            current: &current,
            title: format!("Become {role} yourself?"),
            words: vec![
                "You can no longer open this page then; only another admin can give the role back."
                    .to_owned(),
            ],
            action: format!("/admin/members/{}/role", user.id),
            fields: vec![("role", role.to_string())],
            button: "Change my role",
            back: "/admin/members",
        }
        .respond();
    }
    apply(&web, &current, &caller, &user, MemberPatch { role: Some(role), ..MemberPatch::default() }, "role")
        .await
}

/// Keeps a member out, once that was confirmed.
pub async fn suspend(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    if !is_confirmed(&form) {
        let mut words = vec![
            "Their sessions and keys open nothing from the next request on. Their links stay and keep answering.".to_owned(),
            "You can let them in again at any time.".to_owned(),
        ];
        if is_self(&caller, &user) {
            words.insert(0, "This is your own account: you would be signed out at once.".to_owned());
        }
        return ConfirmPage {
            current: &current,
            title: format!("Suspend {}?", display_name(&user)),
            words,
            action: format!("/admin/members/{}/suspend", user.id),
            fields: Vec::new(),
            button: "Suspend",
            back: "/admin/members",
        }
        .respond();
    }
    let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
    apply(&web, &current, &caller, &user, patch, "suspended").await
}

/// Lets a member in again.
pub async fn activate(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let user = find_member(&web, &caller, &id).await?;
    let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
    apply(&web, &current, &caller, &user, patch, "activated").await
}

/// What becomes of somebody's links when they go.
pub(crate) fn links_after_removal(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Owner => {
            "In this workspace links are their owner's alone: they are deleted with the account, and stop answering."
        }
        Visibility::Workspace => "The links stay the workspace's and keep answering.",
    }
}

/// Deletes an account, once that was confirmed.
pub async fn remove(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    submitted: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let AuthorizedForm { current, caller, form, .. } = submitted;
    let user = find_member(&web, &caller, &id).await?;
    if is_self(&caller, &user) {
        // There one is asked for one's password.
        return Ok(see_other("/admin/account#delete-title", None));
    }
    if !is_confirmed(&form) {
        return confirm_removal(&current, &caller, &user);
    }
    if let Err(error) = web.ops.remove_member(&caller, &user).await {
        return Err(members_page_error(&web, &current, error).await);
    }
    Ok(see_other("/admin/members?done=deleted", None))
}

fn confirm_removal(current: &CurrentSession, caller: &Caller, user: &User) -> Result<Response, PageError> {
    let words = vec![
        "The address and the name are forgotten, the keys are gone. This cannot be undone; suspending can."
            .to_owned(),
        links_after_removal(caller.workspace.policy.visibility).to_owned(),
    ];
    ConfirmPage {
        current,
        title: format!("Delete the account of {}?", display_name(user)),
        words,
        action: format!("/admin/members/{}/delete", user.id),
        fields: Vec::new(),
        button: "Delete the account",
        back: "/admin/members",
    }
    .respond()
}
