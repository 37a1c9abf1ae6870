//! `GET /links` and the other lists: filters, orders, pages, cursors, and input that means harm.

use std::collections::BTreeSet;

use rlinks_core::Preset;
use serde_json::{Value, json};

use crate::support::api_client::ApiClient;
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};

contract!(
    links_are_found_by_every_filter,
    pages_are_stable_while_links_are_made,
    hostile_filters_match_nothing_and_cause_no_error
);

fn codes(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap().to_owned()).collect()
}

/// Every code of a list, page by page.
#[track_caller]
fn all(caller: &ApiClient, query: &str, limit: usize) -> Vec<String> {
    rest(caller, query, limit, String::new())
}

/// The same from a place on.
#[track_caller]
fn rest(caller: &ApiClient, query: &str, limit: usize, mut cursor: String) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = caller.get(&format!("/links?limit={limit}&{query}{cursor}")).expect(200).json();
        found.extend(codes(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

async fn links_are_found_by_every_filter(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let make = |body: Value| {
            member.post("/links", &body).expect(201);
            server.advance_ms(60_000);
        };
        let began = server.now();
        make(json!({"code": "apple", "target": "https://fruit.example/a", "title": "Red apple", "tags": ["fruit", "red"]}));
        make(json!({"code": "avocado", "target": "https://fruit.example/b", "notes": "green 100%", "tags": ["fruit"]}));
        make(json!({"code": "brick", "target": "https://house.example/", "expires_at": began.plus_ms(200_000).to_string()}));
        make(json!({"code": "a-b", "target": "https://x.example/"}));
        member.patch("/links/brick", &json!({"title": "later"})).expect(200);
        server.advance_ms(1);
        member.patch("/links/avocado", &json!({"state": "disabled"})).expect(200);
        member.delete("/links/a-b").expect(204);

        let list = |query: &str| all(&member, query, 2);
        assert_eq!(list(""), ["brick", "avocado", "apple"], "newest first, without deleted ones");
        assert_eq!(list("order=asc"), ["apple", "avocado", "brick"]);
        assert_eq!(list("sort=code"), ["apple", "avocado", "brick"]);
        assert_eq!(list("sort=code&order=desc"), ["brick", "avocado", "apple"]);
        assert_eq!(list("sort=updated_at"), ["avocado", "brick", "apple"]);
        assert_eq!(list("sort=clicks").len(), 3);
        assert_eq!(list("prefix=a"), ["avocado", "apple"]);
        assert_eq!(list("prefix=A"), ["avocado", "apple"], "folded as in a request");
        assert_eq!(list("search=frui"), ["avocado", "apple"], "a word of the target's host");
        assert_eq!(list("search=red%20app"), ["apple"]);
        assert_eq!(list("tag=fruit"), ["avocado", "apple"]);
        assert_eq!(list("tag=fruit&search=red"), ["apple"]);
        assert_eq!(list("state=active"), ["brick", "apple"]);
        assert_eq!(list("state=disabled"), ["avocado"]);
        assert_eq!(list("state=deleted"), ["a-b"]);
        assert_eq!(list("expired=true"), ["brick"]);
        assert_eq!(list("expired=false"), ["avocado", "apple"]);
        assert_eq!(list(&format!("created_after={}", began.plus_ms(60_000))), ["brick", "avocado"]);
        assert_eq!(list(&format!("created_before={}", began.plus_ms(60_000))), ["apple"]);
        assert_eq!(member.get("/links").expect(200).json()["total"], 3);
        assert_eq!(member.get("/links?state=deleted&limit=1").expect(200).json()["total"], 1);

        for (query, refused) in [
            ("state=gone", "state: bad_characters"),
            ("state=", "state: bad_characters"),
            ("expired=yes", "expired: bad_characters"),
            ("sort=title", "sort: bad_characters"),
            ("order=up", "order: bad_characters"),
            ("limit=0", "limit: too_short"),
            ("limit=-1", "limit: too_short"),
            ("limit=101", "limit: too_long"),
            ("limit=1e9", "limit: bad_characters"),
            ("limit=", "limit: bad_characters"),
            ("limit=99999999999999999999", "limit: bad_characters"),
            ("created_after=never", "created_after: not_a_time"),
            ("offset=9000000000000000000", "offset: unknown_field"),
            ("filter%5Btag%5D=x", "filter[tag]: unknown_field"),
            ("callback=x", "callback: unknown_field"),
        ] {
            assert_eq!(member.get(&format!("/links?{query}")).fields(), [refused], "{query}");
        }
        for list in ["/keys", "/users", "/audit", "/links/apple/history", "/links/apple/clicks"] {
            let admin = server.admin();
            assert_eq!(admin.get(&format!("{list}?limit=0")).fields(), ["limit: too_short"], "{list}");
            assert_eq!(admin.get(&format!("{list}?limit=101")).fields(), ["limit: too_long"], "{list}");
            assert_eq!(admin.get(&format!("{list}?cursor=abc")).fields(), ["cursor: bad_characters"], "{list}");
            assert_eq!(admin.get(&format!("{list}?cursor=")).fields(), ["cursor: bad_characters"], "{list}");
        }
    })
    .await;
}

async fn pages_are_stable_while_links_are_made(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let make = |code: String| {
            member.post("/links", &json!({"code": code, "target": "https://example.com/"})).expect(201);
        };
        for number in 0..10 {
            make(format!("n{number}"));
        }
        for query in [
            "",
            "sort=created_at&order=asc",
            "sort=code",
            "sort=updated_at",
            "sort=clicks",
            "sort=clicks&order=asc",
        ] {
            let first = member.get(&format!("/links?limit=4&prefix=n&{query}")).expect(200).json();
            let cursor = first["next_cursor"].as_str().unwrap();
            // One before, one behind, whatever the order; neither moves what is there already.
            make(format!("m-{}", query.replace(|letter: char| !letter.is_ascii_alphanumeric(), "")));
            let mut found = codes(&first);
            found.extend(rest(&member, &format!("prefix=n&{query}"), 3, format!("&cursor={cursor}")));
            let known: BTreeSet<_> = found.iter().filter(|code| code.starts_with('n')).collect();
            assert_eq!((known.len(), found.len()), (10, 10), "{query}: {found:?}");

            // A cursor is of one list.
            let refused = |query: &str, cursor: &str| {
                let reply = member.get(&format!("/links?{query}&cursor={cursor}"));
                assert_eq!(reply.fields(), ["cursor: bad_characters"], "{query} {cursor}");
            };
            refused(&format!("limit=4&prefix=n1&{query}"), cursor);
            refused(&format!("limit=4&{query}"), cursor);
            let mut other = cursor.to_owned().into_bytes();
            other[3] = if other[3] == b'A' { b'B' } else { b'A' };
            refused(&format!("limit=4&prefix=n&{query}"), std::str::from_utf8(&other).unwrap());
            refused(&format!("limit=4&prefix=n&{query}"), &cursor[..cursor.len() - 1]);
            refused(&format!("limit=4&prefix=n&{query}"), &"A".repeat(2000));
        }
        let cursor = member.get("/links?limit=1&sort=code").expect(200).json()["next_cursor"].clone();
        let reply =
            member.get(&format!("/links?limit=1&sort=created_at&cursor={}", cursor.as_str().unwrap()));
        assert_eq!(reply.fields(), ["cursor: bad_characters"]);
        // Another caller of the same workspace has a list of their own.
        let reply =
            server.member().get(&format!("/links?limit=1&sort=code&cursor={}", cursor.as_str().unwrap()));
        assert_eq!(reply.fields(), ["cursor: bad_characters"]);
    })
    .await;
}

async fn hostile_filters_match_nothing_and_cause_no_error(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        for (code, title) in [("percent", "100% sure"), ("under", "snake_case"), ("plain", "plain words")] {
            member
                .post(
                    "/links",
                    &json!({"code": code, "title": title, "target": "https://example.com/", "tags": [title]}),
                )
                .expect(201);
        }
        let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        for hostile in [
            "%",
            "_",
            "\"",
            "'",
            "\\",
            "*",
            "NEAR(",
            "a OR b",
            "AND",
            "NOT plain",
            "plain*",
            "(plain)",
            "^plain",
            "title:plain",
            "' OR 1=1--",
            "'; drop table links;--",
            "{",
            "}",
            "$9",
            "plain\" OR \"x",
            "\u{202e}",
            "😀",
            "\u{1}",
            "ﬃ",
            "%25",
            "a\tb",
            "+plain",
            "-plain",
            "|",
            "&",
            "!",
            ":*",
            "<->",
            "plain:*",
            "''",
            "\u{fffd}",
        ] {
            for name in ["search", "prefix", "tag"] {
                let page = member.get(&format!("/links?{name}={}", encode(hostile))).expect(200).json();
                let found = codes(&page);
                // A text without any word of a title finds none of them; with one, at most the plain one.
                assert!(found.len() <= 1 || hostile.trim().is_empty(), "{name}={hostile}: {found:?}");
                if !hostile.contains("plain") && !hostile.contains("100") {
                    assert!(found.is_empty(), "{name}={hostile}: {found:?}");
                }
            }
            for name in ["sort", "order", "state", "cursor", "limit", "created_after"] {
                member.get(&format!("/links?{name}={}", encode(hostile))).refused(400, "VALIDATION_FAILED");
            }
        }
        for sort in ["created_at;DROP TABLE links", "-clicks,(select 1)", "created_at desc", "CLICKS"] {
            assert_eq!(
                member.get(&format!("/links?sort={}", encode(sort))).fields(),
                ["sort: bad_characters"]
            );
        }
        for name in ["search", "prefix", "tag", "cursor", "sort"] {
            assert_eq!(
                member.get(&format!("/links?{name}=a%00b")).fields()[0],
                format!("{name}: control_character")
            );
            // Not UTF-8: read as text with replacements, which nothing has.
            let reply = member.get(&format!("/links?{name}=%FF"));
            assert!([200, 400].contains(&reply.status()), "{reply:?}");
        }
        let long = member.get(&format!("/links?search={}", "x".repeat(4000)));
        assert!([200, 400, 414].contains(&long.status()), "{long:?}");
        assert_eq!(member.get("/links").expect(200).json()["total"], 3);
    })
    .await;
}

#[test]
fn users_keys_and_audit_lists_are_paged() {
    let server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    for _ in 0..4 {
        server.member();
    }
    for list in ["/keys", "/users", "/audit"] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = admin.get(&format!("{list}?limit=2{cursor}")).expect(200).json();
            let data = page["data"].as_array().unwrap();
            assert!(!data.is_empty() && data.len() <= 2, "{list}: {page}");
            found.extend(data.iter().map(|item| item.get("id").unwrap_or(&item["seq"]).to_string()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let whole = admin.get(&format!("{list}?limit=100")).expect(200).json();
        assert_eq!(whole["data"].as_array().unwrap().len(), found.len(), "{list}");
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{list}: {found:?}");
        assert!(found.len() >= 5);
    }
}
