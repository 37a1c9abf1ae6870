//! Keys.

use rlinks_core::{Preset, Role};

use super::{house, open, person, send, send_twice, value};
use crate::api::caller::Caller;
use crate::api::house::House;
use crate::api::keys::files_with;
use crate::client::Answer;
use crate::sign_in::browser::{Browser, hidden};

const SCOPES: [(&str, &str); 2] = [("links:read", "on"), ("links:write", "on")];

fn make(browser: &mut Browser, name: &str, days: &str) -> Answer {
    send(browser, "/admin/keys", "/admin/keys", &[("name", name), SCOPES[0], SCOPES[1], ("days", days)])
}

fn with(house: &House, key: &str) -> Caller {
    Caller { address: house.address, key: Some(key.to_owned()) }
}

/// The id of a key by its name, from its row.
fn id(page: &str, name: &str) -> String {
    let (_, row) = page.split_once(&format!("<th scope=\"row\">{name}</th>")).unwrap();
    row.split_once("/admin/keys/").unwrap().1.split('/').next().unwrap().to_owned()
}

#[test]
fn a_key_is_shown_once_works_and_is_in_no_file() {
    let (mut house, mut ann) = house(Preset::Fabric);
    let made = make(&mut ann, "deploys", "30");
    assert_eq!(made.status, 200, "{made:?}");
    let secret = value(&made.body, "secret");
    assert!(secret.starts_with("rmx_"), "{secret}");
    let me = with(&house, &secret).get("/me").expect(200).json();
    assert_eq!(me["scopes"], serde_json::json!(["links:read", "links:write"]));
    let list = with(&house, &secret).get("/links").expect(200);
    assert_eq!(list.answer.status, 200);

    let page = open(&mut ann, "/admin/keys");
    assert!(!page.contains(&secret) && page.contains(&secret[..12]) && page.contains("deploys"), "{page}");
    assert!(page.contains("2027-02-14T"), "thirty days after the fifteenth of January: {page}");
    house.stop();
    assert_eq!(files_with(house.place.folder(), &secret[13..]), [""; 0]);
}

/// A browser that reloads the page of a new key sends its form once more.
#[test]
fn a_form_sent_twice_makes_one_key() {
    let (house, mut ann) = house(Preset::Fabric);
    let page = ann.get("/admin/keys");
    let (csrf, newest) = (hidden(&page, "csrf"), hidden(&page, "newest"));
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "deploys"), SCOPES[0], ("days", "30")];
    let made = ann.post("/admin/keys", &fields);
    assert_eq!(made.status, 200, "{made:?}");
    let before = house.actions().len();
    let again = ann.post("/admin/keys", &fields);
    assert_eq!(again.status, 409, "{again:?}");
    assert!(
        again.body.contains("You have made the key “deploys” since") && !again.body.contains("id=\"secret\"")
    );
    assert!(again.body.contains("value=\"deploys\""), "what was typed stays: {again:?}");
    assert_eq!(house.actions().len(), before);
    // Whoever means it sends the form that came back.
    let newest = hidden(&again, "newest");
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "deploys"), SCOPES[0], ("days", "30")];
    assert_eq!(ann.post("/admin/keys", &fields).status, 200);
    // Keys of others are not in the way.
    let mut bob = person(&house, Role::Member, "bob@example.com");
    let page = bob.get("/admin/keys");
    make(&mut ann, "of-ann", "");
    let (csrf, newest) = (hidden(&page, "csrf"), hidden(&page, "newest"));
    let fields =
        [("csrf", csrf.as_str()), ("newest", &newest), ("name", "of-bob"), SCOPES[0], ("days", "30")];
    assert_eq!(bob.post("/admin/keys", &fields).status, 200);
}

#[test]
fn a_key_is_revoked_after_one_question() {
    let (house, mut ann) = house(Preset::Fabric);
    let secret = value(&make(&mut ann, "old", "").body, "secret");
    let id = id(&open(&mut ann, "/admin/keys"), "old");
    let path = format!("/admin/keys/{id}/revoke");
    let asked = send(&mut ann, "/admin/keys", &path, &[]);
    assert!(asked.status == 200 && asked.body.contains("Revoke the key “old”?"), "{asked:?}");
    with(&house, &secret).get("/me").expect(200);
    let done = send_twice(&mut ann, "/admin/keys", &path, &[]);
    assert_eq!((done.status, done.location()), (303, Some("/admin/keys?done=revoked")), "{done:?}");
    with(&house, &secret).get("/me").expect(401);
    let page = open(&mut ann, "/admin/keys?done=revoked");
    assert!(page.contains("The key was revoked") && page.contains(">revoked</td>"), "{page}");
    assert!(!page.contains(&path), "what is over cannot be revoked again: {page}");
}

#[test]
fn a_key_is_replaced_and_the_old_one_lives_a_day() {
    let (house, mut ann) = house(Preset::Fabric);
    let old = value(&make(&mut ann, "runner", "").body, "secret");
    let id = id(&open(&mut ann, "/admin/keys"), "runner");
    let made = send_twice(&mut ann, "/admin/keys", &format!("/admin/keys/{id}/rotate"), &[]);
    assert_eq!(made.status, 200, "{made:?}");
    let new = value(&made.body, "secret");
    assert_ne!(new, old);
    with(&house, &old).get("/me").expect(200);
    house.advance_ms(24 * 3_600_000 + 1);
    with(&house, &old).get("/me").expect(401);
    with(&house, &new).get("/me").expect(200);
    let again = send(&mut ann, "/admin/keys", &format!("/admin/keys/{id}/rotate"), &[("confirmed", "yes")]);
    assert_eq!(again.status, 400, "{again:?}");
}

#[test]
fn what_is_wrong_is_said_beside_the_field_and_what_was_typed_stays() {
    let (house, mut ann) = house(Preset::Fabric);
    let before = house.actions().len();
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
    assert_eq!(house.actions().len(), before);
}

/// S28: a member gives no scope they do not have, and sees only their own keys.
#[test]
fn s28_a_member_keeps_own_keys_and_gives_no_more_than_they_have() {
    let (house, mut ann) = house(Preset::Fabric);
    make(&mut ann, "of-ann", "");
    let mut bob = person(&house, Role::Member, "bob@example.com");
    let refused =
        send(&mut bob, "/admin/keys", "/admin/keys", &[("name", "more"), ("workspace:admin", "on")]);
    assert_eq!(refused.status, 403, "{refused:?}");
    let made = make(&mut bob, "of-bob", "");
    with(&house, &value(&made.body, "secret")).get("/users").expect(403);
    let page = open(&mut bob, "/admin/keys");
    assert!(
        page.contains("of-bob") && !page.contains("of-ann") && !page.contains("workspace:admin"),
        "{page}"
    );
    let page = open(&mut ann, "/admin/keys");
    assert!(page.contains("of-bob") && page.contains("bob@example.com"), "{page}");
}
