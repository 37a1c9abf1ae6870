//! Hostile inputs, S30: passwords, however they come.

use rlinks_core::{Password, Preset, Role};

use crate::support::api_client::at_once;
use crate::support::browser::Browser;
use crate::support::members::{PASSWORD, TestServer, ann, member, preset};
use crate::support::server::operator_in;

fn sign_in(server: &TestServer, email: &str, password: &str) -> crate::support::raw_client::Response {
    Browser::new(server.address).sign_in(email, password)
}

/// Hostile inputs, S30.
#[test]
fn login_failure_responses_are_identical() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    server.user_with_email(&server.main, Role::Member, "invited@example.com");
    let suspended = member(&server, &server.main, Role::Member, "suspended@example.com");
    let patch = rlinks_ops::members::MemberPatch {
        status: Some(rlinks_core::UserStatus::Suspended),
        ..Default::default()
    };
    let by = operator_in(&server.main);
    server.runtime.block_on(server.ops.change_member(&by, &suspended, &patch)).unwrap();
    let team = server.workspace("team", preset(Preset::Team), &[]);
    member(&server, &team, Role::Admin, "eve@example.com");
    server.workspace("passwordless", preset(Preset::Platform), &[]);
    let shown = |workspace: &str, email: &str, password: &str| {
        let answer = Browser::new(server.address).sign_in_to(workspace, email, password);
        // The token of the form and what was typed differ, and nothing else.
        let csrf = crate::support::browser::hidden(&answer, "csrf");
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
        ("passwordless", "ann@example.com", PASSWORD),
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
    assert_eq!(Browser::new(server.address).sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
}

/// Hostile inputs, S30.
#[test]
fn oversized_password_is_refused_before_hashing() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let answer = sign_in(&server, "ann@example.com", &"x".repeat(1 << 20));
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(super::sessions::rows(&server, "select count(*) from attempts"), 0);
}

/// Hostile inputs, S30.
#[test]
fn unicode_forms_of_one_password_are_accepted() {
    let server = TestServer::new(Preset::Fabric);
    let user = ann(&server);
    let by = operator_in(&server.main);
    let composed = "Schl\u{fc}ssel\u{fc}bergabe \u{e9}t\u{e9}";
    let set = server.ops.set_password(&by, &user, Password::parse(composed).unwrap());
    server.runtime.block_on(set).unwrap();
    let decomposed = "Schlu\u{308}sselu\u{308}bergabe e\u{301}te\u{301}";
    assert_ne!(composed, decomposed);
    for password in [composed, decomposed] {
        assert_eq!(sign_in(&server, "ann@example.com", password).status, 303, "{password}");
    }
    assert_eq!(sign_in(&server, "ann@example.com", "Schlusselubergabe ete").status, 401);
}

/// Hostile inputs, S30.
#[test]
fn concurrent_sign_ins_are_all_answered() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let replies = at_once(24, |number| {
        let answer = sign_in(&server, "ann@example.com", PASSWORD);
        crate::support::api_client::ApiResponse { what: format!("sign-in {number}"), answer }
    });
    for reply in &replies {
        assert!(matches!(reply.status(), 303 | 429), "{reply:?}");
        assert_eq!(reply.status() == 429, reply.header("retry-after").is_some(), "{reply:?}");
    }
    assert!(replies.iter().filter(|reply| reply.status() == 303).count() >= 10, "{replies:?}");
}

/// Passwords set before there was a rule stay good.
#[test]
fn guessable_password_is_refused_when_set_and_accepted_at_sign_in() {
    let server = TestServer::new(Preset::Fabric);
    let user = ann(&server);
    let by = operator_in(&server.main);
    let mut browser = Browser::new(server.address);
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
    for guessable in ["password1234", "qwertyuiop123", "ann-example-ann", "AnnExample12"] {
        let set = server.ops.set_password(&by, &user, Password::parse(guessable).unwrap());
        let error = server.runtime.block_on(set).unwrap_err().to_string();
        assert!(error.contains("too easy to guess"), "{guessable}: {error}");
        let csrf = browser.token("/admin/account");
        let fields = [("csrf", csrf.as_str()), ("old_password", PASSWORD), ("password", guessable)];
        let refused = browser.post("/admin/account/password", &fields);
        assert_eq!(refused.status, 400, "{guessable}: {refused:?}");
        assert!(refused.body.contains("too easy to guess"), "{guessable}: {refused:?}");
    }
    assert_eq!(sign_in(&server, "ann@example.com", PASSWORD).status, 303, "nothing changed");

    // Argon2id of "password1234", as an earlier version stored it.
    let earlier =
        "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$tWXdvtNqivkYaN5HNYhq3pbK5/4XZIz5jb8mzWb+moE";
    let set = server.store().set_password(&user, earlier, None, None, &by.actor, server.now());
    server.runtime.block_on(set).unwrap();
    assert_eq!(sign_in(&server, "ann@example.com", "password1234").status, 303);
}
