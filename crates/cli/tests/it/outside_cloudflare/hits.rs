//! Hits come, each once, and sums go.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::cloudflare::{CloudflareSandbox, HITS, ROUTES};

fn id(n: u32) -> String {
    format!("019c09bf-e495-7abc-8000-{n:012x}")
}

#[test]
fn repeated_imports_count_each_hit_once() {
    let edge = CloudflareSandbox::new();
    edge.sandbox.ok("links set a https://example.com/a");
    edge.sandbox.ok("links set gone https://example.com/gone");
    edge.sandbox.ok("links delete gone --yes");
    for n in 0..6 {
        edge.hit("a", &format!("2026-01-1{n}T12:00:00Z"), &id(n));
    }
    edge.hit("gone", "2026-01-12T12:00:00Z", &id(10));
    edge.hit("stranger", "2026-01-12T12:00:00Z", &id(11));
    edge.put(HITS, &format!("hit:a:20260113:{}", id(12)), "not ours");
    edge.put(HITS, "hit:__admin__:20260113:x", "{}");
    edge.put(HITS, "something:else", "{}");
    edge.control(&json!({ "page": 3 }));
    assert_snapshot!(edge.sandbox.ok("clicks import-hits"), @"
    exit 0
    --- stdout
    imported 7 hits; 0 were there already
    --- stderr
    warning: 1 hit of codes this store has no link for: stranger
    warning: 1 hit cannot be read
    ");
    assert_eq!(edge.sandbox.link("a")["stats"], json!({ "hits": 6, "last_hit": "2026-01-15T12:00:00Z" }));
    assert_eq!(edge.sandbox.json("links stats gone --json")["hits"], 1);
    let again = edge.sandbox.json("clicks import-hits --json");
    assert_eq!(
        (&again["imported"], &again["known"]),
        (&json!(0), &json!(2)),
        "the last day and the one before are looked at again"
    );
    // A late one of the day before, and a new one.
    edge.hit("a", "2026-01-14T23:59:59Z", &id(20));
    edge.hit("a", "2026-01-16T00:00:00Z", &id(21));
    assert_eq!(edge.sandbox.json("clicks import-hits --json --from edge")["imported"], 2);
    assert_eq!(edge.sandbox.link("a")["stats"]["hits"], 8);
    let statistics = edge.sandbox.json("links stats a --json --from 2026-01-10 --to 2026-01-17");
    assert_eq!(statistics["total"], json!({ "clicks": 8, "visitors": 0, "bots": 0 }));
    assert_eq!(statistics["countries"][0]["value"], "NL");
    assert_eq!(statistics["referrers"][0]["value"], "news.example");
    // What was added up while importing is what the raw clicks add up to.
    assert_eq!(edge.sandbox.json("clicks recompute --json")["subjects_changed"], 0);
    let lines = edge.sandbox.ok("clicks export - --full").stdout;
    assert!(lines.contains(&id(21)) && lines.contains("203.0.113.0/24"), "{lines}");
}

#[test]
fn interrupted_import_resumes() {
    let edge = CloudflareSandbox::new();
    edge.sandbox.ok("links set a https://example.com/a");
    for n in 0..150 {
        edge.hit("a", "2026-01-10T12:00:00Z", &id(n));
    }
    edge.fault("bulk/get", 403, 1, &json!({}));
    edge.sandbox.fails(7, "clicks import-hits");
    assert_eq!(edge.sandbox.link("a")["stats"]["hits"], 0);
    edge.sandbox.ok("clicks import-hits");
    assert_eq!(edge.sandbox.link("a")["stats"]["hits"], 150);
}

#[test]
fn hits_of_whole_days_are_written_to_a_file() {
    let edge = CloudflareSandbox::new();
    for n in 0..3 {
        edge.hit("a", &format!("2026-01-1{n}T12:00:00Z"), &id(n));
    }
    let today = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().unwrap();
    edge.hit("a", String::from_utf8(today.stdout).unwrap().trim(), &id(9));
    assert_snapshot!(edge.ok("clicks import-hits hits.jsonl"), @"
    exit 0
    --- stdout
    wrote 3 hits to hits.jsonl
    ");
    assert_snapshot!(edge.sandbox.read("hits.jsonl"), @r#"
    {"key":"hit:a:20260110:019c09bf-e495-7abc-8000-000000000000","ts":"2026-01-10T12:00:00Z","code":"a","country":"NL","ua_hash":"00000000000000ff","referrer":"https://news.example/a","ip_prefix":"203.0.113.0/24"}
    {"key":"hit:a:20260111:019c09bf-e495-7abc-8000-000000000001","ts":"2026-01-11T12:00:00Z","code":"a","country":"NL","ua_hash":"00000000000000ff","referrer":"https://news.example/a","ip_prefix":"203.0.113.0/24"}
    {"key":"hit:a:20260112:019c09bf-e495-7abc-8000-000000000002","ts":"2026-01-12T12:00:00Z","code":"a","country":"NL","ua_hash":"00000000000000ff","referrer":"https://news.example/a","ip_prefix":"203.0.113.0/24"}
    "#);
    edge.fails(4, "clicks import-hits hits.jsonl");
    // Nothing is written twice.
    edge.ok("clicks import-hits more.jsonl");
    assert_eq!(edge.sandbox.read("more.jsonl"), "");
    // Into a folder a file goes for each day; without its watermark everything goes again.
    std::fs::remove_file(edge.sandbox.path(&format!("rlinks-data/edge/hits-{HITS}.json"))).unwrap();
    std::fs::create_dir(edge.sandbox.path("days")).unwrap();
    let wrote = edge.json("clicks import-hits days/ --format parquet --json");
    assert_eq!(
        wrote["parts"],
        json!(["hits-20260110.parquet", "hits-20260111.parquet", "hits-20260112.parquet"])
    );
    assert!(std::fs::read(edge.sandbox.path("days/hits-20260110.parquet")).unwrap().starts_with(b"PAR1"));
    edge.fails(2, "clicks import-hits").says("needs the store");
    edge.fails(2, "clicks import-hits x.jsonl --format csv");
}

#[test]
fn publish_stats_changes_only_click_totals() {
    let edge = CloudflareSandbox::new();
    edge.ok("links set a https://example.com/a --note n");
    edge.ok("links set quiet https://example.com/q");
    let v0 = r#"{"v":0,"code":"old","url":"https://example.com/old","enabled":true,"colour":"red"}"#;
    edge.put(ROUTES, "route:old", v0);
    let before = edge.get(ROUTES, "route:a").unwrap();
    for n in 0..5 {
        edge.hit("a", &format!("2026-01-1{n}T12:00:0{n}Z"), &id(n));
    }
    edge.hit("old", "2026-01-10T12:00:00Z", &id(6));
    edge.hit("stranger", "2026-01-10T12:00:00Z", &id(7));
    edge.control(&json!({ "page": 2 }));
    assert_snapshot!(edge.ok("clicks publish-stats"), @"
    exit 0
    --- stdout
    wrote the numbers of 2 links; 0 were right
    ");
    let mut after = edge.get(ROUTES, "route:a").unwrap();
    assert_eq!(after["stats"], json!({ "hits": 5, "last_hit": "2026-01-14T12:00:04Z" }));
    after["stats"] = before["stats"].clone();
    assert_eq!(after, before);
    let old = edge.get(ROUTES, "route:old").unwrap();
    assert_eq!((&old["v"], &old["colour"], &old["stats"]["hits"]), (&json!(0), &json!("red"), &json!(1)));
    assert_eq!(
        edge.json("clicks publish-stats --json"),
        json!({ "written": 0, "right": 2, "without_object": 1 })
    );
    assert_snapshot!(edge.ok("links stats a"), @"
    exit 0
    --- stdout
    a
    hits      5
    last hit  <time>
    --- stderr
    as of the last `rmax clicks publish-stats`
    ");
    assert_eq!(
        edge.json("links stats a --json"),
        json!({ "code": "a", "hits": 5, "last_hit": "2026-01-14T12:00:04Z" })
    );
    edge.fails(2, "links stats a --from 2026-01-01").says("import-hits");

    // What a store has counted, from there.
    edge.sandbox.ok("links set a https://example.com/a");
    edge.sandbox.ok("clicks import-hits");
    edge.hit("a", "2026-01-20T12:00:00Z", &id(30));
    edge.sandbox.ok("clicks import-hits");
    edge.sandbox.ok("clicks publish-stats");
    assert_eq!(edge.get(ROUTES, "route:a").unwrap()["stats"]["hits"], 6);
}
