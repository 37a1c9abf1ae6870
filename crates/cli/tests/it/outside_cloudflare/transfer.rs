//! `rmax links import` and `export` at Cloudflare: the same files, and the same reports, as on a store.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::cloudflare::{CloudflareSandbox, HITS, ROUTES};
use crate::support::import_files::import_file;
use crate::support::sandbox::{CommandOutput, Sandbox};

/// An object with everything an object may have.
fn object(code: &str, n: usize) -> Value {
    let status = [301, 302, 307, 308][n % 4];
    json!({
        "v": 1, "code": code, "target": format!("https://example.com/{n}?a=$1&b={{x}}"),
        "status": if n % 7 == 3 { "disabled" } else { "active" },
        "created_at": "2020-01-01T00:00:00Z", "updated_at": format!("2020-01-02T00:00:{:02}.500Z", n % 60),
        "created_by": if n.is_multiple_of(2) { "max@rmax.ai" } else { "somebody else" },
        "meta": {
            "notes": if n.is_multiple_of(5) { json!("=1+1, \"quoted\"") } else { Value::Null },
            "tags": if n.is_multiple_of(3) { json!(["a", "b"]) } else { json!([]) },
            "owner": { "name": n },
        },
        "rules": {
            "https_only": !n.is_multiple_of(4), "no_loop": !n.is_multiple_of(9),
            "expires_at": if n.is_multiple_of(11) { json!("2099-01-01T00:00:00Z") } else { Value::Null },
        },
        "stats": { "hits": n, "last_hit": if n == 0 { Value::Null } else { json!("2026-01-12T13:21:00Z") } },
        "redirect_status": status, "title": format!("Title {n}"),
    })
}

fn put_all(edge: &CloudflareSandbox, count: usize) {
    let pairs: Vec<Value> = (0..count)
        .map(|n| {
            let code = format!("n{n:04}");
            json!({ "key": format!("route:{code}"), "value": object(&code, n).to_string() })
        })
        .collect();
    for some in pairs.chunks(200) {
        assert_eq!(edge.call("PUT", &format!("{ROUTES}/bulk"), &json!(some).to_string()).0, 200);
    }
}

/// Runs an import that leaves rows out: its report is on stdout all the same.
#[track_caller]
fn ends(edge: &CloudflareSandbox, code: i32, line: &str) -> CommandOutput {
    let ran = edge.sandbox.rmax(&format!("--env edge {line}"));
    assert_eq!(ran.code, Some(code), "{ran}");
    ran
}

/// How often something was asked.
fn asked(edge: &CloudflareSandbox, method: &str, ending: &str) -> usize {
    edge.asked().iter().filter(|line| line.starts_with(method) && line.ends_with(ending)).count()
}

/// How often anything was written or deleted.
fn changes(edge: &CloudflareSandbox) -> usize {
    let is_read = |line: &&String| line.starts_with("GET") || line.ends_with("bulk/get");
    edge.asked().iter().filter(|line| !is_read(line)).count()
}

#[test]
fn exact_import_reproduces_the_export() {
    let edge = CloudflareSandbox::new();
    put_all(&edge, 603);
    edge.control(&json!({ "page": 250 }));
    edge.ok("links export all.jsonl");
    edge.ok("links export all.csv");
    // Three pages of links, and one to count tombstones.
    assert!(asked(&edge, "GET", &format!("{ROUTES}/keys")) >= 2 * (3 + 1));
    let lines = edge.sandbox.read("all.jsonl");
    assert_eq!(lines.lines().count(), 603);
    assert_snapshot!(lines.lines().nth(15).unwrap(), @r#"{"code":"n0015","target":"https://example.com/15?a=$1&b={x}","state":"active","redirect_status":308,"https_only":true,"no_loop":true,"expires_at":null,"title":"Title 15","notes":"=1+1, \"quoted\"","tags":["a","b"],"metadata":{"owner":{"name":15}},"source":null,"created_by":"somebody else","created_at":"2020-01-01T00:00:00Z","updated_at":"2020-01-02T00:00:15.500Z","version":null,"clicks":15,"last_clicked_at":"2026-01-12T13:21:00Z","hits":15,"last_hit_at":"2026-01-12T13:21:00Z","id":null,"generated":false}"#);
    assert_snapshot!(edge.sandbox.read("all.csv").lines().nth(16).unwrap(), @r#"n0015,https://example.com/15?a=$1&b={x},active,308,true,true,,"Title 15","'=1+1, ""quoted""","a,b","{""owner"":{""name"":15}}",,"somebody else",2020-01-01T00:00:00Z,2020-01-02T00:00:15.500Z,,15,2026-01-12T13:21:00Z,15,2026-01-12T13:21:00Z,,false"#);

    for name in ["all.jsonl", "all.csv"] {
        let other = CloudflareSandbox::new();
        let file = edge.sandbox.path(name).to_string_lossy().into_owned();
        let report = other.json(&format!("links import {file} --exact --json"));
        assert_eq!(
            (&report["rows"], &report["created"], &report["dry_run"]),
            (&json!(603), &json!(603), &json!(false))
        );
        // Twice at least: on a busy machine a request may be tried again.
        assert!(asked(&other, "PUT", &format!("{ROUTES}/bulk")) >= 2);
        assert!(asked(&other, "PUT", &format!("{HITS}/bulk")) >= 2);
        let written = changes(&other);
        other.ok("links export again.jsonl");
        other.ok("links export again.csv");
        assert_eq!(other.sandbox.read("again.jsonl"), lines, "{name}");
        assert_eq!(other.sandbox.read("again.csv"), edge.sandbox.read("all.csv"), "{name}");
        assert_eq!(other.get(ROUTES, "route:n0007"), edge.get(ROUTES, "route:n0007"));
        // Each link is in the log, once, and once more is no news.
        let again = other.json(&format!("links import {file} --exact --json"));
        assert_eq!((&again["skipped"], &again["created"]), (&json!(603), &json!(0)));
        assert_eq!(other.json("audit list --limit 10000 --json").as_array().unwrap().len(), 603);
        assert_eq!(changes(&other), written);
    }
}

#[test]
fn export_round_trips_through_a_store() {
    let edge = CloudflareSandbox::new();
    put_all(&edge, 40);
    edge.ok("links export all.jsonl");
    let store = Sandbox::new();
    let file = edge.sandbox.path("all.jsonl").to_string_lossy().into_owned();
    assert_eq!(store.json(&format!("links import {file} --exact --json"))["created"], 40);
    store.ok("links export store.jsonl");
    let other = CloudflareSandbox::new();
    let file = store.path("store.jsonl").to_string_lossy().into_owned();
    let report = other.json(&format!("links import {file} --exact --json"));
    assert_eq!(report["created"], 40);
    assert_snapshot!(report["notes"].to_string(), @r#"["ids, versions and sources are left out (40 links): at Cloudflare a link is known by its code alone","what was counted elsewhere is in `stats` (39 links), until `rmax clicks publish-stats` counts the hits that are there"]"#);
    other.ok("links export again.jsonl");
    assert_eq!(other.sandbox.read("again.jsonl"), edge.sandbox.read("all.jsonl"));
}

#[test]
fn plain_import_keeps_content_and_drops_authorship() {
    let edge = CloudflareSandbox::new();
    put_all(&edge, 30);
    edge.ok("links export all.jsonl");
    let other = CloudflareSandbox::new();
    other.sandbox.write("all.jsonl", &edge.sandbox.read("all.jsonl"));
    other.ok("links import all.jsonl");
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
    assert_snapshot!(other.ok("links history n0015"), @r#"
    exit 0
    --- stdout
    <time>  max@rmax.ai  link.create
        target: https://example.com/15?a=$1&b={x}
        state: active
        redirect_status: 308
        https_only: true
        no_loop: true
        title: Title 15
        notes: =1+1, "quoted"
        tags: a, b
        metadata: {"owner":{"name":15}}
    "#);
    assert_snapshot!(other.ok("links import all.jsonl"), @"
    exit 0
    --- stdout
    all.jsonl (jsonl), 30 rows: 0 created, 0 updated, 30 skipped, 0 conflicting, 0 refused
    ");
}

#[test]
fn import_without_overwrite_changes_no_existing_link() {
    let edge = CloudflareSandbox::new();
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
    edge.sandbox.write(
        "links.csv",
        "code,target\nsame,https://example.com/same\nother,https://example.com/after\ndead,https://example.com/dead\n\
         published,https://example.com/\nbroken,https://example.com/\nnew,https://example.com/new\nBad,https://example.com/\n\
         api,https://example.com/\nplain,http://example.com/\nhome,https://rmax.to/same\nnew,https://example.com/newer\n\
         new,https://example.com/new\n",
    );
    let before = changes(&edge);
    let dry = ends(&edge, 4, "links import links.csv --dry-run");
    assert_snapshot!(dry, @"
    exit 4
    --- stdout
    row 3 (other): conflicting: another link is there: it differs in target
    row 4 (dead): conflicting: the code is a deleted link's, and stays taken; restore that link first
    row 5 (published): conflicting: the code is a deleted link's, and stays taken; restore that link first
    row 6 (broken): conflicting: the object that has this code cannot be read: it is not a JSON object
    row 8 (Bad): refused: code: may have lower-case letters, digits and hyphens only, not 'B'; try `bad`
    row 9 (api): refused: code: `api` is a word the server keeps; choose another
    row 10 (plain): refused: target: must be https; allow http with https_only off (--no-https)
    row 11 (home): refused: target: leads back to rmax.to, a domain served here; allow it with no_loop off (--allow-loop)
    row 12 (new): conflicting: an earlier row has its code and says something else
    links.csv (csv), 12 rows: would be 1 created, 0 updated, 2 skipped, 5 conflicting, 4 refused
    --- stderr
    error: 5 rows conflict, and were left out
    hint: `--overwrite` changes links that are there to what the file says
    ");
    assert_eq!(changes(&edge), before);

    let told = ends(&edge, 4, "links import links.csv --json");
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    let counts = |report: &Value| {
        ["rows", "created", "updated", "skipped", "conflicting", "refused"].map(|name| report[name].clone())
    };
    assert_eq!(counts(&report), [12, 1, 0, 2, 5, 4].map(|count| json!(count)));
    assert_eq!(edge.json("links get new")["target"], "https://example.com/new");
    assert_eq!(edge.json("links get other")["target"], "https://example.com/before");
    assert_eq!(edge.keys(ROUTES, "tombstone:").len(), 2);
    // The report has the shape it has on a store.
    let store = Sandbox::new();
    store.write("one.csv", "code,target\nBad,https://example.com/\n");
    let of_store: Value = serde_json::from_str(&store.rmax("links import one.csv --json").stdout).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&of_store), names(&report));
    assert_eq!(names(&of_store["problems"][0]), names(&report["problems"][0]));
}

#[test]
fn overwrite_shows_the_changes_and_needs_confirmation() {
    let edge = CloudflareSandbox::new();
    edge.put(ROUTES, "route:a", &{
        let mut a = object("a", 1);
        a["future"] = json!([1]);
        a.to_string()
    });
    edge.ok("links set dead https://example.com/dead");
    edge.ok("links delete dead --yes");
    edge.sandbox.write(
        "a.csv",
        "code,target\na,https://example.com/new\ndead,https://example.com/\nb,https://example.com/b\n",
    );
    edge.fails(2, "links import a.csv --overwrite").says("--yes");
    assert_eq!(edge.get(ROUTES, "route:a").unwrap()["target"], object("a", 1)["target"]);
    assert_snapshot!(ends(&edge, 4, "links import a.csv --overwrite --yes"), @"
    exit 4
    --- stdout
    row 3 (dead): conflicting: the code is a deleted link's, and stays taken; restore that link first
    a.csv (csv), 3 rows: 1 created, 1 updated, 0 skipped, 1 conflicting, 0 refused
    --- stderr
    a:
        target: https://example.com/1?a=$1&b={x} -> https://example.com/new
    error: 1 row conflicts, and was left out
    ");
    let now = edge.get(ROUTES, "route:a").unwrap();
    let mut expected = object("a", 1);
    expected["target"] = json!("https://example.com/new");
    expected["updated_at"] = now["updated_at"].clone();
    expected["future"] = json!([1]);
    assert_eq!(now, expected);
    assert!(now["updated_at"].as_str() > Some("2026"));
    assert_snapshot!(edge.ok("links history a"), @"
    exit 0
    --- stdout
    <time>  max@rmax.ai  link.update
        target: https://example.com/1?a=$1&b={x} -> https://example.com/new
    ");
    assert_eq!(edge.keys(ROUTES, ""), ["route:a", "route:b", "tombstone:dead"]);
}

#[test]
fn importing_a_deleted_link_writes_a_tombstone() {
    let store = Sandbox::new();
    store.ok("links set gone https://example.com/gone --note n");
    store.ok("links delete gone --yes");
    store.ok("links export all.jsonl");
    let file = store.path("all.jsonl").to_string_lossy().into_owned();
    let edge = CloudflareSandbox::new();
    edge.ok(&format!("links import {file}"));
    assert_eq!(edge.keys(ROUTES, ""), ["tombstone:gone"]);
    edge.fails(4, "links set gone https://example.com/");
    assert_eq!(edge.json(&format!("links import {file} --json"))["skipped"], 1);
    assert_snapshot!(edge.ok("links export"), @"
    exit 0
    --- stderr
    deleted links were left out (1); their codes stay taken at Cloudflare, and only there
    wrote 0 links
    ");
    edge.ok("links restore gone");
    assert_eq!(edge.json("links get gone")["meta"]["notes"], "n");
    let ran = ends(&edge, 4, &format!("links import {file}"));
    assert!(ran.stdout.contains("it differs in state"), "{ran}");
}

#[test]
fn import_reports_fields_a_route_object_cannot_hold() {
    let edge = CloudflareSandbox::new();
    edge.sandbox.write(
        "a.jsonl",
        "{\"code\":\"a\",\"target\":\"https://example.com/\",\"metadata\":{\"tags\":1,\"x\":2},\"hits\":5,\"clicks\":3}\n\
         {\"code\":\"b\",\"target\":\"https://example.com/\",\"id\":\"7\",\"version\":3}\n",
    );
    assert_snapshot!(edge.ok("links import a.jsonl --dry-run --exact"), @"
    exit 0
    --- stdout
    a.jsonl (jsonl), 2 rows: would be 2 created, 0 updated, 0 skipped, 0 conflicting, 0 refused
    --- stderr
    ids, versions and sources are left out (1 link): at Cloudflare a link is known by its code alone
    `notes` and `tags` inside of metadata are left out (1 link): an object has the notes and tags of its link there
    what was counted elsewhere is in `stats` (1 link), until `rmax clicks publish-stats` counts the hits that are there
    ");
    assert_snapshot!(edge.ok("links import a.jsonl"), @"
    exit 0
    --- stdout
    a.jsonl (jsonl), 2 rows: 2 created, 0 updated, 0 skipped, 0 conflicting, 0 refused
    --- stderr
    `notes` and `tags` inside of metadata are left out (1 link): an object has the notes and tags of its link there
    what was counted elsewhere is in `stats` (1 link), until `rmax clicks publish-stats` counts the hits that are there
    ");
    let a = edge.get(ROUTES, "route:a").unwrap();
    assert_eq!((&a["meta"], &a["stats"]["hits"]), (&json!({ "notes": null, "tags": [], "x": 2 }), &json!(5)));
    // The next time it is what is there.
    assert_eq!(edge.json("links import a.jsonl --json")["skipped"], 2);
    // What is there goes on counting.
    edge.sandbox.write(
        "b.jsonl",
        "{\"code\":\"a\",\"target\":\"https://example.com/b\",\"metadata\":{\"notes\":\"n\"},\"hits\":9}\n",
    );
    let report = edge.json("links import b.jsonl --overwrite --yes --json");
    assert_eq!(
        report["changes"][0]["changes"][0],
        json!({ "field": "target", "before": "https://example.com/", "after": "https://example.com/b" })
    );
    assert_snapshot!(report["notes"].to_string(), @r#"["`notes` and `tags` inside of metadata are left out (1 link): an object has the notes and tags of its link there"]"#);
    let a = edge.get(ROUTES, "route:a").unwrap();
    assert_eq!((&a["meta"], &a["stats"]["hits"]), (&json!({ "notes": null, "tags": [] }), &json!(5)));
}

#[test]
fn import_rejects_loops_with_existing_links_and_between_rows() {
    let edge = CloudflareSandbox::new();
    edge.ok("links set there https://rmax.to/one --allow-loop");
    let row = |code: &str, to: &str| {
        format!("{{\"code\":\"{code}\",\"target\":\"https://rmax.to/{to}\",\"no_loop\":false}}\n")
    };
    let rows = [("one", "there"), ("two", "three"), ("three", "TWO"), ("four", "four"), ("five", "there")];
    let rows: String = rows.iter().map(|(code, to)| row(code, to)).collect();
    edge.sandbox.write("rows.jsonl", &rows);
    let dry = ends(&edge, 5, "links import rows.jsonl --dry-run");
    assert_snapshot!(dry, @"
    exit 5
    --- stdout
    row 1 (one): refused: target: leads, through links of our own, back to this link: visitors would go in circles
    row 3 (three): refused: target: leads, through links of our own, back to this link: visitors would go in circles
    row 4 (four): refused: target: leads, through links of our own, back to this link: visitors would go in circles
    rows.jsonl (jsonl), 5 rows: would be 2 created, 0 updated, 0 skipped, 0 conflicting, 3 refused
    --- stderr
    error: 3 rows break a rule, and were left out
    ");
    ends(&edge, 5, "links import rows.jsonl");
    assert_eq!(edge.keys(ROUTES, ""), ["route:five", "route:there", "route:two"]);
}

#[test]
fn foreign_formats_are_imported() {
    let edge = CloudflareSandbox::new();
    for (name, format) in [("kutt.json", "kutt"), ("yourls.sql", "yourls"), ("bitly.json", "bitly")] {
        let ran = edge.sandbox.rmax(&format!("--env edge links import {} --json", import_file(name)));
        let store = Sandbox::new();
        let on_store = store.rmax(&format!("links import {} --json", import_file(name)));
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
fn every_export_format_matches_that_of_a_store() {
    let edge = CloudflareSandbox::new();
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
    let store = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    let file = edge.sandbox.path("all.jsonl").to_string_lossy().into_owned();
    store.ok(&format!("links import {file} --exact"));
    for format in ["nginx", "caddy", "cloudflare"] {
        let there = edge.ok(&format!("links export --format {format}")).stdout;
        assert_eq!(there, store.ok(&format!("links export --format {format}")).stdout, "{format}");
        assert!(there.contains("/old") && !there.contains("/loop") && !there.contains("/n0003"), "{there}");
    }
    edge.ok("links export _redirects");
    assert_eq!(edge.sandbox.read("_redirects"), edge.ok("links export --format cloudflare").stdout);
    edge.ok("links export all.csv");
    assert_eq!(edge.sandbox.read("all.csv").lines().count(), 28);
    assert_snapshot!(edge.ok("links export all.jsonl --force"), @"
    exit 0
    --- stdout
    wrote 27 links to all.jsonl
    --- stderr
    warning: cannot be read, and were left out: route:newer; `wrangler kv key get` shows them as they are
    deleted links were left out (1); their codes stay taken at Cloudflare, and only there
    ");
    assert_snapshot!(edge.ok("links export again.jsonl --json").stdout, @r#"
    {
      "file": "again.jsonl",
      "format": "jsonl",
      "links": 27
    }
    "#);
    edge.fails(4, "links export all.jsonl").says("--force");
    edge.fails(5, "links export --format parquet");
    edge.fails(2, "links export --workspace other");
}

#[test]
fn import_retries_api_errors_and_resumes_when_repeated() {
    let edge = CloudflareSandbox::new();
    let row = |n: usize| format!("{{\"code\":\"n{n}\",\"target\":\"https://example.com/{n}\"}}");
    let rows: Vec<String> = (0..600).map(row).collect();
    edge.sandbox.write("rows.jsonl", &rows.join("\n"));
    let pause = json!({ "headers": { "retry-after": "0" } });
    edge.fault("bulk", 429, 3, &pause);
    edge.sandbox.write("few.jsonl", &rows[..10].join("\n"));
    assert_eq!(edge.json("links import few.jsonl --json")["created"], 10);
    // The second bulk write is refused for good.
    let refuse = json!([{ "match": format!("PUT .*{ROUTES}/bulk$"), "status": 403, "times": 1, "after": 1 }]);
    edge.control(&json!({ "faults": refuse }));
    assert_snapshot!(edge.fails(7, "links import rows.jsonl"), @"
    exit 7
    --- stderr
    error: the token in CLOUDFLARE_API_TOKEN may not write to Cloudflare's namespace 11111111111111111111111111111111 (links) (10001 injected)
    hint: it needs the permission Account > Workers KV Storage > Edit for account acc; it may also be expired, revoked or mistyped
    hint: what was imported until then is there; the same command goes on where it stopped
    ");
    assert_eq!(edge.keys(ROUTES, "").len(), 500);
    let report = edge.json("links import rows.jsonl --json");
    assert_eq!((&report["skipped"], &report["created"]), (&json!(500), &json!(100)));
    edge.fault("GET .*/keys$", 429, 2, &pause);
    edge.ok("links export all.jsonl");
    assert_eq!(edge.sandbox.read("all.jsonl").lines().count(), 600);
    edge.fault("bulk/get", 429, 100, &json!({ "headers": { "retry-after": "3600" } }));
    edge.fails(6, "links export cut.jsonl");
    assert!(!edge.sandbox.path("cut.jsonl").exists());
    edge.fails(6, "links import rows.jsonl --dry-run");
}
