//! The daily job by hand.

use insta::assert_snapshot;
use rlinks_store::clock::Clock;

use crate::support::raw_client::wait_until;
use crate::support::sandbox::Sandbox;

/// Two workspaces with links that were over a moment ago.
fn with_expired_links() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create edgy --preset edge");
    for line in [
        "--workspace edgy links set off https://example.com/",
        "--workspace edgy links set later https://example.com/ --expires 2099-01-01",
        "--workspace edgy links set ever https://example.com/",
    ] {
        sandbox.ok(line);
    }
    // Each has some seconds of its own: many tests at once are slow.
    let soon = || Clock::system().now().ms() / 1000 + 5;
    let set = |line: &str| sandbox.ok(&format!("{line} https://example.com/ --expires {}", soon()));
    set("--workspace edgy links set off");
    sandbox.ok("--workspace edgy links disable off");
    set("--workspace edgy links set over");
    set("links set over");
    let last = soon() + 1;
    wait_until("they are over", || Clock::system().now().ms() > last * 1000);
    sandbox
}

#[test]
fn expired_links_are_purged_where_the_policy_says_so() {
    let sandbox = with_expired_links();
    assert_snapshot!(sandbox.rmax("sweep --dry-run"), @"
    exit 0
    --- stdout
    edgy: 2 expired links would be purged
    ");
    sandbox.ok("--workspace edgy links get over");
    assert_snapshot!(sandbox.rmax("sweep"), @"
    exit 0
    --- stdout
    edgy: 2 expired links purged
    ");
    for code in ["over", "off"] {
        sandbox.fails(3, &format!("--workspace edgy links get {code}")).says("was deleted");
        let history = sandbox.json(&format!("--workspace edgy links history {code} --json"));
        let last = history.as_array().unwrap().last().unwrap();
        assert_eq!((&last["action"], &last["actor"]), (&"link.delete".into(), &"system".into()));
        // The code stays taken, and the link can come back.
        sandbox.fails(4, &format!("--workspace edgy links set {code} https://example.com/"));
    }
    for code in ["later", "ever"] {
        sandbox.ok(&format!("--workspace edgy links get {code}"));
    }
    assert_eq!(sandbox.link("over")["status"], "active", "fabric keeps its expired links");
    sandbox.ok("--workspace edgy links restore over");
    sandbox.ok("audit verify");
    let doctor = sandbox.rmax("doctor").stdout;
    assert!(doctor.contains("ok       links:") && doctor.contains("ok       audit:"), "{doctor}");
}

#[test]
fn a_second_sweep_has_nothing_to_do() {
    let sandbox = with_expired_links();
    let swept = sandbox.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["purged_links"], 2, "{swept:#}");
    let changes = sandbox.changes();
    assert_eq!(sandbox.ok("sweep").stdout, "nothing to do\n");
    assert_eq!(sandbox.changes(), changes);
    assert_eq!(sandbox.json("sweep --json")["workspaces"], serde_json::json!([]));
}

#[test]
fn more_than_one_page_of_links_is_purged() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create edgy --preset edge");
    sandbox.ok("--workspace edgy dev seed --links 600 --clicks 1");
    sandbox.tamper("update links set expires_at = 1000 + id % 3");
    for line in ["sweep --dry-run --json", "sweep --json"] {
        assert_eq!(sandbox.json(line)["workspaces"][0]["purged_links"], 600, "{line}");
    }
    assert_eq!(sandbox.json("--workspace edgy links list --json"), serde_json::json!([]));
    assert_eq!(sandbox.ok("sweep").stdout, "nothing to do\n");
}

#[test]
fn sweep_applies_click_retention() {
    let sandbox = Sandbox::new().with("RMAX_RETENTION_ARCHIVE", "archive/");
    sandbox.ok("workspaces create edgy --preset edge");
    sandbox.ok("--workspace edgy dev seed --links 3 --clicks 400 --days 120");
    let rehearsed = sandbox.json("sweep --dry-run --json");
    let due = rehearsed["workspaces"][0]["pruned_clicks"].as_u64().unwrap();
    let swept = sandbox.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["pruned_clicks"], due);
    assert_eq!(swept["pruned"]["clicks"], due);
    let parts = swept["workspaces"][0]["archived"].as_array().unwrap();
    assert!(sandbox.path("archive").join(parts[0].as_str().unwrap()).exists());
    let left = sandbox.ok("--workspace edgy clicks export -").stdout.lines().count() as u64;
    assert_eq!(left, 400 - due);
    // Also of a workspace that was deleted: what was promised to be forgotten is forgotten.
    sandbox.ok("workspaces policy edgy --set retention_days=10");
    sandbox.ok("workspaces delete edgy --yes");
    assert!(sandbox.json("sweep --json")["pruned"]["clicks"].as_u64().unwrap() > 0);
}

#[test]
fn invalid_archive_stops_the_sweep_before_any_change() {
    let sandbox = with_expired_links().with("RMAX_RETENTION_ARCHIVE", "-");
    sandbox.fails(2, "sweep").says("an archive is a folder");
    let sandbox = sandbox.with("RMAX_RETENTION_ARCHIVE", "ftp://example.com/");
    sandbox.fails(2, "sweep").says("exports do not go to ftp://");
    sandbox.ok("--workspace edgy links get over");
}
