//! What counting needs: a store with links, the clicks beside it, and a journal to put clicks into.

use std::sync::Arc;

use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::journal::{Journal, JournalOptions, Reader, SegmentWriter, SyncPolicy};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};
use rlinks_core::draft::Input;
use rlinks_core::{Actor, Code, Id, LinkDraft, LinkSource, Policy, Preset, ServedHosts, Timestamp};
use rlinks_store::StoreWriter;
use rlinks_store::write::{CodeChoice, LinkOp, LinkWrite, OnConflict, Written};

use crate::support::database::{TestStore, at};

/// The workspace every store begins with.
pub(crate) const MAIN: Id = Id::from_i64(1);
pub(crate) const FIREFOX: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
pub(crate) const IPHONE: &[u8] = b"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
pub(crate) const GOOGLEBOT: &[u8] =
    b"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Everything a test needs to count.
pub(crate) struct ClickFixture {
    pub(crate) store: StoreWriter,
    pub(crate) clicks: ClickStore,
    pub(crate) lane: Arc<SegmentWriter>,
    pub(crate) ingest: Ingest,
    /// Its folder goes with it.
    _test_store: TestStore,
}

pub(crate) fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A click by a person, from nowhere in particular.
pub(crate) fn click(link: Id, ts: Timestamp, visitor: u64) -> JournalEntry<'static> {
    JournalEntry {
        ts,
        link,
        workspace: MAIN,
        visitor,
        prefix: None,
        country: None,
        bot: false,
        ua_hash: 1,
        agent: UserAgentBytes::Raw(FIREFOX),
        referrer: b"",
        utm_source: "",
        utm_medium: "",
        utm_campaign: "",
    }
}

impl ClickFixture {
    pub(crate) async fn new(test_store: TestStore) -> Self {
        let store = test_store.open().await;
        let clicks = ClickStore::open(&test_store.location).await.unwrap();
        let options = JournalOptions {
            data: test_store.folder().to_owned(),
            budget_bytes: 64 << 20,
            sync: SyncPolicy::EverySecond,
            boot: 7,
        };
        let journal = Journal::open(options).unwrap();
        let lane = journal.new_writer();
        let reader = Reader::live(&journal);
        let control = tokio::runtime::Handle::current();
        let misses = Arc::new(MissCounter::default());
        let ingest = Ingest::new(store.reader(), control, reader, None, misses).with_drop_counting(&journal);
        Self { store, clicks, lane, ingest, _test_store: test_store }
    }

    /// Makes a link of `main` and gives its id.
    pub(crate) async fn link(&self, code: &str) -> Id {
        self.link_by(code, Actor::operator("max")).await
    }

    /// The same, made by somebody.
    pub(crate) async fn link_by(&self, code: &str, actor: Actor) -> Id {
        let input = Input { target: Some("https://example.com/".to_owned()), ..Input::default() };
        let draft =
            LinkDraft::parse(&input, &Policy::preset(Preset::Team), &ServedHosts::default(), at(0)).unwrap();
        let code = CodeChoice::Chosen(Code::from_path(code).unwrap());
        let op = LinkOp::Create { draft, code, source: LinkSource::Cli, on_conflict: OnConflict::Refuse };
        match self.store.write(LinkWrite::new(MAIN, actor, at(0), op)).await {
            Ok(Written::Created(link)) => link.id,
            other => panic!("not created: {other:?}"),
        }
    }

    /// Puts clicks into the journal.
    pub(crate) fn record(&self, records: &[JournalEntry<'_>]) {
        for record in records {
            assert!(self.lane.append(record));
        }
    }

    /// Stores all that waits, at a moment after all of it.
    pub(crate) async fn store_all(&mut self) {
        self.store_all_at(moment("2099-01-01")).await;
    }

    /// The same at a moment.
    pub(crate) async fn store_all_at(&mut self, now: Timestamp) {
        while self.ingest.ingest_next_batch(&self.clicks, now).await.unwrap() > 0 {}
    }

    /// Counts in the clicks' database past the crate. On PostgreSQL the schema is named for the query.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        use rlinks_store::database::pool::Pool;
        let row: (i64,) = match self.clicks.pool() {
            Pool::Sqlite { readers, .. } => sqlx::query_as(sql).fetch_one(readers).await.unwrap(),
            Pool::Postgres(pool) => sqlx::query_as(sql).fetch_one(pool).await.unwrap(),
        };
        row.0
    }
}
