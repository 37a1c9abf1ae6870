//! Domains.

use rlinks_core::workspace::domain_verification::VerificationRecord;
use rlinks_core::{Host, Preset, Role};
use rlinks_ops::domain_checks::DomainCheckConfig;

use super::{open, send, send_twice, server_with_admin};
use crate::support::browser::{Browser, signed_in};
use crate::support::database::TestStore;
use crate::support::domain_services::{StubBehavior, StubDns};
use crate::support::members::{PASSWORD, TestServer, ann, member, preset};
use crate::support::raw_client::send_request;

const PAGE: &str = "/admin/domains";

#[test]
fn domain_is_added_made_primary_and_removed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let admin = server.admin();
    let link = serde_json::json!({"code": "parity", "target": "https://example.com/"});
    admin.post("/links", &link).expect(201);
    let visit = || {
        let request = "GET /parity HTTP/1.1\r\nHost: go.example.com\r\nConnection: close\r\n\r\n";
        send_request(server.address, request.as_bytes()).status
    };
    assert_eq!(visit(), 404);
    let added = send(&mut ann, PAGE, PAGE, &[("host", " Go.Example.com ")]);
    assert_eq!(added.location(), Some("/admin/domains?done=added"), "{added:?}");
    assert_eq!(visit(), 301, "before the answer");
    let page = open(&mut ann, PAGE);
    assert!(page.contains("<code>go.example.com</code>") && page.contains("CNAME"), "{page}");
    let primary = send(&mut ann, PAGE, "/admin/domains/go.example.com/primary", &[]);
    assert_eq!(primary.location(), Some("/admin/domains?done=primary"), "{primary:?}");
    let link = admin.get("/links/parity").expect(200).json();
    assert_eq!(link["short_url"], "https://go.example.com/parity");
    let asked = send(&mut ann, PAGE, "/admin/domains/go.example.com/remove", &[]);
    assert!(asked.body.contains("Remove go.example.com?"), "{asked:?}");
    assert_eq!(visit(), 301);
    let gone = send_twice(&mut ann, PAGE, "/admin/domains/go.example.com/remove", &[]);
    assert_eq!(gone.location(), Some("/admin/domains?done=removed"), "{gone:?}");
    assert_eq!(visit(), 404);
}

#[test]
fn unverified_domain_shows_its_record_and_can_be_checked() {
    let dns = StubDns::new();
    let options = DomainCheckConfig {
        enabled: true,
        require_proof: true,
        resolver: Some(dns.address),
        ..DomainCheckConfig::default()
    };
    let test_store = TestStore::sqlite();
    let server =
        TestServer::at(test_store, preset(Preset::Fabric), move |config| config.domain_checks = options);
    let crew = server.workspace("crew", preset(Preset::Team), &[]);
    member(&server, &crew, Role::Admin, "eve@example.com");
    let mut eve = Browser::new(server.address);
    assert_eq!(eve.sign_in_to("crew", "eve@example.com", PASSWORD).status, 303);
    let link = serde_json::json!({"code": "x", "target": "https://example.com/"});
    server.person(&crew, Role::Admin).post("/links", &link).expect(201);
    let visit = || {
        let request = "GET /x HTTP/1.1\r\nHost: go.crew.example\r\nConnection: close\r\n\r\n";
        send_request(server.address, request.as_bytes()).status
    };
    let added = send(&mut eve, PAGE, PAGE, &[("host", "go.crew.example")]);
    assert_eq!(added.location(), Some("/admin/domains?done=waiting"), "{added:?}");
    let page = open(&mut eve, "/admin/domains?done=waiting");
    assert!(page.contains("<strong>unproven</strong>") && page.contains("Check now"), "{page}");
    let held =
        server.runtime.block_on(server.ops.domain_record(&crew, &Host::parse("go.crew.example").unwrap()));
    let proof = VerificationRecord::new(&crew, &held.unwrap().domain.host);
    for field in [&proof.name, &proof.value] {
        assert!(page.contains(&format!("value=\"{field}\" readonly")), "{page}");
    }
    let check = "/admin/domains/go.crew.example/verify";
    let checked = send(&mut eve, PAGE, check, &[]);
    assert_eq!(checked.location(), Some("/admin/domains?done=unproven"), "{checked:?}");
    assert_eq!(visit(), 404);
    dns.set_behavior(StubBehavior::ServFail);
    let failed = send(&mut eve, PAGE, check, &[]);
    assert_eq!(failed.status, 503, "{failed:?}");
    assert!(failed.body.contains("DNS cannot be asked now"), "{failed:?}");
    dns.set_behavior(StubBehavior::Well);
    dns.set_records(&proof.name, "TXT", &[&proof.value]);
    let checked = send(&mut eve, PAGE, check, &[]);
    assert_eq!(checked.location(), Some("/admin/domains?done=proven"), "{checked:?}");
    assert_eq!(visit(), 302);
    let page = open(&mut eve, PAGE);
    assert!(page.contains("<strong>active</strong>") && !page.contains(&proof.value), "{page}");
    ann(&server);
    let mut ann = signed_in(server.address, "ann@example.com");
    assert_eq!(send(&mut ann, PAGE, check, &[]).status, 404);
    let refused = send(&mut ann, PAGE, PAGE, &[("host", "go.crew.example")]);
    assert_eq!(refused.status, 409, "{refused:?}");
}

#[test]
fn invalid_or_taken_host_is_refused_beside_its_field() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    server.workspace("other", preset(Preset::Fabric), &["other.example"]);
    for (host, status) in [("https://go.example.com/x", 400), ("", 400), ("other.example", 409)] {
        let refused = send(&mut ann, PAGE, PAGE, &[("host", host)]);
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.body.contains("id=\"host-problem\""), "{refused:?}");
        assert!(refused.body.contains(&format!("name=\"host\" value=\"{host}\"")), "{refused:?}");
    }
    for path in [
        "/admin/domains/unknown.example/primary",
        "/admin/domains/unknown.example/remove",
        "/admin/domains/%20/remove",
    ] {
        assert_eq!(send(&mut ann, PAGE, path, &[]).status, 404, "{path}");
    }
}

#[test]
fn adding_the_first_domain_is_confirmed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let link = serde_json::json!({"code": "parity", "target": "https://example.com/"});
    server.admin().post("/links", &link).expect(201);
    let visit = |host: &str| {
        let request = format!("GET /parity HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        send_request(server.address, request.as_bytes()).status
    };
    send_twice(&mut ann, PAGE, "/admin/domains/rmax.to/remove", &[]);
    assert_eq!([visit("here.example"), visit("go.example.com")], [301, 301]);
    let host = [("host", "go.example.com")];
    let asked = send(&mut ann, PAGE, PAGE, &host);
    assert!(asked.body.contains("<h1>Add go.example.com?</h1>"), "{asked:?}");
    assert!(
        asked.body.contains("answer at go.example.com alone") && asked.body.contains("stop answering"),
        "{asked:?}"
    );
    assert_eq!([visit("here.example"), visit("go.example.com")], [301, 301], "nothing was done yet");
    let added = send_twice(&mut ann, PAGE, PAGE, &host);
    assert_eq!(added.location(), Some("/admin/domains?done=added"), "{added:?}");
    assert_eq!([visit("here.example"), visit("go.example.com")], [404, 301]);
    // The second costs nothing, and the same again does nothing.
    let added = send(&mut ann, PAGE, PAGE, &[("host", "here.example")]);
    assert_eq!(added.location(), Some("/admin/domains?done=added"), "{added:?}");
    let again = send(&mut ann, PAGE, PAGE, &host);
    assert_eq!(again.location(), Some("/admin/domains?done=there"), "{again:?}");
    assert!(open(&mut ann, "/admin/domains?done=there").contains("has this domain already"));
}

#[test]
fn adding_a_domain_that_links_target_is_confirmed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let admin = server.admin();
    for (code, target, no_loop) in [
        ("blog", "https://blog.example/", true),
        ("meant", "https://blog.example/x", false),
        ("other", "https://news.example/blog.example", true),
    ] {
        let link = serde_json::json!({"code": code, "target": target, "no_loop": no_loop});
        admin.post("/links", &link).expect(201);
    }
    let host = [("host", "blog.example")];
    let asked = send(&mut ann, PAGE, PAGE, &host);
    assert!(asked.body.contains("1 link leads to blog.example (blog)."), "{asked:?}");
    let added = send_twice(&mut ann, PAGE, PAGE, &host);
    assert_eq!(added.location(), Some("/admin/domains?done=added"), "{added:?}");
}
