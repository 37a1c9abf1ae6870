//! Keys.

use rlinks_core::{Preset, Role, Scopes};

use super::{open, person, send, send_twice, server_with_admin, value};
use crate::support::api_client::ApiClient;
use crate::support::browser::{Browser, hidden, signed_in};
use crate::support::database::TestStore;
use crate::support::files::files_with;
use crate::support::members::{TestServer, ann, preset};
use crate::support::raw_client::Response;

const SCOPES: [(&str, &str); 2] = [("links:read", "on"), ("links:write", "on")];

fn make(browser: &mut Browser, name: &str, days: &str) -> Response {
    send(browser, "/admin/keys", "/admin/keys", &[("name", name), SCOPES[0], SCOPES[1], ("days", days)])
}

fn with(server: &TestServer, key: &str) -> ApiClient {
    ApiClient { address: server.address, key: Some(key.to_owned()) }
}

/// The id of a key by its name, from its row.
fn id(page: &str, name: &str) -> String {
    let (_, row) = page.split_once(&format!("<th scope=\"row\">{name}</th>")).unwrap();
    row.split_once("/admin/keys/").unwrap().1.split('/').next().unwrap().to_owned()
}

#[test]
fn new_key_is_shown_once_works_and_is_in_no_file() {
    let (mut server, mut ann) = server_with_admin(Preset::Fabric);
    let made = make(&mut ann, "deploys", "30");
    assert_eq!(made.status, 200, "{made:?}");
    let secret = value(&made.body, "secret");
    assert!(secret.starts_with("rmx_"), "{secret}");
    let me = with(&server, &secret).get("/me").expect(200).json();
    assert_eq!(me["scopes"], serde_json::json!(["links:read", "links:write"]));
    let list = with(&server, &secret).get("/links").expect(200);
    assert_eq!(list.answer.status, 200);

    let page = open(&mut ann, "/admin/keys");
    assert!(!page.contains(&secret) && page.contains(&secret[..12]) && page.contains("deploys"), "{page}");
    assert!(page.contains("2027-02-14T"), "thirty days after the fifteenth of January: {page}");
    server.stop();
    assert_eq!(files_with(server.test_store.folder(), &secret[13..]), [""; 0]);
}

/// A browser that reloads the page of a new key sends its form once more.
#[test]
fn form_sent_twice_makes_one_key() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let page = ann.get("/admin/keys");
    let (csrf, newest) = (hidden(&page, "csrf"), hidden(&page, "newest"));
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "deploys"), SCOPES[0], ("days", "30")];
    let made = ann.post("/admin/keys", &fields);
    assert_eq!(made.status, 200, "{made:?}");
    let before = server.actions().len();
    let again = ann.post("/admin/keys", &fields);
    assert_eq!(again.status, 409, "{again:?}");
    assert!(
        again.body.contains("You have made the key “deploys” since") && !again.body.contains("id=\"secret\"")
    );
    assert!(again.body.contains("value=\"deploys\""), "what was typed stays: {again:?}");
    assert_eq!(server.actions().len(), before);
    // Whoever means it sends the form that came back.
    let newest = hidden(&again, "newest");
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "deploys"), SCOPES[0], ("days", "30")];
    assert_eq!(ann.post("/admin/keys", &fields).status, 200);
    // Keys of others are not in the way.
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let page = bob.get("/admin/keys");
    make(&mut ann, "of-ann", "");
    let (csrf, newest) = (hidden(&page, "csrf"), hidden(&page, "newest"));
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "of-bob"), SCOPES[0], ("days", "30")];
    assert_eq!(bob.post("/admin/keys", &fields).status, 200);
}

#[test]
fn key_is_revoked_after_confirmation() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let secret = value(&make(&mut ann, "old", "").body, "secret");
    let id = id(&open(&mut ann, "/admin/keys"), "old");
    let path = format!("/admin/keys/{id}/revoke");
    let asked = send(&mut ann, "/admin/keys", &path, &[]);
    assert!(asked.status == 200 && asked.body.contains("Revoke the key “old”?"), "{asked:?}");
    with(&server, &secret).get("/me").expect(200);
    let done = send_twice(&mut ann, "/admin/keys", &path, &[]);
    assert_eq!((done.status, done.location()), (303, Some("/admin/keys?done=revoked")), "{done:?}");
    with(&server, &secret).get("/me").expect(401);
    let page = open(&mut ann, "/admin/keys?done=revoked");
    assert!(page.contains("The key was revoked") && page.contains(">revoked</td>"), "{page}");
    assert!(!page.contains(&path), "what is over cannot be revoked again: {page}");
}

#[test]
fn rotated_key_works_for_another_day() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let old = value(&make(&mut ann, "runner", "").body, "secret");
    let id = id(&open(&mut ann, "/admin/keys"), "runner");
    let made = send_twice(&mut ann, "/admin/keys", &format!("/admin/keys/{id}/rotate"), &[]);
    assert_eq!(made.status, 200, "{made:?}");
    let new = value(&made.body, "secret");
    assert_ne!(new, old);
    with(&server, &old).get("/me").expect(200);
    server.advance_ms(24 * 3_600_000 + 1);
    with(&server, &old).get("/me").expect(401);
    with(&server, &new).get("/me").expect(200);
    let again = send(&mut ann, "/admin/keys", &format!("/admin/keys/{id}/rotate"), &[("confirmed", "yes")]);
    assert_eq!(again.status, 400, "{again:?}");
}

/// The dashboard and the API call one operation, so neither gives a member more than the other.
#[test]
fn member_cannot_rotate_a_key_that_may_do_more_than_their_role() {
    let server = TestServer::new(Preset::Fabric);
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let user = server.runtime.block_on(server.ops.member(&server.main, "bob@example.com")).unwrap();
    let wide = server.key(&server.main, Some(&user), Scopes::ALL);
    let path = format!("/admin/keys/{}/rotate", wide.key.id);
    let refused = send(&mut bob, "/admin/keys", &path, &[("confirmed", "yes")]);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("This key may do more than you"), "{refused:?}");
    assert_eq!(server.actions().iter().filter(|action| *action == "key.rotate").count(), 0);
}

#[test]
fn invalid_field_shows_its_error_and_keeps_what_was_typed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let before = server.actions().len();
    let fields = [("name", ""), ("analytics:read", "on"), ("days", "0")];
    let refused = send(&mut ann, "/admin/keys", "/admin/keys", &fields);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.body.contains("id=\"name-problem\"") && refused.body.contains("id=\"days-problem\""),
        "{refused:?}"
    );
    assert!(refused.body.contains("name=\"analytics:read\" value=\"on\" checked"), "{refused:?}");
    let none = send(&mut ann, "/admin/keys", "/admin/keys", &[("name", "nothing")]);
    assert!(none.status == 400 && none.body.contains("Scopes are missing"), "{none:?}");
    assert!(none.body.contains("value=\"nothing\""), "{none:?}");
    assert_eq!(server.actions().len(), before);
}

/// Hostile inputs, S28.
///
/// A member gives no scope they do not have, and sees only their own keys.
#[test]
fn member_manages_only_own_keys_within_own_scopes() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    make(&mut ann, "of-ann", "");
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let refused =
        send(&mut bob, "/admin/keys", "/admin/keys", &[("name", "more"), ("workspace:admin", "on")]);
    assert_eq!(refused.status, 403, "{refused:?}");
    let made = make(&mut bob, "of-bob", "");
    with(&server, &value(&made.body, "secret")).get("/users").expect(403);
    let page = open(&mut bob, "/admin/keys");
    assert!(
        page.contains("of-bob") && !page.contains("of-ann") && !page.contains("workspace:admin"),
        "{page}"
    );
    let page = open(&mut ann, "/admin/keys");
    assert!(page.contains("of-bob") && page.contains("bob@example.com"), "{page}");
}

/// Hostile inputs, S43.
#[test]
fn key_made_or_replaced_in_the_dashboard_counts_as_a_request() {
    let mut policy = preset(Preset::Fabric);
    policy.limits.requests_per_hour = Some(2);
    let server = TestServer::at(TestStore::sqlite(), policy, |_| ());
    ann(&server);
    let mut ann = signed_in(server.address, "ann@example.com");
    assert_eq!(make(&mut ann, "first", "30").status, 200);
    let id = id(&open(&mut ann, "/admin/keys"), "first");
    let path = format!("/admin/keys/{id}/rotate");
    assert_eq!(send_twice(&mut ann, "/admin/keys", &path, &[]).status, 200);
    let refused = make(&mut ann, "second", "30");
    assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["3600"]), "{refused:?}");
    assert!(!open(&mut ann, "/admin/keys").contains("second"));
}

/// Hostile inputs, S43.
#[test]
fn key_beyond_the_quota_is_refused_in_the_form() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.resource_limits.keys = Some(1);
    });
    ann(&server);
    let mut ann = signed_in(server.address, "ann@example.com");
    assert_eq!(make(&mut ann, "first", "30").status, 200);
    let refused = make(&mut ann, "second", "30");
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("role=\"alert\">This member has 1 active API keys"), "{refused:?}");
    assert_eq!(value(&refused.body, "name"), "second");
}

#[test]
fn keys_unchanged_for_a_year_are_named_until_they_are_replaced() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    make(&mut ann, "veteran", "");
    make(&mut ann, "expiring", "30");
    assert!(!open(&mut ann, "/admin/keys").contains("Unchanged for a year"));
    server.advance_ms(365 * 24 * 3_600_000);
    let mut ann = signed_in(server.address, "ann@example.com");
    make(&mut ann, "recruit", "");
    let page = open(&mut ann, "/admin/keys");
    let (_, notice) = page.split_once("Unchanged for a year").unwrap();
    let (notice, _) = notice.split_once("</section>").unwrap();
    assert!(notice.contains("<bdi>veteran</bdi>"), "{notice}");
    assert!(!notice.contains("expiring") && !notice.contains("recruit"), "{notice}");
    let path = format!("/admin/keys/{}/rotate", id(&page, "veteran"));
    assert_eq!(send_twice(&mut ann, "/admin/keys", &path, &[]).status, 200);
    server.advance_ms(24 * 3_600_000 + 1);
    let mut ann = signed_in(server.address, "ann@example.com");
    assert!(!open(&mut ann, "/admin/keys").contains("Unchanged for a year"));
}

#[test]
fn revocation_names_what_the_key_made_and_can_leave_it() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let stolen = with(&server, &value(&make(&mut ann, "stolen", "").body, "secret"));
    let child = stolen.post("/keys", &serde_json::json!({"name": "made <with> it"})).expect(201).json();
    let child = with(&server, child["key"].as_str().unwrap());
    let id = id(&open(&mut ann, "/admin/keys"), "stolen");
    let path = format!("/admin/keys/{id}/revoke");
    let asked = send(&mut ann, "/admin/keys", &path, &[]);
    assert!(asked.body.contains("made &#60;with&#62; it") && asked.body.contains("links:write"), "{asked:?}");
    assert!(asked.body.contains("name=\"keep_created\" value=\"yes\">"), "not ticked: {asked:?}");
    let kept = send(&mut ann, "/admin/keys", &path, &[("confirmed", "yes"), ("keep_created", "yes")]);
    assert_eq!(kept.location(), Some("/admin/keys?done=revoked"), "{kept:?}");
    stolen.get("/me").refused(401, "UNAUTHENTICATED");
    child.get("/me").expect(200);
    let done = send(&mut ann, "/admin/keys", &path, &[("confirmed", "yes")]);
    assert_eq!(done.location(), Some("/admin/keys?done=revoked_with_created"), "{done:?}");
    assert!(
        open(&mut ann, "/admin/keys?done=revoked_with_created").contains("keys and invitations made with it")
    );
    child.get("/me").refused(401, "UNAUTHENTICATED");
}
