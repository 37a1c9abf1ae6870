//! Whether a visitor gets to a link: domains, what is said of them, and the commands that hints name.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::sandbox::Sandbox;

fn crew() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew");
    sandbox
}

#[test]
fn no_unreachable_short_url_is_printed() {
    let sandbox = crew();
    // Nobody has a domain: main answers on every host, and nobody else does.
    assert_snapshot!(sandbox.rmax("--workspace crew links set x https://example.com/"), @"
    exit 0
    --- stdout
    created /x -> https://example.com/
    --- stderr
    warning: no domain reaches workspace crew, so no visitor reaches this link; `rmax domains add <host> --workspace crew` adds one
    ");
    assert_snapshot!(sandbox.rmax("--workspace crew shorten https://example.com/ --code y --qr"), @"
    exit 0
    --- stdout
    /y
    --- stderr
    warning: no domain reaches workspace crew, so no visitor reaches this link; `rmax domains add <host> --workspace crew` adds one
    ");
    let body = sandbox.json("--workspace crew --json shorten https://example.com/ --code z");
    assert_eq!(body["short_url"], json!(null));
    // Somebody else has one: now main is the one nobody reaches.
    sandbox.ok("--workspace crew domains add crew.example");
    assert_snapshot!(sandbox.rmax("links set x https://example.com/"), @"
    exit 0
    --- stdout
    created /x -> https://example.com/
    --- stderr
    warning: no domain reaches workspace main, so no visitor reaches this link; `rmax domains add <host> --workspace main` adds one
    ");
    assert_snapshot!(sandbox.rmax("links set x https://example.com/other --dry-run"), @"
    exit 0
    --- stdout
    would update /x
        target: https://example.com/ -> https://example.com/other
    ");
    let reached = sandbox.ok("--workspace crew links set x https://example.com/other");
    assert_eq!(reached.stdout, "updated https://crew.example/x -> https://example.com/other\n");
    assert_eq!(reached.stderr, "");
    // A base domain reaches everybody.
    let sandbox = sandbox.with("RMAX_BASE_DOMAIN", "links.example");
    let reached = sandbox.ok("links set x https://example.com/again");
    assert_eq!(reached.stdout, "updated https://main.links.example/x -> https://example.com/again\n");
    assert_eq!(reached.stderr, "");
}

#[test]
fn adding_the_first_domain_warns_about_workspaces_it_makes_unreachable() {
    let sandbox = crew();
    sandbox.ok("links set x https://example.com/");
    sandbox.ok("--workspace crew links set x https://example.com/");
    sandbox.ok("workspaces create empty");
    sandbox.ok("workspaces create new");
    assert_snapshot!(sandbox.rmax("--workspace new domains add new.example"), @"
    exit 0
    --- stdout
    added new.example: answered by workspace new, its primary domain
    --- stderr
    warning: new.example is the first domain: until now workspace main answered on every host, and from now on hosts nobody configured get 404
    warning: workspace main has links and no domain, so no host reaches them; `rmax domains add <host> --workspace main` adds one
    warning: workspace crew has links and no domain, so no host reaches them; `rmax domains add <host> --workspace crew` adds one
    ");
    assert_eq!(sandbox.ok("--workspace crew domains add crew.example").stderr, "", "it is not the first");
}

#[test]
fn hints_name_the_workspace_in_use() {
    let sandbox = crew();
    sandbox.ok("--workspace crew domains add crew.example");
    sandbox.fails(3, "--workspace crew links get nope").says(
        "hint: `rmax links list --workspace crew` shows the ones there are; `rmax links set --workspace crew` makes one",
    );
    sandbox.ok("--workspace crew links set x https://example.com/");
    sandbox.ok("--workspace crew links delete x --yes");
    let ran = sandbox.fails(4, "--workspace crew links set x https://example.com/");
    ran.says("`rmax links restore x --workspace crew` brings the deleted link back");
    ran.says("`rmax links set x <url> --recreate --workspace crew` makes a new link of it");
    let sandbox = sandbox.with("RMAX_WORKSPACE", "crew");
    sandbox.fails(3, "links get x").says("`rmax links restore x --workspace crew`");
    // What is about all of them stays as it is.
    sandbox.fails(3, "--workspace nope links list").says("hint: `rmax workspaces list` shows");
    sandbox.fails(3, "--workspace main links get x").says("`rmax links list` shows");
}

#[test]
fn self_redirect_is_refused_without_a_domain_too() {
    let sandbox = Sandbox::new().with("RMAX_PUBLIC_URL", "https://go.example/");
    sandbox.fails(5, "links set x https://go.example/x").says("go.example");
    let sandbox = Sandbox::new();
    sandbox.fails(5, "links set x http://127.0.0.1:8080/x --no-https").says("127.0.0.1");
    sandbox.fails(5, "links set x http://127.0.0.1:8080/x --no-https --dry-run").says("127.0.0.1");
    // With a domain it is a host like any other.
    sandbox.ok("domains add rmax.to");
    sandbox.ok("links set x http://127.0.0.1:8080/x --no-https");
}

#[test]
fn adding_a_domain_warns_about_links_that_target_it() {
    let sandbox = crew();
    sandbox.ok("links set x https://later.example/y");
    sandbox.ok("--workspace crew links set y https://later.example/");
    sandbox.ok("domains add rmax.to");
    let ran = sandbox.ok("domains add later.example");
    ran.says("warning: links lead to later.example already: ");
    ran.says("y (workspace crew)");
    ran.says("answer 500");
    for number in 0..12 {
        sandbox.ok(&format!("links set many-{number} https://many.example/"));
    }
    sandbox.ok("domains add many.example").says(", and more; ");
    assert_eq!(sandbox.ok("domains add other.example").stderr, "");
}

#[test]
fn deleting_the_main_workspace_gives_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces delete main --yes").says("main is the default workspace");
    sandbox.ok("workspaces restore main");
}
