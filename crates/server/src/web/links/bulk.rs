//! Many links at once. Each stands alone: what cannot be done to one does not stop the others.

use std::fmt::Write as _;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::draft::Input;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{LinkState, Scope};

use crate::auth::authorize::LinksWrite;
use crate::auth::session::CurrentSession;
use crate::web::extract::AuthorizedForm;
use crate::web::links::list::ListPageQuery;
use crate::web::{PageError, Web, flash, render_page, see_other};
use rlinks_ops::Caller;
use rlinks_ops::{LinkResult, OpsError, WriteMode};
use rlinks_store::StoreError;

/// Links changed by one form.
const MAX_BULK_LINKS: usize = 100;
/// Codes the next page can bring back: those of any page of the list, and no more than a cookie holds.
const MAX_UNDO_BYTES: usize = 2800;
/// Before the code, in the names of the boxes.
const CODE_FIELD_PREFIX: &str = "code.";

#[derive(Template)]
#[template(path = "links/confirm_delete.html")]
struct ConfirmDeletePage<'a> {
    current: &'a CurrentSession,
    codes: &'a [&'a str],
    back: &'a str,
}

/// What is to be done to each.
enum BulkAction {
    SetState(LinkState),
    Tag(Vec<String>),
    Untag(Vec<String>),
    Restore,
}

/// Does it, or asks once whether to.
pub async fn apply(
    State(web): State<Arc<Web>>,
    submitted: AuthorizedForm<LinksWrite>,
) -> Result<Response, PageError> {
    let AuthorizedForm { request, current, caller, form, .. } = submitted;
    // Only what a list can be asked for goes back into an address.
    let back = ListPageQuery::parse(form.get("back")).query_string();
    let codes: Vec<&str> = form.names_after(CODE_FIELD_PREFIX).take(MAX_BULK_LINKS).collect();
    let name = form.get("act");
    let back_with = |what: &str| {
        let to = if back.is_empty() { "/admin".to_owned() } else { format!("/admin?{back}") };
        see_other(&to, flash::set(&request.connection, &current, what))
    };
    if codes.is_empty() {
        return Ok(back_with("missing=links"));
    }
    if name == "delete" && form.get("sure") != "yes" {
        return render_page(&ConfirmDeletePage { current: &current, codes: &codes, back: &back });
    }
    let action = match name {
        "enable" => BulkAction::SetState(LinkState::Active),
        "disable" => BulkAction::SetState(LinkState::Disabled),
        "delete" => BulkAction::SetState(LinkState::Deleted),
        "restore" => BulkAction::Restore,
        "tag" => BulkAction::Tag(crate::web::links::link_form::split_tags(form.get("new_tag"))),
        "untag" => BulkAction::Untag(crate::web::links::link_form::split_tags(form.get("new_tag"))),
        _ => return Err(PageError::with_message(ErrorCode::BadRequest, "Choose what to do with the links")),
    };
    if matches!(&action, BulkAction::Tag(tags) | BulkAction::Untag(tags) if tags.is_empty()) {
        return Ok(back_with("missing=tag"));
    }
    if matches!(action, BulkAction::SetState(LinkState::Deleted))
        && !caller.scopes.contains(Scope::LinksDelete)
    {
        return Err(PageError::with_message(
            ErrorCode::Forbidden,
            "Your role does not allow to delete links",
        ));
    }
    let (mut done, mut failed, mut undo) = (0_u32, 0_u32, String::new());
    let mut stop = String::new();
    for (at, code) in codes.iter().enumerate() {
        match action.apply_to(&web, &caller, code).await {
            Ok(changed) => {
                done += 1;
                if changed.link.state == LinkState::Deleted && undo.len() < MAX_UNDO_BYTES {
                    let _ = write!(undo, "&undo={}", changed.link.code);
                }
            }
            // Whoever asks again does not make it better while the store is away.
            Err(error) if error.code() == ErrorCode::KvUnavailable => return Err(error.into()),
            // Nor while they are stopped.
            Err(OpsError::Store(StoreError::RateLimited { seconds, .. })) => {
                stop = format!("&stopped={}&wait={seconds}", codes.len() - at);
                break;
            }
            Err(error) => {
                tracing::debug!(%error, "one link of many was not changed");
                failed += 1;
            }
        }
    }
    Ok(back_with(&format!("act={name}&done={done}&failed={failed}{stop}{undo}")))
}

impl BulkAction {
    async fn apply_to(&self, web: &Web, caller: &Caller, code: &str) -> Result<LinkResult, OpsError> {
        let input = match self {
            Self::SetState(state) => {
                return web.ops.change_state(caller, code, *state, None, WriteMode::Apply).await;
            }
            Self::Restore => return web.ops.restore(caller, code, WriteMode::Apply).await,
            Self::Tag(tags) => Input { add_tags: tags.clone(), ..Input::default() },
            Self::Untag(tags) => Input { remove_tags: tags.clone(), ..Input::default() },
        };
        web.ops.patch(caller, code, &input, None).await
    }
}
