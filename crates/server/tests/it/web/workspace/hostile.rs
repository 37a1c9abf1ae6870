//! Hostile inputs, S20: what people and files say is shown as text, on every page of the workspace.

use std::fmt::Write as _;

use rlinks_core::{Preset, Role};

use super::import::upload;
use super::{open, person, send, server_with_admin};
use crate::support::raw_client::wait_until;

/// Words that would be more than words where somebody forgot to escape them.
const EVIL: &str = "\"><img src=x onerror=1>'</script><script>1</script><svg/onload=1>{{7*7}}\u{2028}";

#[track_caller]
fn harmless(page: &str, what: &str) {
    // One script, and it is ours.
    let page = &page.replacen("<script src=\"/admin/app.js", "", 1).replacen("</script>", "", 1);
    for part in ["<img", "<svg/", "<script", "</script", "onerror=1>\"", "{{49}}", "\"javascript:"] {
        assert!(!page.contains(part), "{what}: {part} in {page}");
    }
}

/// The marker is there, as text.
#[track_caller]
fn shows(page: &str, what: &str) {
    harmless(page, what);
    assert!(page.contains("img src=x onerror=1") && page.contains("{{7*7}}"), "{what}: {page}");
}

/// Hostile inputs, S20.
#[test]
fn names_given_by_and_to_members_are_escaped() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let evil_line = EVIL.replace('\u{2028}', "");
    send(&mut bob, "/admin/account", "/admin/account/name", &[("full_name", &evil_line)]);
    shows(&open(&mut bob, "/admin/account"), "one's own name");
    shows(&open(&mut ann, "/admin/members"), "a member's name");
    let made = send(&mut bob, "/admin/keys", "/admin/keys", &[("name", &evil_line), ("links:read", "on")]);
    shows(&made.body, "a new key");
    let keys = open(&mut ann, "/admin/keys");
    shows(&keys, "a key's name");
    let id = keys.split("/admin/keys/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    for act in ["revoke", "rotate"] {
        shows(&send(&mut ann, "/admin/keys", &format!("/admin/keys/{id}/{act}"), &[]).body, act);
    }
    let list = open(&mut ann, "/admin/members");
    let id = list.split("bob@example.com").nth(1).unwrap().split("/admin/members/").nth(1).unwrap();
    let id = id.split('/').next().unwrap().to_owned();
    for act in ["suspend", "delete"] {
        shows(&send(&mut ann, "/admin/members", &format!("/admin/members/{id}/{act}"), &[]).body, act);
    }
    let named = send(&mut ann, "/admin/policy", "/admin/workspace/name", &[("name", &evil_line)]);
    assert_eq!(named.status, 303, "{named:?}");
    shows(&open(&mut ann, "/admin/policy"), "the workspace's name");
    shows(&open(&mut ann, "/admin/audit"), "the log");
}

/// Hostile inputs, S20.
#[test]
fn form_input_is_escaped_when_shown_again() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    for (page, path, field) in [
        ("/admin/members", "/admin/members", "email"),
        ("/admin/domains", "/admin/domains", "host"),
        ("/admin/policy", "/admin/policy", "user_agent"),
        ("/admin/account", "/admin/account/name", "full_name"),
        ("/admin/policy", "/admin/workspace/name", "name"),
    ] {
        let answer = send(&mut ann, page, path, &[(field, &format!("{EVIL}\nx"))]);
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        shows(&answer.body, path);
    }
    let encoded: String = url_encoded(EVIL);
    for path in [
        "/admin/audit?actor=",
        "/admin/audit?subject=",
        "/admin/audit?action=",
        "/admin/audit?from=",
        "/admin/stats?tz=",
    ] {
        let answer = ann.get(&format!("{path}{encoded}"));
        assert!([200, 400].contains(&answer.status), "{path}: {answer:?}");
        harmless(&answer.body, path);
        assert!(answer.body.contains("img src=x"), "{path}: {answer:?}");
    }
    // A field for a day holds nothing else.
    for path in ["/admin/stats?from=", "/admin/stats?to="] {
        let answer = ann.get(&format!("{path}{encoded}"));
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        harmless(&answer.body, path);
        assert!(!answer.body.contains("img src=x"), "{path}: {answer:?}");
    }
    for path in [
        "/admin/audit?done=",
        "/admin/keys?done=",
        "/admin/policy?preset=",
        "/admin/keys?before=",
        "/admin/members?after=",
    ] {
        harmless(&open(&mut ann, &format!("{path}{encoded}")), path);
    }
    harmless(
        &send(&mut ann, "/admin/account", &format!("/admin/members/{encoded}/delete"), &[]).body,
        "an id",
    );
    harmless(
        &send(&mut ann, "/admin/account", &format!("/admin/domains/{encoded}/remove"), &[]).body,
        "a host",
    );
}

/// Hostile inputs, S20.
#[test]
fn content_of_an_imported_file_is_escaped() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let csrf = ann.token("/admin/import");
    let row = |code: &str, target: &str| {
        serde_json::json!({"code": code, "target": target, "title": EVIL, "notes": EVIL}).to_string()
    };
    let file = [
        row("fine", "https://example.com/"),
        row("\"><img src=x onerror=1>{{7*7}}", "https://example.com/"),
        row("bad", &format!("javascript:{EVIL}")),
    ]
    .join("\n");
    let preview = upload(&mut ann, &[("csrf", &csrf), ("file", &file), ("format", "jsonl")]);
    shows(&preview.body, "a preview");
    let content = crate::support::browser::hidden(&preview, "content");
    let fields = [("csrf", csrf.as_str()), ("confirmed", "yes"), ("format", "jsonl"), ("content", &content)];
    shows(&upload(&mut ann, &fields).body, "a report");
    shows(&open(&mut ann, "/admin/audit"), "the log");
    harmless(&upload(&mut ann, &[("csrf", &csrf), ("text", EVIL), ("format", EVIL)]).body, "a format");
    assert_eq!(server.visit("/fine").status, 301);
}

/// Hostile inputs, S20.
#[test]
fn visitor_input_is_escaped() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    server
        .admin()
        .post("/links", &serde_json::json!({"code": "parity", "target": "https://example.com/"}))
        .expect(201);
    let lines = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 <img src=x onerror=1>\r\nReferer: https://news.example/<img src=x onerror=1>\r\n";
    let query = url_encoded("\"><img src=x onerror=1>{{7*7}}");
    assert_eq!(
        server.visit_with(&format!("/parity?utm_campaign={query}&utm_source={query}"), lines).status,
        301
    );
    server.visit_with(&format!("/{query}"), lines);
    wait_until("the click is counted", || {
        open(&mut ann, "/admin/stats").contains("<dt>Clicks</dt><dd><strong>1</strong></dd>")
    });
    shows(&open(&mut ann, "/admin/stats"), "a campaign");
}

fn url_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}
