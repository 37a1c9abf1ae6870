//! The statistics of the workspace: what the API answers to `GET /stats`, drawn. Bars are SVG, and every number is in a table too.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;

use super::super::{Problem, Web, page};
use crate::api::statistics::{foremost, workspace_subject};
use crate::auth::authorize::AnalyticsRead;
use crate::auth::session::Signed;
use crate::web::extract::Looking;
use crate::web::statistics::chart::{Share, shares};
use crate::web::statistics::panel::Numbers;
use rlinks_ops::Sees;

/// The busiest links, and the codes asked for in vain, that are shown.
const SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "space/stats.html")]
struct StatsPage<'a> {
    signed: &'a Signed,
    /// Only one's own links are counted.
    is_own: bool,
    numbers: Numbers,
    top: Vec<Share>,
    missed: Vec<Share>,
}

/// The numbers of a range.
pub async fn show(
    State(web): State<Arc<Web>>,
    Looking { visit, signed, caller, .. }: Looking<AnalyticsRead>,
) -> Result<Response, Problem> {
    let is_own = caller.by.sees == Sees::Own;
    let made = if is_own { signed.user.created_at } else { signed.workspace.created_at };
    let (numbers, found) = web.numbers(&visit, &caller, workspace_subject(&caller), made).await?;
    let (top, missed) = foremost(&web.api, &caller, &found).await?;
    let top = top.into_iter().map(|link| (link.code, link.clicks)).take(SHOWN);
    let missed = missed.into_iter().map(|miss| (miss.code, miss.misses)).take(SHOWN);
    let is_wrong = numbers.wrong.is_some();
    let shown = StatsPage {
        signed: &signed,
        is_own,
        numbers,
        top: shares(top.collect()),
        missed: shares(missed.collect()),
    };
    if is_wrong {
        return Err(Problem::new(ErrorCode::ValidationFailed).in_page(&shown, None));
    }
    page(&shown)
}
