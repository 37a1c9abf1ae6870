//! Random sequences of changes, made to a store and to a model in memory: every outcome, and what is there in the end, must be
//! the same. The sequences are the same on both databases.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rlinks_core::link::search;
use rlinks_core::{
    Code, Domain, Id, Link, LinkDraft, LinkPatch, LinkSource, LinkState, Policy, Preset, Slug, Timestamp,
};
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{LinkFilter, ListPosition, SortBy, StoreError, StoreWriter};
use tokio::runtime::Runtime;

use crate::list::fits;
use crate::support::store::{Database, TestStore, assert_sound, at, code, draft, host, max};

/// Few, so that they meet again; some differ by case alone.
const CODES: [&str; 7] = ["aa", "AA", "aB", "b-1", "b_2", "Zz", "zz"];
const TARGETS: [&str; 4] = [
    "https://one.example/",
    "https://two.example/a",
    "https://two.example/a/?utm_source=x",
    "https://three.example/",
];
const TITLES: [&str; 3] = ["", "red apple", "green Äpfel"];
const TAGS: [&[&str]; 3] = [&[], &["red"], &["blue", "red"]];
const HOSTS: usize = 3;
const LIMIT: u32 = 4;

/// One step. Numbers choose from the lists above.
#[derive(Clone, Debug)]
enum Step {
    Clock(i64),
    Create {
        code: usize,
        content: Content,
        recreate: bool,
    },
    Pick {
        codes: Vec<usize>,
        content: Content,
    },
    Shorten {
        codes: Vec<usize>,
        content: Content,
    },
    Edit {
        code: usize,
        content: Content,
        age: i64,
    },
    Switch {
        code: usize,
        state: LinkState,
        age: i64,
    },
    AddDomain(usize),
    RemoveDomain(usize),
    SetPrimary(usize),
    List {
        prefix: Option<usize>,
        tag: Option<usize>,
        title: usize,
        states: u8,
        limit: i64,
        after: Option<usize>,
    },
    Was {
        code: usize,
        ago: i64,
    },
}

#[derive(Clone, Debug)]
struct Content {
    target: usize,
    title: usize,
    tags: usize,
    lasts: Option<i64>,
}

fn content() -> impl Strategy<Value = Content> {
    (0..TARGETS.len(), 0..TITLES.len(), 0..TAGS.len(), prop::option::weighted(0.3, 1..200_i64))
        .prop_map(|(target, title, tags, lasts)| Content { target, title, tags, lasts })
}

fn step() -> impl Strategy<Value = Step> {
    let code = || 0..CODES.len();
    let codes = || prop::collection::vec(0..CODES.len(), 1..4);
    let age = || prop_oneof![4 => Just(0), 1 => 1..3_i64];
    let state = prop_oneof![
        Just(LinkState::Active),
        Just(LinkState::Disabled),
        Just(LinkState::Deleted),
        Just(LinkState::Deleted)
    ];
    prop_oneof![
        3 => (-30..60_i64).prop_map(Step::Clock),
        6 => (code(), content(), any::<bool>()).prop_map(|(code, content, recreate)| Step::Create { code, content, recreate }),
        3 => (codes(), content()).prop_map(|(codes, content)| Step::Pick { codes, content }),
        4 => (codes(), content()).prop_map(|(codes, content)| Step::Shorten { codes, content }),
        5 => (code(), content(), age()).prop_map(|(code, content, age)| Step::Edit { code, content, age }),
        8 => (code(), state, age()).prop_map(|(code, state, age)| Step::Switch { code, state, age }),
        1 => (0..HOSTS).prop_map(Step::AddDomain),
        1 => (0..HOSTS).prop_map(Step::RemoveDomain),
        1 => (0..HOSTS).prop_map(Step::SetPrimary),
        2 => (prop::option::of(code()), prop::option::of(0..2_usize), 0..TITLES.len(), 0..8_u8, 1..6_i64, prop::option::of(code()))
            .prop_map(|(prefix, tag, title, states, limit, after)| Step::List { prefix, tag, title, states, limit, after }),
        2 => (code(), 0..200_i64).prop_map(|(code, ago)| Step::Was { code, ago }),
    ]
}

fn preset() -> impl Strategy<Value = Preset> {
    prop_oneof![Just(Preset::Fabric), Just(Preset::Edge), Just(Preset::Platform), Just(Preset::Team)]
}

/// What a workspace should have.
struct Model {
    space: Id,
    policy: Policy,
    now: Timestamp,
    /// When the last entry was made.
    last: Timestamp,
    links: BTreeMap<String, Link>,
    /// By which page which code is found, where targets are reused.
    pages: HashMap<String, String>,
    /// Code, action, moment, the link as it became.
    log: Vec<(String, &'static str, Timestamp, Link)>,
    domains: BTreeMap<String, Domain>,
    /// Entries that are not about links.
    others: usize,
}

impl Model {
    fn moment(&mut self) -> Timestamp {
        self.last = self.last.max(self.now);
        self.last
    }

    fn lives(&self, link: &Link) -> bool {
        link.state != LinkState::Deleted && !link.is_expired(self.now)
    }

    fn room_for(&self, before: Option<&Link>, next: &Link) -> Result<(), StoreError> {
        let Some(limit) = self.policy.limits.live_links else { return Ok(()) };
        let comes_alive = self.lives(next) && !before.is_some_and(|before| self.lives(before));
        let live = self.links.values().filter(|link| self.lives(link)).count();
        if comes_alive && live as u64 >= u64::from(limit) {
            Err(StoreError::QuotaExceeded(limit))
        } else {
            Ok(())
        }
    }

    fn page(&self, link: &Link) -> Option<String> {
        (self.policy.reuse && link.generated).then(|| link.target.normalized())
    }

    fn put(&mut self, link: Link, action: &'static str) {
        let name = link.code.to_string();
        self.pages.retain(|_, code| *code != name);
        if let Some(page) = self.page(&link) {
            self.pages.insert(page, name.clone());
        }
        self.log.push((name.clone(), action, self.last, link.clone()));
        self.links.insert(name, link);
    }

    /// A new link. Its id is the store's to give, so it is taken over from there.
    fn create(
        &mut self,
        draft: &LinkDraft,
        choice: &CodeChoice,
        recreate: bool,
        id: Id,
    ) -> Result<Written, StoreError> {
        let mut before = None;
        let chosen = match choice {
            CodeChoice::Chosen(code) => {
                let taken = |deleted| Err(StoreError::CodeTaken { code: code.to_string(), deleted });
                let alike = |link: &&Link| !link.generated && link.code.folded() == code.folded();
                match self.links.get(code.as_str()) {
                    Some(there) if there.state == LinkState::Deleted && recreate => {
                        before = Some(there.clone());
                    }
                    Some(there) => return taken(there.state == LinkState::Deleted),
                    None if self.policy.code.unique_fold => {
                        // It is the one that is there that is named.
                        if let Some(there) = self.links.values().find(alike) {
                            return Err(StoreError::CodeTaken {
                                code: there.code.to_string(),
                                deleted: false,
                            });
                        }
                    }
                    None => {}
                }
                code.clone()
            }
            CodeChoice::Candidates(codes) => {
                let free = codes.iter().find(|code| !self.links.contains_key(code.as_str()));
                free.cloned().ok_or(StoreError::Conflict)?
            }
            CodeChoice::FromId => panic!("no step does so"),
        };
        let link = Link {
            id,
            workspace: self.space,
            code: chosen,
            generated: !matches!(choice, CodeChoice::Chosen(_)),
            target: draft.target.clone(),
            redirect_status: draft.redirect_status,
            state: LinkState::Active,
            https_only: draft.https_only,
            no_loop: draft.no_loop,
            expires_at: draft.expires_at,
            title: draft.title.clone(),
            notes: None,
            tags: draft.tags.clone(),
            metadata: serde_json::Map::new(),
            source: LinkSource::Cli,
            created_by: max(),
            created_at: self.last.max(self.now),
            updated_at: self.last.max(self.now),
            version: before.as_ref().map_or(1, |before| before.version + 1),
        };
        self.room_for(before.as_ref(), &link)?;
        self.moment();
        self.put(link.clone(), if before.is_some() { "link.recreate" } else { "link.create" });
        Ok(Written::Created(link))
    }

    fn shorten(&mut self, draft: &LinkDraft, choice: &CodeChoice, id: Id) -> Result<Written, StoreError> {
        let found = self.pages.get(&draft.target.normalized()).map(|code| self.links[code].clone());
        let Some(link) = found.filter(|_| self.policy.reuse) else {
            return self.create(draft, choice, false, id);
        };
        if link.state == LinkState::Active && self.lives(&link) {
            return Ok(Written::Reused(link));
        }
        let mut next =
            Link { state: LinkState::Active, expires_at: None, version: link.version + 1, ..link.clone() };
        self.room_for(Some(&link), &next)?;
        next.updated_at = self.moment();
        self.put(next.clone(), if link.state == LinkState::Deleted { "link.restore" } else { "link.update" });
        Ok(Written::Revived(next))
    }

    fn replace(&mut self, next: &Link, action: &'static str) -> Result<Written, StoreError> {
        let before = self.links[next.code.as_str()].clone();
        if next.version != before.version {
            return Err(StoreError::Conflict);
        }
        if *next == before {
            return Ok(Written::Unchanged(before));
        }
        self.room_for(Some(&before), next)?;
        let other = self.page(next).and_then(|page| self.pages.get(&page));
        if let Some(code) = other.filter(|code| *code != next.code.as_str()) {
            return Err(StoreError::TargetTaken(code.clone()));
        }
        let next = Link { version: before.version + 1, updated_at: self.moment(), ..next.clone() };
        self.put(next.clone(), action);
        Ok(Written::Changed(next))
    }

    fn primary(&self) -> Option<&Domain> {
        self.domains.values().find(|domain| domain.primary)
    }
}

/// One run: a workspace of its own in a store that is shared with the other runs, written through two stores in turn.
struct Run<'a> {
    stores: [&'a StoreWriter; 2],
    number: usize,
    model: Model,
}

impl Run<'_> {
    fn host(&self, number: usize) -> rlinks_core::Host {
        host(&format!("h{number}.run-{}.example", self.number))
    }

    fn draft(&self, content: &Content) -> LinkDraft {
        let mut draft = draft(TARGETS[content.target]);
        draft.title = Some(TITLES[content.title].to_owned()).filter(|title| !title.is_empty());
        draft.tags = TAGS[content.tags].iter().map(|&tag| tag.to_owned()).collect();
        draft.expires_at = content.lasts.map(|ms| self.model.now.plus_ms(ms));
        draft
    }

    async fn write(&self, store: &StoreWriter, op: LinkOp) -> Result<Written, StoreError> {
        store.write(LinkWrite::new(self.model.space, max(), self.model.now, op)).await
    }

    async fn new_link(
        &mut self,
        store: &StoreWriter,
        draft: LinkDraft,
        choice: CodeChoice,
        existing: OnConflict,
    ) {
        let op = LinkOp::Create {
            draft: draft.clone(),
            code: choice.clone(),
            source: LinkSource::Cli,
            on_conflict: existing.clone(),
        };
        let got = self.write(store, op).await;
        let id = got.as_ref().map_or(Id::from_i64(0), |written| written.link().id);
        if matches!(got, Ok(Written::Created(_))) {
            assert!(self.model.links.values().all(|link| link.id != id), "an id was given twice");
        }
        let expected = match existing {
            OnConflict::Reuse { .. } => self.model.shorten(&draft, &choice, id),
            OnConflict::Recreate => self.model.create(&draft, &choice, true, id),
            OnConflict::Refuse => self.model.create(&draft, &choice, false, id),
        };
        same(&got, &expected);
    }

    async fn change(
        &mut self,
        store: &StoreWriter,
        code: &str,
        age: i64,
        action: (Action, &'static str),
        edit: impl FnOnce(&mut Link),
    ) {
        let Some(mut next) = self.model.links.get(code).cloned() else {
            let ghost = Link { code: crate::support::store::code(code), ..self.ghost() };
            let got = self.write(store, LinkOp::Replace { next: Box::new(ghost), action: action.0 }).await;
            same(&got, &Err(StoreError::NotFound(format!("link `{code}`"))));
            return;
        };
        next.version -= age;
        edit(&mut next);
        let got = self.write(store, LinkOp::Replace { next: Box::new(next.clone()), action: action.0 }).await;
        let expected = self.model.replace(&next, action.1);
        same(&got, &expected);
    }

    /// A link nobody made.
    fn ghost(&self) -> Link {
        let text = serde_json::json!({
            "id": "1", "workspace": self.model.space, "code": "x", "target": TARGETS[0], "redirect_status": 301, "state": "active",
            "https_only": false, "no_loop": true, "expires_at": null, "title": null, "notes": null, "tags": [], "source": "cli",
            "created_by": "x", "created_at": at(0), "updated_at": at(0), "version": 1,
        });
        serde_json::from_value(text).unwrap()
    }

    async fn step(&mut self, store: &StoreWriter, step: Step) {
        let pick = |codes: &[usize]| {
            CodeChoice::Candidates(codes.iter().map(|&number| code(CODES[number])).collect::<Vec<Code>>())
        };
        match step {
            Step::Clock(ms) => self.model.now = self.model.now.plus_ms(ms),
            Step::Create { code: number, content, recreate } => {
                let existing = if recreate { OnConflict::Recreate } else { OnConflict::Refuse };
                self.new_link(store, self.draft(&content), CodeChoice::Chosen(code(CODES[number])), existing)
                    .await;
            }
            Step::Pick { codes, content } if !self.model.policy.reuse => {
                self.new_link(store, self.draft(&content), pick(&codes), OnConflict::Refuse).await;
            }
            Step::Pick { codes, content } | Step::Shorten { codes, content } => {
                let draft = self.draft(&content);
                let normalized = draft.target.normalized();
                let existing = OnConflict::Reuse { normalized, sent: Box::new(LinkPatch::default()) };
                self.new_link(store, draft, pick(&codes), existing).await;
            }
            Step::Edit { code, content, age } => {
                let draft = self.draft(&content);
                let edit = |link: &mut Link| {
                    (link.target, link.title, link.tags) = (draft.target, draft.title, draft.tags);
                    link.expires_at = draft.expires_at;
                };
                self.change(store, CODES[code], age, (Action::Update, "link.update"), edit).await;
            }
            Step::Switch { code, state, age } => {
                let action = match state {
                    LinkState::Active => (Action::Enable, "link.enable"),
                    LinkState::Disabled => (Action::Disable, "link.disable"),
                    LinkState::Deleted => (Action::Delete, "link.delete"),
                };
                self.change(store, CODES[code], age, action, |link| link.state = state).await;
            }
            Step::AddDomain(number) => self.add_domain(store, number).await,
            Step::RemoveDomain(number) => self.remove_domain(store, number).await,
            Step::SetPrimary(number) => self.set_primary(store, number).await,
            Step::List { prefix, tag, title, states, limit, after } => {
                let filter = LinkFilter {
                    prefix: prefix.map(|number| CODES[number][..1].to_owned()),
                    tag: tag.map(|number| ["red", "blue"][number].to_owned()),
                    words: search::parse_query(TITLES[title]),
                    states: [LinkState::Active, LinkState::Disabled, LinkState::Deleted]
                        .into_iter()
                        .enumerate()
                        .filter(|(bit, _)| states & 1 << bit != 0)
                        .map(|(_, state)| state)
                        .collect(),
                    after: after
                        .and_then(|number| self.model.links.get(CODES[number]))
                        .map(|link| ListPosition::from_link(link, SortBy::CreatedAt)),
                    ..LinkFilter::default()
                };
                self.list(store, &filter, limit).await;
            }
            Step::Was { code: number, ago } => {
                let moment = Timestamp::from_ms(self.model.now.ms() - ago);
                let got = store.link_at(self.model.space, &code(CODES[number]), moment).await.unwrap();
                let was = self
                    .model
                    .log
                    .iter()
                    .rev()
                    .find(|(code, _, ts, _)| code == CODES[number] && *ts <= moment);
                assert_eq!(got.as_ref(), was.map(|(_, _, _, link)| link));
            }
        }
    }

    async fn list(&self, store: &StoreWriter, filter: &LinkFilter, limit: i64) {
        let got = store.list(self.model.space, filter, limit).await.unwrap();
        let mut expected: Vec<_> =
            self.model.links.values().filter(|link| fits(link, filter)).cloned().collect();
        expected.sort_by_key(|link| std::cmp::Reverse((link.created_at, link.id)));
        expected.truncate(usize::try_from(limit).unwrap());
        assert_eq!(got, expected, "{filter:?}");
    }

    async fn add_domain(&mut self, store: &StoreWriter, number: usize) {
        let host = self.host(number);
        let got = store.add_domain(self.model.space, host.clone(), &max(), self.model.now).await.unwrap();
        let primary = self.model.primary().is_none();
        let new =
            Domain { host: host.clone(), workspace: self.model.space, primary, created_at: self.model.now };
        if !self.model.domains.contains_key(host.as_str()) {
            self.model.moment();
            self.model.others += 1;
        }
        assert_eq!(got, *self.model.domains.entry(host.to_string()).or_insert(new));
    }

    async fn remove_domain(&mut self, store: &StoreWriter, number: usize) {
        let host = self.host(number);
        let got = store.remove_domain(self.model.space, &host, &max(), self.model.now).await;
        let Some(gone) = self.model.domains.remove(host.as_str()) else {
            assert!(matches!(got, Err(StoreError::NotFound(_))), "{got:?}");
            return;
        };
        got.unwrap();
        self.model.moment();
        self.model.others += 1;
        let heir =
            self.model.domains.values_mut().min_by_key(|domain| (domain.created_at, domain.host.clone()));
        if let Some(heir) = heir.filter(|_| gone.primary) {
            heir.primary = true;
            self.model.others += 1;
        }
    }

    async fn set_primary(&mut self, store: &StoreWriter, number: usize) {
        let host = self.host(number);
        let got = store.set_primary_domain(self.model.space, &host, &max(), self.model.now).await;
        let Some(seen) = self.model.domains.get(host.as_str()).cloned() else {
            assert!(matches!(got, Err(StoreError::NotFound(_))), "{got:?}");
            return;
        };
        if !seen.primary {
            self.model.moment();
            self.model.others += 1;
        }
        for domain in self.model.domains.values_mut() {
            domain.primary = domain.host == host;
        }
        assert_eq!(got.unwrap(), self.model.domains[host.as_str()]);
    }

    /// What is there in the end.
    async fn finish(&self) {
        let (store, model) = (self.stores[0], &self.model);
        self.list(store, &LinkFilter::default(), 1000).await;
        let alive = model.links.values().filter(|link| link.state != LinkState::Deleted).count();
        assert_eq!(store.count_links(model.space).await.unwrap(), i64::try_from(alive).unwrap());
        for name in CODES {
            assert_eq!(store.link(model.space, &code(name)).await.unwrap().as_ref(), model.links.get(name));
            let history = store.history(model.space, &code(name)).await.unwrap();
            let expected: Vec<_> = model.log.iter().filter(|(code, ..)| code == name).collect();
            assert_eq!(history.len(), expected.len(), "{name}");
            for (entry, (_, action, ts, link)) in history.iter().zip(expected) {
                assert_eq!((entry.action.as_str(), entry.ts), (*action, *ts));
                let after: Link = serde_json::from_str(entry.after.as_ref().unwrap().get()).unwrap();
                assert_eq!(after, *link);
            }
        }
        let domains = store.domains().await.unwrap();
        let domains: Vec<_> = domains.into_iter().filter(|domain| domain.workspace == model.space).collect();
        assert_eq!(domains, model.domains.values().cloned().collect::<Vec<_>>());
        let heads = store.heads().await.unwrap();
        let (_, head) = heads.iter().find(|(id, _)| *id == model.space).unwrap();
        assert_eq!(head.seq, i64::try_from(1 + model.log.len() + model.others).unwrap());
        assert_eq!(store.last_change(model.space).await.unwrap(), Some(model.last));
    }
}

#[track_caller]
fn same(got: &Result<Written, StoreError>, expected: &Result<Written, StoreError>) {
    assert_eq!(format!("{got:#?}"), format!("{expected:#?}"));
}

async fn run(stores: [&StoreWriter; 2], number: usize, preset: Preset, steps: Vec<Step>) {
    let mut policy = Policy::preset(preset);
    if preset == Preset::Edge {
        policy.limits.live_links = Some(LIMIT);
    }
    let now = at(0);
    let slug = Slug::parse(&format!("run-{number}")).unwrap();
    let space =
        stores[0].create_workspace(slug, "Run".to_owned(), policy.clone(), &max(), now).await.unwrap().id;
    let model = Model {
        space,
        policy,
        now,
        last: now,
        links: BTreeMap::new(),
        pages: HashMap::new(),
        log: Vec::new(),
        domains: BTreeMap::new(),
        others: 0,
    };
    let mut run = Run { stores, number, model };
    for (number, step) in steps.into_iter().enumerate() {
        let store = run.stores[number % 2];
        run.step(store, step).await;
    }
    run.finish().await;
}

/// So many sequences, the same ones every time.
fn compare(runtime: &Runtime, test_store: &TestStore, cases: u32) -> Result<(), String> {
    let stores = [runtime.block_on(test_store.open()), runtime.block_on(test_store.open())];
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let number = std::cell::Cell::new(0);
    let sequences = (preset(), prop::collection::vec(step(), 1..60));
    let outcome = runner.run(&sequences, |(preset, steps)| {
        number.set(number.get() + 1);
        runtime.block_on(run([&stores[0], &stores[1]], number.get(), preset, steps));
        Ok(())
    });
    outcome.map_err(|error| error.to_string())?;
    runtime.block_on(assert_sound(&stores[0]));
    Ok(())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn random_changes_on_sqlite_match_the_model() {
    compare(&runtime(), &TestStore::sqlite(), 60).unwrap_or_else(|error| panic!("{error}"));
}

mod postgres {
    use super::{Database, compare, runtime};

    #[test]
    fn random_changes_match_the_model() {
        let runtime = runtime();
        let database = runtime.block_on(Database::create());
        let outcome = compare(&runtime, &database.test_store, 20);
        runtime.block_on(database.remove());
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
}
