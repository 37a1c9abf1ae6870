//! Whether a visitor gets to a link: domains, what is said of them, and the commands that hints name.

use insta::assert_snapshot;
use serde_json::json;

use crate::place::Place;

fn crew() -> Place {
    let place = Place::new();
    place.ok("workspaces create crew");
    place
}

#[test]
fn no_url_is_printed_that_leads_elsewhere() {
    let place = crew();
    // Nobody has a domain: main answers on every host, and nobody else does.
    assert_snapshot!(place.rmax("--workspace crew links set x https://example.com/"), @"
    exit 0
    --- stdout
    created /x -> https://example.com/
    --- stderr
    warning: no domain reaches workspace crew, so no visitor reaches this link; `rmax domains add <host> --workspace crew` adds one
    ");
    assert_snapshot!(place.rmax("--workspace crew shorten https://example.com/ --code y --qr"), @"
    exit 0
    --- stdout
    /y
    --- stderr
    warning: no domain reaches workspace crew, so no visitor reaches this link; `rmax domains add <host> --workspace crew` adds one
    ");
    let body = place.json("--workspace crew --json shorten https://example.com/ --code z");
    assert_eq!(body["short_url"], json!(null));
    // Somebody else has one: now main is the one nobody reaches.
    place.ok("--workspace crew domains add crew.example");
    assert_snapshot!(place.rmax("links set x https://example.com/"), @"
    exit 0
    --- stdout
    created /x -> https://example.com/
    --- stderr
    warning: no domain reaches workspace main, so no visitor reaches this link; `rmax domains add <host> --workspace main` adds one
    ");
    assert_snapshot!(place.rmax("links set x https://example.com/other --dry-run"), @"
    exit 0
    --- stdout
    would update /x
        target: https://example.com/ -> https://example.com/other
    ");
    let reached = place.ok("--workspace crew links set x https://example.com/other");
    assert_eq!(reached.stdout, "updated https://crew.example/x -> https://example.com/other\n");
    assert_eq!(reached.stderr, "");
    // A base domain reaches everybody.
    let place = place.with("RMAX_BASE_DOMAIN", "links.example");
    let reached = place.ok("links set x https://example.com/again");
    assert_eq!(reached.stdout, "updated https://main.links.example/x -> https://example.com/again\n");
    assert_eq!(reached.stderr, "");
}

#[test]
fn the_first_domain_says_who_is_not_reached_any_more() {
    let place = crew();
    place.ok("links set x https://example.com/");
    place.ok("--workspace crew links set x https://example.com/");
    place.ok("workspaces create empty");
    place.ok("workspaces create new");
    assert_snapshot!(place.rmax("--workspace new domains add new.example"), @"
    exit 0
    --- stdout
    added new.example: answered by workspace new, its primary domain
    --- stderr
    warning: new.example is the first domain: until now workspace main answered on every host, and from now on hosts nobody configured get 404
    warning: workspace main has links and no domain, so no host reaches them; `rmax domains add <host> --workspace main` adds one
    warning: workspace crew has links and no domain, so no host reaches them; `rmax domains add <host> --workspace crew` adds one
    ");
    assert_eq!(place.ok("--workspace crew domains add crew.example").stderr, "", "it is not the first");
}

#[test]
fn commands_in_hints_are_about_the_workspace_in_use() {
    let place = crew();
    place.ok("--workspace crew domains add crew.example");
    place.fails(3, "--workspace crew links get nope").says(
        "hint: `rmax links list --workspace crew` shows the ones there are; `rmax links set --workspace crew` makes one",
    );
    place.ok("--workspace crew links set x https://example.com/");
    place.ok("--workspace crew links delete x --yes");
    let ran = place.fails(4, "--workspace crew links set x https://example.com/");
    ran.says("`rmax links restore x --workspace crew` brings the deleted link back");
    ran.says("`rmax links set x <url> --recreate --workspace crew` makes a new link of it");
    let place = place.with("RMAX_WORKSPACE", "crew");
    place.fails(3, "links get x").says("`rmax links restore x --workspace crew`");
    // What is about all of them stays as it is.
    place.fails(3, "--workspace nope links list").says("hint: `rmax workspaces list` shows");
    place.fails(3, "--workspace main links get x").says("`rmax links list` shows");
}

#[test]
fn a_link_to_its_own_short_url_is_refused_without_a_domain_too() {
    let place = Place::new().with("RMAX_PUBLIC_URL", "https://go.example/");
    place.fails(5, "links set x https://go.example/x").says("go.example");
    let place = Place::new();
    place.fails(5, "links set x http://127.0.0.1:8080/x --no-https").says("127.0.0.1");
    place.fails(5, "links set x http://127.0.0.1:8080/x --no-https --dry-run").says("127.0.0.1");
    // With a domain it is a host like any other.
    place.ok("domains add rmax.to");
    place.ok("links set x http://127.0.0.1:8080/x --no-https");
}

#[test]
fn a_domain_that_links_lead_to_already_says_which() {
    let place = crew();
    place.ok("links set x https://later.example/y");
    place.ok("--workspace crew links set y https://later.example/");
    place.ok("domains add rmax.to");
    let ran = place.ok("domains add later.example");
    ran.says("warning: links lead to later.example already: ");
    ran.says("y (workspace crew)");
    ran.says("answer 500");
    for number in 0..12 {
        place.ok(&format!("links set many-{number} https://many.example/"));
    }
    place.ok("domains add many.example").says(", and more; ");
    assert_eq!(place.ok("domains add other.example").stderr, "");
}

#[test]
fn deleting_main_says_what_follows() {
    let place = Place::new();
    place.ok("workspaces delete main --yes").says("main is the default workspace");
    place.ok("workspaces restore main");
}
