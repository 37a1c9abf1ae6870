//! Who may open what. The same rules as the API's, seen from the pages.

use rlinks_core::{Preset, Role};

use super::{open, person, server_with_admin};
use crate::support::browser::Browser;

/// Pages, and whether a viewer, a member and an admin may open them.
const PAGES: &[(&str, [bool; 3])] = &[
    ("/admin/stats", [true, true, true]),
    ("/admin/import", [true, true, true]),
    ("/admin/export?format=jsonl", [true, true, true]),
    ("/admin/account", [true, true, true]),
    ("/admin/keys", [false, true, true]),
    ("/admin/members", [false, false, true]),
    ("/admin/domains", [false, false, true]),
    ("/admin/policy", [false, false, true]),
    ("/admin/audit", [false, false, true]),
    ("/admin/audit/export", [false, false, true]),
];

/// Forms, and whether the same may send them: whoever may not is told 403, whatever the form says.
const FORMS: &[(&str, [bool; 3])] = &[
    ("/admin/keys", [false, true, true]),
    ("/admin/keys/1/revoke", [false, true, true]),
    ("/admin/keys/1/rotate", [false, true, true]),
    ("/admin/members", [false, false, true]),
    ("/admin/members/1/invite", [false, false, true]),
    ("/admin/members/1/sessions/end", [false, false, true]),
    ("/admin/members/1/sessions/x/end", [false, false, true]),
    ("/admin/members/1/role", [false, false, true]),
    ("/admin/members/1/suspend", [false, false, true]),
    ("/admin/members/1/activate", [false, false, true]),
    ("/admin/members/1/delete", [false, false, true]),
    ("/admin/domains", [false, false, true]),
    ("/admin/domains/rmax.to/primary", [false, false, true]),
    ("/admin/domains/rmax.to/remove", [false, false, true]),
    ("/admin/policy", [false, false, true]),
    ("/admin/workspace/name", [false, false, true]),
];

#[test]
fn each_role_can_open_only_its_pages() {
    let (server, admin) = server_with_admin(Preset::Fabric);
    let viewer = person(&server, Role::Viewer, "viewer@example.com");
    let member = person(&server, Role::Member, "member@example.com");
    let before = server.actions().len();
    for (at, mut browser) in [viewer, member, admin].into_iter().enumerate() {
        let csrf = browser.token("/admin/account");
        let places = open(&mut browser, "/admin/account");
        for (path, may) in PAGES {
            let answer = browser.get(path);
            assert_eq!(answer.status, if may[at] { 200 } else { 403 }, "{path} {at}: {answer:?}");
            if !path.contains("export") {
                let shown = places.contains(&format!("href=\"{path}\""));
                assert_eq!(shown, may[at], "{path} in the navigation of {at}");
            }
        }
        for (path, may) in FORMS {
            let answer = browser.post(path, &[("csrf", &csrf)]);
            assert_eq!(answer.status == 403, !may[at], "{path} {at}: {answer:?}");
            assert!(answer.status < 500, "{path} {at}: {answer:?}");
        }
        let form = open(&mut browser, "/admin/import");
        assert_eq!(form.contains("type=\"file\""), at > 0, "{form}");
    }
    // The admin's empty forms made one domain the primary one it was already, and nothing else.
    assert_eq!(server.actions()[before..], [] as [String; 0]);
}

#[test]
fn pages_require_sign_in() {
    let (server, _) = server_with_admin(Preset::Fabric);
    let mut browser = Browser::new(server.address);
    for (path, _) in PAGES {
        let answer = browser.get(path);
        assert_eq!(answer.status, 303, "{path}: {answer:?}");
        assert!(answer.location().unwrap().starts_with("/admin/login?next=%2Fadmin%2F"), "{answer:?}");
    }
    for (path, _) in FORMS {
        let answer = browser.post(path, &[]);
        assert_eq!(answer.status, 303, "{path}: {answer:?}");
        let to = answer.location().unwrap().split('?').next();
        assert_eq!(to, Some("/admin/login"), "{path}");
    }
}

/// Hostile inputs, S23.
///
/// Every form needs the token of its session, and comes from our own pages.
#[test]
fn form_without_csrf_token_is_refused() {
    let (server, mut admin) = server_with_admin(Preset::Fabric);
    let csrf = admin.token("/admin/account");
    let before = server.actions().len();
    let own = [
        "/admin/account/name",
        "/admin/account/sign-out-others",
        "/admin/account/sessions/x/end",
        "/admin/account/sign-in-reset-seen",
        "/admin/account/delete",
        "/admin/notices/dismiss",
    ];
    let fields = |csrf: &'static str| {
        [
            ("csrf", csrf),
            ("confirmed", "yes"),
            ("name", "x"),
            ("links:read", "on"),
            ("email", "ann@example.com"),
        ]
    };
    for path in FORMS.iter().map(|(path, _)| *path).chain(own) {
        assert_eq!(admin.post(path, &fields("")[1..]).status, 403, "{path}");
        assert_eq!(admin.post(path, &fields("0123")).status, 403, "{path}");
        let elsewhere = [("Sec-Fetch-Site", "cross-site")];
        let real =
            [("csrf", csrf.as_str()), ("confirmed", "yes"), ("name", "x"), ("email", "ann@example.com")];
        assert_eq!(admin.post_with(path, &real, &elsewhere).status, 403, "{path}");
    }
    assert_eq!(server.actions().len(), before);
    assert!(admin.is_signed_in());
}

/// What changes something is never done by following a link.
#[test]
fn get_requests_change_nothing() {
    let (server, mut admin) = server_with_admin(Preset::Fabric);
    let before = server.actions().len();
    for path in [
        "/admin/keys/1/revoke",
        "/admin/members/1/delete?confirmed=yes",
        "/admin/domains/rmax.to/remove?confirmed=yes",
    ] {
        assert_eq!(admin.get(path).status, 405, "{path}");
    }
    assert_eq!(server.actions().len(), before);
}

/// Hostile inputs, S26.
///
/// What another workspace has is not there.
#[test]
fn ids_of_another_workspace_are_404() {
    let (server, mut admin) = server_with_admin(Preset::Fabric);
    let other =
        server.workspace("other", crate::support::members::preset(Preset::Fabric), &["other.example"]);
    let theirs = server.person(&other, Role::Admin);
    let csrf = admin.token("/admin/account");
    let (user, key) = (theirs.user_id(), theirs.key_id());
    let paths = [
        format!("/admin/keys/{key}/revoke"),
        format!("/admin/keys/{key}/rotate"),
        format!("/admin/members/{user}/invite"),
        format!("/admin/members/{user}/suspend"),
        format!("/admin/members/{user}/activate"),
        format!("/admin/members/{user}/delete"),
        format!("/admin/members/{user}/role"),
        "/admin/domains/other.example/primary".to_owned(),
        "/admin/domains/other.example/remove".to_owned(),
    ];
    for path in paths {
        for confirmed in ["", "yes"] {
            let fields = [("csrf", csrf.as_str()), ("confirmed", confirmed), ("role", "viewer")];
            assert_eq!(admin.post(&path, &fields).status, 404, "{path} {confirmed}");
        }
    }
    theirs.get("/me").expect(200);
    for path in ["/admin/members", "/admin/keys", "/admin/domains", "/admin/audit"] {
        let page = open(&mut admin, path);
        assert!(!page.contains("other.example") && !page.contains(&user) && !page.contains(&key), "{page}");
    }
    // A member's keys are theirs: another's is not there, not even an admin's of the same workspace.
    let mut member = person(&server, Role::Member, "member@example.com");
    let csrf = member.token("/admin/keys");
    let key = server.admin().key_id();
    assert_eq!(
        member.post(&format!("/admin/keys/{key}/revoke"), &[("csrf", &csrf), ("confirmed", "yes")]).status,
        404
    );
}
