//! Domains.

use rlinks_core::Preset;

use super::{house, open, send, send_twice};
use crate::api::house::preset;
use crate::client::ask;

const PAGE: &str = "/admin/domains";

#[test]
fn a_domain_is_added_made_primary_and_removed() {
    let (house, mut ann) = house(Preset::Fabric);
    let admin = house.admin();
    let link = serde_json::json!({"code": "parity", "target": "https://example.com/"});
    admin.post("/links", &link).expect(201);
    let visit = || {
        let request = "GET /parity HTTP/1.1\r\nHost: go.example.com\r\nConnection: close\r\n\r\n";
        ask(house.address, request.as_bytes()).status
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
fn what_is_no_host_or_another_workspaces_is_refused_beside_the_field() {
    let (house, mut ann) = house(Preset::Fabric);
    house.workspace("other", preset(Preset::Fabric), &["other.example"]);
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
fn the_first_domain_is_asked_about_because_links_answer_nowhere_else_then() {
    let (house, mut ann) = house(Preset::Fabric);
    let link = serde_json::json!({"code": "parity", "target": "https://example.com/"});
    house.admin().post("/links", &link).expect(201);
    let visit = |host: &str| {
        let request = format!("GET /parity HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        ask(house.address, request.as_bytes()).status
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
fn a_domain_that_links_lead_to_is_asked_about_and_the_links_are_named() {
    let (house, mut ann) = house(Preset::Fabric);
    let admin = house.admin();
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
