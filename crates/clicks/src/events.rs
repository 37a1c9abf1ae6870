//! Reading raw clicks back, in the order they were stored or newest first.

use std::collections::HashMap;
use std::ops::Range;

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::pool::{Dialect, read};
use rlinks_store::database::row::from_row;

use crate::click::{Click, Device, IpPrefix, event_id};
use crate::database::ClickStore;
use crate::ingest::write::drops_not_counted;
use crate::journal::DroppedClicks;

/// An event as its tables hold it.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) n: i64,
    pub(crate) ts: i64,
    pub(crate) link_id: i64,
    pub(crate) workspace_id: i64,
    boot: i64,
    thread: i64,
    seq: i64,
    event_id: Option<String>,
    prefix: Option<i64>,
    pub(crate) visitor: Option<i64>,
    pub(crate) bot: bool,
    referrer: Option<String>,
    utm_source: Option<String>,
    utm_medium: Option<String>,
    utm_campaign: Option<String>,
    ua_hash: i64,
    user_agent: String,
    device: String,
    browser: Option<String>,
    browser_version: Option<String>,
    system: Option<String>,
    system_version: Option<String>,
    country: Option<String>,
    city: Option<String>,
    latitude: Option<f64>,
    longitude: Option<f64>,
}

from_row!(EventRow {
    n,
    ts,
    link_id,
    workspace_id,
    boot,
    thread,
    seq,
    event_id,
    prefix,
    visitor,
    bot,
    referrer,
    utm_source,
    utm_medium,
    utm_campaign,
    ua_hash,
    user_agent,
    device,
    browser,
    browser_version,
    system,
    system_version,
    country,
    city,
    latitude,
    longitude
});

/// What an [`EventRow`] is read from.
macro_rules! event_columns {
    () => {
        "e.n, e.ts, e.link_id, e.workspace_id, coalesce(p.boot, 0) as boot, coalesce(p.thread, 0) as thread, e.seq, e.event_id,
         e.prefix, e.visitor, e.bot, e.referrer, e.utm_source, e.utm_medium, e.utm_campaign, a.ua_hash, a.user_agent, a.device,
         a.browser, a.browser_version, a.system, a.system_version, l.country, l.city, l.latitude, l.longitude
         from events e
         left join producers p on p.id = e.producer
         join agents a on a.id = e.agent
         join places l on l.id = e.place"
    };
}

pub(crate) use event_columns;

impl EventRow {
    /// The click it is; its code comes from the link.
    pub(crate) fn click(self, code: String) -> Click {
        let ts = Timestamp::from_ms(self.ts);
        let thread = u16::try_from(self.thread).unwrap_or_default();
        let own = || event_id(ts, self.boot.cast_unsigned(), thread, self.seq.cast_unsigned());
        Click {
            n: self.n,
            id: self.event_id.as_deref().and_then(|id| id.parse().ok()).unwrap_or_else(own),
            ts,
            link: Id::from_i64(self.link_id),
            workspace: Id::from_i64(self.workspace_id),
            code,
            referrer: self.referrer,
            user_agent: Some(self.user_agent).filter(|text| !text.is_empty()),
            ua_hash: Some(self.ua_hash.cast_unsigned()),
            ip_prefix: self.prefix.and_then(IpPrefix::from_i64),
            country: self.country,
            city: self.city,
            latitude: self.latitude,
            longitude: self.longitude,
            device: if self.bot {
                Device::Bot
            } else {
                Device::parse(&self.device).unwrap_or(Device::Unknown)
            },
            browser: self.browser,
            browser_version: self.browser_version,
            system: self.system,
            system_version: self.system_version,
            utm_source: self.utm_source,
            utm_medium: self.utm_medium,
            utm_campaign: self.utm_campaign,
            visitor: self.visitor.map(i64::cast_unsigned),
            bot: self.bot,
        }
    }
}

#[derive(Clone, Debug)]
pub struct EventFilter {
    pub workspace: Id,
    /// Of this link only.
    pub link: Option<Id>,
    /// From the first of these moments on, before the second.
    pub during: Range<Timestamp>,
}

impl ClickStore {
    /// The next raw clicks by number after `after`, looked for among `span` numbers. Gives the number to go on from while there
    /// may be more. Numbers are given in the order of commits, so nothing turns up behind a number once passed.
    pub async fn events_after(
        &self,
        filter: &EventFilter,
        after: i64,
        span: i64,
        codes: &mut Codes,
    ) -> Result<(Vec<Click>, Option<i64>), StoreError> {
        let last = self.last_event().await.map_err(StoreError::for_clicks)?;
        let upto = after.saturating_add(span).min(last);
        let rows = self.rows_between(filter, after, upto).await.map_err(StoreError::for_clicks)?;
        let clicks = codes.name(rows).await?;
        Ok((clicks, (upto < last).then_some(upto)))
    }

    async fn rows_between(
        &self,
        filter: &EventFilter,
        after: i64,
        upto: i64,
    ) -> Result<Vec<EventRow>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n > $1 and e.n <= $2 and e.workspace_id = $3 and e.ts >= $4 and e.ts < $5 order by e.n"
        );
        const OF_LINK: &str = concat!(
            "select ",
            event_columns!(),
            " where e.n > $1 and e.n <= $2 and e.workspace_id = $3 and e.ts >= $4 and e.ts < $5 and e.link_id = $6 order by e.n"
        );
        let (from, to) = (filter.during.start.ms(), filter.during.end.ms());
        let workspace = filter.workspace.as_i64();
        Ok(match filter.link {
            None => read!(&self.pool, fetch_all, SQL, after, upto, workspace, from, to)?,
            Some(link) => {
                read!(&self.pool, fetch_all, OF_LINK, after, upto, workspace, from, to, link.as_i64())?
            }
        })
    }

    /// The number of the last event stored.
    pub async fn last_event(&self) -> Result<i64, StoreError> {
        let (next,): (i64,) = read!(&self.pool, fetch_one, "select next_event from ingest where id = 1")?;
        Ok(next - 1)
    }

    /// Clicks that were not kept, by reason: `dropped` had no room or no disk, `torn` and `damaged` could not be read back.
    pub async fn losses(&self) -> Result<Vec<(String, i64)>, StoreError> {
        Ok(read!(&self.pool, fetch_all, "select reason, clicks from losses order by reason")?)
    }

    /// The same with what journals have dropped and nobody has stored yet.
    pub async fn losses_with(&self, drops: &[DroppedClicks]) -> Result<Vec<(String, i64)>, StoreError> {
        let mut losses = self.losses().await?;
        let more = drops_not_counted(&self.pool, drops).await?.cast_signed();
        match losses.iter_mut().find(|(reason, _)| reason == "dropped") {
            Some((_, clicks)) => *clicks += more,
            None if more > 0 => losses.push(("dropped".to_owned(), more)),
            None => {}
        }
        Ok(losses)
    }

    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        self.pool.dialect()
    }
}

/// The codes of links, remembered: events know links by id.
pub struct Codes {
    store: rlinks_store::Store,
    known: HashMap<i64, String>,
}

/// Codes remembered at once.
const MAX_CODES: usize = 100_000;

impl Codes {
    /// Of the links of this store.
    pub fn new(store: rlinks_store::Store) -> Self {
        Self { store, known: HashMap::new() }
    }

    pub(crate) async fn name(&mut self, rows: Vec<EventRow>) -> Result<Vec<Click>, StoreError> {
        if self.known.len() > MAX_CODES {
            self.known.clear();
        }
        let mut unknown: Vec<Id> = rows
            .iter()
            .map(|row| row.link_id)
            .filter(|id| !self.known.contains_key(id))
            .map(Id::from_i64)
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            let names = self.store.link_names(&unknown).await?;
            self.known.extend(names.into_iter().map(|name| (name.id.as_i64(), name.code)));
        }
        let name = |row: EventRow| {
            let code = self.known.get(&row.link_id).cloned().unwrap_or_default();
            row.click(code)
        };
        Ok(rows.into_iter().map(name).collect())
    }
}
