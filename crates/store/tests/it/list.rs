//! Lists: filters, order, pages, search.

use std::collections::BTreeSet;

use rlinks_core::link::search;
use rlinks_core::{Actor, Id, Link, LinkState, Policy, Preset};
use rlinks_store::write::{Action, CodeChoice, LinkWrite};
use rlinks_store::{
    ExpiryFilter, LinkFilter, ListPosition, Order, SmallResult, SortBy, StoreError, StoreWriter,
};

use crate::support::store::{
    MAIN, TestStore, at, changed, code, codes, contract, create, created, draft, in_state, make, max,
    replace, workspace,
};

contract!(
    list_is_newest_first_and_pages_are_stable,
    every_order_is_paged_without_gap_or_repetition_during_inserts,
    combined_filters_match_the_links_that_each_matches,
    time_and_creator_filters_combine_with_every_order,
    hostile_filters_match_literally_and_cause_no_error,
    cursor_of_another_order_is_rejected,
    prefix_filter_handles_the_first_and_last_characters,
    search_finds_word_prefixes_in_every_field,
    hostile_search_words_match_nothing_and_cause_no_error,
    changed_link_is_found_by_its_current_words,
    tag_filter_matches_whole_tags_case_sensitively,
);

async fn list(store: &StoreWriter, filter: &LinkFilter) -> Vec<Link> {
    store.list(MAIN, filter, 1000).await.unwrap()
}

async fn search(store: &StoreWriter, text: &str) -> Vec<String> {
    let filter = LinkFilter { words: search::parse_query(text), ..LinkFilter::default() };
    let mut found: Vec<_> =
        list(store, &filter).await.into_iter().map(|link| link.code.to_string()).collect();
    found.sort();
    found
}

async fn list_is_newest_first_and_pages_are_stable(test_store: TestStore) {
    let store = test_store.open().await;
    // Several in one millisecond: then the id decides.
    for number in 0..25 {
        make(&store, &format!("code-{number:02}"), "https://example.com/", number / 5).await;
    }
    let space = workspace(&store, "other", Policy::preset(Preset::Fabric)).await.id;
    created(
        store
            .write(create(space, CodeChoice::Chosen(code("theirs")), draft("https://example.com/"), 9))
            .await,
    );
    let whole = list(&store, &LinkFilter::default()).await;
    let expected: Vec<_> = (0..25).rev().map(|number| format!("code-{number:02}")).collect();
    assert_eq!(codes(&whole), expected);
    for size in [1, 4, 5, 24, 25, 26] {
        let (mut read, mut filter) = (Vec::new(), LinkFilter::default());
        loop {
            let page = store.list(MAIN, &filter, size).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(ListPosition::from_link(last, SortBy::CreatedAt));
            assert!(i64::try_from(page.len()).unwrap() <= size);
            read.extend(page);
        }
        assert_eq!(read, whole, "pages of {size}");
    }
    // What comes and changes while somebody turns pages moves nothing that was there.
    let first = store.list(MAIN, &LinkFilter::default(), 10).await.unwrap();
    make(&store, "newest", "https://example.com/", 100).await;
    changed(store.write(in_state(&whole[12], LinkState::Disabled, 101)).await);
    let after = first.last().map(|link| ListPosition::from_link(link, SortBy::CreatedAt));
    let second = store.list(MAIN, &LinkFilter { after, ..LinkFilter::default() }, 10).await.unwrap();
    assert_eq!(codes(&second), codes(&whole[10..20]));
}

async fn combined_filters_match_the_links_that_each_matches(test_store: TestStore) {
    let store = test_store.open().await;
    let states = [LinkState::Active, LinkState::Disabled, LinkState::Deleted];
    for number in 0..36_usize {
        let mut wanted = draft(&format!("https://host{}.example/page", number % 3));
        wanted.tags = [("red", 2), ("blue", 3)]
            .into_iter()
            .filter(|(_, every)| number % every == 0)
            .map(|(tag, _)| tag.to_owned())
            .collect();
        wanted.tags.sort();
        let name = format!("{}{number:02}", ["a-", "ab", "b_"][number / 2 % 3]);
        let link = created(store.write(create(MAIN, CodeChoice::Chosen(code(&name)), wanted, 1)).await);
        let state = states[number / 12];
        if state != LinkState::Active {
            changed(store.write(in_state(&link, state, 2)).await);
        }
    }
    let whole = list(&store, &LinkFilter::default()).await;
    assert_eq!(whole.len(), 36);
    let middle = &whole[17];
    let mut compared = 0;
    for prefix in [None, Some(""), Some("a"), Some("ab"), Some("b_"), Some("zz")] {
        for tag in [None, Some("red"), Some("blue"), Some("green")] {
            for words in ["", "host1", "host2 page", "host9"] {
                for bits in 0..8_u8 {
                    for after in [None, Some(ListPosition::from_link(middle, SortBy::CreatedAt))] {
                        let filter = LinkFilter {
                            prefix: prefix.map(str::to_owned),
                            tag: tag.map(str::to_owned),
                            words: search::parse_query(words),
                            states: (0..3)
                                .filter(|bit| bits & 1 << bit != 0)
                                .map(|bit| states[bit])
                                .collect(),
                            after,
                            ..LinkFilter::default()
                        };
                        let expected: Vec<_> = whole.iter().filter(|link| fits(link, &filter)).collect();
                        let found = list(&store, &filter).await;
                        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
                        compared += found.len();
                    }
                }
            }
        }
    }
    assert!(compared > 1000, "only {compared} links were compared");
}

/// What a filter says, without a database.
pub(crate) fn fits(link: &Link, filter: &LinkFilter) -> bool {
    let own = search::index_text(link);
    let own: BTreeSet<_> = own.split(' ').collect();
    filter.prefix.as_deref().is_none_or(|prefix| link.code.as_str().starts_with(prefix))
        && filter.tag.as_ref().is_none_or(|tag| link.tags.contains(tag))
        && filter.words.iter().all(|word| own.iter().any(|own| own.starts_with(word.as_str())))
        && (filter.states.is_empty() || filter.states.contains(&link.state))
        && filter.expiry.is_none_or(|expiry| match expiry {
            ExpiryFilter::Expired(now) => link.is_expired(now),
            ExpiryFilter::Current(now) => !link.is_expired(now),
        })
        && filter.created_after.is_none_or(|after| link.created_at >= after)
        && filter.created_before.is_none_or(|before| link.created_at < before)
        && filter.created_by.as_ref().is_none_or(|maker| link.created_by == *maker)
        && filter.after.as_ref().is_none_or(|after| {
            let here = ListPosition::from_link(link, filter.sort);
            match filter.order {
                Order::Asc => key(&here) > key(after),
                Order::Desc => key(&here) < key(after),
            }
        })
}

/// What a place is compared by.
fn key(position: &ListPosition) -> (i64, i64, &str) {
    match position {
        ListPosition::CreatedAt(at, id) | ListPosition::UpdatedAt(at, id) => (at.ms(), id.as_i64(), ""),
        ListPosition::Code(code) => (0, 0, code.as_str()),
    }
}

const SORTS: [SortBy; 3] = [SortBy::CreatedAt, SortBy::UpdatedAt, SortBy::Code];
const ORDERS: [Order; 2] = [Order::Asc, Order::Desc];

/// The links a filter lets through, in its order, without a database.
fn expected<'a>(links: impl IntoIterator<Item = &'a Link>, filter: &LinkFilter) -> Vec<&'a Link> {
    let mut links: Vec<_> = links.into_iter().filter(|link| fits(link, filter)).collect();
    links.sort_by(|one, other| {
        let [one, other] = [one, other].map(|link| ListPosition::from_link(link, filter.sort));
        match filter.order {
            Order::Asc => key(&one).cmp(&key(&other)),
            Order::Desc => key(&other).cmp(&key(&one)),
        }
    });
    links
}

async fn every_order_is_paged_without_gap_or_repetition_during_inserts(test_store: TestStore) {
    let store = test_store.open().await;
    let mut clock = 0;
    for number in 0..57 {
        // Several in one millisecond, codes in another order than times.
        let name = format!("{}{number}", ["m", "B", "-", "z"][number % 4]);
        let link = make(&store, &name, "https://example.com/", clock / 3).await;
        clock += 1;
        if number % 5 == 0 {
            let titled = Link { title: Some("changed".to_owned()), ..link };
            changed(store.write(replace(titled, Action::Update, 100 - clock / 4)).await);
        }
    }
    clock = 200;
    for sort in SORTS {
        for order in ORDERS {
            let filter = LinkFilter { sort, order, ..LinkFilter::default() };
            let before = list(&store, &filter).await;
            assert_eq!(before.iter().collect::<Vec<_>>(), expected(&before, &filter), "{filter:?}");
            let (mut read, mut next) = (Vec::new(), filter.clone());
            loop {
                let page = store.list(MAIN, &next, 10).await.unwrap();
                next.after = page.last().map(|last| ListPosition::from_link(last, sort));
                assert!(page.iter().all(|link| fits(link, &filter)));
                let last = page.len() < 10;
                read.extend(page);
                if last {
                    break;
                }
                // At both ends, and a few pages' worth at most: an ascending list would never end.
                if clock % 100 < 12 {
                    for end in ["-", "zz"] {
                        make(&store, &format!("{end}{clock}"), "https://example.com/", clock).await;
                        clock += 1;
                    }
                }
            }
            clock = (clock / 100 + 1) * 100;
            let ids: BTreeSet<Id> = read.iter().map(|link| link.id).collect();
            assert_eq!(ids.len(), read.len(), "a link was listed twice: {filter:?}");
            let known: BTreeSet<Id> = before.iter().map(|link| link.id).collect();
            read.retain(|link| known.contains(&link.id));
            assert_eq!(read, before, "{filter:?}");
        }
    }
}

async fn time_and_creator_filters_combine_with_every_order(test_store: TestStore) {
    let store = test_store.open().await;
    let makers = [Actor::from_user(Id::from_i64(7)), Actor::from_key(Id::from_i64(7))];
    let mut links = Vec::new();
    for number in 0..40_usize {
        let mut wanted = draft(&format!("https://host{}.example/", number % 2));
        wanted.expires_at = [None, Some(at(500)), Some(at(501)), Some(at(900))][number % 4];
        wanted.tags = if number % 3 == 0 { vec!["third".to_owned()] } else { Vec::new() };
        let name = format!("{}{number:02}", ["b", "a"][number / 5 % 2]);
        let ms = i64::try_from(number / 2).unwrap();
        let write = create(MAIN, CodeChoice::Chosen(code(&name)), wanted, ms);
        let link = created(store.write(LinkWrite { actor: makers[number / 3 % 2].clone(), ..write }).await);
        links.push(match number % 7 {
            0 => changed(store.write(in_state(&link, LinkState::Disabled, 50 - ms)).await),
            _ => link,
        });
    }
    let ids: Vec<Id> = links.iter().map(|link| link.id).chain([Id::from_i64(99)]).collect();
    let mut compared = 0;
    let check = async |filter: LinkFilter| {
        let wanted = expected(&links, &filter);
        let found = list(&store, &filter).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{filter:?}");
        let page = store.list(MAIN, &filter, 3).await.unwrap();
        assert_eq!(page.iter().collect::<Vec<_>>(), wanted[..wanted.len().min(3)], "{filter:?}");
        // What follows is about the whole list.
        let whole = LinkFilter { after: None, ..filter.clone() };
        let wanted: BTreeSet<Id> = expected(&links, &whole).into_iter().map(|link| link.id).collect();
        let among = store.list_among(MAIN, &filter, &ids).await.unwrap();
        assert_eq!(among.iter().map(|link| link.id).collect::<BTreeSet<_>>(), wanted, "{filter:?}");
        let matching = store.matching_ids(MAIN, &filter, 1000).await.unwrap();
        assert_eq!(matching.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>(), wanted, "{filter:?}");
        assert!(
            matching
                .iter()
                .all(|(id, made)| { links.iter().any(|link| link.id == *id && link.created_at == *made) })
        );
        for most in [0, 5, 1000] {
            let count = i64::try_from(wanted.len()).unwrap().min(most);
            assert_eq!(store.count(MAIN, &filter, most).await.unwrap(), count, "{filter:?}");
            let some = store.matching_ids(MAIN, &filter, most).await.unwrap();
            assert_eq!(i64::try_from(some.len()).unwrap(), count, "{filter:?}");
        }
        found.len()
    };
    let mut filters = Vec::new();
    for expiry in [None, Some(ExpiryFilter::Expired(at(501))), Some(ExpiryFilter::Current(at(501)))] {
        for (after, before) in
            [(None, None), (Some(at(5)), None), (None, Some(at(5))), (Some(at(5)), Some(at(15)))]
        {
            for created_by in [None, Some(makers[0].clone()), Some(max())] {
                for (words, tag, prefix) in
                    [("", None, None), ("host1", Some("third"), None), ("", None, Some("a"))]
                {
                    filters.push(LinkFilter {
                        prefix: prefix.map(str::to_owned),
                        tag: tag.map(str::to_owned),
                        words: search::parse_query(words),
                        expiry,
                        created_after: after,
                        created_before: before,
                        created_by: created_by.clone(),
                        ..LinkFilter::default()
                    });
                }
            }
        }
    }
    // Each filter in one of the orders, begun at one of the places, found in one of the ways: all of them meet many times.
    for (number, filter) in filters.into_iter().enumerate() {
        let sort = SORTS[number % 3];
        for (turn, order) in ORDERS.into_iter().enumerate() {
            let both = vec![LinkState::Active, LinkState::Disabled];
            let states = [vec![], vec![LinkState::Active], vec![LinkState::Disabled], both];
            let after =
                ((number / 3 + turn) % 2 == 0).then(|| ListPosition::from_link(&links[number % 40], sort));
            for few in [SmallResult(0), SmallResult(2), SmallResult(20), SmallResult::default()] {
                let states = states[(number + turn) % 4].clone();
                compared += check(LinkFilter {
                    sort,
                    order,
                    after: after.clone(),
                    states,
                    small_result: few,
                    ..filter.clone()
                })
                .await;
            }
        }
    }
    assert!(compared > 500, "only {compared} links were compared");
}

async fn hostile_filters_match_literally_and_cause_no_error(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    for text in ["%", "_", "\"", "NEAR(", "' OR 1=1--", "*", "🦀", "\\", "\0", "parity' --", "\u{7f}"] {
        for filter in [
            LinkFilter { prefix: Some(text.to_owned()), ..LinkFilter::default() },
            LinkFilter { tag: Some(text.to_owned()), ..LinkFilter::default() },
            LinkFilter { created_by: Some(Actor::operator(text)), ..LinkFilter::default() },
        ] {
            for few in [SmallResult(0), SmallResult(2), SmallResult(20), SmallResult::default()] {
                let filter = LinkFilter { small_result: few, ..filter.clone() };
                assert!(list(&store, &filter).await.is_empty(), "{filter:?}");
                assert_eq!(store.count(MAIN, &filter, 10).await.unwrap(), 0, "{filter:?}");
                assert!(store.matching_ids(MAIN, &filter, 10).await.unwrap().is_empty(), "{filter:?}");
                assert!(store.list_among(MAIN, &filter, &[MAIN]).await.unwrap().is_empty(), "{filter:?}");
            }
        }
        // What has no word is no filter: whoever asks refuses it before.
        let words = LinkFilter { words: search::parse_query(text), ..LinkFilter::default() };
        let found = usize::from(words.words.is_empty() || text.starts_with("parity"));
        assert_eq!(list(&store, &words).await.len(), found, "{text}");
        assert_eq!(store.count(MAIN, &words, 10).await.unwrap(), i64::try_from(found).unwrap(), "{text}");
    }
    assert_eq!(store.count_links(MAIN).await.unwrap(), 1);
}

async fn cursor_of_another_order_is_rejected(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    for (sort, other) in SORTS.into_iter().zip(SORTS.into_iter().cycle().skip(1)) {
        let filter =
            LinkFilter { sort, after: Some(ListPosition::from_link(&link, other)), ..LinkFilter::default() };
        let refused = store.list(MAIN, &filter, 10).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
}

async fn prefix_filter_handles_the_first_and_last_characters(test_store: TestStore) {
    let store = test_store.open().await;
    // The order of bytes, in which no dictionary has them.
    let all = [
        "-", "--", "-a", "0", "9", "99", "A", "AZ", "Z", "ZZ", "_", "__", "_z", "a", "aZ", "a_", "az", "z",
        "zz",
    ];
    for text in all {
        make(&store, text, "https://example.com/", 1).await;
    }
    let longest = "z".repeat(64);
    make(&store, &longest, "https://example.com/", 1).await;
    let mut prefixes: Vec<_> = all.iter().map(|text| (*text).to_owned()).collect();
    let strange = ["%", "_%", "a%", "*", "'", "ä", "\u{10ffff}", "z\u{7f}", " ", "a b", "\0"];
    prefixes.extend(strange.map(str::to_owned));
    prefixes.extend([longest.clone(), format!("{longest}z"), "zzz".to_owned()]);
    for prefix in prefixes {
        let filter = LinkFilter { prefix: Some(prefix.clone()), ..LinkFilter::default() };
        let found = list(&store, &filter).await;
        let mut found = codes(&found);
        found.sort_unstable();
        let mut expected: Vec<_> =
            all.iter().copied().chain([longest.as_str()]).filter(|text| text.starts_with(&prefix)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{prefix:?}");
    }
}

async fn search_finds_word_prefixes_in_every_field(test_store: TestStore) {
    let store = test_store.open().await;
    let mut wanted = draft("https://docs.example.com/Path_with/query?id=4711#frag");
    wanted.title = Some("Größe der Straße — 漢字テスト Ελλάδα İstanbul".to_owned());
    wanted.notes = Some("naïve café\nпривет мир 🦀 e\u{301}tude".to_owned());
    wanted.tags = vec!["Großer Tag".to_owned(), "x-ray".to_owned()];
    created(store.write(create(MAIN, CodeChoice::Chosen(code("Parity-2026")), wanted, 1)).await);
    make(&store, "other", "https://else.example.org/", 2).await;
    for text in [
        "parity",
        "PARITY",
        "par",
        "2026",
        "parity-2026",
        "docs",
        "docs.example.com",
        "path with",
        "4711",
        "frag",
        "größe",
        "GRÖ",
        "gr",
        "grö",
        "straße",
        "漢",
        "漢字",
        "ελλ",
        "ΕΛΛΆΔΑ",
        "İstan",
        "café",
        "naïve",
        "прив",
        "МИР",
        "großer",
        "tag",
        "ray",
        "x-ray",
        "com docs parity",
    ] {
        assert_eq!(search(&store, text).await, ["Parity-2026"], "{text}");
    }
    for text in ["arity", "ocs", "gross", "parity else", "漢漢", "47112"] {
        assert_eq!(search(&store, text).await, Vec::<String>::new(), "{text}");
    }
    assert_eq!(search(&store, "example").await, ["Parity-2026", "other"]);
    assert_eq!(search(&store, "https exam").await, ["Parity-2026", "other"]);
}

async fn hostile_search_words_match_nothing_and_cause_no_error(test_store: TestStore) {
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    let mut titled = draft("https://example.org/");
    titled.title = Some("and or not near select".to_owned());
    created(store.write(create(MAIN, CodeChoice::Chosen(code("words")), titled, 2)).await);
    for (text, expected) in [
        ("\" OR 1=1 --", &[][..]),
        ("parity OR words", &[]),
        ("parity AND", &[]),
        ("NOT parity", &[]),
        ("and", &["words"]),
        ("OR", &["words"]),
        ("not near", &["words"]),
        ("NEAR(parity words)", &[]),
        ("words:parity", &[]),
        ("parity*", &["parity"]),
        ("^parity", &["parity"]),
        ("'parity'", &["parity"]),
        ("parity'); drop table links; --", &[]),
        ("{parity} : +", &["parity"]),
        ("parity & !words", &[]),
        ("parity:*", &["parity"]),
        ("parity <-> example", &["parity"]),
        ("\\", &["parity", "words"]),
        ("\0parity", &["parity"]),
        ("%", &["parity", "words"]),
    ] {
        assert_eq!(search(&store, text).await, expected, "{text}");
    }
    let long = "a".repeat(10_000);
    assert!(search(&store, &long).await.is_empty());
    assert_eq!(search(&store, &"word ".repeat(5_000)).await, ["words"]);
    let mut wide = draft("https://example.net/");
    wide.notes = Some((0..3000).map(|number| format!("w{number}")).collect::<Vec<_>>().join(" "));
    wide.title = Some("𝔘".repeat(400));
    created(store.write(create(MAIN, CodeChoice::Chosen(code("wide")), wide, 3)).await);
    assert_eq!(search(&store, "𝔘𝔘").await, ["wide"]);
    assert_eq!(store.count_links(MAIN).await.unwrap(), 3);
}

async fn changed_link_is_found_by_its_current_words(test_store: TestStore) {
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://before.example/", 1).await;
    let next = Link {
        title: Some("afterwards".to_owned()),
        tags: vec!["new".to_owned()],
        target: crate::support::store::target("https://later.example/"),
        ..link
    };
    let link = changed(store.write(replace(next, Action::Update, 2)).await);
    assert!(search(&store, "before").await.is_empty());
    assert_eq!(search(&store, "afterwards later new").await, ["parity"]);
    changed(store.write(replace(Link { tags: vec![], ..link.clone() }, Action::Update, 3)).await);
    let tagged = LinkFilter { tag: Some("new".to_owned()), ..LinkFilter::default() };
    assert!(list(&store, &tagged).await.is_empty());
    assert_eq!(test_store.count("select count(*) from link_search").await, 1);
    // State does not matter to search: whoever lists chooses states.
    let link = store.link(MAIN, &link.code).await.unwrap().unwrap();
    changed(store.write(in_state(&link, LinkState::Deleted, 4)).await);
    assert_eq!(search(&store, "afterwards").await, ["parity"]);
}

async fn tag_filter_matches_whole_tags_case_sensitively(test_store: TestStore) {
    let store = test_store.open().await;
    let all = ["a", "A", "ab", "a b", "ä", "a%", "a'b"];
    for (number, tag) in all.iter().enumerate() {
        let mut wanted = draft("https://example.com/");
        wanted.tags = vec![(*tag).to_owned()];
        created(store.write(create(MAIN, CodeChoice::Chosen(code(&format!("c{number}"))), wanted, 1)).await);
    }
    for (number, tag) in all.iter().enumerate() {
        let filter = LinkFilter { tag: Some((*tag).to_owned()), ..LinkFilter::default() };
        assert_eq!(codes(&list(&store, &filter).await), [format!("c{number}")], "{tag}");
    }
    for tag in ["", "b", "a\"", "%"] {
        let filter = LinkFilter { tag: Some(tag.to_owned()), ..LinkFilter::default() };
        assert!(list(&store, &filter).await.is_empty(), "{tag}");
    }
}
