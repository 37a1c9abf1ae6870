//! Which links somebody wants to see, as their browser's address says it. What makes no sense there is left out: it is no program
//! that asks.

use rlinks_core::LinkState;
use rlinks_store::Order;

use crate::web::extract::WebRequest;
use rlinks_ops::Caller;
use rlinks_ops::LinkVisibility;
use rlinks_ops::links::list::{ListPosition, ListQuery, Sort};

/// Links of a page.
const PAGE_SIZE: u16 = 30;

/// States to choose from, each with its word.
pub const STATE_OPTIONS: [(&str, &str); 5] = [
    ("", "Active and disabled"),
    ("active", "Active"),
    ("disabled", "Disabled"),
    ("expired", "Expired"),
    ("deleted", "Deleted"),
];
/// Orders to choose from.
pub const SORT_OPTIONS: [(&str, &str); 5] = [
    ("", "Newest first"),
    ("oldest", "Oldest first"),
    ("changed", "Last changed first"),
    ("clicks", "Most clicks first"),
    ("code", "By code"),
];

/// What the list is asked for.
#[derive(Clone, Debug, Default)]
pub struct ListPageQuery {
    pub search: String,
    pub tag: String,
    // One of [`STATE_OPTIONS`].
    pub state: &'static str,
    // One of [`SORT_OPTIONS`].
    pub sort: &'static str,
    pub cursor: Option<String>,
}

impl ListPageQuery {
    /// As the address of the page says.
    pub fn from_request(request: &WebRequest) -> Self {
        Self::parse(request.uri.query().unwrap_or_default())
    }

    pub fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        let known = |names: &[(&'static str, &str)], value: &str| {
            names.iter().map(|(name, _)| *name).find(|name| *name == value).unwrap_or_default()
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "q" => value.trim().clone_into(&mut parsed.search),
                "tag" => value.trim().clone_into(&mut parsed.tag),
                "state" => parsed.state = known(&STATE_OPTIONS, &value),
                "sort" => parsed.sort = known(&SORT_OPTIONS, &value),
                "cursor" => parsed.cursor = Some(value.into_owned()).filter(|text| !text.is_empty()),
                _ => {}
            }
        }
        parsed
    }

    /// Whether every link there is would be listed.
    pub fn is_unfiltered(&self) -> bool {
        self.search.is_empty() && self.tag.is_empty() && self.state.is_empty()
    }

    /// What to say where there is none.
    pub const fn empty_text(&self) -> &'static str {
        let only_state = self.search.is_empty() && self.tag.is_empty();
        match self.state.as_bytes() {
            b"active" if only_state => "No link is active.",
            b"disabled" if only_state => "No link is disabled.",
            b"expired" if only_state => "No link has expired.",
            b"deleted" if only_state => "No link is deleted.",
            _ => "No link matches.",
        }
    }

    /// The query of the first page of this list.
    pub fn query_string(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let pairs =
            [("q", self.search.as_str()), ("tag", &self.tag), ("state", self.state), ("sort", self.sort)];
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        query.finish()
    }

    /// The query of the page at a cursor.
    pub fn query_string_at(&self, cursor: &str) -> String {
        let mut query = self.query_string();
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str("cursor=");
        query.push_str(cursor);
        query
    }

    /// The query of the list with one tag only.
    pub fn with_tag(&self, tag: &str) -> String {
        Self { tag: tag.to_owned(), cursor: None, ..self.clone() }.query_string()
    }

    /// What a cursor of this list is bound to.
    pub fn cursor_context(&self, caller: &Caller) -> String {
        format!("web links {} {} {}", caller.workspace.id, caller.owner, self.query_string())
    }

    /// The same for the operations.
    pub fn to_list_query(&self, caller: &Caller, after: Option<ListPosition>) -> ListQuery {
        let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let (sort, order) = match self.sort {
            "oldest" => (Sort::CreatedAt, Order::Asc),
            "changed" => (Sort::UpdatedAt, Order::Desc),
            "clicks" => (Sort::Clicks, Order::Desc),
            "code" => (Sort::Code, Order::Asc),
            _ => (Sort::CreatedAt, Order::Desc),
        };
        ListQuery {
            search: named(&self.search),
            tag: named(&self.tag),
            state: match self.state {
                "active" => Some(LinkState::Active),
                "disabled" => Some(LinkState::Disabled),
                "deleted" => Some(LinkState::Deleted),
                _ => None,
            },
            expired: (self.state == "expired").then_some(true),
            created_by: (caller.visibility == LinkVisibility::Own).then(|| caller.owner.clone()),
            sort,
            order,
            limit: Some(PAGE_SIZE),
            after,
            ..ListQuery::default()
        }
    }
}
