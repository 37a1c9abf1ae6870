//! One link: everything that can be changed about it, how it is used, and what became of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_clicks::rollup::Subject;
use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Link, LinkState, Scope};

use crate::auth::authorize::{LinksRead, LinksWrite};
use crate::auth::caller::Caller;
use crate::auth::session::Signed;
use crate::web::extract::{Doing, Looking, Visit};
use crate::web::links::history::Change;
use crate::web::links::link_form::Fields;
use crate::web::links::list::{date, state_of, without_scheme};
use crate::web::links::recent_clicks::Latest;
use crate::web::statistics::panel::Numbers;
use crate::web::{Problem, Web, flash, page, see_other};
use rlinks_ops::{Done, Mode, OpsError};

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage<'a> {
    signed: &'a Signed,
    link: &'a Link,
    state: &'static str,
    short_url: Option<String>,
    /// The same without what goes without saying.
    shown: String,
    owner: String,
    created_on: String,
    fields: &'a Fields,
    /// Mine and theirs, where somebody else has changed the link meanwhile.
    conflict: Vec<(&'static str, String, String)>,
    problem: Option<&'a str>,
    done: Option<&'static str>,
    /// Why the form below was not saved.
    not_saved: Option<&'a str>,
    saved: bool,
    numbers: Numbers,
    latest: Vec<Latest>,
    changes: Vec<Change>,
    may_write: bool,
    may_delete: bool,
}

/// What a form did not do, for the page that shows it again.
#[derive(Default)]
struct Again<'a> {
    fields: Option<&'a Fields>,
    conflict: Vec<(&'static str, String, String)>,
    problem: Option<&'a str>,
    not_saved: Option<&'a str>,
}

/// The page of a link, of a deleted one too.
pub async fn show(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    looking: Looking<LinksRead>,
) -> Result<Response, Problem> {
    let Looking { visit, signed, caller, .. } = looking;
    let link = web.api.ops.any_link(&caller.by, &caller.workspace, &code).await?;
    page(&web.link_page(&visit, &signed, &caller, &link, &Fields::of(&link), Again::default()).await?)
}

/// Changes what a form says about a link, if nobody else was faster.
pub async fn change(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    doing: Doing<LinksWrite>,
) -> Result<Response, Problem> {
    let Doing { visit, signed, caller, form, .. } = doing;
    let link = web.api.ops.link(&caller.by, &caller.workspace, &code).await?;
    let (mut fields, shown) = (Fields::sent(&form), Fields::of(&link));
    let version: i64 = form.get("version").parse().unwrap_or_default();
    let mut again = Again::default();
    let problem = if version == link.version {
        let made = async {
            let input = fields.change(&shown)?;
            web.api.ops.patch(&caller.by, &caller.workspace, &code, &input, Some(&[version])).await
        };
        match made.await {
            Ok(done) => {
                web.api.learn(&done.link);
                return Ok(see_other(&format!("/admin/links/{}?done=saved#edit", done.link.code), None));
            }
            Err(error) => {
                let code = error.code();
                match fields.blame(error) {
                    None => Problem::saying(code, "Nothing was saved yet: look at what is marked below"),
                    Some(error) => error.into(),
                }
            }
        }
    } else {
        again.conflict = fields.differences(&shown);
        let message = "Somebody else has changed this link while you were at it, so nothing was saved. \
                       Compare, then save again to put yours in force";
        Problem::saying(ErrorCode::PreconditionFailed, message)
    };
    let message = problem.message.clone();
    let again = Again { not_saved: Some(&message), fields: Some(&fields), ..again };
    let template = web.link_page(&visit, &signed, &caller, &link, &shown, again).await?;
    Err(problem.in_page(&template, None))
}

/// Switches a link off or on, deletes it, or brings it back.
pub async fn switch(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    doing: Doing<LinksWrite>,
) -> Result<Response, Problem> {
    let Doing { visit, signed, caller, form, .. } = doing;
    let (ops, by, workspace) = (&web.api.ops, &caller.by, &caller.workspace);
    let to = |state| Input { state: Some(state), ..Input::default() };
    let done: Done = match form.get("act") {
        "enable" => ops.patch(by, workspace, &code, &to(LinkState::Active), None).await?,
        "disable" => ops.patch(by, workspace, &code, &to(LinkState::Disabled), None).await?,
        "restore" => ops.restore(by, workspace, &code, Mode::Write).await?,
        "delete" if caller.scopes.has(Scope::LinksDelete) => ops.delete(by, workspace, &code, None).await?,
        "delete" => {
            return Err(Problem::saying(ErrorCode::Forbidden, "Your role does not allow to delete links"));
        }
        _ => return Err(Problem::new(ErrorCode::BadRequest)),
    };
    web.api.learn(&done.link);
    let code = &done.link.code;
    let to = match done.link.state {
        LinkState::Deleted => {
            let what = format!("act=delete&done=1&undo={code}");
            return Ok(see_other("/admin", flash::tell(&visit.way, &signed, &what)));
        }
        LinkState::Active => format!("/admin/links/{code}?done=active"),
        LinkState::Disabled => format!("/admin/links/{code}?done=disabled"),
    };
    Ok(see_other(&to, None))
}

/// Makes a link what it was after an entry of its history.
pub async fn roll_back(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    doing: Doing<LinksWrite>,
) -> Result<Response, Problem> {
    let Doing { visit, signed, caller, form, .. } = doing;
    let link = web.api.ops.link(&caller.by, &caller.workspace, &code).await?;
    let seq: i64 = form.get("seq").parse().map_err(|_| Problem::new(ErrorCode::BadRequest))?;
    let then = crate::web::links::history::version(&web, &caller, &link, seq).await?;
    let then =
        then.ok_or_else(|| Problem::saying(ErrorCode::NotFound, "There is no such version of this link"))?;
    let input = Input {
        target: Some(then.target.as_str().to_owned()).filter(|_| then.target != link.target),
        redirect_status: Some(then.redirect_status.code().into()),
        expires_at: (then.expires_at != link.expires_at)
            .then(|| then.expires_at.map(|at| TimeInput::Text(at.to_string()))),
        title: Some(then.title.unwrap_or_default()),
        notes: Some(then.notes.unwrap_or_default()),
        tags: Some(then.tags),
        https_only: Some(then.https_only),
        no_loop: Some(then.no_loop),
        metadata: Some(then.metadata),
        state: Some(then.state).filter(|state| *state != LinkState::Deleted),
        ..Input::default()
    };
    let error = match web.api.ops.patch(&caller.by, &caller.workspace, &code, &input, None).await {
        Ok(done) => {
            web.api.learn(&done.link);
            return Ok(see_other(&format!("/admin/links/{}?done=back", done.link.code), None));
        }
        Err(error) => error,
    };
    let problem = match error {
        OpsError::Invalid(errors) => Problem::saying(
            ErrorCode::ValidationFailed,
            format!("This version cannot be put back as it was: {errors}"),
        ),
        error => error.into(),
    };
    let message = problem.message.clone();
    let again = Again { problem: Some(&message), ..Again::default() };
    let shown = Fields::of(&link);
    let template = web.link_page(&visit, &signed, &caller, &link, &shown, again).await?;
    Err(problem.in_page(&template, None))
}

impl Web {
    async fn link_page<'a>(
        &self,
        visit: &Visit,
        signed: &'a Signed,
        caller: &Caller,
        link: &'a Link,
        shown: &'a Fields,
        again: Again<'a>,
    ) -> Result<LinkPage<'a>, Problem> {
        let is_new = again.problem.or(again.not_saved).is_none();
        let said = visit.parameter("done").filter(|_| is_new);
        let done = match said.as_deref() {
            Some("active") => Some("The link is active."),
            Some("disabled") => Some("The link is disabled. Visitors find nothing until you enable it."),
            Some("back") => Some("The link is what it was then."),
            _ => None,
        };
        let owner =
            crate::web::links::history::names(self, caller, [link.created_by.as_str()].into_iter()).await?;
        let short_url = self.short_url(caller, &link.code);
        let subject = Subject::link(caller.workspace.id, link.id);
        let numbers = self.numbers(visit, caller, subject, link.created_at).await?;
        Ok(LinkPage {
            signed,
            shown: short_url.as_deref().map(without_scheme).unwrap_or_default().to_owned(),
            short_url,
            state: state_of(link, self.clock.now()),
            owner: owner.of(link.created_by.as_str()),
            created_on: date(link.created_at),
            fields: again.fields.unwrap_or(shown),
            conflict: again.conflict,
            problem: again.problem,
            done,
            not_saved: again.not_saved,
            saved: said.as_deref() == Some("saved"),
            numbers: numbers.0,
            latest: self.latest_clicks(caller, link).await?,
            changes: crate::web::links::history::changes(self, caller, link).await?,
            may_write: caller.scopes.has(Scope::LinksWrite) && link.state != LinkState::Deleted,
            may_delete: caller.scopes.has(Scope::LinksDelete) && link.state != LinkState::Deleted,
            link,
        })
    }
}
