//! Lists of links, and how each is found.
//!
//! The one place where a statement is put together, and it is put together from static fragments only (see `list_sql`):
//! `$1 is null or ...` would scan the table. A list is walked in its order by an index. Where a filter lets few links through,
//! these are looked up and sorted instead: walking could pass by a million others to find them.

use std::collections::BTreeSet;

use rlinks_core::{Actor, Id, Link, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::json::json;
use crate::database::paging::is_full_page;
use crate::database::pool::read;
use crate::links::list_filter::{ExpiryFilter, LinkFilter, ListPosition, Order, SmallResult};
use crate::links::list_sql::{self, IndexFilter, ScanFrom};
use crate::links::recover;
use crate::links::rows::LinkRow;
use crate::{Store, StoreError};

/// So many links are looked through for words that many have, before all that have them are sorted.
const LOOK_AHEAD_LINKS: i64 = 4_096;
/// A word that one link of so many has is not looked for along the list.
const MAX_LINKS_PER_MATCH: i64 = 5;
/// So many links at either end of the list show which words are rare.
const SAMPLE_LINKS: i64 = 200;

/// What looking for words gave.
enum SearchResult {
    /// Every link that matches, in order.
    All(Vec<Link>),
    /// Those of the first links that match. There may be more.
    First(Vec<Link>),
}

/// Where matches are found when their order does not matter.
enum UnorderedPlan {
    Links(Vec<Link>),
    /// At one place after the other.
    Scans(Vec<ScanFrom>),
}

impl Store {
    /// Links of a workspace in their order. Those nobody can read, not even from the log, are passed over.
    pub async fn list(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        limit: i64,
    ) -> Result<Vec<Link>, StoreError> {
        if filter.after.as_ref().is_some_and(|after| after.sort() != filter.sort) {
            return Err(StoreError::Refused("a place in a list of another order".to_owned()));
        }
        if filter.matches_nothing() {
            return Ok(Vec::new());
        }
        if !filter.words.is_empty() {
            return self.search(workspace, filter, limit).await;
        }
        let scan =
            self.selective_index(workspace, filter).await?.map_or(ScanFrom::ListOrder, ScanFrom::Index);
        self.page(workspace, filter, scan, limit).await
    }

    /// A page of links that have words.
    async fn search(&self, workspace: Id, filter: &LinkFilter, limit: i64) -> Result<Vec<Link>, StoreError> {
        let first = |mut links: Vec<Link>| {
            links.truncate(usize::try_from(limit).unwrap_or_default());
            links
        };
        match self.search_without_common_words(workspace, filter, limit).await? {
            SearchResult::All(links) => return Ok(first(links)),
            SearchResult::First(links) if is_full_page(limit, links.len()) => return Ok(first(links)),
            SearchResult::First(_) => {}
        }
        // Many links have the words, so a page of them is found among the first, mostly.
        let ahead = LOOK_AHEAD_LINKS.min(filter.small_result.0);
        let mut links = self.page(workspace, &filter.without_words(), ScanFrom::ListOrder, ahead).await?;
        let all = !is_full_page(ahead, links.len());
        links.retain(|link| filter.has_words(link));
        if all || is_full_page(limit, links.len()) {
            return Ok(first(links));
        }
        self.page(workspace, filter, ScanFrom::Index(IndexFilter::Words), limit).await
    }

    /// Looks for words where that can be done without asking the index for a word that many have: it would put all their links
    /// together first. So where something else lets few links through, these are looked at; and where a word is rare at both ends of
    /// the list, the index is asked for that one, and the links it knows are looked at for the others. With `enough` matches among
    /// the first links it does not go on.
    async fn search_without_common_words(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        enough: i64,
    ) -> Result<SearchResult, StoreError> {
        let SmallResult(few) = filter.small_result;
        let plain = filter.without_words();
        let among = |mut links: Vec<Link>| {
            links.retain(|link| filter.has_words(link));
            links
        };
        if let Some(narrow) = self.selective_index(workspace, &plain).await? {
            return Ok(SearchResult::All(among(
                self.page(workspace, &plain, ScanFrom::Index(narrow), few).await?,
            )));
        }
        let sample = self.page(workspace, &plain, ScanFrom::ListOrder, SAMPLE_LINKS.min(few)).await?;
        if !is_full_page(SAMPLE_LINKS.min(few), sample.len()) {
            return Ok(SearchResult::All(among(sample)));
        }
        let matches = sample.iter().filter(|link| filter.has_words(link)).count();
        if is_full_page(enough, matches) {
            return Ok(SearchResult::First(among(sample)));
        }
        // What is common may have become so, or no longer be: the other end of the list has its say.
        let order = if filter.order == Order::Asc { Order::Desc } else { Order::Asc };
        let other_end = LinkFilter { order, after: None, ..plain.clone() };
        let others = self.page(workspace, &other_end, ScanFrom::ListOrder, SAMPLE_LINKS.min(few)).await?;
        let mut rare = LinkFilter { words: Vec::new(), ..plain };
        for word in &filter.words {
            let one = LinkFilter { words: vec![word.clone()], ..rare.clone() };
            let common = |links: &[Link]| {
                links.iter().filter(|link| one.has_words(link)).count() * 20 >= links.len().max(1)
            };
            if !common(&sample)
                && !common(&others)
                && self.is_selective(workspace, &one, IndexFilter::WholeWords).await?
            {
                rare.words.push(word.clone());
            }
        }
        if !rare.words.is_empty() && self.is_selective(workspace, &rare, IndexFilter::Words).await? {
            let links = self.page(workspace, &rare, ScanFrom::Index(IndexFilter::Words), few).await?;
            return Ok(SearchResult::All(among(links)));
        }
        Ok(SearchResult::First(among(sample)))
    }

    /// Those of these links that match, in no order. Where the list is sorted by something else than links know of.
    pub async fn list_among(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        links: &[Id],
    ) -> Result<Vec<Link>, StoreError> {
        if links.is_empty() || filter.matches_nothing() {
            return Ok(Vec::new());
        }
        let plain = filter.without_words();
        let sql = list_sql::links(&plain, ScanFrom::Index(IndexFilter::Ids), self.dialect());
        let rows: Vec<LinkRow> = self.query_rows(workspace, &plain, sql, i64::MAX, links).await?;
        let mut found = recover::readable(recover::links(&self.pool, rows).await?);
        found.retain(|link| filter.has_words(link));
        Ok(found)
    }

    /// How many links match, in the whole list; those beyond `most` are not counted.
    pub async fn count(&self, workspace: Id, filter: &LinkFilter, most: i64) -> Result<i64, StoreError> {
        if filter.matches_nothing() {
            return Ok(0);
        }
        let mut count = 0;
        let scans = match self.plan_unordered(workspace, filter).await? {
            UnorderedPlan::Links(links) => return Ok(i64::try_from(links.len()).unwrap_or(most).min(most)),
            UnorderedPlan::Scans(scans) => scans,
        };
        for scan in &scans {
            if *scan == ScanFrom::Index(IndexFilter::Words)
                && self.has_frequent_matches(workspace, filter, most).await?
            {
                return Ok(most);
            }
            let sql = list_sql::count(filter, *scan, self.dialect());
            let rows: Vec<(i64,)> = self.query_rows(workspace, filter, sql, most, &[]).await?;
            count = rows.first().map_or(0, |(count,)| *count);
            if count >= most {
                break;
            }
        }
        Ok(count)
    }

    /// Whether so many links have the words that they are found by looking at the first ones of the list: the index takes the longer
    /// the more there are.
    async fn has_frequent_matches(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        most: i64,
    ) -> Result<bool, StoreError> {
        let mut plain = LinkFilter { after: None, ..filter.without_words() };
        let (mut seen, mut found) = (0, 0);
        while found < most {
            let links = self
                .page(workspace, &plain, ScanFrom::ListOrder, LOOK_AHEAD_LINKS.min(filter.small_result.0))
                .await?;
            let Some(last) = links.last() else { return Ok(false) };
            plain.after = Some(ListPosition::from_link(last, filter.sort));
            seen += links.len();
            found += i64::try_from(links.iter().filter(|link| filter.has_words(link)).count()).unwrap_or(0);
            // At this rate it would be a long walk.
            if found.saturating_mul(MAX_LINKS_PER_MATCH) < i64::try_from(seen).unwrap_or(i64::MAX) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// At most `most` of the links that match, and when they were made; in no order.
    pub async fn matching_ids(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        most: i64,
    ) -> Result<Vec<(Id, Timestamp)>, StoreError> {
        if filter.matches_nothing() {
            return Ok(Vec::new());
        }
        let mut rows: Vec<(i64, i64)> = Vec::new();
        let scans = match self.plan_unordered(workspace, filter).await? {
            UnorderedPlan::Links(links) => {
                let some = links.iter().take(usize::try_from(most).unwrap_or(usize::MAX));
                return Ok(some.map(|link| (link.id, link.created_at)).collect());
            }
            UnorderedPlan::Scans(scans) => scans,
        };
        for scan in &scans {
            rows = self
                .query_rows(workspace, filter, list_sql::ids(filter, *scan, self.dialect()), most, &[])
                .await?;
            if is_full_page(most, rows.len()) {
                break;
            }
        }
        Ok(rows.into_iter().map(|(id, at)| (Id::from_i64(id), Timestamp::from_ms(at))).collect())
    }

    /// Where to begin when the order does not matter: at one place after the other until there are enough, each knowing of all
    /// links that those before it know of, and the last of all that match.
    async fn plan_unordered(&self, workspace: Id, filter: &LinkFilter) -> Result<UnorderedPlan, StoreError> {
        if filter.words.is_empty() {
            let scan =
                self.selective_index(workspace, filter).await?.map_or(ScanFrom::Anywhere, ScanFrom::Index);
            return Ok(UnorderedPlan::Scans(vec![scan]));
        }
        let whole_list = LinkFilter { after: None, ..filter.clone() };
        Ok(match self.search_without_common_words(workspace, &whole_list, i64::MAX).await? {
            SearchResult::All(links) => UnorderedPlan::Links(links),
            SearchResult::First(_) => UnorderedPlan::Scans(vec![
                ScanFrom::Index(IndexFilter::WholeWords),
                ScanFrom::Index(IndexFilter::Words),
            ]),
        })
    }

    /// A part of the filter that lets few links through. It is counted in its own index, and no further than matters.
    async fn selective_index(
        &self,
        workspace: Id,
        filter: &LinkFilter,
    ) -> Result<Option<IndexFilter>, StoreError> {
        for index in IndexFilter::candidates(filter) {
            if self.is_selective(workspace, filter, index).await? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    async fn is_selective(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        index: IndexFilter,
    ) -> Result<bool, StoreError> {
        let SmallResult(few) = filter.small_result;
        let sql = list_sql::count_indexed(filter, index, self.dialect());
        let rows: Vec<(i64,)> = self.query_rows(workspace, filter, sql, few + 1, &[]).await?;
        Ok(rows.first().is_some_and(|(width,)| *width <= few))
    }

    async fn page(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        scan: ScanFrom,
        limit: i64,
    ) -> Result<Vec<Link>, StoreError> {
        let sql = list_sql::links(filter, scan, self.dialect());
        let mut page_limit = limit;
        loop {
            let rows: Vec<LinkRow> = self.query_rows(workspace, filter, sql.clone(), page_limit, &[]).await?;
            let (all, more) = (rows.len(), is_full_page(page_limit, rows.len()));
            let mut links = recover::readable(recover::links(&self.pool, rows).await?);
            // A short page means the end of the list, so one that is short of a broken row is asked for again, longer.
            if is_full_page(limit, links.len()) || !more {
                links.truncate(usize::try_from(limit).unwrap_or_default());
                return Ok(links);
            }
            page_limit = limit + i64::try_from(all - links.len()).unwrap_or(limit);
        }
    }

    /// Runs a statement of `sql` with what its numbers stand for.
    async fn query_rows<R>(
        &self,
        workspace: Id,
        filter: &LinkFilter,
        sql: String,
        limit: i64,
        among: &[Id],
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let (after_ms, after_id, after_code) = match &filter.after {
            None => (0, 0, ""),
            Some(ListPosition::CreatedAt(at, id) | ListPosition::UpdatedAt(at, id)) => {
                (at.ms(), id.as_i64(), "")
            }
            Some(ListPosition::Code(code)) => (0, 0, code.as_str()),
        };
        let prefix = filter.prefix.as_deref().unwrap_or_default();
        let now = match filter.expiry {
            Some(ExpiryFilter::Expired(now) | ExpiryFilter::Current(now)) => now.ms(),
            None => 0,
        };
        let among: BTreeSet<[i64; 1]> = among.iter().map(|id| [id.as_i64()]).collect();
        Ok(read!(
            &self.pool,
            fetch_all,
            AssertSqlSafe(sql.as_str()),
            workspace.as_i64(),
            limit,
            after_ms,
            after_id,
            prefix,
            after_prefix(prefix),
            filter.tag.as_deref().unwrap_or_default(),
            list_sql::prefix_words_query(&filter.words, self.dialect()),
            after_code,
            now,
            filter.created_after.map_or(0, Timestamp::ms),
            filter.created_before.map_or(i64::MAX, Timestamp::ms),
            filter.created_by.as_ref().map_or("", Actor::as_str),
            json(&among),
            list_sql::whole_words_query(&filter.words, self.dialect())
        )?)
    }
}

/// The least text greater than everything with this prefix.
fn after_prefix(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        // Codes are ASCII below DEL, so the last byte has a successor.
        *last += 1;
    }
    String::from_utf8(bytes).unwrap_or_default()
}
