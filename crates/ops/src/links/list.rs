//! A page of links, in any order, each with its clicks.
//!
//! Links and clicks are in two databases, so no statement sorts links by their clicks. Where a filter lets fewer than [`MAX_COUNTED_LINKS`]
//! links through, they are sorted here. Else the order of clicks is walked a step at a time and the links that match are kept;
//! those never clicked, of which clicks know nothing, are walked in the order they were made. Both ways give one and the same
//! list: its order is that of `ClickOrderKey`.

use std::cmp::Ordering;
use std::collections::HashMap;

use rlinks_clicks::ClickStore;
use rlinks_clicks::rollup::{RollupSubject, Total};
use rlinks_core::link::search;
use rlinks_core::{
    Actor, Code, FieldCode, FieldError, FieldErrors, Id, Link, LinkState, Timestamp, Workspace,
};
use rlinks_store::{ExpiryFilter, LinkFilter, Order, SortBy, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::OpsError;

/// Links counted, or sorted in memory.
pub const MAX_COUNTED_LINKS: i64 = 10_000;
const DEFAULT_PAGE_SIZE: u16 = 50;
const MAX_PAGE_SIZE: u16 = 100;
/// Links looked at in one step along the order of clicks.
const LINKS_PER_STEP: i64 = 200;
/// Steps of one page. What was not found by then is left to the next page.
const MAX_STEPS: usize = 64;

/// Which links somebody wants to see.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Codes that begin so.
    pub prefix: Option<String>,
    /// Links with words that begin with each of these. Where there is no word in it, nothing is found.
    pub search: Option<String>,
    /// Links with this tag.
    pub tag: Option<String>,
    /// In this state; else all but deleted ones.
    pub state: Option<LinkState>,
    /// Only those that are over, or only the others.
    pub expired: Option<bool>,
    /// Made at this moment or later.
    pub created_after: Option<Timestamp>,
    /// Made before this moment.
    pub created_before: Option<Timestamp>,
    /// Made by them: where members see only their own.
    pub created_by: Option<Actor>,
    /// By what they are sorted.
    pub sort: Sort,
    /// Which end comes first.
    pub order: Order,
    /// Links of a page, 1 to 100; else 50.
    pub limit: Option<u16>,
    /// Only after this place: the `next` of the page before.
    pub after: Option<ListPosition>,
}

/// By what links are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// When they were made.
    #[default]
    CreatedAt,
    /// When they were last changed.
    UpdatedAt,
    /// People's clicks; those never clicked by when they were made.
    Clicks,
    /// Codes, by their bytes.
    Code,
}

impl Sort {
    pub fn parse(name: &str) -> Option<Self> {
        [Self::CreatedAt, Self::UpdatedAt, Self::Clicks, Self::Code]
            .into_iter()
            .find(|known| known.as_str() == name)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreatedAt => "created_at",
            Self::UpdatedAt => "updated_at",
            Self::Clicks => "clicks",
            Self::Code => "code",
        }
    }
}

/// A place in a list. It is short as JSON, for cursors: times in milliseconds, ids as numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListPosition {
    /// When a link was made, and its id.
    #[serde(rename = "m")]
    CreatedAt(i64, i64),
    /// When it was last changed, and its id.
    #[serde(rename = "u")]
    UpdatedAt(i64, i64),
    #[serde(rename = "c")]
    Code(Code),
    /// In the order of clicks: a link's clicks, and its id.
    #[serde(rename = "k")]
    Clicked(u64, i64),
    /// In the order of clicks, among links nobody clicked: when it was made, and its id.
    #[serde(rename = "n")]
    NeverClicked(i64, i64),
}

impl ListPosition {
    const fn sort(&self) -> Sort {
        match self {
            Self::CreatedAt(..) => Sort::CreatedAt,
            Self::UpdatedAt(..) => Sort::UpdatedAt,
            Self::Code(_) => Sort::Code,
            Self::Clicked(..) | Self::NeverClicked(..) => Sort::Clicks,
        }
    }

    fn to_store(&self) -> Option<rlinks_store::ListPosition> {
        use rlinks_store::ListPosition as Stored;
        match self {
            Self::CreatedAt(ms, id) => Some(Stored::CreatedAt(Timestamp::from_ms(*ms), Id::from_i64(*id))),
            Self::UpdatedAt(ms, id) => Some(Stored::UpdatedAt(Timestamp::from_ms(*ms), Id::from_i64(*id))),
            Self::Code(code) => Some(Stored::Code(code.clone())),
            Self::Clicked(..) | Self::NeverClicked(..) => None,
        }
    }
}

impl From<rlinks_store::ListPosition> for ListPosition {
    fn from(position: rlinks_store::ListPosition) -> Self {
        use rlinks_store::ListPosition as Stored;
        match position {
            Stored::CreatedAt(at, id) => Self::CreatedAt(at.ms(), id.as_i64()),
            Stored::UpdatedAt(at, id) => Self::UpdatedAt(at.ms(), id.as_i64()),
            Stored::Code(code) => Self::Code(code),
        }
    }
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// In their order. In the order of clicks there may be fewer than asked for, and still a `next`.
    pub links: Vec<LinkWithClicks>,
    /// Where the next page begins; nothing at the end of the list.
    pub next: Option<ListPosition>,
    /// How many links the whole list has. With a filter, at most [`MAX_COUNTED_LINKS`] are counted.
    pub total: i64,
}

/// A link of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkWithClicks {
    pub link: Link,
    /// What it has counted for ever. Nothing where clicks cannot be read: the links themselves are what was asked for.
    pub total: Option<Total>,
}

/// A page of the links of a workspace.
pub async fn list(
    store: &Store,
    clicks: &ClickStore,
    workspace: &Workspace,
    query: &ListQuery,
    now: Timestamp,
) -> Result<Page, OpsError> {
    list_with_bounds(store, clicks, workspace, query, now, ListBounds::default()).await
}

/// How much work a page may be.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct ListBounds {
    /// Links counted, or sorted in memory.
    pub max_counted: i64,
    /// Links of a step along the order of clicks.
    pub links_per_step: i64,
    pub max_steps: usize,
}

impl Default for ListBounds {
    fn default() -> Self {
        Self { max_counted: MAX_COUNTED_LINKS, links_per_step: LINKS_PER_STEP, max_steps: MAX_STEPS }
    }
}

/// The same within other bounds: a test has no ten thousand links.
#[doc(hidden)]
pub async fn list_with_bounds(
    store: &Store,
    clicks: &ClickStore,
    workspace: &Workspace,
    query: &ListQuery,
    now: Timestamp,
    bounds: ListBounds,
) -> Result<Page, OpsError> {
    if query.after.as_ref().is_some_and(|after| after.sort() != query.sort) {
        let error = FieldError::new("cursor", FieldCode::BadCharacters, "is not of a list in this order");
        return Err(FieldErrors::from(error).into());
    }
    let Some(filter) = store_filter(workspace, query, now) else { return Ok(Page::default()) };
    let lister = Lister { store, clicks, workspace: workspace.id, filter, order: query.order, bounds };
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE));
    match query.sort {
        Sort::Clicks => lister.page_by_clicks(query.after.as_ref(), limit).await,
        Sort::CreatedAt | Sort::UpdatedAt | Sort::Code => lister.page_by_store_order(limit).await,
    }
}

/// What the store is asked. Nothing where no link can match.
fn store_filter(workspace: &Workspace, query: &ListQuery, now: Timestamp) -> Option<LinkFilter> {
    let words = query.search.as_deref().map(search::parse_query).unwrap_or_default();
    if query.search.is_some() && words.is_empty() {
        return None;
    }
    let fold = workspace.policy.code.fold_case;
    let folded = |text: &String| if fold { text.to_ascii_lowercase() } else { text.clone() };
    Some(LinkFilter {
        prefix: query.prefix.as_ref().map(folded),
        tag: query.tag.as_deref().map(|tag| tag.trim().to_owned()),
        words,
        states: match query.state {
            Some(state) => vec![state],
            None => vec![LinkState::Active, LinkState::Disabled],
        },
        expiry: query
            .expired
            .map(|over| if over { ExpiryFilter::Expired(now) } else { ExpiryFilter::Current(now) }),
        created_after: query.created_after,
        created_before: query.created_before,
        created_by: query.created_by.clone(),
        sort: match query.sort {
            Sort::CreatedAt | Sort::Clicks => SortBy::CreatedAt,
            Sort::UpdatedAt => SortBy::UpdatedAt,
            Sort::Code => SortBy::Code,
        },
        order: query.order,
        after: query.after.as_ref().and_then(ListPosition::to_store),
        ..LinkFilter::default()
    })
}

/// All links that are not deleted: how many they are is written down.
fn is_unfiltered(filter: &LinkFilter) -> bool {
    filter.prefix.as_deref().is_none_or(str::is_empty)
        && filter.tag.is_none()
        && filter.words.is_empty()
        && filter.states == [LinkState::Active, LinkState::Disabled]
        && filter.expiry.is_none()
        && filter.created_after.is_none()
        && filter.created_before.is_none()
        && filter.created_by.is_none()
}

/// Where a link is in the order of clicks: clicks, then its id; without clicks, when it was made and its id.
type ClickOrderKey = (u64, (i64, i64));

fn key_of_position(position: &ListPosition) -> Option<ClickOrderKey> {
    match *position {
        ListPosition::Clicked(clicks, id) => Some((clicks, (id, 0))),
        ListPosition::NeverClicked(ms, id) => Some((0, (ms, id))),
        _ => None,
    }
}

const fn position_of_key(place: ClickOrderKey) -> ListPosition {
    match place {
        (0, (ms, id)) => ListPosition::NeverClicked(ms, id),
        (clicks, (id, _)) => ListPosition::Clicked(clicks, id),
    }
}

/// Before all links nobody clicked, from the end of those that were.
const END_OF_CLICKED: ClickOrderKey = (0, (i64::MAX, i64::MAX));

struct Lister<'a> {
    store: &'a Store,
    clicks: &'a ClickStore,
    workspace: Id,
    filter: LinkFilter,
    order: Order,
    bounds: ListBounds,
}

impl Lister<'_> {
    async fn page_by_store_order(&self, limit: usize) -> Result<Page, OpsError> {
        let mut links = self.store.list(self.workspace, &self.filter, to_i64(limit) + 1).await?;
        let more = links.len() > limit;
        links.truncate(limit);
        let next = links.last().filter(|_| more);
        let next = next.map(|link| rlinks_store::ListPosition::from_link(link, self.filter.sort).into());
        let total = self.total().await?;
        let mut totals = match self.totals(links.iter().map(|link| link.id)).await {
            Ok(totals) => Some(totals),
            Err(error) => {
                tracing::warn!(%error, "clicks cannot be read, so a list shows none");
                None
            }
        };
        let listed = |link: Link| LinkWithClicks {
            total: totals.as_mut().map(|totals| totals.remove(&link.id).unwrap_or_default()),
            link,
        };
        Ok(Page { links: links.into_iter().map(listed).collect(), next, total })
    }

    async fn total(&self) -> Result<i64, StoreError> {
        if is_unfiltered(&self.filter) {
            self.store.count_links(self.workspace).await
        } else {
            self.store.count(self.workspace, &self.filter, self.bounds.max_counted).await
        }
    }

    async fn page_by_clicks(&self, after: Option<&ListPosition>, limit: usize) -> Result<Page, OpsError> {
        let after = after.and_then(key_of_position);
        let most = self.bounds.max_counted;
        let total = self.total().await?;
        // As many as are counted at most may be more.
        if total < most {
            let matches = self.store.matching_ids(self.workspace, &self.filter, most).await?;
            return self.sort_in_memory(matches, after, limit).await;
        }
        let (links, next) = self.walk_by_clicks(after, limit).await?;
        Ok(Page { links, next, total })
    }

    /// A page of few links, sorted here.
    async fn sort_in_memory(
        &self,
        matches: Vec<(Id, Timestamp)>,
        after: Option<ClickOrderKey>,
        limit: usize,
    ) -> Result<Page, OpsError> {
        let total = to_i64(matches.len());
        let totals = self.totals(matches.iter().map(|(id, _)| *id)).await?;
        let place = |(id, made): (Id, Timestamp)| {
            let total = totals.get(&id).copied().unwrap_or_default();
            (click_order_key(id, made, &total), id, total)
        };
        let mut places: Vec<(ClickOrderKey, Id, Total)> = matches.into_iter().map(place).collect();
        places.retain(|(place, ..)| after.is_none_or(|after| self.compare(*place, after).is_gt()));
        // Only the first of them in order: ten thousand need not be sorted for fifty.
        if places.len() > limit + 1 {
            places.select_nth_unstable_by(limit, |one, other| self.compare(one.0, other.0));
            places.truncate(limit + 1);
        }
        places.sort_unstable_by(|one, other| self.compare(one.0, other.0));
        let more = places.len() > limit;
        places.truncate(limit);
        let next = places.last().filter(|_| more).map(|(place, ..)| position_of_key(*place));
        let ids: Vec<Id> = places.iter().map(|(_, id, _)| *id).collect();
        let mut links = index_by_id(self.store.list_among(self.workspace, &self.filter, &ids).await?);
        let listed = |(_, id, total): &(ClickOrderKey, Id, Total)| {
            links.remove(id).map(|link| LinkWithClicks { link, total: Some(*total) })
        };
        Ok(Page { links: places.iter().filter_map(listed).collect(), next, total })
    }

    /// A page of many links, found step by step.
    async fn walk_by_clicks(
        &self,
        after: Option<ClickOrderKey>,
        limit: usize,
    ) -> Result<(Vec<LinkWithClicks>, Option<ListPosition>), OpsError> {
        let mut found: Vec<(ClickOrderKey, LinkWithClicks)> = Vec::new();
        let mut at = after;
        for _ in 0..self.bounds.max_steps {
            let never_clicked = match self.order {
                Order::Desc => at.is_some_and(|(clicks, _)| clicks == 0),
                Order::Asc => at.is_none_or(|place| place < END_OF_CLICKED && place.0 == 0),
            };
            let end = if never_clicked {
                self.step_never_clicked(&mut at, &mut found).await?
            } else {
                self.step_clicked(&mut at, &mut found).await?
            };
            if found.len() > limit {
                found.truncate(limit);
                let next = found.last().map(|(place, _)| position_of_key(*place));
                return Ok((found.into_iter().map(|(_, listed)| listed).collect(), next));
            }
            let last_part = never_clicked == (self.order == Order::Desc);
            if end && last_part {
                return Ok((found.into_iter().map(|(_, listed)| listed).collect(), None));
            }
            if end {
                // Both parts of the list meet here.
                at = Some(END_OF_CLICKED);
            }
        }
        Ok((found.into_iter().map(|(_, listed)| listed).collect(), at.map(position_of_key)))
    }

    /// One step along the clicked links. Gives whether it was the last.
    async fn step_clicked(
        &self,
        at: &mut Option<ClickOrderKey>,
        found: &mut Vec<(ClickOrderKey, LinkWithClicks)>,
    ) -> Result<bool, OpsError> {
        let after = at.map(|(clicks, (id, _))| (clicks, Id::from_i64(id)));
        let step = self
            .clicks
            .links_by_clicks(self.workspace, self.order, after, self.bounds.links_per_step)
            .await?;
        let ids: Vec<Id> = step.iter().map(|(id, _)| *id).collect();
        let mut links = index_by_id(self.store.list_among(self.workspace, &self.filter, &ids).await?);
        for (id, total) in &step {
            let here = click_order_key(*id, Timestamp::from_ms(0), total);
            *at = Some(here);
            found.extend(links.remove(id).map(|link| (here, LinkWithClicks { link, total: Some(*total) })));
        }
        Ok(step.len() < to_usize(self.bounds.links_per_step))
    }

    /// One step along all links as they were made, past those that were clicked. Gives whether it was the last.
    async fn step_never_clicked(
        &self,
        at: &mut Option<ClickOrderKey>,
        found: &mut Vec<(ClickOrderKey, LinkWithClicks)>,
    ) -> Result<bool, OpsError> {
        let made = |(_, (ms, id)): ClickOrderKey| {
            rlinks_store::ListPosition::CreatedAt(Timestamp::from_ms(ms), Id::from_i64(id))
        };
        let filter = LinkFilter { after: at.map(made), ..self.filter.clone() };
        let links = self.store.list(self.workspace, &filter, self.bounds.links_per_step).await?;
        let end = links.len() < to_usize(self.bounds.links_per_step);
        let totals = self.totals(links.iter().map(|link| link.id)).await?;
        for link in links {
            *at = Some((0, (link.created_at.ms(), link.id.as_i64())));
            let total = totals.get(&link.id).copied().unwrap_or_default();
            if total.clicks <= 0 {
                let here = click_order_key(link.id, link.created_at, &total);
                found.push((here, LinkWithClicks { link, total: Some(total) }));
            }
        }
        Ok(end)
    }

    async fn totals(&self, links: impl Iterator<Item = Id>) -> Result<HashMap<Id, Total>, StoreError> {
        let subjects: Vec<RollupSubject> = links.map(|id| RollupSubject::link(self.workspace, id)).collect();
        if subjects.is_empty() {
            return Ok(HashMap::new());
        }
        let totals = self.clicks.totals(&subjects).await?;
        Ok(totals.into_iter().map(|(subject, total)| (subject.id, total)).collect())
    }

    fn compare(&self, one: ClickOrderKey, other: ClickOrderKey) -> Ordering {
        match self.order {
            Order::Asc => one.cmp(&other),
            Order::Desc => other.cmp(&one),
        }
    }
}

fn click_order_key(id: Id, made: Timestamp, total: &Total) -> ClickOrderKey {
    match u64::try_from(total.clicks) {
        Ok(clicks) if clicks > 0 => (clicks, (id.as_i64(), 0)),
        _ => (0, (made.ms(), id.as_i64())),
    }
}

fn index_by_id(links: Vec<Link>) -> HashMap<Id, Link> {
    links.into_iter().map(|link| (link.id, link)).collect()
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn to_usize(whole: i64) -> usize {
    usize::try_from(whole).unwrap_or_default()
}
