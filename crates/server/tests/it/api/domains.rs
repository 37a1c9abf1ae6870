//! What a workspace's word about a host is worth: enough for its own links, nothing to anybody else's.

use rlinks_core::{Host, Preset, Role};
use serde_json::json;

use super::house::{House, in_house, in_house_with, preset};
use crate::client::{Answer, ask, wait_until};
use crate::database::{Place, contract};

contract!(
    a_host_somebody_else_claims_is_no_loop,
    a_host_the_operator_gave_away_is_a_loop_for_everybody,
    names_below_the_base_domain_are_not_for_the_taking,
    a_tenants_host_takes_none_from_main,
);

fn visit(house: &House, host: &str, path: &str) -> Answer {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    ask(house.address, request.as_bytes())
}

async fn a_host_somebody_else_claims_is_no_loop(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let other = house.workspace("other", preset(Preset::Team), &[]);
        let (main, tenant) = (house.root(), house.person(&other, Role::Admin));
        let forge = json!({"code": "forge", "target": "https://forge.example/project"});
        main.post("/links", &forge).expect(201);
        tenant.post("/domains", &json!({"host": "forge.example"})).expect(201);
        assert_eq!(house.visit("/forge").status, 301);
        let anew = json!({"code": "anew", "target": "https://forge.example/project"});
        main.post("/links", &anew).expect(201);
        main.patch("/links/forge", &json!({"target": "https://forge.example/moved"})).expect(200);
        // Their own links do lead back, wherever they are asked for.
        tenant.post("/domains", &json!({"host": "second.example"})).expect(201);
        let back = json!({"code": "back", "target": "https://forge.example/x"});
        assert_eq!(tenant.post("/links", &back).fields(), ["target: loop"]);
        let out = json!({"code": "out", "target": "https://elsewhere.example/"});
        tenant.post("/links", &out).expect(201);
        assert_eq!(visit(&house, "second.example", "/out").status, 302);
        tenant.post("/domains", &json!({"host": "elsewhere.example"})).expect(201);
        assert!(visit(&house, "second.example", "/out").body.contains("LOOP_DETECTED"));
        // And the hosts of `main` are ours for everybody.
        let home = json!({"code": "home", "target": "https://rmax.to/x"});
        assert_eq!(tenant.post("/links", &home).fields(), ["target: loop"]);
    })
    .await;
}

async fn a_host_the_operator_gave_away_is_a_loop_for_everybody(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let other = house.workspace("other", preset(Preset::Team), &["given.example"]);
        let (main, tenant) = (house.root(), house.person(&other, Role::Admin));
        wait_until("the server knows the host", || visit(&house, "given.example", "/").status == 200);
        let there = json!({"code": "there", "target": "https://given.example/x"});
        assert_eq!(main.post("/links", &there).fields(), ["target: loop"]);
        // Who takes it out and puts it in again has only their own word for it.
        tenant.delete("/domains/given.example").expect(204);
        tenant.post("/domains", &json!({"host": "given.example"})).expect(201);
        main.post("/links", &there).expect(201);
        let vouched = house.runtime.block_on(house.store().operator_hosts()).unwrap();
        assert_eq!(vouched, [Host::parse("rmax.to").unwrap()].into());
    })
    .await;
}

async fn names_below_the_base_domain_are_not_for_the_taking(place: Place) {
    let base = |config: &mut rlinks_server::Config| {
        config.short_urls.base_domain = Host::parse("base.example").ok();
        config.short_urls.domain = Host::parse("configured.example").ok();
        config.own_host = Host::parse("dashboard.example").ok();
    };
    in_house_with(place, preset(Preset::Fabric), base, |house| {
        let [victim, evil] = ["victim", "evil"].map(|slug| house.workspace(slug, preset(Preset::Team), &[]));
        let [victim, evil] = [&victim, &evil].map(|space| house.person(space, Role::Admin));
        victim.post("/links", &json!({"code": "x", "target": "https://good.example/"})).expect(201);
        evil.post("/links", &json!({"code": "x", "target": "https://bad.example/"})).expect(201);
        for host in [
            "victim.base.example",
            "VICTIM.base.example.",
            "nobody.base.example",
            "a.evil.base.example",
            "base.example",
            "configured.example",
            "dashboard.example",
            "localhost",
            "127.0.0.1",
            "[::1]",
            "203.0.113.7",
        ] {
            evil.post("/domains", &json!({"host": host})).refused(409, "CONFLICT");
        }
        let main = house.admin();
        main.post("/domains", &json!({"host": "victim.base.example"})).refused(409, "CONFLICT");
        // The workspaces were made by another process, so it may take a moment.
        wait_until("the server knows them", || visit(&house, "victim.base.example", "/x").status != 404);
        assert_eq!(visit(&house, "victim.base.example", "/x").header("location"), ["https://good.example/"]);
        evil.post("/domains", &json!({"host": "evil.base.example"})).expect(201);
        evil.post("/domains", &json!({"host": "evilbase.example"})).expect(201);
        assert_eq!(visit(&house, "evil.base.example", "/x").header("location"), ["https://bad.example/"]);
        // What is the server's own is the business of `main`.
        for host in ["base.example", "configured.example", "localhost"] {
            main.post("/domains", &json!({"host": host})).expect(201);
        }
    })
    .await;
}

async fn a_tenants_host_takes_none_from_main(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let other = house.workspace("other", preset(Preset::Team), &[]);
        let (main, tenant) = (house.admin(), house.person(&other, Role::Admin));
        main.post("/links", &json!({"code": "x", "target": "https://good.example/"})).expect(201);
        tenant.post("/links", &json!({"code": "x", "target": "https://other.example/"})).expect(201);
        main.delete("/domains/rmax.to").expect(204);
        let ours = || ["links.company.example", "any.example"].map(|host| visit(&house, host, "/x").status);
        assert_eq!(ours(), [301, 301]);
        tenant.post("/domains", &json!({"host": "tenant.example"})).expect(201);
        assert_eq!(visit(&house, "tenant.example", "/x").header("location"), ["https://other.example/"]);
        assert_eq!(ours(), [301, 301], "`main` answers wherever nobody else does");
        let link = main.get("/links/x").expect(200).json();
        assert!(link["short_url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{link:#}");
        // Once `main` has said where it answers, it is nowhere else.
        main.post("/domains", &json!({"host": "links.company.example"})).expect(201);
        assert_eq!(ours(), [301, 404]);
    })
    .await;
}
