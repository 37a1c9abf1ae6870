//! S30: passwords, however they come.

use rlinks_core::{Password, Preset, Role};
use rlinks_ops::Requester;

use super::browser::Browser;
use super::{PASSWORD, ann, member};
use crate::api::caller::at_once;
use crate::api::house::{House, preset};
use crate::support::operator;

fn sign_in(house: &House, email: &str, password: &str) -> crate::client::Answer {
    Browser::new(house.address).sign_in(email, password)
}

#[test]
fn s30_whoever_is_not_let_in_learns_nothing() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    house.user_called(&house.main, Role::Member, "invited@example.com");
    let suspended = member(&house, &house.main, Role::Member, "suspended@example.com");
    let patch = rlinks_ops::members::MemberPatch {
        status: Some(rlinks_core::UserStatus::Suspended),
        ..Default::default()
    };
    let by = Requester::operator(operator());
    house.runtime.block_on(house.ops.change_member(&by, &suspended, &patch)).unwrap();
    let team = house.workspace("team", preset(Preset::Team), &[]);
    member(&house, &team, Role::Admin, "eve@example.com");
    let shown = |workspace: &str, email: &str, password: &str| {
        let answer = Browser::new(house.address).sign_in_to(workspace, email, password);
        // The token of the form and what was typed differ, and nothing else.
        let csrf = super::browser::hidden(&answer, "csrf");
        let typed = |name: &str, value: &str| format!("name=\"{name}\" type=\"email\" value=\"{value}\"");
        let body = answer.body.replace(&csrf, "").replace(&typed("email", email), "");
        (answer.status, body.replace(&format!("value=\"{workspace}\""), ""))
    };
    let wrong = shown("main", "ann@example.com", "not my password!");
    assert_eq!(wrong.0, 401);
    for (workspace, email, password) in [
        ("main", "nobody@example.com", PASSWORD),
        ("main", "suspended@example.com", PASSWORD),
        ("main", "invited@example.com", PASSWORD),
        ("main", "eve@example.com", PASSWORD),
        ("team", "ann@example.com", PASSWORD),
        ("nowhere", "ann@example.com", PASSWORD),
        ("main", "ann@example.com", ""),
        ("main", "ann@example.com", "short"),
        ("main", "ann@example.com", &PASSWORD.to_uppercase()),
        ("main", "ann@example.com", &format!("{PASSWORD}\0")),
        ("main", "ann@example.com", &format!("{PASSWORD}\0more")),
        ("main", "ann@example.com", &"x".repeat(129)),
        ("main", "ann@example.com", &"x".repeat(10_000)),
    ] {
        assert_eq!(shown(workspace, email, password), wrong, "{workspace} {email}");
    }
    assert_eq!(Browser::new(house.address).sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
}

#[test]
fn s30_a_megabyte_is_refused_before_it_is_hashed() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let answer = sign_in(&house, "ann@example.com", &"x".repeat(1 << 20));
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(super::sessions::rows(&house, "select count(*) from attempts"), 0);
}

#[test]
fn s30_one_password_however_a_keyboard_composes_it() {
    let house = House::new(Preset::Fabric);
    let user = ann(&house);
    let by = Requester::operator(operator());
    let composed = "Schl\u{fc}ssel\u{fc}bergabe \u{e9}t\u{e9}";
    let set = house.ops.set_password(&by, &house.main, &user, Password::parse(composed).unwrap());
    house.runtime.block_on(set).unwrap();
    let decomposed = "Schlu\u{308}sselu\u{308}bergabe e\u{301}te\u{301}";
    assert_ne!(composed, decomposed);
    for password in [composed, decomposed] {
        assert_eq!(sign_in(&house, "ann@example.com", password).status, 303, "{password}");
    }
    assert_eq!(sign_in(&house, "ann@example.com", "Schlusselubergabe ete").status, 401);
}

#[test]
fn s30_many_at_once_are_all_answered() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let replies = at_once(24, |number| {
        let answer = sign_in(&house, "ann@example.com", PASSWORD);
        crate::api::caller::Reply { what: format!("sign-in {number}"), answer }
    });
    for reply in &replies {
        assert!(matches!(reply.status(), 303 | 429), "{reply:?}");
        assert_eq!(reply.status() == 429, reply.header("retry-after").is_some(), "{reply:?}");
    }
    assert!(replies.iter().filter(|reply| reply.status() == 303).count() >= 10, "{replies:?}");
}
