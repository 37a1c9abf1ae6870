//! Files of links, by the form.

use std::fmt::Write as _;

use rlinks_core::{Preset, Role};

use super::{open, person, server_with_admin};
use crate::support::browser::{Browser, hidden};
use crate::support::raw_client::Response;

const PAGE: &str = "/admin/import";
const FILE: &str = "code,target,notes\none,https://example.com/one,\"One\nmore line\"\nUp,https://example.com/up,\nthere,https://example.com/other,\n";

/// Sends a form with a file as a browser does.
pub(super) fn upload(browser: &mut Browser, fields: &[(&str, &str)]) -> Response {
    let mut body = String::new();
    for (name, value) in fields {
        let file = if *name == "file" { "; filename=\"links.csv\"\r\nContent-Type: text/csv" } else { "" };
        let _ = write!(
            body,
            "--frontier\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n"
        );
    }
    body.push_str("--frontier--\r\n");
    let origin = format!("http://{}", browser.host);
    let sender = browser.clone().with("Origin", &origin);
    sender.with("Content-Type", "multipart/form-data; boundary=frontier").send("POST", PAGE, Some(&body))
}

#[track_caller]
fn numbers(page: &Response) -> [String; 4] {
    assert_eq!(page.status, 200, "{page:?}");
    ["created", "skipped", "conflicting", "refused"].map(|id| {
        let (_, after) = page.body.split_once(&format!("id=\"{id}\">")).unwrap();
        after.split('<').next().unwrap().to_owned()
    })
}

#[test]
fn file_is_previewed_imported_and_exported() {
    let (server, _) = server_with_admin(Preset::Fabric);
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let link = serde_json::json!({"code": "there", "target": "https://example.com/there"});
    server.member().post("/links", &link).expect(201);
    let csrf = bob.token(PAGE);
    let preview = upload(&mut bob, &[("csrf", &csrf), ("file", FILE), ("text", ""), ("format", "")]);
    assert_eq!(numbers(&preview), ["1", "0", "1", "1"], "{preview:?}");
    assert!(preview.body.contains("another link is there: it differs in target"), "{preview:?}");
    assert_eq!(server.visit("/one").status, 404, "a preview writes nothing");
    let content = hidden(&preview, "content");
    let fields = [("csrf", csrf.as_str()), ("confirmed", "yes"), ("format", "csv"), ("content", &content)];
    let report = upload(&mut bob, &fields);
    assert_eq!(numbers(&report), ["1", "0", "1", "1"], "{report:?}");
    assert!(
        report.body.contains("1 link was made") && !report.body.contains("name=\"content\""),
        "{report:?}"
    );
    assert_eq!(server.visit("/one").status, 301, "before the answer");
    let link = server.member().get("/links/one").expect(200).json();
    assert_eq!(link["notes"], "One\nmore line", "the file came back as it was");
    // Repeated, it is there.
    let again = upload(&mut bob, &[("csrf", &csrf), ("text", FILE), ("format", "csv")]);
    assert_eq!(numbers(&again), ["0", "1", "1", "1"], "{again:?}");
    assert!(again.body.contains("There is nothing to import"), "{again:?}");

    for (format, part, name) in [
        ("jsonl", "\"code\":\"one\"", "links.jsonl"),
        ("csv", "https://example.com/one", "links.csv"),
        ("nginx", "/one", "links.nginx.conf"),
        ("caddy", "/one", "links.caddy"),
        ("cloudflare", "/one", "_redirects"),
    ] {
        let file = bob.get(&format!("/admin/export?format={format}"));
        assert_eq!(file.status, 200, "{file:?}");
        assert_eq!(
            file.header("content-disposition"),
            [format!("attachment; filename=\"{name}\"")],
            "{file:?}"
        );
        assert!(file.body.contains(part), "{file:?}");
    }
    assert_eq!(bob.get("/admin/export?format=zip").status, 404);
}

#[test]
fn unusable_import_file_is_explained() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    let csrf = ann.token(PAGE);
    for fields in [
        &[("csrf", csrf.as_str()), ("file", ""), ("text", "")][..],
        &[("csrf", &csrf), ("text", "hello"), ("format", "")],
        &[("csrf", &csrf), ("text", FILE), ("format", "zip")],
        &[("csrf", &csrf), ("text", FILE), ("format", "kutt")],
    ] {
        let refused = upload(&mut ann, fields);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(
            refused.body.contains("role=\"alert\"") && refused.body.contains("type=\"file\""),
            "{refused:?}"
        );
    }
    for (fields, status) in [
        (&[("csrf", csrf.as_str()), ("content", "not base64!")][..], 400),
        (&[("csrf", &csrf), ("surprise", "1")], 400),
        (&[("text", FILE), ("csrf", &csrf)], 403),
        (&[("csrf", "0"), ("text", FILE)], 403),
        (&[], 403),
    ] {
        assert_eq!(upload(&mut ann, fields).status, status, "{fields:?}");
    }
    // A form of the ordinary kind is not one with a file.
    assert_eq!(ann.post(PAGE, &[("csrf", &csrf), ("text", FILE)]).status, 415);
    let mut elsewhere = ann.clone().with("Sec-Fetch-Site", "cross-site");
    assert_eq!(upload(&mut elsewhere, &[("csrf", &csrf), ("text", FILE)]).status, 403);
}

#[test]
fn large_file_is_imported_and_one_over_the_limit_refused() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let csrf = ann.token(PAGE);
    let mut file = String::from("{\"code\":\"large\",\"target\":\"https://example.com/\"}\n");
    file.push_str(&"\n".repeat(9 << 20));
    let preview = upload(&mut ann, &[("csrf", &csrf), ("file", &file), ("format", "jsonl")]);
    assert_eq!(numbers(&preview), ["1", "0", "0", "0"]);
    let content = hidden(&preview, "content");
    let fields = [("csrf", csrf.as_str()), ("confirmed", "yes"), ("format", "jsonl"), ("content", &content)];
    assert_eq!(numbers(&upload(&mut ann, &fields)), ["1", "0", "0", "0"]);
    assert_eq!(server.visit("/large").status, 301);
    file.push_str(&"\n".repeat(8 << 20));
    let refused = upload(&mut ann, &[("csrf", &csrf), ("file", &file), ("format", "jsonl")]);
    assert_eq!(refused.status, 413);
    assert!(refused.body.contains("more than 16 MiB"), "{refused:?}");
}

#[test]
fn viewer_may_export_but_not_import() {
    let (server, _) = server_with_admin(Preset::Fabric);
    let mut viewer = person(&server, Role::Viewer, "viewer@example.com");
    assert!(!open(&mut viewer, PAGE).contains("type=\"file\""));
    let csrf = viewer.token(PAGE);
    assert_eq!(upload(&mut viewer, &[("csrf", &csrf), ("text", FILE)]).status, 403);
}

/// Where links are their owner's alone, so are exports; and nobody makes more in an hour than they may.
#[test]
fn visibility_and_hourly_limit_apply_to_import_and_export() {
    let mut policy = crate::support::members::preset(Preset::Platform);
    policy.sign_in.push(rlinks_core::workspace::policy::SignInMethod::Password);
    policy.limits.creations_per_hour = Some(2);
    let server = crate::support::members::TestServer::at(
        crate::support::database::TestStore::sqlite(),
        policy,
        |_| (),
    );
    let mut bob = person(&server, Role::Member, "bob@example.com");
    server
        .admin()
        .post("/links", &serde_json::json!({"code": "secret", "target": "https://example.com/s"}))
        .expect(201);
    let csrf = bob.token(PAGE);
    let file = "{\"code\":\"one\",\"target\":\"https://example.com/1\"}\n{\"code\":\"two\",\"target\":\"https://example.com/2\"}\n{\"code\":\"three\",\"target\":\"https://example.com/3\"}\n";
    let preview = upload(&mut bob, &[("csrf", &csrf), ("text", file)]);
    assert_eq!(numbers(&preview), ["2", "0", "0", "1"], "{preview:?}");
    let content = hidden(&preview, "content");
    let fields = [("csrf", csrf.as_str()), ("confirmed", "yes"), ("format", "jsonl"), ("content", &content)];
    let report = upload(&mut bob, &fields);
    assert_eq!(numbers(&report), ["2", "0", "0", "1"], "{report:?}");
    let export = bob.get("/admin/export?format=jsonl");
    assert!(export.body.contains("\"one\"") && !export.body.contains("secret"), "{export:?}");
}
