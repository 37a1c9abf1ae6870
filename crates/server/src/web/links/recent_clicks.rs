//! The latest clicks of a link.

use rlinks_clicks::Click;
use rlinks_clicks::events::Codes;
use rlinks_core::{Link, Timestamp};

use crate::web::{PageError, Web};
use rlinks_ops::Caller;

/// So many are shown.
const MAX_RECENT_CLICKS: usize = 10;

pub struct RecentClick {
    pub at: Timestamp,
    pub from: String,
    pub client: String,
    pub campaign: String,
    pub bot: bool,
}

impl Web {
    pub(crate) async fn recent_clicks(
        &self,
        caller: &Caller,
        link: &Link,
    ) -> Result<Vec<RecentClick>, PageError> {
        let clicks = self.front_end.clicks().await?;
        let mut codes = Codes::new(self.store.clone());
        let recent =
            clicks.recent(caller.workspace.id, Some(link.id), None, MAX_RECENT_CLICKS, &mut codes).await?;
        Ok(recent.0.iter().map(recent_click).collect())
    }
}

fn recent_click(click: &Click) -> RecentClick {
    // A bot has a badge that says so.
    let device = Some(click.device.as_str()).filter(|_| !click.bot);
    let parts = [device, click.browser.as_deref(), click.system.as_deref()];
    let campaign = [&click.utm_source, &click.utm_medium, &click.utm_campaign];
    RecentClick {
        at: click.ts,
        from: [click.country.as_deref(), click.referrer.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        client: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        campaign: campaign.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" / "),
        bot: click.bot,
    }
}
