//! Links and clicks that never were.

use rlinks_store::clock::Clock;
use serde_json::Value;

use crate::support::sandbox::Sandbox;

/// Clicks without their keys, which are never the same.
fn clicks(sandbox: &Sandbox) -> Vec<Value> {
    let text = sandbox.ok("clicks export - --full").stdout;
    let keyless = |line: &str| {
        let mut click: Value = serde_json::from_str(line).unwrap();
        for name in ["key", "id", "link", "link_id", "workspace", "workspace_id"] {
            click.as_object_mut().unwrap().remove(name);
        }
        click
    };
    text.lines().map(keyless).collect()
}

#[test]
fn same_seed_generates_the_same_data() {
    let hour = || Clock::system().now().ms() / 3_600_000;
    let (first, second) = loop {
        let (began, places) = (hour(), (Sandbox::new(), Sandbox::new()));
        for sandbox in [&places.0, &places.1] {
            sandbox.ok("dev seed --links 10 --clicks 500 --days 5 --seed 42");
        }
        // Clicks end with the last full hour.
        if hour() == began {
            break places;
        }
    };
    assert_eq!(clicks(&first).len(), 500);
    assert!(clicks(&first) == clicks(&second));
    let codes = |sandbox: &Sandbox| {
        let links = sandbox.json("links list --json");
        links.as_array().unwrap().iter().map(|link| link["code"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&first), codes(&second));
    let other = Sandbox::new();
    other.ok("dev seed --links 10 --clicks 500 --days 5 --seed 43");
    assert_ne!(codes(&first), codes(&other));
}

#[test]
fn seeding_a_workspace_with_real_links_needs_confirmation() {
    let sandbox = Sandbox::new();
    sandbox.ok("dev seed --links 2 --clicks 10");
    sandbox.ok("dev seed --links 3 --clicks 10");
    sandbox.ok("links set mine https://example.com/");
    sandbox.fails(2, "dev seed --links 2 --clicks 10").says("workspace main has links of its own");
    let made = sandbox.json("dev seed --links 4 --clicks 10 --yes --json");
    assert_eq!((&made["links"], &made["created"], &made["clicks"]), (&4.into(), &1.into(), &10.into()));
    assert_eq!(sandbox.link("mine")["stats"]["hits"], 0);
    let tagged = sandbox.json("links list --json --tag seeded");
    assert_eq!(tagged.as_array().unwrap().len(), 4);
    sandbox.ok("audit verify");
}

#[test]
fn every_preset_can_be_seeded() {
    let sandbox = Sandbox::new();
    for preset in ["fabric", "edge", "platform", "team"] {
        sandbox.ok(&format!("workspaces create {preset} --preset {preset}"));
        sandbox.ok(&format!("--workspace {preset} dev seed --links 50 --clicks 100 --days 2"));
        assert_eq!(
            sandbox.ok(&format!("--workspace {preset} clicks export -")).stdout.lines().count(),
            100,
            "{preset}"
        );
    }
    for line in ["dev seed --links 0", "dev seed --days 0", "dev seed --clicks many", "dev"] {
        sandbox.fails(2, line);
    }
    sandbox.fails(4, "--workspace edge dev seed --links 1500").says("1000 links");
}
