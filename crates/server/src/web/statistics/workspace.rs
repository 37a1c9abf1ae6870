//! The statistics of the workspace: what the API answers to `GET /stats`, drawn. Bars are SVG, and every number is in a table too.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;

use super::super::{PageError, Web, render_page};
use crate::auth::authorize::AnalyticsRead;
use crate::auth::session::CurrentSession;
use crate::web::extract::AuthorizedPage;
use crate::web::statistics::chart::{Share, shares};
use crate::web::statistics::panel::StatsPanel;
use rlinks_ops::LinkVisibility;
use rlinks_ops::statistics::workspace_subject;

/// The busiest links, and the codes asked for in vain, that are shown.
const MAX_TOP_ENTRIES: usize = 10;

#[derive(Template)]
#[template(path = "statistics/workspace.html")]
struct StatsPage<'a> {
    current: &'a CurrentSession,
    /// Only one's own links are counted.
    is_own: bool,
    stats: StatsPanel,
    top: Vec<Share>,
    missed: Vec<Share>,
}

/// The numbers of a range.
pub async fn show(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, current, caller, .. }: AuthorizedPage<AnalyticsRead>,
) -> Result<Response, PageError> {
    let is_own = caller.visibility == LinkVisibility::Own;
    let created_at = if is_own { current.user.created_at } else { current.workspace.created_at };
    let (stats, found) = web.stats_panel(&request, &caller, workspace_subject(&caller), created_at).await?;
    let (top, missed) = web.ops.top_links_and_misses(&caller, web.front_end.clicks().await?, &found).await?;
    let top = top.into_iter().map(|link| (link.code, link.clicks)).take(MAX_TOP_ENTRIES);
    let missed = missed.into_iter().map(|miss| (miss.code, miss.misses)).take(MAX_TOP_ENTRIES);
    let is_wrong = stats.error.is_some();
    let shown = StatsPage {
        current: &current,
        is_own,
        stats,
        top: shares(top.collect()),
        missed: shares(missed.collect()),
    };
    if is_wrong {
        return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&shown, None));
    }
    render_page(&shown)
}
