//! The latest clicks of a link.

use rlinks_clicks::Click;
use rlinks_clicks::events::Codes;
use rlinks_core::{Link, Timestamp};

use crate::auth::caller::Caller;
use crate::web::{Problem, Web};

/// So many are shown.
const SHOWN: usize = 10;

/// One of them.
pub struct Latest {
    pub at: Timestamp,
    pub from: String,
    pub what: String,
    pub campaign: String,
    pub bot: bool,
}

impl Web {
    /// The newest first.
    pub(crate) async fn latest_clicks(&self, caller: &Caller, link: &Link) -> Result<Vec<Latest>, Problem> {
        let clicks = self.api.clicks().await?;
        let mut codes = Codes::new(self.store.clone());
        let recent = clicks.recent(caller.workspace.id, Some(link.id), None, SHOWN, &mut codes).await?;
        Ok(recent.0.iter().map(latest).collect())
    }
}

fn latest(click: &Click) -> Latest {
    // A bot has a badge that says so.
    let device = Some(click.device.as_str()).filter(|_| !click.bot);
    let parts = [device, click.browser.as_deref(), click.system.as_deref()];
    let campaign = [&click.utm_source, &click.utm_medium, &click.utm_campaign];
    Latest {
        at: click.ts,
        from: [click.country.as_deref(), click.referrer.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        what: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        campaign: campaign.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" / "),
        bot: click.bot,
    }
}
