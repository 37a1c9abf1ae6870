//! The family of `rmax links`, and the log of changes.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::cloudflare::{CloudflareSandbox, HITS, ROUTES};
use crate::support::sandbox::Sandbox;

fn log(edge: &CloudflareSandbox) -> Vec<Value> {
    edge.keys(HITS, "hit:__admin__:").iter().map(|key| edge.get(HITS, key).unwrap()).collect()
}

#[test]
fn link_is_created_changed_disabled_and_listed_at_cloudflare() {
    let edge = CloudflareSandbox::new();
    assert_snapshot!(edge.ok("links set parity https://example.com/a --note n --tag b --tag a"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://example.com/a
    ");
    let object = edge.get(ROUTES, "route:parity").unwrap();
    assert_eq!(
        (&object["v"], &object["code"], &object["status"]),
        (&json!(1), &json!("parity"), &json!("active"))
    );
    assert_eq!(object["meta"], json!({ "notes": "n", "tags": ["a", "b"] }));
    assert_eq!(object["rules"], json!({ "https_only": true, "no_loop": true, "expires_at": null }));
    assert_eq!(
        (&object["created_by"], &object["stats"]),
        (&json!("max@rmax.ai"), &json!({ "hits": 0, "last_hit": null }))
    );
    assert_eq!(edge.json("links get parity"), object);
    assert_eq!(edge.json("links get PARITY"), object);

    assert_snapshot!(edge.ok("links set parity https://example.com/a"), @"
    exit 0
    --- stdout
    unchanged https://rmax.to/parity -> https://example.com/a
    ");
    assert_snapshot!(edge.ok("links set parity https://example.com/b --dry-run"), @"
    exit 0
    --- stdout
    would update https://rmax.to/parity
        target: https://example.com/a -> https://example.com/b
    ");
    assert_eq!(edge.get(ROUTES, "route:parity").unwrap(), object);
    assert_snapshot!(edge.ok("links disable parity"), @"
    exit 0
    --- stdout
    disabled https://rmax.to/parity -> https://example.com/a
    ");
    assert_eq!(edge.get(ROUTES, "route:parity").unwrap()["status"], "disabled");
    assert_snapshot!(edge.ok("links enable parity"), @"
    exit 0
    --- stdout
    enabled https://rmax.to/parity -> https://example.com/a
    ");
}

#[test]
fn deleted_link_keeps_its_code_and_can_be_restored() {
    let edge = CloudflareSandbox::new();
    edge.ok("links set parity https://example.com/a --note n");
    let object = edge.get(ROUTES, "route:parity").unwrap();
    assert_snapshot!(edge.ok("links delete parity --yes"), @"
    exit 0
    --- stdout
    deleted https://rmax.to/parity -> https://example.com/a
    ");
    assert_eq!(edge.keys(ROUTES, ""), ["tombstone:parity"]);
    assert_snapshot!(edge.fails(3, "links get parity"), @"
    exit 3
    --- stderr
    error: the link `parity` was deleted
    hint: `rmax links restore parity` brings it back
    ");
    assert_snapshot!(edge.fails(4, "links set parity https://example.com/c"), @"
    exit 4
    --- stderr
    error: the code `parity` is taken by a deleted link
    hint: `rmax links restore parity` brings the deleted link back as it was
    hint: `rmax links set parity <url> --recreate` makes a new link of it
    ");
    assert_snapshot!(edge.ok("links restore parity"), @"
    exit 0
    --- stdout
    restored https://rmax.to/parity -> https://example.com/a
    ");
    assert_eq!(edge.keys(ROUTES, ""), ["route:parity"]);
    let back = edge.get(ROUTES, "route:parity").unwrap();
    assert_eq!((&back["created_at"], &back["target"]), (&object["created_at"], &object["target"]));
    edge.ok("links delete parity --yes");
    assert_snapshot!(edge.ok("links set parity https://example.com/new --recreate"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://example.com/new
    ");
    assert_eq!(edge.keys(ROUTES, ""), ["route:parity"]);
    assert_snapshot!(edge.ok("links history parity"), @"
    exit 0
    --- stdout
    <time>  max@rmax.ai  link.create
        target: https://example.com/a
        state: active
        redirect_status: 301
        https_only: true
        no_loop: true
        notes: n
    <time>  max@rmax.ai  link.delete
        state: active -> deleted
    <time>  max@rmax.ai  link.restore
        state: deleted -> active
    <time>  max@rmax.ai  link.delete
        state: active -> deleted
    <time>  max@rmax.ai  link.recreate
        target: https://example.com/new
        state: active
        redirect_status: 301
        https_only: true
        no_loop: true
    ");
    let actions: Vec<Value> = log(&edge).iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(
        actions,
        ["create", "delete", "restore", "delete", "recreate"].map(|word| json!(format!("link.{word}")))
    );
    assert!(log(&edge).iter().all(|entry| entry["code"] == "parity" && entry["actor"] == "max@rmax.ai"));
}

#[test]
fn validation_rules_of_the_store_apply_at_cloudflare() {
    let edge = CloudflareSandbox::new();
    for (code, line) in [
        (5, "links set api https://example.com/"),
        (5, "links set __admin__ https://example.com/"),
        (5, "links set Parity https://example.com/"),
        (5, "links set a http://example.com/"),
        (5, "links set a https://rmax.to/b"),
        (5, "links set a javascript:alert(1)"),
        (5, "links set a https://example.com/ --expires 2020-01-01"),
        (5, "links set a https://rmax.to/a --allow-loop"),
        (3, "links get nobody"),
        (3, "links disable nobody"),
        (3, "links restore nobody"),
        (3, "links history nobody"),
        (3, "links stats nobody"),
        (3, "links get 'a/../b'"),
        (2, "links delete nobody-asked --workspace other --yes"),
    ] {
        edge.fails(code, line);
    }
    assert_eq!(edge.keys(ROUTES, "").len() + edge.keys(HITS, "").len(), 0);
    edge.ok("links set a https://rmax.to/b --allow-loop");
    edge.fails(5, "links set b https://RMAX.to./a --allow-loop").says("circles");
    edge.fails(2, "links delete a").says("--yes");
}

#[test]
fn unsupported_commands_name_the_backend_they_need() {
    let edge = CloudflareSandbox::new();
    for line in [
        "shorten https://example.com/",
        "explain a",
        "domains list",
        "users list",
        "keys list",
        "workspaces list",
        "backup b",
        "sweep",
        "audit verify",
        "migrate status",
        "clicks recompute",
        "serve",
    ] {
        edge.fails(2, line).says("Cloudflare");
    }
    assert!(edge.asked().is_empty());
    let local = Sandbox::new();
    local.fails(2, "links migrate").says("`rmax migrate up`");
}

#[test]
fn lists_are_read_page_by_page() {
    let edge = CloudflareSandbox::new();
    edge.control(&json!({ "page": 7 }));
    for n in 0..25 {
        let object = json!({
            "v": 1, "code": format!("n{n:02}"), "target": format!("https://example.com/{n}"),
            "status": if n % 5 == 0 { "disabled" } else { "active" },
            "created_at": format!("2020-01-01T00:00:{n:02}Z"), "updated_at": "2020-01-01T00:00:00Z", "created_by": "x",
            "meta": { "notes": null, "tags": if n == 3 { json!(["odd"]) } else { json!([]) } },
        });
        edge.put(ROUTES, &format!("route:n{n:02}"), &object.to_string());
    }
    edge.put(ROUTES, "route:broken", "{");
    edge.put(
        ROUTES,
        "route:newer",
        r#"{"v":2,"code":"newer","target":"https://example.com/","status":"active"}"#,
    );
    let codes = |line: &str| -> Vec<String> {
        let list = edge.json(line);
        list.as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes("links list --json").len(), 20);
    assert_eq!(codes("links list --json --show-disabled").len(), 25);
    assert_eq!(codes("links list --json --limit 2"), ["n24", "n23"]);
    assert_eq!(codes("links list --json --prefix N1").len(), 8);
    assert_eq!(codes("links list --json --tag odd"), ["n03"]);
    assert_eq!(codes("links list --json --search example --limit 1"), ["n24"]);
    assert_eq!(codes("links list --json --search nowhere"), [""; 0]);
    assert_snapshot!(edge.ok("links list --prefix n0"), @"
    exit 0
    --- stdout
    CODE  STATE   TARGET                 TAGS
    n09   active  https://example.com/9
    n08   active  https://example.com/8
    n07   active  https://example.com/7
    n06   active  https://example.com/6
    n04   active  https://example.com/4
    n03   active  https://example.com/3  odd
    n02   active  https://example.com/2
    n01   active  https://example.com/1
    ");
    edge.ok("links list").says("route:broken is left out");
    edge.fails(1, "links get broken").says("route:broken cannot be read");
    edge.fails(1, "links set newer https://example.com/").says("newer");
    edge.ok("links delete n24 --yes");
    assert_eq!(codes("links list --json --show-deleted --limit 1"), ["n24"]);
}

#[test]
fn concurrent_change_is_not_overwritten() {
    let edge = CloudflareSandbox::new();
    edge.ok("links set a https://example.com/mine");
    let mut theirs = edge.get(ROUTES, "route:a").unwrap();
    theirs["target"] = json!("https://example.com/theirs");
    let reading = "GET .*/values/route:a$";
    let after = |nth: u32, value: &Value| {
        let change = json!({ "match": reading, "nth": nth, "namespace": ROUTES, "key": "route:a", "value": value.to_string() });
        edge.control(&json!({ "meanwhile": [change] }));
    };
    for line in ["links set a https://example.com/mine-again", "links disable a", "links delete a --yes"] {
        theirs["title"] = json!(line);
        // A deletion looks once more, to show what it is about to delete.
        after(if line.contains("delete") { 2 } else { 1 }, &theirs);
        edge.fails(4, line).says("changed by somebody else");
        assert_eq!(edge.get(ROUTES, "route:a").unwrap(), theirs, "{line}");
    }
    edge.control(&json!({ "meanwhile": [{ "match": "GET .*/values/tombstone:b$", "nth": 1, "namespace": ROUTES, "key": "route:b", "value": "{}" }] }));
    edge.fails(4, "links set b https://example.com/");
    assert_eq!(edge.get(ROUTES, "route:b").unwrap(), json!({}));
    assert_eq!(log(&edge).len(), 1);

    // Counting is no change, and is kept.
    let mut counted = edge.get(ROUTES, "route:a").unwrap();
    counted["stats"] = json!({ "hits": 7, "last_hit": "2020-01-01T00:00:00Z" });
    after(1, &counted);
    edge.ok("links set a https://example.com/after");
    let after = edge.get(ROUTES, "route:a").unwrap();
    assert_eq!((&after["target"], &after["stats"]["hits"]), (&json!("https://example.com/after"), &json!(7)));
}

#[test]
fn unknown_fields_are_kept_and_old_objects_upgraded() {
    let edge = CloudflareSandbox::new();
    let v0 = r#"{"v":0,"code":"old","url":"https://example.com/old","enabled":true,"expires":null,"colour":"red"}"#;
    edge.put(ROUTES, "route:old", v0);
    edge.put(ROUTES, "route:older", &v0.replace("\"old\"", "\"older\""));
    edge.put(ROUTES, "route:newer", r#"{"v":2}"#);
    assert_eq!(edge.json("links get old")["target"], "https://example.com/old");
    assert_snapshot!(edge.ok("links migrate --dry-run"), @"
    exit 0
    --- stdout
    would migrate old
    would migrate older
    would migrate 2; 0 current, 1 unreadable
    --- stderr
    warning: route:newer is left alone: its version is missing or newer than this program
    ");
    assert_eq!(edge.get(ROUTES, "route:old").unwrap()["v"], 0);
    edge.ok("links set old https://example.com/new");
    let object = edge.get(ROUTES, "route:old").unwrap();
    assert_eq!(
        (&object["v"], &object["colour"], &object["target"]),
        (&json!(1), &json!("red"), &json!("https://example.com/new"))
    );
    assert_eq!(edge.json("links migrate --json")["migrated"], json!(["older"]));
    let object = edge.get(ROUTES, "route:older").unwrap();
    assert_eq!(
        (&object["v"], &object["colour"], &object["target"]),
        (&json!(1), &json!("red"), &json!("https://example.com/old"))
    );
    assert_eq!(edge.get(ROUTES, "route:newer").unwrap(), json!({ "v": 2 }));
    assert_snapshot!(edge.ok("links migrate"), @"
    exit 0
    --- stdout
    migrated 0; 2 current, 1 unreadable
    --- stderr
    warning: route:newer is left alone: its version is missing or newer than this program
    ");
    assert_eq!(log(&edge).len(), 2);
}

#[test]
fn audit_log_is_listed_and_exported_and_the_export_verifies() {
    let edge = CloudflareSandbox::new();
    for n in 0..12 {
        edge.ok(&format!("links set n{n} https://example.com/{n}"));
    }
    edge.control(&json!({ "page": 5 }));
    let listed = edge.json("audit list --limit 3 --json");
    let of =
        |name: &str| listed.as_array().unwrap().iter().map(|entry| entry[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("seq"), [12, 11, 10]);
    assert_eq!(of("subject"), ["link:n11", "link:n10", "link:n9"]);
    assert_eq!(edge.json("audit list --limit 1 --before 3 --json")[0]["subject"], "link:n1");
    edge.ok("audit export log.jsonl");
    edge.sandbox.ok("audit verify --file log.jsonl");
    let tampered = edge.sandbox.read("log.jsonl").replace("example.com/3", "example.com/x");
    edge.sandbox.write("log.jsonl", &tampered);
    edge.sandbox.fails(1, "audit verify --file log.jsonl").says("entry 4");
    edge.fails(2, "audit export other.jsonl --checkpoint c");
    // The past is what the log says.
    let then = edge.json("audit list --limit 1 --json")[0]["ts"].as_str().unwrap().to_owned();
    edge.ok("links set n11 https://example.com/later");
    assert_eq!(edge.json(&format!("links get n11 --at {then}"))["target"], "https://example.com/11");
    edge.fails(3, "links get n11 --at 2020-01-01");
}
