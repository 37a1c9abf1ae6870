//! Lists: filters, order, pages, search.

use std::collections::BTreeSet;

use rlinks_core::{Link, LinkState, Policy, Preset, search};
use rlinks_store::write::{Action, CodeChoice};
use rlinks_store::{LinkFilter, Store};

use crate::place::{
    MAIN, Place, changed, code, codes, contract, create, created, draft, in_state, make, replace, workspace,
};

contract!(
    the_newest_come_first_and_pages_are_stable,
    filters_and_their_combinations_give_what_each_of_them_gives,
    prefixes_at_the_edges_of_the_alphabet,
    words_are_found_in_every_field_by_their_beginnings,
    hostile_words_find_nothing_and_break_nothing,
    a_changed_link_is_found_by_what_it_is_now,
    tags_are_whole_and_have_their_case,
);

async fn list(store: &Store, filter: &LinkFilter) -> Vec<Link> {
    store.list(MAIN, filter, 1000).await.unwrap()
}

async fn search(store: &Store, text: &str) -> Vec<String> {
    let filter = LinkFilter { words: search::query(text), ..LinkFilter::default() };
    let mut found: Vec<_> =
        list(store, &filter).await.into_iter().map(|link| link.code.to_string()).collect();
    found.sort();
    found
}

async fn the_newest_come_first_and_pages_are_stable(place: Place) {
    let store = place.open().await;
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
            filter.after = Some((last.created_at, last.id));
            assert!(i64::try_from(page.len()).unwrap() <= size);
            read.extend(page);
        }
        assert_eq!(read, whole, "pages of {size}");
    }
    // What comes and changes while somebody turns pages moves nothing that was there.
    let first = store.list(MAIN, &LinkFilter::default(), 10).await.unwrap();
    make(&store, "newest", "https://example.com/", 100).await;
    changed(store.write(in_state(&whole[12], LinkState::Disabled, 101)).await);
    let after = first.last().map(|link| (link.created_at, link.id));
    let second = store.list(MAIN, &LinkFilter { after, ..LinkFilter::default() }, 10).await.unwrap();
    assert_eq!(codes(&second), codes(&whole[10..20]));
}

async fn filters_and_their_combinations_give_what_each_of_them_gives(place: Place) {
    let store = place.open().await;
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
                    for after in [None, Some((middle.created_at, middle.id))] {
                        let filter = LinkFilter {
                            prefix: prefix.map(str::to_owned),
                            tag: tag.map(str::to_owned),
                            words: search::query(words),
                            states: (0..3)
                                .filter(|bit| bits & 1 << bit != 0)
                                .map(|bit| states[bit])
                                .collect(),
                            after,
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
    let own = search::of_link(link);
    let own: BTreeSet<_> = own.split(' ').collect();
    filter.prefix.as_deref().is_none_or(|prefix| link.code.as_str().starts_with(prefix))
        && filter.tag.as_ref().is_none_or(|tag| link.tags.contains(tag))
        && filter.words.iter().all(|word| own.iter().any(|own| own.starts_with(word.as_str())))
        && (filter.states.is_empty() || filter.states.contains(&link.state))
        && filter.after.is_none_or(|after| (link.created_at, link.id) < after)
}

async fn prefixes_at_the_edges_of_the_alphabet(place: Place) {
    let store = place.open().await;
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

async fn words_are_found_in_every_field_by_their_beginnings(place: Place) {
    let store = place.open().await;
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

async fn hostile_words_find_nothing_and_break_nothing(place: Place) {
    let store = place.open().await;
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

async fn a_changed_link_is_found_by_what_it_is_now(place: Place) {
    let store = place.open().await;
    let link = make(&store, "parity", "https://before.example/", 1).await;
    let next = Link {
        title: Some("afterwards".to_owned()),
        tags: vec!["new".to_owned()],
        target: crate::place::target("https://later.example/"),
        ..link
    };
    let link = changed(store.write(replace(next, Action::Update, 2)).await);
    assert!(search(&store, "before").await.is_empty());
    assert_eq!(search(&store, "afterwards later new").await, ["parity"]);
    changed(store.write(replace(Link { tags: vec![], ..link.clone() }, Action::Update, 3)).await);
    let tagged = LinkFilter { tag: Some("new".to_owned()), ..LinkFilter::default() };
    assert!(list(&store, &tagged).await.is_empty());
    assert_eq!(place.count("select count(*) from link_search").await, 1);
    // State does not matter to search: whoever lists chooses states.
    let link = store.link(MAIN, &link.code).await.unwrap().unwrap();
    changed(store.write(in_state(&link, LinkState::Deleted, 4)).await);
    assert_eq!(search(&store, "afterwards").await, ["parity"]);
}

async fn tags_are_whole_and_have_their_case(place: Place) {
    let store = place.open().await;
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
