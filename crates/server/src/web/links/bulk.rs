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
use crate::auth::caller::Caller;
use crate::auth::session::Signed;
use crate::web::extract::Doing;
use crate::web::links::list::Wanted;
use crate::web::{Problem, Web, flash, page, see_other};
use rlinks_ops::{Done, Mode, OpsError};

/// Links changed by one form.
const MOST: usize = 100;
/// Codes the next page can bring back: those of any page of the list, and no more than a cookie holds.
const MOST_BYTES_OF_UNDO: usize = 2800;
/// Before the code, in the names of the boxes.
const BOX: &str = "code.";

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage<'a> {
    signed: &'a Signed,
    codes: &'a [&'a str],
    back: &'a str,
}

/// What is to be done to each.
enum Act {
    Switch(LinkState),
    Tag(Vec<String>),
    Untag(Vec<String>),
    Restore,
}

/// Does it, or asks once whether to.
pub async fn act(State(web): State<Arc<Web>>, doing: Doing<LinksWrite>) -> Result<Response, Problem> {
    let Doing { visit, signed, caller, form, .. } = doing;
    // Only what a list can be asked for goes back into an address.
    let back = Wanted::parse(form.get("back")).address();
    let codes: Vec<&str> = form.after(BOX).take(MOST).collect();
    let name = form.get("act");
    let back_with = |what: &str| {
        let to = if back.is_empty() { "/admin".to_owned() } else { format!("/admin?{back}") };
        see_other(&to, flash::tell(&visit.way, &signed, what))
    };
    if codes.is_empty() {
        return Ok(back_with("missing=links"));
    }
    if name == "delete" && form.get("sure") != "yes" {
        return page(&ConfirmPage { signed: &signed, codes: &codes, back: &back });
    }
    let act = match name {
        "enable" => Act::Switch(LinkState::Active),
        "disable" => Act::Switch(LinkState::Disabled),
        "delete" => Act::Switch(LinkState::Deleted),
        "restore" => Act::Restore,
        "tag" => Act::Tag(crate::web::links::link_form::tags(form.get("new_tag"))),
        "untag" => Act::Untag(crate::web::links::link_form::tags(form.get("new_tag"))),
        _ => return Err(Problem::saying(ErrorCode::BadRequest, "Choose what to do with the links")),
    };
    if matches!(&act, Act::Tag(tags) | Act::Untag(tags) if tags.is_empty()) {
        return Ok(back_with("missing=tag"));
    }
    if matches!(act, Act::Switch(LinkState::Deleted)) && !caller.scopes.has(Scope::LinksDelete) {
        return Err(Problem::saying(ErrorCode::Forbidden, "Your role does not allow to delete links"));
    }
    let (mut done, mut failed, mut undo) = (0_u32, 0_u32, String::new());
    for code in codes {
        match act.on(&web, &caller, code).await {
            Ok(changed) => {
                web.api.learn(&changed.link);
                done += 1;
                if changed.link.state == LinkState::Deleted && undo.len() < MOST_BYTES_OF_UNDO {
                    let _ = write!(undo, "&undo={}", changed.link.code);
                }
            }
            // Whoever asks again does not make it better while the store is away.
            Err(error) if error.code() == ErrorCode::KvUnavailable => return Err(error.into()),
            Err(error) => {
                tracing::debug!(%error, "one link of many was not changed");
                failed += 1;
            }
        }
    }
    Ok(back_with(&format!("act={name}&done={done}&failed={failed}{undo}")))
}

impl Act {
    async fn on(&self, web: &Web, caller: &Caller, code: &str) -> Result<Done, OpsError> {
        let (ops, by, workspace) = (&web.api.ops, &caller.by, &caller.workspace);
        let tags = match self {
            Self::Switch(LinkState::Deleted) => return ops.delete(by, workspace, code, None).await,
            Self::Switch(state) => Input { state: Some(*state), ..Input::default() },
            Self::Restore => return ops.restore(by, workspace, code, Mode::Write).await,
            Self::Tag(tags) => Input { add_tags: tags.clone(), ..Input::default() },
            Self::Untag(tags) => Input { remove_tags: tags.clone(), ..Input::default() },
        };
        ops.patch(by, workspace, code, &tags, None).await
    }
}
