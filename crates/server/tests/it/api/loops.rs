//! Targets that lead back to us, in every spelling and through other links, by every way a link is written.

use rlinks_core::{Host, Preset, Role};
use serde_json::{Value, json};

use crate::support::api_client::{ApiResponse, import_links};
use crate::support::database::TestStore;
use crate::support::members::{ApiUser, TestServer, preset};
use crate::support::raw_client::wait_until;

fn may_loop(person: &ApiUser, code: &str, target: &str) -> ApiResponse {
    person.post("/links", &json!({"code": code, "target": target, "no_loop": false}))
}

#[track_caller]
fn assert_circle(refused: &ApiResponse) {
    assert_eq!(refused.fields(), ["target: loop"], "{refused:?}");
    assert!(refused.answer.body.contains("in circles"), "{refused:?}");
}

/// Hostile inputs, S4.
#[test]
fn target_on_a_host_of_ours_is_a_loop_in_every_spelling_and_on_every_way() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.own_host = Host::parse("[2001:db8::7]").ok();
    });
    let admin = server.admin();
    for host in ["go.example", "www.rmax.to"] {
        admin.post("/domains", &json!({"host": host})).expect(201);
    }
    admin.post("/links", &json!({"code": "there", "target": "https://example.com/"})).expect(201);
    for (number, host) in [
        "rmax.to",
        "RMAX.To",
        "rmax.to.",
        "rmax.to:8443",
        "rmax.to.:443",
        "\u{ff52}max\u{3002}to",
        "www.rmax.to",
        "go.example",
        "GO.example.:81",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("https://{host}/x");
        let created = admin.post("/links", &json!({"code": format!("c{number}"), "target": target}));
        assert_eq!(created.fields(), ["target: loop"], "{host}: {created:?}");
        let changed = admin.patch("/links/there", &json!({"target": target}));
        assert_eq!(changed.fields(), ["target: loop"], "{host}: {changed:?}");
        let bulk = admin.post("/links/bulk", &json!({"links": [{"target": target}]})).expect(200).json();
        assert_eq!(bulk["results"][0]["status"], 400, "{host}: {bulk:#}");
        let row = json!({"code": format!("i{number}"), "target": target}).to_string();
        let report: Value = import_links(&admin, "", "application/x-ndjson", row).expect(200).json();
        assert_eq!((&report["created"], &report["refused"]), (&json!(0), &json!(1)), "{host}: {report:#}");
    }
    // A name that only looks like ours is somebody else's, and so is a shortener that may lead back. No link answers at our own address.
    for (number, host) in
        ["notrmax.to", "rmax.to.example", "sub.rmax.to", "short.example", "[2001:db8::7]"].iter().enumerate()
    {
        let target = format!("https://{host}/x");
        admin.post("/links", &json!({"code": format!("o{number}"), "target": target})).expect(201);
    }
}

/// Hostile inputs, S4.
#[test]
fn circle_is_refused_at_its_last_link_also_between_workspaces() {
    let server = TestServer::new(Preset::Fabric);
    let other = server.workspace("other", preset(Preset::Team), &["given.example"]);
    let (main, tenant) = (server.admin(), server.person(&other, Role::Admin));
    wait_until("the server knows the host", || {
        main.get("/links").status() == 200 && server.visit_with("/x", "").status == 404
    });
    // A -> B -> A.
    may_loop(&main, "a", "https://rmax.to/b").expect(201);
    assert_circle(&may_loop(&main, "b", "https://rmax.to/a"));
    // A -> B -> C -> A.
    may_loop(&main, "b", "https://rmax.to/c").expect(201);
    assert_circle(&may_loop(&main, "c", "https://RMAX.to.:443/A?x=1"));
    let row = json!({"code": "c", "target": "https://rmax.to/a", "no_loop": false}).to_string();
    let report = import_links(&main, "", "application/x-ndjson", row).expect(200).json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(0), &json!(1)), "{report:#}");
    // Two workspaces' hosts that lead to each other.
    may_loop(&main, "out", "https://given.example/back").expect(201);
    assert_circle(&may_loop(&tenant, "back", "https://rmax.to/out"));
}

/// Hostile inputs, S4.
#[test]
fn circle_between_merely_claimed_hosts_is_refused_at_its_last_link() {
    let server = TestServer::new(Preset::Fabric);
    let tenant = |slug: &str| {
        let workspace = server.workspace(slug, preset(Preset::Team), &[]);
        let admin = server.person(&workspace, Role::Admin);
        admin.post("/domains", &json!({"host": format!("{slug}.example")})).expect(201);
        admin
    };
    let (one, two) = (tenant("one"), tenant("two"));
    one.post("/links", &json!({"code": "a", "target": "https://two.example/b"})).expect(201);
    assert_circle(&two.post("/links", &json!({"code": "b", "target": "https://one.example/a"})));
    let row = json!({"code": "b", "target": "https://one.example/a"}).to_string();
    let report = import_links(&two, "", "application/x-ndjson", row).expect(200).json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(0), &json!(1)), "{report:#}");
    // A claim alone keeps nobody from leading there.
    two.post("/links", &json!({"code": "c", "target": "https://one.example/elsewhere"})).expect(201);
}

/// Hostile inputs, S4.
#[test]
fn chain_of_twelve_stops_at_three_hops() {
    let server = TestServer::new(Preset::Fabric);
    let main = server.admin();
    may_loop(&main, "n12", "https://example.com/").expect(201);
    let made = (0..12).rev().map(|number| {
        may_loop(&main, &format!("n{number}"), &format!("https://rmax.to/n{}", number + 1)).status()
    });
    let made: Vec<u16> = made.collect();
    assert_eq!(made[..3], [201; 3], "{made:?}");
    assert_eq!(made[3], 400, "{made:?}");
}

/// Hostile inputs, S4.
#[test]
fn link_to_a_host_that_becomes_ours_is_a_loop_from_then_on() {
    let server = TestServer::new(Preset::Fabric);
    let admin = server.admin();
    admin.post("/links", &json!({"code": "later", "target": "https://later.example/x"})).expect(201);
    assert_eq!(server.visit("/later").status, 301);
    admin.post("/domains", &json!({"host": "later.example"})).expect(201);
    assert!(server.visit("/later").body.contains("LOOP_DETECTED"));
}
