//! The daily job by hand.

use insta::assert_snapshot;
use rlinks_store::clock::Clock;

use crate::client::wait_until;
use crate::place::Place;

/// Two workspaces with links that were over a moment ago.
fn with_expired_links() -> Place {
    let place = Place::new();
    place.ok("workspaces create edgy --preset edge");
    for line in [
        "--workspace edgy links set off https://example.com/",
        "--workspace edgy links set later https://example.com/ --expires 2099-01-01",
        "--workspace edgy links set ever https://example.com/",
    ] {
        place.ok(line);
    }
    // Each has some seconds of its own: many tests at once are slow.
    let soon = || Clock::system().now().ms() / 1000 + 5;
    let set = |line: &str| place.ok(&format!("{line} https://example.com/ --expires {}", soon()));
    set("--workspace edgy links set off");
    place.ok("--workspace edgy links disable off");
    set("--workspace edgy links set over");
    set("links set over");
    let last = soon() + 1;
    wait_until("they are over", || Clock::system().now().ms() > last * 1000);
    place
}

#[test]
fn links_that_are_over_are_purged_where_the_policy_says_so() {
    let place = with_expired_links();
    assert_snapshot!(place.rmax("sweep --dry-run"), @"
    exit 0
    --- stdout
    edgy: 2 expired links would be purged
    ");
    place.ok("--workspace edgy links get over");
    assert_snapshot!(place.rmax("sweep"), @"
    exit 0
    --- stdout
    edgy: 2 expired links purged
    ");
    for code in ["over", "off"] {
        place.fails(3, &format!("--workspace edgy links get {code}")).says("was deleted");
        let history = place.json(&format!("--workspace edgy links history {code} --json"));
        let last = history.as_array().unwrap().last().unwrap();
        assert_eq!((&last["action"], &last["actor"]), (&"link.delete".into(), &"system".into()));
        // The code stays taken, and the link can come back.
        place.fails(4, &format!("--workspace edgy links set {code} https://example.com/"));
    }
    for code in ["later", "ever"] {
        place.ok(&format!("--workspace edgy links get {code}"));
    }
    assert_eq!(place.link("over")["status"], "active", "fabric keeps its expired links");
    place.ok("--workspace edgy links restore over");
    place.ok("audit verify");
    place.ok("doctor");
}

#[test]
fn a_second_sweep_has_nothing_to_do() {
    let place = with_expired_links();
    let swept = place.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["purged_links"], 2, "{swept:#}");
    let changes = place.changes();
    assert_eq!(place.ok("sweep").stdout, "nothing to do\n");
    assert_eq!(place.changes(), changes);
    assert_eq!(place.json("sweep --json")["workspaces"], serde_json::json!([]));
}

#[test]
fn all_of_many_are_purged() {
    let place = Place::new();
    place.ok("workspaces create edgy --preset edge");
    place.ok("--workspace edgy dev seed --links 600 --clicks 1");
    place.tamper("update links set expires_at = 1000 + id % 3");
    for line in ["sweep --dry-run --json", "sweep --json"] {
        assert_eq!(place.json(line)["workspaces"][0]["purged_links"], 600, "{line}");
    }
    assert_eq!(place.json("--workspace edgy links list --json"), serde_json::json!([]));
    assert_eq!(place.ok("sweep").stdout, "nothing to do\n");
}

#[test]
fn retention_is_part_of_it() {
    let place = Place::new().with("RMAX_RETENTION_ARCHIVE", "archive/");
    place.ok("workspaces create edgy --preset edge");
    place.ok("--workspace edgy dev seed --links 3 --clicks 400 --days 120");
    let rehearsed = place.json("sweep --dry-run --json");
    let due = rehearsed["workspaces"][0]["pruned_clicks"].as_u64().unwrap();
    let swept = place.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["pruned_clicks"], due);
    assert_eq!(swept["pruned"]["clicks"], due);
    let parts = swept["workspaces"][0]["archived"].as_array().unwrap();
    assert!(place.path("archive").join(parts[0].as_str().unwrap()).exists());
    let left = place.ok("--workspace edgy clicks export -").stdout.lines().count() as u64;
    assert_eq!(left, 400 - due);
    // Also of a workspace that was deleted: what was promised to be forgotten is forgotten.
    place.ok("workspaces policy edgy --set retention_days=10");
    place.ok("workspaces delete edgy --yes");
    assert!(place.json("sweep --json")["pruned"]["clicks"].as_u64().unwrap() > 0);
}

#[test]
fn an_archive_that_is_none_stops_it_before_anything_is_done() {
    let place = with_expired_links().with("RMAX_RETENTION_ARCHIVE", "-");
    place.fails(2, "sweep").says("an archive is a folder");
    let place = place.with("RMAX_RETENTION_ARCHIVE", "ftp://example.com/");
    place.fails(2, "sweep").says("exports do not go to ftp://");
    place.ok("--workspace edgy links get over");
}
