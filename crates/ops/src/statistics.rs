//! Statistics of a workspace, as far as a caller sees it.

use rlinks_clicks::ClickStore;
use rlinks_clicks::misses::MissedCode;
use rlinks_clicks::rollup::RollupSubject;
use rlinks_clicks::stats::{MAX_TOP_LINKS, Statistics};
use rlinks_core::Id;
use rlinks_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Caller, LinkVisibility, Ops};

/// Where a caller sees only their own links, theirs are picked from so many.
const MAX_RANKED_LINKS: i64 = 1000;
const MAX_MISSES: i64 = 20;

/// A link and its clicks.
#[derive(Serialize, ToSchema)]
pub struct TopLink {
    pub code: String,
    pub clicks: u64,
}

/// The member whose links alone are there for the caller.
pub fn visible_owner(caller: &Caller) -> Option<Id> {
    match caller.visibility {
        LinkVisibility::All => None,
        LinkVisibility::Own => caller.member(),
    }
}

/// Whose clicks are a caller's workspace's: all, or their own links'.
pub fn workspace_subject(caller: &Caller) -> RollupSubject {
    let workspace = caller.workspace.id;
    visible_owner(caller)
        .map_or_else(|| RollupSubject::workspace(workspace), |user| RollupSubject::user(workspace, user))
}

impl Ops {
    /// The most clicked links and the most frequent not-found codes, on the days of some statistics.
    pub async fn top_links_and_misses(
        &self,
        caller: &Caller,
        clicks: &ClickStore,
        statistics: &Statistics,
    ) -> Result<(Vec<TopLink>, Vec<MissedCode>), StoreError> {
        let workspace = caller.workspace.id;
        let own = visible_owner(caller);
        let most = if own.is_some() { MAX_RANKED_LINKS } else { MAX_TOP_LINKS };
        let top = clicks.top_links(workspace, statistics.days.clone(), statistics.bots, most).await?;
        let names = self.store.link_names(&top.iter().map(|(link, _)| *link).collect::<Vec<_>>()).await?;
        let shown = |(link, clicks): (Id, u64)| {
            let name = names.iter().find(|name| name.id == link)?;
            (own.is_none() || name.owner == own).then(|| TopLink { code: name.code.clone(), clicks })
        };
        let top_links =
            top.into_iter().filter_map(shown).take(usize::try_from(MAX_TOP_LINKS).unwrap_or_default());
        let top_links = top_links.collect();
        // Nobody owns a code that leads nowhere.
        let misses = match own {
            None => clicks.misses(workspace, statistics.days.start, statistics.days.end, MAX_MISSES).await?,
            Some(_) => Vec::new(),
        };
        Ok((top_links, misses))
    }
}
