//! A store's links, served from Cloudflare.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::cloudflare::{CloudflareSandbox, ROUTES};

fn published(edge: &CloudflareSandbox, code: &str) -> Option<Value> {
    edge.get(ROUTES, &format!("route:{code}"))
}

#[test]
fn publish_writes_only_changed_links() {
    let edge = CloudflareSandbox::new();
    let sandbox = &edge.sandbox;
    sandbox.ok("links set a https://example.com/a --tag t");
    sandbox.ok("links set b https://example.com/b --status 302");
    sandbox.ok("links set c https://example.com/c");
    sandbox.ok("links delete c --yes");
    assert_snapshot!(sandbox.ok("publish --to cloudflare"), @"
    exit 0
    --- stdout
    published 2, deleted 1
    ");
    assert_eq!(edge.keys(ROUTES, ""), ["route:a", "route:b", "tombstone:c"]);
    assert_eq!(published(&edge, "a").unwrap(), sandbox.link("a"));
    assert_eq!(published(&edge, "b").unwrap()["redirect_status"], 302);
    let asked = edge.asked().len();
    assert_snapshot!(sandbox.ok("publish"), @"
    exit 0
    --- stdout
    nothing to publish
    ");
    assert_eq!(edge.asked().len(), asked, "nothing changed, and nobody was asked");
    sandbox.ok("links disable a");
    sandbox.ok("links delete b --yes");
    sandbox.ok("links restore c");
    sandbox.ok("publish --to edge");
    assert_eq!(published(&edge, "a").unwrap()["status"], "disabled");
    assert_eq!(edge.keys(ROUTES, ""), ["route:a", "route:c", "tombstone:b"]);
    assert_snapshot!(sandbox.ok("publish --check"), @"
    exit 0
    --- stdout
    what is published is what the store says
    ");
    // A published deletion is the store's to take back.
    edge.fails(4, "links restore b").says("rmax publish");
}

#[test]
fn drift_is_reported_and_repaired() {
    let edge = CloudflareSandbox::new();
    let sandbox = &edge.sandbox;
    for code in ["a", "b", "c", "d"] {
        sandbox.ok(&format!("links set {code} https://example.com/{code}"));
    }
    sandbox.ok("links delete d --yes");
    sandbox.ok("publish");
    edge.ok("links set a https://example.com/elsewhere");
    edge.ok("links set stranger https://example.com/stranger");
    edge.call("DELETE", &format!("{ROUTES}/values/route:b"), "");
    edge.call("DELETE", &format!("{ROUTES}/values/tombstone:d"), "");
    // Numbers are no drift.
    let mut c = published(&edge, "c").unwrap();
    c["stats"] = json!({ "hits": 5, "last_hit": null });
    edge.put(ROUTES, "route:c", &c.to_string());
    edge.control(&json!({ "page": 2 }));
    assert_snapshot!(sandbox.rmax("publish --check"), @"
    exit 1
    --- stderr
    error: what is published differs from the store; missing or another: a, b; not deleted there: d; unknown to the store: stranger
    hint: `rmax publish --all` makes both agree again
    ");
    let check = sandbox.rmax("publish --check --json");
    assert_eq!(check.code, Some(1));
    assert_eq!(
        check.json(),
        json!({ "ok": false, "changed": ["a", "b"], "deleted": ["d"], "strangers": ["stranger"] })
    );
    assert_snapshot!(sandbox.ok("publish --all"), @"
    exit 0
    --- stdout
    published 2, deleted 1, removed 1 unknown to the store (stranger)
    ");
    sandbox.ok("publish --check");
    assert_eq!(published(&edge, "a").unwrap(), sandbox.link("a"));
    assert_eq!(published(&edge, "c").unwrap()["stats"]["hits"], 5, "what was right was not written");
    // What nobody knew is not lost.
    assert!(published(&edge, "stranger").is_none());
    edge.ok("links restore stranger");
    assert_eq!(published(&edge, "stranger").unwrap()["target"], "https://example.com/stranger");
}

#[test]
fn publish_after_a_restore_republishes_everything() {
    let edge = CloudflareSandbox::new();
    let sandbox = &edge.sandbox;
    sandbox.ok("links set a https://example.com/a");
    sandbox.ok("backup before.backup");
    sandbox.ok("links set b https://example.com/b");
    sandbox.ok("publish");
    sandbox.ok("restore before.backup --force");
    sandbox.ok("links set c https://example.com/c");
    sandbox.ok("publish");
    assert_eq!(edge.keys(ROUTES, "route:"), ["route:a", "route:c"]);
}

#[test]
fn failed_publication_is_completed_by_the_next() {
    let edge = CloudflareSandbox::new();
    let sandbox = &edge.sandbox;
    sandbox.ok("links set a https://example.com/a");
    sandbox.ok("publish");
    sandbox.ok("links set a https://example.com/b");
    edge.fault("PUT .*/bulk$", 403, 1, &json!({}));
    sandbox.fails(7, "publish").says("Workers KV Storage > Edit");
    assert_eq!(published(&edge, "a").unwrap()["target"], "https://example.com/a");
    sandbox.ok("publish");
    assert_eq!(published(&edge, "a").unwrap()["target"], "https://example.com/b");
    edge.fails(2, "publish").says("needs the store");
    sandbox.fails(2, "publish --to nowhere").says("there is edge");
    sandbox.fails(2, "publish --all --check");
}

#[test]
fn watch_publishes_changes_as_they_happen() {
    let edge = CloudflareSandbox::new();
    let sandbox = &edge.sandbox;
    sandbox.ok("links set a https://example.com/a");
    let mut watcher = sandbox.command("publish --watch").spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "published 1, deleted 0");
    sandbox.fails(4, "publish").says("another `rmax publish`");
    sandbox.ok("links set b https://example.com/b");
    assert_eq!(lines.next().unwrap().unwrap(), "published 1, deleted 0");
    assert_eq!(published(&edge, "b").unwrap()["target"], "https://example.com/b");
    sandbox.ok("links delete a --yes");
    assert_eq!(lines.next().unwrap().unwrap(), "published 0, deleted 1");
    let pid = rustix::process::Pid::from_child(&watcher);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watcher.wait().unwrap().code(), Some(0));
    assert_eq!(edge.keys(ROUTES, ""), ["route:b", "tombstone:a"]);
}
