//! One link: everything that can be changed about it, how it is used, and what became of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{Link, LinkState, Scope};

use crate::auth::authorize::{LinksRead, LinksWrite};
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage, WebRequest};
use crate::web::links::history::HistoryEntry;
use crate::web::links::link_form::LinkForm;
use crate::web::links::list::{state_label, utc_date, without_scheme};
use crate::web::links::recent_clicks::RecentClick;
use crate::web::statistics::panel::StatsPanel;
use crate::web::{PageError, Web, flash, render_page, see_other};
use rlinks_ops::Caller;
use rlinks_ops::{LinkResult, OpsError, Resource, WriteMode};

#[derive(Template)]
#[template(path = "links/link.html")]
struct LinkPage<'a> {
    current: &'a CurrentSession,
    link: &'a Link,
    state: &'static str,
    short_url: Option<String>,
    /// The same without what goes without saying.
    display_url: String,
    owner: String,
    created_on: String,
    fields: &'a LinkForm,
    /// Mine and theirs, where somebody else has changed the link meanwhile.
    conflict: Vec<(&'static str, String, String)>,
    problem: Option<&'a str>,
    done: Option<&'static str>,
    /// Why the form below was not saved.
    not_saved: Option<&'a str>,
    saved: bool,
    stats: StatsPanel,
    recent_clicks: Vec<RecentClick>,
    changes: Vec<HistoryEntry>,
    may_write: bool,
    may_delete: bool,
}

/// What a form did not do, for the page that shows it again.
#[derive(Default)]
struct Resubmit<'a> {
    fields: Option<&'a LinkForm>,
    conflict: Vec<(&'static str, String, String)>,
    problem: Option<&'a str>,
    not_saved: Option<&'a str>,
}

/// The page of a link, of a deleted one too.
pub async fn show(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    authorized: AuthorizedPage<LinksRead>,
) -> Result<Response, PageError> {
    let AuthorizedPage { request, current, caller, .. } = authorized;
    let link = web.ops.any_link(&caller, &code).await?;
    render_page(
        &web.link_page(&request, &current, &caller, &link, &LinkForm::from_link(&link), Resubmit::default())
            .await?,
    )
}

/// Changes what a form says about a link, if nobody else was faster.
pub async fn change(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    submitted: AuthorizedForm<LinksWrite>,
) -> Result<Response, PageError> {
    let AuthorizedForm { request, current, caller, form, .. } = submitted;
    let link = web.ops.link(&caller, &code).await?;
    let (mut fields, shown) = (LinkForm::from_form(&form), LinkForm::from_link(&link));
    let version: i64 = form.get("version").parse().unwrap_or_default();
    let mut resubmit = Resubmit::default();
    let problem = if version == link.version {
        let made = async {
            let input = fields.change(&shown)?;
            web.ops.patch(&caller, &code, &input, Some(&[version])).await
        };
        match made.await {
            Ok(done) => {
                return Ok(see_other(&format!("/admin/links/{}?done=saved#edit", done.link.code), None));
            }
            Err(error) => {
                let code = error.code();
                match fields.attach_errors(error) {
                    None => {
                        PageError::with_message(code, "Nothing was saved yet: look at what is marked below")
                    }
                    Some(error) => error.into(),
                }
            }
        }
    } else {
        resubmit.conflict = fields.diff(&shown);
        let message = "Somebody else has changed this link while you were at it, so nothing was saved. \
                       Compare, then save again to put yours in force";
        PageError::with_message(ErrorCode::PreconditionFailed, message)
    };
    let message = problem.message.clone();
    let resubmit = Resubmit { not_saved: Some(&message), fields: Some(&fields), ..resubmit };
    let template = web.link_page(&request, &current, &caller, &link, &shown, resubmit).await?;
    Err(problem.rendered_in(&template, None))
}

/// Switches a link off or on, deletes it, or brings it back.
pub async fn change_state(
    State(web): State<Arc<Web>>,
    Path(code): Path<String>,
    submitted: AuthorizedForm<LinksWrite>,
) -> Result<Response, PageError> {
    let AuthorizedForm { request, current, caller, form, .. } = submitted;
    let to = |state| web.ops.change_state(&caller, &code, state, None, WriteMode::Apply);
    let done: LinkResult = match form.get("act") {
        "enable" => to(LinkState::Active).await?,
        "disable" => to(LinkState::Disabled).await?,
        "restore" => web.ops.restore(&caller, &code, WriteMode::Apply).await?,
        "delete" if caller.scopes.contains(Scope::LinksDelete) => to(LinkState::Deleted).await?,
        "delete" => {
            return Err(PageError::with_message(
                ErrorCode::Forbidden,
                "Your role does not allow to delete links",
            ));
        }
        _ => return Err(PageError::new(ErrorCode::BadRequest)),
    };
    let code = &done.link.code;
    let to = match done.link.state {
        LinkState::Deleted => {
            let what = format!("act=delete&done=1&undo={code}");
            return Ok(see_other("/admin", flash::set(&request.connection, &current, &what)));
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
    submitted: AuthorizedForm<LinksWrite>,
) -> Result<Response, PageError> {
    let AuthorizedForm { request, current, caller, form, .. } = submitted;
    let link = web.ops.link(&caller, &code).await?;
    let seq: i64 = form.get("seq").parse().map_err(|_| PageError::new(ErrorCode::BadRequest))?;
    let error = match web.ops.restore_version(&caller, &code, seq).await {
        Ok(done) => return Ok(see_other(&format!("/admin/links/{}?done=back", done.link.code), None)),
        Err(OpsError::NotFound(Resource::LinkVersion(..))) => {
            return Err(PageError::with_message(
                ErrorCode::NotFound,
                "There is no such version of this link",
            ));
        }
        Err(error) => error,
    };
    let problem = match error {
        OpsError::Invalid(errors) => PageError::with_message(
            ErrorCode::ValidationFailed,
            format!("This version cannot be put back as it was: {errors}"),
        ),
        error => error.into(),
    };
    let message = problem.message.clone();
    let resubmit = Resubmit { problem: Some(&message), ..Resubmit::default() };
    let shown = LinkForm::from_link(&link);
    let template = web.link_page(&request, &current, &caller, &link, &shown, resubmit).await?;
    Err(problem.rendered_in(&template, None))
}

impl Web {
    async fn link_page<'a>(
        &self,
        request: &WebRequest,
        current: &'a CurrentSession,
        caller: &Caller,
        link: &'a Link,
        shown: &'a LinkForm,
        resubmit: Resubmit<'a>,
    ) -> Result<LinkPage<'a>, PageError> {
        let is_new = resubmit.problem.or(resubmit.not_saved).is_none();
        let said = request.query_param("done").filter(|_| is_new);
        let done = match said.as_deref() {
            Some("active") => Some("The link is active."),
            Some("disabled") => Some("The link is disabled. Visitors find nothing until you enable it."),
            Some("back") => Some("The link is what it was then."),
            _ => None,
        };
        let owner =
            crate::web::links::history::load_names(self, caller, [link.created_by.as_str()].into_iter())
                .await?;
        let short_url = self.short_url(caller, &link.code);
        let subject = RollupSubject::link(caller.workspace.id, link.id);
        let stats = self.stats_panel(request, caller, subject, link.created_at).await?;
        Ok(LinkPage {
            current,
            display_url: short_url.as_deref().map(without_scheme).unwrap_or_default().to_owned(),
            short_url,
            state: state_label(link, self.clock.now()),
            owner: owner.display_name(link.created_by.as_str()),
            created_on: utc_date(link.created_at),
            fields: resubmit.fields.unwrap_or(shown),
            conflict: resubmit.conflict,
            problem: resubmit.problem,
            done,
            not_saved: resubmit.not_saved,
            saved: said.as_deref() == Some("saved"),
            stats: stats.0,
            recent_clicks: self.recent_clicks(caller, link).await?,
            changes: crate::web::links::history::load_history(self, caller, link).await?,
            may_write: caller.scopes.contains(Scope::LinksWrite) && link.state != LinkState::Deleted,
            may_delete: caller.scopes.contains(Scope::LinksDelete) && link.state != LinkState::Deleted,
            link,
        })
    }
}
