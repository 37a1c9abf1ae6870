//! Which links a list has, in which order, and from where on.

use rlinks_core::link::search;
use rlinks_core::{Actor, Code, Id, Link, LinkState, Timestamp};

/// Which links to list, and how.
#[derive(Clone, Debug, Default)]
pub struct LinkFilter {
    /// Codes that begin so.
    pub prefix: Option<String>,
    /// Links with this tag.
    pub tag: Option<String>,
    /// Links that have a word beginning with each of these (from `rlinks_core::link::search::query`).
    pub words: Vec<String>,
    /// In these states; empty means any.
    pub states: Vec<LinkState>,
    /// Only those that are over, or only the others.
    pub expiry: Option<ExpiryFilter>,
    /// Made at this moment or later.
    pub created_after: Option<Timestamp>,
    /// Made before this moment.
    pub created_before: Option<Timestamp>,
    pub created_by: Option<Actor>,
    /// By what the list is sorted.
    pub sort: SortBy,
    /// Which end comes first.
    pub order: Order,
    /// Only after this place in the list. It must be one of the same sort.
    pub after: Option<ListPosition>,
    /// What few links are. How a list is found depends on it, and never what is in it.
    #[doc(hidden)]
    pub small_result: SmallResult,
}

/// So many links are looked up and sorted rather than looked for along the order.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct SmallResult(pub i64);

impl Default for SmallResult {
    fn default() -> Self {
        Self(10_000)
    }
}

/// Whether links are over, as seen from a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryFilter {
    /// They were over by then.
    Expired(Timestamp),
    /// They were not, or never will be.
    Current(Timestamp),
}

/// By what a list is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// When links were made; then by id.
    #[default]
    CreatedAt,
    /// When they were last changed; then by id.
    UpdatedAt,
    /// Codes, by their bytes.
    Code,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest, the least.
    Asc,
    /// The newest, the greatest.
    #[default]
    Desc,
}

/// A place in a list: that of a link, be it still there or not. Links that come and go elsewhere do not move it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPosition {
    /// By the time of making.
    CreatedAt(Timestamp, Id),
    /// By the time of the last change.
    UpdatedAt(Timestamp, Id),
    Code(Code),
}

impl ListPosition {
    /// Where a link is in a list.
    pub fn from_link(link: &Link, sort: SortBy) -> Self {
        match sort {
            SortBy::CreatedAt => Self::CreatedAt(link.created_at, link.id),
            SortBy::UpdatedAt => Self::UpdatedAt(link.updated_at, link.id),
            SortBy::Code => Self::Code(link.code.clone()),
        }
    }

    /// The sort it is a place in.
    pub const fn sort(&self) -> SortBy {
        match self {
            Self::CreatedAt(..) => SortBy::CreatedAt,
            Self::UpdatedAt(..) => SortBy::UpdatedAt,
            Self::Code(_) => SortBy::Code,
        }
    }
}

impl LinkFilter {
    /// No link is so, and not every database takes the question.
    pub(super) fn matches_nothing(&self) -> bool {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let no_code = !prefix.is_empty() && !rlinks_core::link::code::is_code(prefix);
        no_code || self.tag.as_ref().is_some_and(|tag| tag.contains('\0'))
    }

    pub(super) fn has_words(&self, link: &Link) -> bool {
        search::matches(link, &self.words)
    }

    pub(super) fn without_words(&self) -> Self {
        Self { words: Vec::new(), ..self.clone() }
    }
}
