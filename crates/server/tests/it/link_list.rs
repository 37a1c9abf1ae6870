//! Pages of links as every face shows them: in any order, each with its clicks.

use std::collections::HashMap;
use std::sync::Arc;

use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::journal::{Batch, EntryRef, Producer, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};
use rlinks_core::{Actor, Code, Id, Link, LinkState, Slug, Timestamp, Workspace};
use rlinks_ops::OpsError;
use rlinks_ops::links::list::{ListBounds, ListPosition, ListQuery, Page, Sort, list, list_with_bounds};
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{Location, Order, StoreWriter};
use tempfile::TempDir;

use crate::support::server::{MAIN, NOW, open, operator};

const ORDERS: [Order; 2] = [Order::Asc, Order::Desc];
/// Few links are sorted in memory; many are walked in small steps that end before the page is full, or in large ones.
const SORTED: ListBounds = ListBounds { max_counted: 10_000, links_per_step: 200, max_steps: 64 };
const SMALL_STEPS: ListBounds = ListBounds { max_counted: 2, links_per_step: 4, max_steps: 3 };
const LARGE_STEPS: ListBounds = ListBounds { max_counted: 2, links_per_step: 200, max_steps: 64 };

struct ListFixture {
    store: StoreWriter,
    clicks: ClickStore,
    workspace: Workspace,
    /// As made, with the clicks of people each got.
    links: Vec<(Link, u64)>,
    folder: TempDir,
}

fn member() -> Actor {
    Actor::from_user(Id::from_i64(7))
}

impl ListFixture {
    /// Links of which a third was never clicked, some only by bots, and the others with many ties.
    async fn filled(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let clicks = ClickStore::open(&Location::Sqlite(folder.path().join("rlinks.db"))).await.unwrap();
        let workspace = store.workspace(&Slug::parse("main").unwrap()).await.unwrap().unwrap();
        let mut fixture = Self { store, clicks, workspace, links: Vec::new(), folder };
        let mut records = Vec::new();
        for number in 0..count {
            let link = fixture.make(number).await;
            let (people, bots) = match number % 6 {
                0 => (0, 0),
                1 => (0, 2),
                2 => (1, 0),
                3 => (3, 1),
                _ => (number as u64 % 9 + 1, 0),
            };
            records.extend((0..people).map(|_| (link.id, false)));
            records.extend((0..bots).map(|_| (link.id, true)));
            fixture.links.push((link, people));
        }
        // Clicks of a link the store does not know, as after the restoring of an older backup.
        records.push((Id::from_i64(5), false));
        fixture.click(&records).await;
        fixture
    }

    async fn make(&self, number: usize) -> Link {
        let code = Code::from_path(&format!("{}{number}", ["a", "B", "-"][number % 3])).unwrap();
        let draft = rlinks_core::LinkDraft {
            code: Some(code.clone()),
            target: rlinks_core::Target::parse("https://example.com/", 2048).unwrap(),
            redirect_status: rlinks_core::RedirectStatus::Found,
            expires_at: None,
            title: None,
            notes: None,
            tags: if number.is_multiple_of(2) { vec!["even".to_owned()] } else { Vec::new() },
            https_only: false,
            no_loop: false,
            metadata: serde_json::Map::new(),
        };
        let source = rlinks_core::LinkSource::Cli;
        let op =
            LinkOp::Create { draft, code: CodeChoice::Chosen(code), source, on_conflict: OnConflict::Refuse };
        let actor = if number.is_multiple_of(5) { member() } else { operator() };
        // Two in a millisecond.
        let now = NOW.plus_ms(i64::try_from(number / 2).unwrap());
        let link = written(&self.store.write(LinkWrite::new(MAIN, actor, now, op)).await.unwrap());
        let state = match number % 11 {
            9 => LinkState::Disabled,
            10 => LinkState::Deleted,
            _ => return link,
        };
        let action = if state == LinkState::Deleted { Action::Delete } else { Action::Disable };
        let op = LinkOp::Replace { next: Box::new(Link { state, ..link }), action };
        written(&self.store.write(LinkWrite::new(MAIN, operator(), now, op)).await.unwrap())
    }

    async fn click(&self, links: &[(Id, bool)]) {
        let control = tokio::runtime::Handle::current();
        let nothing = Reader::abandoned(&self.folder.path().join("nothing"));
        let mut ingest =
            Ingest::new(self.store.reader(), control, nothing, None, Arc::new(MissCounter::default()));
        let producer = Producer { boot: 9, thread: 0 };
        let mut batch = Batch::default();
        for (sequence, (link, bot)) in (1..).zip(links) {
            let record = JournalEntry {
                ts: NOW,
                link: *link,
                workspace: MAIN,
                visitor: sequence,
                prefix: None,
                country: None,
                bot: *bot,
                ua_hash: 1,
                agent: UserAgentBytes::Raw(
                    b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
                ),
                referrer: b"",
                utm_source: "",
                utm_medium: "",
                utm_campaign: "",
            };
            let start = batch.bytes.len();
            record.encode(&mut batch.bytes);
            batch.entries.push(EntryRef { producer, sequence, bytes: start..batch.bytes.len() });
        }
        ingest.ingest_batch(&self.clicks, &batch, NOW).await.unwrap();
    }

    async fn page(&self, query: &ListQuery, bounds: ListBounds) -> Page {
        list_with_bounds(&self.store, &self.clicks, &self.workspace, query, NOW, bounds).await.unwrap()
    }

    /// All pages, each found within the next of some bounds.
    async fn walk(&self, query: &ListQuery, bounds: &[ListBounds]) -> Vec<Link> {
        let (mut query, mut all) = (query.clone(), Vec::new());
        let people: HashMap<Id, u64> = self.links.iter().map(|(link, people)| (link.id, *people)).collect();
        for turn in 0..1000 {
            let page = self.page(&query, bounds[turn % bounds.len()]).await;
            assert!(page.links.len() <= usize::from(query.limit.unwrap()));
            for listed in page.links {
                let total = listed.total.unwrap();
                assert_eq!(total.clicks.cast_unsigned(), people[&listed.link.id]);
                assert_eq!(total.last_click, (total.clicks > 0).then_some(NOW));
                all.push(listed.link);
            }
            let Some(next) = page.next else { return all };
            // As a cursor carries it.
            let json = serde_json::to_string(&next).unwrap();
            assert!(json.len() < 64, "{json}");
            query.after = Some(serde_json::from_str::<ListPosition>(&json).unwrap());
        }
        panic!("the list does not end");
    }

    /// The same without a database.
    fn expected(&self, query: &ListQuery) -> Vec<Link> {
        let fits = |link: &Link| {
            query.state.map_or(link.state != LinkState::Deleted, |state| link.state == state)
                && query.tag.as_ref().is_none_or(|tag| link.tags.contains(tag))
                && query.created_by.as_ref().is_none_or(|maker| link.created_by == *maker)
                && query.prefix.as_ref().is_none_or(|prefix| link.code.as_str().starts_with(prefix.as_str()))
        };
        let mut links: Vec<_> = self.links.iter().filter(|(link, _)| fits(link)).collect();
        links.sort_by_key(|(link, people)| match (query.sort, people) {
            (Sort::Clicks, 0) => (0, link.created_at.ms(), link.id.as_i64(), String::new()),
            (Sort::Clicks, people) => (people.cast_signed(), link.id.as_i64(), 0, String::new()),
            (Sort::CreatedAt, _) => (link.created_at.ms(), link.id.as_i64(), 0, String::new()),
            (Sort::UpdatedAt, _) => (link.updated_at.ms(), link.id.as_i64(), 0, String::new()),
            (Sort::Code, _) => (0, 0, 0, link.code.to_string()),
        });
        if query.order == Order::Desc {
            links.reverse();
        }
        links.into_iter().map(|(link, _)| link.clone()).collect()
    }
}

fn written(written: &Written) -> Link {
    written.link().clone()
}

#[tokio::test]
async fn every_sort_order_is_paged_completely_with_the_clicks_of_each_link() {
    let fixture = ListFixture::filled(70).await;
    for sort in [Sort::CreatedAt, Sort::UpdatedAt, Sort::Clicks, Sort::Code] {
        for order in ORDERS {
            for limit in [1, 7, 100] {
                let query = ListQuery { sort, order, limit: Some(limit), ..ListQuery::default() };
                let expected = fixture.expected(&query);
                assert_eq!(expected.len(), 64);
                assert_eq!(fixture.walk(&query, &[SORTED]).await, expected, "{query:?}");
            }
        }
    }
}

#[tokio::test]
async fn order_by_clicks_is_the_same_for_many_links_as_for_few() {
    let fixture = ListFixture::filled(70).await;
    let plain = ListQuery { sort: Sort::Clicks, ..ListQuery::default() };
    for filtered in [
        plain.clone(),
        ListQuery { tag: Some("even".to_owned()), ..plain.clone() },
        ListQuery { state: Some(LinkState::Deleted), ..plain.clone() },
        ListQuery { created_by: Some(member()), prefix: Some("a".to_owned()), ..plain.clone() },
        ListQuery { search: Some("example".to_owned()), ..plain.clone() },
    ] {
        for order in ORDERS {
            for limit in [1, 7, 100] {
                let query = ListQuery { order, limit: Some(limit), ..filtered.clone() };
                let expected = fixture.expected(&query);
                assert!(expected.len() > 2);
                // One way all along, or another with every page.
                for bounds in
                    [&[SMALL_STEPS][..], &[LARGE_STEPS], &[SORTED, SMALL_STEPS], &[LARGE_STEPS, SORTED]]
                {
                    assert_eq!(fixture.walk(&query, bounds).await, expected, "{query:?} {bounds:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn page_reports_the_total_number_of_links() {
    let fixture = ListFixture::filled(30).await;
    for sort in [Sort::CreatedAt, Sort::Clicks] {
        let query = ListQuery { sort, limit: Some(3), ..ListQuery::default() };
        let page = fixture.page(&query, SORTED).await;
        assert_eq!((page.links.len(), page.total), (3, 28));
        // All of them are counted, whatever the bound: the store has the number.
        assert_eq!(fixture.page(&query, LARGE_STEPS).await.total, 28);
        let even = ListQuery { tag: Some("even".to_owned()), ..query.clone() };
        assert_eq!(fixture.page(&even, SORTED).await.total, 14);
        assert_eq!(fixture.page(&even, LARGE_STEPS).await.total, 2);
        // And so on every page.
        let second = ListQuery { after: page.next, ..query };
        assert_eq!(fixture.page(&second, SORTED).await.total, 28);
    }
}

#[tokio::test]
async fn search_without_a_word_is_empty_and_cursor_of_another_order_is_rejected() {
    let fixture = ListFixture::filled(3).await;
    let ask =
        async |query: ListQuery| list(&fixture.store, &fixture.clicks, &fixture.workspace, &query, NOW).await;
    for sort in [Sort::CreatedAt, Sort::Clicks] {
        for text in ["%", "_", "\"", "*", "🦀", "", " "] {
            let page = ask(ListQuery { search: Some(text.to_owned()), sort, ..ListQuery::default() }).await;
            assert_eq!(page.unwrap(), Page::default(), "{text:?}");
        }
        for text in ["NEAR(", "' OR 1=1--"] {
            let page = ask(ListQuery { search: Some(text.to_owned()), sort, ..ListQuery::default() }).await;
            assert_eq!(page.unwrap().total, 0, "{text:?}");
        }
        let after = Some(ListPosition::Code(Code::from_path("a").unwrap()));
        let refused = ask(ListQuery { after, sort, ..ListQuery::default() }).await;
        assert!(matches!(refused, Err(OpsError::Invalid(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn links_are_listed_when_clicks_cannot_be_read() {
    let fixture = ListFixture::filled(3).await;
    fixture.clicks.close().await;
    let query = ListQuery::default();
    let page = list(&fixture.store, &fixture.clicks, &fixture.workspace, &query, NOW).await.unwrap();
    assert!(page.links.len() == 3 && page.links.iter().all(|listed| listed.total.is_none()));
    let by_clicks = ListQuery { sort: Sort::Clicks, ..query };
    let failed = list(&fixture.store, &fixture.clicks, &fixture.workspace, &by_clicks, NOW).await;
    assert!(matches!(failed, Err(OpsError::Store(_))), "{failed:?}");
}

#[tokio::test]
async fn expiry_filter_depends_on_the_current_time() {
    let fixture = ListFixture::filled(2).await;
    let (link, _) = fixture.links[0].clone();
    let next = Box::new(Link { expires_at: Some(NOW.plus_ms(5)), ..link });
    let op = LinkOp::Replace { next, action: Action::Update };
    fixture.store.write(LinkWrite::new(MAIN, operator(), NOW, op)).await.unwrap();
    let codes = async |expired, now: Timestamp| {
        let query = ListQuery { expired: Some(expired), ..ListQuery::default() };
        let page = list(&fixture.store, &fixture.clicks, &fixture.workspace, &query, now).await.unwrap();
        page.links.into_iter().map(|listed| listed.link.code.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((codes(true, NOW).await, codes(false, NOW).await), (String::new(), "B1 a0".to_owned()));
    let later = NOW.plus_ms(6);
    assert_eq!((codes(true, later).await, codes(false, later).await), ("a0".to_owned(), "B1".to_owned()));
}
