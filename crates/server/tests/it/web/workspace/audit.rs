//! The audit log.

use rlinks_core::{Preset, Role};
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::{open, person, send, server_with_admin};

const PAGE: &str = "/admin/audit";

/// The numbers of the entries a page shows.
fn shown(page: &str) -> Vec<i64> {
    let rows = page.split("<tr>\n<td class=\"number\">").skip(1);
    rows.map(|row| row.split('<').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn log_is_shown_filtered_verified_and_exported() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let admin = server.admin();
    admin.post("/links", &json!({"code": "parity", "target": "https://example.com/"})).expect(201);
    send(&mut bob, "/admin/account", "/admin/account/name", &[("full_name", "Bob")]);
    let count = i64::try_from(server.actions().len()).unwrap();
    let page = open(&mut ann, PAGE);
    assert_eq!(shown(&page), (1..=count).rev().collect::<Vec<_>>());
    assert!(page.contains(&format!("to the last, number {count}.")), "{page}");

    let link = open(&mut ann, "/admin/audit?subject=link%3Aparity");
    assert!(shown(&link).len() == 1 && link.contains("link.create"), "{link}");
    let by_bob = open(&mut ann, "/admin/audit?actor=bob%40example.com");
    assert!(
        shown(&by_bob).len() == 2 && by_bob.contains("user.update") && by_bob.contains("auth."),
        "{by_bob}"
    );
    let users = shown(&open(&mut ann, "/admin/audit?action=user")).len();
    let actions = server.actions();
    assert_eq!(users, actions.iter().filter(|action| action.starts_with("user.")).count());
    assert_eq!(shown(&open(&mut ann, "/admin/audit?action=use")), [] as [i64; 0], "whole words only");
    assert_eq!(shown(&open(&mut ann, "/admin/audit?from=2027-01-16")), [] as [i64; 0]);
    assert_eq!(
        shown(&open(&mut ann, "/admin/audit?from=2027-01-15&to=2027-01-16&action=link.create")).len(),
        1
    );
    let wrong = ann.get("/admin/audit?from=yesterday");
    assert!(wrong.status == 400 && wrong.body.contains("id=\"from-problem\""), "{wrong:?}");

    let file = ann.get("/admin/audit/export");
    assert_eq!(file.header("content-disposition"), ["attachment; filename=\"audit-main.jsonl\""], "{file:?}");
    // The body is sent in chunks, whose lengths stand on lines of their own.
    let entries: Vec<Value> = file
        .body
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), usize::try_from(count).unwrap());
    assert_eq!(entries[1]["prev_hash"], entries[0]["hash"]);
}

#[test]
fn long_log_is_paged_and_verified_on_request() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let admin = server.admin();
    let links: Vec<Value> = (0..1000)
        .map(|n| json!({"code": format!("n{n}"), "target": format!("https://example.com/{n}")}))
        .collect();
    admin.post("/links/bulk", &json!({"links": links})).expect(200);
    let count = i64::try_from(server.actions().len()).unwrap();
    let first = open(&mut ann, PAGE);
    assert!(first.contains("it was not verified now"), "{first}");
    assert_eq!(shown(&first), (count - 49..=count).rev().collect::<Vec<_>>());
    let older = first.split("href=\"/admin/audit?before=").nth(1).unwrap().split('"').next().unwrap();
    let second = open(&mut ann, &format!("/admin/audit?before={older}"));
    assert_eq!(shown(&second), (count - 99..=count - 50).rev().collect::<Vec<_>>());
    let filtered = open(&mut ann, "/admin/audit?action=link.create");
    let older = filtered
        .split("rel=\"next\"")
        .next()
        .unwrap()
        .rsplit("href=\"")
        .next()
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert!(older.contains("action=link.create") && older.contains("before="), "{older}");
    let verified = open(&mut ann, "/admin/audit?verify=yes");
    assert!(verified.contains(&format!("to the last, number {count}.")), "{verified}");
    let file = ann.get("/admin/audit/export");
    assert_eq!(
        file.body.lines().filter(|line| line.starts_with('{')).count(),
        usize::try_from(count).unwrap()
    );
}

#[test]
fn changes_are_shown_by_field_and_members_by_address() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let admin = server.admin();
    admin
        .post("/links", &json!({"code": "parity", "target": "https://example.com/", "tags": ["a"]}))
        .expect(201);
    admin.patch("/links/parity", &json!({"target": "https://example.com/2"})).expect(200);
    admin.patch("/workspace", &json!({"policy": {"code": {"max": 40}}})).expect(200);
    let page = open(&mut ann, "/admin/audit?action=link.update");
    let target = "<dt>target</dt><dd><del>https://example.com/</del> <ins>https://example.com/2</ins></dd>";
    assert!(page.contains(target) && !page.contains("<dt>tags</dt>"), "{page}");
    assert!(page.contains("data-precise>") && !page.contains("{&#34;"), "{page}");
    let page = open(&mut ann, "/admin/audit?action=workspace.policy");
    assert!(page.contains("<dt>policy, code, max</dt><dd><del>64</del> <ins>40</ins></dd>"), "{page}");
    let page = open(&mut ann, "/admin/audit?action=user.create");
    assert!(page.contains("</code> ann@example.com</td>"), "{page}");
}

#[test]
fn modified_audit_entry_is_reported() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    server.runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(server.test_store.folder().join("data/rlinks.db"));
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query("update audit set actor = 'somebody else' where seq = 2")
            .execute(&mut connection)
            .await
            .unwrap();
    });
    let page = open(&mut ann, PAGE);
    assert!(page.contains("The log was tampered with: entry 2 was edited"), "{page}");
}
