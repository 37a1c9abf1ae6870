//! What a workspace's word about a host is worth: enough for its own links, nothing to anybody else's.

use rlinks_core::{Host, Preset, Role};
use serde_json::json;

use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_configured_server, with_server};
use crate::support::raw_client::{Response, send_request, wait_until};

contract!(
    claim_of_another_workspace_makes_no_link_a_loop,
    operator_assigned_domain_is_a_loop_for_every_workspace,
    subdomains_of_the_base_domain_cannot_be_claimed,
    tenant_domain_takes_no_host_from_main,
);

fn visit(server: &TestServer, host: &str, path: &str) -> Response {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    send_request(server.address, request.as_bytes())
}

async fn claim_of_another_workspace_makes_no_link_a_loop(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let other = server.workspace("other", preset(Preset::Team), &[]);
        let (main, tenant) = (server.root(), server.person(&other, Role::Admin));
        let forge = json!({"code": "forge", "target": "https://forge.example/project"});
        main.post("/links", &forge).expect(201);
        tenant.post("/domains", &json!({"host": "forge.example"})).expect(201);
        assert_eq!(server.visit("/forge").status, 301);
        let anew = json!({"code": "anew", "target": "https://forge.example/project"});
        main.post("/links", &anew).expect(201);
        main.patch("/links/forge", &json!({"target": "https://forge.example/moved"})).expect(200);
        // Their own links do lead back, wherever they are asked for.
        tenant.post("/domains", &json!({"host": "second.example"})).expect(201);
        let back = json!({"code": "back", "target": "https://forge.example/x"});
        assert_eq!(tenant.post("/links", &back).fields(), ["target: loop"]);
        let out = json!({"code": "out", "target": "https://elsewhere.example/"});
        tenant.post("/links", &out).expect(201);
        assert_eq!(visit(&server, "second.example", "/out").status, 302);
        tenant.post("/domains", &json!({"host": "elsewhere.example"})).expect(201);
        assert!(visit(&server, "second.example", "/out").body.contains("LOOP_DETECTED"));
        // And the hosts of `main` are ours for everybody.
        let home = json!({"code": "home", "target": "https://rmax.to/x"});
        assert_eq!(tenant.post("/links", &home).fields(), ["target: loop"]);
    })
    .await;
}

async fn operator_assigned_domain_is_a_loop_for_every_workspace(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let other = server.workspace("other", preset(Preset::Team), &["given.example"]);
        let (main, tenant) = (server.root(), server.person(&other, Role::Admin));
        wait_until("the server knows the host", || visit(&server, "given.example", "/").status == 200);
        let there = json!({"code": "there", "target": "https://given.example/x"});
        assert_eq!(main.post("/links", &there).fields(), ["target: loop"]);
        // Who takes it out and puts it in again has only their own word for it.
        tenant.delete("/domains/given.example").expect(204);
        tenant.post("/domains", &json!({"host": "given.example"})).expect(201);
        main.post("/links", &there).expect(201);
        let vouched = server.runtime.block_on(server.store().operator_hosts()).unwrap();
        assert_eq!(vouched, [Host::parse("rmax.to").unwrap()].into());
    })
    .await;
}

async fn subdomains_of_the_base_domain_cannot_be_claimed(test_store: TestStore) {
    let base = |config: &mut rlinks_server::Config| {
        config.short_urls.base_domain = Host::parse("base.example").ok();
        config.short_urls.domain = Host::parse("configured.example").ok();
        config.own_host = Host::parse("dashboard.example").ok();
    };
    with_configured_server(test_store, preset(Preset::Fabric), base, |server| {
        let [victim, evil] = ["victim", "evil"].map(|slug| server.workspace(slug, preset(Preset::Team), &[]));
        let [victim, evil] = [&victim, &evil].map(|space| server.person(space, Role::Admin));
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
        let main = server.admin();
        main.post("/domains", &json!({"host": "victim.base.example"})).refused(409, "CONFLICT");
        // The workspaces were made by another process, so it may take a moment.
        wait_until("the server knows them", || visit(&server, "victim.base.example", "/x").status != 404);
        assert_eq!(visit(&server, "victim.base.example", "/x").header("location"), ["https://good.example/"]);
        evil.post("/domains", &json!({"host": "evil.base.example"})).expect(201);
        evil.post("/domains", &json!({"host": "evilbase.example"})).expect(201);
        assert_eq!(visit(&server, "evil.base.example", "/x").header("location"), ["https://bad.example/"]);
        // What is the server's own is the business of `main`.
        for host in ["base.example", "configured.example", "localhost"] {
            main.post("/domains", &json!({"host": host})).expect(201);
        }
    })
    .await;
}

async fn tenant_domain_takes_no_host_from_main(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let other = server.workspace("other", preset(Preset::Team), &[]);
        let (main, tenant) = (server.admin(), server.person(&other, Role::Admin));
        main.post("/links", &json!({"code": "x", "target": "https://good.example/"})).expect(201);
        tenant.post("/links", &json!({"code": "x", "target": "https://other.example/"})).expect(201);
        tenant.post("/domains", &json!({"host": "tenant.example"})).expect(201);
        main.delete("/domains/rmax.to").expect(204);
        let ours = || ["links.company.example", "any.example"].map(|host| visit(&server, host, "/x").status);
        assert_eq!(ours(), [301, 301]);
        // Any host may be one by which people reach the links of `main`.
        tenant.post("/domains", &json!({"host": "any.example"})).refused(409, "CONFLICT");
        assert_eq!(ours(), [301, 301], "`main` answers wherever nobody else does");
        assert_eq!(visit(&server, "tenant.example", "/x").header("location"), ["https://other.example/"]);
        let link = main.get("/links/x").expect(200).json();
        assert!(link["short_url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{link:#}");
        // Once `main` has said where it answers, it is nowhere else.
        main.post("/domains", &json!({"host": "links.company.example"})).expect(201);
        assert_eq!(ours(), [301, 404]);
        tenant.post("/domains", &json!({"host": "second.example"})).expect(201);
    })
    .await;
}
