//! `rmax links import` and `export` at Cloudflare: the same files, and the same reports, as on a store.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Edge, HITS, ROUTES};
use crate::place::Place;
use crate::transfer::fixture;

/// An object with everything an object may have.
fn object(code: &str, n: usize) -> Value {
    json!({
        "v": 1, "code": code, "target": format!("https://example.com/{n}?a=$1&b={{x}}"),
        "status": if n % 7 == 3 { "disabled" } else { "active" },
        "created_at": "2020-01-01T00:00:00Z", "updated_at": format!("2020-01-02T00:00:{:02}.5Z", n % 60),
        "created_by": if n % 2 == 0 { "max@rmax.ai" } else { "somebody else" },
        "meta": {
            "notes": if n % 5 == 0 { json!("=1+1, \"quoted\"") } else { Value::Null },
            "tags": if n % 3 == 0 { json!(["a", "b"]) } else { json!([]) },
            "owner": { "name": n },
        },
        "rules": {
            "https_only": n % 4 != 0, "no_loop": n % 9 != 0,
            "expires_at": if n % 11 == 0 { json!("2099-01-01T00:00:00Z") } else { Value::Null },
        },
        "stats": { "hits": n, "last_hit": if n == 0 { Value::Null } else { json!("2026-01-12T13:21:00Z") } },
        "redirect_status": [301, 302, 307, 308][n % 4], "title": format!("Title {n}"),
    })
}

fn put_all(edge: &Edge, count: usize) {
    let pairs: Vec<Value> = (0..count)
        .map(|n| {
            let code = format!("n{n:04}");
            json!({ "key": format!("route:{code}"), "value": object(&code, n).to_string() })
        })
        .collect();
    assert_eq!(edge.call("PUT", &format!("{ROUTES}/bulk"), &json!(pairs).to_string()).0, 200);
}

/// How often something was asked.
fn asked(edge: &Edge, method: &str, ending: &str) -> usize {
    edge.asked().iter().filter(|line| line.starts_with(method) && line.ends_with(ending)).count()
}

/// What lies in both namespaces.
fn everything(edge: &Edge) -> Vec<(String, Value)> {
    let of = |namespace: &'static str| {
        edge.keys(namespace, "").into_iter().map(move |key| {
            let value = edge.get(namespace, &key).unwrap();
            (key, value)
        })
    };
    of(ROUTES).chain(of(HITS)).collect()
}

#[test]
fn an_exact_import_of_an_export_gives_the_same_export() {
    let edge = Edge::new();
    put_all(&edge, 1203);
    edge.ok("links export all.jsonl");
    edge.ok("links export all.csv");
    // A page of keys has a thousand.
    assert_eq!(asked(&edge, "GET", &format!("{ROUTES}/keys")), 2 * (2 + 1));
    let lines = edge.place.read("all.jsonl");
    assert_eq!(lines.lines().count(), 1203);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_snapshot!(first, @"");

    for name in ["all.jsonl", "all.csv"] {
        let other = Edge::new();
        let file = edge.place.path(name).to_string_lossy().into_owned();
        let report = other.json(&format!("links import {file} --exact --json"));
        assert_eq!(
            (&report["rows"], &report["created"], &report["dry_run"]),
            (&json!(1203), &json!(1203), &json!(false))
        );
        assert_eq!(asked(&other, "PUT", &format!("{ROUTES}/bulk")), 3);
        assert_eq!(asked(&other, "PUT", &format!("{HITS}/bulk")), 3);
        other.ok("links export again.jsonl");
        other.ok("links export again.csv");
        assert_eq!(other.place.read("again.jsonl"), lines, "{name}");
        assert_eq!(other.place.read("again.csv"), edge.place.read("all.csv"), "{name}");
        assert_eq!(other.get(ROUTES, "route:n0007"), edge.get(ROUTES, "route:n0007"));
        // Each link is in the log, once, and once more is no news.
        let again = other.json(&format!("links import {file} --exact --json"));
        assert_eq!((&again["skipped"], &again["created"]), (&json!(1203), &json!(0)));
        assert_eq!(other.json("audit list --limit 10000 --json").as_array().unwrap().len(), 1203);
        assert_eq!(asked(&other, "PUT", "bulk"), 6);
    }
}

#[test]
fn an_export_moves_into_a_store_and_back() {
    let edge = Edge::new();
    put_all(&edge, 40);
    edge.ok("links export all.jsonl");
    let store = Place::new();
    let file = edge.place.path("all.jsonl").to_string_lossy().into_owned();
    assert_eq!(store.json(&format!("links import {file} --exact --json"))["created"], 40);
    store.ok("links export store.jsonl");
    let other = Edge::new();
    let file = store.path("store.jsonl").to_string_lossy().into_owned();
    let report = other.json(&format!("links import {file} --exact --json"));
    assert_eq!(report["created"], 40);
    assert_snapshot!(report["notes"].to_string(), @"");
    other.ok("links export again.jsonl");
    assert_eq!(other.place.read("again.jsonl"), edge.place.read("all.jsonl"));
}

#[test]
fn without_exact_what_a_link_says_is_kept_and_who_made_it_is_not() {
    let edge = Edge::new();
    put_all(&edge, 30);
    edge.ok("links export all.jsonl");
    let other = Edge::new();
    let file = edge.place.path("all.jsonl").to_string_lossy().into_owned();
    other.ok(&format!("links import {file}"));
    let (mut before, mut after) =
        (edge.get(ROUTES, "route:n0015").unwrap(), other.get(ROUTES, "route:n0015").unwrap());
    assert_eq!(
        (&before["created_by"], &after["created_by"]),
        (&json!("somebody else"), &json!("max@rmax.ai"))
    );
    for object in [&mut before, &mut after] {
        object["created_by"].take();
        object["updated_at"].take();
    }
    assert_eq!(after, before);
    assert_snapshot!(other.ok("links history n0015"), @"");
    assert_snapshot!(other.ok(&format!("links import {file}")), @"");
}

#[test]
fn nothing_that_is_there_is_overwritten_silently() {
    let edge = Edge::new();
    edge.ok("links set same https://example.com/same");
    edge.ok("links set other https://example.com/before --title Kept");
    edge.ok("links set dead https://example.com/dead");
    edge.ok("links delete dead --yes");
    edge.put(ROUTES, "route:broken", "{");
    edge.put(
        ROUTES,
        "tombstone:published",
        r#"{"code":"published","deleted_at":"2020-01-01T00:00:00Z","deleted_by":"store","route":null}"#,
    );
    edge.place.write(
        "links.csv",
        "code,target\nsame,https://example.com/same\nother,https://example.com/after\ndead,https://example.com/dead\n\
         published,https://example.com/\nbroken,https://example.com/\nnew,https://example.com/new\nBad,https://example.com/\n\
         api,https://example.com/\nplain,http://example.com/\nhome,https://rmax.to/same\nnew,https://example.com/newer\n\
         new,https://example.com/new\n",
    );
    let before: Vec<_> = [ROUTES, HITS].map(|namespace| edge.keys(namespace, "")).into();
    let dry = edge.fails(4, "links import links.csv --dry-run");
    assert_snapshot!(dry, @"");
    let after: Vec<_> = [ROUTES, HITS].map(|namespace| edge.keys(namespace, "")).into();
    assert_eq!(after, before);
    assert_eq!(asked(&edge, "PUT", "bulk"), 0);

    let told = edge.fails(4, "links import links.csv --json");
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    let counts = |report: &Value| {
        ["rows", "created", "updated", "skipped", "conflicting", "refused"].map(|name| report[name].clone())
    };
    assert_eq!(counts(&report), [12, 1, 0, 2, 5, 4].map(|count| json!(count)));
    assert_eq!(edge.json("links get new")["target"], "https://example.com/new");
    assert_eq!(edge.json("links get other")["target"], "https://example.com/before");
    assert_eq!(edge.keys(ROUTES, "tombstone:").len(), 2);
    // The report has the shape it has on a store.
    let store = Place::new();
    store.write("one.csv", "code,target\nBad,https://example.com/\n");
    let of_store: Value =
        serde_json::from_str(&store.fails(5, "links import one.csv --json").stdout).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&of_store), names(&report));
    assert_eq!(names(&of_store["problems"][0]), names(&report["problems"][0]));
}

#[test]
fn overwriting_is_shown_first_and_asked_for() {
    let edge = Edge::new();
    edge.put(ROUTES, "route:a", &{
        let mut a = object("a", 1);
        a["future"] = json!([1]);
        a.to_string()
    });
    edge.ok("links set dead https://example.com/dead");
    edge.ok("links delete dead --yes");
    edge.place.write(
        "a.csv",
        "code,target\na,https://example.com/new\ndead,https://example.com/\nb,https://example.com/b\n",
    );
    edge.fails(2, "links import a.csv --overwrite").says("--yes");
    assert_eq!(edge.get(ROUTES, "route:a").unwrap()["target"], object("a", 1)["target"]);
    assert_snapshot!(edge.fails(4, "links import a.csv --overwrite --yes"), @"");
    let now = edge.get(ROUTES, "route:a").unwrap();
    let mut expected = object("a", 1);
    expected["target"] = json!("https://example.com/new");
    expected["updated_at"] = now["updated_at"].clone();
    expected["future"] = json!([1]);
    assert_eq!(now, expected);
    assert!(now["updated_at"].as_str() > Some("2026"));
    assert_snapshot!(edge.ok("links history a"), @"");
    assert_eq!(edge.keys(ROUTES, ""), ["route:a", "route:b", "tombstone:dead"]);
}

#[test]
fn a_deleted_link_of_a_file_leaves_a_tombstone() {
    let store = Place::new();
    store.ok("links set gone https://example.com/gone --note n");
    store.ok("links delete gone --yes");
    store.ok("links export all.jsonl");
    let file = store.path("all.jsonl").to_string_lossy().into_owned();
    let edge = Edge::new();
    edge.ok(&format!("links import {file}"));
    assert_eq!(edge.keys(ROUTES, ""), ["tombstone:gone"]);
    edge.fails(4, "links set gone https://example.com/");
    assert_eq!(edge.json(&format!("links import {file} --json"))["skipped"], 1);
    assert_snapshot!(edge.ok("links export"), @"");
    edge.ok("links restore gone");
    assert_eq!(edge.json("links get gone")["meta"]["notes"], "n");
    edge.fails(4, &format!("links import {file}")).says("it differs in state");
}

#[test]
fn what_an_object_has_no_place_for_is_said() {
    let edge = Edge::new();
    edge.place.write(
        "a.jsonl",
        "{\"code\":\"a\",\"target\":\"https://example.com/\",\"metadata\":{\"tags\":1,\"x\":2},\"hits\":5,\"clicks\":3}\n\
         {\"code\":\"b\",\"target\":\"https://example.com/\",\"id\":\"7\",\"version\":3}\n",
    );
    assert_snapshot!(edge.ok("links import a.jsonl --dry-run --exact"), @"");
    assert_snapshot!(edge.ok("links import a.jsonl"), @"");
    let a = edge.get(ROUTES, "route:a").unwrap();
    assert_eq!((&a["meta"], &a["stats"]["hits"]), (&json!({ "notes": null, "tags": [], "x": 2 }), &json!(5)));
    // The next time it is what is there.
    assert_eq!(edge.json("links import a.jsonl --json")["skipped"], 2);
}

#[test]
fn circles_are_seen_among_what_is_there_and_among_the_rows() {
    let edge = Edge::new();
    edge.ok("links set there https://rmax.to/one --allow-loop");
    let row = |code: &str, to: &str| {
        format!("{{\"code\":\"{code}\",\"target\":\"https://rmax.to/{to}\",\"no_loop\":false}}\n")
    };
    let rows = [("one", "there"), ("two", "three"), ("three", "TWO"), ("four", "four"), ("five", "there")];
    let rows: String = rows.iter().map(|(code, to)| row(code, to)).collect();
    edge.place.write("rows.jsonl", &rows);
    let dry = edge.fails(5, "links import rows.jsonl --dry-run");
    assert_snapshot!(dry, @"");
    edge.fails(5, "links import rows.jsonl");
    assert_eq!(edge.keys(ROUTES, ""), ["route:five", "route:there", "route:two"]);
}

#[test]
fn files_of_others_come_in() {
    let edge = Edge::new();
    for (name, format) in [("kutt.json", "kutt"), ("yourls.sql", "yourls"), ("bitly.json", "bitly")] {
        let ran = edge.place.rmax(&format!("--env edge links import {} --json", fixture(name)));
        let store = Place::new();
        let on_store = store.rmax(&format!("links import {} --json", fixture(name)));
        assert_eq!(ran.code, on_store.code, "{ran}");
        let [mut there, mut here]: [Value; 2] =
            [&ran.stdout, &on_store.stdout].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(there["format"], format);
        assert!(there["created"].as_u64() > Some(0), "{there}");
        there["notes"].take();
        here["notes"].take();
        assert_eq!(there, here);
    }
}

#[test]
fn every_format_leaves() {
    let edge = Edge::new();
    edge.control(&json!({ "page": 10 }));
    for n in 0..25 {
        edge.put(ROUTES, &format!("route:n{n:04}"), &object(&format!("n{n:04}"), n).to_string());
    }
    edge.put(ROUTES, "route:old", r#"{"v":0,"code":"old","url":"https://example.com/old","enabled":true}"#);
    edge.put(ROUTES, "route:loop", r#"{"v":1,"code":"loop","target":"https://rmax.to/x","status":"active"}"#);
    edge.put(ROUTES, "route:newer", r#"{"v":2}"#);
    edge.put(ROUTES, "tombstone:dead", "{}");
    // What a store with the same links says.
    edge.ok("links export all.jsonl");
    let store = Place::new().with("RMAX_DOMAIN", "rmax.to");
    let file = edge.place.path("all.jsonl").to_string_lossy().into_owned();
    store.ok(&format!("links import {file} --exact"));
    for format in ["nginx", "caddy", "cloudflare"] {
        let there = edge.ok(&format!("links export --format {format}")).stdout;
        assert_eq!(there, store.ok(&format!("links export --format {format}")).stdout, "{format}");
        assert!(there.contains("/old") && !there.contains("/loop") && !there.contains("/n0003"), "{there}");
    }
    edge.ok("links export _redirects");
    assert_eq!(edge.place.read("_redirects"), edge.ok("links export --format cloudflare").stdout);
    edge.ok("links export all.csv");
    assert_eq!(edge.place.read("all.csv").lines().count(), 28);
    assert_snapshot!(edge.ok("links export all.jsonl --force"), @"");
    assert_snapshot!(edge.ok("links export again.jsonl --json").stdout, @"");
    edge.fails(4, "links export all.jsonl").says("--force");
    edge.fails(5, "links export --format parquet");
    edge.fails(2, "links export --workspace other");
}

#[test]
fn trouble_is_waited_out_and_an_import_that_was_cut_off_goes_on_by_being_repeated() {
    let edge = Edge::new();
    let rows: String = (0..1100)
        .map(|n| format!("{{\"code\":\"n{n}\",\"target\":\"https://example.com/{n}\"}}\n"))
        .collect();
    edge.place.write("rows.jsonl", &rows);
    let pause = json!({ "headers": { "retry-after": "0" } });
    edge.fault("bulk", 429, 3, &pause);
    edge.place.write("few.jsonl", &rows.lines().take(10).map(|line| format!("{line}\n")).collect::<String>());
    assert_eq!(edge.json("links import few.jsonl --json")["created"], 10);
    // The second bulk write is refused for good.
    let refuse = json!([{ "match": format!("PUT .*{ROUTES}/bulk$"), "status": 403, "times": 1, "after": 1 }]);
    edge.control(&json!({ "faults": refuse }));
    assert_snapshot!(edge.fails(7, "links import rows.jsonl"), @"");
    assert_eq!(edge.keys(ROUTES, "").len(), 500);
    let report = edge.json("links import rows.jsonl --json");
    assert_eq!((&report["skipped"], &report["created"]), (&json!(500), &json!(600)));
    edge.fault("GET .*/keys$", 429, 2, &pause);
    edge.ok("links export all.jsonl");
    assert_eq!(edge.place.read("all.jsonl").lines().count(), 1100);
    edge.fault("bulk/get", 429, 100, &json!({ "headers": { "retry-after": "3600" } }));
    edge.fails(6, "links export cut.jsonl");
    assert!(!edge.place.path("cut.jsonl").exists());
    edge.fails(6, "links import rows.jsonl --dry-run");
}
