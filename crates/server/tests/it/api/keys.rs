//! `/keys`: what a key may do, how long, and what is kept of it.

use std::path::Path;

use rlinks_core::access::api_key::ApiKeySecret;
use rlinks_core::{Preset, Role, Scope, Scopes};
use rlinks_ops::Requester;
use serde_json::{Value, json};

use super::caller::{Caller, Reply};
use super::house::{House, in_house, preset};
use crate::client::wait_until;
use crate::database::{Place, contract};
use crate::support::operator;

contract!(
    a_key_is_shown_once_and_dies_when_it_is_revoked,
    a_key_revoked_by_another_process_is_refused_soon,
    a_rotated_key_lives_on_for_a_day,
    a_suspended_member_is_locked_out_at_once,
    use_is_counted_within_seconds,
);

fn with(house: &House, made: &Value) -> Caller {
    Caller { address: house.address, key: Some(made["key"].as_str().unwrap().to_owned()) }
}

/// Every byte below a folder that holds this text, by file.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            // A file may be gone by now: what is in no file is not kept.
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes())) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

async fn a_key_is_shown_once_and_dies_when_it_is_revoked(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
        let body = json!({"name": "Deploys", "scopes": ["links:read", "links:write"], "expires_at": "2099-01-01"});
        let made = member.post("/keys", &body).expect(201).json();
        let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
        assert!(ApiKeySecret::parse(key).is_some_and(|secret| secret.prefix() == made["prefix"]), "{made}");
        let expected = json!({
            "name": "Deploys", "scopes": ["links:read", "links:write"], "user": member.user_id(), "status": "active",
            "expires_at": "2099-01-01T00:00:00Z", "last_used_at": null, "usage_count": 0,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&made[name], value, "{name}");
        }
        let caller = with(&house, &made);
        let me = caller.get("/me").expect(200).json();
        assert_eq!((&me["key"], &me["scopes"]), (&made["id"], &made["scopes"]));
        assert_eq!(me["user"]["id"], member.user_id());
        caller.post("/links", &json!({"target": "https://example.com/"})).expect(201);
        caller.get("/stats").refused(403, "FORBIDDEN");

        let list = member.get("/keys").expect(200);
        let keys = list.json();
        assert_eq!(keys["data"].as_array().unwrap().len(), 2, "their own: {keys}");
        assert!(!list.answer.body.contains(key) && keys["data"][0].get("key").is_none(), "{keys}");
        assert!(keys["data"].as_array().unwrap().iter().all(|key| key.get("hash").is_none()));

        member.delete(&format!("/keys/{id}")).expect(204);
        caller.get("/me").refused(401, "UNAUTHENTICATED");
        member.delete(&format!("/keys/{id}")).expect(204);
        let keys = member.get("/keys").expect(200).json();
        assert_eq!((&keys["data"][0]["id"], &keys["data"][0]["status"]), (&json!(id), &json!("revoked")));
        member.ask("POST", &format!("/keys/{id}/rotate")).send().refused(400, "VALIDATION_FAILED");
        // The key one calls with, too.
        member.delete(&format!("/keys/{}", member.key_id())).expect(204);
        member.get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

async fn a_key_revoked_by_another_process_is_refused_soon(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let root = house.root();
        root.get("/me").expect(200);
        let by = Requester::operator(operator());
        house.runtime.block_on(house.ops.revoke_key(&by, &house.main, root.key.id)).unwrap();
        wait_until("the feed tells of it", || root.get("/me").status() == 401);
        root.get("/me").refused(401, "UNAUTHENTICATED");
    })
    .await;
}

async fn a_rotated_key_lives_on_for_a_day(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
        let made = member.ask("POST", &format!("/keys/{}/rotate", member.key_id())).send().expect(201).json();
        assert_ne!(made["id"], member.key_id());
        assert_eq!(
            (&made["name"], &made["user"], &made["expires_at"]),
            (&json!("a key"), &json!(member.user_id()), &Value::Null)
        );
        let successor = with(&house, &made);
        successor.get("/me").expect(200);
        member.get("/me").expect(200);
        house.advance_ms(24 * 3_600_000);
        member.get("/me").expect(200);
        house.advance_ms(1);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        successor.get("/me").expect(200);
        let keys = successor.get("/keys").expect(200).json();
        assert_eq!(keys["data"][1]["status"], "expired");
    })
    .await;
}

async fn a_suspended_member_is_locked_out_at_once(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let (admin, member) = (house.admin(), house.member());
        member.post("/links", &json!({"code": "theirs", "target": "https://example.com/"})).expect(201);
        let user = format!("/users/{}", member.user_id());
        admin.patch(&user, &json!({"status": "suspended"})).expect(200);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        assert_eq!(house.visit("/theirs").status, 301, "their links go on");
        admin.patch(&user, &json!({"status": "active"})).expect(200);
        member.get("/me").expect(200);
        // A role is what it is now, whatever the key was made with.
        admin.patch(&user, &json!({"role": "viewer"})).expect(200);
        member.get("/links/theirs").expect(200);
        member.delete("/links/theirs").refused(403, "FORBIDDEN");
        member.get("/keys").refused(403, "FORBIDDEN");
        admin.delete(&user).expect(204);
        member.get("/me").refused(401, "UNAUTHENTICATED");
        assert_eq!(
            house.visit("/theirs").status,
            301,
            "elsewhere than in platform they stay the workspace's"
        );
    })
    .await;
}

async fn use_is_counted_within_seconds(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let (root, reader) = (house.root(), house.reader());
        for _ in 0..3 {
            reader.get("/links").expect(200);
        }
        reader.post("/links", &json!({})).refused(403, "FORBIDDEN");
        let key = || {
            let keys = root.get("/keys").expect(200).json();
            keys["data"].as_array().unwrap().iter().find(|key| key["id"] == reader.key_id()).unwrap().clone()
        };
        wait_until("the use is written", || key()["usage_count"] == 4);
        assert_eq!(key()["last_used_at"], house.now().to_string());
        assert!(!house.actions().iter().any(|action| action == "key.use"), "use is no change");
    })
    .await;
}

#[test]
fn scopes_only_narrow() {
    let house = House::new(Preset::Fabric);
    let (member, admin) = (house.member(), house.admin());
    let make = |caller: &Caller, body: &Value| caller.post("/keys", body);
    let narrow = make(&member, &json!({"name": "n", "scopes": ["links:write"]})).expect(201).json();
    let narrow = with(&house, &narrow);
    make(&narrow, &json!({"name": "wider", "scopes": ["links:read", "links:write"]}))
        .refused(403, "FORBIDDEN");
    make(&narrow, &json!({"name": "same", "scopes": ["links:write"]})).expect(201);
    assert_eq!(
        make(&narrow, &json!({"name": "default"})).expect(201).json()["scopes"],
        json!(["links:write"])
    );
    make(&member, &json!({"name": "x", "scopes": ["workspace:admin"]})).refused(403, "FORBIDDEN");
    make(&member, &json!({"name": "x", "user": admin.user_id()})).refused(403, "FORBIDDEN");
    make(&member, &json!({"name": "x", "user": member.user_id()})).expect(201);

    // An admin makes keys for others, and such a key can do no more than its owner.
    let theirs = make(
        &admin,
        &json!({"name": "for", "user": member.user_id(), "scopes": ["workspace:admin", "links:read"]}),
    )
    .expect(201)
    .json();
    let theirs = with(&house, &theirs);
    assert_eq!(theirs.get("/me").expect(200).json()["scopes"], json!(["links:read"]));
    theirs.get("/users").refused(403, "FORBIDDEN");
    // And a key whose maker may do nothing that keys may do by default can do something or is not made.
    let only_admin = house.key(&house.main, admin.user.as_ref(), Scopes::new(&[Scope::WorkspaceAdmin]));
    assert_eq!(make(&only_admin, &json!({"name": "nothing"})).fields(), ["scopes: required"]);
    make(&only_admin, &json!({"name": "x", "scopes": ["links:read"]})).refused(403, "FORBIDDEN");
    // A key of another is not rotated by who may do less.
    let strong = house.key(&house.main, None, Scopes::ALL);
    only_admin.ask("POST", &format!("/keys/{}/rotate", strong.key_id())).send().refused(403, "FORBIDDEN");

    // No key outlives its maker.
    let until = house.now().plus_ms(3_600_000);
    let short = house.key_until(&house.main, admin.user.as_ref(), Scopes::ALL, Some(until));
    let shorter = make(&short, &json!({"name": "x"})).expect(201).json();
    assert_eq!(shorter["expires_at"], until.to_string());
    let later = json!({"name": "x", "expires_at": until.plus_ms(1000).to_string()});
    assert_eq!(make(&short, &later).fields(), ["expires_at: too_long"]);
    short.ask("POST", &format!("/keys/{}/rotate", admin.key_id())).send().refused(403, "FORBIDDEN");
    short.ask("POST", &format!("/keys/{}/rotate", short.key_id())).send().expect(201);

    // A reader makes none, a viewer keeps none, and a member does not see another's.
    make(&house.reader(), &json!({"name": "x"})).refused(403, "FORBIDDEN");
    make(&house.viewer(), &json!({"name": "x"})).refused(403, "FORBIDDEN");
    house.member().delete(&format!("/keys/{}", member.key_id())).refused(404, "NOT_FOUND");
    house.member().ask("POST", &format!("/keys/{}/rotate", member.key_id())).send().refused(404, "NOT_FOUND");
}

#[test]
fn what_a_key_cannot_be_is_named() {
    let house = House::new(Preset::Fabric);
    let admin = house.admin();
    let refused = |body: Value, fields: &[&str]| {
        let mut found = admin.post("/keys", &body).fields();
        found.sort();
        assert_eq!(found, fields, "{body}");
    };
    refused(json!({}), &["name: required"]);
    refused(json!({"name": ""}), &["name: required"]);
    refused(json!({"name": "x".repeat(101)}), &["name: too_long"]);
    refused(json!({"name": "a\nb"}), &["name: control_character"]);
    refused(json!({"name": 1}), &["name: bad_characters"]);
    refused(json!({"name": "x", "scopes": []}), &["scopes: required"]);
    refused(json!({"name": "x", "scopes": ["links:all"]}), &["scopes: bad_characters"]);
    refused(json!({"name": "x", "scopes": "links:read"}), &["scopes: bad_characters"]);
    refused(json!({"name": "x", "expires_at": "2001-01-01"}), &["expires_at: past"]);
    refused(json!({"name": "x", "expires_at": true}), &["expires_at: not_a_time"]);
    refused(json!({"name": "x", "key": "rmx_mine"}), &["key: unknown_field"]);
    refused(
        json!({"name": "x", "role": "admin", "id": "1", "usage_count": 7}),
        &["id: immutable", "role: unknown_field", "usage_count: unknown_field"],
    );
    admin.post("/keys", &json!({"name": "x", "user": "12345"})).refused(404, "NOT_FOUND");
    assert_eq!(
        admin
            .post("/keys", &json!({"name": "x", "scopes": null, "user": null, "expires_at": null}))
            .expect(201)
            .json()["scopes"],
        json!(["links:read", "links:write"])
    );
}

/// Whatever comes instead of a key is 401, and one that is right but for a letter is no better than one that is wrong.
#[test]
fn nothing_but_a_key_opens_the_door() {
    let house = House::new(Preset::Fabric);
    let root = house.root();
    let secret = root.secret();
    let other = |at: usize| {
        let mut letters = secret.as_bytes().to_vec();
        letters[at] = if letters[at] == b'a' { b'b' } else { b'a' };
        String::from_utf8(letters).unwrap()
    };
    let ask =
        |value: &str| -> Reply { house.anonymous().ask("GET", "/me").header("Authorization", value).send() };
    ask(&format!("Bearer {secret}")).expect(200);
    ask(&format!("bearer {secret}")).expect(200);
    ask(&format!("BEARER  {secret}")).expect(200);
    let wrong = [
        format!("Bearer {}", other(14)),
        format!("Bearer {}", other(secret.len() - 1)),
        format!("Bearer {}", other(5)),
        format!("Bearer {}", &secret[..secret.len() - 1]),
        format!("Bearer {secret}x"),
        format!("Bearer {}", &secret[..12]),
        format!("Basic {secret}"),
        secret.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer null".to_owned(),
        format!("Bearer {secret} {secret}"),
        format!("Bearer \"{secret}\""),
        format!("Bearer {secret},"),
        "Bearer ' OR 1=1 --".to_owned(),
        format!("Bearer {}", "x".repeat(10_000)),
        "Bearer \u{e4}\u{f6}".to_owned(),
    ];
    for value in &wrong {
        ask(value).refused(401, "UNAUTHENTICATED");
    }
    let twice = house.anonymous().ask("GET", "/me").header("Authorization", &format!("Bearer {secret}"));
    twice.header("Authorization", &format!("Bearer {secret}")).send().refused(401, "UNAUTHENTICATED");
    // Nowhere else either.
    house
        .anonymous()
        .ask("GET", "/me")
        .header("Cookie", &format!("key={secret}"))
        .send()
        .refused(401, "UNAUTHENTICATED");
    house.anonymous().get(&format!("/me?key={secret}")).refused(401, "UNAUTHENTICATED");
    // A megabyte of it is more than a head may have.
    let huge = house
        .anonymous()
        .ask("GET", "/me")
        .header("Authorization", &format!("Bearer {}", "x".repeat(1 << 20)));
    let answer = huge.send_unchecked().answer;
    assert!([401, 431, 0].contains(&answer.status), "{}", answer.status);
    ask(&format!("Bearer {secret}")).expect(200);
}

/// Whoever reads the disk or the database finds hashes.
#[test]
fn no_file_holds_a_key_or_an_invitation() {
    let mut house = House::new(Preset::Fabric);
    let admin = house.admin();
    let made = admin.post("/keys", &json!({"name": "seen once"})).expect(201).json();
    let rotated = admin.ask("POST", &format!("/keys/{}/rotate", admin.key_id())).send().expect(201).json();
    let invited = admin.post("/users", &json!({"email": "new@example.com"})).expect(201).json();
    let token = invited["invite_url"].as_str().unwrap().rsplit('/').next().unwrap();
    assert_eq!(token.len(), 43, "{invited}");
    with(&house, &made).post("/links", &json!({"target": "https://example.com/"})).expect(201);
    let folder = house.place.folder().to_owned();
    assert!(!files_with(&folder, made["prefix"].as_str().unwrap()).is_empty(), "the prefix is kept");
    let secrets = [made["key"].as_str().unwrap(), rotated["key"].as_str().unwrap(), admin.secret(), token];
    for stopped in [false, true] {
        if stopped {
            house.stop();
        }
        for secret in secrets {
            assert_eq!(files_with(&folder, secret), [""; 0]);
            assert_eq!(files_with(&folder, &secret[secret.len() - 43..]), [""; 0], "nor its random part");
        }
    }
}

#[test]
fn a_key_of_a_workspace_that_takes_no_keys_is_none() {
    let mut policy = preset(Preset::Fabric);
    let house = House::at(Place::sqlite(), policy.clone(), |_| ());
    let member = house.member();
    member.get("/me").expect(200);
    policy.sign_in.retain(|way| *way != rlinks_core::workspace::policy::SignInMethod::Keys);
    house.workspace("main", policy, &[]);
    wait_until("the feed tells of it", || member.get("/me").status() == 401);
    member.get("/me").refused(401, "UNAUTHENTICATED");
    assert_eq!(house.person(&house.main, Role::Admin).get("/me").status(), 401);
}
