//! The statements behind lists: every one of them is put together from the texts in this file, so there are only so many.
//!
//! | number | stands for |
//! |---|---|
//! | `$1`, `$2` | workspace, limit |
//! | `$3`, `$4`, `$9` | the place to go on from: time and id, or code |
//! | `$5`, `$6` | the first code that begins so, the first that no longer does |
//! | `$7`, `$8` | tag, words |
//! | `$10` | now |
//! | `$11`, `$12`, `$13` | made from, made before, made by |
//! | `$14` | ids, each in an array of its own |
//! | `$15` | words, each of which must be a whole one |

use rlinks_core::LinkState;

use crate::database::pool::Dialect;
use crate::links::list_filter::{ExpiryFilter, LinkFilter, Order, SortBy};
use crate::links::rows::link_columns;

/// Where a statement begins to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFrom {
    /// Along the order of the list.
    ListOrder,
    /// Wherever the database likes.
    Anywhere,
    /// At the links that pass one part of the filter.
    Index(IndexFilter),
}

/// A part of a filter whose links an index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexFilter {
    Words,
    /// Fewer than [`IndexFilter::Words`], and found without putting the links of all words together that begin so.
    WholeWords,
    InactiveState,
    Tag,
    Prefix,
    Expired,
    CreatedAt,
    CreatedBy,
    Ids,
}

impl IndexFilter {
    /// The parts a filter has, but for what its order's index knows as well.
    pub(crate) fn candidates(filter: &LinkFilter) -> impl Iterator<Item = Self> {
        let sort = filter.sort;
        let has_created_range = filter.created_after.is_some() || filter.created_before.is_some();
        [
            (Self::InactiveState, inactive_links(&filter.states).is_some()),
            (Self::Tag, filter.tag.is_some()),
            (Self::Prefix, has_prefix(filter) && sort != SortBy::Code),
            (Self::Expired, matches!(filter.expiry, Some(ExpiryFilter::Expired(_)))),
            (Self::CreatedAt, has_created_range && sort != SortBy::CreatedAt),
            (Self::CreatedBy, filter.created_by.is_some() && sort != SortBy::CreatedAt),
        ]
        .into_iter()
        .filter_map(|(index, present)| present.then_some(index))
    }

    /// Its links, each as `chosen`.
    fn links(self, filter: &LinkFilter, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::Words, Dialect::Sqlite) => {
                "select rowid as chosen from link_search where link_search match $8"
            }
            (Self::Words, Dialect::Postgres) => {
                "select rowid as chosen from link_search where words @@ $8::tsquery"
            }
            (Self::WholeWords, Dialect::Sqlite) => {
                "select rowid as chosen from link_search where link_search match $15"
            }
            (Self::WholeWords, Dialect::Postgres) => {
                "select rowid as chosen from link_search where words @@ $15::tsquery"
            }
            (Self::InactiveState, _) => inactive_links(&filter.states).unwrap_or(INACTIVE_LINKS),
            (Self::Tag, _) => "select link_id as chosen from link_tags where workspace_id = $1 and tag = $7",
            (Self::Prefix, _) => {
                "select id as chosen from links where workspace_id = $1 and code >= $5 and code < $6"
            }
            (Self::Expired, _) => {
                "select id as chosen from links where workspace_id = $1 and expires_at < $10"
            }
            (Self::CreatedAt, _) => {
                "select id as chosen from links where workspace_id = $1 and created_at >= $11 and created_at < $12"
            }
            (Self::CreatedBy, _) => {
                "select id as chosen from links where workspace_id = $1 and created_by = $13"
            }
            (Self::Ids, _) => "select cast(value ->> 0 as bigint) as chosen from json_each($14)",
        }
    }
}

/// A page of links; of [`IndexFilter::Ids`] all of them.
pub(crate) fn links(filter: &LinkFilter, scan: ScanFrom, dialect: Dialect) -> String {
    let mut sql = String::from(concat!("select ", link_columns!()));
    push_from(&mut sql, filter, scan, dialect);
    push_filter(&mut sql, filter, scan, dialect);
    if scan != ScanFrom::Index(IndexFilter::Ids) {
        sql.push_str(after(filter));
        sql.push_str(match (filter.sort, filter.order) {
            (SortBy::CreatedAt, Order::Asc) => " order by created_at, id",
            (SortBy::CreatedAt, Order::Desc) => " order by created_at desc, id desc",
            (SortBy::UpdatedAt, Order::Asc) => " order by updated_at, id",
            (SortBy::UpdatedAt, Order::Desc) => " order by updated_at desc, id desc",
            (SortBy::Code, Order::Asc) => " order by code",
            (SortBy::Code, Order::Desc) => " order by code desc",
        });
        sql.push_str(" limit $2");
    }
    sql
}

/// How many links match.
pub(crate) fn count(filter: &LinkFilter, scan: ScanFrom, dialect: Dialect) -> String {
    let mut sql = String::from("select count(*) from (select 1 as one");
    push_from(&mut sql, filter, scan, dialect);
    push_filter(&mut sql, filter, scan, dialect);
    sql.push_str(" limit $2) as matches");
    sql
}

/// Their ids, and when they were made. Whoever edits a file may have put a text there.
pub(crate) fn ids(filter: &LinkFilter, scan: ScanFrom, dialect: Dialect) -> String {
    let mut sql = String::from("select links.id, cast(created_at as bigint)");
    push_from(&mut sql, filter, scan, dialect);
    push_filter(&mut sql, filter, scan, dialect);
    sql.push_str(" limit $2");
    sql
}

/// How many links pass a part of a filter.
pub(crate) fn count_indexed(filter: &LinkFilter, index: IndexFilter, dialect: Dialect) -> String {
    ["select count(*) from (", index.links(filter, dialect), " limit $2) as few"].concat()
}

fn push_from(sql: &mut String, filter: &LinkFilter, scan: ScanFrom, dialect: Dialect) {
    match (scan, dialect) {
        // SQLite has no statistics to choose by, and would rather sort a million links by another index.
        (ScanFrom::ListOrder, Dialect::Sqlite) => sql.push_str(match (filter.sort, &filter.created_by) {
            (SortBy::CreatedAt, None) => " from links indexed by links_newest where",
            (SortBy::CreatedAt, Some(_)) => " from links indexed by links_by_maker where",
            (SortBy::UpdatedAt, _) => " from links indexed by links_last_changed where",
            (SortBy::Code, _) => " from links indexed by links_by_code where",
        }),
        (ScanFrom::ListOrder | ScanFrom::Anywhere, _) => sql.push_str(" from links where"),
        // A cross join is what SQLite does in the order it is written.
        (ScanFrom::Index(index), _) => sql.push_str(
            &[
                " from (",
                index.links(filter, dialect),
                ") as few cross join links where links.id = few.chosen and",
            ]
            .concat(),
        ),
    }
    sql.push_str(" links.workspace_id = $1");
}

fn push_filter(sql: &mut String, filter: &LinkFilter, scan: ScanFrom, dialect: Dialect) {
    sql.push_str(match state_bits(&filter.states) {
        0b001 => " and state = 'active'",
        0b010 => " and state = 'disabled'",
        0b011 => " and state in ('active', 'disabled')",
        0b100 => " and state = 'deleted'",
        0b101 => " and state in ('active', 'deleted')",
        0b110 => " and state in ('disabled', 'deleted')",
        _ => "",
    });
    sql.push_str(match filter.expiry {
        None => "",
        Some(ExpiryFilter::Expired(_)) => " and expires_at < $10",
        Some(ExpiryFilter::Current(_)) => " and (expires_at is null or expires_at >= $10)",
    });
    if filter.created_after.is_some() {
        sql.push_str(" and created_at >= $11");
    }
    if filter.created_before.is_some() {
        sql.push_str(" and created_at < $12");
    }
    if filter.created_by.is_some() {
        sql.push_str(" and created_by = $13");
    }
    if has_prefix(filter) {
        sql.push_str(" and code >= $5 and code < $6");
    }
    if filter.tag.is_some() && scan != ScanFrom::Index(IndexFilter::Tag) {
        sql.push_str(
            " and exists (select 1 from link_tags t
              where t.workspace_id = $1 and t.tag = $7 and t.link_id = links.id)",
        );
    }
    let has_words = matches!(scan, ScanFrom::Index(IndexFilter::Words | IndexFilter::WholeWords));
    if !filter.words.is_empty() && !has_words {
        sql.push_str(match dialect {
            Dialect::Sqlite => " and links.id in (select rowid from link_search where link_search match $8)",
            Dialect::Postgres => {
                " and links.id in (select rowid from link_search where words @@ $8::tsquery)"
            }
        });
    }
}

const fn after(filter: &LinkFilter) -> &'static str {
    match (filter.after.is_some(), filter.sort, filter.order) {
        (false, ..) => "",
        (true, SortBy::CreatedAt, Order::Asc) => " and (created_at, id) > ($3, $4)",
        (true, SortBy::CreatedAt, Order::Desc) => " and (created_at, id) < ($3, $4)",
        (true, SortBy::UpdatedAt, Order::Asc) => " and (updated_at, id) > ($3, $4)",
        (true, SortBy::UpdatedAt, Order::Desc) => " and (updated_at, id) < ($3, $4)",
        (true, SortBy::Code, Order::Asc) => " and code > $9",
        (true, SortBy::Code, Order::Desc) => " and code < $9",
    }
}

fn has_prefix(filter: &LinkFilter) -> bool {
    filter.prefix.as_deref().is_some_and(|prefix| !prefix.is_empty())
}

const INACTIVE_LINKS: &str = "select id as chosen from links
     where workspace_id = $1 and state <> 'active' and state in ('disabled', 'deleted')";

/// Links in these states, where no active ones are among them. An index knows those; it must be told so.
fn inactive_links(of: &[LinkState]) -> Option<&'static str> {
    match state_bits(of) {
        0b010 => Some(
            "select id as chosen from links
             where workspace_id = $1 and state <> 'active' and state = 'disabled'",
        ),
        0b100 => Some(
            "select id as chosen from links
             where workspace_id = $1 and state <> 'active' and state = 'deleted'",
        ),
        0b110 => Some(INACTIVE_LINKS),
        _ => None,
    }
}

fn state_bits(states: &[LinkState]) -> u8 {
    states.iter().fold(0, |bits, state| {
        bits | match state {
            LinkState::Active => 0b001,
            LinkState::Disabled => 0b010,
            LinkState::Deleted => 0b100,
        }
    })
}

/// The beginnings of words, as one text. They are `[a-z0-9]+`, so they need no quoting in either language.
pub(crate) fn prefix_words_query(words: &[String], dialect: Dialect) -> String {
    let (suffix, and) = match dialect {
        Dialect::Sqlite => ("*", " "),
        Dialect::Postgres => (":*", " & "),
    };
    words.iter().map(|word| format!("{word}{suffix}")).collect::<Vec<_>>().join(and)
}

/// Whole words, as one text.
pub(crate) fn whole_words_query(words: &[String], dialect: Dialect) -> String {
    words.join(match dialect {
        Dialect::Sqlite => " ",
        Dialect::Postgres => " & ",
    })
}

#[cfg(test)]
mod tests {
    use rlinks_core::{Actor, Timestamp};

    use super::*;
    use crate::ListPosition;
    use crate::database::query_plan::{empty_store, query_plan};

    fn filters() -> Vec<LinkFilter> {
        let at = Timestamp::from_ms(1);
        let plain = LinkFilter::default();
        vec![
            plain.clone(),
            LinkFilter { states: vec![LinkState::Active, LinkState::Disabled], ..plain.clone() },
            LinkFilter { prefix: Some("a".to_owned()), ..plain.clone() },
            LinkFilter { tag: Some("a".to_owned()), ..plain.clone() },
            LinkFilter { expiry: Some(ExpiryFilter::Expired(at)), ..plain.clone() },
            LinkFilter { expiry: Some(ExpiryFilter::Current(at)), ..plain.clone() },
            LinkFilter { created_after: Some(at), created_before: Some(at), ..plain.clone() },
            LinkFilter { created_by: Some(Actor::system()), ..plain },
        ]
    }

    #[tokio::test]
    async fn list_queries_use_indexes_for_order_and_filters() {
        let folder = tempfile::tempdir().unwrap();
        let store = empty_store(&folder).await;
        let id = rlinks_core::Id::from_i64(1);
        let code = rlinks_core::Code::from_path("a").unwrap();
        let at = Timestamp::from_ms(1);
        for filter in filters() {
            for (sort, after) in [
                (SortBy::CreatedAt, ListPosition::CreatedAt(at, id)),
                (SortBy::UpdatedAt, ListPosition::UpdatedAt(at, id)),
                (SortBy::Code, ListPosition::Code(code.clone())),
            ] {
                for order in [Order::Asc, Order::Desc] {
                    for after in [None, Some(after.clone())] {
                        let filter = LinkFilter { sort, order, after, ..filter.clone() };
                        let sql = links(&filter, ScanFrom::ListOrder, Dialect::Sqlite);
                        let plan = query_plan(&store, &sql).await;
                        assert!(!plan.contains("B-TREE") && !plan.contains("SCAN"), "{plan}: {sql}");
                    }
                }
            }
        }
        for (narrow, by) in [
            (IndexFilter::Tag, "link_tags USING PRIMARY KEY (workspace_id=? AND tag=?)"),
            (
                IndexFilter::Prefix,
                "USING COVERING INDEX links_by_code (workspace_id=? AND code>? AND code<?)",
            ),
            (IndexFilter::Expired, "USING COVERING INDEX links_by_expiry (workspace_id=? AND expires_at"),
            (
                IndexFilter::CreatedAt,
                "USING COVERING INDEX links_newest (workspace_id=? AND created_at>? AND created_at<?)",
            ),
            (IndexFilter::CreatedBy, "USING COVERING INDEX links_by_maker (workspace_id=? AND created_by=?)"),
        ] {
            let plan =
                query_plan(&store, &count_indexed(&LinkFilter::default(), narrow, Dialect::Sqlite)).await;
            assert!(plan.contains(by), "{plan}");
        }
        for states in
            [&[LinkState::Disabled][..], &[LinkState::Deleted], &[LinkState::Deleted, LinkState::Disabled]]
        {
            let filter = LinkFilter { states: states.to_vec(), ..LinkFilter::default() };
            let plan =
                query_plan(&store, &count_indexed(&filter, IndexFilter::InactiveState, Dialect::Sqlite))
                    .await;
            assert!(
                plan.contains("USING COVERING INDEX links_set_aside (workspace_id=? AND state=?)"),
                "{plan}"
            );
        }
        for filter in filters() {
            let sql = links(&filter, ScanFrom::Index(IndexFilter::Words), Dialect::Sqlite);
            let plan = query_plan(&store, &sql).await;
            assert!(plan.contains("SEARCH links USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
        }
    }
}
